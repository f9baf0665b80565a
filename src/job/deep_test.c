/*
 * Runs of deep models: convolutions, dropout, layer norm, clipped gradients.
 * Every code ends with the same theta, whoever is missing; pieces can be cut
 * off; a clipped step has the norm that it should; local steps take all of it.
 */
#include "job/job_test.h"

#define COUNT(of) (sizeof(of) / sizeof((of)[0]))
#define STEPS     6u

/* Theta after some steps without worker `missing`. */
static muster_blob *train(const char *model, const char *code, uint32_t missing)
{
    const bed_option options[] = {
        {"data", "synthetic:samples=240,features=72,classes=3,seed=5"},
        {"model", model},
        {"batch", "90"},
        {"clip", "0.7"},
        {"lr", "0.05"},
        {"steps", "6"},
    };
    testbed bed;
    bed_open(&bed, code, 6, options, COUNT(options));
    for (uint32_t i = 0; i < STEPS; i++) {
        bed_step(&bed, missing);
        assert_true(bed.last.grad_err < 1e-4);
    }
    muster_blob *theta = muster_executor_model_blob(bed.coordinator);
    bed_close(&bed);
    return theta;
}

static void check_codes(const char *model)
{
    static const char *const codes[] = {"frc:s=1", "linear:tuned:s=2,m=1",
                                        "linear:tuned:s=1,m=2"};
    muster_blob *expected = train(model, "uncoded", UINT32_MAX);
    for (uint32_t c = 0; c < COUNT(codes); c++) {
        muster_blob *found = train(model, codes[c], c);
        double apart = bed_distance(expected, found);
        if (!(apart < 2e-5)) {
            fail_msg("%s: apart by %g", codes[c], apart);
        }
        muster_blob_unref(found);
    }
    muster_blob_unref(expected);
}

static void every_code_ends_with_the_same_theta(void **state)
{
    (void)state;
    check_codes("cnn:channels=4,6,image=6x6x2,hidden=8,dropout=0.3");
    check_codes("mlp:hidden=20,10,norm=layer,dropout=0.5,smoothing=0.1");
}

static void a_convolution_can_be_cut_off_and_done_again(void **state)
{
    (void)state;
    const bed_option options[] = {
        {"data", "synthetic:samples=500,features=784,classes=3,seed=5"},
        {"model", "cnn:channels=16,24,image=28x28,hidden=30"},
        {"batch", "0"},
        {"steps", "3"},
    };
    testbed bed;
    bed_open(&bed, "linear:spc", 3, options, COUNT(options));
    bed_check_cutting_off(&bed, 7);
    bed_close(&bed);
}

static void a_clipped_step_is_as_long_as_the_norm_allows(void **state)
{
    (void)state;
    static const char *const norms[] = {"0.01", "1000"};
    double moved[2];
    for (size_t i = 0; i < COUNT(norms); i++) {
        const bed_option options[] = {
            {"data", "synthetic:samples=240,features=9,classes=3,seed=5"},
            {"model", "softmax"},
            {"optimizer", "sgd"},
            {"lr", "1"},
            {"clip", norms[i]},
            {"steps", "2"},
        };
        testbed bed;
        bed_open(&bed, "frc:s=1", 4, options, COUNT(options));
        bed_step(&bed, 1); // from 0: theta is the step
        moved[i] = bed.last.theta_norm;
        bed_close(&bed);
    }
    assert_true(fabs(moved[0] - 0.01) < 1e-6);
    assert_true(moved[1] > 0.05);
}

static void local_steps_clip_and_drop_out_too(void **state)
{
    (void)state;
    const bed_option options[] = {
        {"data", "synthetic:samples=240,features=9,classes=3,seed=5"},
        {"model", "mlp:hidden=12,dropout=0.2"},
        {"optimizer", "sgd"},
        {"algorithm", "local:4"},
        {"lr", "1"},
        {"clip", "0.001"},
        {"steps", "2"},
    };
    testbed bed;
    bed_open(&bed, "uncoded", 3, options, COUNT(options));
    muster_blob *before = muster_executor_model_blob(bed.coordinator);
    double norm = bed_evaluate(&bed).theta_norm;
    bed_step(&bed, UINT32_MAX);
    muster_blob *after = muster_executor_model_blob(bed.coordinator);
    double moved = bed_distance(before, after) * norm;
    assert_true(moved > 0.001 && moved < 0.0041);
    muster_blob_unref(before);
    muster_blob_unref(after);
    bed_close(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_ends_with_the_same_theta),
        cmocka_unit_test(a_convolution_can_be_cut_off_and_done_again),
        cmocka_unit_test(a_clipped_step_is_as_long_as_the_norm_allows),
        cmocka_unit_test(local_steps_clip_and_drop_out_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
