/*
 * Fully connected layers on CBLAS, forwards and backwards, tile by tile.
 *
 * Scratch holds the outputs of every layer for the block's rows, one tile and
 * a float a row. The backward pass works from the top: the slopes of layer l's
 * outputs lie where those outputs were; once the gradient of W_l is taken, the
 * slopes of the layer below are formed in the tile, masked where ReLU was off,
 * and replace that layer's outputs.
 *
 *  1. A product is cut along its columns and along its inner side into tiles
 *     that are near to square (see tile_of): a tile of all columns and few
 *     rows, or the other way round, makes BLAS copy one side again and again.
 *     Measured with 512 rows and layers of 4,096: 512 columns by 1,024 run at
 *     0.90 to 0.96 of the whole product's speed, 128 columns by 4,096 at 0.84,
 *     single rows at 0.03.
 *  2. Layers with one output and sparse rows are loops of our own
 *     (layers_kernel.h), cut by rows.
 *  3. `column` and `inner` are 0 whenever a phase begins.
 *  4. T threads do one tile at a time together (product.h), so tiles and steps
 *     are T times as large, by columns. Loops over all rows or columns are
 *     shared out too: a sixteenth of a product takes as long as they do.
 *     Sparse rows and the loss are done by one thread.
 */
#include "model/layers_pass.h"

#include <string.h>

#include "base/assert.h"
#include "model/layers_error.h"
#include "model/layers_kernel.h"
#include "model/layers_share.h"
#include "model/loss.h"
#include "model/product.h"

/* Operations of a step: 5 ms at 100 GFLOPS. A step ends with the tile that
 * reaches STEP_OPS, so it takes at most STEP_OPS + TILE_OPS. */
#define STEP_OPS 4e8
#define TILE_OPS 5.4e8
/* What else a step may do, in such operations: measured on one core. */
#define SPARSE_OP 12.0 // product with a stored entry
#define SCORE_OPS 500.0
#define CELL_OPS  20.0 // one float of a row, once

#define TILE_INNER       1024u
#define TILE_COLUMNS_MIN 512u

typedef muster_layers_pass pass_t;

/* Cut `size` evenly, into pieces of at most size_max or little more. */
static uint32_t tile_of(uint32_t size, uint32_t size_max)
{
    uint32_t count = (size + size_max - 1) / size_max;
    uint32_t each = (size + count - 1) / count;
    return (each + 15) / 16 * 16;
}

/* Few rows make wide tiles, and so do many threads. */
static uint32_t columns_max(uint32_t rows, uint32_t threads)
{
    double columns = TILE_OPS / (2.0 * TILE_INNER * rows);
    uint32_t each =
        columns > TILE_COLUMNS_MIN ? (uint32_t)columns : TILE_COLUMNS_MIN;
    return each * threads;
}

static uint32_t threads_of(const pass_t *pass)
{
    return muster_threads_count(pass->input.pool);
}

