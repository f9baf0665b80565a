/*
 * mf.c -- matrix factorisation as a task: options, data, tables, outputs. Cells
 * are held out in mf_hold.c, rows dealt in mf_deal.c. The order of the cells is
 * made in mf_order.c, which sorts them by mf_sort.c. A share begins in
 * mf_work.c and is worked on by columns in mf_tour.c, by chance in mf_random.c.
 * What is measured is in mf_eval.c.
 */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/suggest.h"
#include "task/mf.h"
#include "task/mf_tour.h"
#include "task/tasks.h"

/* Longer than a node may be kept from its processor. */
#define WAIT_NS (100 * MUSTER_NS_PER_MS)

static const muster_spec_field fields[] = {
    {"rank", MUSTER_SPEC_UINT, offsetof(muster_mf_options, rank), 1, 4096, NULL,
     false},
    {"order", MUSTER_SPEC_WORD, offsetof(muster_mf_options, order), 0, 0,
     "column|random", false},
    {"decay", MUSTER_SPEC_DOUBLE, offsetof(muster_mf_options, decay), 0.01, 1,
     NULL, false},
    {"scale", MUSTER_SPEC_DOUBLE, offsetof(muster_mf_options, scale), 0, 100,
     NULL, false},
    {"bias", MUSTER_SPEC_UINT, offsetof(muster_mf_options, bias), 0, 1, NULL,
     false},
    {"valid", MUSTER_SPEC_DOUBLE, offsetof(muster_mf_options, valid), 0, 0.9,
     NULL, false},
    {"patience", MUSTER_SPEC_UINT, offsetof(muster_mf_options, patience), 0,
     1e6, NULL, false},
    {.name = NULL},
};

static void mf_free(void *task)
{
    muster_mf *m = task;
    if (m == NULL) {
        return;
    }
    muster_ratings_fini(&m->train);
    muster_ratings_fini(&m->test);
    muster_ratings_fini(&m->valid);
    muster_mf_arranged_free(m);
    muster_mem_free(m);
}

static muster_status load(muster_mf *m, const muster_task_opts *opts,
                          muster_error *error_out)
{
    muster_status status =
        muster_ratings_load(opts->data, opts->threads, error_out, &m->train);
    if (status == MUSTER_OK && opts->test != NULL) {
        status =
            muster_ratings_load(opts->test, opts->threads, error_out, &m->test);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    // Rows and columns that only the test set has keep their initial factors.
    m->train.rows = m->test.rows > m->train.rows ? m->test.rows : m->train.rows;
    m->train.cols = m->test.cols > m->train.cols ? m->test.cols : m->train.cols;
    status = muster_mf_hold_out(m, m->options.valid);
    if (status == MUSTER_OK) {
        if (m->options.bias) {
            muster_mf_centre(m);
        }
        status = muster_mf_arrange(m);
    }
    return status == MUSTER_OK
               ? MUSTER_OK
               : muster_error_set(error_out, status, "mf: out of memory");
}

static muster_status set_optimizer(muster_mf *m, const char *name,
                                   muster_error *error_out)
{
    bool adagrad = strcmp(name, "adagrad") == 0;
    m->optimizer = adagrad ? MUSTER_PS_ADAGRAD : MUSTER_PS_NONE;
    if (adagrad || strcmp(name, "sgd") == 0) {
        return MUSTER_OK;
    }
    muster_suggestion meant = muster_suggestion_make(name, strlen(name));
    muster_suggestion_add_list(&meant, "sgd,adagrad", ',');
    return muster_suggestion_fail(&meant, "--model mf: --optimizer ",
                                  error_out);
}

/* Without --epochs the run ends when valid_rmse does not get better. */
static muster_mf_options defaults(const muster_task_opts *opts)
{
    return (muster_mf_options){.rank = 32,
                               .order = MUSTER_MF_ORDER_COLUMN,
                               .decay = 0.95,
                               .bias = 1,
                               .patience = opts->open_ended ? 3 : 0,
                               .valid = 0.05};
}

/* What was not given, in the measure of the values (see mf.h). */
static void settle(muster_mf *m, const muster_task_opts *opts)
{
    double deviation = m->unit * m->unit;
    bool adagrad = m->optimizer == MUSTER_PS_ADAGRAD;
    double l2 = m->options.bias ? 0.05 * deviation : 0.02;
    double scale =
        m->options.bias ? 0.1 * m->unit : pow(m->options.rank, -0.25) / 2;
    // AdaGrad's steps do not grow with the gradient, plain ones do.
    double rate = adagrad ? 0.1 * m->unit : 0.01 / deviation;
    m->rate = opts->rate > 0 ? opts->rate : rate;
    m->l2 = opts->l2 >= 0 ? opts->l2 : l2;
    m->options.scale = m->options.scale > 0 ? m->options.scale : scale;
}

static muster_status mf_create(const muster_task_opts *opts,
                               muster_error *error_out, void **task_out)
{
    muster_mf *m = muster_mem_array(1, sizeof(*m));
    if (m == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "mf: out of memory");
    }
    m->options = defaults(opts);
    m->parts = opts->parts_max > 0 ? opts->parts_max : 1;
    m->seed = opts->seed;
    m->unit = 1;
    m->wait_ns = WAIT_NS;
    m->now_ns = muster_clock_ns;
    muster_status status =
        muster_task_options(opts->model, fields, &m->options, error_out);
    if (status == MUSTER_OK) {
        status = set_optimizer(
            m, opts->optimizer != NULL ? opts->optimizer : "adagrad",
            error_out);
    }
    if (status == MUSTER_OK) {
        status = load(m, opts, error_out);
    }
    if (status != MUSTER_OK) {
        mf_free(m);
        return status;
    }
    settle(m, opts);
    *task_out = m;
    return MUSTER_OK;
}

