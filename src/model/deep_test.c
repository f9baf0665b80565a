/*
 * Convolutions, layer norm, dropout, smoothing and class weights against a slow
 * twin: scores and losses are computed again in double, straight from their
 * definitions and the tensors' names, and the float gradient is compared with
 * central differences of that loss. Then what dropout draws, and what does not
 * change a bit: the number of threads' parts, blocks, sparse rows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "model/conv_kernel.h"
#include "model/pass.h"

#define ROWS_MAX 40u
#define WIDE     1024u
#define SEED     7u
#define STEP     3u

typedef struct scene {
    muster_model model;
    muster_rows rows;
    float *dense, *labels, *weights;
    uint64_t *offsets; // the same rows, sparse
    uint32_t *columns;
    float *values;
    uint32_t samples[ROWS_MAX];
    float *theta, *gradient;
    double *exact;
    void *scratch;
    muster_threads *pool;
    double smoothing;
    const double *class_weights;
} scene;

static void scene_init(scene *s, const char *spec,
                       const muster_model_data *data, uint32_t rows)
{
    muster_error error;
    muster_rng rng = muster_rng_make(SEED, data->features);
    *s = (scene){.theta = NULL};
    if (muster_model_create_for(spec, data, &error, &s->model) != MUSTER_OK) {
        fail_msg("%s", error.text);
    }
    size_t floats = (size_t)rows * data->features;
    s->dense = muster_mem_array(floats, sizeof(float));
    s->values = muster_mem_array(floats, sizeof(float));
    s->columns = muster_mem_array(floats, sizeof(uint32_t));
    s->offsets = muster_mem_array(rows + 1, sizeof(uint64_t));
    s->labels = muster_mem_array(rows, sizeof(float));
    s->weights = muster_mem_array(rows, sizeof(float));
    for (uint32_t r = 0; r < rows; r++) {
        s->offsets[r + 1] = s->offsets[r];
        for (uint32_t f = 0; f < data->features; f++) {
            if (muster_rng_below(&rng, 3) > 0) {
                float value = (float)muster_rng_normal(&rng);
                s->dense[r * data->features + f] = value;
                s->columns[s->offsets[r + 1]] = f;
                s->values[s->offsets[r + 1]++] = value;
            }
        }
        uint32_t classes = data->classes;
        s->labels[r] = classes > 0 ? (float)muster_rng_below(&rng, classes)
                                   : (float)muster_rng_normal(&rng);
        s->weights[r] = (float)muster_rng_normal(&rng);
        s->samples[r] = 100 + 3 * r;
    }
    s->rows = (muster_rows){.count = rows,
                            .features = data->features,
                            .dense = s->dense,
                            .stride = data->features,
                            .labels = s->labels};
    s->theta = muster_mem_array(s->model.dim, sizeof(float));
    s->gradient = muster_mem_array(s->model.dim, sizeof(float));
    s->exact = muster_mem_array(s->model.dim, sizeof(double));
    s->model.ops->init(s->model.self, 1, s->theta);
    for (size_t i = 0; i < s->model.dim; i++) {
        s->theta[i] += (float)(0.1 * muster_rng_normal(&rng));
        s->exact[i] = (double)s->theta[i];
    }
}

static void scene_fini(scene *s)
{
    muster_mem_free(s->dense);
    muster_mem_free(s->values);
    muster_mem_free(s->columns);
    muster_mem_free(s->offsets);
    muster_mem_free(s->labels);
    muster_mem_free(s->weights);
    muster_mem_free(s->theta);
    muster_mem_free(s->gradient);
    muster_mem_free(s->exact);
    muster_mem_free(s->scratch);
    muster_threads_free(s->pool);
    muster_model_free(&s->model);
}

/* The gradient of all rows, from 0; returns the loss. */
static double take_gradient(scene *s, double *wide)
{
    uint32_t threads = muster_threads_count(s->pool);
    muster_model_pass pass;
    muster_mem_free(s->scratch);
    s->scratch = muster_mem_raw_aligned(
        muster_model_pass_bytes(&s->model, s->rows.count, threads), 1);
    memset(s->gradient, 0, s->model.dim * sizeof(float));
    const muster_layers_input input = {.theta = s->theta,
                                       .rows = s->rows,
                                       .weights = s->weights,
                                       .scratch = s->scratch,
                                       .gradient = s->gradient,
                                       .wide = wide,
                                       .rows_summed = s->rows.count,
                                       .sample_ids = s->samples,
                                       .seed = SEED,
                                       .step = STEP,
                                       .pool = s->pool};
    muster_model_pass_begin(&pass, &s->model, &input);
    muster_status status = MUSTER_IN_PROGRESS;
    while (status == MUSTER_IN_PROGRESS) {
        status = muster_model_pass_step(&pass);
    }
    assert_int_equal(status, MUSTER_OK);
    assert_true(pass.variance > 0);
    return pass.loss;
}