static uint32_t min_of(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* What the next product covers: columns from pass->column on, and of the side
 * that is summed over from pass->inner on. */
typedef struct tile_size {
    uint32_t columns;
    uint32_t inner;
} tile_size;

static tile_size next_tile(const pass_t *pass, uint32_t columns, uint32_t inner)
{
    uint32_t columns_most =
        tile_of(columns, columns_max(pass->input.rows.count, threads_of(pass)));
    return (tile_size){
        min_of(columns_most, columns - pass->column),
        min_of(tile_of(inner, TILE_INNER), inner - pass->inner),
    };
}

/* Whether the tile's columns are complete. */
static bool end_inner(pass_t *pass, tile_size done, uint32_t inner)
{
    pass->inner += done.inner;
    if (pass->inner < inner) {
        return false;
    }
    pass->inner = 0;
    return true;
}

size_t muster_layers_scratch_bytes(const void *model, uint32_t rows_max)
{
    return muster_layers_scratch_shared(model, rows_max, 1);
}

size_t muster_layers_scratch_shared(const muster_layers *net, uint32_t rows_max,
                                    uint32_t threads)
{
    size_t outputs = 0;
    size_t hidden_max = 0;
    for (uint32_t l = 1; l <= net->count; l++) {
        outputs += net->sizes[l];
        if (l < net->count && net->sizes[l] > hidden_max) {
            hidden_max = net->sizes[l];
        }
    }
    size_t tile = TILE_COLUMNS_MIN * (size_t)rows_max * threads;
    size_t tile_min = (size_t)(TILE_OPS / (2.0 * TILE_INNER)) * threads;
    tile = tile > tile_min ? tile : tile_min;
    tile = tile < hidden_max * rows_max ? tile : hidden_max * rows_max;
    return (rows_max * (outputs + 17) + tile) * sizeof(float);
}

size_t muster_layers_wide(const muster_layers *net, bool is_sparse)
{
    return is_sparse || net->sizes[1] == 1 ? net->biases[0] : 0;
}

bool muster_layers_is_sparse(const muster_layers_pass *pass)
{
    return pass->layer == 0 && pass->input.rows.dense == NULL;
}

muster_matrix muster_layers_input_of(const muster_layers_pass *pass)
{
    const muster_rows *rows = &pass->input.rows;
    uint32_t l = pass->layer;
    uint32_t columns = pass->net->sizes[l];
    return (muster_matrix){
        l == 0 ? rows->dense : pass->outs[l - 1],
        l == 0 ? rows->stride : columns,
        rows->count,
        columns,
    };
}

void muster_layers_begin(muster_layers_pass *pass, const muster_layers *net,
                         const muster_layers_input *input)
{
    MUSTER_ASSERT(input->rows.features == net->sizes[0] && net->count > 0);
    *pass = (muster_layers_pass){.net = net, .input = *input};
    float *next = input->scratch;
    pass->error_scales = next;
    next += input->rows.count;
    for (uint32_t l = 0; l < net->count; l++) {
        pass->outs[l] = next;
        next += (size_t)input->rows.count * net->sizes[l + 1];
    }
    pass->spare = next;
    pass->phase =
        input->rows.count > 0 ? MUSTER_LAYERS_FORWARD : MUSTER_LAYERS_DONE;
}

static void enter(pass_t *pass, muster_layers_phase phase, uint32_t layer)
{
    pass->phase = phase;
    pass->layer = layer;
    pass->column = 0;
    pass->inner = 0;
}

/* --- forwards ------------------------------------------------------------- */

static void end_forward(pass_t *pass)
{
    if (pass->layer + 1 < pass->net->count) {
        enter(pass, MUSTER_LAYERS_FORWARD, pass->layer + 1);
    } else if (pass->input.gradient != NULL) {
        enter(pass, MUSTER_LAYERS_LOSS, pass->layer);
    } else {
        pass->phase = MUSTER_LAYERS_DONE;
    }
}

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

static double forward_sparse(pass_t *pass)
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
        muster_layers_relu(pass, r, 0, width);
    }
    pass->column = end;
    if (end == pass->input.rows.count) {
        end_forward(pass);
    }
    return sparse_ops(pass, begin, end);
}

/* One output: a dot product a row, at the speed of memory. */
static double forward_dot(pass_t *pass)
{
    muster_matrix x = muster_layers_input_of(pass);
    muster_layers_dot(pass);
    end_forward(pass);
    return CELL_OPS * x.rows * x.columns;
}

/* out (rows x width) = bias + x W, then ReLU. */
static double forward_tile(pass_t *pass)
{
    uint32_t l = pass->layer;
    uint32_t width = pass->net->sizes[l + 1];
    muster_matrix x = muster_layers_input_of(pass);
    tile_size part = next_tile(pass, width, x.columns);
    if (pass->inner == 0) {
        muster_layers_fill_biases(pass, part.columns);
    }
    const float *w = pass->input.theta + pass->net->weights[l] +
                     (size_t)pass->inner * width + pass->column;
    const muster_product product = {.m = x.rows,
                                    .n = part.columns,
                                    .k = part.inner,
                                    .a = x.data + pass->inner,
                                    .a_stride = x.stride,
                                    .b = w,
                                    .b_stride = width,
                                    .beta = 1,
                                    .c = pass->outs[l] + pass->column,
                                    .c_stride = width};
    muster_product_run(pass->input.pool, &product);
    if (end_inner(pass, part, x.columns)) {
        muster_layers_relu_tile(pass, part.columns);
        pass->column += part.columns;
    }
    if (pass->column == width) {
        end_forward(pass);
    }
    return 2.0 * x.rows * part.columns * part.inner;
}

static double forward(pass_t *pass)
{
    if (muster_layers_is_sparse(pass)) {
        return forward_sparse(pass);
    }
    return pass->net->sizes[pass->layer + 1] == 1 ? forward_dot(pass)
                                                  : forward_tile(pass);
}

/* --- the loss ------------------------------------------------------------- */

static muster_status loss_rows(pass_t *pass, double *ops)
{
    const muster_layers *net = pass->net;
    const muster_rows *rows = &pass->input.rows;
    uint32_t outputs = net->sizes[net->count];
    uint32_t begin = pass->column;
    uint32_t left = rows->count - begin;
    double fit = STEP_OPS / SCORE_OPS / outputs + 1;
    uint32_t count = fit < left ? (uint32_t)fit : left;
    float *scores = pass->outs[net->count - 1] + (size_t)begin * outputs;
    const muster_loss_rows scored = {
        net->kind, count, outputs,
        rows->labels != NULL ? rows->labels + begin : NULL,
        pass->input.weights != NULL ? pass->input.weights + begin : NULL};
    muster_layers_scale_errors(pass, scores, begin, count);
    muster_status status = muster_loss_slopes(&scored, scores, &pass->loss);
    pass->column = begin + count;
    if (pass->column == rows->count) {
        enter(pass, MUSTER_LAYERS_WEIGHTS, net->count - 1);
    }
    *ops = SCORE_OPS * count * outputs;
    return status;
}

