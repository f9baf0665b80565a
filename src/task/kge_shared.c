/*
 * kge_shared.c -- a group of triples that shares its negatives.
 *
 * All rows are copied out, the scores of all questions against all negatives
 * are one matrix product, and so are the two gradients; each row then moves
 * once, in place. A score costs a fraction of what it does one row at a time,
 * so that a question may have a thousand negatives. Dot-product models only.
 *
 *   scores    = queries negatives^T             questions x negatives
 *   d queries = gradients negatives + truths
 *   d negatives = gradients^T queries
 *
 * Questions 2i and 2i + 1 belong to triple i; entity 2i is its head, 2i + 1
 * its tail, so question q has entity q as its anchor and entity q ^ 1 as its
 * answer. A negative that is a question's own answer is left out of it.
 */
#include <cblas.h>

#include "base/mem.h"
#include "task/kernel.h"
#include "task/kge.h"

#define AHEAD    2u
#define LEFT_OUT (-1e30f) // the score of a negative that is no wrong answer

struct muster_kge_shared {
    const muster_kge_pass *p;
    float *block; // one allocation, cut into the matrices below
    float *entities;
    float *relations;
    float *queries;
    float *query_gradients;
    float *entity_gradients;
    float *relation_gradients;
    float *negatives;
    float *scores; // questions x negatives
    float *scratch;
    uint32_t *keys; // entities, then relations: two a triple
    muster_kge_question *questions;
    double loss;
};

/* Cut `count` floats off the block; rows stay on their own cache lines. */
static float *cut(float **at, size_t count)
{
    float *piece = *at;
    *at += (count + 15) / 16 * 16;
    return piece;
}

static muster_status allot(muster_kge_shared *s)
{
    size_t dim = s->p->k->options.dim;
    size_t asked = (size_t)2 * s->p->k->options.share;
    size_t negatives = s->p->k->options.negatives;
    size_t rows = asked * dim + 16;
    s->block = muster_mem_raw_aligned(6 * rows + negatives * dim + 16 +
                                          asked * negatives + 16 + negatives,
                                      sizeof(float));
    s->keys = muster_mem_array(2 * asked, sizeof(*s->keys));
    s->questions = muster_mem_array(asked, sizeof(*s->questions));
    if (s->block == NULL || s->keys == NULL || s->questions == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    float *at = s->block;
    s->entities = cut(&at, asked * dim);
    s->relations = cut(&at, asked * dim);
    s->queries = cut(&at, asked * dim);
    s->query_gradients = cut(&at, asked * dim);
    s->entity_gradients = cut(&at, asked * dim);
    s->relation_gradients = cut(&at, asked * dim);
    s->negatives = cut(&at, negatives * dim);
    s->scores = cut(&at, asked * negatives);
    s->scratch = at;
    return MUSTER_OK;
}

muster_status muster_kge_shared_create(const muster_kge_pass *p,
                                       muster_kge_shared **shared_out)
{
    muster_kge_shared *s = muster_mem_array(1, sizeof(*s));
    if (s == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    s->p = p;
    if (allot(s) != MUSTER_OK) {
        muster_kge_shared_free(s);
        return MUSTER_ERR_NO_MEMORY;
    }
    *shared_out = s;
    return MUSTER_OK;
}

void muster_kge_shared_free(muster_kge_shared *s)
{
    if (s == NULL) {
        return;
    }
    muster_mem_free(s->block);
    muster_mem_free(s->keys);
    muster_mem_free(s->questions);
    muster_mem_free(s);
}

/* Copies of all rows, and the queries. */
static muster_status gather(muster_kge_shared *s, const muster_triple *triples,
                            uint32_t count, const uint32_t *samples)
{
    const muster_kge *k = s->p->k;
    muster_ps_worker *worker = s->p->worker;
    uint32_t asked = 2 * count;
    size_t dim = k->options.dim;
    for (uint32_t q = 0; q < asked; q++) {
        muster_triple t = triples[q / 2];
        s->questions[q] = muster_kge_ask(k, t, (int)(q % 2));
        s->keys[q] = s->questions[q].anchor;
        s->keys[asked + q] = s->questions[q].relation;
    }
    muster_status status = muster_ps_pull(worker, MUSTER_KGE_ENTITIES, s->keys,
                                          asked, s->entities);
    if (status == MUSTER_OK) {
        status = muster_ps_pull(worker, MUSTER_KGE_RELATIONS, s->keys + asked,
                                asked, s->relations);
    }
    if (status == MUSTER_OK) {
        status = muster_ps_pull(worker, MUSTER_KGE_ENTITIES, samples,
                                k->options.negatives, s->negatives);
    }
    for (uint32_t q = 0; q < asked && status == MUSTER_OK; q++) {
        muster_kge_query(k->model, s->questions[q].backwards,
                         s->entities + q * dim, s->relations + q * dim,
                         (uint32_t)dim, s->queries + q * dim);
    }
    return status;
}

/* Scores become gradients; the truths' parts of the gradients are set. */
static void weigh(muster_kge_shared *s, uint32_t asked, const uint32_t *samples)
{
    const muster_kge_options *options = &s->p->k->options;
    uint32_t negatives = options->negatives;
    uint32_t dim = options->dim;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)asked,
                (int)negatives, (int)dim, 1, s->queries, (int)dim, s->negatives,
                (int)dim, 0, s->scores, (int)negatives);
    for (uint32_t q = 0; q < asked; q++) {
        float *scores = s->scores + (size_t)q * negatives;
        const float *query = s->queries + (size_t)q * dim;
        const float *answer = s->entities + (size_t)(q ^ 1) * dim;
        float truth = muster_kernel_dot(query, answer, dim);
        muster_kernel_replace(scores, samples, negatives, s->keys[q ^ 1],
                              LEFT_OUT);
        s->loss +=
            muster_kge_weigh(s->p->k, &truth, scores, s->scratch, negatives);
        float *by_query = s->query_gradients + (size_t)q * dim;
        float *by_answer = s->entity_gradients + (size_t)(q ^ 1) * dim;
        for (uint32_t i = 0; i < dim; i++) {
            by_query[i] = truth * answer[i];
            by_answer[i] = truth * query[i];
        }
    }
}

