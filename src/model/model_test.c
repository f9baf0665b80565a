/*
 * The models against a slow twin: scores and losses of the built-in models are
 * computed again in double, straight from their definitions, and the float
 * gradient is compared with central differences of that loss. Dense rows, CSR
 * rows, weights of both signs, all kinds. Then models by name and from shared
 * objects, and what is refused.
 */
#include "model/model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "model/loss.h"

#define ROWS     7u
#define FEATURES 5u
#define STRIDE   6u
#define WIDE     40u

/* --- some rows, dense and the same ones sparse ---------------------------- */

typedef struct fixture {
    float dense[ROWS * STRIDE];
    uint64_t offsets[ROWS + 1];
    uint32_t columns[ROWS * FEATURES];
    float values[ROWS * FEATURES];
    float labels[ROWS];
    float weights[ROWS];
} fixture;

static void make_rows(fixture *fix, uint32_t classes)
{
    muster_rng rng = muster_rng_make(11, classes);
    uint64_t entries = 0;
    for (uint32_t r = 0; r < ROWS; r++) {
        fix->offsets[r] = entries;
        for (uint32_t f = 0; f < FEATURES; f++) {
            double value = muster_rng_normal(&rng);
            if (muster_rng_below(&rng, 3) == 0) {
                value = 0;
            }
            fix->dense[r * STRIDE + f] = (float)value;
            if ((float)value != 0) {
                fix->columns[entries] = f;
                fix->values[entries++] = (float)value;
            }
        }
        fix->dense[r * STRIDE + FEATURES] = NAN; // padding is never read
        fix->labels[r] = (float)muster_rng_below(&rng, classes ? classes : 9);
        if (classes == 2 && fix->labels[r] == 0) {
            fix->labels[r] = -1;
        }
        fix->weights[r] = (float)muster_rng_normal(&rng);
    }
    fix->offsets[ROWS] = entries;
}

static muster_rows dense_rows(const fixture *fix)
{
    return (muster_rows){.count = ROWS,
                         .features = FEATURES,
                         .dense = fix->dense,
                         .stride = STRIDE,
                         .labels = fix->labels};
}

static muster_rows sparse_rows(const fixture *fix)
{
    return (muster_rows){.count = ROWS,
                         .features = FEATURES,
                         .offsets = fix->offsets,
                         .columns = fix->columns,
                         .values = fix->values,
                         .labels = fix->labels};
}

/* --- the slow twin -------------------------------------------------------- */

/* Scores of one row by the tensors alone: weight, bias, weight, bias, .. */
static void twin_scores(const muster_model *model, const double *theta,
                        const float *row, double *scores)
{
    double x[WIDE];
    for (uint32_t f = 0; f < FEATURES; f++) {
        x[f] = (double)row[f];
    }
    for (uint32_t t = 0; t < model->tensor_count; t += 2) {
        const muster_model_tensor *w = &model->tensors[t];
        const double *bias = theta + model->tensors[t + 1].offset;
        for (size_t o = 0; o < w->shape[1]; o++) {
            scores[o] = bias[o];
            for (size_t i = 0; i < w->shape[0]; i++) {
                scores[o] += x[i] * theta[w->offset + i * w->shape[1] + o];
            }
        }
        for (size_t o = 0; o < w->shape[1]; o++) {
            x[o] = scores[o] > 0 ? scores[o] : 0;
        }
    }
}

static double twin_row_loss(const muster_model *model, const double *z,
                            double label)
{
    if (model->kind == MUSTER_MODEL_REGRESSION) {
        return (z[0] - label) * (z[0] - label) / 2;
    }
    if (model->kind == MUSTER_MODEL_BINARY) {
        return log(1 + exp(-label * z[0]));
    }
    double sum = 0;
    for (uint32_t c = 0; c < model->outputs; c++) {
        sum += exp(z[c]);
    }
    return log(sum) - z[label > 0 ? (int)label : 0];
}

