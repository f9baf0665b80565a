/*
 * evaluate_test.c -- an evaluator beside a coordinator's executor: it gives the
 * same numbers, of the model that it was given, while steps go on.
 */
#include "job/job_test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "base/mem.h"
#include "job/inside.h"

#define TURNS     4u
#define COUNT(of) (sizeof(of) / sizeof((of)[0]))

static const bed_option options[] = {
    {"data", "synthetic:samples=700,features=20,classes=2,seed=5"},
    {"model", "mlp:hidden=8"},
    {"optimizer", "adam"},
    {"l2", "1e-3"},
    {"batch", "300"},
    {"steps", "50"},
};

/* A bed with an evaluator, and the model after a step. */
static muster_executor *open_bed(testbed *bed, muster_blob **model_out)
{
    muster_executor *evaluator = NULL;
    bed_open(bed, "uncoded", 3, options, COUNT(options));
    bed_step(bed, UINT32_MAX);
    *model_out = muster_executor_model_blob(bed->coordinator);
    assert_int_equal(
        muster_executor_create_evaluator(bed->coordinator, &evaluator),
        MUSTER_OK);
    return evaluator;
}

static void close_bed(testbed *bed, muster_executor *evaluator,
                      muster_blob *model)
{
    muster_blob_unref(model);
    muster_executor_free(evaluator);
    bed_close(bed);
}

static muster_job evaluation_of(muster_blob *model, bool test_only)
{
    return (muster_job){.kind = MUSTER_JOB_EVALUATE,
                        .input = muster_blob_ref(model),
                        .test_only = test_only};
}

typedef struct turns {
    muster_executor *evaluator;
    muster_blob *model;
    muster_job_result results[TURNS];
} turns;

static void *evaluate_again(void *argument)
{
    turns *all = argument;
    testbed none = {.pieces = 0};
    for (uint32_t i = 0; i < TURNS; i++) {
        all->results[i] =
            bed_run(&none, all->evaluator, evaluation_of(all->model, false));
    }
    return NULL;
}

static void assert_same(const muster_job_result *a, const muster_job_result *b)
{
    assert_int_equal(b->status, MUSTER_OK);
    assert_true(a->loss == b->loss);
    assert_true(a->theta_norm == b->theta_norm);
    assert_true(a->test_loss == b->test_loss);
    assert_true(a->test_accuracy == b->test_accuracy);
    assert_true(a->test_auc == b->test_auc);
}

static void an_evaluator_reads_its_model_while_steps_go_on(void **state)
{
    (void)state;
    testbed bed;
    turns all = {.model = NULL};
    all.evaluator = open_bed(&bed, &all.model);
    muster_job_result first = bed_evaluate(&bed);
    assert_true(first.test_auc > 0.5);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, evaluate_again, &all), 0);
    for (uint32_t i = 0; i < 2 * TURNS; i++) {
        bed_step(&bed, UINT32_MAX);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    for (uint32_t i = 0; i < TURNS; i++) {
        assert_same(&first, &all.results[i]);
    }
    assert_true(bed_evaluate(&bed).loss < first.loss);
    close_bed(&bed, all.evaluator, all.model);
}

/* Two tasks that are there at once; the second thread's priority. */
typedef struct meeting {
    pthread_t caller;
    _Atomic uint32_t there;
    int nice;
} meeting;

static void meet(void *context, uint32_t index)
{
    meeting *both = context;
    (void)index;
    if (pthread_equal(pthread_self(), both->caller) == 0) {
        both->nice = getpriority(PRIO_PROCESS, 0);
    }
    both->there++;
    while (both->there < 2) {
        (void)sched_yield();
    }
}

static void all_threads_of_an_evaluator_give_way(void **state)
{
    (void)state;
    testbed bed;
    muster_blob *model;
    muster_executor *evaluator = open_bed(&bed, &model);
    int here = getpriority(PRIO_PROCESS, 0); // a larger one is nicer
    meeting steps = {.caller = pthread_self()};
    meeting beside = {.caller = pthread_self()};
    assert_int_equal(muster_executor_use_threads(bed.coordinator, 2),
                     MUSTER_OK);
    assert_int_equal(muster_executor_use_threads(evaluator, 2), MUSTER_OK);
    muster_threads_run(bed.coordinator->pool, 2, meet, &steps);
    muster_threads_run(evaluator->pool, 2, meet, &beside);
    assert_int_equal(steps.nice, here);
    assert_true(here < 19 ? beside.nice > here : beside.nice == here);
    close_bed(&bed, evaluator, model);
}

static void an_evaluator_does_nothing_else(void **state)
{
    (void)state;
    testbed bed;
    muster_blob *model = NULL;
    muster_executor *evaluator = open_bed(&bed, &model);
    const muster_job_kind kinds[] = {MUSTER_JOB_UPDATE, MUSTER_JOB_SHARD,
                                     MUSTER_JOB_SNAPSHOT, MUSTER_JOB_EVALUATE};
    for (uint32_t i = 0; i < COUNT(kinds); i++) { // the last has no model
        muster_job_result result =
            bed_run(&bed, evaluator, (muster_job){.kind = kinds[i]});
        assert_int_equal(result.status, MUSTER_ERR_INVALID);
    }
    close_bed(&bed, evaluator, model);
}

static void an_evaluation_can_be_cut_off_and_done_again(void **state)
{
    (void)state;
    testbed bed;
    muster_blob *model = NULL;
    muster_executor *evaluator = open_bed(&bed, &model);
    muster_job_result first =
        bed_run(&bed, evaluator, evaluation_of(model, true));
    muster_job job = evaluation_of(model, false);
    muster_job_result result;
    muster_executor_begin(evaluator, &job);
    assert_int_equal(muster_executor_piece(evaluator), MUSTER_IN_PROGRESS);
    muster_executor_end(evaluator, &result);
    assert_int_equal(result.status, MUSTER_ERR_CANCELLED);
    result = bed_run(&bed, evaluator, evaluation_of(model, true));
    assert_int_equal(result.status, MUSTER_OK);
    assert_true(result.test_loss == first.test_loss);
    close_bed(&bed, evaluator, model);
}

static void an_evaluator_without_memory_says_so(void **state)
{
    (void)state;
    testbed bed;
    muster_blob *model = NULL;
    muster_executor *evaluator = open_bed(&bed, &model);
    muster_status status = MUSTER_ERR_NO_MEMORY;
    uint64_t allowed = 0;
    for (; status != MUSTER_OK; allowed++) {
        muster_mem_fail_after(allowed);
        status = bed_run(&bed, evaluator, evaluation_of(model, false)).status;
        muster_mem_fail_after(UINT64_MAX);
        assert_true(status == MUSTER_OK || status == MUSTER_ERR_NO_MEMORY);
    }
    assert_true(allowed > 1);
    close_bed(&bed, evaluator, model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_evaluator_reads_its_model_while_steps_go_on),
        cmocka_unit_test(all_threads_of_an_evaluator_give_way),
        cmocka_unit_test(an_evaluator_does_nothing_else),
        cmocka_unit_test(an_evaluation_can_be_cut_off_and_done_again),
        cmocka_unit_test(an_evaluator_without_memory_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
