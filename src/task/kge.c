/*
 * kge.c -- training of knowledge graph embeddings.
 *
 * Each triple asks two questions, one for its tail and one for its head (the
 * plain logistic loss scores the true triple once, with the first). The rows
 * of the anchor and the relation are copied, the query made once, and each
 * candidate then scored and moved in place, one latch at a time. Triples go in
 * groups; the rows and samples of a group are prepared some groups ahead.
 */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/perm.h"
#include "task/kernel.h"
#include "task/kge.h"
#include "task/tasks.h"

#define GROUP         32u
#define LOOK          8u // groups are prepared so far ahead
#define NEGATIVES_MAX 512u
#define AHEAD         2u

static const muster_spec_field fields[] = {
    {"dim", MUSTER_SPEC_UINT, offsetof(muster_kge_options, dim), 2, 8192, NULL},
    {"negatives", MUSTER_SPEC_UINT, offsetof(muster_kge_options, negatives), 1,
     NEGATIVES_MAX, NULL},
    {"loss", MUSTER_SPEC_WORD, offsetof(muster_kge_options, loss), 0, 0,
     "softmax|logistic|adversarial"},
    {"reciprocal", MUSTER_SPEC_UINT, offsetof(muster_kge_options, reciprocal),
     0, 1, NULL},
    {"n3", MUSTER_SPEC_DOUBLE, offsetof(muster_kge_options, n3), 0, 10, NULL},
    {"temperature", MUSTER_SPEC_DOUBLE,
     offsetof(muster_kge_options, temperature), 0, 100, NULL},
    {"margin", MUSTER_SPEC_DOUBLE, offsetof(muster_kge_options, margin), 0,
     1000, NULL},
    {"scale", MUSTER_SPEC_DOUBLE, offsetof(muster_kge_options, scale), 0, 10,
     NULL},
    {"decay", MUSTER_SPEC_DOUBLE, offsetof(muster_kge_options, decay), 0.01, 1,
     NULL},
    {"valid", MUSTER_SPEC_UINT, offsetof(muster_kge_options, valid), 0, 1e9,
     NULL},
    {"scheme", MUSTER_SPEC_WORD, offsetof(muster_kge_options, scheme), 0, 0,
     "independent|reuse|postpone|local|repurpose"},
    {"reuse", MUSTER_SPEC_UINT, offsetof(muster_kge_options, reuse), 1, 1024,
     NULL},
};

static void kge_free(void *task)
{
    muster_kge *k = task;
    if (k == NULL) {
        return;
    }
    muster_triples_fini(&k->triples);
    muster_mem_free(k->known[0]);
    muster_mem_free(k->known[1]);
    muster_mem_free(k);
}

static muster_status check_options(const muster_kge *k,
                                   const muster_task_opts *opts,
                                   muster_error *error_out)
{
    if (opts->optimizer != NULL && strcmp(opts->optimizer, "adagrad") != 0) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "--optimizer %s: knowledge graph models are "
                                "trained with adagrad",
                                opts->optimizer);
    }
    if (k->model == MUSTER_KGE_COMPLEX && k->options.dim % 2 != 0) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "--model %s: dim must be even: half of it is "
                                "imaginary",
                                opts->model);
    }
    return MUSTER_OK;
}

static muster_kge_options defaults(muster_kge_model model)
{
    muster_kge_options options = {.dim = 256,
                                  .negatives = 100,
                                  .loss = MUSTER_KGE_SOFTMAX,
                                  .reciprocal = 1,
                                  .reuse = 16,
                                  .valid = 1000,
                                  .n3 = 0.01,
                                  .temperature = 1,
                                  .margin = 9,
                                  .scale = 0.05,
                                  .decay = 0.95};
    if (model == MUSTER_KGE_TRANSE) {
        options.loss = MUSTER_KGE_ADVERSARIAL;
        options.n3 = 0;
    }
    return options;
}

static muster_status create(muster_kge_model model,
                            const muster_task_opts *opts,
                            muster_error *error_out, void **task_out)
{
    muster_kge *k = muster_mem_array(1, sizeof(*k));
    if (k == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "--model %s: out of memory", opts->model);
    }
    k->model = model;
    k->options = defaults(model);
    k->parts = opts->parts_max;
    k->seed = opts->seed;
    k->rate = opts->rate > 0 ? opts->rate : 0.1;
    muster_status status = muster_spec_parse(opts->model, fields,
                                             sizeof(fields) / sizeof(fields[0]),
                                             &k->options, error_out);
    if (status == MUSTER_OK) {
        status = check_options(k, opts, error_out);
    }
    if (status == MUSTER_OK) {
        status = muster_triples_load(opts->data, error_out, &k->triples);
    }
    if (status == MUSTER_OK) {
        status = muster_kge_index(k);
        if (status != MUSTER_OK) {
            status = muster_error_set(error_out, status, "%s: out of memory",
                                      opts->data);
        }
    }
    if (status != MUSTER_OK) {
        kge_free(k);
        return status;
    }
    *task_out = k;
    return MUSTER_OK;
}

