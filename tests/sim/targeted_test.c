/*
 * targeted_test.c -- the targeted shuffle against the paper's rotation: in the
 * paper's model, and on measured traces.
 */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "study.h"

// ---- Measured traces.

static bool late_by_trace(const source *from, uint32_t worker, uint64_t step,
                          double *arrival_out)
{
    const muster_delay_trace *trace = from->trace;
    *arrival_out =
        trace->seconds[step * trace->workers + worker] / from->median[step];
    return *arrival_out > 2;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static void open_trace(const char *name, muster_delay_trace *trace,
                       source *from)
{
    const char *folder = getenv("MUSTER_DATA");
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/ec2-traces/%s",
                   folder != NULL ? folder : "../shared/data", name);
    if (access(path, R_OK) != 0) {
        print_message("skipped: %s is not there (set MUSTER_DATA)\n", path);
        skip();
    }
    assert_int_equal(muster_delay_trace_load(path, NULL, trace), MUSTER_OK);
    assert_true(trace->workers <= N_MAX && trace->iterations <= 512);
    *from = (source){
        .late = late_by_trace, .workers = trace->workers, .trace = trace};
    for (uint32_t t = 0; t < trace->iterations; t++) {
        double sorted[N_MAX];
        memcpy(sorted, &trace->seconds[(size_t)t * trace->workers],
               trace->workers * sizeof(double));
        qsort(sorted, trace->workers, sizeof(double), compare_doubles);
        from->median[t] = sorted[trace->workers / 2];
    }
}

static void shuffling_spares_the_parts_of_measured_slow_machines(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t k;
        double still_most;   // worst part received at most this, unshuffled
        double turned_least; // and at least this with rotate:1
        double target_least; // and with targeted
    } cases[] = {
        {"trace2.csv", 1, 0.25, 0.85, 0.8},
        {"trace3.csv", 1, 0.9, 0.8, 0.8},
        {"trace4.csv", 1, 0.5, 0.8, 0.8},
        {"trace4.csv", 2, 0.9, 0.9, 0.9},
    };
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        muster_delay_trace trace;
        source from;
        open_trace(cases[c].name, &trace, &from);
        layout parts;
        lay_frc(&parts, trace.workers, cases[c].k);
        uint32_t steps = trace.iterations;
        outcome still = run_study(&from, &parts, "none", steps);
        outcome turned = run_study(&from, &parts, "rotate:1", steps);
        outcome target = run_study(&from, &parts, "targeted", steps);
        print_message(
            "%s k=%u: worst part received %.3f, rotate:1 %.3f (%u parts "
            "moved), targeted %.3f (%u)\n",
            cases[c].name, cases[c].k, (double)still.least / steps,
            (double)turned.least / steps, turned.moved,
            (double)target.least / steps, target.moved);
        assert_true(still.least <= cases[c].still_most * steps);
        assert_true(turned.least >= cases[c].turned_least * steps);
        assert_true(target.least >= cases[c].target_least * steps);
        assert_true(target.moved * 10 <= turned.moved);
        muster_delay_trace_fini(&trace);
    }
}

// ---- The targeted shuffle against rotation.

#define DRAWS 4u // of the stragglers, in each setting

/* Mean over the draws, of rotate:1, rotate:30 and targeted. */
typedef struct comparison {
    double lost[3];  // share of steps that lose the worst part
    double moved[3]; // data sets
} comparison;

static comparison compare(const layout *parts, uint32_t slow)
{
    static const char *const policies[] = {"rotate:1", "rotate:30", "targeted"};
    comparison mean = {0};
    for (uint64_t draw = 1; draw <= DRAWS; draw++) {
        source from = make_classes(36, slow, draw);
        outcome out[3];
        for (int p = 0; p < 3; p++) {
            out[p] = run_study(&from, parts, policies[p], STEPS);
            mean.lost[p] += 1.0 / DRAWS - out[p].least / (double)STEPS / DRAWS;
            mean.moved[p] += out[p].moved / 36.0 / DRAWS;
        }
        // Where rotation loses next to nothing, a step or two are luck.
        assert_true(out[2].least + 2 >= out[0].least);
        assert_true(out[2].moved * 20 <= out[0].moved);
        assert_true(out[2].moved <= out[1].moved);
    }
    return mean;
}

static void targeted_beats_rotation_for_a_fraction_of_the_moves(void **state)
{
    (void)state;
    static const uint32_t slows[] = {12, 19, 24};
    print_message("worst part's share of lost steps (data sets moved)\n");
    for (int i = 0; i < 18; i++) {
        bool crc = i >= 9;
        uint32_t k = 2 + (uint32_t)i % 9 / 3;
        uint32_t slow = slows[i % 3];
        layout parts;
        (crc ? lay_crc : lay_frc)(&parts, 36, k);
        comparison is = compare(&parts, slow);
        print_message("%s k=%u, %u slow: rotate:1 %.4f (%.0f), rotate:30 %.4f "
                      "(%.0f), targeted %.4f (%.1f)\n",
                      crc ? "crc" : "frc", k, slow, is.lost[0], is.moved[0],
                      is.lost[1], is.moved[1], is.lost[2], is.moved[2]);
        assert_true(is.lost[2] <= is.lost[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shuffling_spares_the_parts_of_measured_slow_machines),
        cmocka_unit_test(targeted_beats_rotation_for_a_fraction_of_the_moves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
