/*
 * mpi_star.c -- the star step of star_work.h over MPI: the peer that
 * muster-bench-star is compared with, which starts it through mpirun.
 *
 *   muster-bench-star-mpi SIZES, such as 1e5,1e6
 *
 * Rank 0 is the coordinator. Prints one line a size: "star COUNT BEST_MS
 * MEDIAN_MS".
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "star_work.h"

typedef struct hub {
    int workers;
    size_t count;
    float *model;
    float *sum;
    float *answers; // one after the other
    MPI_Request *sends;
    MPI_Request *receives;
} hub;

static void step(hub *it)
{
    int floats = (int)it->count;
    for (int i = 0; i < it->workers; i++) {
        MPI_Irecv(it->answers + (size_t)i * it->count, floats, MPI_FLOAT, i + 1,
                  1, MPI_COMM_WORLD, &it->receives[i]);
    }
    for (int i = 0; i < it->workers; i++) {
        MPI_Isend(it->model, floats, MPI_FLOAT, i + 1, 0, MPI_COMM_WORLD,
                  &it->sends[i]);
    }
    for (int i = 0; i < it->workers; i++) {
        int which = 0;
        MPI_Waitany(it->workers, it->receives, &which, MPI_STATUS_IGNORE);
        star_add(it->sum, it->answers + (size_t)which * it->count, it->count,
                 i == 0);
    }
    MPI_Waitall(it->workers, it->sends, MPI_STATUSES_IGNORE);
    star_next(it->sum, it->model, it->count, it->workers);
}

static void coordinate(hub *it, int steps)
{
    static double times[STAR_STEPS_MAX];
    star_start(it->model, it->count);
    for (int i = 0; i < STAR_WARM + steps; i++) {
        double before = MPI_Wtime();
        step(it);
        if (i >= STAR_WARM) {
            times[i - STAR_WARM] = (MPI_Wtime() - before) * 1e3;
        }
    }
    if (!star_check(it->model, it->count)) {
        fprintf(stderr, "mpi_star: the sum is wrong\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    double median = bench_median(times, (size_t)steps);
    printf("star %zu %.6f %.6f\n", it->count, times[0], median);
    fflush(stdout);
}

static void work(size_t count, int steps)
{
    float *model = calloc(count, sizeof(float));
    float *answer = calloc(count, sizeof(float));
    bool ready = model != NULL && answer != NULL;
    if (!ready) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int i = 0; ready && i < STAR_WARM + steps; i++) {
        MPI_Recv(model, (int)count, MPI_FLOAT, 0, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        star_answer(model, answer, count);
        MPI_Send(answer, (int)count, MPI_FLOAT, 0, 1, MPI_COMM_WORLD);
    }
    free(model);
    free(answer);
}

static void hub_run(int workers, size_t count, int steps)
{
    size_t n = (size_t)workers;
    hub it = {
        .workers = workers,
        .count = count,
        .model = calloc(count, sizeof(float)),
        .sum = calloc(count, sizeof(float)),
        .answers = calloc(n * count, sizeof(float)),
        .sends = malloc(n * sizeof(MPI_Request)),
        .receives = malloc(n * sizeof(MPI_Request)),
    };
    if (!it.model || !it.sum || !it.answers || !it.sends || !it.receives) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    } else {
        coordinate(&it, steps);
    }
    free(it.model);
    free(it.sum);
    free(it.answers);
    free(it.sends);
    free(it.receives);
}

int main(int argc, char **argv)
{
    int rank = 0;
    int size = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    unsigned sizes = star_sizes(argc > 1 ? argv[1] : STAR_DEFAULT);
    for (size_t i = 0; i < STAR_SIZES; i++) {
        if (!star_has(sizes, i)) {
            continue;
        }
        if (rank == 0) {
            hub_run(size - 1, star_counts[i], star_steps[i]);
        } else {
            work(star_counts[i], star_steps[i]);
        }
    }
    MPI_Finalize();
    return 0;
}
