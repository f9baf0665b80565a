/*
 * ps_micro.c -- single operations of the parameter server: rows of this node
 * against bare loops over the same rows, rows of another node against bounds.
 *
 * A bare loop and what is compared to it take turns, and the best time of each
 * counts: on a busy machine both have the same chance of a quiet moment. Bare
 * rows lie in the same kind of pages as the server's.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "muster/ps.h"
#include "ps/store/distribution.h"
#include "ps/store/slab.h"
#include "task/kernel.h"

#include "bench_ps.h"

enum { ACCESSES = 1 << 20, BATCH = 64, AHEAD = 8 };

typedef struct rows {
    muster_ps *ps;
    muster_ps_worker *worker;
    uint32_t *keys;
    float *plain; // the same rows without a server
    size_t plain_mapped;
    float *copy; // BATCH rows
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
    bench_check(muster_ps_worker_create(r.ps, NULL, &r.worker));
    r.keys = bench_must(calloc(ACCESSES, sizeof(*r.keys)));
    muster_draws draws = muster_draws_make(1, 0);
    for (size_t i = 0; i < ACCESSES; i++) {
        r.keys[i] = muster_draws_below(&draws, BENCH_ROW_KEYS);
    }
    size_t bytes = (size_t)BENCH_ROW_KEYS * BENCH_ROW_WIDTH * sizeof(float);
    r.plain = bench_must(muster_slab_map(bytes, &r.plain_mapped));
    memset(r.plain, 0, bytes);
    for (uint32_t key = 0; key < BENCH_ROW_KEYS; key++) {
        bench_check(muster_ps_set(r.worker, 0, &key, 1, r.plain));
    }
    bytes = (size_t)BATCH * BENCH_ROW_WIDTH * sizeof(float);
    r.copy = bench_must(aligned_alloc(64, bytes)); // as rows are
    memset(r.copy, 0, bytes);
    return r;
}

static void free_rows(rows *r)
{
    muster_ps_worker_free(r->worker);
    muster_ps_free(r->ps);
    free(r->keys);
    muster_slab_unmap(r->plain, r->plain_mapped);
    free(r->copy);
}

/* Without a call when all is well. */
static inline void must_be_ok(muster_status status)
{
    if (status != MUSTER_OK) {
        bench_check(status);
    }
}

static inline void touch(float *row)
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
    muster_ps_worker *worker = r->worker;
    const uint32_t *keys = r->keys;
    for (size_t i = 0; i < ACCESSES; i++) {
        uint32_t key = keys[i];
        float *row;
        must_be_ok(muster_ps_begin(worker, 0, key, &row));
        touch(row);
        must_be_ok(muster_ps_end(worker, 0, key));
    }
}

static void touch_one(void *context, size_t i, float *row, uint32_t floats)
{
    (void)context;
    (void)i;
    (void)floats;
    touch(row);
}

/* By a callback, which is told the keys of many rows. */
static void server_update(rows *r)
{
    for (size_t i = 0; i + BATCH <= ACCESSES; i += BATCH) {
        must_be_ok(muster_ps_update(r->worker, 0, &r->keys[i], BATCH, touch_one,
                                    NULL));
    }
}

static void plain_hinted(rows *r)
{
    for (size_t i = 0; i < ACCESSES; i++) {
        const char *next =
            (const char *)(r->plain + (size_t)r->keys[(i + AHEAD) % ACCESSES] *
                                          BENCH_ROW_WIDTH);
        __builtin_prefetch(next, 1);
        __builtin_prefetch(next + 64, 1);
        touch(r->plain + (size_t)r->keys[i] * BENCH_ROW_WIDTH);
    }
}

/* As a task does it that knows its next keys. */
static void server_hinted(rows *r)
{
    for (size_t i = 0; i < ACCESSES; i++) {
        float *row;
        muster_ps_prefetch(r->worker, 0, r->keys[(i + AHEAD) % ACCESSES]);
        must_be_ok(muster_ps_begin(r->worker, 0, r->keys[i], &row));
        touch(row);
        must_be_ok(muster_ps_end(r->worker, 0, r->keys[i]));
    }
}

static void server_single(rows *r)
{
    muster_ps_worker *worker = r->worker;
    const uint32_t *keys = r->keys;
    float *copy = r->copy;
    for (size_t i = 0; i < ACCESSES; i++) {
        must_be_ok(muster_ps_pull(worker, 0, &keys[i], 1, copy));
        must_be_ok(muster_ps_push(worker, 0, &keys[i], 1, copy));
    }
}

static void server_batch(rows *r)
{
    for (size_t i = 0; i + BATCH <= ACCESSES; i += BATCH) {
        must_be_ok(muster_ps_pull(r->worker, 0, &r->keys[i], BATCH, r->copy));
        must_be_ok(muster_ps_push(r->worker, 0, &r->keys[i], BATCH, r->copy));
    }
}

enum { LOOPS_MAX = 5, TURNS = 4 };

/* ns a key of some loops that take turns. */
static void best_ns(const bench_ps *b, void (*const *loops)(rows *),
                    uint32_t count, rows *r, double *best)
{
    for (uint32_t k = 0; k < count; k++) {
        best[k] = 1e300;
    }
    for (int i = 0; i < b->repeats * TURNS; i++) {
        for (uint32_t k = 0; k < count; k++) {
            int64_t start = muster_clock_ns();
            loops[k](r);
            double ns = (double)(muster_clock_ns() - start) / ACCESSES;
            best[k] = ns < best[k] ? ns : best[k];
        }
    }
}