static double twin_loss(const muster_model *model, const double *theta,
                        const fixture *fix)
{
    double loss = 0;
    for (uint32_t r = 0; r < ROWS; r++) {
        double z[WIDE];
        twin_scores(model, theta, fix->dense + (size_t)r * STRIDE, z);
        loss += (double)fix->weights[r] *
                twin_row_loss(model, z, (double)fix->labels[r]);
    }
    return loss;
}

/* --- gradients ------------------------------------------------------------ */

static void check_gradient(const muster_model *model, const fixture *fix,
                           const muster_rows *rows)
{
    float *theta = muster_mem_array(model->dim, sizeof(float));
    double *exact = muster_mem_array(model->dim, sizeof(double));
    float *gradient = muster_mem_array(model->dim, sizeof(float));
    void *scratch = muster_mem_raw_aligned(
        model->ops->scratch_bytes(model->self, ROWS) + 1, 1);
    muster_rng rng = muster_rng_make(5, model->dim);
    for (size_t i = 0; i < model->dim; i++) {
        theta[i] = (float)muster_rng_normal(&rng);
        exact[i] = (double)theta[i];
        gradient[i] = 1; // gradient() adds
    }
    double loss = 100;
    assert_int_equal(model->ops->gradient(model->self, theta, rows,
                                          fix->weights, scratch, gradient,
                                          &loss),
                     MUSTER_OK);
    double expected = twin_loss(model, exact, fix);
    assert_true(fabs(loss - 100 - expected) < 1e-4 * (1 + fabs(expected)));
    double worst = 0;
    double norm = 0;
    for (size_t i = 0; i < model->dim; i++) {
        const double h = 1e-5;
        double keep = exact[i];
        exact[i] = keep + h;
        double up = twin_loss(model, exact, fix);
        exact[i] = keep - h;
        double down = twin_loss(model, exact, fix);
        exact[i] = keep;
        double slope = (up - down) / (2 * h);
        worst = fmax(worst, fabs((double)gradient[i] - 1 - slope));
        norm = fmax(norm, fabs(slope));
    }
    assert_true(norm > 0.01);
    assert_true(worst < 2e-6 * (1 + norm));
    muster_mem_free(scratch);
    muster_mem_free(gradient);
    muster_mem_free(exact);
    muster_mem_free(theta);
}

static void gradients_match_finite_differences(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        uint32_t classes;
    } cases[] = {
        {"linear", 0},         {"logistic", 2},     {"softmax", 2},
        {"softmax", 4},        {"mlp:hidden=9", 3}, {"mlp:hidden=6,1,8", 2},
        {"mlp:hidden=7,5", 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fixture fix;
        muster_model model;
        muster_error error;
        make_rows(&fix, cases[i].classes);
        assert_int_equal(muster_model_create(cases[i].spec, FEATURES,
                                             cases[i].classes, &error, &model),
                         MUSTER_OK);
        muster_rows dense = dense_rows(&fix);
        muster_rows sparse = sparse_rows(&fix);
        check_gradient(&model, &fix, &dense);
        check_gradient(&model, &fix, &sparse);
        muster_model_free(&model);
    }
}

static void scores_and_losses_match_the_twin(void **state)
{
    (void)state;
    fixture fix;
    muster_model model;
    make_rows(&fix, 3);
    assert_int_equal(
        muster_model_create("mlp:hidden=8", FEATURES, 3, NULL, &model),
        MUSTER_OK);
    float *theta = muster_mem_array(model.dim, sizeof(float));
    double *exact = muster_mem_array(model.dim, sizeof(double));
    model.ops->init(model.self, 3, theta);
    for (size_t i = 0; i < model.dim; i++) {
        exact[i] = (double)theta[i];
    }
    void *scratch =
        muster_mem_raw_aligned(muster_model_evaluate_bytes(&model, ROWS), 1);
    float scores[ROWS * 3];
    muster_model_tally tally = {0};
    muster_rows rows = sparse_rows(&fix);
    assert_int_equal(
        muster_model_evaluate(&model, theta, &rows, scratch, scores, &tally),
        MUSTER_OK);
    double loss = 0;
    uint64_t right = 0;
    for (uint32_t r = 0; r < ROWS; r++) {
        double z[WIDE];
        twin_scores(&model, exact, fix.dense + (size_t)r * STRIDE, z);
        loss += twin_row_loss(&model, z, (double)fix.labels[r]);
        int best = z[1] > z[0] ? 1 : 0;
        best = z[2] > z[best] ? 2 : best;
        right += best == (int)fix.labels[r];
        for (uint32_t c = 0; c < 3; c++) {
            assert_true(fabs((double)scores[r * 3 + c] - z[c]) < 1e-5);
        }
    }
    assert_true(fabs(tally.loss - loss) < 1e-5);
    assert_int_equal(tally.right, right);
    assert_int_equal(tally.rows, ROWS);
    muster_mem_free(scratch);
    muster_mem_free(exact);
    muster_mem_free(theta);
    muster_model_free(&model);
}

