/*
 * deadline_test.c -- how many answers a step waits for: the n - s of an
 * approximate code, and an exact code's deadline.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scene.h"

static void an_approximate_code_goes_on_with_n_minus_s_answers(void **state)
{
    (void)state;
    static const char *const codes[] = {"ignore:s=2",   "bgc:d=3,s=2",
                                        "rbgc:d=3,s=2", "sgc:d=3,s=2",
                                        "graph:s=2",    "erasurehead:d=2,s=2"};
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        toy t;
        toy_opts opts = plain(codes[i], 12, 60);
        opts.deadline_ns = SECONDS(1); // never reached
        toy_init(&t, &opts);
        t.slow_ms[3] = t.slow_ms[7] = 500;
        run_to_end(&t);
        assert_right(&t);
        assert_int_equal(t.lost, 0);
        assert_true(muster_sim_now(t.sim) < SECONDS(5));
        toy_fini(&t);
    }
}

/* Ten of twelve answer at most; erasurehead may have all parts before. */
static void it_never_waits_for_more(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = plain("ignore:s=2", 12, 60);
    toy_init(&t, &opts);
    run_to_end(&t);
    assert_right(&t);
    assert_int_equal(t.inexact, 60);
    assert_true(t.steps_without >= 60 * 2);
    // By n - s answers, not by the deadline: nearly every step has ten.
    assert_true(t.steps_without < 60 * 3);
    toy_fini(&t);
}

/* One lost and one slow are the two of s = 2; with a second lost the step waits
 * for all that are there. */
static void a_lost_worker_is_one_of_the_s(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = plain("ignore:s=2", 8, 400);
    opts.deadline_ns = SECONDS(1);
    toy_init(&t, &opts);
    t.slow_ms[3] = 300;
    muster_sim_run(t.sim, SECONDS(1));
    muster_sim_kill(t.sim, 5);
    muster_sim_run(t.sim, SECONDS(4)); // it is known to be lost
    uint64_t ends = t.ends;
    assert_true(ends > 60);
    muster_sim_run(t.sim, SECONDS(5));
    assert_true(t.ends > ends + 30);
    muster_sim_kill(t.sim, 6);
    muster_sim_kill(t.sim, 7);
    muster_sim_run(t.sim, SECONDS(8));
    ends = t.ends;
    muster_sim_run(t.sim, SECONDS(10));
    assert_in_range(t.ends, ends + 5, ends + 8); // each waits for the slow one
    toy_fini(&t);
}

static const char *const exact_codes[] = {
    "uncoded",
    "frc:s=1",
    "crc:s=1",
    "cyclic-mds:s=1",
    "rs:s=1",
    "ye-abbe:s=1,m=2",
    "ye-abbe-random:s=1,m=2",
    "ye-abbe-tuned:s=1,m=2",
    "heter:s=1",
    "heter-group:s=1",
    "linear:tuned:s=1,m=2",
    "linear:gaussian:s=1,m=2",
    "linear:repetition:s=1",
    "linear:spc",
};
#define EXACT_CODES (sizeof(exact_codes) / sizeof(exact_codes[0]))

/* The slower steps miss it: inexact, reported as such, said once. */
static void every_exact_code_goes_on_at_a_deadline(void **state)
{
    (void)state;
    for (size_t i = 0; i < EXACT_CODES; i++) {
        toy t;
        toy_opts opts = plain(exact_codes[i], 6, 80);
        opts.deadline_ns = 13 * MUSTER_NS_PER_MS;
        toy_init(&t, &opts);
        run_to_end(&t);
        assert_right(&t);
        print_message("%s: %llu of 80 steps degraded\n", exact_codes[i],
                      (unsigned long long)t.degraded);
        assert_true(t.degraded > 5 && t.degraded == t.inexact);
        const char *said = strstr(t.notices, "goes on approximately");
        assert_non_null(said);
        assert_null(strstr(said + 1, "goes on approximately"));
        toy_fini(&t);
    }
}

static void a_late_deadline_changes_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < EXACT_CODES; i++) {
        toy t;
        toy_opts opts = plain(exact_codes[i], 6, 40);
        opts.deadline_ns = SECONDS(1);
        toy_init(&t, &opts);
        run_to_end(&t);
        assert_right(&t);
        assert_int_equal(t.inexact, 0);
        assert_null(strstr(t.notices, "approximately"));
        toy_fini(&t);
    }
}

/* Nobody answers in time: then the first that does is enough. */
static void a_step_needs_one_answer_at_least(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = plain("cyclic-mds:s=1", 6, 40);
    opts.deadline_ns = MUSTER_NS_PER_MS;
    toy_init(&t, &opts);
    run_to_end(&t);
    assert_right(&t);
    assert_int_equal(t.degraded, 40);
    assert_int_equal(t.messages_up - t.late, 40);
    toy_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_approximate_code_goes_on_with_n_minus_s_answers),
        cmocka_unit_test(it_never_waits_for_more),
        cmocka_unit_test(a_lost_worker_is_one_of_the_s),
        cmocka_unit_test(every_exact_code_goes_on_at_a_deadline),
        cmocka_unit_test(a_late_deadline_changes_nothing),
        cmocka_unit_test(a_step_needs_one_answer_at_least),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
