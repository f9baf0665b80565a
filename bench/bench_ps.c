/*
 * bench_ps.c -- the parameter server against plain loops, in one run.
 *
 * Every row is printed as one JSON object with the figure, the baseline of the
 * same run and their ratio. Plain loops use the same kernels, compiler flags,
 * precision and order, on rows in one array. Times are the best of several
 * repeats, baseline and subject in turn.
 *
 *   muster-bench-ps [--only NAME] [--repeats N]
 */
#define _POSIX_C_SOURCE 200809L
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "muster/ps.h"
#include "ps/target.h"
#include "task/kernel.h"

enum { ROW_KEYS = 200000, ROW_WIDTH = 32, ACCESSES = 1 << 20, BATCH = 64, AHEAD = 8 };

typedef struct bench {
    const char *only;
    int repeats;
} bench;

static void *must(void *block)
{
    if (block == NULL) {
        fprintf(stderr, "muster-bench-ps: out of memory\n");
        exit(1);
    }
    return block;
}

static void check(muster_status status)
{
    if (status != MUSTER_OK) {
        fprintf(stderr, "muster-bench-ps: %s\n", muster_status_text(status));
        exit(1);
    }
}

static void report(const char *name, double value, const char *unit,
                   const char *baseline, double baseline_value)
{
    printf("{\"name\": \"%s\", \"value\": %.6g, \"unit\": \"%s\", "
           "\"baseline\": \"%s\", \"baseline_value\": %.6g, "
           "\"ratio\": %.4g}\n",
           name, value, unit, baseline, baseline_value,
           value / baseline_value);
    fflush(stdout);
}

static bool wanted(const bench *b, const char *name)
{
    return b->only == NULL || strcmp(b->only, name) == 0;
}

/* ---- single rows --------------------------------------------------------- */

typedef struct rows {
    muster_ps *ps;
    muster_ps_worker *worker;
    uint32_t *keys;
    float *plain; // the same rows without a server
    float *copy;  // BATCH rows
} rows;

static rows make_rows(void)
{
    rows r = {0};
    muster_error error;
    uint32_t table;
    muster_ps_opts opts = MUSTER_PS_OPTS_INIT;
    muster_ps_table_opts shape = MUSTER_PS_TABLE_OPTS_INIT;
    shape.keys = ROW_KEYS;
    shape.width = ROW_WIDTH;
    check(muster_ps_create(&opts, &error, &r.ps));
    check(muster_ps_table_add(r.ps, &shape, &error, &table));
    check(muster_ps_worker_create(r.ps, &r.worker));
    r.keys = must(calloc(ACCESSES, sizeof(*r.keys)));
    muster_draws draws = muster_draws_make(1, 0);
    for (size_t i = 0; i < ACCESSES; i++) {
        r.keys[i] = muster_draws_below(&draws, ROW_KEYS);
    }
    r.plain = must(aligned_alloc(64, (size_t)ROW_KEYS * ROW_WIDTH * 4));
    memset(r.plain, 0, (size_t)ROW_KEYS * ROW_WIDTH * 4);
    r.copy = must(calloc((size_t)BATCH * ROW_WIDTH, sizeof(float)));
    return r;
}

static void free_rows(rows *r)
{
    muster_ps_worker_free(r->worker);
    muster_ps_free(r->ps);
    free(r->keys);
    free(r->plain);
    free(r->copy);
}

static void touch(float *row)
{
    for (int i = 0; i < ROW_WIDTH; i++) {
        row[i] += 1;
    }
}

static void plain_in_place(rows *r)
{
    for (size_t i = 0; i < ACCESSES; i++) {
        touch(r->plain + (size_t)r->keys[i] * ROW_WIDTH);
    }
}

static void plain_copies(rows *r)
{
    for (size_t i = 0; i < ACCESSES; i++) {
        float *row = r->plain + (size_t)r->keys[i] * ROW_WIDTH;
        memcpy(r->copy, row, ROW_WIDTH * sizeof(float));
        muster_kernel_axpy(1, r->copy, row, ROW_WIDTH);
    }
}

static void server_in_place(rows *r)
{
    for (size_t i = 0; i < ACCESSES; i++) {
        float *row;
        check(muster_ps_begin(r->worker, 0, r->keys[i], &row));
        touch(row);
        check(muster_ps_end(r->worker, 0, r->keys[i]));
    }
}

/* As a task does it that knows its next keys. */
static void server_hinted(rows *r)
{
    for (size_t i = 0; i < ACCESSES; i++) {
        float *row;
        muster_ps_prefetch(r->worker, 0, r->keys[(i + AHEAD) % ACCESSES]);
        check(muster_ps_begin(r->worker, 0, r->keys[i], &row));
        touch(row);
        check(muster_ps_end(r->worker, 0, r->keys[i]));
    }
}

static void server_single(rows *r)
{
    for (size_t i = 0; i < ACCESSES; i++) {
        check(muster_ps_pull(r->worker, 0, &r->keys[i], 1, r->copy));
        check(muster_ps_push(r->worker, 0, &r->keys[i], 1, r->copy));
    }
}

static void server_batch(rows *r)
{
    for (size_t i = 0; i + BATCH <= ACCESSES; i += BATCH) {
        check(muster_ps_pull(r->worker, 0, &r->keys[i], BATCH, r->copy));
        check(muster_ps_push(r->worker, 0, &r->keys[i], BATCH, r->copy));
    }
}

static double best_ns(const bench *b, void (*loop)(rows *), rows *r)
{
    double best = 1e300;
    for (int i = 0; i < b->repeats; i++) {
        int64_t start = muster_clock_ns();
        loop(r);
        double ns = (double)(muster_clock_ns() - start) / ACCESSES;
        best = ns < best ? ns : best;
    }
    return best;
}

static void bench_rows(const bench *b)
{
    rows r = make_rows();
    if (wanted(b, "in_place")) {
        double plain = best_ns(b, plain_in_place, &r);
        report("in_place", best_ns(b, server_in_place, &r), "ns/key",
               "bare loop over the same rows", plain);
        report("in_place_hinted", best_ns(b, server_hinted, &r), "ns/key",
               "bare loop over the same rows", plain);
    }
    if (wanted(b, "pull_push")) {
        double plain = best_ns(b, plain_copies, &r);
        report("pull_push_1", best_ns(b, server_single, &r), "ns/key",
               "bare copy out and add", plain);
        report("pull_push_64", best_ns(b, server_batch, &r), "ns/key",
               "bare copy out and add", plain);
    }
    free_rows(&r);
}

int main(int argc, char **argv)
{
    bench b = {.repeats = 5};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--only") == 0 && i + 1 < argc) {
            b.only = argv[++i];
        } else if (strcmp(argv[i], "--repeats") == 0 && i + 1 < argc) {
            b.repeats = (int)strtol(argv[++i], NULL, 10);
            b.repeats = b.repeats < 1 ? 1 : b.repeats;
        } else {
            fprintf(stderr,
                    "usage: muster-bench-ps [--only NAME] [--repeats N]\n");
            return 2;
        }
    }
    bench_rows(&b);
    return 0;
}
