/*
 * Fully connected layers on CBLAS, forwards and backwards, tile by tile
 * (layers_tile.h), behind convolutions where the model has some (conv.h).
 *
 * Scratch holds the outputs of every layer for the block's rows, one tile and
 * a float a row. The backward pass works from the top: the slopes of layer l's
 * outputs lie where those outputs were; once the gradient of W_l is taken, the
 * slopes of the layer below are formed in the tile, masked where ReLU was off,
 * and replace that layer's outputs.
 *
 *  1. Layers with one output and sparse rows are loops of our own
 *     (layers_kernel.h), cut by rows.
 *  2. `column` and `inner` are 0 whenever a phase begins.
 *  3. T threads work on one tile at a time together, so tiles and steps are T
 *     times as large. Loops over all rows or columns are shared out too: a
 *     sixteenth of a product takes as long as they do. Sparse rows are done by
 *     one thread.
 */
#include "model/layers_pass.h"

#include <string.h>

#include "base/assert.h"
#include "model/layers_error.h"
#include "model/layers_loss.h"
#include "model/layers_share.h"
#include "model/layers_tile.h"

/* Operations of a step: 5 ms at 100 GFLOPS. A step ends with the tile that
 * reaches STEP_OPS, so it takes at most STEP_OPS and a tile. */
#define STEP_OPS 4e8
/* What else a step may do, in such operations: measured on one core. */
#define SPARSE_OP 12.0 // product with a stored entry
#define CELL_OPS  20.0 // one float of a row, once

typedef muster_layers_pass pass_t;

static uint32_t threads_of(const pass_t *pass)
{
    return muster_threads_count(pass->input.pool);
}

static size_t conv_bytes(const muster_layers *net, size_t rows,
                         uint32_t threads)
{
    return net->conv.count > 0
               ? muster_conv_bytes(&net->conv, (uint32_t)rows, threads)
               : 0;
}

size_t muster_layers_scratch_bytes(const void *model, uint32_t rows_max)
{
    return muster_layers_scratch_shared(model, rows_max, 1);
}

size_t muster_layers_scratch_shared(const muster_layers *net, uint32_t rows_max,
                                    uint32_t threads)
{
    size_t floats = 0; // of a row
    size_t width_max = net->conv.count > 0 ? net->sizes[0] : 0;
    for (uint32_t l = 1; l <= net->count; l++) {
        bool is_hidden = l < net->count;
        floats += net->sizes[l];
        floats += is_hidden && net->has_norm ? net->sizes[l] + 1 : 0;
        if (is_hidden && net->sizes[l] > width_max) {
            width_max = net->sizes[l];
        }
    }
    size_t tile = muster_layers_tile_floats(width_max, rows_max, threads);
    return conv_bytes(net, rows_max, threads) +
           (rows_max * (floats + 17) + tile) * sizeof(float);
}

size_t muster_layers_wide(const muster_layers *net, bool is_sparse)
{
    if (net->conv.count > 0) {
        return net->conv.dim;
    }
    return is_sparse || net->sizes[1] == 1 ? net->biases[0] : 0;
}

size_t muster_layers_features(const muster_layers *net)
{
    return net->conv.count > 0 ? muster_conv_features(&net->conv)
                               : net->sizes[0];
}

bool muster_layers_is_sparse(const muster_layers_pass *pass)
{
    return pass->layer == 0 && pass->input.rows.dense == NULL &&
           pass->net->conv.count == 0;
}

bool muster_layers_is_hidden(const muster_layers_pass *pass)
{
    return pass->layer + 1 < pass->net->count;
}

float *muster_layers_below(const muster_layers_pass *pass)
{
    if (pass->layer > 0) {
        return pass->outs[pass->layer - 1];
    }
    return pass->net->conv.count > 0 ? muster_conv_out(&pass->conv) : NULL;
}

muster_matrix muster_layers_input_of(const muster_layers_pass *pass)
{
    const muster_rows *rows = &pass->input.rows;
    const float *below = muster_layers_below(pass);
    uint32_t columns = pass->net->sizes[pass->layer];
    return (muster_matrix){
        below != NULL ? below : rows->dense,
        below != NULL ? columns : rows->stride,
        rows->count,
        columns,
    };
}

