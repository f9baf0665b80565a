/*
 * Convolutions by columns and BLAS, a group of images at a time.
 *
 *  1. Images are shared out by number: part i of T parts has the same images
 *     and the same buffers whichever thread does it.
 *  2. A part adds the gradients of its groups up in double. At the end of a
 *     layer the parts' sums are added in order.
 *  3. On the way back the slopes of a layer's outputs lie where the outputs
 *     were, as in layers_pass.c.
 */
#include "model/conv.h"

#include <cblas.h>
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "model/conv_kernel.h"
#include "model/layers_kernel.h"

/* Columns of a group: half of a second-level cache. */
#define GROUP_FLOATS 65536u
/* What a convolution takes, in operations of large products: its own are of
 * narrow matrices, and every float of the columns is copied. Measured. */
#define NARROW_OPS 3.0
#define COPY_OPS   40.0

typedef muster_conv_pass pass_t;
typedef muster_conv_layer layer_t;

/* --- sizes ---------------------------------------------------------------- */

static size_t pixels_of(const muster_image *image)
{
    return (size_t)image->height * image->width;
}

static muster_image pooled(const layer_t *layer)
{
    return (muster_image){layer->in.height / 2, layer->in.width / 2,
                          layer->filters};
}

static size_t floats_of(muster_image image)
{
    return pixels_of(&image) * image.channels;
}

static size_t taps_of(const layer_t *layer)
{
    return (size_t)MUSTER_CONV_TAPS * layer->in.channels;
}

bool muster_conv_add(muster_conv *conv, const muster_image *image,
                     uint32_t filters)
{
    muster_image in = *image;
    if (conv->count == MUSTER_CONV_LAYERS_MAX) {
        return false;
    }
    if (conv->count > 0) {
        in = pooled(&conv->layers[conv->count - 1]);
    }
    layer_t *layer = &conv->layers[conv->count];
    *layer = (layer_t){.in = in, .filters = filters, .weights = conv->dim};
    layer->biases = layer->weights + taps_of(layer) * filters;
    conv->dim = layer->biases + filters;
    conv->count++;
    return in.height >= 2 && in.width >= 2;
}

size_t muster_conv_layer_outputs(const muster_conv_layer *layer)
{
    return floats_of(pooled(layer));
}

size_t muster_conv_features(const muster_conv *conv)
{
    return floats_of(conv->layers[0].in);
}

size_t muster_conv_outputs(const muster_conv *conv)
{
    return muster_conv_layer_outputs(&conv->layers[conv->count - 1]);
}

static uint32_t group_of(const layer_t *layer)
{
    size_t columns = pixels_of(&layer->in) * taps_of(layer);
    return columns < GROUP_FLOATS ? (uint32_t)(GROUP_FLOATS / columns) : 1;
}

static size_t round_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* What a part has: sums of a layer and the variance, in doubles; columns, maps,
 * images and the weights' gradient of a group, in floats. */
typedef struct part_sizes {
    size_t sums;
    size_t columns, maps, images, weights;
} part_sizes;

static part_sizes sizes_of(const muster_conv *conv)
{
    part_sizes sizes = {0};
    for (uint32_t l = 0; l < conv->count; l++) {
        const layer_t *layer = &conv->layers[l];
        size_t pixels = group_of(layer) * pixels_of(&layer->in);
        size_t weights = taps_of(layer) * layer->filters;
        sizes.sums = larger(sizes.sums, weights + layer->filters + 1);
        sizes.columns = larger(sizes.columns, pixels * taps_of(layer));
        sizes.maps = larger(sizes.maps, pixels * layer->filters);
        sizes.images = larger(sizes.images, pixels * layer->in.channels);
        sizes.weights = larger(sizes.weights, weights);
    }
    return sizes;
}

static size_t buffer_floats(const part_sizes *sizes)
{
    return round_up(sizes->columns + sizes->maps + sizes->images +
                    sizes->weights);
}

