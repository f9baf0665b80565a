/*
 * scale_plain.c -- mf without a server: rows in two arrays, a thread a part,
 * the task's cells, order, kernel and prefetches. By columns the threads keep
 * out of each other's way (mf_tour.c); by chance they write the same columns
 * without any care for each other.
 */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/prefetch.h"
#include "ps/store/slab.h"
#include "task/kernel.h"
#include "task/mf.h"
#include "task/mf_random.h"
#include "task/mf_tour.h"

#include "scale.h"

enum { AHEAD = 12, EPOCHS = 5, THREADS_MAX = 64 };

typedef struct plain {
    const muster_mf *m;
    float *cols;
    float *rows;
} plain;

typedef struct seat {
    const plain *of;
    uint32_t part;
    uint32_t epoch;
    double error;
} seat;

static void hint(const float *row, uint32_t rank)
{
    for (uint32_t i = 0; i < rank; i += 16) {
        muster_prefetch_write(row + i);
    }
}

static inline void hint_cell(const plain *p, const muster_cell *cell)
{
    uint32_t rank = p->m->options.rank;
    hint(p->rows + (size_t)cell->row * rank, rank);
    if (cell->col != cell[-1].col) {
        hint(p->cols + (size_t)cell->col * rank, rank);
    }
}

/* The first cells of a range, but for the first. */
static void hint_first(const plain *p, const muster_cell *from,
                       const muster_cell *end)
{
    for (const muster_cell *cell = from + 1; cell < end && cell - from < AHEAD;
         cell++) {
        hint_cell(p, cell);
    }
}

static void work_range(seat *s, const muster_cell *from, const muster_cell *end)
{
    const muster_mf *m = s->of->m;
    uint32_t rank = m->options.rank;
    double sum = 0; // seats are neighbours in memory
    for (const muster_cell *cell = from; cell < end; cell++) {
        if (end - cell > AHEAD) {
            hint_cell(s->of, cell + AHEAD);
        }
        float error =
            muster_kernel_mf(s->of->rows + (size_t)cell->row * rank,
                             s->of->cols + (size_t)cell->col * rank, rank,
                             cell->value, (float)m->rate, (float)m->l2);
        sum += (double)error * (double)error;
    }
    s->error += sum;
}

/* Wait until the thread ahead has left the piece of this number of the tour. */
static void await_turn(const seat *s, uint32_t number)
{
    const muster_mf *m = s->of->m;
    const muster_mf_progress *ahead = &m->progress[(s->part + 1) % m->parts];
    while (number >= MUSTER_MF_CUTS &&
           atomic_load(&ahead->done) + MUSTER_MF_CUTS <= number) {
        (void)sched_yield();
    }
}

/* By columns from where the task would begin, and as its threads do: none works
 * on columns of which another writes the cache lines. */
static void work_by_columns(seat *s)
{
    const muster_mf *m = s->of->m;
    const muster_cell *cells = m->train.cells;
    const muster_mf_run *runs = m->runs + m->parts_at[s->part].run;
    uint32_t pieces = MUSTER_MF_CUTS * m->parts;
    uint32_t first = muster_mf_first_piece(m, s->part, s->epoch);
    for (uint32_t i = 0; i < pieces; i++) {
        uint32_t piece = (first + i) % pieces;
        uint64_t from = muster_mf_run_at(m, s->part, m->cuts[piece]);
        uint64_t end = muster_mf_run_at(m, s->part, m->cuts[piece + 1]);
        await_turn(s, i);
        work_range(s, cells + runs[from].cell, cells + runs[end].cell);
        atomic_store(&m->progress[s->part].done, i + 1);
    }
}

/* In the task's random order. */
static void work_by_chance(seat *s)
{
    muster_mf_visits v = muster_mf_visits_make(s->of->m, s->part, s->epoch);
    muster_mf_block block = muster_mf_visits_at(&v, 0);
    for (uint64_t i = 0; i < v.blocks; i++) {
        muster_mf_block next = muster_mf_visits_at(&v, i + 1);
        hint_first(s->of, block.from, block.middle);
        work_range(s, block.middle, block.end);
        hint_first(s->of, next.middle, next.end);
        work_range(s, block.from, block.middle);
        block = next;
    }
}

static void *work(void *argument)
{
    seat *s = argument;
    if (s->of->m->options.order == MUSTER_MF_ORDER_COLUMN) {
        work_by_columns(s);
    } else {
        work_by_chance(s);
    }
    return NULL;
}

/* Seconds of one epoch. */
static double run_epoch(const plain *p, uint32_t threads, uint32_t epoch)
{
    pthread_t ids[THREADS_MAX];
    seat seats[THREADS_MAX];
    for (uint32_t i = 0; i < threads; i++) {
        atomic_store(&p->m->progress[i].done, 0);
    }
    int64_t start = muster_clock_ns();
    for (uint32_t i = 0; i < threads; i++) {
        seats[i] = (seat){.of = p, .part = i, .epoch = epoch};
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

static void fill(float *rows, size_t count, float scale)
{
    for (size_t i = 0; i < count; i++) {
        rows[i] = scale * (float)((i * 2654435761u >> 7) % 2000) / 1000 - scale;
    }
}

static double measure(const muster_mf *m, uint32_t threads)
{
    size_t rank = m->options.rank;
    size_t mapped[2];
    float *cols = muster_slab_map(m->train.cols * rank * 4, &mapped[0]);
    float *rows = muster_slab_map(m->train.rows * rank * 4, &mapped[1]);
    if (cols == NULL || rows == NULL) {
        fprintf(stderr, "muster-bench-scale: out of memory\n");
        exit(1);
    }
    fill(cols, m->train.cols * rank, 0.2f);
    fill(rows, m->train.rows * rank, 0.2f);
    plain p = {m, cols, rows};
    double s = 0;
    for (uint32_t i = 0; i < EPOCHS; i++) {
        s += run_epoch(&p, threads, i);
    }
    muster_slab_unmap(cols, mapped[0]);
    muster_slab_unmap(rows, mapped[1]);
    return EPOCHS * (double)m->train.count / s;
}

double scale_plain_mf(const char *model, const char *data, uint32_t threads,
                      uint64_t seed)
{
    if (threads > THREADS_MAX) {
        return NAN;
    }
    const muster_task_ops *ops = muster_task_find(model);
    muster_task_opts opts = {.model = model,
                             .data = data,
                             .optimizer = "sgd",
                             .l2 = -1,
                             .epochs = 1,
                             .parts_max = threads,
                             .threads = threads,
                             .seed = seed};
    muster_error error;
    void *task;
    if (ops->create(&opts, &error, &task) != MUSTER_OK) {
        fprintf(stderr, "muster-bench-scale: %s\n", error.text);
        return NAN;
    }
    double rate = measure(task, threads);
    ops->free(task);
    return rate;
}
