/*
 * linear.c -- the plain kinds of linear codes: repetition, single parity check,
 * hamming, and the MDS codes gaussian and vandermonde.
 */
#include "code/families/linear.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "code/choose.h"
#include "code/families/families.h"
#include "code/generator.h"

#define PI 3.14159265358979323846

#define STREAM_GAUSSIAN 0x6a55

/* Sets looked at to choose among draws. */
#define DRAW_SETS 500u

void muster_linear_repeat(double *generator, uint32_t rows, uint32_t known,
                          uint32_t workers)
{
    for (uint32_t u = 0; u < rows; u++) {
        double *row = generator + (size_t)u * workers;
        for (uint32_t r = known; r < workers; r++) {
            row[r] = row[r - known];
        }
    }
}

/* ---- repetition [s+1, 1]: frc without the divisibility ------------------- */

static muster_status repetition_build(muster_code *code,
                                      const muster_code_spec *given,
                                      muster_error *error)
{
    muster_code_spec spec = *given;
    muster_status status = muster_code_spec_settle(&spec, "", error);
    if (status != MUSTER_OK) {
        return status;
    }
    muster_group_plan plan = {.length = spec.stragglers + 1,
                              .blocks = 1,
                              .stragglers = spec.stragglers,
                              .any_blocks_do = true,
                              .generate = muster_group_ones,
                              .by_speed = true};
    return muster_group_build(code, &spec, &plan, error);
}

const muster_code_ops muster_code_linear_repetition = MUSTER_LINEAR_OPS(
    "repetition", repetition_build, "any s < n; m = 1", "always");

/* ---- spc: single parity check [m+1, m, 2] -------------------------------- */

/* Columns e_0..e_(m-1) and their sum. */
static muster_status spc_generate(void *context, uint32_t workers,
                                  double *generator_out, muster_error *error)
{
    uint32_t m = *(const uint32_t *)context;
    (void)error;
    for (uint32_t u = 0; u < m; u++) {
        double *row = generator_out + (size_t)u * workers;
        memset(row, 0, workers * sizeof(double));
        row[u] = 1.0;
        row[m] = 1.0;
    }
    muster_linear_repeat(generator_out, m, m + 1, workers);
    return MUSTER_OK;
}

static muster_status spc_build(muster_code *code, const muster_code_spec *spec,
                               muster_error *error)
{
    muster_status status = muster_code_spec_accept(spec, "", error);
    if (status != MUSTER_OK) {
        return status;
    }
    uint32_t m = spec->comm > 0 ? spec->comm : 2;
    if (spec->stragglers > 1 || (spec->load > 0 && spec->load != m + 1)) {
        return muster_error_set(error, MUSTER_ERR_UNSUPPORTED,
                                "linear:spc has s = 1 and d = m + 1; for more "
                                "stragglers use linear:tuned");
    }
    if (m >= spec->workers) {
        return muster_error_set(error, MUSTER_ERR_UNSUPPORTED,
                                "linear:spc: m = %u needs at least %u workers, "
                                "there are %u",
                                m, m + 1, spec->workers);
    }
    muster_group_plan plan = {.length = m + 1,
                              .blocks = m,
                              .stragglers = 1,
                              .any_blocks_do = false,
                              .generate = spc_generate,
                              .context = &m,
                              .by_speed = true};
    return muster_group_build(code, spec, &plan, error);
}

const muster_code_ops muster_code_linear_spc = MUSTER_LINEAR_OPS(
    "spc", spc_build, "s = 1, n > m; m = 2 unless given", "always");

/* ---- hamming [2^r - 1, 2^r - 1 - r, 3] ----------------------------------- */

/* Systematic: data columns first, then parity column b holds a 1 for every data
 * row whose number among the words of weight >= 2 has bit b set. Read over the
 * reals the distance stays 3: no two such words are multiples of each other. */
