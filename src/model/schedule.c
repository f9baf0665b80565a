/*
 * Schedules: parsed once, then a factor per step without state, so that a
 * resumed run and every process agree.
 */
#include "model/schedule.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "base/spec.h"
#include "base/suggest.h"

#define STEPS_MAX 1e15

static const double pi = 3.14159265358979323846;

#define FIELD(label, form, member, from, to)                              \
    {                                                                     \
        (label), (form), offsetof(muster_schedule, member), (from), (to), \
            NULL, false                                                   \
    }
#define WARMUP FIELD("warmup", MUSTER_SPEC_UINT64, warmup, 0, STEPS_MAX)

/* A row a kind, by muster_schedule_kind. */
static const struct {
    const char *name;
    muster_spec_field fields[4];
} kinds[] = {
    {"constant", {WARMUP, {.name = NULL}}},
    {"step",
     {WARMUP,
      {"every", MUSTER_SPEC_UINT64, offsetof(muster_schedule, every), 1,
       STEPS_MAX, NULL, true},
      FIELD("gamma", MUSTER_SPEC_DOUBLE, gamma, 0, 1),
      {.name = NULL}}},
    {"cosine",
     {WARMUP, FIELD("floor", MUSTER_SPEC_DOUBLE, floor, 0, 1), {.name = NULL}}},
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static muster_status unknown(const char *spec, size_t length,
                             muster_error *error_out)
{
    muster_suggestion meant = muster_suggestion_make(spec, length);
    for (size_t i = 0; i < KINDS; i++) {
        muster_suggestion_add(&meant, kinds[i].name);
    }
    return muster_suggestion_fail(&meant, "--schedule ", error_out);
}

muster_status muster_schedule_parse(const char *spec, uint64_t steps,
                                    muster_error *error_out,
                                    muster_schedule *schedule_out)
{
    const char *params;
    size_t length = muster_spec_name(spec, &params);
    for (size_t i = 0; i < KINDS; i++) {
        if (!muster_spec_is(spec, kinds[i].name)) {
            continue;
        }
        muster_schedule schedule = {
            .kind = (muster_schedule_kind)i, .steps = steps, .gamma = 0.1};
        char place[64];
        (void)snprintf(place, sizeof(place), "--schedule %s", kinds[i].name);
        muster_status status = muster_spec_read(place, params, kinds[i].fields,
                                                &schedule, NULL, error_out);
        if (status == MUSTER_OK) {
            *schedule_out = schedule;
        }
        return status;
    }
    return unknown(spec, length, error_out);
}

static double cosine_factor(const muster_schedule *schedule, uint64_t step)
{
    if (schedule->steps <= schedule->warmup || step < schedule->warmup) {
        return 1;
    }
    uint64_t length = schedule->steps - schedule->warmup;
    uint64_t at = step - schedule->warmup;
    double share = at >= length ? 1 : (double)at / (double)length;
    return schedule->floor + (1 - schedule->floor) * (1 + cos(pi * share)) / 2;
}

double muster_schedule_factor(const muster_schedule *schedule, uint64_t step)
{
    double factor = 1;
    if (schedule->kind == MUSTER_SCHEDULE_STEP) {
        uint64_t stair = step / schedule->every;
        factor = pow(schedule->gamma, (double)stair);
    } else if (schedule->kind == MUSTER_SCHEDULE_COSINE) {
        factor = cosine_factor(schedule, step);
    }
    if (step < schedule->warmup) {
        factor *= ((double)step + 1) / (double)schedule->warmup;
    }
    return factor;
}
