/* One call of each kind that the collector records, in an order that every run has; for 4 ranks. */

#include <mpi.h>
#include <stdio.h>

enum { RANKS = 4 };

static int rank, left, right, in[64], out[64];

static void blocking(void) {
    MPI_Status status;
    if (rank % 2 == 0) MPI_Send(out, 3, MPI_INT, right, 10, MPI_COMM_WORLD);
    else MPI_Recv(in, 8, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    if (rank % 2 == 1) MPI_Ssend(out, 2, MPI_DOUBLE_INT, left, 11, MPI_COMM_WORLD);
    else MPI_Recv(in, 2, MPI_DOUBLE_INT, right, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(out, 4, MPI_INT, right, 12, in, 4, MPI_INT, left, 12, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    /* Two tags, and ends without a neighbour. */
    MPI_Sendrecv(out, 4, MPI_INT, right, 13, in, 4, MPI_INT, left, rank < 9 ? 13 : 0, MPI_COMM_WORLD, &status);
    int up = rank + 1 < RANKS ? rank + 1 : MPI_PROC_NULL, down = rank ? rank - 1 : MPI_PROC_NULL;
    MPI_Sendrecv_replace(out, 5, MPI_INT, up, 14, down, 14, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void non_blocking(void) {
    MPI_Request requests[4];
    MPI_Status statuses[4];
    int which[4], n, flag = 0;
    MPI_Irecv(in, 8, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, 6, MPI_INT, right, 20 + rank, MPI_COMM_WORLD, &requests[1]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);

    /* A Waitall that leaves a receive open. */
    MPI_Irecv(in, 1, MPI_INT, left, 30, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(in + 1, 1, MPI_INT, left, 31, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(out, 1, MPI_INT, right, 30, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(out, 1, MPI_INT, right, 31, MPI_COMM_WORLD, &requests[3]);
    MPI_Request some[2] = {requests[0], requests[2]};
    MPI_Waitall(2, some, statuses);
    while (!flag) MPI_Test(&requests[1], &flag, MPI_STATUS_IGNORE);
    MPI_Waitall(1, &requests[3], MPI_STATUSES_IGNORE);

    MPI_Irecv(in, 1, MPI_INT, left, 40, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(in + 1, 1, MPI_INT, right, 41, MPI_COMM_WORLD, &requests[1]);
    MPI_Send(out, 1, MPI_INT, right, 40, MPI_COMM_WORLD);
    MPI_Send(out, 1, MPI_INT, left, 41, MPI_COMM_WORLD);
    for (int left_over = 2; left_over; left_over -= n) MPI_Waitsome(2, requests, &n, which, statuses);

    MPI_Irecv(in, 1, MPI_INT, left, 50, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(in + 1, 1, MPI_INT, MPI_PROC_NULL, 50, MPI_COMM_WORLD, &requests[1]);
    MPI_Send(out, 1, MPI_INT, right, 50, MPI_COMM_WORLD);
    MPI_Waitany(1, requests, &which[0], &statuses[0]);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);

    MPI_Recv_init(in, 2, MPI_INT, left, 60, MPI_COMM_WORLD, &requests[0]);
    MPI_Send_init(out, 2, MPI_INT, right, 60, MPI_COMM_WORLD, &requests[1]);
    for (int i = 0; i < 2; i++) {
        MPI_Startall(2, requests);
        for (flag = 0; !flag;) MPI_Testall(2, requests, &flag, statuses);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

static void collectives(void) {
    int counts[RANKS] = {1, 1, 1, 1}, places[RANKS] = {0, 1, 2, 3};
    MPI_Request request;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Bcast(in, 5, MPI_INT, 2, MPI_COMM_WORLD);
    MPI_Reduce(out, in, 5, MPI_INT, MPI_SUM, 1, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, in, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Gather(out, 1, MPI_INT, in, 1, MPI_INT, 3, MPI_COMM_WORLD);
    MPI_Allgatherv(out, 1, MPI_INT, in, counts, places, MPI_INT, MPI_COMM_WORLD);
    MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD);
    MPI_Iallreduce(out, in, 3, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void communicators(void) {
    MPI_Comm half, again;
    int within;
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, -rank, &half);
    MPI_Comm_rank(half, &within);
    /* The order within a half is turned round: rank 0 of the first half is rank 1 of all. */
    if (within == 0) MPI_Send(out, 1, MPI_INT, 1, 70, half);
    else MPI_Recv(in, 1, MPI_INT, MPI_ANY_SOURCE, 70, half, MPI_STATUS_IGNORE);
    MPI_Bcast(in, 1, MPI_INT, 0, half);
    MPI_Comm_dup(half, &again);
    MPI_Barrier(again);
    MPI_Comm_free(&again);
    MPI_Comm_free(&half);
}

int main(int argc, char **argv) {
    int size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != RANKS) MPI_Abort(MPI_COMM_WORLD, 1);
    left = (rank + size - 1) % size;
    right = (rank + 1) % size;
    blocking();
    non_blocking();
    collectives();
    communicators();
    /* More calls than the buffer holds, of which the first receive has a wildcard. */
    MPI_Request early;
    MPI_Irecv(in, 1, MPI_INT, MPI_ANY_SOURCE, 80, MPI_COMM_WORLD, &early);
    for (int i = 0; i < 5000; i++) MPI_Allreduce(out, in + 1, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Send(out, 1, MPI_INT, right, 80, MPI_COMM_WORLD);
    MPI_Wait(&early, MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