static muster_status mf_tables(void *task, muster_ps *ps,
                               muster_error *error_out)
{
    muster_mf *m = task;
    muster_ps_table_opts opts = MUSTER_PS_TABLE_OPTS_INIT;
    opts.width = muster_mf_width(m);
    opts.optimizer = m->optimizer;
    opts.merge = MUSTER_PS_MERGE_DAMPED;
    opts.init = MUSTER_PS_NORMAL;
    opts.scale = (float)m->options.scale;
    uint32_t number;
    // Parts go through the columns one behind the other, and keep their rows.
    opts.in_turns = m->options.order == MUSTER_MF_ORDER_COLUMN;
    opts.keys = m->train.cols;
    muster_status status = muster_ps_table_add(ps, &opts, error_out, &number);
    if (status == MUSTER_OK) {
        opts.keys = m->train.rows;
        status = muster_ps_table_add(ps, &opts, error_out, &number);
    }
    return status;
}

/* How far each part is, at its own node: `in_turns` keeps rows that are only
 * pulled where they are. */
static muster_status mf_working_tables(void *task, muster_ps *ps,
                                       muster_error *error_out)
{
    muster_mf *m = task;
    muster_ps_table_opts opts = MUSTER_PS_TABLE_OPTS_INIT;
    opts.width = MUSTER_MF_PROGRESS_FLOATS;
    opts.keys = m->parts;
    opts.in_turns = true;
    return m->options.order == MUSTER_MF_ORDER_COLUMN
               ? muster_ps_table_add(ps, &opts, error_out, &m->progress_table)
               : MUSTER_OK;
}

static uint64_t mf_units(const void *task)
{
    const muster_mf *m = task;
    return m->train.count;
}

static uint32_t mf_epochs(void)
{
    return 50;
}

static const char *mf_stops_by(const void *task, uint32_t *patience_out)
{
    const muster_mf *m = task;
    *patience_out = m->options.patience;
    return m->valid.count > 0 && m->options.patience > 0 ? "valid_rmse" : NULL;
}

static uint32_t mf_outputs(const void *task, muster_task_output *outputs_out)
{
    const muster_mf *m = task;
    uint32_t width = muster_mf_width(m);
    outputs_out[0] = (muster_task_output){
        .name = "cols",
        .table = MUSTER_MF_TABLE_COLS,
        .rows = m->train.cols,
        .width = width,
        .last = {(float)m->mean, m->options.bias ? (float)m->unit : 0}};
    outputs_out[1] =
        (muster_task_output){.name = "rows",
                             .table = MUSTER_MF_TABLE_ROWS,
                             .rows = m->train.rows,
                             .width = width,
                             .last = {0, m->options.bias ? (float)m->unit : 0}};
    return 2;
}

static const char *mf_label(const void *task, uint32_t row)
{
    (void)task;
    (void)row;
    return NULL;
}

const muster_task_ops muster_task_mf = {
    .name = "mf",
    .unit = "cells",
    .create = mf_create,
    .free = mf_free,
    .tables = mf_tables,
    .working_tables = mf_working_tables,
    .units = mf_units,
    .epochs = mf_epochs,
    .stops_by = mf_stops_by,
    .work = muster_mf_work,
    .evaluate = muster_mf_evaluate,
    .report = muster_mf_report,
    .outputs = mf_outputs,
    .label = mf_label,
};
