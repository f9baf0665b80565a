/*
 * kge.c -- the models of knowledge graphs as tasks: options, tables, outputs.
 * Training is in kge_work.c, evaluation in kge_eval.c.
 */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "task/kge.h"
#include "task/tasks.h"

#define NEGATIVES_MAX 8192u
#define SHARE_MAX     1024u
#define UNSET         2u // of an option that is 0 or 1

static const muster_spec_field fields[] = {
    {"dim", MUSTER_SPEC_UINT, offsetof(muster_kge_options, dim), 2, 8192, NULL,
     false},
    {"negatives", MUSTER_SPEC_UINT, offsetof(muster_kge_options, negatives), 0,
     NEGATIVES_MAX, NULL, false},
    {"share", MUSTER_SPEC_UINT, offsetof(muster_kge_options, share), 0,
     SHARE_MAX, NULL, false},
    {"corrected", MUSTER_SPEC_UINT, offsetof(muster_kge_options, corrected), 0,
     1, NULL, false},
    {"loss", MUSTER_SPEC_WORD, offsetof(muster_kge_options, loss), 0, 0,
     "softmax|logistic|adversarial", false},
    {"reciprocal", MUSTER_SPEC_UINT, offsetof(muster_kge_options, reciprocal),
     0, 1, NULL, false},
    {"n3", MUSTER_SPEC_DOUBLE, offsetof(muster_kge_options, n3), 0, 10, NULL,
     false},
    {"temperature", MUSTER_SPEC_DOUBLE,
     offsetof(muster_kge_options, temperature), 0, 100, NULL, false},
    {"margin", MUSTER_SPEC_DOUBLE, offsetof(muster_kge_options, margin), 0,
     1000, NULL, false},
    {"scale", MUSTER_SPEC_DOUBLE, offsetof(muster_kge_options, scale), 0, 10,
     NULL, false},
    {"decay", MUSTER_SPEC_DOUBLE, offsetof(muster_kge_options, decay), 0.01, 1,
     NULL, false},
    {"warmup", MUSTER_SPEC_DOUBLE, offsetof(muster_kge_options, warmup), 0,
     1000, NULL, false},
    {"valid", MUSTER_SPEC_UINT, offsetof(muster_kge_options, valid), 0, 1e9,
     NULL, false},
    {"norm", MUSTER_SPEC_WORD, offsetof(muster_kge_options, norm), 0, 0,
     "l1|l2", false},
    {"order", MUSTER_SPEC_WORD, offsetof(muster_kge_options, order), 0, 0,
     "shared|file", false},
    {"scheme", MUSTER_SPEC_WORD, offsetof(muster_kge_options, scheme), 0, 0,
     "independent|reuse|postpone|local|repurpose", false},
    {"reuse", MUSTER_SPEC_UINT, offsetof(muster_kge_options, reuse), 1, 1024,
     NULL, false},
    {.name = NULL},
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
    if (k->model != MUSTER_KGE_TRANSE && k->options.norm != UNSET) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "--model %s: norm is of transe: other models "
                                "score by products",
                                opts->model);
    }
    return MUSTER_OK;
}

static muster_kge_options defaults(muster_kge_model model)
{
    muster_kge_options options = {.dim = 256,
                                  .loss = MUSTER_KGE_SOFTMAX,
                                  .reciprocal = 1,
                                  .reuse = 4,
                                  .valid = 1000,
                                  .corrected = UNSET,
                                  .norm = UNSET,
                                  .n3 = 0.05,
                                  .temperature = 1,
                                  .margin = 9,
                                  .scale = -1,
                                  .decay = 0.9,
                                  .warmup = -1};
    if (model == MUSTER_KGE_TRANSE) {
        options.dim = 128;
        options.n3 = 0;
    }
    return options;
}

/* The rate and the initial scale of rows. A first AdaGrad step moves every
 * number by the rate: a distance of norm=l1 changes by the sum of that over all
 * numbers, one of norm=l2 by its root only. */
