/*
 * bench_frames.c -- searches generators of linear:tuned: `muster bench frames`.
 *
 * For every [n', k'] it starts from the harmonic frame and from random ones and
 * moves one column at a time, downhill in the sum of condition^power over all
 * choices of k' columns; a growing power makes that sum follow the worst. A row
 * compares the worst condition found with the harmonic frame's. With --table it
 * prints, instead, the frames that are at least 3 % better, in the form of
 * src/code/families/linear_table.c.
 *
 *   muster bench frames [--json] [--table] [--seconds S] [--from N] [--to N]
 *                       [--rows K]
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/dot.h"
#include "base/rng.h"
#include "bench.h"
#include "code/frame.h"

#define COLUMNS_MAX 16u
#define CHOICES_MAX 12870u

typedef struct search {
    uint32_t columns; // n'
    uint32_t rows;    // k'
    uint32_t choice_count;
    uint16_t *choices;                      // bit masks of columns
    double *conditions;                     // per choice, of the current frame
    double *fresh;                          // per choice, of the move
    double frame[COLUMNS_MAX][COLUMNS_MAX]; // column by column
} search;

typedef struct frames_options {
    bool json;
    bool table;
    double seconds;
    uint32_t from;
    uint32_t to;
    uint32_t rows; // 0: all
} frames_options;

typedef struct chosen {
    double columns[COLUMNS_MAX][COLUMNS_MAX];
    uint32_t count;
} chosen;

/* Make columns p and q orthogonal; returns how far they were from it. */
static double rotate(chosen *a, uint32_t p, uint32_t q)
{
    double *x = a->columns[p];
    double *y = a->columns[q];
    double xx = muster_dot_f64(x, x, a->count);
    double yy = muster_dot_f64(y, y, a->count);
    double xy = muster_dot_f64(x, y, a->count);
    if (xy * xy <= 1e-20 * xx * yy) {
        return 0.0;
    }
    double zeta = (yy - xx) / (2.0 * xy);
    double t = copysign(1.0, zeta) / (fabs(zeta) + hypot(1.0, zeta));
    double c = 1.0 / sqrt(1.0 + t * t);
    for (uint32_t i = 0; i < a->count; i++) {
        double left = x[i];
        x[i] = c * (left - t * y[i]);
        y[i] = c * (t * left + y[i]);
    }
    return xy * xy / (xx * yy);
}

/* Condition by one-sided Jacobi on the chosen columns. */
static double condition_of(const search *s, uint32_t choice)
{
    chosen a = {{{0.0}}, 0};
    for (uint32_t c = 0; c < s->columns; c++) {
        if ((choice >> c) & 1u) {
            memcpy(a.columns[a.count++], s->frame[c], s->rows * sizeof(double));
        }
    }
    double worst = 1.0;
    for (int sweep = 0; sweep < 12 && worst >= 1e-10; sweep++) {
        worst = 0.0;
        for (uint32_t p = 0; p + 1 < a.count; p++) {
            for (uint32_t q = p + 1; q < a.count; q++) {
                worst = fmax(worst, rotate(&a, p, q));
            }
        }
    }
    double high = 0.0;
    double low = INFINITY;
    for (uint32_t p = 0; p < a.count; p++) {
        double norm = muster_dot_f64(a.columns[p], a.columns[p], a.count);
        high = fmax(high, norm);
        low = fmin(low, norm);
    }
    return low > 0.0 ? sqrt(high / low) : INFINITY;
}

static void list_choices(search *s)
{
    s->choice_count = 0;
    for (uint32_t mask = 0; mask < 1u << s->columns; mask++) {
        uint32_t bits = 0;
        for (uint32_t c = 0; c < s->columns; c++) {
            bits += (mask >> c) & 1u;
        }
        if (bits == s->rows) {
            s->choices[s->choice_count++] = (uint16_t)mask;
        }
    }
}

/* The sum of powers, relative to `scale` so that it cannot overflow. */
static double penalty(const search *s, const double *conditions, double scale,
                      double power)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < s->choice_count; i++) {
        sum += pow(conditions[i] / scale, power);
    }
    return sum;
}

static double worst_of(const search *s)
{
    double worst = 0.0;
    for (uint32_t i = 0; i < s->choice_count; i++) {
        worst = fmax(worst, s->conditions[i]);
    }
    return worst;
}

static void evaluate(search *s)
{
    for (uint32_t i = 0; i < s->choice_count; i++) {
        s->conditions[i] = condition_of(s, s->choices[i]);
    }
}

/* Try to move one column; true when that was downhill. */
static bool move_column(search *s, muster_rng *rng, double size, double power)
{
    uint32_t column = (uint32_t)muster_rng_below(rng, s->columns);
    double kept[COLUMNS_MAX];
    double scale = worst_of(s);
    memcpy(kept, s->frame[column], sizeof(kept));
    for (uint32_t u = 0; u < s->rows; u++) {
        s->frame[column][u] += size * muster_rng_normal(rng);
    }
    for (uint32_t i = 0; i < s->choice_count; i++) {
        bool touched = (s->choices[i] >> column) & 1u;
        s->fresh[i] =
            touched ? condition_of(s, s->choices[i]) : s->conditions[i];
    }
    if (penalty(s, s->fresh, scale, power) <
        penalty(s, s->conditions, scale, power)) {
        memcpy(s->conditions, s->fresh, s->choice_count * sizeof(double));
        return true;
    }
    memcpy(s->frame[column], kept, sizeof(kept));
    return false;
}

