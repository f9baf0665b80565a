/*
 * choose.c -- the best of some draws, and what to warn of.
 */
#include "code/choose.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "code/sets.h"

/* Sets tried per code: at most `most`, fewer where one costs much. A decode
 * costs about n s (s + load); that of a large approximate code iterates. */
static uint64_t sets_worth_trying(const muster_code *code, double sets_max)
{
    double cost = (double)code->info.workers * (code->info.stragglers + 1.0) *
                  (code->info.stragglers + code->info.load + 1.0);
    double afford = code->info.exact ? 3e7 / cost : 2e5 / cost;
    double sets_min = code->info.exact ? 24.0 : 1.0;
    afford = afford < sets_max ? afford : sets_max;
    return (uint64_t)(afford > sets_min ? afford : sets_min);
}

/* Draws of a large approximate code differ by percents of their residual, and
 * one set is a sample of it: to choose, a rough solve does. */
#define SETTLE 1e-4

/* Larger is worse. */
static muster_status demerit(const muster_code *code, double *demerit_out)
{
    muster_code_survey survey;
    muster_status status = muster_code_survey_run(
        code, sets_worth_trying(code, 200), 1, SETTLE, &survey);
    *demerit_out = survey.error_worst + survey.residual_worst;
    return status;
}

/* The demerit of one draw, INFINITY when it cannot be built. */
static muster_status try_draw(const muster_code *like,
                              const muster_code_spec *spec, uint32_t draw,
                              muster_code_draw build, double *demerit_out)
{
    muster_code *code = muster_mem_array(1, sizeof(*code));
    if (code == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    muster_code_start(code, like->ops, spec);
    muster_status status = build(code, spec, draw, NULL);
    *demerit_out = INFINITY;
    if (status == MUSTER_OK) {
        status = demerit(code, demerit_out);
    } else if (status == MUSTER_ERR_INVALID) {
        status = MUSTER_OK;
    }
    muster_code_free(code);
    return status;
}

muster_status muster_code_keep_best(muster_code *code,
                                    const muster_code_spec *spec,
                                    uint32_t draws, muster_code_draw build,
                                    muster_error *error)
{
    uint32_t best = 0;
    double error_min = INFINITY;
    for (uint32_t draw = 0; draws > 1 && draw < draws; draw++) {
        double now;
        muster_status status = try_draw(code, spec, draw, build, &now);
        if (status == MUSTER_ERR_NO_MEMORY) {
            return status;
        }
        if (status != MUSTER_OK) {
            break; // the numbers are illegal: let the last build say so
        }
        if (now < error_min) {
            error_min = now;
            best = draw;
        }
    }
    return build(code, spec, best, error);
}

muster_status muster_code_judge(muster_code *code, const muster_code_spec *spec,
                                bool always, const char *instead,
                                muster_error *error)
{
    muster_code_survey survey;
    muster_status status = muster_code_survey_run(
        code, sets_worth_trying(code, 400), 2, 0.0, &survey);
    if (status != MUSTER_OK) {
        return status;
    }
    if (2 * survey.sets_inexact > survey.sets_checked && !spec->force) {
        return muster_error_set(
            error, MUSTER_ERR_UNSUPPORTED,
            "%s with n = %u, s = %u, m = %u loses its gradient to rounding "
            "(off by %.1e in double); use %s, or force=1 to look at it",
            code->name, code->info.workers, code->info.stragglers,
            code->info.comm, survey.residual_worst, instead);
    }
    double worst = survey.error_worst + survey.residual_worst;
    if (always || !(worst <= MUSTER_CODE_ERROR_LIMIT)) {
        snprintf(code->warning, sizeof(code->warning),
                 "%s with n = %u, s = %u may be off by %.1e of the gradient in "
                 "float32 (worst of %llu straggler sets); use %s",
                 code->name, code->info.workers, code->info.stragglers, worst,
                 (unsigned long long)survey.sets_checked, instead);
    }
    return MUSTER_OK;
}

void muster_code_warn(muster_code *code, const char *format, ...)
{
    size_t length = strlen(code->warning);
    const char *between = length > 0 ? "; " : "";
    va_list arguments;
    va_start(arguments, format);
    char text[sizeof(code->warning)];
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    (void)snprintf(code->warning + length, sizeof(code->warning) - length,
                   "%s%s", between, text);
}

muster_status muster_code_dense_only(const muster_code_spec *spec,
                                     muster_error *error)
{
    if (spec->workers > MUSTER_CODE_WORKERS_DENSE_MAX) {
        return muster_error_set(error, MUSTER_ERR_UNSUPPORTED,
                                "%s: %u workers; up to %u with its dense "
                                "solves, group codes (frc, linear:*) go "
                                "to %u",
                                spec->family, spec->workers,
                                MUSTER_CODE_WORKERS_DENSE_MAX,
                                MUSTER_CODE_WORKERS_MAX);
    }
    return MUSTER_OK;
}

muster_status muster_code_settle_dense(muster_code_spec *spec,
                                       const char *known, muster_error *error)
{
    muster_status status = muster_code_spec_settle(spec, known, error);
    return status == MUSTER_OK ? muster_code_dense_only(spec, error) : status;
}

muster_status muster_code_read_draws(const muster_code_spec *spec,
                                     muster_error *error, uint32_t *draws_out)
{
    *draws_out = MUSTER_CODE_DRAWS;
    return muster_code_spec_option_number(spec, "draws", 1, 10000, error,
                                          draws_out);
}
