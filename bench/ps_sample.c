/*
 * ps_sample.c -- samples with their rows, by every scheme, against a bare loop
 * that draws a key and copies its row: what the schemes cost where all rows are
 * here. What they save elsewhere shows in the tasks on several nodes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "muster/ps.h"
#include "muster/ps_sample.h"
#include "ps/store/distribution.h"
#include "ps/store/slab.h"

#include "bench_ps.h"

enum { SAMPLES = 1 << 19, BATCH = 64, SCHEMES = 5 };

typedef struct sampled {
    muster_ps *ps;
    muster_ps_worker *worker;
    float *plain;
    size_t plain_mapped;
    float copy[BATCH * BENCH_ROW_WIDTH];
    uint32_t keys[BATCH];
} sampled;

static void make_sampled(sampled *s)
{
    muster_error error;
    uint32_t number;
    muster_ps_opts opts = MUSTER_PS_OPTS_INIT;
    muster_ps_table_opts shape = MUSTER_PS_TABLE_OPTS_INIT;
    shape.keys = BENCH_ROW_KEYS;
    shape.width = BENCH_ROW_WIDTH;
    bench_check(muster_ps_create(&opts, &error, &s->ps));
    bench_check(muster_ps_table_add(s->ps, &shape, &error, &number));
    for (uint32_t i = 0; i < SCHEMES; i++) {
        muster_ps_distribution_opts target = MUSTER_PS_DISTRIBUTION_OPTS_INIT;
        target.scheme = MUSTER_PS_INDEPENDENT + i;
        bench_check(
            muster_ps_distribution_add(s->ps, &target, &error, &number));
    }
    bench_check(muster_ps_worker_create(s->ps, NULL, &s->worker));
    size_t bytes = (size_t)BENCH_ROW_KEYS * BENCH_ROW_WIDTH * sizeof(float);
    s->plain = bench_must(muster_slab_map(bytes, &s->plain_mapped));
    memset(s->plain, 0, bytes);
    // Every row is in use, and repurposing has something to repurpose.
    for (uint32_t key = 0; key < BENCH_ROW_KEYS; key++) {
        bench_check(muster_ps_set(s->worker, 0, &key, 1, s->plain));
    }
}

static void free_sampled(sampled *s)
{
    muster_ps_worker_free(s->worker);
    muster_ps_free(s->ps);
    muster_slab_unmap(s->plain, s->plain_mapped);
}

static double bare_ns(sampled *s, muster_draws *draws)
{
    int64_t start = muster_clock_ns();
    for (size_t i = 0; i < SAMPLES; i++) {
        uint32_t key = muster_draws_below(draws, BENCH_ROW_KEYS);
        s->keys[i % BATCH] = key;
        memcpy(s->copy + i % BATCH * BENCH_ROW_WIDTH,
               s->plain + (size_t)key * BENCH_ROW_WIDTH,
               BENCH_ROW_WIDTH * sizeof(float));
    }
    return (double)(muster_clock_ns() - start) / SAMPLES;
}

static double server_ns(sampled *s, uint32_t distribution)
{
    int64_t start = muster_clock_ns();
    for (size_t i = 0; i < SAMPLES; i += BATCH) {
        uint64_t handle;
        bench_check(
            muster_ps_sample_prepare(s->worker, distribution, BATCH, &handle));
        bench_check(
            muster_ps_sample_pull(s->worker, handle, BATCH, s->keys, s->copy));
    }
    return (double)(muster_clock_ns() - start) / SAMPLES;
}

void bench_sample(const bench_ps *b)
{
    static const char *const names[SCHEMES] = {
        "sample_independent", "sample_reuse", "sample_postpone", "sample_local",
        "sample_repurpose"};
    sampled *s = bench_must(calloc(1, sizeof(*s)));
    muster_draws draws = muster_draws_make(1, 0);
    double bare = 1e300;
    double best[SCHEMES];
    make_sampled(s);
    for (int turn = 0; turn < b->repeats; turn++) {
        double ns = bare_ns(s, &draws);
        bare = ns < bare ? ns : bare;
        for (uint32_t i = 0; i < SCHEMES; i++) {
            ns = server_ns(s, i);
            best[i] = turn == 0 || ns < best[i] ? ns : best[i];
        }
    }
    for (uint32_t i = 0; i < SCHEMES; i++) {
        bench_report(b, names[i], best[i], "ns/key", "bare draw and copy out",
                     bare);
    }
    free_sampled(s);
    free(s);
}
