/* Records the MPI calls of a program as the CSV that `walltime phases find` reads.
 *
 * Build:  make collector      (needs mpicc; makes build/libwalltime_mpi_trace.so)
 * Use:    WALLTIME_TRACE=run.csv LD_PRELOAD=build/libwalltime_mpi_trace.so mpirun -n 8 ./program
 *         (on several nodes: mpirun -x LD_PRELOAD=/path/of/the/library -x WALLTIME_TRACE=run.csv ...),
 *         or link the program with -lwalltime_mpi_trace before the MPI library.
 *
 * WALLTIME_TRACE is the file that rank 0 writes in MPI_Finalize; walltime-trace.csv where it is not set. A program that
 * ends without MPI_Finalize leaves no file, because a part of a trace could pass for a whole one.
 *
 * Columns: rank, seq, op, peer, tag, count, bytes, t_start, t_end, communicator.
 * Ranks are those of MPI_COMM_WORLD. Times are seconds by the clock of rank 0: the offsets of the clocks of other hosts
 * are measured at both ends of the run, and their drift is taken as linear. Zero is the first end of an MPI_Init, whose
 * row has no duration: what comes before belongs to the launcher. The communicator is empty for MPI_COMM_WORLD.
 * A wait or test names its request as source>destination. Tests that find nothing complete are not recorded: their
 * number depends on the machine. An MPI_Waitall that leaves receives open has one row for each request that it completes,
 * otherwise one row without a peer. A message of MPI_PROC_NULL is no message, and has no row. MPI_Sendrecv has a row of
 * its own where both tags are equal and both peers exist, otherwise rows of MPI_Send and MPI_Recv.
 *
 * Not recorded: MPI_Mrecv and MPI_Imrecv, one-sided communication, files, and calls from Fortran under Open MPI, whose
 * Fortran library calls PMPI_ functions, which no library of this kind sees. Records take 56 bytes a call in an
 * unlinked file of TMPDIR, beside a buffer of 224 KiB a rank.
 */

#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { NONE = INT32_MIN, ANY = -1, WORLD = -1, UNKNOWN = -2 };
enum { BUFFERED = 4096, BUCKET_BITS = 12, PINGS = 32, NAME = 32, MAX_OPS = 256, CHUNK = 1 << 20, ROW = 256 };

typedef struct { /* one call; `first` and `second` are the ranks before and after the sign > of a peer */
    double start, end;
    int64_t count, bytes;
    int32_t op, first, second, tag, comm, unused;
} Record;

typedef struct { /* a communicator: its number in `names`, and the ranks of MPI_COMM_WORLD of its peers */
    int32_t name;
    int n_peers;
    int *world; /* NULL: the same ranks */
} Comm;

