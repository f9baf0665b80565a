/*
 * Schedules: parsed once, then a factor per step without state, so that a
 * resumed run and every process agree.
 */
#include "model/schedule.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "model/options.h"

#define STEPS_MAX 1e15

static const double pi = 3.14159265358979323846;

static bool name_is(const char *spec, size_t length, const char *name)
{
    return strlen(name) == length && memcmp(spec, name, length) == 0;
}

muster_status muster_schedule_parse(const char *spec, uint64_t steps,
                                    muster_error *error_out,
                                    muster_schedule *schedule_out)
{
    double warmup = 0;
    double every = 0;
    double gamma = 0.1;
    double least = 0;
    const muster_model_setting stairs[] = {
        {"warmup", 0, STEPS_MAX, true, &warmup},
        {"every", 1, STEPS_MAX, true, &every},
        {"gamma", 0, 1, false, &gamma},
    };
    const muster_model_setting cosine[] = {
        {"warmup", 0, STEPS_MAX, true, &warmup},
        {"floor", 0, 1, false, &least},
    };
    muster_schedule schedule = {.kind = MUSTER_SCHEDULE_CONSTANT};
    size_t length = strcspn(spec, ":");
    const char *options = spec[length] == ':' ? spec + length + 1 : "";
    muster_status status = MUSTER_OK;
    if (name_is(spec, length, "constant")) {
        status = muster_model_options_read("--schedule constant", options,
                                           stairs, 1, error_out);
    } else if (name_is(spec, length, "step")) {
        schedule.kind = MUSTER_SCHEDULE_STEP;
        status = muster_model_options_read("--schedule step", options, stairs,
                                           3, error_out);
        if (status == MUSTER_OK && every < 1) {
            return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                    "--schedule step: say how many steps a "
                                    "stair has, as in step:every=1000");
        }
    } else if (name_is(spec, length, "cosine")) {
        schedule.kind = MUSTER_SCHEDULE_COSINE;
        status = muster_model_options_read("--schedule cosine", options, cosine,
                                           2, error_out);
    } else {
        status = muster_error_set(error_out, MUSTER_ERR_INVALID,
                                  "--schedule %s: unknown; use constant, "
                                  "step:every=N or cosine",
                                  spec);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    schedule.steps = steps;
    schedule.warmup = (uint64_t)warmup;
    schedule.every = (uint64_t)every;
    schedule.gamma = gamma;
    schedule.floor = least;
    *schedule_out = schedule;
    return MUSTER_OK;
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
