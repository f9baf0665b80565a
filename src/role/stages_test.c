/*
 * stages_test.c -- what a worker computes and sends of a step in stages.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "role/stages.h"

static const muster_stages_plan asked = {3, 1, 1};
static const muster_stages_plan eager = {3, 1, 3};

static muster_stage_result result_of(int64_t busy_ns)
{
    muster_blob *message = muster_blob_create(4);
    assert_non_null(message);
    return (muster_stage_result){message, busy_ns};
}

/* Compute the next stage, which must be `stage`; was it to be sent? */
static bool compute(muster_stages *stages, uint32_t stage)
{
    assert_int_equal(muster_stages_next(stages), stage);
    muster_stages_start(stages, stage);
    assert_int_equal(muster_stages_next(stages), MUSTER_STAGE_NONE);
    muster_stage_result result = result_of(7 + stage);
    bool send = muster_stages_computed(stages, result);
    muster_blob_unref(result.message);
    return send;
}

static bool say(muster_stages *stages, uint64_t step, uint32_t number,
                uint64_t missing)
{
    muster_stages_word word = {step, 2, number, missing};
    return muster_stages_told(stages, &word);
}

static muster_stages begin(const muster_stages_plan *plan)
{
    muster_stages stages = {0};
    muster_stages_leave(&stages);
    muster_stages_begin(&stages, plan, 5, 2);
    return stages;
}

static void one_stage_is_computed_and_sent(void **state)
{
    (void)state;
    muster_stages stages = begin(&MUSTER_STAGES_ONE);
    assert_true(compute(&stages, 0));
    assert_int_equal(muster_stages_next(&stages), MUSTER_STAGE_NONE);
    assert_false(muster_stages_is_open(&stages));
    muster_stages_fini(&stages);
}

static void who_is_not_asked_stops_after_its_own_share(void **state)
{
    (void)state;
    muster_stages stages = begin(&asked);
    assert_true(compute(&stages, 0));
    assert_int_equal(muster_stages_next(&stages), MUSTER_STAGE_NONE);
    assert_true(muster_stages_is_open(&stages));
    assert_true(say(&stages, 5, 1, 4));
    assert_true(compute(&stages, 2));
    assert_int_equal(muster_stages_next(&stages), MUSTER_STAGE_NONE);
    muster_stages_fini(&stages);
    assert_int_equal(muster_stages_take_dropped(&stages), 0);
}

static void results_that_nobody_asked_for_are_kept_and_sent_once(void **state)
{
    (void)state;
    muster_stages stages = begin(&eager);
    muster_stage_result result;
    assert_true(compute(&stages, 0));
    assert_false(compute(&stages, 1));
    assert_int_equal(muster_stages_take(&stages, &result), MUSTER_STAGE_NONE);
    assert_true(say(&stages, 5, 1, 2));
    assert_int_equal(muster_stages_take(&stages, &result), 1);
    assert_int_equal(result.busy_ns, 8);
    muster_blob_unref(result.message);
    assert_true(say(&stages, 5, 2, 2)); // asked for again
    assert_int_equal(muster_stages_take(&stages, &result), MUSTER_STAGE_NONE);
    assert_int_equal(muster_stages_next(&stages), MUSTER_STAGE_NONE);
    muster_stages_fini(&stages);
}

static void results_that_nobody_wanted_are_counted(void **state)
{
    (void)state;
    muster_stages stages = begin(&eager);
    assert_true(compute(&stages, 0));
    assert_false(compute(&stages, 1));
    muster_stages_start(&stages, 2);
    assert_true(say(&stages, 5, 1, 0));
    assert_true(muster_stages_is_idle_work(&stages));
    assert_false(
        muster_stages_computed(&stages, (muster_stage_result){NULL, 0}));
    muster_stages_begin(&stages, &eager, 6, 2);
    assert_int_equal(muster_stages_take_dropped(&stages), 2);
    assert_int_equal(muster_stages_take_dropped(&stages), 0);
    muster_stages_fini(&stages);
}

/* Nothing keeps the network in order. */
static void words_that_are_old_or_of_other_steps_change_nothing(void **state)
{
    (void)state;
    muster_stages stages = begin(&asked);
    assert_true(compute(&stages, 0));
    assert_true(say(&stages, 5, 3, 6));
    assert_false(say(&stages, 5, 2, 0));
    assert_false(say(&stages, 4, 9, 0));
    assert_int_equal(muster_stages_next(&stages), 1);
    muster_stages_word other_plan = {5, 3, 4, 0};
    assert_false(muster_stages_told(&stages, &other_plan));
    assert_int_equal(muster_stages_next(&stages), 1);
    muster_stages_fini(&stages);
}

static void a_word_may_come_before_its_model(void **state)
{
    (void)state;
    muster_stages stages = begin(&asked);
    assert_true(compute(&stages, 0));
    assert_false(say(&stages, 6, 4, 2));
    muster_stages_begin(&stages, &asked, 6, 2);
    assert_true(compute(&stages, 1)); // its own share has come from another
    assert_int_equal(muster_stages_next(&stages), MUSTER_STAGE_NONE);
    muster_stages_fini(&stages);
}

static void another_life_knows_nothing_of_the_last(void **state)
{
    (void)state;
    muster_stages stages = begin(&eager);
    muster_stage_result result = result_of(1);
    muster_stages_start(&stages, 0);
    muster_stages_leave(&stages);
    assert_false(muster_stages_computed(&stages, result));
    assert_false(say(&stages, 5, 1, 7));
    assert_int_equal(muster_stages_next(&stages), MUSTER_STAGE_NONE);
    muster_blob_unref(result.message);
    muster_stages_fini(&stages);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_stage_is_computed_and_sent),
        cmocka_unit_test(who_is_not_asked_stops_after_its_own_share),
        cmocka_unit_test(results_that_nobody_asked_for_are_kept_and_sent_once),
        cmocka_unit_test(results_that_nobody_wanted_are_counted),
        cmocka_unit_test(words_that_are_old_or_of_other_steps_change_nothing),
        cmocka_unit_test(a_word_may_come_before_its_model),
        cmocka_unit_test(another_life_knows_nothing_of_the_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
