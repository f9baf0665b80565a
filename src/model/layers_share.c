/*
 * layers_share.c -- rows or columns in as many parts as there are threads. A
 * sixteenth of a product takes about as long as these loops do, so they are
 * shared too.
 */
#include "model/layers_share.h"

#include <string.h>

#include "model/norm.h"

/* Touching a float once. */
#define FLOAT_US 3e-4

typedef muster_layers_pass pass_t;

/* Rows or columns begin..end-1 of the loop at hand. */
typedef struct shared_loop shared_loop;
typedef void (*range_work)(const shared_loop *loop, uint32_t begin,
                           uint32_t end);

struct shared_loop {
    pass_t *pass;
    range_work work;
    uint32_t first; // row or column
    uint32_t size;  // rows or columns
    uint32_t parts;
};

static void loop_part(void *context, uint32_t index)
{
    const shared_loop *loop = context;
    uint32_t begin =
        (uint32_t)muster_threads_part(loop->size, loop->parts, index);
    uint32_t end =
        (uint32_t)muster_threads_part(loop->size, loop->parts, index + 1);
    if (begin < end) {
        loop->work(loop, loop->first + begin, loop->first + end);
    }
}

/* `floats` of them are touched in all. */
static void share(shared_loop *loop, double floats)
{
    muster_threads *pool = loop->pass->input.pool;
    double work_us = floats * FLOAT_US;
    loop->parts = muster_threads_parts(pool, work_us);
    muster_threads_run_some(pool, loop->parts, work_us, loop_part, loop);
}

void muster_layers_fill_bias(pass_t *pass, uint32_t r, uint32_t begin,
                             uint32_t count)
{
    const float *bias = pass->input.theta + pass->net->biases[pass->layer];
    size_t width = pass->net->sizes[pass->layer + 1];
    memcpy(pass->outs[pass->layer] + r * width + begin, bias + begin,
           count * sizeof(float));
}

/* ReLU and dropout of the layer's outputs. */
static void relu_and_drop(pass_t *pass, uint32_t r, uint32_t begin,
                          uint32_t count)
{
    size_t width = pass->net->sizes[pass->layer + 1];
    float *out = pass->outs[pass->layer] + r * width + begin;
    muster_layer_relu(out, count);
    if (pass->dropout.threshold > 0) {
        muster_dropout_apply(&pass->dropout, pass->input.sample_ids[r],
                             pass->layer, out, begin, count);
    }
}

void muster_layers_activate(pass_t *pass, uint32_t r, uint32_t begin,
                            uint32_t count)
{
    if (muster_layers_is_hidden(pass) && !pass->net->has_norm) {
        relu_and_drop(pass, r, begin, count);
    }
}

void muster_layers_fill_cell(void *context, const muster_product_cell *cell)
{
    pass_t *pass = context;
    for (uint32_t r = 0; r < cell->rows; r++) {
        muster_layers_fill_bias(pass, cell->row + r,
                                pass->column + cell->column, cell->columns);
    }
}

void muster_layers_activate_cell(void *context, const muster_product_cell *cell)
{
    pass_t *pass = context;
    for (uint32_t r = 0; r < cell->rows; r++) {
        muster_layers_activate(pass, cell->row + r, pass->column + cell->column,
                               cell->columns);
    }
}

void muster_layers_mask_cell(void *context, const muster_product_cell *cell)
{
    const pass_t *pass = context;
    size_t width = pass->net->sizes[pass->layer];
    float *below = muster_layers_below(pass) + pass->column + cell->column;
    bool is_dropped = pass->layer > 0 && pass->dropout.threshold > 0;
    for (uint32_t r = 0; r < cell->rows; r++) {
        float *out = below + (cell->row + r) * width;
        muster_layer_mask(out, cell->c + r * cell->c_stride, cell->columns);
        if (is_dropped) {
            muster_layer_scale(out, pass->dropout.scale, cell->columns);
        }
    }
}

/* --- layer norm ----------------------------------------------------------- */

static void norm_rows(const shared_loop *loop, uint32_t begin, uint32_t end)
{
    pass_t *pass = loop->pass;
    uint32_t l = pass->layer;
    size_t width = pass->net->sizes[l + 1];
    const float *gain = pass->input.theta + pass->net->gains[l];
    for (uint32_t r = begin; r < end; r++) {
        pass->inverses[l][r] = muster_norm_row(gain, gain + width, width,
                                               pass->outs[l] + r * width,
                                               pass->normed[l] + r * width);
        relu_and_drop(pass, r, 0, (uint32_t)width);
    }
}