typedef struct Pending { /* a request that is not complete, or a persistent one */
    MPI_Request request;
    struct Pending *next;
    const Comm *comm;
    int64_t record, count, bytes; /* `record` is the call that posted it */
    int32_t source, destination, tag;
    int is_receive, is_persistent, is_active;
} Pending;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Record buffer[BUFFERED];
static int64_t n_records;
static int n_buffered, spool = -1, is_on, world_rank, world_size, keyval = MPI_KEYVAL_INVALID, n_ops, n_names, n_made;
static int n_open_receives;
static const char *ops[MAX_OPS];
static char (*names)[NAME];
static Pending *buckets[1 << BUCKET_BITS];
static const Comm world_comm = {WORLD, 0, NULL}, unknown_comm = {UNKNOWN, 0, NULL};
static MPI_Comm tool_comm;
static double init_s, first_offset_s, first_offset_at_s;

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static void die(const char *why) {
    fprintf(stderr, "walltime: rank %d cannot record MPI calls: %s.\n", world_rank, why);
    PMPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

static void *must(void *memory) {
    if (!memory) die("no memory is left");
    return memory;
}

/* ---- Records: a buffer before an unlinked file ---- */

static void open_spool(void) {
    char path[4096];
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/walltime-trace-XXXXXX", folder && *folder ? folder : "/tmp");
    spool = mkstemp(path);
    if (spool < 0) die("no file can be made in TMPDIR");
    unlink(path);
}

static void flush_buffer(void) {
    const char *from = (const char *)buffer;
    size_t left = sizeof(Record) * (size_t)n_buffered;
    while (left) {
        ssize_t written = write(spool, from, left);
        if (written <= 0) die("the disk of TMPDIR is full");
        from += written;
        left -= (size_t)written;
    }
    n_buffered = 0;
}

static int32_t op_number(const char *name) {
    int32_t i = 0;
    while (i < n_ops && strcmp(ops[i], name)) i++;
    if (i == n_ops) ops[n_ops++] = name;
    return i;
}

/* Adds a call that ends now, and gives its number. */
static int64_t add(const char *op, double start, double end, int first, int second, int tag, int64_t count,
                   int64_t bytes, const Comm *comm) {
    if (!is_on) return -1;
    pthread_mutex_lock(&lock);
    if (n_buffered == BUFFERED) flush_buffer();
    buffer[n_buffered++] = (Record){start, end, count, bytes, op_number(op), first, second, tag, comm->name, 0};
    int64_t number = n_records++;
    pthread_mutex_unlock(&lock);
    return number;
}

/* Writes the source and tag of a message into the call that posted its receive with a wildcard. The lock is held. */
static void settle(int64_t number, int source, int tag) {
    Record stored, *record = &stored;
    int64_t first = n_records - n_buffered;
    off_t at = (off_t)number * (off_t)sizeof stored;
    if (number < 0) return;
    if (number >= first) record = &buffer[number - first];
    else if (pread(spool, record, sizeof stored, at) != (ssize_t)sizeof stored) die("its file in TMPDIR is damaged");
    record->first = source;
    record->tag = tag;
    if (number < first && pwrite(spool, record, sizeof stored, at) != (ssize_t)sizeof stored) die("TMPDIR is full");
}

static int64_t bytes_of(int64_t count, MPI_Datatype type) {
    int size = MPI_UNDEFINED;
    if (type == MPI_DATATYPE_NULL || count < 0) return NONE;
    PMPI_Type_size(type, &size);
    return size == MPI_UNDEFINED ? NONE : count * size;
}

/* ---- Communicators ---- */

static const Comm *remember_comm(MPI_Comm comm, MPI_Group group, const char *name) {
    Comm *known = must(calloc(1, sizeof *known)); /* never freed: open requests may outlive their communicator */
    MPI_Group world;
    PMPI_Group_size(group, &known->n_peers);
    known->world = must(malloc(sizeof(int) * (size_t)(known->n_peers + 1)));
    int *own = must(malloc(sizeof(int) * (size_t)(known->n_peers + 1)));
    for (int i = 0; i < known->n_peers; i++) own[i] = i;
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    PMPI_Group_translate_ranks(group, known->n_peers, own, world, known->world);
    PMPI_Group_free(&world);
    free(own);
    pthread_mutex_lock(&lock);
    names = must(realloc(names, sizeof *names * (size_t)(n_names + 1)));
    snprintf(names[n_names], NAME, "%s", name);
    known->name = n_names++;
    pthread_mutex_unlock(&lock);
    PMPI_Comm_set_attr(comm, keyval, known);
    return known;
}

/* Gives a new communicator a name that its members share: the world rank of one of them, and that one's count. */
static void name_comm(MPI_Comm comm) {
    int is_inter, made[2] = {world_rank, n_made};
    char name[NAME];
    MPI_Comm all = comm;
    MPI_Group group;
    if (!is_on || comm == MPI_COMM_NULL) return;
    n_made++;
    PMPI_Comm_test_inter(comm, &is_inter);
    if (is_inter) PMPI_Intercomm_merge(comm, 0, &all);
    PMPI_Bcast(made, 2, MPI_INT, 0, all);
    if (is_inter) PMPI_Comm_free(&all);
    is_inter ? PMPI_Comm_remote_group(comm, &group) : PMPI_Comm_group(comm, &group);
    snprintf(name, sizeof name, "c%d.%d", made[0], made[1]);
    remember_comm(comm, group, name);
    PMPI_Group_free(&group);
}

static const Comm *comm_of(MPI_Comm comm) {
    void *known = NULL;
    int is_known = 0;
    if (comm == MPI_COMM_WORLD || comm == MPI_COMM_NULL || !is_on) return &world_comm;
    PMPI_Comm_get_attr(comm, keyval, &known, &is_known);
    return is_known ? known : &unknown_comm;
}

static int world_of(const Comm *comm, int rank) {
    if (rank == MPI_ANY_SOURCE) return ANY;
    if (rank < 0) return NONE;
    if (comm->name == WORLD) return rank;
    return rank < comm->n_peers ? comm->world[rank] : NONE;
}

/* ---- Requests ---- */

static Pending **bucket_of(MPI_Request request) {
    uint64_t key = 0;
    memcpy(&key, &request, sizeof request);
    return &buckets[(key * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - BUCKET_BITS)];
}

/* The oldest request of a handle: Open MPI gives one handle to all sends that are complete when they are posted. */
static Pending **place_of(MPI_Request request) {
    Pending **at = bucket_of(request);
    while (*at && memcmp(&(*at)->request, &request, sizeof request)) at = &(*at)->next;
    return at;
}

static void forget(Pending **at) {
    Pending *old = *at;
    n_open_receives -= old->is_receive && old->is_active;
    *at = old->next;
    free(old);
}

static void post(MPI_Request request, Pending what) {
    if (!is_on || request == MPI_REQUEST_NULL) return;
    Pending *kept = must(malloc(sizeof *kept));
    pthread_mutex_lock(&lock);
    Pending **at = bucket_of(request);
    while (*at) at = &(*at)->next;
    *kept = what;
    kept->request = request;
    kept->next = NULL;
    *at = kept;
    n_open_receives += what.is_receive && what.is_active;
    pthread_mutex_unlock(&lock);
}

/* Marks a request as complete; 0 where it is none of ours, as those of collectives are. */
static int complete(MPI_Request request, const MPI_Status *status, Pending *found) {
    pthread_mutex_lock(&lock);
    Pending **at = place_of(request);
    int is_ours = request != MPI_REQUEST_NULL && *at && (*at)->is_active;
    if (is_ours) {
        *found = **at;
        if (found->is_receive && (found->source == ANY || found->tag == MPI_ANY_TAG)) {
            found->source = found->source == ANY ? world_of(found->comm, status->MPI_SOURCE) : found->source;
            found->tag = status->MPI_TAG;
            settle(found->record, found->source, found->tag);
        }
        n_open_receives -= found->is_receive;
        (*at)->is_active = 0;
        if (!found->is_persistent) forget(at);
    }
    pthread_mutex_unlock(&lock);
    return is_ours;
}

static void add_completion(const char *op, double start, double end, const Pending *done) {
    add(op, start, end, done->source, done->destination, done->tag, NONE, NONE, done->comm);
}

/* The row of a wait or test that completed one request. */
static void one_done(const char *op, double start, MPI_Request request, const MPI_Status *status) {
    Pending done;
    if (complete(request, status, &done)) add_completion(op, start, now(), &done);
    else if (request != MPI_REQUEST_NULL) add(op, start, now(), NONE, NONE, NONE, NONE, NONE, &world_comm);
}

/* The rows of a call that completed some requests, of which `which` gives the places (NULL: all). */
static void many_done(const char *op, double start, int n, const int *which, const MPI_Request *requests,
                      const MPI_Status *statuses, int may_be_unnamed) {
    Pending *done = must(malloc(sizeof *done * (size_t)(n + 1)));
    double end = now();
    int n_done = 0, n_active = 0;
    for (int i = 0; i < n; i++) {
        MPI_Request request = requests[which ? which[i] : i];
        n_active += request != MPI_REQUEST_NULL;
        n_done += complete(request, &statuses[i], &done[n_done]);
    }
    if (may_be_unnamed && n_active && n_open_receives == 0)
        add(op, start, end, NONE, NONE, NONE, NONE, NONE, &world_comm);
    else
        for (int i = 0; i < n_done; i++) add_completion(op, i ? end : start, end, &done[i]);
    free(done);
}

static MPI_Request *copy_of(const MPI_Request *requests, int n) {
    MPI_Request *copy = must(malloc(sizeof *copy * (size_t)(n + 1)));
    memcpy(copy, requests, sizeof *copy * (size_t)n);
    return copy;
}

/* ---- The ends of a run: clocks, and the file ---- */

/* What to add to the clock of this rank to have that of rank 0: the quickest of some exchanges of messages. */
static double clock_offset(void) {
    char own[MPI_MAX_PROCESSOR_NAME] = "", theirs[MPI_MAX_PROCESSOR_NAME];
    double offset = 0, quickest = 1e9, zero = 0;
    int length;
    PMPI_Get_processor_name(own, &length);
    memcpy(theirs, own, sizeof own);
    PMPI_Bcast(theirs, sizeof theirs, MPI_CHAR, 0, tool_comm);
    for (int other = 1; other < world_size; other++)
        for (int i = 0; i < PINGS; i++) {
            if (world_rank == 0) {
                PMPI_Recv(&zero, 1, MPI_DOUBLE, other, 0, tool_comm, MPI_STATUS_IGNORE);
                zero = now();
                PMPI_Send(&zero, 1, MPI_DOUBLE, other, 0, tool_comm);
            } else if (world_rank == other) {
                double sent = now(), back;
                PMPI_Send(&sent, 1, MPI_DOUBLE, 0, 0, tool_comm);
                PMPI_Recv(&zero, 1, MPI_DOUBLE, 0, 0, tool_comm, MPI_STATUS_IGNORE);
                back = now();
                if (back - sent < quickest) quickest = back - sent, offset = zero - (sent + back) / 2;
            }
        }
    return strcmp(own, theirs) ? offset : 0; /* one host has one clock */
}

static void start_recording(void) {
    PMPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &world_size);
    PMPI_Comm_dup(MPI_COMM_WORLD, &tool_comm);
    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
    open_spool();
    first_offset_at_s = now();
    first_offset_s = clock_offset();
    is_on = 1;
    MPI_Group self;
    char name[NAME];
    snprintf(name, sizeof name, "self%d", world_rank);
    PMPI_Comm_group(MPI_COMM_SELF, &self);
    remember_comm(MPI_COMM_SELF, self, name);
    PMPI_Group_free(&self);
    PMPI_Barrier(tool_comm);
    init_s = now();
    add("MPI_Init", init_s, init_s, NONE, NONE, NONE, NONE, NONE, &world_comm);
}

