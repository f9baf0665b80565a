/*
 * Fully connected layers on CBLAS, forwards and backwards.
 *
 * Scratch holds the outputs of every layer for rows_max rows, then one more
 * matrix of the widest size. The backward pass works from the top: the slopes
 * of layer l's outputs lie where those outputs were; once the gradient of W_l
 * is taken, the slopes of the layer below are formed in the spare matrix,
 * masked where ReLU was off, and replace that layer's outputs.
 *
 * Sparse rows touch only the first layer, in plain loops over their entries.
 */
#include "model/layers_pass.h"

#include <cblas.h>
#include <string.h>

#include "base/assert.h"
#include "model/loss.h"

static uint32_t widest(const muster_layers *net)
{
    uint32_t size_max = 0;
    for (uint32_t l = 1; l <= net->count; l++) {
        size_max = net->sizes[l] > size_max ? net->sizes[l] : size_max;
    }
    return size_max;
}

size_t muster_layers_scratch_bytes(const void *model, uint32_t rows_max)
{
    const muster_layers *net = model;
    size_t floats = widest(net);
    for (uint32_t l = 1; l <= net->count; l++) {
        floats += net->sizes[l];
    }
    return floats * rows_max * sizeof(float);
}

/* Dense rows, `stride` floats apart. */
typedef struct matrix {
    const float *data;
    size_t stride;
    uint32_t rows;
    uint32_t columns;
} matrix;

/* out (rows x width) += x W, W being x.columns x width. */
static void multiply(matrix x, const float *w, uint32_t width, float *out)
{
    if (width == 1) {
        cblas_sgemv(CblasRowMajor, CblasNoTrans, (int)x.rows, (int)x.columns,
                    1.0f, x.data, (int)x.stride, w, 1, 1.0f, out, 1);
        return;
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)x.rows,
                (int)width, (int)x.columns, 1.0f, x.data, (int)x.stride, w,
                (int)width, 1.0f, out, (int)width);
}

/* gw (x.columns x width) += x' slopes, slopes being rows x width. */
static void multiply_back(matrix x, const float *slopes, uint32_t width,
                          float *gw)
{
    if (width == 1) {
        cblas_sgemv(CblasRowMajor, CblasTrans, (int)x.rows, (int)x.columns,
                    1.0f, x.data, (int)x.stride, slopes, 1, 1.0f, gw, 1);
        return;
    }
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)x.columns,
                (int)width, (int)x.rows, 1.0f, x.data, (int)x.stride, slopes,
                (int)width, 1.0f, gw, (int)width);
}

/* The input of layer l: the rows themselves, or the layer below's outputs. */
static matrix input_of(const muster_layers *net, const muster_rows *rows,
                       uint32_t l, float *const outs[])
{
    if (l == 0) {
        return (matrix){rows->dense, rows->stride, rows->count, net->sizes[0]};
    }
    return (matrix){outs[l - 1], net->sizes[l], rows->count, net->sizes[l]};
}

static void sparse_multiply(const muster_rows *rows, const float *w, float *out,
                            uint32_t columns)
{
    for (uint32_t r = 0; r < rows->count; r++) {
        float *z = out + (size_t)r * columns;
        for (uint64_t e = rows->offsets[r]; e < rows->offsets[r + 1]; e++) {
            const float *from = w + (size_t)rows->columns[e] * columns;
            const float value = rows->values[e];
            for (uint32_t c = 0; c < columns; c++) {
                z[c] += value * from[c];
            }
        }
    }
}

static void sparse_multiply_back(const muster_rows *rows, const float *slopes,
                                 float *gw, uint32_t columns)
{
    for (uint32_t r = 0; r < rows->count; r++) {
        const float *slope = slopes + (size_t)r * columns;
        for (uint64_t e = rows->offsets[r]; e < rows->offsets[r + 1]; e++) {
            float *to = gw + (size_t)rows->columns[e] * columns;
            const float value = rows->values[e];
            for (uint32_t c = 0; c < columns; c++) {
                to[c] += value * slope[c];
            }
        }
    }
}

static void fill_bias(const float *bias, float *out, uint32_t n, uint32_t width)
{
    for (uint32_t r = 0; r < n; r++) {
        memcpy(out + (size_t)r * width, bias, width * sizeof(float));
    }
}

