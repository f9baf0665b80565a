/*
 * ps_micro.c -- single operations of the parameter server: rows of this node
 * against a bare loop over the same rows, rows of another node against bounds.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "muster/ps.h"
#include "ps/target.h"
#include "task/kernel.h"

#include "bench_ps.h"

enum { ACCESSES = 1 << 20, BATCH = 64, AHEAD = 8 };

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
    shape.keys = BENCH_ROW_KEYS;
    shape.width = BENCH_ROW_WIDTH;
    bench_check(muster_ps_create(&opts, &error, &r.ps));
    bench_check(muster_ps_table_add(r.ps, &shape, &error, &table));
    bench_check(muster_ps_worker_create(r.ps, &r.worker));
    r.keys = bench_must(calloc(ACCESSES, sizeof(*r.keys)));
    muster_draws draws = muster_draws_make(1, 0);
    for (size_t i = 0; i < ACCESSES; i++) {
        r.keys[i] = muster_draws_below(&draws, BENCH_ROW_KEYS);
    }
    r.plain = bench_must(
        aligned_alloc(64, (size_t)BENCH_ROW_KEYS * BENCH_ROW_WIDTH * 4));
    memset(r.plain, 0, (size_t)BENCH_ROW_KEYS * BENCH_ROW_WIDTH * 4);
    r.copy = bench_must(calloc((size_t)BATCH * BENCH_ROW_WIDTH, sizeof(float)));
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
    for (int i = 0; i < BENCH_ROW_WIDTH; i++) {
        row[i] += 1;
    }
}

static void plain_in_place(rows *r)
{
    for (size_t i = 0; i < ACCESSES; i++) {
        touch(r->plain + (size_t)r->keys[i] * BENCH_ROW_WIDTH);
    }
}

static void plain_copies(rows *r)
{
    for (size_t i = 0; i < ACCESSES; i++) {
        float *row = r->plain + (size_t)r->keys[i] * BENCH_ROW_WIDTH;
        memcpy(r->copy, row, BENCH_ROW_WIDTH * sizeof(float));
        muster_kernel_axpy(1, r->copy, row, BENCH_ROW_WIDTH);
    }
}

static void server_in_place(rows *r)
{
    for (size_t i = 0; i < ACCESSES; i++) {
        float *row;
        bench_check(muster_ps_begin(r->worker, 0, r->keys[i], &row));
        touch(row);
        bench_check(muster_ps_end(r->worker, 0, r->keys[i]));
    }
}

/* As a task does it that knows its next keys. */
static void server_hinted(rows *r)
{
    for (size_t i = 0; i < ACCESSES; i++) {
        float *row;
        muster_ps_prefetch(r->worker, 0, r->keys[(i + AHEAD) % ACCESSES]);
        bench_check(muster_ps_begin(r->worker, 0, r->keys[i], &row));
        touch(row);
        bench_check(muster_ps_end(r->worker, 0, r->keys[i]));
    }
}

static void server_single(rows *r)
{
    for (size_t i = 0; i < ACCESSES; i++) {
        bench_check(muster_ps_pull(r->worker, 0, &r->keys[i], 1, r->copy));
        bench_check(muster_ps_push(r->worker, 0, &r->keys[i], 1, r->copy));
    }
}

static void server_batch(rows *r)
{
    for (size_t i = 0; i + BATCH <= ACCESSES; i += BATCH) {
        bench_check(muster_ps_pull(r->worker, 0, &r->keys[i], BATCH, r->copy));
        bench_check(muster_ps_push(r->worker, 0, &r->keys[i], BATCH, r->copy));
    }
}

static double best_ns(const bench_ps *b, void (*loop)(rows *), rows *r)
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

void bench_rows(const bench_ps *b)
{
    rows r = make_rows();
    if (bench_wanted(b, "in_place")) {
        double plain = best_ns(b, plain_in_place, &r);
        bench_report(b, "in_place", best_ns(b, server_in_place, &r), "ns/key",
                     "bare loop over the same rows", plain);
        bench_report(b, "in_place_hinted", best_ns(b, server_hinted, &r),
                     "ns/key", "bare loop over the same rows", plain);
    }
    if (bench_wanted(b, "pull_push")) {
        double plain = best_ns(b, plain_copies, &r);
        bench_report(b, "pull_push_1", best_ns(b, server_single, &r), "ns/key",
                     "bare copy out and add", plain);
        bench_report(b, "pull_push_64", best_ns(b, server_batch, &r), "ns/key",
                     "bare copy out and add", plain);
    }
    free_rows(&r);
}

enum { SINGLES = 2000, BIG = 1024, BIGS = 64 };

/* Keys of node 1, from `first` on. */
static void far_keys(uint32_t *keys, uint32_t count, uint32_t first)
{
    for (uint32_t i = 0; i < count; i++) {
        keys[i] = (2 * (first + i) + 1) % BENCH_ROW_KEYS;
    }
}

static double since_us(int64_t start, double count)
{
    return (double)(muster_clock_ns() - start) / 1e3 / count;
}

static void *mesh_rows(void *argument)
{
    bench_node *n = argument;
    bench_mesh_open(n, NULL);
    bench_check(muster_ps_barrier(n->worker));
    if (n->node == 0) {
        uint32_t keys[BIG];
        float *values =
            bench_must(calloc((size_t)BIG * BENCH_ROW_WIDTH, sizeof(float)));
        int64_t start = muster_clock_ns();
        for (uint32_t i = 0; i < SINGLES; i++) {
            far_keys(keys, 1, i);
            bench_check(muster_ps_pull(n->worker, 0, keys, 1, values));
        }
        n->figures[0] = since_us(start, SINGLES);
        start = muster_clock_ns();
        for (uint32_t i = 0; i < BIGS; i++) {
            far_keys(keys, BIG, i * BIG);
            bench_check(muster_ps_pull(n->worker, 0, keys, BIG, values));
        }
        n->figures[1] = since_us(start, (double)BIGS * BIG);
        start = muster_clock_ns();
        for (uint32_t i = 0; i < BIGS; i++) {
            muster_status status;
            far_keys(keys, BIG, i * BIG);
            do { // a full ring of wishes empties while we ask again
                status = muster_ps_localize(n->worker, 0, keys, BIG);
            } while (status == MUSTER_ERR_AGAIN);
            bench_check(status);
        }
        bench_check(muster_ps_fetch(n->worker, 0, keys, BIG));
        n->figures[2] = since_us(start, (double)BIGS * BIG);
        free(values);
    }
    bench_check(muster_ps_barrier(n->worker));
    muster_ps_worker_free(n->worker);
    muster_ps_free(n->ps);
    return NULL;
}

void bench_remote(const bench_ps *b)
{
    bench_node n = bench_mesh_run(b, NULL, NULL, mesh_rows);
    bench_report(b, "remote_pull_1", n.figures[0], "us", "bound", 40);
    bench_report(b, "remote_pull_1024", n.figures[1], "us/key", "bound", 0.4);
    bench_report(b, "localize_1024", 1 / n.figures[2], "Mkeys/s", "bound", 4);
}