static int put_number(char *to, int64_t value) {
    return value == NONE ? sprintf(to, ",") : sprintf(to, "%lld,", (long long)value);
}

static int put_row(char *to, int64_t seq, const Record *r, double drift, double origin) {
    double start = r->start + first_offset_s + drift * (r->start - first_offset_at_s) - origin;
    double end = r->end + first_offset_s + drift * (r->end - first_offset_at_s) - origin;
    const char *comm = r->comm >= 0 ? names[r->comm] : r->comm == UNKNOWN ? "unknown" : "";
    char *at = to + sprintf(to, "%d,%lld,%s,", world_rank, (long long)seq, ops[r->op]);
    if (r->first != NONE && r->second != NONE) at += sprintf(at, "%d>%d,", r->first, r->second);
    else at += put_number(at, r->first != NONE ? r->first : r->second);
    at += put_number(at, r->tag);
    at += put_number(at, r->count);
    at += put_number(at, r->bytes);
    return (int)(at - to) + sprintf(at, "%.9f,%.9f,%s\n", start, end, comm);
}

/* Rank 0 writes text to the file; another rank sends it there. An empty text ends the rank's part. */
static void hand_over(FILE *file, const char *text, int length) {
    if (world_rank == 0) {
        if (fwrite(text, 1, (size_t)length, file) != (size_t)length) die("the file of WALLTIME_TRACE cannot be written");
    } else {
        PMPI_Send(&length, 1, MPI_INT, 0, 1, tool_comm);
        if (length) PMPI_Send(text, length, MPI_CHAR, 0, 2, tool_comm);
    }
}

