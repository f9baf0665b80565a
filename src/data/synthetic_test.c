/*
 * synthetic_test.c -- the generator: reproducible, standardised, learnable but
 * not by a linear model alone; regression recovers its line.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "data/readers.h"

static muster_table make(const char *spec, bool held_out)
{
    muster_table table = {0};
    muster_error error = {.text = ""};
    if (muster_synthetic_make(spec, held_out, &error, &table) != MUSTER_OK) {
        fail_msg("%s: %s", spec, error.text);
    }
    return table;
}

static void the_same_spec_gives_the_same_samples(void **state)
{
    (void)state;
    muster_table a = make("synthetic:samples=500,features=9,seed=4", false);
    muster_table b = make("synthetic:samples=900,features=9,seed=4", false);
    muster_table c = make("synthetic:samples=500,features=9,seed=5", false);
    muster_table held = make("synthetic:samples=500,features=9,seed=4", true);
    assert_int_equal(a.samples, 500);
    assert_int_equal(a.features, 9);
    assert_int_equal(held.samples, 100);
    assert_memory_equal(a.dense, b.dense, sizeof(float) * 500 * 9);
    assert_memory_equal(a.labels, b.labels, 500 * sizeof(float));
    assert_memory_not_equal(a.dense, c.dense, sizeof(float) * 500 * 9);
    assert_memory_not_equal(a.dense, held.dense, sizeof(float) * 100 * 9);
    muster_table_fini(&a);
    muster_table_fini(&b);
    muster_table_fini(&c);
    muster_table_fini(&held);
}

static void features_are_standardised(void **state)
{
    (void)state;
    muster_table t =
        make("synthetic:samples=20000,features=6,classes=3,noise=0.7", false);
    for (uint32_t j = 0; j < 6; j++) {
        double sum = 0;
        double squares = 0;
        for (uint64_t i = 0; i < t.samples; i++) {
            double x = t.dense[i * 6 + j];
            sum += x;
            squares += x * x;
        }
        // Five standard errors at 20,000 samples.
        assert_true(fabs(sum / 20000) < 0.036);
        assert_true(fabs(squares / 20000 - 1) < 0.08);
    }
    muster_table_fini(&t);
}

enum { FEATURES_MAX = 100, CLASSES_MAX = 10 };

typedef struct linear_model {
    uint32_t features;
    uint32_t classes;
    double w[CLASSES_MAX][FEATURES_MAX + 1]; // bias last
} linear_model;

// Class scores turned into probabilities; returns the likeliest class.
static uint32_t predict(const linear_model *m, const float *x, double *p)
{
    uint32_t best = 0;
    for (uint32_t c = 0; c < m->classes; c++) {
        p[c] = m->w[c][m->features];
        for (uint32_t j = 0; j < m->features; j++) {
            p[c] += m->w[c][j] * (double)x[j];
        }
        best = p[c] > p[best] ? c : best;
    }
    double top = p[best];
    double sum = 0;
    for (uint32_t c = 0; c < m->classes; c++) {
        p[c] = exp(p[c] - top);
        sum += p[c];
    }
    for (uint32_t c = 0; c < m->classes; c++) {
        p[c] /= sum;
    }
    return best;
}

static void step(linear_model *m, const float *x, uint32_t label, double lr)
{
    double p[CLASSES_MAX] = {0};
    predict(m, x, p);
    p[label] -= 1;
    for (uint32_t c = 0; c < m->classes; c++) {
        for (uint32_t j = 0; j < m->features; j++) {
            m->w[c][j] -= lr * p[c] * (double)x[j];
        }
        m->w[c][m->features] -= lr * p[c];
    }
}

// Plain stochastic gradient descent of softmax regression.
static void train(linear_model *m, const muster_table *t, int epochs)
{
    for (int epoch = 0; epoch < epochs; epoch++) {
        for (uint64_t i = 0; i < t->samples; i++) {
            step(m, t->dense + i * t->features, (uint32_t)t->labels[i],
                 0.05 / (1 + epoch));
        }
    }
}

static double accuracy_of(const muster_table *t, const muster_table *held)
{
    linear_model m = {.features = t->features, .classes = 0};
    for (uint64_t i = 0; i < t->samples; i++) {
        uint32_t c = (uint32_t)t->labels[i];
        m.classes = c >= m.classes ? c + 1 : m.classes;
    }
    train(&m, t, 6);
    uint64_t right = 0;
    for (uint64_t i = 0; i < held->samples; i++) {
        double p[CLASSES_MAX] = {0};
        right += predict(&m, held->dense + i * held->features, p) ==
                 (uint32_t)held->labels[i];
    }
    return (double)right / (double)held->samples;
}

static double linear_accuracy(const char *spec)
{
    muster_table t = make(spec, false);
    muster_table held = make(spec, true);
    double accuracy = accuracy_of(&t, &held);
    muster_table_fini(&t);
    muster_table_fini(&held);
    return accuracy;
}

static void a_linear_model_does_well_but_not_perfectly(void **state)
{
    (void)state;
    static const char *const specs[] = {
        "synthetic:samples=8000,features=20,classes=10",
        "synthetic:samples=8000,features=100,classes=10,seed=3",
        "synthetic:samples=8000,features=10,classes=2",
        "synthetic:samples=8000,features=30,classes=4,seed=9",
    };
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        double accuracy = linear_accuracy(specs[i]);
        print_message("%s: %.3f\n", specs[i], accuracy);
        assert_true(accuracy > 0.83 && accuracy < 0.93);
    }
    assert_true(linear_accuracy("synthetic:samples=8000,features=20,classes=10,"
                                "noise=3") < 0.6);
}

enum { FEATURES = 20, CLASSES = 5, WIDE = FEATURES + CLASSES };

static void class_means(const muster_table *t, double mean[CLASSES][FEATURES])
{
    double count[CLASSES] = {0};
    memset(mean, 0, sizeof(double) * CLASSES * FEATURES);
    for (uint64_t i = 0; i < t->samples; i++) {
        uint32_t c = (uint32_t)t->labels[i];
        count[c]++;
        for (uint32_t j = 0; j < FEATURES; j++) {
            mean[c][j] += (double)t->dense[i * FEATURES + j];
        }
    }
    for (uint32_t c = 0; c < CLASSES; c++) {
        for (uint32_t j = 0; j < FEATURES; j++) {
            mean[c][j] /= count[c];
        }
    }
}

// The samples with one more feature a class: the square of what lies along its
// mean.
static muster_table widen(const muster_table *t, double mean[CLASSES][FEATURES])
{
    muster_table wide = {0};
    assert_int_equal(
        muster_table_make_dense(&wide, t->samples, WIDE, "wide", NULL),
        MUSTER_OK);
    memcpy(wide.labels, t->labels, t->samples * sizeof(float));
    for (uint64_t i = 0; i < t->samples; i++) {
        const float *x = t->dense + i * FEATURES;
        float *out = wide.dense + i * WIDE;
        memcpy(out, x, FEATURES * sizeof(float));
        for (uint32_t c = 0; c < CLASSES; c++) {
            double along = 0;
            double square = 0;
            for (uint32_t j = 0; j < FEATURES; j++) {
                along += mean[c][j] * (double)x[j];
                square += mean[c][j] * mean[c][j];
            }
            out[FEATURES + c] = (float)(along * along / square / 4);
        }
    }
    return wide;
}

// A model that sees both ends of a class's direction does clearly better than
// a linear one: the structure is there to be found.
static void nonlinear_structure_can_be_found(void **state)
{
    (void)state;
    const char *spec = "synthetic:samples=20000,features=20,classes=5";
    muster_table t = make(spec, false);
    muster_table held = make(spec, true);
    double mean[CLASSES][FEATURES];
    class_means(&t, mean);
    muster_table wide = widen(&t, mean);
    muster_table wide_held = widen(&held, mean);
    double linear = accuracy_of(&t, &held);
    double squares = accuracy_of(&wide, &wide_held);
    print_message("linear %.3f, with squares %.3f\n", linear, squares);
    assert_true(squares > linear + 0.03);
    muster_table_fini(&t);
    muster_table_fini(&held);
    muster_table_fini(&wide);
    muster_table_fini(&wide_held);
}

static void regression_is_a_line_with_noise(void **state)
{
    (void)state;
    const char *spec =
        "synthetic:samples=20000,features=4,classes=0,noise=0.25,test=10";
    muster_table t = make(spec, false);
    double w[5] = {0};
    for (int epoch = 0; epoch < 4; epoch++) {
        for (uint64_t i = 0; i < t.samples; i++) {
            const float *x = t.dense + i * 4;
            double miss = w[4] - (double)t.labels[i];
            for (int j = 0; j < 4; j++) {
                miss += w[j] * (double)x[j];
            }
            for (int j = 0; j < 4; j++) {
                w[j] -= 0.002 * miss * (double)x[j];
            }
            w[4] -= 0.002 * miss;
        }
    }
    double squares = 0;
    for (uint64_t i = 0; i < t.samples; i++) {
        double miss = w[4] - (double)t.labels[i];
        for (int j = 0; j < 4; j++) {
            miss += w[j] * (double)t.dense[i * 4 + (uint64_t)j];
        }
        squares += miss * miss;
    }
    double deviation = sqrt(squares / (double)t.samples);
    assert_true(fabs(deviation - 0.25) < 0.01);
    assert_true(fabs(w[4] - 0.5) < 0.02);
    muster_table_fini(&t);
}

static void options_have_limits_and_defaults(void **state)
{
    (void)state;
    muster_table t = make("synthetic", false);
    assert_int_equal(t.samples, 10000);
    assert_int_equal(t.features, 20);
    muster_table_fini(&t);
    t = make("synthetic:test=0", true);
    assert_int_equal(t.samples, 0);
    t = make("synthetic:samples=30,test=7,", true);
    assert_int_equal(t.samples, 7);
    muster_table_fini(&t);
    static const char *const bad[] = {
        "synthetic:sample=5",       "synthetic:samples",
        "synthetic:samples=",       "synthetic:samples=-5",
        "synthetic:samples=5x",     "synthetic:samples=1",
        "synthetic:features=0",     "synthetic:classes=1",
        "synthetic:classes=1001",   "synthetic:noise=-1",
        "synthetic:noise=nan",      "synthetic:noise=x",
        "synthetic:,samples=5",     "synthetic:samples=99999999999",
        "synthetic:test=5000000000"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        muster_error error = {.text = ""};
        assert_int_equal(muster_synthetic_make(bad[i], false, &error, &t),
                         MUSTER_ERR_INVALID);
        assert_int_equal(strncmp(error.text, "--data synthetic: ", 18), 0);
    }
    muster_error error = {.text = ""};
    assert_int_equal(
        muster_synthetic_make("synthetic:samples=4000000000,features=200000000",
                              false, &error, &t),
        MUSTER_ERR_INPUT);
    assert_non_null(strstr(error.text, "do not fit"));
    assert_int_equal(muster_generator_check("synthetc:samples=9", &error),
                     MUSTER_ERR_INVALID);
    assert_non_null(strstr(error.text, "did you mean synthetic?"));
    assert_int_equal(muster_generator_check("zpif:rows=9", &error),
                     MUSTER_ERR_INVALID);
    assert_non_null(strstr(error.text, "did you mean zipf?"));
    assert_int_equal(muster_generator_check("synthetc.csv", NULL), MUSTER_OK);
    assert_int_equal(muster_generator_check("c:/a=b", NULL), MUSTER_OK);
    assert_true(muster_synthetic_is("synthetic"));
    assert_true(muster_synthetic_is("synthetic:seed=3"));
    assert_false(muster_synthetic_is("synthetic.csv"));
    assert_false(muster_synthetic_is("data/synthetic"));
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    muster_status status = MUSTER_ERR_NO_MEMORY;
    uint64_t allowed = 0;
    for (; status != MUSTER_OK; allowed++) {
        assert_in_range(allowed, 0, 20);
        muster_table table = {0};
        muster_mem_fail_after(allowed);
        status =
            muster_synthetic_make("synthetic:samples=10", false, NULL, &table);
        muster_mem_fail_after(UINT64_MAX);
        assert_true(status == MUSTER_OK || table.dense == NULL);
        muster_table_fini(&table);
    }
    assert_int_equal(allowed, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_spec_gives_the_same_samples),
        cmocka_unit_test(features_are_standardised),
        cmocka_unit_test(a_linear_model_does_well_but_not_perfectly),
        cmocka_unit_test(nonlinear_structure_can_be_found),
        cmocka_unit_test(regression_is_a_line_with_noise),
        cmocka_unit_test(options_have_limits_and_defaults),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
