/*
 * Optimisers and schedules against their formulas in double, over some steps;
 * a step done in ranges has the same bits as one done at once.
 */
#include "model/optim.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "model/schedule.h"

#define DIM   9u
#define STEPS 12u

/* One coordinate over all steps, in double. */
static double twin(const muster_optim *optim, double theta, uint64_t seed,
                   size_t i, double lr)
{
    double m = 0;
    double v = 0;
    for (uint64_t t = 0; t < STEPS; t++) {
        muster_rng rng = muster_rng_make(seed, t * DIM + i);
        double g = (double)(float)muster_rng_normal(&rng);
        switch (optim->kind) {
        case MUSTER_OPTIM_SGD:
            theta -= lr * g;
            break;
        case MUSTER_OPTIM_MOMENTUM:
            m = optim->beta1 * m + g;
            theta -= lr * m;
            break;
        case MUSTER_OPTIM_NESTEROV:
            m = optim->beta1 * m + g;
            theta -= lr * (g + optim->beta1 * m);
            break;
        case MUSTER_OPTIM_ADAM: {
            m = optim->beta1 * m + (1 - optim->beta1) * g;
            v = optim->beta2 * v + (1 - optim->beta2) * g * g;
            double mean = m / (1 - pow(optim->beta1, (double)t + 1));
            double square = v / (1 - pow(optim->beta2, (double)t + 1));
            theta -= lr * (mean / (sqrt(square) + optim->epsilon) +
                           optim->decay * theta);
            break;
        }
        }
    }
    return theta;
}

static void check(const char *spec)
{
    muster_optim optim;
    assert_int_equal(muster_optim_parse(spec, NULL, &optim), MUSTER_OK);
    float whole[DIM];
    float ranged[DIM];
    float whole_state[2 * DIM] = {0};
    float ranged_state[2 * DIM] = {0};
    for (size_t i = 0; i < DIM; i++) {
        whole[i] = ranged[i] = (float)i;
    }
    for (uint64_t t = 0; t < STEPS; t++) {
        float g[DIM];
        for (size_t i = 0; i < DIM; i++) {
            muster_rng rng = muster_rng_make(4, t * DIM + i);
            g[i] = (float)muster_rng_normal(&rng);
        }
        muster_optim_arrays a = {DIM, whole, g, whole_state, whole};
        muster_optim_arrays b = {DIM, ranged, g, ranged_state, ranged};
        const muster_optim_step step = {&optim, t, 0.05};
        muster_optim_apply(&step, &a, 0, DIM);
        muster_optim_apply(&step, &b, 0, 4);
        muster_optim_apply(&step, &b, 4, DIM);
    }
    for (size_t i = 0; i < DIM; i++) {
        double expected = twin(&optim, (double)i, 4, i, 0.05);
        assert_true(fabs((double)whole[i] - expected) < 1e-5);
        assert_true(whole[i] == ranged[i]);
    }
    assert_memory_equal(whole_state, ranged_state, sizeof(whole_state));
}

static void optimisers_follow_their_formulas(void **state)
{
    (void)state;
    check("sgd");
    check("momentum");
    check("momentum:beta=0.5");
    check("nesterov:beta=0.8");
    check("adam");
    check("adam:b1=0.8,b2=0.99,eps=1e-3");
    check("adamw");
    check("adamw:b1=0.8,decay=0.3");
}

static void gradients_are_clipped_to_a_norm(void **state)
{
    (void)state;
    assert_true(muster_optim_clip(0, 1e9) == 1);
    assert_true(muster_optim_clip(2, 1.5) == 1);
    assert_true(muster_optim_clip(2, 8) == 0.25);
}

static void bad_optimisers_and_schedules_are_refused(void **state)
{
    (void)state;
    const char *const optims[] = {
        "lbfgs",        "sgd:beta=1",   "momentum:beta=1", "momentum:beta=x",
        "adam:b3=0.1",  "adam:eps=0",   "momentum:",       "",
        "adam:decay=1", "adamw:decay=2"};
    for (size_t i = 0; i < sizeof(optims) / sizeof(optims[0]); i++) {
        muster_optim optim;
        muster_error error = {MUSTER_OK, ""};
        muster_status status = muster_optim_parse(optims[i], &error, &optim);
        if (strcmp(optims[i], "momentum:") == 0) {
            assert_int_equal(status, MUSTER_OK);
            continue;
        }
        assert_int_equal(status, MUSTER_ERR_INVALID);
        assert_non_null(strstr(error.text, "--optimizer"));
    }
    const char *const schedules[] = {"linear",         "step",
                                     "step:every=0",   "step:every=1.5",
                                     "cosine:every=3", "cosine:floor=2"};
    for (size_t i = 0; i < sizeof(schedules) / sizeof(schedules[0]); i++) {
        muster_schedule schedule;
        muster_error error = {MUSTER_OK, ""};
        assert_int_equal(
            muster_schedule_parse(schedules[i], 10, &error, &schedule),
            MUSTER_ERR_INVALID);
        assert_non_null(strstr(error.text, "--schedule"));
    }
}

static double factor(const char *spec, uint64_t steps, uint64_t step)
{
    muster_schedule schedule;
    assert_int_equal(muster_schedule_parse(spec, steps, NULL, &schedule),
                     MUSTER_OK);
    return muster_schedule_factor(&schedule, step);
}

static void near(double value, double expected)
{
    assert_true(fabs(value - expected) < 1e-12);
}

static void schedules_follow_their_formulas(void **state)
{
    (void)state;
    near(factor("constant", 100, 99), 1);
    near(factor("constant:warmup=4", 100, 1), 0.5);
    near(factor("step:every=10", 100, 9), 1);
    near(factor("step:every=10", 100, 10), 0.1);
    near(factor("step:every=10,gamma=0.5", 100, 35), 0.125);
    near(factor("cosine", 100, 0), 1);
    near(factor("cosine", 100, 50), 0.5);
    near(factor("cosine", 100, 100), 0);
    near(factor("cosine", 100, 1000), 0);
    near(factor("cosine:floor=0.2", 100, 50), 0.6);
    near(factor("cosine:warmup=10", 110, 4), 0.5);
    near(factor("cosine:warmup=10", 110, 10), 1);
    near(factor("cosine:warmup=10", 110, 60), 0.5);
    near(factor("cosine:warmup=10", 5, 4), 0.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimisers_follow_their_formulas),
        cmocka_unit_test(gradients_are_clipped_to_a_norm),
        cmocka_unit_test(bad_optimisers_and_schedules_are_refused),
        cmocka_unit_test(schedules_follow_their_formulas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