static void huge_scores_do_not_overflow(void **state)
{
    (void)state;
    const float labels[] = {1, -1, 1, -1};
    float scores[] = {500, 500, -500, -500};
    const muster_loss_rows rows = {
        {.kind = MUSTER_MODEL_BINARY}, 4, 1, labels, NULL};
    double loss = 0;
    assert_int_equal(muster_loss_slopes(&rows, scores, &loss), MUSTER_OK);
    assert_true(fabs(loss - 1000) < 1e-3);
    const float slopes[] = {0, 1, -1, 0};
    for (int i = 0; i < 4; i++) {
        assert_true(fabsf(scores[i] - slopes[i]) < 1e-6f);
    }
    const float classes[] = {0, 1};
    float wide[] = {1e4f, -1e4f, 3e4f, 0};
    const muster_loss_rows two = {
        {.kind = MUSTER_MODEL_CLASSES}, 2, 2, classes, NULL};
    loss = 0;
    assert_int_equal(muster_loss_slopes(&two, wide, &loss), MUSTER_OK);
    assert_true(fabs(loss - 3e4) < 1);
    assert_true(wide[0] == 0 && wide[2] == 1 && wide[3] == -1);
}

static void labels_outside_the_classes_are_refused(void **state)
{
    (void)state;
    const float bad[] = {3, -1, 0.5f, NAN, INFINITY};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        float scores[] = {1, 2, 3};
        double loss = 7;
        const muster_loss_rows rows = {
            {.kind = MUSTER_MODEL_CLASSES}, 1, 3, &bad[i], NULL};
        assert_int_equal(muster_loss_slopes(&rows, scores, &loss),
                         MUSTER_ERR_INPUT);
        assert_true(loss == 7 && scores[0] == 1);
    }
}

static void a_start_depends_on_the_seed_alone(void **state)
{
    (void)state;
    muster_model model;
    assert_int_equal(muster_model_create("mlp:hidden=64", 30, 5, NULL, &model),
                     MUSTER_OK);
    float *a = muster_mem_array(model.dim, sizeof(float));
    float *b = muster_mem_array(model.dim, sizeof(float));
    model.ops->init(model.self, 9, a);
    model.ops->init(model.self, 9, b);
    assert_memory_equal(a, b, model.dim * sizeof(float));
    model.ops->init(model.self, 10, b);
    assert_memory_not_equal(a, b, model.dim * sizeof(float));
    double squares = 0;
    for (size_t i = 0; i < (size_t)30 * 64; i++) {
        squares += (double)a[i] * (double)a[i];
    }
    double variance = squares / (30 * 64); // He: 2 / fan in
    assert_true(fabs(variance - 2.0 / 30) < 0.1 * 2.0 / 30);
    muster_mem_free(b);
    muster_mem_free(a);
    muster_model_free(&model);
}

static void the_l2_term_leaves_biases_out(void **state)
{
    (void)state;
    muster_model model;
    assert_int_equal(muster_model_create("mlp:hidden=4", 3, 2, NULL, &model),
                     MUSTER_OK);
    float theta[26];
    float gradient[26] = {0};
    assert_int_equal(model.dim, 26);
    for (int i = 0; i < 26; i++) {
        theta[i] = (float)(i + 1);
    }
    double squares = muster_model_add_l2(&model, 0.5, theta, gradient, 0, 10);
    squares += muster_model_add_l2(&model, 0.5, theta, gradient, 10, 26);
    double expected = 0;
    for (int i = 0; i < 26; i++) {
        int bias = (i >= 12 && i < 16) || i >= 24;
        assert_true(gradient[i] == (bias ? 0 : 0.5f * theta[i]));
        expected += bias ? 0 : (double)theta[i] * (double)theta[i];
    }
    assert_true(squares == expected);
    muster_model_free(&model);
}

