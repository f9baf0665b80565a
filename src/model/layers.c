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
#include "model/layers.h"

#include <cblas.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "model/loss.h"
#include "model/options.h"

#define HIDDEN_DEFAULT 128u

typedef struct layers {
    muster_model_kind kind;
    uint32_t count;                        // weight matrices
    uint32_t sizes[MUSTER_LAYERS_MAX + 1]; // features, hidden.., outputs
    size_t weights[MUSTER_LAYERS_MAX];     // offsets into theta
    size_t biases[MUSTER_LAYERS_MAX];
    size_t dim;
} layers;

/* --- building ----------------------------------------------------------- */

static muster_status finish(layers *net, muster_error *error_out)
{
    size_t offset = 0;
    for (uint32_t l = 0; l < net->count; l++) {
        net->weights[l] = offset;
        offset += (size_t)net->sizes[l] * net->sizes[l + 1];
        net->biases[l] = offset;
        offset += net->sizes[l + 1];
    }
    net->dim = offset;
    if (net->sizes[0] == 0 || net->sizes[0] > INT_MAX || offset > UINT32_MAX) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "--model: %u features give %zu parameters; "
                                "at least 1 feature and at most %u parameters "
                                "are possible",
                                net->sizes[0], offset, UINT32_MAX);
    }
    return MUSTER_OK;
}

static muster_status keep(const layers *net, muster_error *error_out,
                          void **model_out)
{
    layers *model = muster_mem_array(1, sizeof(*model));
    if (model == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "--model: out of memory");
    }
    *model = *net;
    *model_out = model;
    return MUSTER_OK;
}

/* A model of one layer that takes no options. */
static muster_status create_flat(const char *name, layers *net,
                                 const muster_model_spec *spec,
                                 muster_error *error_out, void **model_out)
{
    char what[32];
    (void)snprintf(what, sizeof(what), "--model %s", name);
    muster_status status =
        muster_model_options_read(what, spec->options, NULL, 0, error_out);
    if (status == MUSTER_OK) {
        status = finish(net, error_out);
    }
    return status == MUSTER_OK ? keep(net, error_out, model_out) : status;
}

static muster_status linear_create(const muster_model_spec *spec,
                                   muster_error *error_out, void **model_out)
{
    layers net = {.kind = MUSTER_MODEL_REGRESSION,
                  .count = 1,
                  .sizes = {spec->features, 1}};
    return create_flat("linear", &net, spec, error_out, model_out);
}

static muster_status logistic_create(const muster_model_spec *spec,
                                     muster_error *error_out, void **model_out)
{
    if (spec->classes != 2) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "--model logistic: needs labels of 2 classes, "
                                "the data has %u; use %s",
                                spec->classes,
                                spec->classes == 0 ? "linear" : "softmax");
    }
    layers net = {
        .kind = MUSTER_MODEL_BINARY, .count = 1, .sizes = {spec->features, 1}};
    return create_flat("logistic", &net, spec, error_out, model_out);
}

static muster_status check_classes(uint32_t classes, muster_error *error_out)
{
    if (classes < 2 || classes > MUSTER_LAYERS_WIDTH_MAX) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "--model softmax: needs labels of 2 to %u "
                                "classes, the data has %u%s",
                                MUSTER_LAYERS_WIDTH_MAX, classes,
                                classes == 0 ? "; use linear" : "");
    }
    return MUSTER_OK;
}

static muster_status softmax_create(const muster_model_spec *spec,
                                    muster_error *error_out, void **model_out)
{
    muster_status status = check_classes(spec->classes, error_out);
    if (status != MUSTER_OK) {
        return status;
    }
    layers net = {.kind = MUSTER_MODEL_CLASSES,
                  .count = 1,
                  .sizes = {spec->features, spec->classes}};
    return create_flat("softmax", &net, spec, error_out, model_out);
}

/* Append the widths of "256,128" after the features. */
static bool read_widths(const char *text, size_t length, layers *net)
{
    const char *end = text + length;
    net->count = 0;
    while (text < end) {
        char *stop = NULL;
        unsigned long width =
            *text >= '0' && *text <= '9' ? strtoul(text, &stop, 10) : 0;
        if (width == 0 || width > MUSTER_LAYERS_WIDTH_MAX || stop > end ||
            net->count + 2 > MUSTER_LAYERS_MAX ||
            (*stop != ',' && stop < end)) {
            return false;
        }
        net->sizes[++net->count] = (uint32_t)width;
        text = stop + 1;
    }
    return text == end + 1; // a list, and no comma at its end
}

static muster_status mlp_options(const char *options, layers *net,
                                 muster_error *error_out)
{
    muster_model_option option;
    while (muster_model_option_next(&options, &option)) {
        if (!muster_model_option_is(&option, "hidden") ||
            option.value == NULL) {
            return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                    "--model mlp: unknown option '%.*s'; it "
                                    "takes hidden=256 or hidden=256,128",
                                    (int)option.key_length, option.key);
        }
        if (!read_widths(option.value, option.value_length, net)) {
            return muster_error_set(
                error_out, MUSTER_ERR_INVALID,
                "--model mlp: hidden=%.*s must be 1 to %u widths from 1 to %u",
                (int)option.value_length, option.value, MUSTER_LAYERS_MAX - 1,
                MUSTER_LAYERS_WIDTH_MAX);
        }
    }
    return MUSTER_OK;
}