static void start(search *s, muster_rng *rng, uint32_t number)
{
    static const double levels[3] = {10.0, 0.1, 0.4};
    double noise = number == 0 ? 0.0 : levels[number % 3];
    for (uint32_t c = 0; c < s->columns; c++) {
        double size = 0.0;
        for (uint32_t u = 0; u < s->rows; u++) {
            s->frame[c][u] = muster_frame_entry(s->rows, s->columns, u, c) +
                             noise * muster_rng_normal(rng);
            size += s->frame[c][u] * s->frame[c][u];
        }
        for (uint32_t u = 0; u < s->rows; u++) {
            s->frame[c][u] *= sqrt(s->rows / (2.0 * size));
        }
    }
    evaluate(s);
}

/* Walk downhill from one start until steps are tiny or time is up. */
static void descend(search *s, muster_rng *rng, double power, int64_t until_ns)
{
    double size = power < 10.0 ? 0.3 : 0.02;
    uint32_t refused = 0;
    while (size > 1e-5 && muster_clock_ns() < until_ns) {
        if (move_column(s, rng, size, power)) {
            refused = 0;
            size *= 1.1;
        } else if (++refused > 3 * s->columns) {
            size *= 0.6;
            refused = 0;
        }
    }
}

static void print_table(const search *s, double frame[][COLUMNS_MAX],
                        double condition, double harmonic)
{
    printf("// [%u, %u]: %.2f, harmonic %.2f\n%u, %u,\n", s->columns, s->rows,
           condition, harmonic, s->columns, s->rows);
    double max = 0.0;
    for (uint32_t c = 0; c < s->columns; c++) {
        for (uint32_t u = 0; u < s->rows; u++) {
            max = fmax(max, fabs(frame[c][u]));
        }
    }
    for (uint32_t c = 0; c < s->columns; c++) {
        for (uint32_t u = 0; u < s->rows; u++) {
            printf("%ld, ", lround(9999.0 * frame[c][u] / max));
        }
        printf("\n");
    }
    fflush(stdout);
}

static void run_one(search *s, const frames_options *options)
{
    static double best_frame[COLUMNS_MAX][COLUMNS_MAX];
    muster_rng rng = muster_rng_make(s->columns * 100 + s->rows, 0xf7a);
    int64_t until =
        muster_clock_ns() + (int64_t)(options->seconds * MUSTER_NS_PER_S);
    list_choices(s);
    start(s, &rng, 0);
    double harmonic = worst_of(s);
    double best = harmonic;
    memcpy(best_frame, s->frame, sizeof(best_frame));
    for (uint32_t number = 0; muster_clock_ns() < until; number++) {
        start(s, &rng, number);
        static const double powers[] = {8.0, 24.0, 72.0, 216.0};
        for (size_t i = 0; i < sizeof(powers) / sizeof(powers[0]); i++) {
            descend(s, &rng, powers[i], until);
        }
        if (worst_of(s) < best) {
            best = worst_of(s);
            memcpy(best_frame, s->frame, sizeof(best_frame));
        }
    }
    if (options->table) {
        if (best < 0.97 * harmonic) {
            print_table(s, best_frame, best, harmonic);
        }
        return;
    }
    char name[32];
    snprintf(name, sizeof(name), "frame_%u_%u", s->columns, s->rows);
    bench_row row = {name, best, "cond", "harmonic", harmonic};
    bench_print(&row, options->json);
}

static bool take_number(const char *text, double *value_out)
{
    char *end = NULL;
    *value_out = strtod(text, &end);
    return end != text && *end == '\0' && *value_out >= 0.0;
}

static bool parse(int argc, char **argv, frames_options *out)
{
    *out = (frames_options){false, false, 1.0, 5, 12, 0};
    for (int i = 1; i < argc; i++) {
        double value = 0.0;
        if (strcmp(argv[i], "--json") == 0) {
            out->json = true;
            continue;
        }
        if (strcmp(argv[i], "--table") == 0) {
            out->table = true;
            continue;
        }
        if (i + 1 == argc || !take_number(argv[i + 1], &value)) {
            return false;
        }
        const char *name = argv[i++];
        if (strcmp(name, "--seconds") == 0) {
            out->seconds = value;
        } else if (strcmp(name, "--from") == 0) {
            out->from = (uint32_t)value;
        } else if (strcmp(name, "--to") == 0) {
            out->to = (uint32_t)value;
        } else if (strcmp(name, "--rows") == 0) {
            out->rows = (uint32_t)value;
        } else {
            return false;
        }
    }
    return out->from >= 3 && out->to <= COLUMNS_MAX;
}

int main(int argc, char **argv)
{
    frames_options options;
    static uint16_t choices[CHOICES_MAX];
    static double conditions[CHOICES_MAX];
    static double fresh[CHOICES_MAX];
    static search s;
    if (!parse(argc, argv, &options)) {
        return bench_usage(argc, argv,
                           "frames [--json] [--table] [--seconds S] [--from N] "
                           "[--to N] [--rows K]");
    }
    s.choices = choices;
    s.conditions = conditions;
    s.fresh = fresh;
    for (s.columns = options.from; s.columns <= options.to; s.columns++) {
        for (s.rows = 2; s.rows < s.columns; s.rows++) {
            if (options.rows == 0 || options.rows == s.rows) {
                run_one(&s, &options);
            }
        }
    }
    return 0;
}
