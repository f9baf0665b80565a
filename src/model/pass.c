/*
 * One interface for models that can stop in the middle of a block and for those
 * that cannot, and the choice of block sizes.
 */
#include "model/pass.h"

#include <math.h>

/* What fits in about 5 ms of one ordinary core: so many operations of dense
 * (or sparse) products, and so many floats of input. */
#define BLOCK_DENSE_OPS  2e8
#define BLOCK_SPARSE_OPS 2e7
#define BLOCK_FLOATS     1e6
#define BLOCK_ROWS_MAX   4096
/* Rows of a mini-batch are copied together: 64 MiB of them at most. */
#define BLOCK_COPY_FLOATS 0x1p24
/* Several threads: rows of a thread, and rows times the widest layer. So many
 * make cells of a product that cost BLAS little copying (product.c), and tiles
 * that are no longer than one thread's (layers_tile.c). */
#define BLOCK_SHARED_ROWS   256.0
#define BLOCK_SHARED_FLOATS 0x1p18
/* Of work that may be left: so much of a short block, but so many rows, fewer
 * than which make BLAS slow. */
#define SPARE_SHARE    4
#define SPARE_ROWS_MIN 16

static bool is_built_in(const muster_model *model)
{
    return model->library == NULL;
}

/* Operations of one row: two for each product, three passes (forwards, to the
 * weights, to the layer below); sparse rows meet a share of the first tensor
 * only. */
static double row_operations(const muster_model *model, double density)
{
    double operations = 0;
    for (uint32_t t = 0; t < model->tensor_count; t++) {
        const muster_model_tensor *tensor = &model->tensors[t];
        double floats = (double)tensor->shape[0];
        floats *= tensor->rank == 2 ? (double)tensor->shape[1] : 1;
        bool is_first = tensor->shape[0] == model->features;
        operations += 6 * floats * (is_first ? density : 1);
    }
    return operations;
}

/* Rows that take about 5 ms, all layers together. */
static double short_block(const muster_model *model, double density)
{
    double budget = density < 1 ? BLOCK_SPARSE_OPS : BLOCK_DENSE_OPS;
    double rows = budget / (row_operations(model, density) + 1);
    rows = fmin(rows, BLOCK_FLOATS / (density * model->features + 1));
    rows = fmin(rows, BLOCK_FLOATS / model->outputs);
    return fmax(1, fmin(rows, BLOCK_ROWS_MAX));
}

/* What convolutions keep of a row between the ways forth and back. */
static double conv_floats(const muster_layers *net)
{
    double floats = 0;
    for (uint32_t l = 0; l < net->conv.count; l++) {
        floats += (double)muster_conv_layer_outputs(&net->conv.layers[l]);
    }
    return floats;
}

/* Rows that make BLAS fast. Threads that share a product of few rows and few
 * columns copy more than they multiply, so there are more rows for more
 * threads. Images keep too much of a row for that. */
static double fast_rows(const muster_layers *net, uint32_t threads)
{
    uint32_t widest = 1;
    for (uint32_t l = 1; l <= net->count; l++) {
        widest = net->sizes[l] > widest ? net->sizes[l] : widest;
    }
    double each = fmin(BLOCK_SHARED_ROWS, BLOCK_SHARED_FLOATS / widest);
    double rows =
        net->conv.count > 0 ? 0 : fmin(each * threads, BLOCK_ROWS_MAX);
    return fmax(rows, MUSTER_LAYERS_ROWS);
}

/*
 * A user's model cannot stop within a block, so its blocks are short, down to
 * a row. A built-in one can, and then rows in the hundreds keep BLAS fast
 * (fast_rows); more win nothing.
 * Small models on sparse rows use no BLAS for most of their work, and take as
 * many rows as are short. Very long dense rows make blocks shorter, so that
 * their copies stay bounded, and so do images with many channels: 167,772
 * floats are still 100 rows.
 */
uint32_t muster_model_block_rows(const muster_model *model, double density,
                                 uint32_t threads)
{
    double rows = short_block(model, density);
    if (!is_built_in(model)) {
        return (uint32_t)rows;
    }
    if (density < 1 && conv_floats(model->self) == 0) {
        return (uint32_t)fmax(rows, MUSTER_LAYERS_ROWS);
    }
    double floats = (double)model->features + conv_floats(model->self);
    double copied = fmax(1, BLOCK_COPY_FLOATS / floats);
    return (uint32_t)fmin(copied, fast_rows(model->self, threads));
}

uint32_t muster_model_spare_rows(const muster_model *model, double density)
{
    double rows = muster_model_block_rows(model, density, 1);
    double spare = short_block(model, density) / SPARE_SHARE;
    return (uint32_t)fmin(rows, fmax(spare, SPARE_ROWS_MIN));
}

size_t muster_model_pass_bytes(const muster_model *model, uint32_t rows_max,
                               uint32_t threads)
{
    return is_built_in(model)
               ? muster_layers_scratch_shared(model->self, rows_max, threads)
               : model->ops->scratch_bytes(model->self, rows_max);
}

size_t muster_model_pass_wide(const muster_model *model, bool is_sparse)
{
    return is_built_in(model) ? muster_layers_wide(model->self, is_sparse) : 0;
}

void muster_model_pass_begin(muster_model_pass *pass, const muster_model *model,
                             const muster_layers_input *input)
{
    pass->model = model;
    pass->loss = 0;
    pass->variance = 0;
    if (is_built_in(model)) {
        muster_layers_begin(&pass->layers, model->self, input);
    } else {
        pass->layers.input = *input;
    }
}

muster_status muster_model_pass_step(muster_model_pass *pass)
{
    const muster_model *model = pass->model;
    if (is_built_in(model)) {
        muster_status status = muster_layers_step(&pass->layers);
        pass->loss = pass->layers.loss;
        pass->variance = pass->layers.variance;
        return status;
    }
    const muster_layers_input *input = &pass->layers.input;
    muster_status status = model->ops->gradient(
        model->self, input->theta, &input->rows, input->weights, input->scratch,
        input->gradient, &pass->loss);
    return status != MUSTER_IN_PROGRESS ? status : MUSTER_ERR_INPUT;
}

uint32_t muster_model_pass_rows(const muster_model_pass *pass)
{
    return pass->layers.input.rows.count;
}

const float *muster_model_pass_scores(const muster_model_pass *pass)
{
    return pass->layers.outs[pass->layers.net->count - 1];
}