static void report_rows(const bench_ps *b, rows *r, const char *suffix)
{
    enum { UPDATE, PAIR, HINTED, SINGLE, MANY, NAMES };
    char name[NAMES][32];
    static const char *const names[NAMES] = {"in_place_64", "in_place",
                                             "in_place_hinted", "pull_push_1",
                                             "pull_push_64"};
    for (int i = 0; i < NAMES; i++) {
        (void)snprintf(name[i], sizeof(name[i]), "%s%s", names[i], suffix);
    }
    double ns[LOOPS_MAX];
    if (bench_wanted(b, "in_place")) {
        static void (*const loops[])(rows *) = {plain_in_place, server_update,
                                                server_in_place, plain_hinted,
                                                server_hinted};
        best_ns(b, loops, 5, r, ns);
        bench_report(b, name[UPDATE], ns[1], "ns/key",
                     "bare loop over the same rows", ns[0]);
        bench_report(b, name[UPDATE], ns[1], "ns/key",
                     "bare loop with the same hints", ns[3]);
        bench_report(b, name[PAIR], ns[2], "ns/key",
                     "bare loop over the same rows", ns[0]);
        bench_report(b, name[HINTED], ns[4], "ns/key",
                     "bare loop over the same rows", ns[0]);
        bench_report(b, name[HINTED], ns[4], "ns/key",
                     "bare loop with the same hints", ns[3]);
    }
    if (bench_wanted(b, "pull_push")) {
        static void (*const loops[])(rows *) = {plain_copies, server_single,
                                                server_batch};
        best_ns(b, loops, 3, r, ns);
        bench_report(b, name[SINGLE], ns[1], "ns/key", "bare copy out and add",
                     ns[0]);
        bench_report(b, name[MANY], ns[2], "ns/key", "bare copy out and add",
                     ns[0]);
    }
}

void bench_rows(const bench_ps *b)
{
    if (!bench_wanted(b, "in_place") && !bench_wanted(b, "pull_push")) {
        return;
    }
    rows r = make_rows();
    report_rows(b, &r, "");
    // Once two workers have used the same row, every row is latched.
    muster_ps_worker *second;
    bench_check(muster_ps_worker_create(r.ps, NULL, &second));
    bench_check(muster_ps_pull(r.worker, 0, r.keys, 1, r.copy));
    bench_check(muster_ps_pull(second, 0, r.keys, 1, r.copy));
    report_rows(b, &r, "_latched");
    muster_ps_worker_free(second);
    free_rows(&r);
}

enum { SINGLES = 2000, BIG = 1024, BIGS = 64 };

/* Keys whose home is node `parity`, from `first` on. */
static void far_keys(uint32_t *keys, uint32_t count, uint32_t first,
                     uint32_t parity)
{
    for (uint32_t i = 0; i < count; i++) {
        keys[i] = (2 * (first + i) + parity) % BENCH_ROW_KEYS;
    }
}

static double since_us(int64_t start, double count)
{
    return (double)(muster_clock_ns() - start) / 1e3 / count;
}

/* Bring rows here and wait until they are. A full ring of wishes empties while
 * we ask again. */
static void localize_all(muster_ps_worker *worker, uint32_t parity)
{
    uint32_t keys[BIG];
    for (uint32_t i = 0; i < BIGS; i++) {
        muster_status status;
        far_keys(keys, BIG, i * BIG, parity);
        do {
            status = muster_ps_localize(worker, 0, keys, BIG);
            if (status == MUSTER_ERR_AGAIN) {
                (void)sched_yield();
            }
        } while (status == MUSTER_ERR_AGAIN);
        bench_check(status);
    }
    bench_check(muster_ps_fetch(worker, 0, keys, BIG));
}

/* Node 0 asks for rows of node 1: one by one, many at once, to have them. */
static void ask_far(bench_node *n, float *values)
{
    uint32_t keys[BIG];
    double us[3];
    int64_t start = muster_clock_ns();
    for (uint32_t i = 0; i < SINGLES; i++) {
        far_keys(keys, 1, i, 1);
        bench_check(muster_ps_pull(n->worker, 0, keys, 1, values));
    }
    us[0] = since_us(start, SINGLES);
    start = muster_clock_ns();
    for (uint32_t i = 0; i < BIGS; i++) {
        far_keys(keys, BIG, i * BIG, 1);
        bench_check(muster_ps_pull(n->worker, 0, keys, BIG, values));
    }
    us[1] = since_us(start, (double)BIGS * BIG);
    start = muster_clock_ns();
    localize_all(n->worker, 1);
    us[2] = since_us(start, (double)BIGS * BIG);
    for (int i = 0; i < 3; i++) {
        n->figures[i] = us[i] < n->figures[i] ? us[i] : n->figures[i];
    }
}

static void *mesh_rows(void *argument)
{
    bench_node *n = argument;
    float *values =
        bench_must(calloc((size_t)BIG * BENCH_ROW_WIDTH, sizeof(float)));
    n->manage = MUSTER_PS_RELOCATE; // there and back, never a copy
    bench_mesh_open(n, NULL);
    for (int i = 0; i < 3; i++) {
        n->figures[i] = 1e300;
    }
    for (int i = 0; i < n->b->repeats; i++) {
        bench_check(muster_ps_barrier(n->worker));
        if (n->node == 0) {
            ask_far(n, values);
        }
        bench_check(muster_ps_barrier(n->worker));
        if (n->node == 1) { // what was taken goes back
            localize_all(n->worker, 1);
        }
    }
    bench_check(muster_ps_barrier(n->worker));
    // Every round has moved every row here once.
    uint64_t moved = (uint64_t)n->b->repeats * BIGS * BIG;
    muster_ps_counters counters = MUSTER_PS_COUNTERS_INIT;
    bench_check(muster_ps_count(n->ps, &counters));
    bench_check(counters.relocations == moved ? MUSTER_OK
                                              : MUSTER_ERR_PROTOCOL);
    free(values);
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
