/*
 * build_test.c -- train, join, simulate and code read the same options alike:
 * one builder, and what repeated --slow values mean.
 */
#include "run/build.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "muster/run.h"

#define MS MUSTER_NS_PER_MS

/* The configuration of `verb` with the given flags, ended by NULL. */
static muster_config *parse(const char *verb, const char *const *flags)
{
    muster_config *config = NULL;
    muster_error error = {.text = ""};
    int count = 0;
    while (flags[count] != NULL) {
        count++;
    }
    assert_int_equal(muster_config_create(verb, &config), MUSTER_OK);
    if (muster_config_parse(config, count, flags, &error) != MUSTER_OK) {
        fail_msg("%s: %s", verb, error.text);
    }
    return config;
}

static muster_slowness slowness_of(const muster_config *config, uint32_t worker)
{
    muster_slowness slowness;
    assert_int_equal(
        muster_build_slowness(config, worker, NULL, NULL, &slowness),
        MUSTER_OK);
    return slowness;
}

static void repeated_slow_means_the_same_in_every_verb(void **state)
{
    (void)state;
    static const char *const verbs[] = {"train", "join", "simulate"};
    const char *const flags[] = {
        "--slow",  "0:300ms", "--slow", "1:5ms",  "--slow", "2:7x", "--slow",
        "0:100ms", "--slow",  "2:20ms", "--slow", "2:3x",   NULL};
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        muster_config *config = parse(verbs[i], flags);
        assert_int_equal(slowness_of(config, 0).sleep_ns, 100 * MS);
        assert_int_equal(slowness_of(config, 1).sleep_ns, 5 * MS);
        // A time and a factor add up; of two factors the last one counts.
        muster_slowness both = slowness_of(config, 2);
        assert_int_equal(muster_slowness_ns(&both, 9, 10 * MS), 40 * MS);
        muster_slowness none = slowness_of(config, 3);
        assert_int_equal(muster_slowness_ns(&none, 9, 10 * MS), 0);
        muster_config_free(config);
    }
}

/* A joiner says which worker of how many it is, and draws what the simulator
 * draws for that worker. */
static void delays_are_the_same_in_every_verb(void **state)
{
    (void)state;
    const char *const flags[] = {
        "--workers", "4", "--delay", "exponential:mean=10ms",
        "--seed",    "9", NULL};
    muster_config *configs[2] = {parse("join", flags),
                                 parse("simulate", flags)};
    muster_delay *delays[2] = {NULL, NULL};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(muster_build_delay(configs[i], 4, NULL, &delays[i]),
                         MUSTER_OK);
    }
    for (uint64_t step = 0; step < 20; step++) {
        muster_slowness one, two;
        assert_int_equal(
            muster_build_slowness(configs[0], 2, delays[0], NULL, &one),
            MUSTER_OK);
        assert_int_equal(
            muster_build_slowness(configs[1], 2, delays[1], NULL, &two),
            MUSTER_OK);
        assert_int_equal(muster_slowness_ns(&one, step, 0),
                         muster_slowness_ns(&two, step, 0));
    }
    for (size_t i = 0; i < 2; i++) {
        muster_delay_free(delays[i]);
        muster_config_free(configs[i]);
    }
}

static void a_code_has_the_same_options_in_every_verb(void **state)
{
    (void)state;
    static const char *const verbs[] = {"train", "simulate", "code"};
    const char *const flags[] = {"--workers",    "3",     "--code", "heter",
                                 "--speeds",     "1,2,4", "--load", "2",
                                 "--seed",       "7",     "--comm", "2",
                                 "--stragglers", "1",     NULL};
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        muster_config *config = parse(verbs[i], flags);
        muster_build_code build;
        assert_int_equal(muster_build_code_opts(config, NULL, NULL, &build),
                         MUSTER_OK);
        assert_string_equal(build.opts.name, "heter");
        assert_int_equal(build.opts.workers, 3);
        assert_int_equal(build.opts.stragglers, 1);
        assert_int_equal(build.opts.comm, 2);
        assert_int_equal(build.opts.load, 2);
        assert_int_equal(build.opts.seed, 7);
        assert_true(build.opts.speeds != NULL && build.opts.speeds[2] == 4);
        muster_build_code_fini(&build);
        muster_config_free(config);
    }
}

static void a_code_without_workers_is_told_what_is_missing(void **state)
{
    (void)state;
    const char *const flags[] = {"frc", NULL};
    muster_config *config = parse("code", flags);
    muster_error error = {.text = ""};
    char *text = NULL;
    assert_int_equal(muster_show_code(config, &error, &text),
                     MUSTER_ERR_INVALID);
    assert_null(text);
    assert_non_null(strstr(error.text, "--workers is missing"));
    muster_config_free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repeated_slow_means_the_same_in_every_verb),
        cmocka_unit_test(delays_are_the_same_in_every_verb),
        cmocka_unit_test(a_code_has_the_same_options_in_every_verb),
        cmocka_unit_test(a_code_without_workers_is_told_what_is_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