static muster_status mlp_create(const muster_model_spec *spec,
                                muster_error *error_out, void **model_out)
{
    layers net = {.kind = MUSTER_MODEL_CLASSES,
                  .count = 1,
                  .sizes = {spec->features, HIDDEN_DEFAULT}};
    uint32_t outputs = spec->classes;
    muster_status status = MUSTER_OK;
    if (spec->classes == 0) {
        net.kind = MUSTER_MODEL_REGRESSION;
        outputs = 1;
    } else {
        status = check_classes(spec->classes, error_out);
    }
    if (status == MUSTER_OK) {
        status = mlp_options(spec->options, &net, error_out);
    }
    if (status == MUSTER_OK) {
        net.sizes[++net.count] = outputs;
        status = finish(&net, error_out);
    }
    return status == MUSTER_OK ? keep(&net, error_out, model_out) : status;
}

/* --- what it is --------------------------------------------------------- */

static void layers_free(void *model)
{
    muster_mem_free(model);
}

static muster_model_kind layers_kind(const void *model)
{
    return ((const layers *)model)->kind;
}

static size_t layers_dim(const void *model)
{
    return ((const layers *)model)->dim;
}

static uint32_t layers_outputs(const void *model)
{
    const layers *net = model;
    return net->sizes[net->count];
}

static uint32_t layers_tensors(const void *model,
                               muster_model_tensor *tensors_out)
{
    const layers *net = model;
    muster_model_tensor *next = tensors_out;
    for (uint32_t l = 0; l < net->count; l++) {
        char prefix[16] = "";
        if (net->count > 1) {
            (void)snprintf(prefix, sizeof(prefix), "layer%u.", l);
        }
        *next = (muster_model_tensor){
            .offset = net->weights[l],
            .rank = 2,
            .shape = {net->sizes[l], net->sizes[l + 1]},
        };
        (void)snprintf(next->name, sizeof(next->name), "%sweight", prefix);
        next++;
        *next = (muster_model_tensor){
            .offset = net->biases[l],
            .rank = 1,
            .shape = {net->sizes[l + 1], 0},
            .is_bias = 1,
        };
        (void)snprintf(next->name, sizeof(next->name), "%sbias", prefix);
        next++;
    }
    return 2 * net->count;
}

/* One layer is convex and starts at 0. Hidden layers start uniform in
 * +-sqrt(6 / fan in) (He et al., 2015), the last in +-sqrt(3 / fan in). */
static void layers_init(const void *model, uint64_t seed, float *theta_out)
{
    const layers *net = model;
    memset(theta_out, 0, net->dim * sizeof(float));
    if (net->count == 1) {
        return;
    }
    for (uint32_t l = 0; l < net->count; l++) {
        double gain = l + 1 < net->count ? 6 : 3;
        double bound = sqrt(gain / net->sizes[l]);
        muster_rng rng = muster_rng_make(seed, l);
        size_t count = (size_t)net->sizes[l] * net->sizes[l + 1];
        for (size_t i = 0; i < count; i++) {
            theta_out[net->weights[l] + i] =
                (float)((2 * muster_rng_uniform(&rng) - 1) * bound);
        }
    }
}

static uint32_t widest(const layers *net)
{
    uint32_t most = 0;
    for (uint32_t l = 1; l <= net->count; l++) {
        most = net->sizes[l] > most ? net->sizes[l] : most;
    }
    return most;
}

static size_t layers_scratch_bytes(const void *model, uint32_t rows_max)
{
    const layers *net = model;
    size_t floats = widest(net);
    for (uint32_t l = 1; l <= net->count; l++) {
        floats += net->sizes[l];
    }
    return floats * rows_max * sizeof(float);
}

/* --- arithmetic --------------------------------------------------------- */

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
static matrix input_of(const layers *net, const muster_rows *rows, uint32_t l,
                       float *const outs[])
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
static void forward(const layers *net, const float *theta,
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
static void slopes_below(const layers *net, const float *theta, uint32_t l,
                         uint32_t n, float *const outs[], float *spare)
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
static muster_status layers_gradient(const void *model, const float *theta,
                                     const muster_rows *rows,
                                     const float *weights, void *scratch,
                                     float *gradient, double *loss)
{
    const layers *net = model;
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

static muster_status layers_predict(const void *model, const float *theta,
                                    const muster_rows *rows, void *scratch,
                                    float *out)
{
    const layers *net = model;
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

#define LAYERS_OPS(NAME)                           \
    const muster_model_ops muster_model_##NAME = { \
        .abi = MUSTER_MODEL_ABI,                   \
        .name = #NAME,                             \
        .create = NAME##_create,                   \
        .free = layers_free,                       \
        .kind = layers_kind,                       \
        .dim = layers_dim,                         \
        .outputs = layers_outputs,                 \
        .tensors = layers_tensors,                 \
        .init = layers_init,                       \
        .scratch_bytes = layers_scratch_bytes,     \
        .gradient = layers_gradient,               \
        .predict = layers_predict,                 \
    }

LAYERS_OPS(linear);
LAYERS_OPS(logistic);
LAYERS_OPS(softmax);
LAYERS_OPS(mlp);