static void write_own(FILE *file, double drift, double origin) {
    char *text = must(malloc(CHUNK + ROW));
    int length = 0, n = 0;
    int64_t seq = 0;
    flush_buffer();
    lseek(spool, 0, SEEK_SET);
    while (seq < n_records) {
        n = (int)(n_records - seq < BUFFERED ? n_records - seq : BUFFERED);
        if (pread(spool, buffer, sizeof(Record) * (size_t)n, (off_t)seq * (off_t)sizeof(Record)) !=
            (ssize_t)(sizeof(Record) * (size_t)n))
            die("its file in TMPDIR is damaged");
        for (int i = 0; i < n; i++, seq++) {
            length += put_row(text + length, seq, &buffer[i], drift, origin);
            if (length >= CHUNK) hand_over(file, text, length), length = 0;
        }
    }
    if (length) hand_over(file, text, length);
    if (world_rank) hand_over(file, text, 0);
    free(text);
}

static void write_others(FILE *file) {
    char *text = must(malloc(CHUNK + ROW));
    for (int other = 1; other < world_size; other++)
        for (int length = 1; length;) {
            PMPI_Recv(&length, 1, MPI_INT, other, 1, tool_comm, MPI_STATUS_IGNORE);
            if (!length) break;
            PMPI_Recv(text, length, MPI_CHAR, other, 2, tool_comm, MPI_STATUS_IGNORE);
            hand_over(file, text, length);
        }
    free(text);
}

static void write_trace(double drift, double origin) {
    const char *path = getenv("WALLTIME_TRACE");
    char part[4096];
    FILE *file = NULL;
    path = path && *path ? path : "walltime-trace.csv";
    snprintf(part, sizeof part, "%s.part", path);
    if (world_rank == 0) {
        file = fopen(part, "w");
        if (!file) die("the file of WALLTIME_TRACE cannot be opened");
        fputs("rank,seq,op,peer,tag,count,bytes,t_start,t_end,communicator\n", file);
    }
    write_own(file, drift, origin);
    if (world_rank) return;
    write_others(file);
    if (fclose(file) || rename(part, path)) die("the file of WALLTIME_TRACE cannot be written");
}

static void stop_recording(void) {
    double at = now(), drift = 0, origin;
    add("MPI_Finalize", at, at, NONE, NONE, NONE, NONE, NONE, &world_comm);
    is_on = 0;
    PMPI_Barrier(tool_comm);
    double offset = clock_offset();
    if (at > first_offset_at_s) drift = (offset - first_offset_s) / (at - first_offset_at_s);
    origin = init_s + first_offset_s + drift * (init_s - first_offset_at_s);
    PMPI_Allreduce(MPI_IN_PLACE, &origin, 1, MPI_DOUBLE, MPI_MIN, tool_comm);
    write_trace(drift, origin);
    close(spool);
    PMPI_Comm_free(&tool_comm);
}