/* Where all is in the scratch. */
static void lay_out(pass_t *pass)
{
    const muster_layers *net = pass->net;
    size_t rows = pass->input.rows.count;
    float *next = (float *)(void *)((char *)pass->input.scratch +
                                    conv_bytes(net, rows, threads_of(pass)));
    pass->error_scales = next;
    next += rows;
    for (uint32_t l = 0; l < net->count; l++) {
        pass->outs[l] = next;
        next += rows * net->sizes[l + 1];
        if (net->has_norm && l + 1 < net->count) {
            pass->normed[l] = next;
            next += rows * net->sizes[l + 1];
            pass->inverses[l] = next;
            next += rows;
        }
    }
    pass->spare = next;
}

static void begin_conv(pass_t *pass)
{
    const muster_layers_input *input = &pass->input;
    const muster_conv_input images = {
        .theta = input->theta,
        .rows = input->rows,
        .gradient = input->gradient,
        .wide = input->wide,
        .error_scales = pass->error_scales,
        .error_stride = muster_layers_sample_stride(pass),
        .pool = input->pool,
    };
    muster_conv_begin(&pass->conv, &pass->net->conv, &images, input->scratch);
    pass->phase = MUSTER_LAYERS_CONV;
}

void muster_layers_begin(muster_layers_pass *pass, const muster_layers *net,
                         const muster_layers_input *input)
{
    MUSTER_ASSERT(input->rows.features == muster_layers_features(net) &&
                  net->count > 0);
    *pass = (muster_layers_pass){.net = net, .input = *input};
    lay_out(pass);
    if (input->sample_ids != NULL && net->dropout > 0) {
        pass->dropout =
            muster_dropout_make(net->dropout, input->seed, input->step);
    }
    if (input->rows.count == 0) {
        pass->phase = MUSTER_LAYERS_DONE;
    } else if (net->conv.count > 0) {
        begin_conv(pass);
    } else {
        pass->phase = MUSTER_LAYERS_FORWARD;
    }
}

static void enter(pass_t *pass, muster_layers_phase phase, uint32_t layer)
{
    pass->phase = phase;
    pass->layer = layer;
    pass->column = 0;
    pass->inner = 0;
}

/* --- forwards ------------------------------------------------------------- */

/* How many rows of `width` products an entry fit a step: at least one. */
static uint32_t sparse_rows_end(const pass_t *pass, uint32_t width)
{
    const muster_rows *rows = &pass->input.rows;
    uint32_t end = pass->column + 1;
    double entries = STEP_OPS / SPARSE_OP / width;
    while (end < rows->count &&
           (double)(rows->offsets[end + 1] - rows->offsets[pass->column]) <=
               entries) {
        end++;
    }
    return end;
}

static double sparse_ops(const pass_t *pass, uint32_t begin, uint32_t end)
{
    const uint64_t *offsets = pass->input.rows.offsets;
    double entries = (double)(offsets[end] - offsets[begin]);
    return SPARSE_OP * entries * pass->net->sizes[1];
}

static bool forward_sparse(pass_t *pass, double *ops_out)
{
    uint32_t width = pass->net->sizes[1];
    uint32_t begin = pass->column;
    uint32_t end = sparse_rows_end(pass, width);
    for (uint32_t r = begin; r < end; r++) {
        muster_layers_fill_bias(pass, r, 0, width);
    }
    muster_layer_sparse(&pass->input.rows, begin, end,
                        pass->input.theta + pass->net->weights[0], width,
                        pass->outs[0]);
    for (uint32_t r = begin; r < end; r++) {
        muster_layers_activate(pass, r, 0, width);
    }
    pass->column = end;
    *ops_out = sparse_ops(pass, begin, end);
    return end == pass->input.rows.count;
}

/* One output: a dot product a row, at the speed of memory. */
static bool forward_dot(pass_t *pass, double *ops_out)
{
    muster_matrix x = muster_layers_input_of(pass);
    muster_layers_dot(pass);
    *ops_out = CELL_OPS * x.rows * x.columns;
    return true;
}