/* --- the slow twin -------------------------------------------------------- */

static const muster_model_tensor *tensor(const scene *s, const char *prefix,
                                         uint32_t number, const char *name)
{
    char full[64];
    (void)snprintf(full, sizeof(full), "%s%u.%s", prefix, number, name);
    for (uint32_t t = 0; t < s->model.tensor_count; t++) {
        if (strcmp(s->model.tensors[t].name, full) == 0) {
            return &s->model.tensors[t];
        }
    }
    return NULL;
}

/* Row 3 channels ky + channels kx + c of the weights is tap (ky, kx). */
static double convolve(const double *x, const muster_image *in, int y, int col,
                       const double *w, size_t filters)
{
    double sum = 0;
    int channels = (int)in->channels;
    for (int ky = -1; ky <= 1; ky++) {
        for (int kx = -1; kx <= 1; kx++) {
            int py = y + ky;
            int px = col + kx;
            if (py < 0 || px < 0 || py >= (int)in->height ||
                px >= (int)in->width) {
                continue;
            }
            for (int c = 0; c < channels; c++) {
                int tap = (3 * (ky + 1) + kx + 1) * channels + c;
                sum += x[(py * (int)in->width + px) * channels + c] *
                       w[(size_t)tap * filters];
            }
        }
    }
    return sum;
}

/* The largest of four pixels of filter f, or 0. */
static double pool(const scene *s, uint32_t l, const double *x,
                   const muster_image *in, uint32_t pixel, size_t f)
{
    const muster_model_tensor *w = tensor(s, "conv", l, "weight");
    const double *bias = s->exact + tensor(s, "conv", l, "bias")->offset;
    int y = (int)(pixel / (in->width / 2)) * 2;
    int col = (int)(pixel % (in->width / 2)) * 2;
    double best = 0;
    for (int q = 0; q < 4; q++) {
        double z = convolve(x, in, y + q / 2, col + q % 2,
                            s->exact + w->offset + f, w->shape[1]);
        best = fmax(best, z + bias[f]);
    }
    return best;
}

/* All convolutions, in place; returns the floats that are left. */
static size_t twin_conv(const scene *s, double *x)
{
    const muster_layers *net = s->model.self;
    muster_image in = s->model.image;
    double next[WIDE];
    for (uint32_t l = 0; l < net->conv.count; l++) {
        size_t filters = tensor(s, "conv", l, "weight")->shape[1];
        uint32_t pixels = (in.height / 2) * (in.width / 2);
        for (uint32_t p = 0; p < pixels; p++) {
            for (size_t f = 0; f < filters; f++) {
                next[p * filters + f] = pool(s, l, x, &in, p, f);
            }
        }
        in = (muster_image){in.height / 2, in.width / 2, (uint32_t)filters};
        memcpy(x, next, pixels * filters * sizeof(double));
    }
    return (size_t)in.height * in.width * in.channels;
}

static void twin_norm(const scene *s, uint32_t l, double *z, size_t width)
{
    const muster_model_tensor *gain = tensor(s, "layer", l, "gain");
    if (gain == NULL) {
        return;
    }
    const double *shift = s->exact + tensor(s, "layer", l, "shift")->offset;
    double mean = 0;
    double variance = 0;
    for (size_t i = 0; i < width; i++) {
        mean += z[i] / (double)width;
    }
    for (size_t i = 0; i < width; i++) {
        variance += (z[i] - mean) * (z[i] - mean) / (double)width;
    }
    for (size_t i = 0; i < width; i++) {
        z[i] =
            s->exact[gain->offset + i] * (z[i] - mean) / sqrt(variance + 1e-5) +
            shift[i];
    }
}