int MPI_Init(int *argc, char ***argv) {
    int rc = PMPI_Init(argc, argv);
    if (rc == MPI_SUCCESS) start_recording();
    return rc;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    int rc = PMPI_Init_thread(argc, argv, required, provided);
    if (rc == MPI_SUCCESS) start_recording();
    return rc;
}

int MPI_Finalize(void) {
    stop_recording();
    return PMPI_Finalize();
}

/* ---- Messages ---- */

#define SEND(NAME)                                                                                                    \
    int MPI_##NAME(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {                  \
        double start = now();                                                                                         \
        int rc = PMPI_##NAME(data, count, type, to, tag, comm);                                                       \
        const Comm *known = comm_of(comm);                                                                            \
        if (to != MPI_PROC_NULL)                                                                                      \
            add("MPI_" #NAME, start, now(), NONE, world_of(known, to), tag, count, bytes_of(count, type), known);     \
        return rc;                                                                                                    \
    }
SEND(Send) SEND(Ssend) SEND(Bsend) SEND(Rsend)

static void posted_send(const char *op, double start, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                        MPI_Request request, int is_persistent) {
    const Comm *known = comm_of(comm);
    Pending what = {.comm = known, .count = count, .bytes = bytes_of(count, type), .source = world_rank, .tag = tag,
                    .destination = world_of(known, to), .is_persistent = is_persistent, .is_active = !is_persistent};
    if (to == MPI_PROC_NULL) return;
    if (!is_persistent) add(op, start, now(), NONE, what.destination, tag, count, what.bytes, known);
    post(request, what);
}

static void posted_receive(double start, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
                           MPI_Request request, int is_persistent) {
    const Comm *known = comm_of(comm);
    Pending what = {.comm = known, .count = count, .bytes = bytes_of(count, type), .source = world_of(known, from),
                    .tag = tag, .destination = world_rank, .is_receive = 1, .is_persistent = is_persistent,
                    .is_active = !is_persistent, .record = -1};
    if (from == MPI_PROC_NULL) return;
    if (!is_persistent) what.record = add("MPI_Irecv", start, now(), what.source, NONE, tag, count, what.bytes, known);
    post(request, what);
}

#define ISEND(NAME, IS_PERSISTENT)                                                                                    \
    int MPI_##NAME(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *req) {\
        double start = now();                                                                                         \
        int rc = PMPI_##NAME(data, count, type, to, tag, comm, req);                                                  \
        posted_send("MPI_" #NAME, start, count, type, to, tag, comm, *req, IS_PERSISTENT);                            \
        return rc;                                                                                                    \
    }
ISEND(Isend, 0) ISEND(Issend, 0) ISEND(Ibsend, 0) ISEND(Irsend, 0)
ISEND(Send_init, 1) ISEND(Ssend_init, 1) ISEND(Bsend_init, 1) ISEND(Rsend_init, 1)

int MPI_Irecv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request) {
    double start = now();
    int rc = PMPI_Irecv(data, count, type, from, tag, comm, request);
    posted_receive(start, count, type, from, tag, comm, *request, 0);
    return rc;
}

int MPI_Recv_init(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request) {
    int rc = PMPI_Recv_init(data, count, type, from, tag, comm, request);
    posted_receive(0, count, type, from, tag, comm, *request, 1);
    return rc;
}

int MPI_Recv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status *status) {
    MPI_Status own;
    double start = now();
    status = status == MPI_STATUS_IGNORE ? &own : status;
    int rc = PMPI_Recv(data, count, type, from, tag, comm, status);
    const Comm *known = comm_of(comm);
    if (from != MPI_PROC_NULL)
        add("MPI_Recv", start, now(), world_of(known, status->MPI_SOURCE), NONE, status->MPI_TAG, count,
            bytes_of(count, type), known);
    return rc;
}

static void exchanged(const char *op, double start, int64_t n_sent, int64_t sent, int to, int send_tag, int64_t n_got,
                      int64_t got, int from, const MPI_Status *status, MPI_Comm comm) {
    const Comm *known = comm_of(comm);
    double end = now();
    int source = from == MPI_PROC_NULL ? NONE : world_of(known, status->MPI_SOURCE), target = world_of(known, to);
    if (source != NONE && target != NONE && send_tag == status->MPI_TAG) {
        add(op, start, end, source, target, send_tag, n_sent, sent, known);
        return;
    }
    if (target != NONE) add("MPI_Send", start, source == NONE ? end : start, NONE, target, send_tag, n_sent, sent, known);
    if (source != NONE) add("MPI_Recv", start, end, source, NONE, status->MPI_TAG, n_got, got, known);
}

