/*
 * kge_alone.c -- questions with negatives of their own.
 *
 * Each triple asks two questions, one for its tail and one for its head (the
 * plain logistic loss scores and penalises the true triple once, with the
 * first, unless relations are reciprocal). The rows of the anchor and the
 * relation are copied, the query made once, and each candidate then scored and
 * moved in place, one latch at a time.
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "task/kernel.h"
#include "task/kge.h"

#define AHEAD 2u

struct muster_kge_alone {
    const muster_kge_pass *p;
    float *block; // one allocation, cut into the rows below
    float *anchor;
    float *relation;
    float *query;
    float *query_gradient;
    float *gradients[2];
    float *scores; // of the candidates
    float *scratch;
    uint32_t *candidates; // [0] is the true one
    float rate_n3[2];     // of rows that the triple names
    float rate_0[2];      // of negatives: no penalty
    double loss;
};

muster_status muster_kge_alone_create(const muster_kge_pass *p,
                                      muster_kge_alone **alone_out)
{
    size_t dim = p->k->options.dim;
    size_t candidates = (size_t)p->k->options.negatives + 1;
    muster_kge_alone *a = muster_mem_array(1, sizeof(*a));
    if (a == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    a->p = p;
    a->block = muster_mem_raw_aligned(6 * dim + 2 * candidates, sizeof(float));
    a->candidates = muster_mem_array(candidates, sizeof(*a->candidates));
    if (a->block == NULL || a->candidates == NULL) {
        muster_kge_alone_free(a);
        return MUSTER_ERR_NO_MEMORY;
    }
    a->anchor = a->block;
    a->relation = a->block + dim;
    a->query = a->block + 2 * dim;
    a->query_gradient = a->block + 3 * dim;
    a->gradients[0] = a->block + 4 * dim;
    a->gradients[1] = a->block + 5 * dim;
    a->scores = a->block + 6 * dim;
    a->scratch = a->scores + candidates;
    a->rate_n3[1] = (float)(3 * p->k->options.n3);
    *alone_out = a;
    return MUSTER_OK;
}

void muster_kge_alone_free(muster_kge_alone *a)
{
    if (a == NULL) {
        return;
    }
    muster_mem_free(a->block);
    muster_mem_free(a->candidates);
    muster_mem_free(a);
}

/* Move a candidate's row and collect the query's gradient. */
static void move_candidate(muster_kge_alone *a, uint32_t index, float g,
                           float *row)
{
    const float *rate = index == 0 ? a->rate_n3 : a->rate_0;
    const muster_kge_options *options = &a->p->k->options;
    uint32_t dim = options->dim;
    bool distance = a->p->k->model == MUSTER_KGE_TRANSE;
    // The score rises as the row nears the query.
    if (distance && options->norm == MUSTER_KGE_L1) {
        muster_kernel_candidate_l1(row, a->query, a->query_gradient, dim, g,
                                   rate);
    } else if (distance) {
        muster_kernel_candidate_l2(row, a->query, a->query_gradient, dim, g,
                                   rate);
    } else {
        muster_kernel_candidate(row, a->query, a->query_gradient, dim, g, rate);
    }
}

/* What a visit does with a candidate's row. */
typedef enum visit_kind {
    VISIT_SCORE,
    VISIT_MOVE,     // by scores[], which are gradients by then
    VISIT_LOGISTIC, // score and move: no other candidate matters
} visit_kind;

static inline void visit_row(muster_kge_alone *a, visit_kind kind, uint32_t i,
                             float *row)
{
    if (kind == VISIT_SCORE) {
        a->scores[i] = muster_kge_score(a->p->k, a->query, row);
        return;
    }
    float gradient = a->scores[i];
    if (kind == VISIT_LOGISTIC) {
        gradient =
            muster_kernel_sigmoid(muster_kge_score(a->p->k, a->query, row));
        if (i == 0) {
            a->loss -= (double)logf(gradient > 1e-7f ? gradient : 1e-7f);
            gradient -= 1;
        }
    }
    move_candidate(a, i, gradient, row);
}

/* Candidates first..count-1, each under its own latch. */
static muster_status visit(muster_kge_alone *a, visit_kind kind, uint32_t first,
                           uint32_t count)
{
    muster_ps_worker *worker = a->p->worker;
    for (uint32_t i = first; i < count; i++) {
        float *row;
        uint32_t key = a->candidates[i];
        if (i + AHEAD < count) {
            muster_ps_prefetch(worker, MUSTER_KGE_ENTITIES,
                               a->candidates[i + AHEAD]);
        }
        muster_status status =
            muster_ps_begin(worker, MUSTER_KGE_ENTITIES, key, &row);
        if (status != MUSTER_OK) {
            return status;
        }
        visit_row(a, kind, i, row);
        status = muster_ps_end(worker, MUSTER_KGE_ENTITIES, key);
        if (status != MUSTER_OK) {
            return status;
        }
    }
    return MUSTER_OK;
}

