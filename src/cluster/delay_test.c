/*
 * delay_test.c -- each model has the mean, the shape and the memory that it
 * claims; delays do not depend on the order of asking; bad specs are refused
 * with the name of what is wrong.
 */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "cluster/delay.h"

#define WORKERS 40u
#define STEPS   2000u

/* An uncoded worker of WORKERS that computes for 10 ms. */
static const muster_delay_work uncoded = {
    .share = 1.0 / WORKERS, .message = 1, .compute_ns = 10000000};

static int64_t delay_of(muster_delay *delay, uint32_t worker, uint64_t step)
{
    return muster_delay_of(delay, worker, step, &uncoded);
}

static muster_delay *make(const char *spec)
{
    muster_delay *delay = NULL;
    muster_error error = {0};
    if (muster_delay_create(spec, WORKERS, 5, &error, &delay) != MUSTER_OK) {
        fail_msg("%s: %s", spec, error.text);
    }
    return delay;
}

static double mean_ms(muster_delay *delay)
{
    double sum = 0;
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        for (uint64_t step = 0; step < STEPS; step++) {
            sum += (double)delay_of(delay, worker, step) * 1e-6;
        }
    }
    return sum / (WORKERS * STEPS);
}

static void means_are_those_of_the_models(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        double mean_ms;
        double tolerance;
    } cases[] = {
        {"constant:delay=7ms", 7, 1e-9},
        {"exponential:mean=10ms", 10, 0.2},
        {"shifted-exponential:shift=5ms,mean=10ms", 15, 0.2},
        {"pareto:scale=2ms,shape=3", 3, 0.05},
        {"iid:p=0.25,delay=100ms", 25, 1},
        {"markov:delay=100ms", 50, 5},
        {"markov:stay-slow=0.8,stay-active=0.95,delay=100ms", 20, 2},
        {"geometric:time=20ms,p=0", 40, 1e-9},
        {"geometric:time=20ms,p=0.1", 40 / 0.9, 0.3},
        {"geometric:time=20ms,p=0.5,way=up", 40, 0.5},
        // Factors, of 10 ms of computing: what comes on top.
        {"constant:factor=3", 20, 1e-9},
        {"exponential:factor=2", 10, 0.2},
        {"pareto:factor=1,shape=3", 5, 0.2},
        {"iid:p=0.25,factor=5", 10, 0.4},
        {"markov:factor=3", 10, 1},
        // Sums, each with draws of its own.
        {"constant:delay=2ms+exponential:mean=3ms+constant:factor=2", 15, 0.1},
        {"constant:factor=2*constant:factor=3", 50, 0.01},
        {"iid:p=0.5,factor=3*constant:factor=2+constant:delay=1ms", 31, 1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        muster_delay *delay = make(cases[i].spec);
        assert_true(fabs(mean_ms(delay) - cases[i].mean_ms) <
                    cases[i].tolerance);
        muster_delay_free(delay);
    }
}

static void slow_and_active_workers_stay_what_they_are(void **state)
{
    (void)state;
    muster_delay *delay =
        make("bernoulli:slow=0.5,p-slow=0.8,p-active=0.01,delay=1s");
    uint32_t slow = 0;
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        uint32_t late = 0;
        for (uint64_t step = 0; step < STEPS; step++) {
            late += delay_of(delay, worker, step) > 0;
        }
        double share = (double)late / STEPS;
        double wanted = muster_delay_is_slow(delay, worker) ? 0.8 : 0.01;
        assert_true(fabs(share - wanted) < 0.05);
        slow += muster_delay_is_slow(delay, worker);
    }
    assert_in_range(slow, WORKERS / 4, 3 * WORKERS / 4);
    muster_delay_free(delay);
}

static void a_markov_worker_has_memory(void **state)
{
    (void)state;
    muster_delay *delay = make("markov:delay=1s");
    uint32_t late = 0;
    uint32_t again = 0;
    for (uint64_t step = 0; step < STEPS; step++) {
        if (delay_of(delay, 3, step) > 0) {
            late++;
            again += delay_of(delay, 3, step + 1) > 0;
        }
    }
    assert_true(late > STEPS / 5);
    assert_true(fabs((double)again / late - 0.95) < 0.03);
    muster_delay_free(delay);
}

static void delays_do_not_depend_on_the_order_of_asking(void **state)
{
    (void)state;
    static const char *const specs[] = {
        "exponential:mean=1ms", "markov:delay=1ms", "bernoulli:delay=1ms",
        "geometric:time=1ms,p=0.5"};
    for (size_t i = 0; i < 4; i++) {
        muster_delay *forward = make(specs[i]);
        muster_delay *backward = make(specs[i]);
        int64_t seen[100];
        for (uint64_t step = 0; step < 100; step++) {
            seen[step] = delay_of(forward, 7, step);
        }
        for (uint64_t step = 100; step-- > 0;) {
            assert_int_equal(delay_of(backward, 7, step), seen[step]);
        }
        muster_delay_free(forward);
        muster_delay_free(backward);
    }
}

