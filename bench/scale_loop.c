/*
 * scale_loop.c -- epochs of a task on rows without a server (scale_rows.c), by
 * threads none of which waits for another.
 */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "linalg/blas_room.h"
#include "task/task.h"

#include "scale.h"

enum { EPOCHS = 2, THREADS_MAX = 64 };

typedef struct seat {
    const muster_task_ops *ops;
    void *task;
    muster_ps_worker *worker;
    muster_task_share share;
} seat;

static void check(muster_status status, const muster_error *error)
{
    if (status != MUSTER_OK) {
        fprintf(stderr, "muster-bench-scale: %s\n", error->text);
        exit(1);
    }
}

static void *work(void *argument)
{
    seat *s = argument;
    muster_error error = {.text = "a plain loop failed"};
    muster_task_sums sums = {{0}};
    check(s->ops->work(s->task, s->worker, &s->share, &sums), &error);
    return NULL;
}

/* Seconds of one epoch. */
static double run_epoch(seat *seats, uint32_t threads, uint32_t epoch)
{
    pthread_t ids[THREADS_MAX];
    int64_t start = muster_clock_ns();
    for (uint32_t i = 0; i < threads; i++) {
        seats[i].share = (muster_task_share){
            .part = i, .parts = threads, .epoch = epoch, .together = true};
        if (pthread_create(&ids[i], NULL, work, &seats[i]) != 0) {
            perror("muster-bench-scale: thread");
            exit(1);
        }
    }
    for (uint32_t i = 0; i < threads; i++) {
        (void)pthread_join(ids[i], NULL);
    }
    return (double)(muster_clock_ns() - start) / 1e9;
}

static double run_epochs(const muster_task_ops *ops, void *task, muster_ps *ps,
                         uint32_t threads)
{
    seat seats[THREADS_MAX];
    double s = 0;
    for (uint32_t i = 0; i < threads; i++) {
        seats[i] =
            (seat){.ops = ops, .task = task, .worker = scale_rows_worker(ps)};
    }
    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
        s += run_epoch(seats, threads, epoch);
    }
    for (uint32_t i = 0; i < threads; i++) {
        muster_mem_free(seats[i].worker);
    }
    return EPOCHS * (double)ops->units(task) / s;
}

double scale_plain_loop(const char *model, const char *data, uint32_t threads,
                        uint64_t seed)
{
    const muster_task_ops *ops = muster_task_find(model);
    muster_task_opts opts = {.model = model,
                             .data = data,
                             .l2 = -1,
                             .epochs = EPOCHS,
                             .parts_max = threads,
                             .seed = seed};
    muster_error error;
    void *task;
    if (threads > THREADS_MAX) {
        return NAN;
    }
    if (ops->create(&opts, &error, &task) != MUSTER_OK) {
        fprintf(stderr, "muster-bench-scale: %s\n", error.text);
        return NAN;
    }
    if (ops->uses_blas) {
        check(muster_blas_room_take(threads, &error), &error);
    }
    muster_ps *ps = scale_rows_make(seed);
    check(ops->tables(task, ps, &error), &error);
    double rate = run_epochs(ops, task, ps, threads);
    scale_rows_free(ps);
    ops->free(task);
    return rate;
}