size_t muster_conv_bytes(const muster_conv *conv, uint32_t rows_max,
                         uint32_t threads)
{
    const part_sizes sizes = sizes_of(conv);
    size_t bytes = round_up(sizes.sums * threads * sizeof(double)) +
                   buffer_floats(&sizes) * threads * sizeof(float);
    for (uint32_t l = 0; l < conv->count; l++) {
        size_t outs = rows_max * floats_of(pooled(&conv->layers[l]));
        bytes += round_up(outs * sizeof(float)) + round_up(outs);
    }
    return bytes;
}

void muster_conv_begin(muster_conv_pass *pass, const muster_conv *conv,
                       const muster_conv_input *input, void *scratch)
{
    const part_sizes sizes = sizes_of(conv);
    uint32_t threads = muster_threads_count(input->pool);
    *pass = (muster_conv_pass){.conv = conv, .input = *input, .sums = scratch};
    char *next = (char *)scratch;
    next += round_up(sizes.sums * threads * sizeof(double));
    pass->buffers = (float *)(void *)next;
    next += buffer_floats(&sizes) * threads * sizeof(float);
    for (uint32_t l = 0; l < conv->count; l++) {
        size_t outs = input->rows.count * floats_of(pooled(&conv->layers[l]));
        pass->outs[l] = (float *)(void *)next;
        next += round_up(outs * sizeof(float));
        pass->picks[l] = (uint8_t *)next;
        next += round_up(outs);
    }
}

float *muster_conv_out(const muster_conv_pass *pass)
{
    return pass->outs[pass->conv->count - 1];
}

double muster_conv_error(const muster_conv *conv)
{
    double error = 0;
    for (uint32_t l = 0; l < conv->count; l++) {
        error += sqrt((double)taps_of(&conv->layers[l])) / 2;
    }
    return error;
}

/* --- a group -------------------------------------------------------------- */

/* Images first..first+count-1 of the pass's layer, and a part's buffers. */
typedef struct group {
    pass_t *pass;
    const layer_t *layer;
    uint32_t first, count;
    float *columns, *maps, *images, *weights;
    double *sums; // weights, biases, variance
} group;

static group group_make(pass_t *pass, uint32_t part)
{
    const part_sizes sizes = sizes_of(pass->conv);
    group g = {.pass = pass, .layer = &pass->conv->layers[pass->layer]};
    g.columns = pass->buffers + part * buffer_floats(&sizes);
    g.maps = g.columns + sizes.columns;
    g.images = g.maps + sizes.maps;
    g.weights = g.images + sizes.images;
    g.sums = pass->sums + part * sizes.sums;
    return g;
}

static double *variance_of(const group *g)
{
    return g->sums + (taps_of(g->layer) + 1) * g->layer->filters;
}

static float *outs_of(const group *g, uint32_t image)
{
    return g->pass->outs[g->pass->layer] +
           (g->first + image) * floats_of(pooled(g->layer));
}

static uint8_t *picks_of(const group *g, uint32_t image)
{
    return g->pass->picks[g->pass->layer] +
           (g->first + image) * floats_of(pooled(g->layer));
}

/* An image of the layer's input; sparse rows are made dense in `room`. */
static const float *input_of(const group *g, uint32_t image, float *room)
{
    const muster_rows *rows = &g->pass->input.rows;
    uint32_t r = g->first + image;
    if (g->pass->layer > 0) {
        return g->pass->outs[g->pass->layer - 1] + r * floats_of(g->layer->in);
    }
    if (rows->dense != NULL) {
        return rows->dense + r * rows->stride;
    }
    memset(room, 0, floats_of(g->layer->in) * sizeof(float));
    for (uint64_t e = rows->offsets[r]; e < rows->offsets[r + 1]; e++) {
        room[rows->columns[e]] = rows->values[e];
    }
    return room;
}

static void unfold(const group *g)
{
    size_t columns = pixels_of(&g->layer->in) * taps_of(g->layer);
    for (uint32_t i = 0; i < g->count; i++) {
        muster_conv_unfold(&g->layer->in, input_of(g, i, g->images),
                           g->columns + i * columns);
    }
}