static void twin_scores(const scene *s, uint32_t r, double *z)
{
    double x[WIDE];
    size_t count = s->rows.features;
    const muster_layers *net = s->model.self;
    const muster_dropout drop = muster_dropout_make(net->dropout, SEED, STEP);
    for (size_t f = 0; f < count; f++) {
        x[f] = (double)s->dense[r * count + f];
    }
    if (net->conv.count > 0) {
        count = twin_conv(s, x);
    }
    for (uint32_t l = 0; l < net->count; l++) {
        const muster_model_tensor *w = tensor(s, "layer", l, "weight");
        const double *bias = s->exact + tensor(s, "layer", l, "bias")->offset;
        float kept[WIDE];
        size_t width = w->shape[1];
        assert_int_equal(w->shape[0], count);
        for (size_t o = 0; o < width; o++) {
            kept[o] = 1;
            z[o] = bias[o];
            for (size_t i = 0; i < count; i++) {
                z[o] += x[i] * s->exact[w->offset + i * width + o];
            }
        }
        if (l + 1 == net->count) {
            break;
        }
        twin_norm(s, l, z, width);
        muster_dropout_apply(&drop, s->samples[r], l, kept, 0, width);
        for (size_t o = 0; o < width; o++) {
            x[o] = fmax(z[o], 0) * (double)kept[o];
        }
        count = width;
    }
}

static double twin_loss(const scene *s)
{
    double loss = 0;
    uint32_t classes = s->model.outputs;
    for (uint32_t r = 0; r < s->rows.count; r++) {
        double z[WIDE];
        twin_scores(s, r, z);
        double weight = (double)s->weights[r];
        double label = (double)s->labels[r];
        if (s->model.kind == MUSTER_MODEL_REGRESSION) {
            loss += weight * (z[0] - label) * (z[0] - label) / 2;
            continue;
        }
        uint32_t y = (uint32_t)label;
        double sum = 0;
        double target = 0; // scores weighted by what is wanted
        for (uint32_t c = 0; c < classes; c++) {
            sum += exp(z[c]);
            target += z[c] * (s->smoothing / classes +
                              (c == y ? 1 - s->smoothing : 0));
        }
        weight *= s->class_weights != NULL ? s->class_weights[y] : 1;
        loss += weight * (log(sum) - target);
    }
    return loss;
}

static void check_gradient(scene *s)
{
    double worst = 0;
    double norm = 0;
    double expected = twin_loss(s);
    double loss = take_gradient(s, NULL);
    assert_true(fabs(loss - expected) < 1e-4 * (1 + fabs(expected)));
    size_t stride = s->model.dim > 600 ? 7 : 1;
    for (size_t i = 0; i < s->model.dim; i += stride) {
        const double h = 1e-6;
        double keep = s->exact[i];
        s->exact[i] = keep + h;
        double up = twin_loss(s);
        s->exact[i] = keep - h;
        double down = twin_loss(s);
        s->exact[i] = keep;
        double slope = (up - down) / (2 * h);
        worst = fmax(worst, fabs((double)s->gradient[i] - slope));
        norm = fmax(norm, fabs(slope));
    }
    assert_true(norm > 0.01);
    if (!(worst < 2e-5 * (1 + norm))) {
        fail_msg("off by %g of %g", worst, norm);
    }
}

/* --- gradients ------------------------------------------------------------ */

typedef struct deep_case {
    const char *spec;
    muster_model_data data;
    double smoothing;
    const double *class_weights;
} deep_case;

static const double three[] = {1, 0.5, 4};

static const deep_case cases[] = {
    {"mlp:hidden=8,norm=layer", {5, 3, {0, 0, 0}}, 0, NULL},
    {"mlp:hidden=9,6,norm=layer,dropout=0.3", {5, 3, {0, 0, 0}}, 0, NULL},
    {"mlp:hidden=12,7,dropout=0.5", {6, 0, {0, 0, 0}}, 0, NULL},
    {"mlp:hidden=6,smoothing=0.2", {5, 3, {0, 0, 0}}, 0.2, NULL},
    {"mlp:hidden=6,class-weights=1,0.5,4", {5, 3, {0, 0, 0}}, 0, three},
    {"cnn:channels=3,hidden=5", {36, 3, {6, 6, 1}}, 0, NULL},
    {"cnn:channels=2,3,hidden=0", {98, 3, {7, 7, 2}}, 0, NULL},
    {"cnn:channels=3,2,hidden=6,dropout=0.25,norm=layer,smoothing=0.1,"
     "class-weights=1,0.5,4",
     {80, 3, {8, 5, 2}},
     0.1,
     three},
    {"cnn:channels=2,hidden=4", {24, 0, {4, 6, 1}}, 0, NULL},
};

