/*
 * combine.c -- weighted sums at the speed of memory.
 *
 * What limits this is not arithmetic but how many cache lines are under way
 * from memory, and those are asked for by the processor's own prefetchers. They
 * follow a dozen or so streams, each in ascending order; and rows that begin at
 * the same place of a page, as large buffers do, meet in the same eight ways of
 * the first cache. So:
 *  1. Up to seven rows walk side by side, a chunk of 512 bytes of each in turn.
 *  2. More rows walk in groups of up to seven, each group over a long run (384
 *     KiB of each row) before the next takes its turn, because every turn costs
 *     the prefetchers a new start. The sums of a run wait in the second cache.
 *  3. Two rows at a time share one load and store of the sums, of which the
 *     first two need no load and the last two no store.
 * Left out after measuring: tiles that fit the first cache with explicit
 * prefetching (two thirds of the speed from 16 rows on), AVX-512 (slower here
 * than AVX2).
 *
 * The compiler vectorises the plain loops; they are compiled twice on x86-64,
 * for the baseline and for AVX2, because the wider conversion float -> double
 * is what reaches memory speed. Neither version may fuse a product with a sum
 * (no FMA): the bits stay the same.
 */
#include "linalg/combine.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/assert.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define COMBINE_AVX2 1
#endif

/* Compiled into each of its callers, for that caller's instruction set. */
#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static inline
#endif

#define CHUNK 128u // floats of a row in one turn
#define LANES 32u  // partial sums of squares

/* One group of rows over one run of coordinates. */
typedef struct group_pass {
    muster_combine_rows rows;
    size_t from;
    size_t length;
    double *sums; // of the run so far; NULL: this group is all there is
    bool is_first;
    float *out; // at `from`; NULL: more groups follow
} group_pass;

/* Two rows, or one and none, over a chunk. */
typedef struct row_pair {
    const float *a;
    const float *b; // NULL: none
    double wa;
    double wb;
} row_pair;

INLINE void add_pair(row_pair pair, size_t length, bool is_first,
                     double *restrict sums, float *restrict out)
{
    for (size_t t = 0; t < length; t++) {
        double sum = is_first ? 0.0 : sums[t];
        sum = sum + pair.wa * (double)pair.a[t];
        if (pair.b != NULL) {
            sum = sum + pair.wb * (double)pair.b[t];
        }
        if (out != NULL) {
            out[t] = (float)sum;
        } else {
            sums[t] = sum;
        }
    }
}

/* The first rows do not read sums and the last ones do not write them: four
 * loops, each without a question. */
INLINE void add_between(row_pair pair, size_t length, bool is_first,
                        double *restrict sums, float *restrict out)
{
    if (is_first && out != NULL) {
        add_pair(pair, length, true, sums, out);
    } else if (is_first) {
        add_pair(pair, length, true, sums, NULL);
    } else if (out != NULL) {
        add_pair(pair, length, false, sums, out);
    } else {
        add_pair(pair, length, false, sums, NULL);
    }
}

INLINE void add_squares(float *restrict lanes, const float *x, size_t length)
{
    for (size_t from = 0; from < length; from += LANES) {
        size_t left = length - from;
        size_t some = left < LANES ? left : LANES;
        for (size_t l = 0; l < some; l++) {
            lanes[l] += x[from + l] * x[from + l];
        }
    }
}

/* In double, for a row whose squares overflow a float. */
static double slow_squares(const group_pass *pass, uint32_t row)
{
    const float *x = pass->rows.rows[row] + pass->from;
    double sum = 0.0;
    for (size_t t = 0; t < pass->length; t++) {
        sum += (double)x[t] * (double)x[t];
    }
    return sum;
}

/* A chunk of a group, and where its sums come from and go to. */
typedef struct chunk_pass {
    const muster_combine_rows *input;
    size_t at;
    double *sums;
    bool is_first;
    float *out; // NULL: to the sums
} chunk_pass;

INLINE void add_chunk(const chunk_pass *pass, size_t length,
                      float (*restrict lanes)[LANES])
{
    const muster_combine_rows *input = pass->input;
    for (uint32_t i = 0; i < input->count; i += 2) {
        const float *a = input->rows[i] + pass->at;
        bool is_first = pass->is_first && i == 0;
        float *out = i + 2 >= input->count ? pass->out : NULL;
        if (i + 1 < input->count) {
            const float *b = input->rows[i + 1] + pass->at;
            row_pair both = {a, b, input->weights[i], input->weights[i + 1]};
            add_between(both, length, is_first, pass->sums, out);
            if (input->squares != NULL) {
                add_squares(lanes[i + 1], b, length);
            }
        } else {
            row_pair one = {.a = a, .wa = input->weights[i]};
            add_between(one, length, is_first, pass->sums, out);
        }
        if (input->squares != NULL) {
            add_squares(lanes[i], a, length);
        }
    }
}