int MPI_Sendrecv(const void *out, int n_out, MPI_Datatype out_type, int to, int send_tag, void *in, int n_in,
                 MPI_Datatype in_type, int from, int receive_tag, MPI_Comm comm, MPI_Status *status) {
    MPI_Status own;
    double start = now();
    status = status == MPI_STATUS_IGNORE ? &own : status;
    int rc = PMPI_Sendrecv(out, n_out, out_type, to, send_tag, in, n_in, in_type, from, receive_tag, comm, status);
    exchanged("MPI_Sendrecv", start, n_out, bytes_of(n_out, out_type), to, send_tag, n_in, bytes_of(n_in, in_type), from,
              status, comm);
    return rc;
}

int MPI_Sendrecv_replace(void *data, int count, MPI_Datatype type, int to, int send_tag, int from, int receive_tag,
                         MPI_Comm comm, MPI_Status *status) {
    MPI_Status own;
    double start = now();
    int64_t bytes = bytes_of(count, type);
    status = status == MPI_STATUS_IGNORE ? &own : status;
    int rc = PMPI_Sendrecv_replace(data, count, type, to, send_tag, from, receive_tag, comm, status);
    exchanged("MPI_Sendrecv_replace", start, count, bytes, to, send_tag, count, bytes, from, status, comm);
    return rc;
}

/* ---- Requests: start, wait, test ---- */

static void started(double start, MPI_Request request) {
    pthread_mutex_lock(&lock);
    Pending *what = *place_of(request), copy;
    if (what) {
        what->is_active = 1;
        n_open_receives += what->is_receive;
        copy = *what;
    }
    pthread_mutex_unlock(&lock);
    if (!what) return;
    int64_t number = copy.is_receive
        ? add("MPI_Irecv", start, now(), copy.source, NONE, copy.tag, copy.count, copy.bytes, copy.comm)
        : add("MPI_Isend", start, now(), NONE, copy.destination, copy.tag, copy.count, copy.bytes, copy.comm);
    what->record = number;
}

int MPI_Start(MPI_Request *request) {
    double start = now();
    int rc = PMPI_Start(request);
    started(start, *request);
    return rc;
}

int MPI_Startall(int n, MPI_Request requests[]) {
    double start = now();
    int rc = PMPI_Startall(n, requests);
    for (int i = 0; i < n; i++) started(i ? now() : start, requests[i]);
    return rc;
}

int MPI_Request_free(MPI_Request *request) {
    pthread_mutex_lock(&lock);
    Pending **at = place_of(*request);
    if (*at) forget(at);
    pthread_mutex_unlock(&lock);
    return PMPI_Request_free(request);
}

int MPI_Wait(MPI_Request *request, MPI_Status *status) {
    MPI_Status own;
    MPI_Request old = *request;
    double start = now();
    status = status == MPI_STATUS_IGNORE ? &own : status;
    int rc = PMPI_Wait(request, status);
    one_done("MPI_Wait", start, old, status);
    return rc;
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status) {
    MPI_Status own;
    MPI_Request old = *request;
    double start = now();
    status = status == MPI_STATUS_IGNORE ? &own : status;
    int rc = PMPI_Test(request, flag, status);
    if (*flag) one_done("MPI_Test", start, old, status);
    return rc;
}

int MPI_Waitany(int n, MPI_Request requests[], int *which, MPI_Status *status) {
    MPI_Status own;
    MPI_Request *old = copy_of(requests, n);
    double start = now();
    status = status == MPI_STATUS_IGNORE ? &own : status;
    int rc = PMPI_Waitany(n, requests, which, status);
    if (*which != MPI_UNDEFINED) one_done("MPI_Waitany", start, old[*which], status);
    free(old);
    return rc;
}

int MPI_Testany(int n, MPI_Request requests[], int *which, int *flag, MPI_Status *status) {
    MPI_Status own;
    MPI_Request *old = copy_of(requests, n);
    double start = now();
    status = status == MPI_STATUS_IGNORE ? &own : status;
    int rc = PMPI_Testany(n, requests, which, flag, status);
    if (*flag && *which != MPI_UNDEFINED) one_done("MPI_Testany", start, old[*which], status);
    free(old);
    return rc;
}

int MPI_Waitall(int n, MPI_Request requests[], MPI_Status statuses[]) {
    MPI_Request *old = copy_of(requests, n);
    MPI_Status *own = must(malloc(sizeof *own * (size_t)(n + 1)));
    double start = now();
    int rc = PMPI_Waitall(n, requests, own);
    many_done("MPI_Waitall", start, n, NULL, old, own, 1);
    if (statuses != MPI_STATUSES_IGNORE) memcpy(statuses, own, sizeof *own * (size_t)n);
    free(own);
    free(old);
    return rc;
}

int MPI_Testall(int n, MPI_Request requests[], int *flag, MPI_Status statuses[]) {
    MPI_Request *old = copy_of(requests, n);
    MPI_Status *own = must(malloc(sizeof *own * (size_t)(n + 1)));
    double start = now();
    int rc = PMPI_Testall(n, requests, flag, own);
    if (*flag) many_done("MPI_Testall", start, n, NULL, old, own, 1);
    if (*flag && statuses != MPI_STATUSES_IGNORE) memcpy(statuses, own, sizeof *own * (size_t)n);
    free(own);
    free(old);
    return rc;
}

