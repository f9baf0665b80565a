/*
 * threads_test.c -- steps with several threads: the same bits for the same
 * number, the same model but for rounding for any, and cutting off.
 */
#include "job/job_test.h"

#include <math.h>

#define STEPS     3u
#define COUNT(of) (sizeof(of) / sizeof((of)[0]))

static void open_with(testbed *bed, const char *code, uint32_t threads,
                      const bed_option *options, size_t count)
{
    *bed = (testbed){.config = bed_config(options, count), .threads = threads};
    bed_start(bed, code, 3);
}

/* Theta after some steps without worker 2; the objective beside it. */
static muster_blob *train(const char *model, const char *code, uint32_t threads,
                          double *loss_out)
{
    const bed_option options[] = {
        {"data", "synthetic:samples=700,features=450,classes=3,seed=5"},
        {"model", model},
        {"optimizer", "adam"},
        {"l2", "1e-3"},
        {"batch", "600"},
        {"steps", "3"},
    };
    testbed bed;
    open_with(&bed, code, threads, options, COUNT(options));
    bool bears_loss = strcmp(code, "uncoded") != 0;
    for (uint32_t i = 0; i < STEPS; i++) {
        bed_step(&bed, bears_loss ? 2 : UINT32_MAX);
        assert_true(bed.last.grad_err < 1e-4);
    }
    *loss_out = bed_evaluate(&bed).loss;
    muster_blob *theta = muster_executor_model_blob(bed.coordinator);
    bed_close(&bed);
    return theta;
}

static void check_threads(const char *model, const char *code)
{
    double loss = 0;
    muster_blob *one = train(model, code, 1, &loss);
    for (uint32_t threads = 2; threads <= 4; threads *= 2) {
        double shared_loss = 0;
        double again_loss = 0;
        muster_blob *shared = train(model, code, threads, &shared_loss);
        muster_blob *again = train(model, code, threads, &again_loss);
        assert_int_equal(shared->bytes, one->bytes);
        assert_memory_equal(shared->data, again->data, shared->bytes);
        assert_true(shared_loss == again_loss);
        assert_true(fabs(shared_loss - loss) < 1e-4 * loss);
        // Adam's first steps are signs: a gradient near 0 may take either.
        assert_true(bed_distance(one, shared) < 2e-3);
        muster_blob_unref(shared);
        muster_blob_unref(again);
    }
    muster_blob_unref(one);
}

static void equal_threads_give_equal_bits_and_others_round(void **state)
{
    static const char *const codes[] = {"uncoded", "linear:spc"};
    (void)state;
    for (size_t i = 0; i < COUNT(codes); i++) {
        check_threads("mlp:hidden=300,200", codes[i]);
    }
    check_threads("softmax", "linear:spc");
    check_threads("cnn:channels=4,6,image=15x15x2,hidden=40,dropout=0.3",
                  "linear:spc");
}

/* One output has loops of its own, which no number of threads changes. */
static void loops_of_our_own_have_the_same_bits_for_any_threads(void **state)
{
    const bed_option options[] = {
        {"data", "synthetic:samples=900,features=400,classes=2,seed=3"},
        {"model", "logistic"},
        {"batch", "0"},
        {"steps", "3"},
    };
    muster_blob *thetas[3];
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        testbed bed;
        open_with(&bed, "linear:spc", 1u << i, options, COUNT(options));
        for (uint32_t step = 0; step < STEPS; step++) {
            bed_step(&bed, 1);
        }
        thetas[i] = muster_executor_model_blob(bed.coordinator);
        bed_close(&bed);
        assert_memory_equal(thetas[i]->data, thetas[0]->data, thetas[0]->bytes);
    }
    for (uint32_t i = 0; i < 3; i++) {
        muster_blob_unref(thetas[i]);
    }
}

/* A gradient of several pieces, cut off after each of them, then done. */
static void shared_pieces_can_be_cut_off_and_done_again(void **state)
{
    const bed_option options[] = {
        {"data", "synthetic:samples=900,features=1100,classes=3,seed=5"},
        {"model", "mlp:hidden=1030"},
        {"batch", "0"},
        {"steps", "3"},
    };
    testbed bed;
    (void)state;
    open_with(&bed, "linear:spc", 2, options, COUNT(options));
    bed_check_cutting_off(&bed, 2);
    bed_close(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_threads_give_equal_bits_and_others_round),
        cmocka_unit_test(loops_of_our_own_have_the_same_bits_for_any_threads),
        cmocka_unit_test(shared_pieces_can_be_cut_off_and_done_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