static muster_status hamming_generate(void *context, uint32_t workers,
                                      double *generator_out,
                                      muster_error *error)
{
    uint32_t bits = *(const uint32_t *)context;
    uint32_t length = (1u << bits) - 1;
    uint32_t m = length - bits;
    (void)error;
    uint32_t row_number = 0;
    for (uint32_t word = 1; word <= length; word++) {
        if ((word & (word - 1)) == 0) {
            continue;
        }
        double *row = generator_out + (size_t)row_number * workers;
        memset(row, 0, workers * sizeof(double));
        row[row_number++] = 1.0;
        for (uint32_t b = 0; b < bits; b++) {
            row[m + b] = (word >> b) & 1u ? 1.0 : 0.0;
        }
    }
    muster_linear_repeat(generator_out, m, length, workers);
    return MUSTER_OK;
}

static muster_status hamming_build(muster_code *code,
                                   const muster_code_spec *spec,
                                   muster_error *error)
{
    muster_status status = muster_code_spec_accept(spec, "", error);
    if (status != MUSTER_OK) {
        return status;
    }
    uint32_t m = spec->comm > 0 ? spec->comm : 4;
    uint32_t bits = 2;
    while (bits < 10 && (1u << bits) - 1 - bits != m) {
        bits++;
    }
    uint32_t length = (1u << bits) - 1;
    if (length - bits != m || spec->stragglers > 2 ||
        (spec->load > 0 && spec->load != length)) {
        return muster_error_set(
            error, MUSTER_ERR_UNSUPPORTED,
            "linear:hamming has s = 2 and [d, m] = [3, 1], [7, 4], [15, 11], "
            "[31, 26], ..; for s = %u, m = %u use linear:tuned",
            spec->stragglers, m);
    }
    muster_group_plan plan = {.length = length,
                              .blocks = m,
                              .stragglers = 2,
                              .any_blocks_do = false,
                              .generate = hamming_generate,
                              .context = &bits,
                              .by_speed = true};
    return muster_group_build(code, spec, &plan, error);
}

const muster_code_ops muster_code_linear_hamming = MUSTER_LINEAR_OPS(
    "hamming", hamming_build,
    "s = 2; m = 4 (n >= 7) unless given: 1, 4, 11, 26, ..", "always");

/* ---- MDS kinds ----------------------------------------------------------- */

typedef struct mds_context {
    uint32_t m;
    uint32_t draws;
    uint64_t seed;
} mds_context;

static void draw_gaussian(const mds_context *context, uint32_t draw,
                          const muster_generator *generator)
{
    muster_rng rng = muster_rng_make(context->seed, STREAM_GAUSSIAN + draw);
    size_t count = (size_t)generator->rows * generator->columns;
    for (size_t i = 0; i < count; i++) {
        generator->entries[i] = muster_rng_normal(&rng);
    }
}

/* The best of the draws by its worst predicted error. */
static muster_status gaussian_generate(void *memory, uint32_t workers,
                                       double *generator_out,
                                       muster_error *error)
{
    const mds_context *context = memory;
    muster_generator generator = {context->m, workers, generator_out};
    uint32_t best = 0;
    double error_min = INFINITY;
    (void)error;
    for (uint32_t draw = 0; context->draws > 1 && draw < context->draws;
         draw++) {
        muster_generator_survey survey;
        draw_gaussian(context, draw, &generator);
        muster_status status = muster_generator_survey_run(
            &generator, context->m, DRAW_SETS, &survey);
        if (status != MUSTER_OK) {
            return status;
        }
        if (survey.error_worst < error_min) {
            error_min = survey.error_worst;
            best = draw;
        }
    }
    draw_gaussian(context, best, &generator);
    return MUSTER_OK;
}

/* Powers of Chebyshev points, the best real ones. */
static muster_status vandermonde_generate(void *memory, uint32_t workers,
                                          double *generator_out,
                                          muster_error *error)
{
    const mds_context *context = memory;
    (void)error;
    for (uint32_t r = 0; r < workers; r++) {
        double point = cos(PI * (2.0 * r + 1.0) / (2.0 * workers));
        double power = 1.0;
        for (uint32_t u = 0; u < context->m; u++) {
            generator_out[(size_t)u * workers + r] = power;
            power *= point;
        }
    }
    return MUSTER_OK;
}

static muster_status tuned_generate(void *memory, uint32_t workers,
                                    double *generator_out, muster_error *error)
{
    const mds_context *context = memory;
    (void)error;
    muster_linear_tuned_generator(context->m, workers, generator_out);
    return MUSTER_OK;
}