static muster_image maps_shape(const layer_t *layer)
{
    return (muster_image){layer->in.height, layer->in.width, layer->filters};
}

static void group_forward(const group *g)
{
    const layer_t *layer = g->layer;
    const float *theta = g->pass->input.theta;
    const muster_image maps = maps_shape(layer);
    int pixels = (int)(g->count * pixels_of(&layer->in));
    int taps = (int)taps_of(layer);
    int filters = (int)layer->filters;
    unfold(g);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, pixels, filters,
                taps, 1.0f, g->columns, taps, theta + layer->weights, filters,
                0.0f, g->maps, filters);
    for (uint32_t i = 0; i < g->count; i++) {
        muster_conv_pool(&maps, g->maps + i * floats_of(maps),
                         theta + layer->biases, outs_of(g, i), picks_of(g, i));
    }
}

/* The gradient of weights and biases, from columns and the slopes in maps. */
static void sum_weights(const group *g)
{
    const layer_t *layer = g->layer;
    int pixels = (int)(g->count * pixels_of(&layer->in));
    int taps = (int)taps_of(layer);
    int filters = (int)layer->filters;
    size_t weights = (size_t)taps * layer->filters;
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, taps, filters, pixels,
                1.0f, g->columns, taps, g->maps, filters, 0.0f, g->weights,
                filters);
    for (size_t i = 0; i < weights; i++) {
        g->sums[i] += (double)g->weights[i];
    }
    muster_image out = pooled(layer);
    const muster_matrix slopes = {outs_of(g, 0), layer->filters,
                                  (uint32_t)(g->count * pixels_of(&out)),
                                  layer->filters};
    const muster_layer_sums sums = {NULL, g->sums + weights};
    muster_layer_column_sums(&slopes, sums);
}

/* Slopes of the layer below: in place of its outputs, 0 where those are. */
static void slopes_below(const group *g)
{
    const layer_t *layer = g->layer;
    const float *w = g->pass->input.theta + layer->weights;
    size_t pixels = pixels_of(&layer->in);
    size_t floats = floats_of(layer->in);
    int taps = (int)taps_of(layer);
    int filters = (int)layer->filters;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans,
                (int)(g->count * pixels), taps, filters, 1.0f, g->maps, filters,
                w, filters, 0.0f, g->columns, taps);
    memset(g->images, 0, g->count * floats * sizeof(float));
    for (uint32_t i = 0; i < g->count; i++) {
        muster_conv_fold(&layer->in, g->columns + i * pixels * (size_t)taps,
                         g->images + i * floats);
    }
    muster_layer_mask(g->pass->outs[g->pass->layer - 1] + g->first * floats,
                      g->images, g->count * floats);
}

/*
 * What rounding did to the group's sums, as layers_error.c has it for a layer:
 * terms are off as their slopes are, and sums of n terms add n (c / 9 + 1 / 6),
 * c being how much they agree. Pooling leaves a quarter of the pixels.
 */
static double group_variance(const group *g)
{
    const muster_conv_input *input = &g->pass->input;
    size_t taps = taps_of(g->layer);
    size_t filters = g->layer->filters;
    size_t pixels = g->count * pixels_of(&g->layer->in);
    double all = 0;
    for (size_t p = 0; p < pixels; p++) {
        double slopes = muster_layer_squares(g->maps + p * filters, filters);
        if (slopes > 0) {
            all += slopes *
                   (1 + muster_layer_squares(g->columns + p * taps, taps));
        }
    }
    if (!(all > 0)) {
        return 0;
    }
    double n = (double)pixels / 4;
    double agree = muster_layer_squares(g->weights, taps * filters) / all;
    double off =
        (double)input->error_scales[g->first - g->first % input->error_stride];
    return all * (off * off + n * (fmin(n, agree) / 9 + 1.0 / 6));
}

/* `measured`: as many images stand for each of the group's; 0: none. */
static void group_back(const group *g, double measured)
{
    const muster_image maps = maps_shape(g->layer);
    for (uint32_t i = 0; i < g->count; i++) {
        muster_conv_unpool(&maps, outs_of(g, i), picks_of(g, i),
                           g->maps + i * floats_of(maps));
    }
    unfold(g);
    sum_weights(g);
    if (measured > 0) {
        *variance_of(g) += measured * group_variance(g);
    }
    if (g->pass->layer > 0) {
        slopes_below(g);
    }
}

