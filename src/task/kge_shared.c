/*
 * kge_shared.c -- a group of triples that shares its negatives.
 *
 * All rows are copied out, the scores of all questions against all negatives
 * are one block (kge_score.c), and so are the gradients; each row then moves
 * once, in place. Where scores are products, or norm=l2, one costs a fraction
 * of what it does one row at a time, so that a question may have a thousand
 * negatives.
 *
 * Questions 2i and 2i + 1 belong to triple i; entity 2i is its head, 2i + 1
 * its tail, so question q has entity q as its anchor and entity q ^ 1 as its
 * answer. A negative that is a question's own answer is left out of it.
 */
#include "base/mem.h"
#include "task/kernel.h"
#include "task/kge.h"

#define AHEAD    2u
#define LEFT_OUT (-1e30f) // the score of a negative that is no wrong answer

struct muster_kge_shared {
    const muster_kge_pass *p;
    float *floats; // one allocation, cut into the matrices below
    float *entities;
    float *relations;
    float *queries;
    float *query_gradients;
    float *entity_gradients;
    float *relation_gradients;
    muster_kge_block block; // all queries against all negatives
    uint32_t *keys;         // entities, then relations: two a triple
    muster_kge_question *questions;
    double loss;
};

/* Cut `count` floats off; rows stay on their own cache lines. */
static float *cut(float **at, size_t count)
{
    float *piece = *at;
    *at += (count + 15) / 16 * 16;
    return piece;
}

/* The block's matrices; the two that only one norm needs where it is used. */
static void allot_block(muster_kge_shared *s, float *at)
{
    const muster_kge_options *options = &s->p->k->options;
    bool distances = s->p->k->model == MUSTER_KGE_TRANSE;
    size_t asked = (size_t)2 * options->share;
    size_t negatives = options->negatives;
    s->block = (muster_kge_block){
        .queries = s->queries,
        .query_gradients = s->query_gradients,
        .count = options->negatives,
        .rows = cut(&at, negatives * options->dim),
        .scores = cut(&at, asked * negatives),
        .scratch = cut(&at, negatives),
    };
    if (distances && options->norm == MUSTER_KGE_L1) {
        s->block.row_gradients = cut(&at, negatives * options->dim);
    } else if (distances) {
        s->block.lengths = cut(&at, asked * negatives);
    }
}

static muster_status allot(muster_kge_shared *s)
{
    size_t dim = s->p->k->options.dim;
    size_t asked = (size_t)2 * s->p->k->options.share;
    size_t negatives = s->p->k->options.negatives;
    bool distances = s->p->k->model == MUSTER_KGE_TRANSE;
    size_t rows = asked * dim + 16;
    size_t block = negatives * dim + 16 + asked * negatives + 16;
    s->floats = muster_mem_raw_aligned(
        6 * rows + (distances ? 2 : 1) * block + negatives + 16, sizeof(float));
    s->keys = muster_mem_array(2 * asked, sizeof(*s->keys));
    s->questions = muster_mem_array(asked, sizeof(*s->questions));
    if (s->floats == NULL || s->keys == NULL || s->questions == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    float *at = s->floats;
    s->entities = cut(&at, asked * dim);
    s->relations = cut(&at, asked * dim);
    s->queries = cut(&at, asked * dim);
    s->query_gradients = cut(&at, asked * dim);
    s->entity_gradients = cut(&at, asked * dim);
    s->relation_gradients = cut(&at, asked * dim);
    allot_block(s, at);
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
    muster_mem_free(s->floats);
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
                                k->options.negatives, s->block.rows);
    }
    for (uint32_t q = 0; q < asked && status == MUSTER_OK; q++) {
        muster_kge_query(k->model, s->questions[q].backwards,
                         s->entities + q * dim, s->relations + q * dim,
                         (uint32_t)dim, s->queries + q * dim);
    }
    return status;
}

/* Scores become gradients; the truths' parts of the gradients are set. */
static void weigh(muster_kge_shared *s, const uint32_t *samples)
{
    const muster_kge *k = s->p->k;
    uint32_t negatives = k->options.negatives;
    uint32_t dim = k->options.dim;
    muster_kge_scores(k, &s->block);
    for (uint32_t q = 0; q < s->block.asked; q++) {
        float *scores = s->block.scores + (size_t)q * negatives;
        const float *query = s->queries + (size_t)q * dim;
        const float *answer = s->entities + (size_t)(q ^ 1) * dim;
        float truth = muster_kge_score(k, query, answer);
        muster_kernel_replace(scores, samples, negatives, s->keys[q ^ 1],
                              LEFT_OUT);
        s->loss +=
            muster_kge_weigh(k, &truth, scores, s->block.scratch, negatives);
        float *gradients[2] = {s->query_gradients + (size_t)q * dim,
                               s->entity_gradients + (size_t)(q ^ 1) * dim};
        muster_kge_score_back(k, query, answer, truth, gradients);
    }
}

/* Returns the gradients of the negatives. */
static const float *back(muster_kge_shared *s)
{
    const muster_kge *k = s->p->k;
    uint32_t dim = k->options.dim;
    const float *negatives = muster_kge_scores_back(k, &s->block);
    for (uint32_t q = 0; q < s->block.asked; q++) {
        size_t row = (size_t)q * dim;
        const float *both[2] = {s->entities + row, s->relations + row};
        // The query is not needed any more: its row takes the anchor's part.
        float *gradients[2] = {s->queries + row, s->relation_gradients + row};
        muster_kge_query_back(k->model, s->questions[q].backwards, both,
                              s->query_gradients + row, dim, gradients);
        muster_kernel_axpy(1, s->queries + row, s->entity_gradients + row, dim);
    }
    return negatives;
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
    s->block.asked = asked;
    weigh(s, samples);
    const float *negatives = back(s);
    *loss += s->loss;
    status = move_rows(s, MUSTER_KGE_ENTITIES, samples, options->negatives,
                       negatives, 0);
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