static void gradients_match_finite_differences(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        scene s;
        scene_init(&s, cases[i].spec, &cases[i].data, 7);
        s.smoothing = cases[i].smoothing;
        s.class_weights = cases[i].class_weights;
        check_gradient(&s);
        s.rows.dense = NULL; // the same rows, sparse
        s.rows.offsets = s.offsets;
        s.rows.columns = s.columns;
        s.rows.values = s.values;
        check_gradient(&s);
        scene_fini(&s);
    }
}

static double distance(const float *a, const float *b, size_t count)
{
    double squares = 0;
    double all = 0;
    for (size_t i = 0; i < count; i++) {
        double d = (double)a[i] - (double)b[i];
        squares += d * d;
        all += (double)a[i] * (double)a[i];
    }
    return sqrt(squares / all);
}

static void threads_change_gradients_by_rounding_alone(void **state)
{
    (void)state;
    const muster_model_data data = {288, 3, {12, 12, 2}};
    scene one;
    scene two;
    scene_init(&one, "cnn:channels=4,6,hidden=70,dropout=0.5,norm=layer", &data,
               ROWS_MAX);
    scene_init(&two, "cnn:channels=4,6,hidden=70,dropout=0.5,norm=layer", &data,
               ROWS_MAX);
    assert_int_equal(muster_threads_create(3, &two.pool), MUSTER_OK);
    double loss = take_gradient(&one, NULL);
    assert_true(fabs(take_gradient(&two, NULL) - loss) < 1e-5 * fabs(loss));
    assert_true(distance(one.gradient, two.gradient, one.model.dim) < 1e-6);
    float *again = muster_mem_array(one.model.dim, sizeof(float));
    memcpy(again, two.gradient, one.model.dim * sizeof(float));
    (void)take_gradient(&two, NULL);
    assert_memory_equal(again, two.gradient, one.model.dim * sizeof(float));
    muster_mem_free(again);
    scene_fini(&two);
    scene_fini(&one);
}

static void convolutions_are_summed_in_double_where_that_is_wanted(void **state)
{
    (void)state;
    const muster_model_data data = {64, 3, {8, 8, 1}};
    scene s;
    scene_init(&s, "cnn:channels=4,hidden=5", &data, 20);
    (void)take_gradient(&s, NULL);
    size_t count = muster_model_pass_wide(&s.model, false);
    float *narrow = muster_mem_array(count, sizeof(float));
    double *wide = muster_mem_array(s.model.dim, sizeof(double));
    assert_int_equal(count, 4 * 10);
    memcpy(narrow, s.gradient, count * sizeof(float));
    (void)take_gradient(&s, wide);
    for (size_t i = 0; i < count; i++) {
        assert_true(s.gradient[i] == 0 && (float)wide[i] == narrow[i]);
    }
    muster_mem_free(narrow);
    muster_mem_free(wide);
    scene_fini(&s);
}

/* --- dropout -------------------------------------------------------------- */

static void what_is_dropped_depends_on_sample_step_and_layer(void **state)
{
    (void)state;
    float a[4096];
    float b[4096];
    const muster_dropout drop = muster_dropout_make(0.25, 1, 5);
    for (size_t i = 0; i < 4096; i++) {
        a[i] = b[i] = 1;
    }
    muster_dropout_apply(&drop, 9, 2, a, 0, 4096);
    muster_dropout_apply(&drop, 9, 2, b, 0, 1024); // in parts: the same
    muster_dropout_apply(&drop, 9, 2, b + 1024, 1024, 3072);
    assert_memory_equal(a, b, sizeof(a));
    double sum = 0;
    for (size_t i = 0; i < 4096; i++) {
        assert_true(a[i] == 0 || a[i] == drop.scale);
        sum += (double)a[i];
    }
    assert_true(fabs(sum / 4096 - 1) < 0.03); // 4 standard deviations
    const muster_dropout later = muster_dropout_make(0.25, 1, 6);
    const struct {
        const muster_dropout *drop;
        uint32_t sample, layer;
    } others[] = {{&later, 9, 2}, {&drop, 10, 2}, {&drop, 9, 1}};
    for (size_t o = 0; o < 3; o++) {
        for (size_t i = 0; i < 4096; i++) {
            b[i] = 1;
        }
        muster_dropout_apply(others[o].drop, others[o].sample, others[o].layer,
                             b, 0, 4096);
        assert_memory_not_equal(a, b, sizeof(a));
    }
}