static void decay_leaves_biases_out(void **state)
{
    (void)state;
    muster_model model;
    muster_optim optim;
    float theta[26];
    const float gradient[26] = {0};
    float moments[2 * 26] = {0};
    assert_int_equal(muster_model_create("mlp:hidden=4", 3, 2, NULL, &model),
                     MUSTER_OK);
    assert_int_equal(muster_optim_parse("adamw:decay=0.5", NULL, &optim),
                     MUSTER_OK);
    for (int i = 0; i < 26; i++) {
        theta[i] = 1;
    }
    const muster_optim_step step = {&optim, 0, 0.5};
    const muster_optim_arrays arrays = {26, theta, gradient, moments, theta};
    muster_model_optimise(&model, &step, &arrays, 0, 10);
    muster_model_optimise(&model, &step, &arrays, 10, 26);
    for (int i = 0; i < 26; i++) {
        int bias = (i >= 12 && i < 16) || i >= 24;
        assert_true(theta[i] == (bias ? 1 : 0.75f));
    }
    muster_model_free(&model);
}

/* --- by name and from files ----------------------------------------------- */

static void refused(const char *spec, uint32_t classes, muster_status status,
                    const char *text)
{
    muster_error error = {MUSTER_OK, ""};
    muster_model model;
    assert_int_equal(muster_model_create(spec, 4, classes, &error, &model),
                     status);
    if (strstr(error.text, text) == NULL) {
        fail_msg("'%s' does not say '%s'", error.text, text);
    }
}

static void wrong_specs_are_refused_with_what_would_be_right(void **state)
{
    (void)state;
    refused("perceptron", 2, MUSTER_ERR_INVALID, "softmax");
    refused("", 2, MUSTER_ERR_INVALID, "unknown");
    refused("logistic", 10, MUSTER_ERR_INVALID, "the data has 10");
    refused("softmax", 0, MUSTER_ERR_INVALID, "use linear");
    refused("softmax:hidden=3", 3, MUSTER_ERR_INVALID, "parameter hidden");
    refused("mlp:depth=3", 3, MUSTER_ERR_INVALID, "there are hidden");
    refused("mlp:hiden=3", 3, MUSTER_ERR_INVALID, "did you mean hidden?");
    refused("sofmax", 3, MUSTER_ERR_INVALID, "did you mean softmax?");
    refused("complx:dim=4", 3, MUSTER_ERR_INVALID,
            "unknown; there are linear, logistic, softmax, mlp, cnn, PATH.so");
    refused("mf:rank=4", 3, MUSTER_ERR_INVALID,
            "--model mf: a sparse task, which only train takes; use linear");
    muster_error error = {MUSTER_OK, ""};
    assert_int_equal(muster_model_check_name("complx:dim=4", &error),
                     MUSTER_ERR_INVALID);
    assert_non_null(strstr(error.text, "did you mean complex?"));
    refused("mlp:hidden=0", 3, MUSTER_ERR_INVALID, "hidden=0");
    refused("cnn:image=2x2,channels=1,hidden=0,norm=layer", 3,
            MUSTER_ERR_INVALID, "norm is for hidden layers");
    refused("cnn:image=2x2,channels=1,hidden=0,dropout=0.5", 3,
            MUSTER_ERR_INVALID, "dropout is for hidden layers");
    refused("softmax:class-weights=0,0,0", 3, MUSTER_ERR_INVALID,
            "one of them above 0");
    refused("mlp:hidden=", 3, MUSTER_ERR_INVALID, "hidden=");
    refused("mlp:hidden=8,", 3, MUSTER_ERR_INVALID, "hidden=8,");
    refused("mlp:hidden=8,x", 3, MUSTER_ERR_INVALID, "hidden=8,x");
    refused("mlp:hidden=-8", 3, MUSTER_ERR_INVALID, "hidden=-8");
    refused("mlp:hidden", 3, MUSTER_ERR_INVALID, "write hidden=");
    refused("mlp:hidden=1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", 3,
            MUSTER_ERR_INVALID, "1 to 16 widths");
    refused("./no_such_model.so", 2, MUSTER_ERR_INPUT, "no_such_model.so");
    refused("no_such_model.so:a=1", 2, MUSTER_ERR_INPUT, "no_such_model.so");
}