/* --- sharing -------------------------------------------------------------- */

typedef struct image_share {
    pass_t *pass;
    uint32_t begin, count;
    uint32_t parts;
} image_share;

static void do_part(void *context, uint32_t part)
{
    const image_share *share = context;
    group g = group_make(share->pass, part);
    uint64_t count = share->count;
    uint32_t first = share->begin + (uint32_t)(count * part / share->parts);
    uint32_t end = share->begin + (uint32_t)(count * (part + 1) / share->parts);
    uint32_t size = group_of(g.layer);
    for (g.first = first; g.first < end; g.first += g.count) {
        g.count = end - g.first < size ? end - g.first : size;
        if (!share->pass->is_back) {
            group_forward(&g);
        } else {
            group_back(&g,
                       g.first == first ? (double)(end - first) / g.count : 0);
        }
    }
}

/* Some images through the layer; true: all have been. */
static bool do_images(pass_t *pass, double ops_max, double *ops_out)
{
    const layer_t *layer = &pass->conv->layers[pass->layer];
    uint32_t threads = muster_threads_count(pass->input.pool);
    double pixels = (double)pixels_of(&layer->in);
    double taps = (double)taps_of(layer);
    double products = pass->is_back ? (pass->layer > 0 ? 2 : 1) : 1;
    double image = products * pixels *
                   (NARROW_OPS * 2 * taps * layer->filters +
                    COPY_OPS * (taps + layer->filters));
    uint32_t left = pass->input.rows.count - pass->row;
    double fit = ops_max / image;
    uint32_t count = fit < left ? (uint32_t)fit : left;
    count = count < threads ? threads : count;
    count = count < left ? count : left;
    image_share share = {pass, pass->row, count, threads};
    muster_threads_run(pass->input.pool, threads, do_part, &share);
    pass->row += count;
    *ops_out = count * image;
    return pass->row == pass->input.rows.count;
}

bool muster_conv_forward(muster_conv_pass *pass, double ops_max,
                         double *ops_out)
{
    MUSTER_ASSERT(!pass->is_back);
    if (!do_images(pass, ops_max, ops_out)) {
        return false;
    }
    pass->row = 0;
    pass->layer++;
    return pass->layer == pass->conv->count;
}

static void begin_back(pass_t *pass, uint32_t layer)
{
    const part_sizes sizes = sizes_of(pass->conv);
    uint32_t threads = muster_threads_count(pass->input.pool);
    pass->layer = layer;
    pass->row = 0;
    memset(pass->sums, 0, sizes.sums * threads * sizeof(double));
}

/* The parts' sums to the gradient. */
static void end_back(pass_t *pass)
{
    const layer_t *layer = &pass->conv->layers[pass->layer];
    const part_sizes sizes = sizes_of(pass->conv);
    size_t count = (taps_of(layer) + 1) * layer->filters;
    uint32_t threads = muster_threads_count(pass->input.pool);
    for (size_t i = 0; i <= count; i++) {
        double sum = 0;
        for (uint32_t t = 0; t < threads; t++) {
            sum += pass->sums[t * sizes.sums + i];
        }
        if (i == count) {
            pass->variance += sum;
        } else if (pass->input.wide != NULL) {
            pass->input.wide[layer->weights + i] += sum;
        } else {
            pass->input.gradient[layer->weights + i] += (float)sum;
        }
    }
}

bool muster_conv_back(muster_conv_pass *pass, double ops_max, double *ops_out)
{
    if (!pass->is_back) {
        pass->is_back = true;
        begin_back(pass, pass->conv->count - 1);
    }
    if (!do_images(pass, ops_max, ops_out)) {
        return false;
    }
    end_back(pass);
    if (pass->layer == 0) {
        return true;
    }
    begin_back(pass, pass->layer - 1);
    return false;
}