static bool forward(pass_t *pass, double *ops_out)
{
    if (muster_layers_is_sparse(pass)) {
        return forward_sparse(pass, ops_out);
    }
    return pass->net->sizes[pass->layer + 1] == 1
               ? forward_dot(pass, ops_out)
               : muster_layers_forward_tile(pass, ops_out);
}

/* The layer's outputs are complete. */
static void leave_layer(pass_t *pass)
{
    if (muster_layers_is_hidden(pass)) {
        enter(pass, MUSTER_LAYERS_FORWARD, pass->layer + 1);
    } else if (pass->input.gradient != NULL) {
        enter(pass, MUSTER_LAYERS_LOSS, pass->layer);
    } else {
        pass->phase = MUSTER_LAYERS_DONE;
    }
}

static void end_forward(pass_t *pass)
{
    if (pass->net->has_norm && muster_layers_is_hidden(pass)) {
        enter(pass, MUSTER_LAYERS_NORM, pass->layer);
    } else {
        leave_layer(pass);
    }
}

/* Some rows of the pass's layer through a function of theirs; `column` counts
 * the rows. True: all of them. */
static bool some_rows(pass_t *pass, void (*rows)(pass_t *, uint32_t, uint32_t),
                      double *ops_out)
{
    uint32_t begin = pass->column;
    uint32_t left = pass->input.rows.count - begin;
    double row = CELL_OPS * pass->net->sizes[pass->layer + 1];
    double fit = STEP_OPS * threads_of(pass) / row + 1;
    uint32_t count = fit < left ? (uint32_t)fit : left;
    rows(pass, begin, begin + count);
    pass->column = begin + count;
    *ops_out = row * count;
    return count == left;
}

/* --- the loss ------------------------------------------------------------- */

static muster_status loss_rows(pass_t *pass, double *ops_out)
{
    const muster_layers *net = pass->net;
    uint32_t rows = pass->input.rows.count;
    uint32_t begin = pass->column;
    uint32_t left = rows - begin;
    double row = MUSTER_LAYERS_SCORE_OPS * net->sizes[net->count];
    double fit = STEP_OPS * threads_of(pass) / row + 1;
    uint32_t count = fit < left ? (uint32_t)fit : left;
    muster_status status = muster_layers_loss(pass, begin, begin + count);
    pass->column = begin + count;
    if (pass->column == rows) {
        enter(pass, MUSTER_LAYERS_WEIGHTS, net->count - 1);
    }
    *ops_out = row * count;
    return status;
}

/* --- backwards ------------------------------------------------------------ */

static bool weights_sparse(pass_t *pass, double *ops_out)
{
    uint32_t width = pass->net->sizes[1];
    uint32_t begin = pass->column;
    uint32_t end = sparse_rows_end(pass, width);
    muster_layer_sparse_back(&pass->input.rows, begin, end, pass->outs[0],
                             width, muster_layers_first_sums(pass));
    pass->column = end;
    *ops_out = sparse_ops(pass, begin, end);
    return end == pass->input.rows.count;
}

static bool weights_dot(pass_t *pass, double *ops_out)
{
    muster_matrix x = muster_layers_input_of(pass);
    muster_layers_dot_back(pass);
    *ops_out = CELL_OPS * x.rows * x.columns;
    return true;
}

static bool sum_weights(pass_t *pass, double *ops_out)
{
    if (pass->column == 0 && pass->inner == 0) {
        muster_layers_sum_biases(pass);
    }
    if (muster_layers_is_sparse(pass)) {
        return weights_sparse(pass, ops_out);
    }
    return pass->net->sizes[pass->layer + 1] == 1
               ? weights_dot(pass, ops_out)
               : muster_layers_weights_tile(pass, ops_out);
}

static void end_weights(pass_t *pass)
{
    muster_layers_measure(pass);
    if (muster_layers_below(pass) != NULL) {
        enter(pass, MUSTER_LAYERS_BELOW, pass->layer);
    } else {
        pass->phase = MUSTER_LAYERS_DONE;
    }
}

static void end_below(pass_t *pass)
{
    if (pass->layer == 0) {
        enter(pass, MUSTER_LAYERS_CONV_BACK, 0);
    } else if (pass->net->has_norm) {
        enter(pass, MUSTER_LAYERS_NORM_BACK, pass->layer - 1);
    } else {
        enter(pass, MUSTER_LAYERS_WEIGHTS, pass->layer - 1);
    }
}