static void loads_and_messages_scale_a_delay(void **state)
{
    (void)state;
    muster_delay_work coded = {
        .share = 4.0 / WORKERS, .message = 0.5, .compute_ns = 40000000};
    static const struct {
        const char *spec;
        double times;
    } rows[] = {{"exponential:mean=8ms", 1},
                {"exponential:mean=8ms,per=step", 1},
                {"exponential:mean=8ms,per=load", 4},
                {"shifted-exponential:shift=1ms,mean=8ms,per=load", 4},
                {"bernoulli:slow=0.5,delay=8ms,per=load", 4},
                {"geometric:time=8ms,p=0.5,way=up,per=message", 0.5},
                {"exponential:mean=8ms,per=message", 0.5},
                {"markov:factor=3", 4}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        muster_delay *delay = make(rows[i].spec);
        for (uint64_t step = 0; step < 50; step++) {
            double plain = (double)delay_of(delay, 3, step);
            double scaled = (double)muster_delay_of(delay, 3, step, &coded);
            assert_true(fabs(scaled - rows[i].times * plain) <= 4);
        }
        assert_int_equal(muster_delay_multiplies(delay),
                         strstr(rows[i].spec, "factor") != NULL);
        muster_delay_free(delay);
    }
}

static void the_terms_of_a_sum_are_drawn_apart(void **state)
{
    (void)state;
    muster_delay *one = make("exponential:mean=8ms");
    muster_delay *two = make("exponential:mean=8ms+exponential:mean=8ms");
    uint32_t doubled = 0;
    for (uint64_t step = 0; step < 50; step++) {
        int64_t first = delay_of(one, 3, step);
        int64_t both = delay_of(two, 3, step);
        assert_true(both >= first - 1); // the first is drawn as if alone
        doubled += llabs(both - 2 * first) < 1000;
    }
    assert_true(doubled < 3);
    muster_delay_free(one);
    muster_delay_free(two);
}

static void refused(const char *spec, muster_status status, const char *names)
{
    muster_delay *delay = NULL;
    muster_error error = {0};
    assert_int_equal(muster_delay_create(spec, 4, 1, &error, &delay), status);
    if (strstr(error.text, names) == NULL) {
        fail_msg("'%s' does not name %s", error.text, names);
    }
}

static void delays_take_every_unit_of_time(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        int64_t ns;
    } rows[] = {{"constant:delay=1h", 3600000000000},
                {"constant:delay=2m", 120000000000},
                {"constant:delay=2min", 120000000000},
                {"constant:delay=1.5s", 1500000000},
                {"constant:delay=20ms", 20000000},
                {"constant:delay=3us", 3000},
                {"constant:delay=8ns", 8}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        muster_delay *delay = NULL;
        assert_int_equal(muster_delay_create(rows[i].spec, 4, 1, NULL, &delay),
                         MUSTER_OK);
        int64_t off = delay_of(delay, 0, 0) - rows[i].ns;
        assert_true(off >= -1 && off <= 1);
        muster_delay_free(delay);
    }
}

static void bad_specs_are_refused_by_name(void **state)
{
    (void)state;
    refused("normal:mean=1ms", MUSTER_ERR_INVALID, "normal: unknown; there");
    refused("", MUSTER_ERR_INVALID, "unknown; there are constant");
    refused("paretto:scale=1ms", MUSTER_ERR_INVALID, "did you mean pareto?");
    refused("iid:p=0.1,dealy=1ms", MUSTER_ERR_INVALID, "did you mean delay?");
    refused("iid:p=0x1,delay=1ms", MUSTER_ERR_INVALID, "p=0x1: expected");
    refused("exponential", MUSTER_ERR_INVALID, "needs mean");
    refused("exponential:mean=10", MUSTER_ERR_INVALID, "mean=10");
    refused("exponential:mean=-1ms", MUSTER_ERR_INVALID, "mean=-1ms");
    refused("exponential:mean=2000m", MUSTER_ERR_INVALID, "at most 1h");
    refused("exponential:sigma=1ms", MUSTER_ERR_INVALID, "sigma");
    refused("iid:p=1.5,delay=1ms", MUSTER_ERR_INVALID, "p=1.5");
    refused("pareto:scale=1ms,shape=0", MUSTER_ERR_INVALID, "shape=0");
    refused("exponential:mean=1ms,factor=2", MUSTER_ERR_INVALID,
            "takes one of mean");
    refused("iid:p=0.5", MUSTER_ERR_INVALID, "needs delay=.., a time");
    refused("iid:p=0.5,factor=0.5", MUSTER_ERR_INVALID, "factor=0.5");
    refused("iid:p=0.5,factor=2,per=load", MUSTER_ERR_INVALID,
            "per=.. is for times");
    refused("exponential:mean=1ms,per=part", MUSTER_ERR_INVALID, "per=part");
    refused("exponential:mean=1ms+paretto:scale=1ms", MUSTER_ERR_INVALID,
            "did you mean pareto?");
    refused("constant:factor=2*constant:delay=1ms", MUSTER_ERR_INVALID,
            "both need factor=");
    refused("geometric:time=1ms,p=1", MUSTER_ERR_INVALID, "p=1");
    refused("geometric:time=1ms,p=0.1,per=message", MUSTER_ERR_INVALID,
            "add way=up");
    refused("constant:delay=1ms+constant:delay=1ms+constant:delay=1ms+"
            "constant:delay=1ms+constant:delay=1ms",
            MUSTER_ERR_INVALID, "at most 4 models");
    refused("trace:file=/nonexistent+a.csv+exponential:mean=1ms",
            MUSTER_ERR_INPUT, "/nonexistent+a.csv:");
    refused("trace:file=/nonexistent.csv", MUSTER_ERR_INPUT, "nonexistent");
}