static void norm_rows_back(const shared_loop *loop, uint32_t begin,
                           uint32_t end)
{
    pass_t *pass = loop->pass;
    uint32_t l = pass->layer;
    size_t width = pass->net->sizes[l + 1];
    const float *gain = pass->input.theta + pass->net->gains[l];
    for (uint32_t r = begin; r < end; r++) {
        muster_norm_row_back(gain, pass->normed[l] + r * width,
                             pass->inverses[l][r], width,
                             pass->outs[l] + r * width);
    }
}

static void share_rows(pass_t *pass, uint32_t begin, uint32_t end,
                       range_work work)
{
    shared_loop loop = {pass, work, begin, end - begin, 1};
    share(&loop, (double)(end - begin) * pass->net->sizes[pass->layer + 1]);
}

void muster_layers_norm(pass_t *pass, uint32_t begin, uint32_t end)
{
    share_rows(pass, begin, end, norm_rows);
}

void muster_layers_norm_back(pass_t *pass, uint32_t begin, uint32_t end)
{
    share_rows(pass, begin, end, norm_rows_back);
}

static void norm_columns(const shared_loop *loop, uint32_t begin, uint32_t end)
{
    pass_t *pass = loop->pass;
    uint32_t l = pass->layer;
    size_t width = pass->net->sizes[l + 1];
    const muster_matrix slopes = {pass->outs[l] + begin, width,
                                  pass->input.rows.count, end - begin};
    const muster_matrix normed = {pass->normed[l] + begin, width, slopes.rows,
                                  slopes.columns};
    float *gains = pass->input.gradient + pass->net->gains[l] + begin;
    const muster_layer_sums gain_sums = {gains, NULL};
    const muster_layer_sums shift_sums = {gains + width, NULL};
    muster_norm_product_sums(&slopes, &normed, gain_sums);
    muster_layer_column_sums(&slopes, shift_sums);
}

void muster_layers_sum_norm(pass_t *pass)
{
    uint32_t width = pass->net->sizes[pass->layer + 1];
    shared_loop loop = {pass, norm_columns, 0, width, 1};
    share(&loop, (double)width * pass->input.rows.count);
}

/* --- one output, and sums ------------------------------------------------- */

static void dot_rows(const shared_loop *loop, uint32_t begin, uint32_t end)
{
    pass_t *pass = loop->pass;
    muster_matrix x = muster_layers_input_of(pass);
    uint32_t l = pass->layer;
    const float *theta = pass->input.theta;
    x.data += begin * x.stride;
    x.rows = end - begin;
    muster_layer_dot(&x, theta + pass->net->weights[l],
                     theta[pass->net->biases[l]], pass->outs[l] + begin);
    for (uint32_t r = begin; r < end; r++) {
        muster_layers_activate(pass, r, 0, 1);
    }
}

void muster_layers_dot(pass_t *pass)
{
    muster_matrix x = muster_layers_input_of(pass);
    shared_loop loop = {pass, dot_rows, 0, x.rows, 1};
    share(&loop, (double)x.rows * x.columns);
}

muster_layer_sums muster_layers_first_sums(const pass_t *pass)
{
    size_t at = pass->net->weights[pass->layer];
    bool is_wide = pass->layer == 0 && pass->input.wide != NULL;
    return (muster_layer_sums){pass->input.gradient + at,
                               is_wide ? pass->input.wide + at : NULL};
}

static void dot_columns(const shared_loop *loop, uint32_t begin, uint32_t end)
{
    pass_t *pass = loop->pass;
    muster_matrix x = muster_layers_input_of(pass);
    muster_layer_sums sums = muster_layers_first_sums(pass);
    sums.narrow += begin;
    sums.wide = sums.wide != NULL ? sums.wide + begin : NULL;
    x.data += begin;
    x.columns = end - begin;
    muster_layer_dot_back(&x, pass->outs[pass->layer], sums);
}

void muster_layers_dot_back(pass_t *pass)
{
    muster_matrix x = muster_layers_input_of(pass);
    shared_loop loop = {pass, dot_columns, 0, x.columns, 1};
    share(&loop, (double)x.rows * x.columns);
}

static void bias_columns(const shared_loop *loop, uint32_t begin, uint32_t end)
{
    pass_t *pass = loop->pass;
    uint32_t l = pass->layer;
    const muster_matrix slopes = {pass->outs[l] + begin,
                                  pass->net->sizes[l + 1],
                                  pass->input.rows.count, end - begin};
    const muster_layer_sums sums = {
        pass->input.gradient + pass->net->biases[l] + begin, NULL};
    muster_layer_column_sums(&slopes, sums);
}

void muster_layers_sum_biases(pass_t *pass)
{
    uint32_t width = pass->net->sizes[pass->layer + 1];
    shared_loop loop = {pass, bias_columns, 0, width, 1};
    share(&loop, (double)width * pass->input.rows.count);
}
