/*
 * kge_work.c -- an epoch of knowledge graph embeddings: all triples in one
 * random order, cut into groups of which the workers take one each in turns.
 * The rows and samples of a group are prepared some groups ahead.
 *
 * Order and samples belong to the epoch, not to a worker: many workers do what
 * one would have done, only side by side, and a resumed run what would have
 * come next.
 */
#include <math.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/perm.h"
#include "task/kernel.h"
#include "task/kge.h"

#define GROUP 32u
#define LOOK  8u // groups are prepared so far ahead

double muster_kge_rate(const muster_kge_options *options, double full,
                       double epochs)
{
    double rate = full * pow(options->decay, floor(epochs));
    return epochs < options->warmup ? rate * epochs / options->warmup : rate;
}

muster_status muster_kge_move(const muster_kge_pass *p, uint32_t table,
                              uint32_t key, const float *gradient, float n3)
{
    float *row;
    muster_status status = muster_ps_begin(p->worker, table, key, &row);
    if (status != MUSTER_OK) {
        return status;
    }
    muster_kernel_adagrad(row, gradient, p->k->options.dim, p->rate, n3);
    return muster_ps_end(p->worker, table, key);
}

/* A share's groups, one after the other. `at` counts its triples. */
typedef struct tour {
    muster_kge_pass pass;
    muster_kge_alone *alone;   // one of the two
    muster_kge_shared *shared; // is in use
    const muster_task_share *share;
    muster_perm order;      // of all triples
    uint64_t count;         // the share's triples
    uint32_t group;         // triples of a group
    uint32_t look;          // groups
    muster_triple *triples; // of a group
    uint32_t *samples;      // of a group
    uint32_t *wishes;       // of a group: entities, then relations
    double loss;
} tour;

static uint32_t group_size(const tour *t, uint64_t at)
{
    uint64_t left = at < t->count ? t->count - at : 0;
    return (uint32_t)(left < t->group ? left : t->group);
}

static size_t group_samples(const tour *t, uint32_t triples)
{
    size_t negatives = t->pass.k->options.negatives;
    return t->shared != NULL ? negatives : 2 * negatives * triples;
}

/* The group's number among those of all shares. */
static uint64_t group_number(const tour *t, uint64_t at)
{
    return at / t->group * t->share->parts + t->share->part;
}

static muster_triple triple_at(const tour *t, uint64_t at)
{
    const muster_triples *all = &t->pass.k->triples;
    uint64_t place = group_number(t, at) * t->group + at % t->group;
    return all->set[MUSTER_TRIPLES_TRAIN][muster_perm_at(&t->order, place)];
}

/* Wish for the rows that a group's triples name. */
static muster_status wish_group(tour *t, uint64_t at)
{
    const muster_kge *k = t->pass.k;
    uint32_t size = group_size(t, at);
    uint32_t *relations = t->wishes + (size_t)2 * t->group;
    for (uint32_t i = 0; i < size; i++) {
        muster_triple triple = triple_at(t, at + i);
        for (uint32_t side = 0; side < 2; side++) {
            muster_kge_question question = muster_kge_ask(k, triple, (int)side);
            t->wishes[2 * i + side] = question.anchor;
            relations[2 * i + side] = question.relation;
        }
    }
    muster_status status = muster_ps_localize(
        t->pass.worker, MUSTER_KGE_ENTITIES, t->wishes, (size_t)2 * size);
    if (status == MUSTER_OK) {
        status = muster_ps_localize(t->pass.worker, MUSTER_KGE_RELATIONS,
                                    relations, (size_t)2 * size);
    }
    return status == MUSTER_ERR_AGAIN ? MUSTER_OK : status;
}

static muster_status draw_group(tour *t, uint64_t at, uint64_t *handle_out)
{
    uint32_t distribution = t->pass.k->distribution;
    uint64_t groups = (t->order.count + t->group - 1) / t->group;
    muster_status status =
        muster_ps_sample_seek(t->pass.worker, distribution,
                              t->share->epoch * groups + group_number(t, at));
    return status == MUSTER_OK
               ? muster_ps_sample_prepare(t->pass.worker, distribution,
                                          group_samples(t, group_size(t, at)),
                                          handle_out)
               : status;
}

static muster_status prepare(tour *t, uint64_t at, uint64_t *handle_out)
{
    *handle_out = 0;
    if (group_size(t, at) == 0) {
        return MUSTER_OK;
    }
    muster_status status =
        muster_ps_nodes(t->pass.worker) > 1 ? wish_group(t, at) : MUSTER_OK;
    return status == MUSTER_OK ? draw_group(t, at, handle_out) : status;
}