static void write_trace(const char *text, char *path)
{
    snprintf(path, 64, "/tmp/muster-trace-XXXXXX");
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    assert_int_equal(write(descriptor, text, strlen(text)), strlen(text));
    close(descriptor);
}

static void a_trace_is_replayed(void **state)
{
    (void)state;
    char path[64];
    char spec[128];
    write_trace("iteration,worker,seconds\n0,0,1.5\n0,1,2\n1,1,4\n1,0,3\n",
                path);
    snprintf(spec, sizeof(spec), "trace:file=%s,scale=0.001,base=1s", path);
    muster_delay *delay = make(spec);
    assert_int_equal(delay_of(delay, 0, 0), 500000);
    assert_int_equal(delay_of(delay, 1, 1), 3000000);
    assert_int_equal(delay_of(delay, 2, 3), 2000000); // wraps around
    muster_delay_free(delay);
    unlink(path);
    static const char *const bad[] = {"iteration,worker,seconds\n0,0,x\n",
                                      "iteration,worker,seconds\n",
                                      "0,0,1\n0,0,1\n",
                                      "0,0,1\n1,1,1\n",
                                      "0,0,nan\n",
                                      "0,0,1,5\n"};
    for (size_t i = 0; i < 6; i++) {
        write_trace(bad[i], path);
        snprintf(spec, sizeof(spec), "trace:file=%s", path);
        refused(spec, MUSTER_ERR_INPUT, path);
        unlink(path);
    }
}

static void a_cluster_file_gives_each_worker_its_delay(void **state)
{
    (void)state;
    char path[] = "/tmp/muster-cluster-XXXXXX";
    int fd = mkstemp(path);
    static const char text[] =
        "version: 1\nedges:\n  - link: {latency: 3ms, loss: 0.5}\n    workers: "
        "[{count: 39, compute: {shift: 2ms, mean: 1ms}}, {speed: 0.1, compute: "
        "{shift: 2ms, mean: 1ms}, link: {latency: 1ms}}]\n";
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    (void)close(fd);
    char spec[64];
    (void)snprintf(spec, sizeof(spec), "cluster:file=%s", path);
    muster_delay *delay = make(spec);
    double sums[2] = {0, 0};
    for (uint64_t step = 0; step < STEPS; step++) {
        muster_delay_work twice = {.share = 2.0 / WORKERS, .message = 1};
        sums[0] += (double)delay_of(delay, 3, step) * 1e-6 / STEPS;
        sums[1] +=
            (double)muster_delay_of(delay, 39, step, &twice) * 1e-6 / STEPS;
    }
    // Two tries of 3 ms each way, and the computing of load 1 or 2.
    assert_true(fabs(sums[0] - (3 + 12)) < 0.6);
    assert_true(fabs(sums[1] - (60 + 12 + 2)) < 3);
    muster_delay_free(delay);
    muster_error error = {0};
    assert_int_equal(muster_delay_create(spec, 7, 5, &error, &delay),
                     MUSTER_ERR_INPUT);
    assert_non_null(strstr(error.text, "has 40 workers, the run has 7"));
    (void)unlink(path);
}

static void creation_without_memory_is_an_error(void **state)
{
    (void)state;
    for (uint64_t allowed = 0; allowed < 3; allowed++) {
        muster_delay *delay = NULL;
        muster_mem_fail_after(allowed);
        muster_status status =
            muster_delay_create("markov:delay=1ms", 4, 1, NULL, &delay);
        muster_mem_fail_after(UINT64_MAX);
        assert_int_equal(status, MUSTER_ERR_NO_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(means_are_those_of_the_models),
        cmocka_unit_test(slow_and_active_workers_stay_what_they_are),
        cmocka_unit_test(a_markov_worker_has_memory),
        cmocka_unit_test(delays_do_not_depend_on_the_order_of_asking),
        cmocka_unit_test(loads_and_messages_scale_a_delay),
        cmocka_unit_test(the_terms_of_a_sum_are_drawn_apart),
        cmocka_unit_test(delays_take_every_unit_of_time),
        cmocka_unit_test(bad_specs_are_refused_by_name),
        cmocka_unit_test(a_trace_is_replayed),
        cmocka_unit_test(a_cluster_file_gives_each_worker_its_delay),
        cmocka_unit_test(creation_without_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
