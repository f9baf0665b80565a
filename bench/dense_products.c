/*
 * The matrix products of a gradient, each in one call of sgemm over the whole
 * batch: the limit. Every layer has buffers of its own, as in a real pass.
 */
#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "bench_dense.h"

static float *floats(size_t count)
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

void dense_products_init(dense_products *p, const dense_case *sizes)
{
    *p = (dense_products){
        .sizes = {DENSE_FEATURES, sizes->hidden, sizes->hidden, DENSE_CLASSES},
        .rows = sizes->batch};
    size_t widest = 0;
    for (uint32_t l = 0; l <= DENSE_LAYERS; l++) {
        p->outs[l] = floats((size_t)p->rows * p->sizes[l]);
        widest = p->sizes[l] > widest ? p->sizes[l] : widest;
    }
    p->slopes = floats(p->rows * widest);
    for (uint32_t l = 0; l < DENSE_LAYERS; l++) {
        size_t count = (size_t)p->sizes[l] * p->sizes[l + 1];
        p->weights[l] = floats(count);
        p->gradients[l] = floats(count);
    }
}

void dense_products_fini(dense_products *p)
{
    for (uint32_t l = 0; l <= DENSE_LAYERS; l++) {
        muster_mem_free(p->outs[l]);
    }
    muster_mem_free(p->slopes);
    for (uint32_t l = 0; l < DENSE_LAYERS; l++) {
        muster_mem_free(p->weights[l]);
        muster_mem_free(p->gradients[l]);
    }
}

void dense_product(dense_products *p, dense_kind kind, uint32_t l)
{
    int rows = (int)p->rows;
    int in = (int)p->sizes[l];
    int out = (int)p->sizes[l + 1];
    if (kind == DENSE_FORWARD) {
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, out, in,
                    1.0f, p->outs[l], in, p->weights[l], out, 0.0f,
                    p->outs[l + 1], out);
    } else if (kind == DENSE_WEIGHTS) {
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, in, out, rows,
                    1.0f, p->outs[l], in, p->outs[l + 1], out, 0.0f,
                    p->gradients[l], out);
    } else if (kind == DENSE_BELOW && l > 0) {
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, in, out,
                    1.0f, p->outs[l + 1], out, p->weights[l], out, 0.0f,
                    p->slopes, in);
    }
}

void dense_products_all(dense_products *p)
{
    for (uint32_t l = 0; l < DENSE_LAYERS; l++) {
        dense_product(p, DENSE_FORWARD, l);
    }
    for (uint32_t l = DENSE_LAYERS - 1; l < DENSE_LAYERS; l--) {
        dense_product(p, DENSE_WEIGHTS, l);
        dense_product(p, DENSE_BELOW, l);
    }
}