static const char *plugin_path(char *path, size_t size, const char *options)
{
    const char *build = getenv("MUSTER_BUILD");
    (void)snprintf(path, size, "%s/huber_model.so%s",
                   build != NULL ? build : "build/dev", options);
    return path;
}

/* A file that is no shared object, and one without the function. */
static void shared_objects_that_are_no_models_are_refused(void **state)
{
    (void)state;
    refused("/dev/null/x.so", 2, MUSTER_ERR_INPUT, "/dev/null/x.so");
    refused("libm.so.6.so", 2, MUSTER_ERR_INPUT, "libm.so.6.so");
    const char *build = getenv("MUSTER_BUILD");
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/libmuster.so",
                   build != NULL ? build : "build/dev");
    refused(path, 2, MUSTER_ERR_INPUT, "does not export muster_model_plugin");
}

static void the_example_plugin_is_loaded_and_right(void **state)
{
    (void)state;
    char path[512];
    muster_error error = {MUSTER_OK, ""};
    muster_model model;
    muster_status status =
        muster_model_create(plugin_path(path, sizeof(path), ":delta=0.5"),
                            FEATURES, 0, &error, &model);
    if (status != MUSTER_OK) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(model.dim, FEATURES + 1);
    assert_int_equal(model.kind, MUSTER_MODEL_REGRESSION);
    fixture fix;
    make_rows(&fix, 0);
    muster_rows rows = dense_rows(&fix);
    void *scratch =
        muster_mem_raw_aligned(muster_model_evaluate_bytes(&model, ROWS), 1);
    float theta[FEATURES + 1] = {0};
    float scores[ROWS];
    muster_model_tally tally = {0};
    assert_int_equal(
        muster_model_evaluate(&model, theta, &rows, scratch, scores, &tally),
        MUSTER_OK);
    double expected = 0; // theta = 0: the error of a row is its label
    for (uint32_t r = 0; r < ROWS; r++) {
        double size = fabs((double)fix.labels[r]);
        expected += size <= 0.5 ? size * size / 2 : 0.5 * (size - 0.25);
    }
    assert_true(fabs(tally.loss - expected) < 1e-5);
    muster_mem_free(scratch);
    muster_model_free(&model);
    refused(plugin_path(path, sizeof(path), ":delta=-1"), 0, MUSTER_ERR_INVALID,
            "delta=X");
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    const char *const specs[] = {"softmax", "mlp:hidden=3", "./missing.so",
                                 "missing.so"};
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        for (uint64_t count = 0; count < 8; count++) {
            muster_model model;
            muster_error error;
            muster_mem_fail_after(count);
            muster_status status =
                muster_model_create(specs[i], 4, 3, &error, &model);
            muster_mem_fail_after(UINT64_MAX);
            if (status == MUSTER_OK) {
                assert_true(count > 0);
                muster_model_free(&model);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_match_finite_differences),
        cmocka_unit_test(scores_and_losses_match_the_twin),
        cmocka_unit_test(huge_scores_do_not_overflow),
        cmocka_unit_test(labels_outside_the_classes_are_refused),
        cmocka_unit_test(a_start_depends_on_the_seed_alone),
        cmocka_unit_test(the_l2_term_leaves_biases_out),
        cmocka_unit_test(decay_leaves_biases_out),
        cmocka_unit_test(wrong_specs_are_refused_with_what_would_be_right),
        cmocka_unit_test(shared_objects_that_are_no_models_are_refused),
        cmocka_unit_test(the_example_plugin_is_loaded_and_right),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
