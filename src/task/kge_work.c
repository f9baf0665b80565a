/*
 * kge_work.c -- an epoch of knowledge graph embeddings: a share's triples,
 * group by group (kge_order.c). A group is prepared some groups before it is
 * trained: its triples are read, their rows localized and its samples drawn,
 * by its place in the work.
 */
#include <math.h>

#include "base/assert.h"
#include "base/mem.h"
#include "task/ahead.h"
#include "task/kernel.h"
#include "task/kge.h"

#define GROUP 32u
#define LOOK  48u // groups are prepared so far ahead
#define READ  32u // triples whose misses are under way at once

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

/* A group that was prepared. */
typedef struct prepared {
    muster_triple *triples;
    uint64_t samples; // their handle
} prepared;

/* A share's groups, one after the other. */
typedef struct tour {
    muster_kge_pass pass;
    muster_kge_alone *alone;   // one of the two
    muster_kge_shared *shared; // is in use
    const muster_task_share *share;
    muster_kge_order order;
    uint32_t group; // triples of a group
    uint32_t look;  // groups
    prepared ahead[LOOK];
    muster_triple *triples; // of the groups ahead
    uint32_t *samples;      // of a group
    uint32_t *to_localize;  // of a group: entities, then relations
    double loss;
} tour;

static size_t group_samples(const tour *t, uint32_t triples)
{
    size_t negatives = t->pass.k->options.negatives;
    return t->shared != NULL ? negatives : 2 * negatives * triples;
}

/* The order is random: a triple is not in the cache, so its miss must not wait
 * for those before it. */
static void read_group(const tour *t, uint64_t at, muster_triple *triples_out)
{
    const muster_triple *all = t->pass.k->triples.set[MUSTER_TRIPLES_TRAIN];
    const muster_triple *from[READ];
    uint32_t size = muster_kge_order_size(&t->order, at);
    for (uint32_t done = 0; done < size; done += READ) {
        uint32_t some = size - done < READ ? size - done : READ;
        for (uint32_t i = 0; i < some; i++) {
            from[i] = all + muster_kge_order_triple(&t->order, at + done + i);
            __builtin_prefetch(from[i]);
        }
        for (uint32_t i = 0; i < some; i++) {
            triples_out[done + i] = *from[i];
        }
    }
}

/* Ask for the rows that a group's triples name. */
static muster_status localize_group(tour *t, const muster_triple *triples,
                                    uint32_t size)
{
    const muster_kge *k = t->pass.k;
    uint32_t *relations = t->to_localize + (size_t)2 * t->group;
    for (uint32_t i = 0; i < size; i++) {
        for (uint32_t side = 0; side < 2; side++) {
            muster_kge_question question =
                muster_kge_ask(k, triples[i], (int)side);
            t->to_localize[2 * i + side] = question.anchor;
            relations[2 * i + side] = question.relation;
        }
    }
    muster_status status = muster_ahead_ask(t->pass.worker, MUSTER_KGE_ENTITIES,
                                            t->to_localize, (size_t)2 * size);
    return status == MUSTER_OK
               ? muster_ahead_ask(t->pass.worker, MUSTER_KGE_RELATIONS,
                                  relations, (size_t)2 * size)
               : status;
}

static muster_status draw_group(tour *t, uint64_t at, uint64_t *handle_out)
{
    uint32_t distribution = t->pass.k->distribution;
    size_t samples = group_samples(t, muster_kge_order_size(&t->order, at));
    muster_status status = muster_ps_sample_seek(
        t->pass.worker, distribution, muster_kge_order_place(&t->order, at));
    return status == MUSTER_OK
               ? muster_ps_sample_prepare(t->pass.worker, distribution, samples,
                                          handle_out)
               : status;
}

static muster_status prepare(tour *t, uint64_t at)
{
    prepared *next = &t->ahead[at / t->group % t->look];
    uint32_t size = muster_kge_order_size(&t->order, at);
    if (size == 0) {
        return MUSTER_OK;
    }
    read_group(t, at, next->triples);
    muster_status status = muster_ps_nodes(t->pass.worker) > 1
                               ? localize_group(t, next->triples, size)
                               : MUSTER_OK;
    return status == MUSTER_OK ? draw_group(t, at, &next->samples) : status;
}

static muster_status train_group(tour *t, uint64_t at)
{
    const prepared *now = &t->ahead[at / t->group % t->look];
    uint32_t size = muster_kge_order_size(&t->order, at);
    muster_status status = muster_ps_sample_pull(
        t->pass.worker, now->samples, group_samples(t, size), t->samples, NULL);
    if (status != MUSTER_OK) {
        return status;
    }
    t->pass.rate =
        (float)muster_kge_rate(&t->pass.k->options, t->pass.k->rate,
                               muster_kge_order_epochs(&t->order, at));
    return t->shared != NULL
               ? muster_kge_shared_train(t->shared, now->triples, size,
                                         t->samples, &t->loss)
               : muster_kge_alone_train(t->alone, now->triples, size,
                                        t->samples, &t->loss);
}

static muster_status tour_all(tour *t)
{
    muster_status status = MUSTER_OK;
    MUSTER_ASSERT(t->look > 0 && t->group > 0);
    for (uint32_t i = 0; i < t->look && status == MUSTER_OK; i++) {
        status = prepare(t, (uint64_t)i * t->group);
    }
    for (uint64_t at = 0; at < t->order.count && status == MUSTER_OK;
         at += t->group) {
        status = train_group(t, at);
        if (status == MUSTER_OK) {
            status = prepare(t, at + (uint64_t)t->look * t->group);
        }
        muster_task_count(t->share, muster_kge_order_size(&t->order, at));
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
    size_t max = MUSTER_PS_SAMPLES_MAX / each;
    t->group = sharing ? options->share : max < GROUP ? (uint32_t)max : GROUP;
    size_t group = sharing ? options->negatives : each * t->group;
    size_t look = MUSTER_PS_SAMPLES_MAX / group;
    t->look = (uint32_t)(look < LOOK ? look : LOOK);
}

static muster_status tour_init(tour *t)
{
    const muster_kge_options *options = &t->pass.k->options;
    measure_groups(t);
    t->order = muster_kge_order_make(t->pass.k, t->share, t->group);
    size_t samples = options->share > 1
                         ? options->negatives
                         : (size_t)2 * options->negatives * t->group;
    t->triples =
        muster_mem_array((size_t)t->look * t->group, sizeof(*t->triples));
    t->samples = muster_mem_array(samples, sizeof(*t->samples));
    t->to_localize =
        muster_mem_array((size_t)4 * t->group, sizeof(*t->to_localize));
    if (t->triples == NULL || t->samples == NULL || t->to_localize == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < t->look; i++) {
        t->ahead[i].triples = t->triples + (size_t)i * t->group;
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
    muster_mem_free(t->to_localize);
}

muster_status muster_kge_work(void *task, muster_ps_worker *worker,
                              const muster_task_share *share,
                              muster_task_sums *sums)
{
    const muster_kge *k = task;
    tour t = {.pass = {.k = k, .worker = worker}, .share = share};
    muster_status status = tour_init(&t);
    if (status == MUSTER_OK) {
        status = tour_all(&t);
    }
    sums->value[MUSTER_KGE_SUM_LOSS] += t.loss;
    sums->value[MUSTER_KGE_SUM_QUESTIONS] += 2 * (double)t.order.count;
    tour_fini(&t);
    return status;
}