static muster_status train_group(tour *t, uint64_t at, uint64_t handle)
{
    uint32_t size = group_size(t, at);
    muster_status status = muster_ps_sample_pull(
        t->pass.worker, handle, group_samples(t, size), t->samples, NULL);
    if (status != MUSTER_OK) {
        return status;
    }
    for (uint32_t i = 0; i < size; i++) {
        t->triples[i] = triple_at(t, at + i);
    }
    double epochs =
        t->share->epoch + ((double)at + size / 2.0) / (double)t->count;
    t->pass.rate =
        (float)muster_kge_rate(&t->pass.k->options, t->pass.k->rate, epochs);
    return t->shared != NULL
               ? muster_kge_shared_train(t->shared, t->triples, size,
                                         t->samples, &t->loss)
               : muster_kge_alone_train(t->alone, t->triples, size, t->samples,
                                        &t->loss);
}

static muster_status tour_all(tour *t)
{
    uint64_t handles[LOOK];
    muster_status status = MUSTER_OK;
    MUSTER_ASSERT(t->look > 0 && t->group > 0);
    for (uint32_t i = 0; i < t->look && status == MUSTER_OK; i++) {
        status = prepare(t, (uint64_t)i * t->group, &handles[i]);
    }
    for (uint64_t at = 0; at < t->count && status == MUSTER_OK;
         at += t->group) {
        uint64_t *slot = &handles[at / t->group % t->look];
        status = train_group(t, at, *slot);
        if (status == MUSTER_OK) {
            status = prepare(t, at + (uint64_t)t->look * t->group, slot);
        }
        muster_task_count(t->share, group_size(t, at));
        if (muster_task_stopped(t->share) && status == MUSTER_OK) {
            status = MUSTER_ERR_CANCELLED;
        }
    }
    return status;
}

/* Group and look so that no more samples are out than a worker may have. */
static void measure_groups(tour *t)
{
    const muster_kge_options *options = &t->pass.k->options;
    bool sharing = options->share > 1;
    size_t each = (size_t)2 * options->negatives;
    size_t most = MUSTER_PS_SAMPLES_MAX / each;
    t->group = sharing ? options->share : most < GROUP ? (uint32_t)most : GROUP;
    size_t group = sharing ? options->negatives : each * t->group;
    size_t look = MUSTER_PS_SAMPLES_MAX / group;
    t->look = (uint32_t)(look < LOOK ? look : LOOK);
}

/* Triples of the share: those of its whole groups, and the rest after the last
 * whole group if that is the share's turn. */
static uint64_t count_share(const tour *t)
{
    uint64_t part = t->share->part;
    uint64_t parts = t->share->parts;
    uint64_t whole = t->order.count / t->group;
    uint64_t rest = whole % parts == part ? t->order.count % t->group : 0;
    return (whole + parts - 1 - part) / parts * t->group + rest;
}

static muster_status tour_init(tour *t)
{
    const muster_kge_options *options = &t->pass.k->options;
    measure_groups(t);
    t->count = count_share(t);
    size_t samples = options->share > 1
                         ? options->negatives
                         : (size_t)2 * options->negatives * t->group;
    t->triples = muster_mem_array(t->group, sizeof(*t->triples));
    t->samples = muster_mem_array(samples, sizeof(*t->samples));
    t->wishes = muster_mem_array((size_t)4 * t->group, sizeof(*t->wishes));
    if (t->triples == NULL || t->samples == NULL || t->wishes == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    return options->share > 1 ? muster_kge_shared_create(&t->pass, &t->shared)
                              : muster_kge_alone_create(&t->pass, &t->alone);
}

static void tour_fini(tour *t)
{
    muster_kge_alone_free(t->alone);
    muster_kge_shared_free(t->shared);
    muster_mem_free(t->triples);
    muster_mem_free(t->samples);
    muster_mem_free(t->wishes);
}

muster_status muster_kge_work(void *task, muster_ps_worker *worker,
                              const muster_task_share *share,
                              muster_task_sums *sums)
{
    const muster_kge *k = task;
    tour t = {.pass = {.k = k, .worker = worker}, .share = share};
    t.order = muster_perm_make(k->seed, share->epoch,
                               k->triples.count[MUSTER_TRIPLES_TRAIN]);
    muster_status status = tour_init(&t);
    if (status == MUSTER_OK) {
        status = tour_all(&t);
    }
    sums->value[MUSTER_KGE_SUM_LOSS] += t.loss;
    sums->value[MUSTER_KGE_SUM_QUESTIONS] += 2 * (double)t.count;
    tour_fini(&t);
    return status;
}