static muster_status create_complex(const muster_task_opts *opts,
                                    muster_error *error_out, void **task_out)
{
    return create(MUSTER_KGE_COMPLEX, opts, error_out, task_out);
}

static muster_status create_distmult(const muster_task_opts *opts,
                                     muster_error *error_out, void **task_out)
{
    return create(MUSTER_KGE_DISTMULT, opts, error_out, task_out);
}

static muster_status create_transe(const muster_task_opts *opts,
                                   muster_error *error_out, void **task_out)
{
    return create(MUSTER_KGE_TRANSE, opts, error_out, task_out);
}

static muster_status kge_tables(void *task, muster_ps *ps,
                                muster_error *error_out)
{
    muster_kge *k = task;
    muster_ps_table_opts opts = MUSTER_PS_TABLE_OPTS_INIT;
    uint32_t number;
    opts.width = k->options.dim;
    opts.optimizer = MUSTER_PS_ADAGRAD;
    opts.init = MUSTER_PS_NORMAL;
    opts.scale = (float)k->options.scale;
    opts.keys = k->triples.entities;
    muster_status status = muster_ps_table_add(ps, &opts, error_out, &number);
    if (status == MUSTER_OK) {
        opts.keys = k->triples.relations * (k->options.reciprocal ? 2 : 1);
        status = muster_ps_table_add(ps, &opts, error_out, &number);
    }
    if (status == MUSTER_OK) {
        muster_ps_distribution_opts uniform = MUSTER_PS_DISTRIBUTION_OPTS_INIT;
        uniform.table = MUSTER_KGE_ENTITIES;
        uniform.scheme = k->options.scheme + 1;
        uniform.reuse = k->options.reuse;
        status = muster_ps_distribution_add(ps, &uniform, error_out,
                                            &k->distribution);
    }
    return status;
}

static uint64_t kge_units(const void *task)
{
    const muster_kge *k = task;
    return k->triples.count[MUSTER_TRIPLES_TRAIN];
}

static uint32_t kge_epochs(void)
{
    return 20;
}

/* A worker's buffers and where it is. */
typedef struct pass {
    const muster_kge *k;
    muster_ps_worker *worker;
    float *block; // one allocation, cut into the five rows below
    float *anchor;
    float *relation;
    float *query;
    float *query_gradient;
    float *gradients[2];
    uint32_t *samples; // of a group
    float rate_n3[2];  // of rows that the triple names
    float rate_0[2];   // of negatives: no penalty
    float scores[NEGATIVES_MAX + 1];
    uint32_t candidates[NEGATIVES_MAX + 1]; // [0] is the true one
    double loss;
    uint64_t questions;
} pass;