/* --- backwards ------------------------------------------------------------ */

static void end_weights(pass_t *pass)
{
    muster_layers_measure(pass);
    if (pass->layer > 0) {
        enter(pass, MUSTER_LAYERS_BELOW, pass->layer);
    } else {
        pass->phase = MUSTER_LAYERS_DONE;
    }
}

static double weights_sparse(pass_t *pass)
{
    uint32_t width = pass->net->sizes[1];
    uint32_t begin = pass->column;
    uint32_t end = sparse_rows_end(pass, width);
    muster_layer_sparse_back(&pass->input.rows, begin, end, pass->outs[0],
                             width, muster_layers_first_sums(pass));
    pass->column = end;
    if (end == pass->input.rows.count) {
        end_weights(pass);
    }
    return sparse_ops(pass, begin, end);
}

static double weights_dot(pass_t *pass)
{
    muster_matrix x = muster_layers_input_of(pass);
    muster_layers_dot_back(pass);
    end_weights(pass);
    return CELL_OPS * x.rows * x.columns;
}

/* gw (x.columns x width) += x' slopes. */
static double weights_tile(pass_t *pass)
{
    uint32_t l = pass->layer;
    uint32_t width = pass->net->sizes[l + 1];
    muster_matrix x = muster_layers_input_of(pass);
    tile_size part = next_tile(pass, width, x.columns);
    float *gw = pass->input.gradient + pass->net->weights[l] +
                (size_t)pass->inner * width + pass->column;
    const muster_product product = {.m = part.inner,
                                    .n = part.columns,
                                    .k = x.rows,
                                    .a = x.data + pass->inner,
                                    .a_stride = x.stride,
                                    .a_turned = true,
                                    .b = pass->outs[l] + pass->column,
                                    .b_stride = width,
                                    .beta = 1,
                                    .c = gw,
                                    .c_stride = width};
    muster_product_run(pass->input.pool, &product);
    if (end_inner(pass, part, x.columns)) {
        pass->column += part.columns;
    }
    if (pass->column == width) {
        end_weights(pass);
    }
    return 2.0 * x.rows * part.columns * part.inner;
}

static double backward(pass_t *pass)
{
    if (pass->column == 0 && pass->inner == 0) {
        muster_layers_sum_biases(pass);
    }
    if (muster_layers_is_sparse(pass)) {
        return weights_sparse(pass);
    }
    return pass->net->sizes[pass->layer + 1] == 1 ? weights_dot(pass)
                                                  : weights_tile(pass);
}

/* Slopes of the layer below: slopes W'. */
static double below_tile(pass_t *pass)
{
    uint32_t l = pass->layer;
    uint32_t rows = pass->input.rows.count;
    uint32_t width = pass->net->sizes[l];
    uint32_t above = pass->net->sizes[l + 1];
    tile_size part = next_tile(pass, width, above);
    const float *w = pass->input.theta + pass->net->weights[l] +
                     (size_t)pass->column * above + pass->inner;
    const muster_product product = {.m = rows,
                                    .n = part.columns,
                                    .k = part.inner,
                                    .a = pass->outs[l] + pass->inner,
                                    .a_stride = above,
                                    .b = w,
                                    .b_stride = above,
                                    .b_turned = true,
                                    .beta = pass->inner == 0 ? 0.0f : 1.0f,
                                    .c = pass->spare,
                                    .c_stride = part.columns};
    muster_product_run(pass->input.pool, &product);
    if (end_inner(pass, part, above)) {
        muster_layers_mask_tile(pass, part.columns);
        pass->column += part.columns;
    }
    if (pass->column == width) {
        enter(pass, MUSTER_LAYERS_WEIGHTS, l - 1);
    }
    return 2.0 * rows * part.columns * part.inner;
}

/* --- a step --------------------------------------------------------------- */

static muster_status do_tile(pass_t *pass, double *ops)
{
    switch (pass->phase) {
    case MUSTER_LAYERS_FORWARD:
        *ops = forward(pass);
        break;
    case MUSTER_LAYERS_LOSS:
        return loss_rows(pass, ops);
    case MUSTER_LAYERS_WEIGHTS:
        *ops = backward(pass);
        break;
    case MUSTER_LAYERS_BELOW:
        *ops = below_tile(pass);
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
        muster_status status = do_tile(pass, &ops);
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
