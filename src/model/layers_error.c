/*
 * The rounding of a pass, estimated as it goes. Slopes are off as their scores
 * are, terms as their slopes are, and sums add what float32 loses. All is kept
 * as a variance, since errors of either sign add up like a random walk.
 */
#include "model/layers_error.h"

#include <math.h>

#include "model/layers_kernel.h"

/* Of the rows that muster_layers_measure() looks at. */
#define SAMPLE_ALL    64u
#define SAMPLE_STRIDE 8u
/* Up to so many rows the coherence is taken as the largest. Of a layer's
 * weights it looks at all, or every fourth row, or at most so many. */
#define MEASURE_ROWS   64.0
#define MEASURE_FEW    65536.0
#define MEASURE_STRIDE 4.0
#define MEASURE_MAX    4e6
/* Layer norm: a mean, a deviation, a difference and a product. */
#define NORM_ERROR 4.0
/* Squaring a float. */
#define SQUARE_US 2e-4

typedef muster_layers_pass pass_t;

uint32_t muster_layers_sample_stride(const muster_layers_pass *pass)
{
    return pass->input.rows.count > SAMPLE_ALL ? SAMPLE_STRIDE : 1;
}

/*
 * How much scores are off, in units of 2^-24 of themselves: each layer adds
 * what a float32 sum of its inputs does to terms of either sign. Layers with
 * one output are summed in double.
 */
static float score_error(const pass_t *pass)
{
    const muster_layers *net = pass->net;
    const muster_rows *rows = &pass->input.rows;
    double error = 2 + muster_conv_error(&net->conv);
    for (uint32_t l = 0; l < net->count; l++) {
        double terms = net->sizes[l];
        if (l == 0 && rows->dense == NULL && net->conv.count == 0) {
            uint64_t entries = rows->offsets[rows->count] - rows->offsets[0];
            terms = (double)entries / rows->count;
        }
        error += net->sizes[l + 1] > 1 ? sqrt(terms) / 2 : 0;
        error += net->has_norm && l + 1 < net->count ? NORM_ERROR : 0;
    }
    return (float)error;
}

/*
 * How much a slope of row r is off, in units of 2^-24 of itself: a few from its
 * own formula, and the scores' size times their error. Where a small slope is
 * the difference of large numbers (squared loss) that counts in full.
 */
static float slope_error(const pass_t *pass, const float *z, uint32_t r,
                         float scores)
{
    uint32_t outputs = pass->net->sizes[pass->net->count];
    float largest = 0;
    for (uint32_t c = 0; c < outputs; c++) {
        largest = fmaxf(largest, fabsf(z[c]));
    }
    if (pass->net->loss.kind == MUSTER_MODEL_REGRESSION) {
        float miss = fabsf(z[0] - pass->input.rows.labels[r]);
        largest = miss > 0 ? largest / miss : 0;
    }
    return 4 + scores * largest;
}

void muster_layers_scale_errors(muster_layers_pass *pass, const float *scores,
                                uint32_t begin, uint32_t count)
{
    if (pass->input.rows.labels == NULL) {
        return;
    }
    uint32_t outputs = pass->net->sizes[pass->net->count];
    float scores_off = score_error(pass);
    for (uint32_t r = 0; r < count; r++) {
        if ((begin + r) % muster_layers_sample_stride(pass) == 0) {
            pass->error_scales[begin + r] = slope_error(
                pass, scores + (size_t)r * outputs, begin + r, scores_off);
        }
    }
}

static double input_squares(const pass_t *pass, uint32_t r)
{
    const muster_rows *rows = &pass->input.rows;
    if (muster_layers_is_sparse(pass)) {
        uint64_t from = rows->offsets[r];
        return muster_layer_squares(rows->values + from,
                                    rows->offsets[r + 1] - from);
    }
    muster_matrix x = muster_layers_input_of(pass);
    return muster_layer_squares(x.data + r * x.stride, x.columns);
}

/* Rows of weights that are looked at, and what each thread finds. */
typedef struct weight_sample {
    const float *weights;
    uint32_t width, stride, count;
    uint32_t parts;
    double squares[MUSTER_THREADS_MAX];
} weight_sample;

static void sample_part(void *context, uint32_t index)
{
    weight_sample *sample = context;
    uint64_t end = muster_threads_part(sample->count, sample->parts, index + 1);
    double squares = 0;
    for (uint64_t i = muster_threads_part(sample->count, sample->parts, index);
         i < end; i++) {
        squares += muster_layer_squares(sample->weights +
                                            i * sample->stride * sample->width,
                                        sample->width);
    }
    sample->squares[index] = squares;
}

