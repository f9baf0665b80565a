/*
 * bench_dense.h -- what the files of `muster bench dense` share.
 */
#ifndef MUSTER_BENCH_DENSE_H
#define MUSTER_BENCH_DENSE_H

#include <stdbool.h>
#include <stdint.h>

#define DENSE_FEATURES 1024u
#define DENSE_CLASSES  10u
#define DENSE_LAYERS   3u

/* A model of FEATURES-hidden-hidden-CLASSES and a batch. */
typedef struct dense_case {
    uint32_t hidden;
    uint32_t batch;
    uint32_t threads; // of the worker, and of BLAS for the products alone
} dense_case;

typedef struct dense_times {
    double gradient_s; // a worker's GRADIENT job, whole
    double products_s; // its matrix products alone, each in one call
    double piece_s;    // the longest piece of a job: the median of such
} dense_times;

/* Phases that layers have, in the order of a pass. */
typedef enum dense_kind {
    DENSE_FORWARD,
    DENSE_LOSS,
    DENSE_WEIGHTS,
    DENSE_BELOW,
    DENSE_KINDS,
} dense_kind;

/* What the products alone work on. */
typedef struct dense_products {
    uint32_t sizes[DENSE_LAYERS + 1];
    uint32_t rows;
    float *outs[DENSE_LAYERS + 1]; // [0]: the rows
    float *slopes;
    float *weights[DENSE_LAYERS];
    float *gradients[DENSE_LAYERS];
} dense_products;

/* Ends the program when there is no memory. */
void dense_products_init(dense_products *p, const dense_case *sizes);
void dense_products_fini(dense_products *p);
/* One of them; nothing for the loss, and below the first layer. */
void dense_product(dense_products *p, dense_kind kind, uint32_t layer);
void dense_products_all(dense_products *p);

/* Medians of turns that alternate; ends the program when something fails. */
dense_times dense_measure(const dense_case *sizes);

/* Operations of those products. */
double dense_operations(const dense_case *sizes);

/* Each phase of a block's pass, in microseconds, beside its product alone. */
void dense_bench_phases(const dense_case *sizes, bool json);

/* Adam, and the combination of messages, beside copying memory. */
void dense_bench_memory(bool json);

/* Steps of 1024-H-H-10 by processes of this machine. */
void dense_bench_large(uint32_t hidden, bool json);

#endif // MUSTER_BENCH_DENSE_H