#define SOME(NAME)                                                                                                    \
    int MPI_##NAME(int n, MPI_Request requests[], int *n_done, int which[], MPI_Status statuses[]) {                  \
        MPI_Request *old = copy_of(requests, n);                                                                      \
        MPI_Status *own = must(malloc(sizeof *own * (size_t)(n + 1)));                                                \
        double start = now();                                                                                         \
        int rc = PMPI_##NAME(n, requests, n_done, which, own);                                                        \
        int found = *n_done == MPI_UNDEFINED ? 0 : *n_done;                                                           \
        if (found) many_done("MPI_" #NAME, start, found, which, old, own, 0);                                         \
        if (statuses != MPI_STATUSES_IGNORE) memcpy(statuses, own, sizeof *own * (size_t)found);                      \
        free(own);                                                                                                    \
        free(old);                                                                                                    \
        return rc;                                                                                                    \
    }
SOME(Waitsome) SOME(Testsome)

/* ---- Collectives: blocking, and non-blocking at their call ---- */

#define OPEN(...) __VA_ARGS__
#define BOTH(NAME, SMALL, PARAMETERS, ARGUMENTS, COMM, ROOT, COUNT, BYTES)                                            \
    int MPI_##NAME(OPEN PARAMETERS) {                                                                                 \
        double start = now();                                                                                         \
        int rc = PMPI_##NAME(OPEN ARGUMENTS);                                                                         \
        const Comm *known = comm_of(COMM);                                                                            \
        add("MPI_" #NAME, start, now(), ROOT, NONE, NONE, COUNT, BYTES, known);                                       \
        return rc;                                                                                                    \
    }                                                                                                                 \
    int MPI_I##SMALL(OPEN PARAMETERS, MPI_Request *request) {                                                         \
        double start = now();                                                                                         \
        int rc = PMPI_I##SMALL(OPEN ARGUMENTS, request);                                                              \
        const Comm *known = comm_of(COMM);                                                                            \
        add("MPI_I" #SMALL, start, now(), ROOT, NONE, NONE, COUNT, BYTES, known);                                     \
        return rc;                                                                                                    \
    }
#define T MPI_Datatype
#define P const void *
#define V const int[]

int MPI_Barrier(MPI_Comm c) {
    double start = now();
    int rc = PMPI_Barrier(c);
    add("MPI_Barrier", start, now(), NONE, NONE, NONE, NONE, NONE, comm_of(c));
    return rc;
}
int MPI_Ibarrier(MPI_Comm c, MPI_Request *request) {
    double start = now();
    int rc = PMPI_Ibarrier(c, request);
    add("MPI_Ibarrier", start, now(), NONE, NONE, NONE, NONE, NONE, comm_of(c));
    return rc;
}

/* Of a rooted collective the root of an intercommunicator may be MPI_ROOT or MPI_PROC_NULL: no rank. */
#define ROOT_RANK world_of(known, root)
BOTH(Bcast, bcast, (void *d, int n, T t, int root, MPI_Comm c), (d, n, t, root, c), c, ROOT_RANK, n, bytes_of(n, t))
BOTH(Reduce, reduce, (P s, void *r, int n, T t, MPI_Op o, int root, MPI_Comm c), (s, r, n, t, o, root, c), c, ROOT_RANK, n,
     bytes_of(n, t))
BOTH(Allreduce, allreduce, (P s, void *r, int n, T t, MPI_Op o, MPI_Comm c), (s, r, n, t, o, c), c, NONE, n, bytes_of(n, t))
BOTH(Scan, scan, (P s, void *r, int n, T t, MPI_Op o, MPI_Comm c), (s, r, n, t, o, c), c, NONE, n, bytes_of(n, t))
BOTH(Exscan, exscan, (P s, void *r, int n, T t, MPI_Op o, MPI_Comm c), (s, r, n, t, o, c), c, NONE, n, bytes_of(n, t))
BOTH(Reduce_scatter_block, reduce_scatter_block, (P s, void *r, int n, T t, MPI_Op o, MPI_Comm c), (s, r, n, t, o, c), c,
     NONE, n, bytes_of(n, t))
BOTH(Reduce_scatter, reduce_scatter, (P s, void *r, const int n[], T t, MPI_Op o, MPI_Comm c), (s, r, n, t, o, c), c, NONE,
     NONE, NONE)
BOTH(Gather, gather, (P s, int n, T t, void *r, int m, T u, int root, MPI_Comm c), (s, n, t, r, m, u, root, c), c, ROOT_RANK,
     s == MPI_IN_PLACE ? m : n, s == MPI_IN_PLACE ? bytes_of(m, u) : bytes_of(n, t))
