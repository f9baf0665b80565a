/*
 * Where the time of a pass goes: each phase of each layer beside the same
 * product in one call of sgemm with as many threads.
 */
#define _POSIX_C_SOURCE 200809L
#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/threads.h"
#include "bench.h"
#include "bench_dense.h"
#include "model/pass.h"

#define TURNS_MAX 21u
#define TURNS_MIN 3u
#define BUDGET_S  3.0 // of a case
#define NAP_NS    100000000L

static const char *const kind_names[DENSE_KINDS] = {"forward", "loss",
                                                    "weights", "below"};

/* Seconds of one turn, or the medians of all. */
typedef struct phase_times {
    double s[DENSE_KINDS][DENSE_LAYERS];
} phase_times;

typedef struct bench_pass {
    muster_model model;
    muster_threads *pool;
    muster_layers_input input;
    float *rows, *labels, *theta, *gradient;
    void *scratch;
    dense_products products; // of as many rows
} bench_pass;

static void *some(size_t count)
{
    float *data = muster_mem_raw_aligned(count, sizeof(float));
    if (data == NULL) {
        fprintf(stderr, "bench dense: out of memory\n");
        exit(1);
    }
    for (size_t i = 0; i < count; i++) {
        data[i] = 1e-3f * (float)(i % 17) - 8e-3f;
    }
    return data;
}

static void pass_init(bench_pass *p, const dense_case *sizes)
{
    char spec[64];
    snprintf(spec, sizeof(spec), "mlp:hidden=%u,%u", sizes->hidden,
             sizes->hidden);
    if (muster_model_create(spec, DENSE_FEATURES, DENSE_CLASSES, NULL,
                            &p->model) != MUSTER_OK ||
        muster_threads_create(sizes->threads, &p->pool) != MUSTER_OK) {
        fprintf(stderr, "bench dense: no such model\n");
        exit(1);
    }
    uint32_t rows = muster_model_block_rows(&p->model, 1, sizes->threads);
    rows = sizes->batch < rows ? sizes->batch : rows;
    const dense_case block = {sizes->hidden, rows, sizes->threads};
    dense_products_init(&p->products, &block);
    p->rows = some((size_t)rows * DENSE_FEATURES);
    p->labels = some(rows);
    p->theta = some(p->model.dim);
    p->gradient = some(p->model.dim);
    p->scratch = some(muster_model_pass_bytes(&p->model, rows, sizes->threads) /
                          sizeof(float) +
                      1);
    memset(p->labels, 0, rows * sizeof(float));
    p->model.ops->init(p->model.self, 1, p->theta);
    p->input = (muster_layers_input){.theta = p->theta,
                                     .rows = {.count = rows,
                                              .features = DENSE_FEATURES,
                                              .dense = p->rows,
                                              .stride = DENSE_FEATURES,
                                              .labels = p->labels},
                                     .scratch = p->scratch,
                                     .gradient = p->gradient,
                                     .rows_summed = rows,
                                     .pool = p->pool};
}

static void pass_fini(bench_pass *p)
{
    muster_mem_free(p->rows);
    muster_mem_free(p->labels);
    muster_mem_free(p->theta);
    muster_mem_free(p->gradient);
    dense_products_fini(&p->products);
    muster_mem_free(p->scratch);
    muster_threads_free(p->pool);
    muster_model_free(&p->model);
}

static int kind_of(muster_layers_phase phase)
{
    return phase == MUSTER_LAYERS_FORWARD   ? DENSE_FORWARD
           : phase == MUSTER_LAYERS_WEIGHTS ? DENSE_WEIGHTS
           : phase == MUSTER_LAYERS_BELOW   ? DENSE_BELOW
                                            : DENSE_LOSS;
}

/* One pass, as a worker does it. */
static void pass_turn(bench_pass *p, phase_times *times)
{
    muster_layers_pass pass;
    muster_layers_coherence coherence = {.is_fresh = true};
    p->input.coherence = &coherence;
    muster_layers_begin(&pass, p->model.self, &p->input);
    *times = (phase_times){0};
    int64_t begin = muster_clock_ns();
    while (pass.phase != MUSTER_LAYERS_DONE) {
        double ops = 0;
        double *to = &times->s[kind_of(pass.phase)][pass.layer];
        if (muster_layers_advance(&pass, &ops) != MUSTER_OK) {
            exit(1);
        }
        int64_t now = muster_clock_ns();
        *to += (double)(now - begin) * 1e-9;
        begin = now;
    }
}