/* rest=groups has groups larger than d in place of a cyclic rest. `text` has
 * room for the rest's name with its parameters. */
static muster_status choose_rest(const muster_code_spec *spec,
                                 muster_group_plan *plan, uint32_t draws,
                                 muster_error *error, char text[64])
{
    const char *rest = muster_code_spec_option_get(spec, "rest");
    bool groups = rest != NULL && strcmp(rest, "groups") == 0;
    if (rest != NULL && !groups && strcmp(rest, "cyclic") != 0) {
        return muster_error_set(error, MUSTER_ERR_INVALID,
                                "%s: rest=%s; it is cyclic (the least load) or "
                                "groups (larger ones, which tolerate more)",
                                spec->family, rest);
    }
    bool draw = muster_code_spec_option_get(spec, "draws") != NULL;
    (void)snprintf(text, 64, draw ? "%s:draws=%u" : "%s", plan->rest, draws);
    plan->rest = groups ? NULL : text;
    return MUSTER_OK;
}

static muster_status mds_build(muster_code *code, const muster_code_spec *given,
                               const char *options,
                               const muster_group_plan *like,
                               muster_error *error)
{
    muster_code_spec spec = *given;
    muster_group_plan plan = *like;
    mds_context context = {.seed = spec.seed};
    char rest[64];
    muster_status status = muster_code_spec_accept(&spec, options, error);
    if (status == MUSTER_OK) {
        status = muster_code_read_draws(&spec, error, &context.draws);
    }
    if (status == MUSTER_OK) {
        status = choose_rest(&spec, &plan, context.draws, error, rest);
    }
    if (status == MUSTER_OK) {
        status = muster_code_spec_balance(&spec, error);
    }
    if (status == MUSTER_OK && spec.load > MUSTER_CODE_WORKERS_DENSE_MAX &&
        spec.comm > 1) {
        status = muster_error_set(
            error, MUSTER_ERR_UNSUPPORTED, "%s: groups of %u workers; up to %u",
            spec.family, spec.load, MUSTER_CODE_WORKERS_DENSE_MAX);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    context.m = spec.comm;
    plan.length = spec.load;
    plan.blocks = spec.comm;
    plan.stragglers = spec.load - spec.comm;
    plan.any_blocks_do = true;
    plan.context = &context;
    plan.by_speed = true;
    return muster_group_build(code, &spec, &plan, error);
}

static muster_status gaussian_build(muster_code *code,
                                    const muster_code_spec *spec,
                                    muster_error *error)
{
    muster_group_plan plan = {.generate = gaussian_generate,
                              .instead = "linear:tuned, or a smaller m",
                              .rest = "ye-abbe-random"};
    return mds_build(code, spec, "draws,rest", &plan, error);
}

static muster_status vandermonde_build(muster_code *code,
                                       const muster_code_spec *spec,
                                       muster_error *error)
{
    muster_group_plan plan = {.generate = vandermonde_generate,
                              .instead = "linear:tuned, or a smaller m",
                              .rest = "ye-abbe"};
    return mds_build(code, spec, "rest", &plan, error);
}

static muster_status tuned_build(muster_code *code,
                                 const muster_code_spec *spec,
                                 muster_error *error)
{
    muster_group_plan plan = {.generate = tuned_generate,
                              .instead = "a smaller m or s",
                              .rest = "ye-abbe-tuned"};
    return mds_build(code, spec, "rest", &plan, error);
}

const muster_code_ops muster_code_linear_gaussian =
    MUSTER_LINEAR_OPS("gaussian", gaussian_build, "d = s + m <= n", "d <= 10",
                      .condition_bound = muster_group_condition_bound);

const muster_code_ops muster_code_linear_vandermonde = MUSTER_LINEAR_OPS(
    "vandermonde", vandermonde_build, "d = s + m <= n", "d <= 10");

const muster_code_ops muster_code_linear_tuned = MUSTER_LINEAR_OPS(
    "tuned", tuned_build, "d = s + m <= n", "d <= 20; m <= 4 any d <= 60");