static void back(muster_kge_shared *s, uint32_t asked)
{
    const muster_kge *k = s->p->k;
    uint32_t dim = k->options.dim;
    uint32_t negatives = k->options.negatives;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)asked, (int)dim,
                (int)negatives, 1, s->scores, (int)negatives, s->negatives,
                (int)dim, 1, s->query_gradients, (int)dim);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)negatives,
                (int)dim, (int)asked, 1, s->scores, (int)negatives, s->queries,
                (int)dim, 0, s->negatives, (int)dim);
    for (uint32_t q = 0; q < asked; q++) {
        size_t row = (size_t)q * dim;
        const float *both[2] = {s->entities + row, s->relations + row};
        // The query is not needed any more: its row takes the anchor's part.
        float *gradients[2] = {s->queries + row, s->relation_gradients + row};
        muster_kge_query_back(k->model, s->questions[q].backwards, both,
                              s->query_gradients + row, dim, gradients);
        muster_kernel_axpy(1, s->queries + row, s->entity_gradients + row, dim);
    }
}

static muster_status move_rows(const muster_kge_shared *s, uint32_t table,
                               const uint32_t *keys, uint32_t count,
                               const float *gradients, float n3)
{
    muster_status status = MUSTER_OK;
    for (uint32_t i = 0; i < count && status == MUSTER_OK; i++) {
        if (i + AHEAD < count) {
            muster_ps_prefetch(s->p->worker, table, keys[i + AHEAD]);
        }
        status =
            muster_kge_move(s->p, table, keys[i],
                            gradients + (size_t)i * s->p->k->options.dim, n3);
    }
    return status;
}

muster_status muster_kge_shared_train(muster_kge_shared *s,
                                      const muster_triple *triples,
                                      uint32_t count, const uint32_t *samples,
                                      double *loss)
{
    const muster_kge_options *options = &s->p->k->options;
    uint32_t asked = 2 * count;
    float n3 = (float)(3 * options->n3);
    muster_status status = gather(s, triples, count, samples);
    if (status != MUSTER_OK) {
        return status;
    }
    s->loss = 0;
    weigh(s, asked, samples);
    back(s, asked);
    *loss += s->loss;
    status = move_rows(s, MUSTER_KGE_ENTITIES, samples, options->negatives,
                       s->negatives, 0);
    if (status == MUSTER_OK) {
        // An entity stands in both questions of its triple.
        status = move_rows(s, MUSTER_KGE_ENTITIES, s->keys, asked,
                           s->entity_gradients, 2 * n3);
    }
    return status == MUSTER_OK
               ? move_rows(s, MUSTER_KGE_RELATIONS, s->keys + asked, asked,
                           s->relation_gradients, n3)
               : status;
}