static void one_product(dense_products *p, int kind, uint32_t l,
                        phase_times *times)
{
    int64_t begin = muster_clock_ns();
    dense_product(p, (dense_kind)kind, l);
    times->s[kind][l] = (double)(muster_clock_ns() - begin) * 1e-9;
}

/* In the order of a pass. */
static void products_turn(dense_products *p, phase_times *times)
{
    *times = (phase_times){0};
    for (uint32_t l = 0; l < DENSE_LAYERS; l++) {
        one_product(p, DENSE_FORWARD, l, times);
    }
    for (uint32_t l = DENSE_LAYERS - 1; l < DENSE_LAYERS; l--) {
        one_product(p, DENSE_WEIGHTS, l, times);
        one_product(p, DENSE_BELOW, l, times);
    }
}

/* Threads of the other side sleep before a side begins, and its own do not. */
static void turn(bench_pass *p, uint32_t threads, phase_times *pass,
                 phase_times *products)
{
    const struct timespec nap = {0, threads > 1 ? NAP_NS : 0};
    (void)nanosleep(&nap, NULL);
    pass_turn(p, pass);
    pass_turn(p, pass);
    openblas_set_num_threads((int)threads);
    products_turn(&p->products, products);
    products_turn(&p->products, products);
    openblas_set_num_threads(1);
}

static double median_of(const phase_times *times, uint32_t turns, int kind,
                        uint32_t l)
{
    double values[TURNS_MAX];
    for (uint32_t i = 0; i < turns; i++) {
        values[i] = times[i].s[kind][l];
    }
    return bench_median(values, turns);
}

/* Of whole turns: medians of phases leave out what disturbs each turn. */
static double median_turn(const phase_times *times, uint32_t turns)
{
    double values[TURNS_MAX];
    for (uint32_t i = 0; i < turns; i++) {
        values[i] = 0;
        for (int kind = 0; kind < DENSE_KINDS; kind++) {
            for (uint32_t l = 0; l < DENSE_LAYERS; l++) {
                values[i] += times[i].s[kind][l];
            }
        }
    }
    return bench_median(values, turns);
}

static void print(const dense_case *sizes, const char *what, double value_s,
                  double sgemm_s, bool json)
{
    char name[64];
    snprintf(name, sizeof(name), "%s_%ux%ux%u", what, sizes->hidden,
             sizes->batch, sizes->threads);
    bench_row row = {name, value_s * 1e6, "us", sgemm_s > 0 ? "sgemm" : NULL,
                     sgemm_s * 1e6};
    bench_print(&row, json);
}

void dense_bench_phases(const dense_case *sizes, bool json)
{
    phase_times pass[TURNS_MAX];
    phase_times products[TURNS_MAX];
    uint32_t turns = 0;
    bench_pass p;
    pass_init(&p, sizes);
    int64_t begin = muster_clock_ns();
    while (turns < TURNS_MAX &&
           (turns < TURNS_MIN ||
            (double)(muster_clock_ns() - begin) * 1e-9 < BUDGET_S)) {
        turn(&p, sizes->threads, &pass[turns], &products[turns]);
        turns++;
    }
    for (int kind = 0; kind < DENSE_KINDS; kind++) {
        for (uint32_t l = 0; l < DENSE_LAYERS; l++) {
            char what[32];
            double value = median_of(pass, turns, kind, l);
            double alone =
                kind == DENSE_LOSS ? 0 : median_of(products, turns, kind, l);
            snprintf(what, sizeof(what), "%s%u", kind_names[kind], l);
            if (value > 0) {
                print(sizes, what, value, alone, json);
            }
        }
    }
    print(sizes, "pass", median_turn(pass, turns), median_turn(products, turns),
          json);
    pass_fini(&p);
}
