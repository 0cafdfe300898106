/* A toy in the manner of the NAS kernels: a field on a ring of ranks, halo exchange each step, a norm every fifth step.
 *
 * halo STEPS CELLS PAUSE_US: prints the seconds of its time steps and the last norm. Each step smooths CELLS cells a
 * rank, and then pauses, which takes the place of computing on a machine whose cores other programs use too.
 */

#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { NORM_EVERY = 5 };

static double *field, *next;

static void exchange(int n, int left, int right, MPI_Comm ring) {
    MPI_Request requests[4];
    MPI_Irecv(&field[0], 1, MPI_DOUBLE, left, 1, ring, &requests[0]);
    MPI_Irecv(&field[n + 1], 1, MPI_DOUBLE, right, 2, ring, &requests[1]);
    MPI_Isend(&field[n], 1, MPI_DOUBLE, right, 1, ring, &requests[2]);
    MPI_Isend(&field[1], 1, MPI_DOUBLE, left, 2, ring, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
}

static void smooth(int n, long pause_us) {
    struct timespec pause = {0, 1000 * pause_us};
    nanosleep(&pause, NULL);
    for (int i = 1; i <= n; i++) next[i] = 0.25 * field[i - 1] + 0.5 * field[i] + 0.25 * field[i + 1];
    double *old = field;
    field = next;
    next = old;
}

static double norm(int n, MPI_Comm ring) {
    double own = 0, all = 0;
    for (int i = 1; i <= n; i++) own += field[i] * field[i];
    MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, ring);
    return all;
}

int main(int argc, char **argv) {
    int rank, size, steps, n;
    MPI_Comm ring;
    MPI_Init(&argc, &argv);
    steps = argc > 1 ? atoi(argv[1]) : 1000;
    n = argc > 2 ? atoi(argv[2]) : 20000;
    long pause_us = argc > 3 ? atol(argv[3]) : 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &ring);
    MPI_Comm_rank(ring, &rank);
    MPI_Comm_size(ring, &size);
    field = calloc((size_t)n + 2, sizeof *field);
    next = calloc((size_t)n + 2, sizeof *next);
    for (int i = 1; i <= n; i++) field[i] = rank + i % 7;
    MPI_Barrier(ring);
    double start = MPI_Wtime(), last = 0;
    for (int step = 1; step <= steps; step++) {
        exchange(n, (rank + size - 1) % size, (rank + 1) % size, ring);
        smooth(n, pause_us);
        if (step % NORM_EVERY == 0) last = norm(n, ring);
    }
    double taken = MPI_Wtime() - start;
    if (rank == 0) printf("%.9f %.6g\n", taken, last);
    MPI_Comm_free(&ring);
    MPI_Finalize();
    return 0;
}