static muster_status pass_init(pass *p, const muster_kge *k,
                               muster_ps_worker *worker, uint32_t epoch)
{
    size_t dim = k->options.dim;
    p->k = k;
    p->worker = worker;
    p->block = muster_mem_raw_aligned(6 * dim, sizeof(float));
    p->samples = muster_mem_array((size_t)GROUP * 2 * k->options.negatives,
                                  sizeof(*p->samples));
    if (p->block == NULL || p->samples == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    p->anchor = p->block;
    p->relation = p->block + dim;
    p->query = p->block + 2 * dim;
    p->query_gradient = p->block + 3 * dim;
    p->gradients[0] = p->block + 4 * dim;
    p->gradients[1] = p->block + 5 * dim;
    float rate = (float)(k->rate * pow(k->options.decay, epoch));
    p->rate_n3[0] = rate;
    p->rate_n3[1] = (float)(3 * k->options.n3);
    p->rate_0[0] = rate;
    p->rate_0[1] = 0;
    return MUSTER_OK;
}

static void pass_fini(pass *p)
{
    muster_mem_free(p->block);
    muster_mem_free(p->samples);
}

static float score(const pass *p, const float *row)
{
    uint32_t dim = p->k->options.dim;
    return p->k->model == MUSTER_KGE_TRANSE
               ? (float)p->k->options.margin -
                     muster_kernel_distance(p->query, row, dim)
               : muster_kernel_dot(p->query, row, dim);
}

/* Move a candidate's row and collect the query's gradient. */
static void move_candidate(pass *p, uint32_t index, float g, float *row)
{
    const float *rate = index == 0 ? p->rate_n3 : p->rate_0;
    uint32_t dim = p->k->options.dim;
    if (p->k->model == MUSTER_KGE_TRANSE) {
        // The score rises as the row nears the query.
        muster_kernel_candidate_l1(row, p->query, p->query_gradient, dim, g,
                                   rate);
    } else {
        muster_kernel_candidate(row, p->query, p->query_gradient, dim, g, rate);
    }
}

/* Each candidate by itself: scored and moved under one latch. */
static muster_status logistic(pass *p, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < count; i++) {
        float *row;
        uint32_t key = p->candidates[i];
        if (i + AHEAD < count) {
            muster_ps_prefetch(p->worker, MUSTER_KGE_ENTITIES,
                               p->candidates[i + AHEAD]);
        }
        muster_status status =
            muster_ps_begin(p->worker, MUSTER_KGE_ENTITIES, key, &row);
        if (status != MUSTER_OK) {
            return status;
        }
        float right = muster_kernel_sigmoid(score(p, row));
        if (i == 0) {
            p->loss -= (double)logf(right > 1e-7f ? right : 1e-7f);
            right -= 1;
        }
        move_candidate(p, i, right, row);
        status = muster_ps_end(p->worker, MUSTER_KGE_ENTITIES, key);
        if (status != MUSTER_OK) {
            return status;
        }
    }
    return MUSTER_OK;
}

/* exp(scale * (score - max)) normalised, over scores[first..count-1]. */
static void soften(float *scores, uint32_t first, uint32_t count, float scale)
{
    float most = scores[first];
    float sum = 0;
    for (uint32_t i = first + 1; i < count; i++) {
        most = scores[i] > most ? scores[i] : most;
    }
    for (uint32_t i = first; i < count; i++) {
        scores[i] = expf(scale * (scores[i] - most));
        sum += scores[i];
    }
    for (uint32_t i = first; i < count; i++) {
        scores[i] /= sum;
    }
}

/* Turn scores into the loss's gradients by the scores. */
static void weigh(pass *p, uint32_t count)
{
    float *s = p->scores;
    if (p->k->options.loss == MUSTER_KGE_SOFTMAX) {
        soften(s, 0, count, 1);
        p->loss -= (double)logf(s[0] > 1e-12f ? s[0] : 1e-12f);
        s[0] -= 1;
        return;
    }
    float right = muster_kernel_sigmoid(s[0]);
    float plain[NEGATIVES_MAX + 1];
    memcpy(plain, s, count * sizeof(float));
    soften(s, 1, count, (float)p->k->options.temperature);
    for (uint32_t i = 1; i < count; i++) {
        s[i] *= muster_kernel_sigmoid(plain[i]);
    }
    p->loss -= (double)logf(right > 1e-7f ? right : 1e-7f);
    s[0] = right - 1;
}

/* All candidates scored, weighed together, then moved. */
static muster_status together(pass *p, uint32_t count)
{
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < count; i++) {
            float *row;
            uint32_t key = p->candidates[i];
            if (i + AHEAD < count) {
                muster_ps_prefetch(p->worker, MUSTER_KGE_ENTITIES,
                                   p->candidates[i + AHEAD]);
            }
            muster_status status =
                muster_ps_begin(p->worker, MUSTER_KGE_ENTITIES, key, &row);
            if (status != MUSTER_OK) {
                return status;
            }
            if (round == 0) {
                p->scores[i] = score(p, row);
            } else {
                move_candidate(p, i, p->scores[i], row);
            }
            status = muster_ps_end(p->worker, MUSTER_KGE_ENTITIES, key);
            if (status != MUSTER_OK) {
                return status;
            }
        }
        if (round == 0) {
            weigh(p, count);
        }
    }
    return MUSTER_OK;
}

static muster_status move_row(pass *p, uint32_t table, uint32_t key,
                              const float *gradient)
{
    float *row;
    muster_status status = muster_ps_begin(p->worker, table, key, &row);
    if (status != MUSTER_OK) {
        return status;
    }
    muster_kernel_adagrad(row, gradient, p->k->options.dim, p->rate_n3[0],
                          p->rate_n3[1]);
    return muster_ps_end(p->worker, table, key);
}

