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

/* What `worker` loses in `step`, after 10 ms of computing. */
static int64_t lost_ns(const muster_config *config, uint32_t worker,
                       uint64_t step)
{
    muster_delay_work work = {
        .share = 0.25, .message = 1, .compute_ns = 10 * MS};
    muster_slowness slowness = slowness_of(config, worker);
    int64_t ns = muster_slowness_ns(&slowness, step, &work);
    muster_slowness_fini(&slowness);
    return ns;
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
        assert_int_equal(lost_ns(config, 0, 9), 100 * MS);
        assert_int_equal(lost_ns(config, 1, 9), 5 * MS);
        // A time and a factor add up; of two factors the last one counts.
        assert_int_equal(lost_ns(config, 2, 9), 40 * MS);
        assert_int_equal(lost_ns(config, 3, 9), 0);
        muster_config_free(config);
    }
}

static void slowness_changes_at_its_step_in_every_verb(void **state)
{
    (void)state;
    static const char *const verbs[] = {"train", "join", "simulate"};
    // Not in the order of the steps; of one step, the last one counts.
    const char *const flags[] = {"--slow", "0:0@30",     "--slow", "0:3x@20",
                                 "--slow", "0:100ms@10", "--slow", "0:200ms",
                                 "--slow", "1:7ms@5",    "--slow", "1:8ms@5",
                                 NULL};
    static const struct {
        uint64_t step;
        int64_t lost[2];
    } rows[] = {{0, {200 * MS, 0}},       {4, {200 * MS, 0}},
                {5, {200 * MS, 8 * MS}},  {9, {200 * MS, 8 * MS}},
                {10, {100 * MS, 8 * MS}}, {20, {120 * MS, 8 * MS}},
                {29, {120 * MS, 8 * MS}}, {30, {0, 8 * MS}},
                {99, {0, 8 * MS}}};
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        muster_config *config = parse(verbs[i], flags);
        for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
            for (uint32_t w = 0; w < 2; w++) {
                assert_int_equal(lost_ns(config, w, rows[r].step),
                                 rows[r].lost[w]);
            }
        }
        muster_config_free(config);
    }
}

/* A joiner says which worker of how many it is, and draws what the simulator
 * draws for that worker. */
static void delays_are_the_same_in_every_verb(void **state)
{
    (void)state;
    const char *const flags[] = {
        "--workers",
        "4",
        "--delay",
        "exponential:mean=10ms,per=load+exponential:mean=8ms,per=message",
        "--seed",
        "9",
        NULL};
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
        muster_delay_work work = {.share = 0.5, .message = 0.25};
        assert_int_equal(muster_slowness_ns(&one, step, &work),
                         muster_slowness_ns(&two, step, &work));
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

static uint32_t shards_of(const char *const *flags)
{
    muster_config *config = parse("train", flags);
    muster_code *code = NULL;
    assert_int_equal(muster_build_code_of(config, NULL, &code), MUSTER_OK);
    uint32_t shards = muster_build_shards(config, code);
    muster_code_free(code);
    muster_config_free(config);
    return shards;
}

static void shards_are_as_many_as_asked_and_at_least_the_parts(void **state)
{
    (void)state;
    const char *const asked[] = {"--local", "6", "--shards", "31", NULL};
    const char *const few[] = {"--local", "6", "--shards", "5", NULL};
    const char *const silent[] = {"--local", "6", NULL};
    assert_int_equal(shards_of(asked), 31);
    assert_int_equal(shards_of(silent), 24); // four a worker
    assert_int_equal(shards_of(few), 24);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repeated_slow_means_the_same_in_every_verb),
        cmocka_unit_test(slowness_changes_at_its_step_in_every_verb),
        cmocka_unit_test(shards_are_as_many_as_asked_and_at_least_the_parts),
        cmocka_unit_test(delays_are_the_same_in_every_verb),
        cmocka_unit_test(a_code_has_the_same_options_in_every_verb),
        cmocka_unit_test(a_code_without_workers_is_told_what_is_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
