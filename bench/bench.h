/*
 * bench.h -- how the programs of bench/ report: one row a measurement.
 *
 * A row is a value with its unit beside a baseline measured in the same run,
 * and their ratio. With --json each row is one line on stdout:
 *
 *   {"name": "star_1e5", "value": 0.41, "unit": "ms",
 *    "baseline": "openmpi_tcp", "baseline_value": 1.9, "ratio": 0.216}
 *
 * without it, a line for a person. A value that could not be had is null; so
 * are a baseline that is not there (its program is missing), and the ratio:
 * none is made up.
 *
 *   Ownership    Strings are lent for the call.
 *   Threads      One.
 *   Not here     Timing: muster_clock_ns() of base/clock.h.
 *
 * Header-only, so that a bench program is one file plus this.
 */
#ifndef MUSTER_BENCH_BENCH_H
#define MUSTER_BENCH_BENCH_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bench_row {
    const char *name;      // unique in the program's output
    double value;          // NAN: was not to be had
    const char *unit;      // "ms", "GB/s", "rows/s"
    const char *baseline;  // what it is compared with; NULL: nothing
    double baseline_value; // same unit; NAN: was not to be had
} bench_row;

/* Print the usage and return the exit code: to stdout and 0 where --help asks
 * for it, to stderr and 2 where the command line is wrong. */
static inline int bench_usage(int argc, char **argv, const char *usage)
{
    bool asked = false;
    for (int i = 1; i < argc; i++) {
        asked = asked || strcmp(argv[i], "--help") == 0 ||
                strcmp(argv[i], "-h") == 0;
    }
    if (!asked) {
        fprintf(stderr, "muster: bench: wrong or incomplete:");
        for (int i = 1; i < argc; i++) {
            fprintf(stderr, " %s", argv[i]);
        }
        fprintf(stderr, "\n");
    }
    fprintf(asked ? stdout : stderr, "usage: muster bench %s\n", usage);
    return asked ? 0 : 2;
}

/* A number of JSON, or null. */
static inline void bench_print_number(const char *key, double value, int digits)
{
    if (isfinite(value)) {
        printf("\"%s\": %.*g", key, digits, value);
    } else {
        printf("\"%s\": null", key);
    }
}

static inline void bench_print_json(const bench_row *row, double baseline,
                                    double ratio)
{
    printf("{\"name\": \"%s\", ", row->name);
    bench_print_number("value", row->value, 6);
    printf(", \"unit\": \"%s\"", row->unit);
    if (row->baseline != NULL) {
        printf(", \"baseline\": \"%s\", ", row->baseline);
    } else {
        printf(", \"baseline\": null, ");
    }
    bench_print_number("baseline_value", baseline, 6);
    printf(", ");
    bench_print_number("ratio", ratio, 4);
    printf("}\n");
}

/* Print one row and flush it. ratio = value / baseline_value: below 1 is
 * better where the value is a time, above 1 where it is a rate. */
static inline void bench_print(const bench_row *row, bool json)
{
    bool compared = row->baseline != NULL && isfinite(row->baseline_value) &&
                    row->baseline_value != 0.0;
    double ratio = compared ? row->value / row->baseline_value : NAN;
    if (json) {
        bench_print_json(row, compared ? row->baseline_value : NAN, ratio);
    } else if (compared) {
        printf("%-24s %10.4g %-6s %-16s %10.4g %-6s ratio %.3f\n", row->name,
               row->value, row->unit, row->baseline, row->baseline_value,
               row->unit, ratio);
    } else {
        printf("%-24s %10.4g %-6s %s\n", row->name, row->value, row->unit,
               row->baseline != NULL ? "(no baseline here)" : "");
    }
    fflush(stdout);
}

static inline int bench_order(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

/* The median; sorts `values`. NAN of none. */
static inline double bench_median(double *values, size_t count)
{
    if (count == 0) {
        return NAN;
    }
    qsort(values, count, sizeof(values[0]), bench_order);
    return count % 2 == 1 ? values[count / 2]
                          : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

#endif // MUSTER_BENCH_BENCH_H