/* The other losses: all candidates scored, weighed together, then moved. */
static muster_status together(muster_kge_alone *a, uint32_t count)
{
    muster_status status = visit(a, VISIT_SCORE, 0, count);
    if (status != MUSTER_OK) {
        return status;
    }
    a->loss += muster_kge_weigh(a->p->k, &a->scores[0], &a->scores[1],
                                a->scratch, count - 1);
    return visit(a, VISIT_MOVE, 0, count);
}

static muster_status answer(muster_kge_alone *a, muster_kge_question question,
                            uint32_t first, uint32_t count)
{
    const muster_kge *k = a->p->k;
    muster_ps_worker *worker = a->p->worker;
    uint32_t dim = k->options.dim;
    for (uint32_t i = first; i < count && i < first + AHEAD; i++) {
        muster_ps_prefetch(worker, MUSTER_KGE_ENTITIES, a->candidates[i]);
    }
    muster_status status = muster_ps_pull(worker, MUSTER_KGE_ENTITIES,
                                          &question.anchor, 1, a->anchor);
    if (status == MUSTER_OK) {
        status = muster_ps_pull(worker, MUSTER_KGE_RELATIONS,
                                &question.relation, 1, a->relation);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    muster_kge_query(k->model, question.backwards, a->anchor, a->relation, dim,
                     a->query);
    memset(a->query_gradient, 0, dim * sizeof(float));
    status = k->options.loss == MUSTER_KGE_LOGISTIC
                 ? visit(a, VISIT_LOGISTIC, first, count)
                 : together(a, count);
    if (status != MUSTER_OK) {
        return status;
    }
    // The penalty goes with the truth: of each row once where it is scored
    // once.
    float n3 = first == 0 ? a->rate_n3[1] : 0;
    const float *both[2] = {a->anchor, a->relation};
    muster_kge_query_back(k->model, question.backwards, both, a->query_gradient,
                          dim, a->gradients);
    status = muster_kge_move(a->p, MUSTER_KGE_ENTITIES, question.anchor,
                             a->gradients[0], n3);
    return status == MUSTER_OK
               ? muster_kge_move(a->p, MUSTER_KGE_RELATIONS, question.relation,
                                 a->gradients[1], n3)
               : status;
}

static void bring_closer(const muster_kge_alone *a, muster_triple triple)
{
    muster_ps_prefetch(a->p->worker, MUSTER_KGE_ENTITIES, triple.head);
    muster_ps_prefetch(a->p->worker, MUSTER_KGE_ENTITIES, triple.tail);
}

static muster_status train_triple(muster_kge_alone *a, muster_triple triple,
                                  const uint32_t *samples)
{
    const muster_kge *k = a->p->k;
    uint32_t negatives = k->options.negatives;
    // Asked the other way round, the logistic loss of the truth is the same.
    bool once =
        k->options.loss == MUSTER_KGE_LOGISTIC && !k->options.reciprocal;
    for (int side = 0; side < 2; side++) {
        a->candidates[0] = side == 0 ? triple.tail : triple.head;
        memcpy(&a->candidates[1], samples + (size_t)side * negatives,
               negatives * sizeof(*samples));
        muster_status status = answer(a, muster_kge_ask(k, triple, side),
                                      once && side == 1 ? 1 : 0, negatives + 1);
        if (status != MUSTER_OK) {
            return status;
        }
    }
    return MUSTER_OK;
}

muster_status muster_kge_alone_train(muster_kge_alone *a,
                                     const muster_triple *triples,
                                     uint32_t count, const uint32_t *samples,
                                     double *loss)
{
    size_t each = (size_t)2 * a->p->k->options.negatives;
    muster_status status = MUSTER_OK;
    a->loss = 0;
    a->rate_n3[0] = a->p->rate;
    a->rate_0[0] = a->p->rate;
    for (uint32_t i = 0; i < count && status == MUSTER_OK; i++) {
        if (i + 1 < count) {
            bring_closer(a, triples[i + 1]);
        }
        status = train_triple(a, triples[i], samples + i * each);
    }
    *loss += a->loss;
    return status;
}