static muster_status answer(pass *p, muster_kge_question question,
                            uint32_t first, uint32_t count)
{
    const muster_kge *k = p->k;
    uint32_t dim = k->options.dim;
    muster_status status = muster_ps_pull(p->worker, MUSTER_KGE_ENTITIES,
                                          &question.anchor, 1, p->anchor);
    if (status == MUSTER_OK) {
        status = muster_ps_pull(p->worker, MUSTER_KGE_RELATIONS,
                                &question.relation, 1, p->relation);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    muster_kge_query(k->model, question.backwards, p->anchor, p->relation, dim,
                     p->query);
    memset(p->query_gradient, 0, dim * sizeof(float));
    status = k->options.loss == MUSTER_KGE_LOGISTIC ? logistic(p, first, count)
                                                    : together(p, count);
    if (status != MUSTER_OK) {
        return status;
    }
    const float *both[2] = {p->anchor, p->relation};
    muster_kge_query_back(k->model, question.backwards, both, p->query_gradient,
                          dim, p->gradients);
    p->questions++;
    status = move_row(p, MUSTER_KGE_ENTITIES, question.anchor, p->gradients[0]);
    return status == MUSTER_OK ? move_row(p, MUSTER_KGE_RELATIONS,
                                          question.relation, p->gradients[1])
                               : status;
}

static muster_status train_triple(pass *p, muster_triple triple,
                                  const uint32_t *samples)
{
    const muster_kge *k = p->k;
    uint32_t negatives = k->options.negatives;
    // Asked the other way round, the logistic loss of the truth is the same.
    bool once =
        k->options.loss == MUSTER_KGE_LOGISTIC && !k->options.reciprocal;
    for (int side = 0; side < 2; side++) {
        p->candidates[0] = side == 0 ? triple.tail : triple.head;
        memcpy(&p->candidates[1], samples + (size_t)side * negatives,
               negatives * sizeof(*samples));
        muster_status status = answer(p, muster_kge_ask(k, triple, side),
                                      once && side == 1 ? 1 : 0, negatives + 1);
        if (status != MUSTER_OK) {
            return status;
        }
    }
    return MUSTER_OK;
}

/* The share's triples in the epoch's order, group by group. */
typedef struct tour {
    muster_perm order;
    uint64_t start;
    uint64_t count;
} tour;

static uint32_t group_size(const tour *t, uint64_t at)
{
    uint64_t left = at < t->count ? t->count - at : 0;
    return (uint32_t)(left < GROUP ? left : GROUP);
}

/* Wish for the rows that a group's triples name. */
static muster_status wish_group(pass *p, const tour *t, uint64_t at)
{
    const muster_triple *set = p->k->triples.set[MUSTER_TRIPLES_TRAIN];
    uint32_t size = group_size(t, at);
    uint32_t entities[2 * GROUP];
    uint32_t relations[2 * GROUP];
    for (uint32_t i = 0; i < size; i++) {
        muster_triple one = set[t->start + muster_perm_at(&t->order, at + i)];
        uint32_t *pair = entities + (size_t)2 * i;
        pair[0] = one.head;
        pair[1] = one.tail;
        pair = relations + (size_t)2 * i;
        pair[0] = muster_kge_ask(p->k, one, 0).relation;
        pair[1] = muster_kge_ask(p->k, one, 1).relation;
    }
    muster_status status = muster_ps_localize(p->worker, MUSTER_KGE_ENTITIES,
                                              entities, (size_t)2 * size);
    if (status == MUSTER_OK) {
        status = muster_ps_localize(p->worker, MUSTER_KGE_RELATIONS, relations,
                                    (size_t)2 * size);
    }
    return status == MUSTER_ERR_AGAIN ? MUSTER_OK : status;
}

static muster_status prepare(pass *p, const tour *t, uint64_t at,
                             uint64_t *handle_out)
{
    size_t count = (size_t)group_size(t, at) * 2 * p->k->options.negatives;
    *handle_out = 0;
    if (count == 0) {
        return MUSTER_OK;
    }
    muster_status status =
        muster_ps_nodes(p->worker) > 1 ? wish_group(p, t, at) : MUSTER_OK;
    return status == MUSTER_OK
               ? muster_ps_sample_prepare(p->worker, p->k->distribution, count,
                                          handle_out)
               : status;
}

static muster_status train_group(pass *p, const tour *t, uint64_t at,
                                 uint64_t handle)
{
    uint32_t size = group_size(t, at);
    size_t each = (size_t)2 * p->k->options.negatives;
    const muster_triple *set = p->k->triples.set[MUSTER_TRIPLES_TRAIN];
    muster_status status =
        muster_ps_sample_pull(p->worker, handle, size * each, p->samples, NULL);
    for (uint32_t i = 0; i < size && status == MUSTER_OK; i++) {
        uint64_t index = muster_perm_at(&t->order, at + i);
        status = train_triple(p, set[t->start + index], p->samples + i * each);
    }
    return status;
}

static muster_status tour_all(pass *p, const tour *t,
                              const muster_task_share *share)
{
    uint64_t handles[LOOK];
    // As many groups ahead as the sampler holds samples for.
    uint64_t look =
        MUSTER_PS_SAMPLES_MAX / ((uint64_t)GROUP * 2 * p->k->options.negatives);
    look = look < 1 ? 1 : look < LOOK ? look : LOOK;
    muster_status status = MUSTER_OK;
    for (uint64_t i = 0; i < look && status == MUSTER_OK; i++) {
        status = prepare(p, t, i * GROUP, &handles[i]);
    }
    for (uint64_t at = 0; at < t->count && status == MUSTER_OK; at += GROUP) {
        uint64_t *slot = &handles[at / GROUP % look];
        status = train_group(p, t, at, *slot);
        if (status == MUSTER_OK) {
            status = prepare(p, t, at + look * GROUP, slot);
        }
        muster_task_count(share, group_size(t, at));
        if (muster_task_stopped(share) && status == MUSTER_OK) {
            status = MUSTER_ERR_CANCELLED;
        }
    }
    return status;
}

static muster_status kge_work(void *task, muster_ps_worker *worker,
                              const muster_task_share *share,
                              muster_task_sums *sums)
{
    const muster_kge *k = task;
    uint64_t all = k->triples.count[MUSTER_TRIPLES_TRAIN];
    tour t = {.start = all * share->part / share->parts};
    t.count = all * (share->part + 1) / share->parts - t.start;
    if (t.count == 0) {
        return MUSTER_OK;
    }
    t.order = muster_perm_make(k->seed + share->part, share->epoch, t.count);
    pass *p = muster_mem_array(1, sizeof(*p));
    if (p == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    muster_status status = pass_init(p, k, worker, share->epoch);
    if (status == MUSTER_OK) {
        status = tour_all(p, &t, share);
    }
    sums->value[MUSTER_KGE_SUM_LOSS] += p->loss;
    sums->value[MUSTER_KGE_SUM_QUESTIONS] += (double)p->questions;
    pass_fini(p);
    muster_mem_free(p);
    return status;
}

static uint32_t kge_outputs(const void *task, muster_task_output *outputs_out)
{
    const muster_kge *k = task;
    uint32_t relations = k->triples.relations * (k->options.reciprocal ? 2 : 1);
    outputs_out[0] = (muster_task_output){"entities", MUSTER_KGE_ENTITIES, 0,
                                          k->triples.entities, k->options.dim};
    outputs_out[1] = (muster_task_output){"relations", MUSTER_KGE_RELATIONS, 0,
                                          relations, k->options.dim};
    return 2;
}

static const char *kge_label(const void *task, uint32_t row)
{
    const muster_kge *k = task;
    return muster_names_at(&k->triples.names, row);
}

const muster_task_ops muster_task_complex = {
    .name = "complex",
    .unit = "triples",
    .create = create_complex,
    .free = kge_free,
    .tables = kge_tables,
    .units = kge_units,
    .epochs = kge_epochs,
    .work = kge_work,
    .evaluate = muster_kge_evaluate,
    .report = muster_kge_report,
    .outputs = kge_outputs,
    .label = kge_label,
};

const muster_task_ops muster_task_distmult = {
    .name = "distmult",
    .unit = "triples",
    .create = create_distmult,
    .free = kge_free,
    .tables = kge_tables,
    .units = kge_units,
    .epochs = kge_epochs,
    .work = kge_work,
    .evaluate = muster_kge_evaluate,
    .report = muster_kge_report,
    .outputs = kge_outputs,
    .label = kge_label,
};

const muster_task_ops muster_task_transe = {
    .name = "transe",
    .unit = "triples",
    .create = create_transe,
    .free = kge_free,
    .tables = kge_tables,
    .units = kge_units,
    .epochs = kge_epochs,
    .work = kge_work,
    .evaluate = muster_kge_evaluate,
    .report = muster_kge_report,
    .outputs = kge_outputs,
    .label = kge_label,
};
