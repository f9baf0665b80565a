/*
 * kge_query.c -- questions and their query vectors, forwards and back.
 */
#include <string.h>

#include "task/kernel.h"
#include "task/kge.h"

muster_kge_question muster_kge_ask(const muster_kge *k, muster_triple triple,
                                   int side)
{
    if (side == 0) {
        return (muster_kge_question){triple.head, triple.relation, false};
    }
    if (k->options.reciprocal) {
        return (muster_kge_question){
            triple.tail, triple.relation + k->triples.relations, false};
    }
    return (muster_kge_question){triple.tail, triple.relation, true};
}

static void multiply(const float *a, const float *b, float *out, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        out[i] = a[i] * b[i];
    }
}

/* out = a + scale * b */
static void add(const float *a, float scale, const float *b, float *out,
                uint32_t n)
{
    memcpy(out, a, n * sizeof(float));
    muster_kernel_axpy(scale, b, out, n);
}

void muster_kge_query(muster_kge_model model, bool backwards,
                      const float *anchor, const float *relation, uint32_t dim,
                      float *query)
{
    switch (model) {
    case MUSTER_KGE_COMPLEX:
        if (backwards) {
            muster_kernel_complex_back(anchor, relation, query, dim);
        } else {
            muster_kernel_complex(anchor, relation, query, dim);
        }
        return;
    case MUSTER_KGE_DISTMULT:
        multiply(anchor, relation, query, dim);
        return;
    case MUSTER_KGE_TRANSE:
        add(anchor, backwards ? -1 : 1, relation, query, dim);
        return;
    }
}

void muster_kge_query_back(muster_kge_model model, bool backwards,
                           const float *const *anchor_relation,
                           const float *query_gradient, uint32_t dim,
                           float *const *gradients)
{
    const float *anchor = anchor_relation[0];
    const float *relation = anchor_relation[1];
    switch (model) {
    case MUSTER_KGE_COMPLEX:
        if (backwards) {
            // query = anchor conj(relation)
            muster_kernel_complex(query_gradient, relation, gradients[0], dim);
            muster_kernel_complex_back(anchor, query_gradient, gradients[1],
                                       dim);
        } else {
            muster_kernel_complex_back(query_gradient, relation, gradients[0],
                                       dim);
            muster_kernel_complex_back(query_gradient, anchor, gradients[1],
                                       dim);
        }
        return;
    case MUSTER_KGE_DISTMULT:
        multiply(query_gradient, relation, gradients[0], dim);
        multiply(query_gradient, anchor, gradients[1], dim);
        return;
    case MUSTER_KGE_TRANSE:
        memcpy(gradients[0], query_gradient, dim * sizeof(float));
        memset(gradients[1], 0, dim * sizeof(float));
        muster_kernel_axpy(backwards ? -1 : 1, query_gradient, gradients[1],
                           dim);
        return;
    }
}