static void relu(float *x, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        x[i] = x[i] > 0 ? x[i] : 0;
    }
}

/* Fill outs[l], the outputs of layer l, from scratch; the last are scores. */
static void forward(const muster_layers *net, const float *theta,
                    const muster_rows *rows, float *scratch,
                    float *outs[MUSTER_LAYERS_MAX])
{
    uint32_t n = rows->count;
    MUSTER_ASSERT(net->count > 0);
    for (uint32_t l = 0; l < net->count; l++) {
        uint32_t width = net->sizes[l + 1];
        const float *w = theta + net->weights[l];
        float *out = scratch;
        scratch += (size_t)n * width;
        outs[l] = out;
        fill_bias(theta + net->biases[l], out, n, width);
        if (l == 0 && rows->dense == NULL) {
            sparse_multiply(rows, w, out, width);
        } else {
            multiply(input_of(net, rows, l, outs), w, width, out);
        }
        if (l + 1 < net->count) {
            relu(out, (size_t)n * width);
        }
    }
}

/* Turn the outputs of layer l-1 into its slopes, from those of layer l. */
static void slopes_below(const muster_layers *net, const float *theta,
                         uint32_t l, uint32_t n, float *const outs[],
                         float *spare)
{
    int width = (int)net->sizes[l];
    int above = (int)net->sizes[l + 1];
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)n, width, above,
                1.0f, outs[l], above, theta + net->weights[l], above, 0.0f,
                spare, width);
    float *out = outs[l - 1];
    size_t count = (size_t)n * net->sizes[l];
    for (size_t i = 0; i < count; i++) {
        out[i] = out[i] > 0 ? spare[i] : 0;
    }
}

static void add_column_sums(const float *slopes, uint32_t n, uint32_t width,
                            float *gb)
{
    for (uint32_t r = 0; r < n; r++) {
        const float *slope = slopes + (size_t)r * width;
        for (uint32_t c = 0; c < width; c++) {
            gb[c] += slope[c];
        }
    }
}

// NOLINTNEXTLINE(readability-function-size): the shape of the public ops.
muster_status muster_layers_gradient(const void *model, const float *theta,
                                     const muster_rows *rows,
                                     const float *weights, void *scratch,
                                     float *gradient, double *loss)
{
    const muster_layers *net = model;
    float *outs[MUSTER_LAYERS_MAX] = {NULL};
    uint32_t n = rows->count;
    MUSTER_ASSERT(rows->features == net->sizes[0]);
    if (n == 0) {
        return MUSTER_OK;
    }
    forward(net, theta, rows, scratch, outs);
    uint32_t last = net->count - 1;
    const muster_loss_rows scored = {net->kind, n, net->sizes[net->count],
                                     rows->labels, weights};
    muster_status status = muster_loss_slopes(&scored, outs[last], loss);
    if (status != MUSTER_OK) {
        return status;
    }
    float *spare = outs[last] + (size_t)n * net->sizes[net->count];
    for (uint32_t l = last; l < net->count; l--) { // until l wraps below 0
        uint32_t width = net->sizes[l + 1];
        float *gw = gradient + net->weights[l];
        add_column_sums(outs[l], n, width, gradient + net->biases[l]);
        if (l == 0 && rows->dense == NULL) {
            sparse_multiply_back(rows, outs[0], gw, width);
        } else {
            multiply_back(input_of(net, rows, l, outs), outs[l], width, gw);
        }
        if (l > 0) {
            slopes_below(net, theta, l, n, outs, spare);
        }
    }
    return MUSTER_OK;
}

muster_status muster_layers_predict(const void *model, const float *theta,
                                    const muster_rows *rows, void *scratch,
                                    float *out)
{
    const muster_layers *net = model;
    float *outs[MUSTER_LAYERS_MAX] = {NULL};
    MUSTER_ASSERT(rows->features == net->sizes[0]);
    if (rows->count == 0) {
        return MUSTER_OK;
    }
    forward(net, theta, rows, scratch, outs);
    memcpy(out, outs[net->count - 1],
           (size_t)rows->count * net->sizes[net->count] * sizeof(float));
    return MUSTER_OK;
}