static bool norm_back(pass_t *pass, double *ops_out)
{
    if (pass->column == 0) {
        muster_layers_measure_norm(pass);
        muster_layers_sum_norm(pass);
    }
    return some_rows(pass, muster_layers_norm_back, ops_out);
}

static void end_conv(pass_t *pass)
{
    pass->variance += pass->conv.variance;
    pass->phase = MUSTER_LAYERS_DONE;
}

/* --- a step --------------------------------------------------------------- */

muster_status muster_layers_advance(muster_layers_pass *pass, double *ops_out)
{
    double ops_max = STEP_OPS * threads_of(pass);
    switch (pass->phase) {
    case MUSTER_LAYERS_CONV:
        if (muster_conv_forward(&pass->conv, ops_max, ops_out)) {
            enter(pass, MUSTER_LAYERS_FORWARD, 0);
        }
        break;
    case MUSTER_LAYERS_FORWARD:
        if (forward(pass, ops_out)) {
            end_forward(pass);
        }
        break;
    case MUSTER_LAYERS_NORM:
        if (some_rows(pass, muster_layers_norm, ops_out)) {
            leave_layer(pass);
        }
        break;
    case MUSTER_LAYERS_LOSS:
        return loss_rows(pass, ops_out);
    case MUSTER_LAYERS_WEIGHTS:
        if (sum_weights(pass, ops_out)) {
            end_weights(pass);
        }
        break;
    case MUSTER_LAYERS_BELOW:
        if (muster_layers_below_tile(pass, ops_out)) {
            end_below(pass);
        }
        break;
    case MUSTER_LAYERS_NORM_BACK:
        if (norm_back(pass, ops_out)) {
            enter(pass, MUSTER_LAYERS_WEIGHTS, pass->layer);
        }
        break;
    case MUSTER_LAYERS_CONV_BACK:
        if (muster_conv_back(&pass->conv, ops_max, ops_out)) {
            end_conv(pass);
        }
        break;
    case MUSTER_LAYERS_DONE:
        break;
    }
    return MUSTER_OK;
}

muster_status muster_layers_step(muster_layers_pass *pass)
{
    double done = 0;
    while (pass->phase != MUSTER_LAYERS_DONE &&
           done < STEP_OPS * threads_of(pass)) {
        double ops = 0;
        muster_status status = muster_layers_advance(pass, &ops);
        if (status != MUSTER_OK) {
            return status;
        }
        done += ops;
    }
    return pass->phase == MUSTER_LAYERS_DONE ? MUSTER_OK : MUSTER_IN_PROGRESS;
}

static muster_status run(pass_t *pass)
{
    muster_status status = MUSTER_IN_PROGRESS;
    while (status == MUSTER_IN_PROGRESS) {
        status = muster_layers_step(pass);
    }
    return status;
}

// NOLINTNEXTLINE(readability-function-size): the shape of the public ops.
muster_status muster_layers_gradient(const void *model, const float *theta,
                                     const muster_rows *rows,
                                     const float *weights, void *scratch,
                                     float *gradient, double *loss)
{
    pass_t pass;
    const muster_layers_input input = {.theta = theta,
                                       .rows = *rows,
                                       .weights = weights,
                                       .scratch = scratch,
                                       .gradient = gradient,
                                       .rows_summed = rows->count};
    muster_layers_begin(&pass, model, &input);
    muster_status status = run(&pass);
    *loss += status == MUSTER_OK ? pass.loss : 0;
    return status;
}

muster_status muster_layers_predict(const void *model, const float *theta,
                                    const muster_rows *rows, void *scratch,
                                    float *out)
{
    pass_t pass;
    const muster_layers *net = model;
    const muster_layers_input input = {
        .theta = theta, .rows = *rows, .scratch = scratch};
    muster_layers_begin(&pass, net, &input);
    muster_status status = run(&pass);
    if (rows->count == 0) {
        return status;
    }
    memcpy(out, pass.outs[net->count - 1],
           (size_t)rows->count * net->sizes[net->count] * sizeof(float));
    return status;
}