INLINE void add_group(const group_pass *pass)
{
    float lanes[MUSTER_COMBINE_TOGETHER][LANES] = {{0}};
    double few[CHUNK];
    const muster_combine_rows rows = pass->rows;
    for (size_t done = 0; done < pass->length; done += CHUNK) {
        size_t left = pass->length - done;
        size_t length = left < CHUNK ? left : CHUNK;
        const chunk_pass chunk = {
            .input = &rows,
            .at = pass->from + done,
            .sums = pass->sums != NULL ? pass->sums + done : few,
            .is_first = pass->is_first,
            .out = pass->out != NULL ? pass->out + done : NULL};
        if (length == CHUNK) { // a constant, for the compiler
            add_chunk(&chunk, CHUNK, lanes);
        } else {
            add_chunk(&chunk, length, lanes);
        }
    }
    for (uint32_t i = 0; rows.squares != NULL && i < rows.count; i++) {
        double sum = 0.0;
        for (size_t l = 0; l < LANES; l++) {
            sum += (double)lanes[i][l];
        }
        rows.squares[i] += isfinite(sum) ? sum : slow_squares(pass, i);
    }
}

static void add_group_plain(const group_pass *pass)
{
    add_group(pass);
}

#ifdef COMBINE_AVX2
__attribute__((target("avx2"))) static void
add_group_avx2(const group_pass *pass)
{
    add_group(pass);
}
#endif

static void run_pass(const group_pass *pass)
{
#ifdef COMBINE_AVX2
    if (__builtin_cpu_supports("avx2")) {
        add_group_avx2(pass);
        return;
    }
#endif
    add_group_plain(pass);
}

static void combine_together(const muster_combine_rows *input, size_t from,
                             size_t length, float *out)
{
    const group_pass pass = {.rows = *input,
                             .from = from,
                             .length = length,
                             .is_first = true,
                             .out = out};
    run_pass(&pass);
}

/* Group after group, all of about equal size. */
static void combine_in_groups(const muster_combine_rows *input, size_t from,
                              size_t length, double *scratch, float *out)
{
    uint32_t groups = input->count / MUSTER_COMBINE_TOGETHER +
                      (input->count % MUSTER_COMBINE_TOGETHER != 0);
    for (uint32_t g = 0; g < groups; g++) {
        uint32_t first = (uint32_t)((uint64_t)input->count * g / groups);
        uint32_t last = (uint32_t)((uint64_t)input->count * (g + 1) / groups);
        const group_pass pass = {
            .rows = {input->rows + first, input->weights + first,
                     input->squares != NULL ? input->squares + first : NULL,
                     last - first},
            .from = from,
            .length = length,
            .sums = scratch,
            .is_first = g == 0,
            .out = g + 1 == groups ? out : NULL,
        };
        run_pass(&pass);
    }
}

void muster_combine_add(const muster_combine_rows *input,
                        const muster_combine_group *group)
{
    MUSTER_ASSERT(input->count > 0 && input->count <= MUSTER_COMBINE_TOGETHER);
    const group_pass pass = {.rows = *input,
                             .from = group->begin,
                             .length = group->length,
                             .sums = group->sums,
                             .is_first = group->is_first,
                             .out = group->out};
    run_pass(&pass);
}

void muster_combine(const muster_combine_rows *input, size_t begin, size_t end,
                    double *scratch, float *out)
{
    MUSTER_ASSERT(scratch != NULL || input->count <= MUSTER_COMBINE_TOGETHER);
    if (input->count == 0 && end > begin) {
        memset(out + begin, 0, (end - begin) * sizeof(float));
        return;
    }
    for (size_t at = begin; at < end; at += MUSTER_COMBINE_RUN) {
        size_t left = end - at;
        size_t length = left < MUSTER_COMBINE_RUN ? left : MUSTER_COMBINE_RUN;
        if (input->count > MUSTER_COMBINE_TOGETHER) {
            combine_in_groups(input, at, length, scratch, out + at);
        } else {
            combine_together(input, at, length, out + at);
        }
    }
}