static void settle_steps(muster_kge *k, double rate)
{
    bool lengths = k->model == MUSTER_KGE_TRANSE;
    bool euclid = lengths && k->options.norm == MUSTER_KGE_L2;
    if (k->options.scale < 0) {
        k->options.scale = euclid ? 0.2 : 0.05;
    }
    k->rate = rate > 0 ? rate : euclid ? 0.3 : lengths ? 0.03 : 0.1;
}

/* What was left to us: negatives are cheap where a group shares them and all of
 * a question's are weighed together. */
static void settle(muster_kge *k)
{
    if (k->model == MUSTER_KGE_TRANSE && k->options.norm == UNSET) {
        k->options.norm = MUSTER_KGE_L2;
    }
    if (k->options.share == 0) {
        k->options.share = k->options.loss != MUSTER_KGE_LOGISTIC ? 128 : 1;
    }
    if (k->options.negatives == 0) {
        k->options.negatives = k->options.share > 1 ? 1024 : 100;
    }
    // Few samples are too rough a measure of all entities.
    if (k->options.corrected == UNSET) {
        k->options.corrected = k->options.share > 1;
    }
    // Measured: the logistic loss gains by it, a softmax loses half an epoch.
    if (k->options.warmup < 0) {
        k->options.warmup = k->options.loss == MUSTER_KGE_LOGISTIC;
    }
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
    muster_status status =
        muster_task_options(opts->model, fields, &k->options, error_out);
    if (status == MUSTER_OK) {
        settle(k);
        settle_steps(k, opts->rate);
        status = check_options(k, opts, error_out);
    }
    if (status == MUSTER_OK) {
        status = muster_triples_load(opts->data, error_out, &k->triples);
    }
    if (status == MUSTER_OK && k->options.corrected) {
        k->shift =
            (float)log((double)k->triples.entities / k->options.negatives);
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
    opts.merge = MUSTER_PS_MERGE_DAMPED;
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

static uint32_t product_epochs(void)
{
    return 12;
}

static uint32_t transe_epochs(void)
{
    return 15;
}

static uint32_t kge_outputs(const void *task, muster_task_output *outputs_out)
{
    const muster_kge *k = task;
    uint32_t relations = k->triples.relations * (k->options.reciprocal ? 2 : 1);
    outputs_out[0] = (muster_task_output){.name = "entities",
                                          .table = MUSTER_KGE_ENTITIES,
                                          .rows = k->triples.entities,
                                          .width = k->options.dim};
    outputs_out[1] = (muster_task_output){.name = "relations",
                                          .table = MUSTER_KGE_RELATIONS,
                                          .rows = relations,
                                          .width = k->options.dim};
    return 2;
}

static const char *kge_label(const void *task, uint32_t row)
{
    const muster_kge *k = task;
    return muster_names_at(&k->triples.names, row);
}

const muster_task_ops muster_task_complex = {
    .name = "complex",
    .uses_blas = true,
    .unit = "triples",
    .create = create_complex,
    .free = kge_free,
    .tables = kge_tables,
    .units = kge_units,
    .epochs = product_epochs,
    .work = muster_kge_work,
    .evaluate = muster_kge_evaluate,
    .report = muster_kge_report,
    .outputs = kge_outputs,
    .label = kge_label,
};

const muster_task_ops muster_task_distmult = {
    .name = "distmult",
    .uses_blas = true,
    .unit = "triples",
    .create = create_distmult,
    .free = kge_free,
    .tables = kge_tables,
    .units = kge_units,
    .epochs = product_epochs,
    .work = muster_kge_work,
    .evaluate = muster_kge_evaluate,
    .report = muster_kge_report,
    .outputs = kge_outputs,
    .label = kge_label,
};

const muster_task_ops muster_task_transe = {
    .name = "transe",
    .uses_blas = true,
    .unit = "triples",
    .create = create_transe,
    .free = kge_free,
    .tables = kge_tables,
    .units = kge_units,
    .epochs = transe_epochs,
    .work = muster_kge_work,
    .evaluate = muster_kge_evaluate,
    .report = muster_kge_report,
    .outputs = kge_outputs,
    .label = kge_label,
};
