/*
 * Messages that are no gradient, and messages that are another's: UPDATE names
 * the first, VERIFY both.
 */
#include <math.h>

#include "job/job_test.h"

#define SYNTHETIC    "synthetic:samples=200,features=6,classes=3,seed=5"
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define NOBODY       UINT32_MAX

static const bed_option options[] = {{"data", SYNTHETIC}, {"steps", "5"}};

/* The messages of a step, some of them no gradient, and what is said of it. */
static void marks_of(testbed *bed, size_t coordinate, float value,
                     muster_job_mark *mark_out)
{
    muster_job job = bed_update_job(bed, NOBODY);
    assert_true(job.message_count >= 2);
    ((float *)job.messages[1]->data)[coordinate] = value;
    muster_job_result result = bed_run(bed, bed->coordinator, job);
    assert_int_equal(result.status, MUSTER_INEXACT);
    const uint8_t *marks = result.output->data;
    assert_int_equal(marks[0], MUSTER_MARK_NONE);
    *mark_out = marks[1];
    muster_blob_unref(result.output);
}

static void a_message_that_is_not_finite_is_named(void **state)
{
    (void)state;
    testbed bed;
    muster_job_mark mark = MUSTER_MARK_NONE;
    bed_open(&bed, "frc:s=1", 4, options, COUNT(options));
    muster_job probe = bed_update_job(&bed, NOBODY);
    size_t floats = probe.messages[0]->bytes / sizeof(float);
    muster_job_fini(&probe);
    // The gradient, the loss, and the bound on what rounding did.
    const size_t places[] = {3, floats - 2, floats - 1};
    for (size_t i = 0; i < COUNT(places); i++) {
        marks_of(&bed, places[i], i == 1 ? -INFINITY : NAN, &mark);
        assert_int_equal(mark, MUSTER_MARK_NOT_FINITE);
    }
    bed_step(&bed, NOBODY); // nothing was spoiled
    bed_close(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_that_is_not_finite_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
