/*
 * Passes over memory: the optimiser and the combination of messages.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "bench.h"
#include "bench_dense.h"
#include "linalg/combine.h"
#include "model/optim.h"

#define FLOATS   ((size_t)16 << 20) // 64 MiB: more than the caches hold
#define ARRAYS   9u
#define MESSAGES 8u
#define TURNS    9u

typedef struct memory {
    float *arrays[ARRAYS]; // of one block, one after another
    muster_optim adam;
} memory;

static double copy_turn(memory *m)
{
    int64_t begin = muster_clock_ns();
    memcpy(m->arrays[0], m->arrays[1], FLOATS * sizeof(float));
    double s = (double)(muster_clock_ns() - begin) * 1e-9;
    return 2 * FLOATS * sizeof(float) / s * 1e-9;
}

/* Reads theta, gradient and both moments, writes theta and both moments. */
static double adam_turn(memory *m)
{
    const muster_optim_arrays arrays = {FLOATS, m->arrays[0], m->arrays[1],
                                        m->arrays[2], m->arrays[4]};
    int64_t begin = muster_clock_ns();
    const muster_optim_step step = {&m->adam, 3, 1e-3};
    muster_optim_apply(&step, &arrays, 0, FLOATS);
    double s = (double)(muster_clock_ns() - begin) * 1e-9;
    return 7 * FLOATS * sizeof(float) / s * 1e-9;
}

static double combine_turn(memory *m)
{
    static double scratch[MUSTER_COMBINE_RUN];
    const double weights[MESSAGES] = {1, 2, -1, 0.5, 3, -2, 1, 0.25};
    const float *rows[MESSAGES];
    for (uint32_t i = 0; i < MESSAGES; i++) {
        rows[i] = m->arrays[i + 1];
    }
    const muster_combine_rows input = {rows, weights, NULL, MESSAGES};
    int64_t begin = muster_clock_ns();
    muster_combine(&input, 0, FLOATS, scratch, m->arrays[0]);
    double s = (double)(muster_clock_ns() - begin) * 1e-9;
    return (MESSAGES + 1) * FLOATS * sizeof(float) / s * 1e-9;
}

void dense_bench_memory(bool json)
{
    memory m;
    double rates[3][TURNS];
    float *block = muster_mem_raw_aligned(ARRAYS * FLOATS, sizeof(float));
    if (block == NULL || muster_optim_parse("adam", NULL, &m.adam)) {
        fprintf(stderr, "bench dense: out of memory\n");
        exit(1);
    }
    for (size_t i = 0; i < ARRAYS * FLOATS; i++) {
        block[i] = 1e-3f * (float)(i % 13);
    }
    for (uint32_t i = 0; i < ARRAYS; i++) {
        m.arrays[i] = block + i * FLOATS;
    }
    for (uint32_t t = 0; t < TURNS; t++) {
        rates[0][t] = copy_turn(&m);
        rates[1][t] = adam_turn(&m);
        rates[2][t] = combine_turn(&m);
    }
    double copy = bench_median(rates[0], TURNS);
    bench_row adam = {"adam", bench_median(rates[1], TURNS), "GB/s", "memcpy",
                      copy};
    bench_row combine = {"combine_8", bench_median(rates[2], TURNS), "GB/s",
                         "memcpy", copy};
    bench_print(&adam, json);
    bench_print(&combine, json);
    muster_mem_free(block);
}