/* Squares of the layer's gradient; of many weights some stand for all. */
static double gradient_squares(const pass_t *pass)
{
    uint32_t l = pass->layer;
    uint32_t inner = pass->net->sizes[l];
    uint32_t width = pass->net->sizes[l + 1];
    muster_threads *pool = pass->input.pool;
    double cells = (double)inner * width;
    uint32_t stride = 1;
    if (cells > MEASURE_FEW) {
        stride = (uint32_t)fmax(MEASURE_STRIDE, cells / MEASURE_MAX);
    }
    double work_us = cells / stride * SQUARE_US;
    weight_sample sample = {.weights =
                                pass->input.gradient + pass->net->weights[l],
                            .width = width,
                            .stride = stride,
                            .count = (inner + stride - 1) / stride,
                            .parts = muster_threads_parts(pool, work_us)};
    muster_threads_run_some(pool, sample.parts, work_us, sample_part, &sample);
    double squares = 0;
    for (uint32_t i = 0; i < sample.parts; i++) {
        squares += sample.squares[i];
    }
    return squares * inner / sample.count;
}

/*
 * The variance of n float32 additions, in units of 2^-48 times the sum of
 * squared terms. Each is off by up to 2^-24 of the sum so far. Terms of either
 * sign walk at random: the sums' squares grow as k, which makes n / 6. Terms
 * that agree make n c / 9, where c is the square of their sum over the sum of
 * their squares, at most n. Of n rows it is 1 + (n - 1) r, where r, the
 * coherence, is how much two rows agree.
 */
static double sum_variance(pass_t *pass, double squares)
{
    muster_layers_coherence *coherence = pass->input.coherence;
    double rows = pass->input.rows.count;
    double n = fmin(rows, MUSTER_LAYERS_ROWS);
    double agree = n;
    if (muster_layers_is_sparse(pass)) {
        n = pass->input.wide != NULL ? 0 : pass->input.rows_summed;
        agree = n;
    } else if (pass->net->sizes[pass->layer + 1] == 1) {
        n = 0; // sums in double
    } else if (coherence != NULL && n > MEASURE_ROWS) {
        if (coherence->is_fresh) {
            double all = gradient_squares(pass) / squares;
            coherence->layers[pass->layer] = (all - 1) / (rows - 1);
        }
        agree = 1 + (n - 1) * coherence->layers[pass->layer];
        agree = fmax(0, fmin(n, agree));
    }
    return n * (agree / 9 + 1.0 / 6);
}

/* What each thread finds in the rows that stand for all. */
typedef struct row_sample {
    const pass_t *pass;
    uint32_t stride, count;
    uint32_t parts;
    double squares[MUSTER_THREADS_MAX];  // of the terms
    double variance[MUSTER_THREADS_MAX]; // of what their slopes are off
} row_sample;

/* The squares of row r's terms are (|x_r|^2 + 1) |slopes_r|^2. */
static void rows_part(void *context, uint32_t index)
{
    row_sample *sample = context;
    const pass_t *pass = sample->pass;
    const uint32_t width = pass->net->sizes[pass->layer + 1];
    uint32_t end = sample->count * (index + 1) / sample->parts;
    double all = 0;
    double variance = 0;
    for (uint32_t i = sample->count * index / sample->parts; i < end; i++) {
        uint32_t r = i * sample->stride;
        const float *slopes = pass->outs[pass->layer] + (size_t)r * width;
        double squares = muster_layer_squares(slopes, width);
        double off = (double)pass->error_scales[r];
        squares *= squares > 0 ? 1 + input_squares(pass, r) : 0;
        all += squares;
        variance += squares * off * off;
    }
    sample->squares[index] = all;
    sample->variance[index] = variance;
}

/*
 * Add up the variance of the rounding in the layer's gradient: of its terms,
 * which are off as their slopes are, and of their sums. Of many rows a few
 * stand for all: this must cost next to nothing.
 */
void muster_layers_measure(muster_layers_pass *pass)
{
    const uint32_t *sizes = pass->net->sizes + pass->layer;
    const uint32_t stride = muster_layers_sample_stride(pass);
    const uint32_t rows = (pass->input.rows.count + stride - 1) / stride;
    double work_us = SQUARE_US * rows * ((double)sizes[0] + sizes[1]);
    row_sample sample = {.pass = pass,
                         .stride = stride,
                         .count = rows,
                         .parts =
                             muster_threads_parts(pass->input.pool, work_us)};
    muster_threads_run_some(pass->input.pool, sample.parts, work_us, rows_part,
                            &sample);
    double all = 0;
    double variance = 0;
    for (uint32_t i = 0; i < sample.parts; i++) {
        all += sample.squares[i];
        variance += sample.variance[i];
    }
    if (all > 0) {
        variance += all * sum_variance(pass, all * stride);
    }
    pass->variance += variance * stride;
}

void muster_layers_measure_norm(muster_layers_pass *pass)
{
    const uint32_t l = pass->layer;
    const size_t width = pass->net->sizes[l + 1];
    const uint32_t stride = muster_layers_sample_stride(pass);
    double variance = 0;
    for (uint32_t r = 0; r < pass->input.rows.count; r += stride) {
        const float *slopes = pass->outs[l] + r * width;
        const float *normed = pass->normed[l] + r * width;
        double off = (double)pass->error_scales[r];
        double squares = 0;
        for (size_t c = 0; c < width; c++) {
            double slope = (double)slopes[c];
            double factor = (double)normed[c];
            squares += slope * slope * (1 + factor * factor);
        }
        variance += squares * off * off;
    }
    pass->variance += variance * stride;
}