BOTH(Scatter, scatter, (P s, int n, T t, void *r, int m, T u, int root, MPI_Comm c), (s, n, t, r, m, u, root, c), c,
     ROOT_RANK, r == MPI_IN_PLACE ? n : m, r == MPI_IN_PLACE ? bytes_of(n, t) : bytes_of(m, u))
BOTH(Allgather, allgather, (P s, int n, T t, void *r, int m, T u, MPI_Comm c), (s, n, t, r, m, u, c), c, NONE, m,
     bytes_of(m, u))
BOTH(Alltoall, alltoall, (P s, int n, T t, void *r, int m, T u, MPI_Comm c), (s, n, t, r, m, u, c), c, NONE, m,
     bytes_of(m, u))
BOTH(Gatherv, gatherv, (P s, int n, T t, void *r, const int m[], const int d[], T u, int root, MPI_Comm c), (s, n, t, r, m,
     d, u, root, c), c, ROOT_RANK, NONE, NONE)
BOTH(Scatterv, scatterv, (P s, const int n[], const int d[], T t, void *r, int m, T u, int root, MPI_Comm c), (s, n, d, t, r,
     m, u, root, c), c, ROOT_RANK, NONE, NONE)
BOTH(Allgatherv, allgatherv, (P s, int n, T t, void *r, const int m[], const int d[], T u, MPI_Comm c), (s, n, t, r, m, d, u,
     c), c, NONE, NONE, NONE)
BOTH(Alltoallv, alltoallv, (P s, const int n[], const int d[], T t, void *r, const int m[], const int e[], T u, MPI_Comm c),
     (s, n, d, t, r, m, e, u, c), c, NONE, NONE, NONE)
BOTH(Alltoallw, alltoallw, (P s, const int n[], const int d[], const T t[], void *r, const int m[], const int e[],
     const T u[], MPI_Comm c), (s, n, d, t, r, m, e, u, c), c, NONE, NONE, NONE)

/* ---- New communicators; the row names the one that they come from ---- */

#define MADE(NAME, PARAMETERS, ARGUMENTS, FROM)                                                                       \
    int MPI_##NAME PARAMETERS {                                                                                       \
        double start = now();                                                                                         \
        const Comm *known = comm_of(FROM);                                                                            \
        int rc = PMPI_##NAME ARGUMENTS;                                                                               \
        if (rc == MPI_SUCCESS) name_comm(*made);                                                                      \
        add("MPI_" #NAME, start, now(), NONE, NONE, NONE, NONE, NONE, known);                                         \
        return rc;                                                                                                    \
    }
MADE(Comm_split, (MPI_Comm c, int color, int key, MPI_Comm *made), (c, color, key, made), c)
MADE(Comm_split_type, (MPI_Comm c, int kind, int key, MPI_Info i, MPI_Comm *made), (c, kind, key, i, made), c)
MADE(Comm_dup, (MPI_Comm c, MPI_Comm *made), (c, made), c)
MADE(Comm_dup_with_info, (MPI_Comm c, MPI_Info i, MPI_Comm *made), (c, i, made), c)
MADE(Comm_create, (MPI_Comm c, MPI_Group g, MPI_Comm *made), (c, g, made), c)
MADE(Comm_create_group, (MPI_Comm c, MPI_Group g, int tag, MPI_Comm *made), (c, g, tag, made), c)
MADE(Cart_create, (MPI_Comm c, int n, const int d[], const int p[], int r, MPI_Comm *made), (c, n, d, p, r, made), c)
MADE(Cart_sub, (MPI_Comm c, const int d[], MPI_Comm *made), (c, d, made), c)
MADE(Graph_create, (MPI_Comm c, int n, const int i[], const int e[], int r, MPI_Comm *made), (c, n, i, e, r, made), c)
MADE(Dist_graph_create, (MPI_Comm c, int n, const int s[], const int g[], const int d[], const int w[], MPI_Info i, int r,
     MPI_Comm *made), (c, n, s, g, d, w, i, r, made), c)
MADE(Dist_graph_create_adjacent, (MPI_Comm c, int n, const int s[], const int v[], int m, const int d[], const int w[],
     MPI_Info i, int r, MPI_Comm *made), (c, n, s, v, m, d, w, i, r, made), c)
MADE(Intercomm_create, (MPI_Comm c, int l, MPI_Comm p, int r, int tag, MPI_Comm *made), (c, l, p, r, tag, made), c)
MADE(Intercomm_merge, (MPI_Comm c, int high, MPI_Comm *made), (c, high, made), c)

int MPI_Comm_free(MPI_Comm *comm) {
    double start = now();
    const Comm *known = comm_of(*comm);
    int rc = PMPI_Comm_free(comm);
    add("MPI_Comm_free", start, now(), NONE, NONE, NONE, NONE, NONE, known);
    return rc;
}