static void scores_alone_drop_nothing(void **state)
{
    (void)state;
    const muster_model_data data = {5, 3, {0, 0, 0}};
    scene s;
    float scores[2][7 * 3];
    scene_init(&s, "mlp:hidden=30,dropout=0.9", &data, 7);
    muster_model plain;
    assert_int_equal(
        muster_model_create_for("mlp:hidden=30", &data, NULL, &plain),
        MUSTER_OK);
    (void)take_gradient(&s, NULL); // makes the scratch
    assert_int_equal(
        plain.ops->predict(plain.self, s.theta, &s.rows, s.scratch, scores[0]),
        MUSTER_OK);
    assert_int_equal(s.model.ops->predict(s.model.self, s.theta, &s.rows,
                                          s.scratch, scores[1]),
                     MUSTER_OK);
    assert_memory_equal(scores[0], scores[1], sizeof(scores[0]));
    muster_model_free(&plain);
    scene_fini(&s);
}

/* --- what is refused ------------------------------------------------------ */

static void refused(const char *spec, const muster_model_data *data,
                    const char *text)
{
    muster_error error = {MUSTER_OK, ""};
    muster_model model;
    assert_int_equal(muster_model_create_for(spec, data, &error, &model),
                     MUSTER_ERR_INVALID);
    if (strstr(error.text, text) == NULL) {
        fail_msg("'%s' does not say '%s'", error.text, text);
    }
}

static void wrong_options_are_refused_with_what_would_be_right(void **state)
{
    (void)state;
    const muster_model_data flat = {36, 3, {0, 0, 0}};
    const muster_model_data image = {36, 3, {6, 6, 1}};
    const muster_model_data targets = {36, 0, {6, 6, 1}};
    refused("cnn", &flat, "cnn:image=HEIGHTxWIDTH");
    refused("cnn:image=6x7", &flat, "6x7x1 is 42 features, the data has 36");
    refused("cnn:image=6", &flat, "such as 32x32x3");
    refused("cnn:channels=4,4,4", &image, "6x6 can be halved 2 times");
    refused("cnn:channels=0", &image, "such as channels=16,32");
    refused("cnn:kernel=5", &image, "kernel");
    refused("mlp:norm=batch", &image, "none, layer");
    refused("mlp:dropout=1", &image, "dropout");
    refused("mlp:smoothing=0.1", &targets, "the data has targets");
    refused("mlp:class-weights=1,2", &targets, "the data has targets");
    refused("softmax:class-weights=1,2", &image, "each of the 3 classes");
    refused("softmax:class-weights=1,2,-1", &image, "each of the 3 classes");
    refused("softmax:class-weights=1,2,3,4", &image, "each of the 3 classes");
    refused("mlp:hidden=1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,norm=layer", &image,
            "at most 64");
    muster_model model;
    assert_int_equal(
        muster_model_create_for("cnn:image=4x3x3", &flat, NULL, &model),
        MUSTER_ERR_INVALID); // halved once only
    assert_int_equal(muster_model_create_for("cnn:channels=4,image=4x3x3",
                                             &flat, NULL, &model),
                     MUSTER_OK);
    muster_model_free(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_match_finite_differences),
        cmocka_unit_test(threads_change_gradients_by_rounding_alone),
        cmocka_unit_test(
            convolutions_are_summed_in_double_where_that_is_wanted),
        cmocka_unit_test(what_is_dropped_depends_on_sample_step_and_layer),
        cmocka_unit_test(scores_alone_drop_nothing),
        cmocka_unit_test(wrong_options_are_refused_with_what_would_be_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
