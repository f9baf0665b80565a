/*
 * training.c -- options of training whose values are more than a number:
 * --code auto, --speeds, --until, --eval-every, --deadline.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/value.h"
#include "config/state.h"

#define EVAL_DEFAULT 50u // steps, with --until

#define INVALID(...) \
    muster_error_set(error_out, MUSTER_ERR_INVALID, __VA_ARGS__)

int64_t muster_config_deadline_ns(const muster_config *config)
{
    const char *text = muster_config_string(config, MUSTER_OPT_DEADLINE);
    int64_t deadline_ns = 0;
    bool given = strcmp(text, "auto") != 0;
    return given && muster_value_duration_ns(text, &deadline_ns) ? deadline_ns
                                                                 : 0;
}

bool muster_config_data_at_workers(const muster_config *config)
{
    const char *where = muster_config_string(config, MUSTER_OPT_DATA_AT);
    return where != NULL && strcmp(where, "workers") == 0;
}

bool muster_config_speeds_measured(const muster_config *config)
{
    const char *text = muster_config_string(config, MUSTER_OPT_SPEEDS);
    return text != NULL && strcmp(text, "measure") == 0;
}

bool muster_config_is_auto(const muster_config *config, const char *name)
{
    name = name != NULL ? name : muster_config_string(config, MUSTER_OPT_CODE);
    return strcmp(name, "auto") == 0;
}

/* Is auto among the codes? Simulations have several, joined by +. */
static bool has_auto(const muster_config *config)
{
    const char *at = muster_config_string(config, MUSTER_OPT_CODE);
    bool found = false;
    while (at != NULL && !found) {
        size_t length = strcspn(at, "+");
        found = length == 4 && strncmp(at, "auto", length) == 0;
        at = at[length] == '+' ? at + length + 1 : NULL;
    }
    return found;
}

muster_status muster_config_check_auto(const muster_config *config,
                                       muster_error *error_out)
{
    const char *shuffle = muster_config_string(config, MUSTER_OPT_SHUFFLE);
    if (!has_auto(config)) {
        return MUSTER_OK;
    }
    if (muster_config_algorithm_kind(config) != MUSTER_ALGORITHM_SYNC) {
        return INVALID("--code auto: not with --algorithm %.60s: there is "
                       "nothing to code",
                       muster_config_string(config, MUSTER_OPT_ALGORITHM));
    }
    if (muster_config_string(config, MUSTER_OPT_PLACEMENT) != NULL ||
        muster_config_speeds_measured(config)) {
        return INVALID("--code auto: not with --placement or --speeds measure, "
                       "which give each worker samples of its own");
    }
    if (strcmp(shuffle, "none") != 0) {
        return INVALID("--code auto: not with --shuffle");
    }
    if (muster_config_uint(config, MUSTER_OPT_STRAGGLERS) > 0 ||
        muster_config_uint(config, MUSTER_OPT_COMM) > 0 ||
        muster_config_uint(config, MUSTER_OPT_LOAD) > 0) {
        return INVALID("--code auto chooses them: leave out --stragglers, "
                       "--comm and --load");
    }
    return MUSTER_OK;
}

const char *muster_config_speeds_file(const muster_config *config)
{
    const char *text = muster_config_string(config, MUSTER_OPT_SPEEDS);
    size_t length = text != NULL ? strlen(text) : 0;
    bool is_path = length > 0 &&
                   (strchr(text, '/') != NULL ||
                    (length > 5 && strcmp(text + length - 5, ".yaml") == 0) ||
                    (length > 4 && strcmp(text + length - 4, ".yml") == 0));
    return is_path ? text : NULL;
}

muster_status muster_config_speeds(const muster_config *config, uint32_t count,
                                   muster_error *error_out, double *speeds_out)
{
    const char *text = muster_config_string(config, MUSTER_OPT_SPEEDS);
    uint32_t found = 0;
    bool trains = config->verb == MUSTER_VERB_TRAIN ||
                  config->verb == MUSTER_VERB_SIMULATE;
    if ((trains && muster_config_speeds_measured(config)) ||
        muster_config_speeds_file(config) != NULL) {
        return MUSTER_OK;
    }
    while (text != NULL) {
        size_t length = strcspn(text, ",");
        char number[64];
        double speed = 0;
        snprintf(number, sizeof(number), "%.*s",
                 (int)(length < sizeof(number) ? length : sizeof(number) - 1),
                 text);
        if (!muster_value_double(number, &speed) || speed <= 0) {
            return INVALID("--speeds: '%s' is not a positive number; write one "
                           "for each worker, such as 1,1,2,4",
                           number);
        }
        if (found < count && speeds_out != NULL) {
            speeds_out[found] = speed;
        }
        found++;
        text = text[length] == ',' ? text + length + 1 : NULL;
    }
    if (found != 0 && found != count) {
        return INVALID("--speeds: %" PRIu32 " speeds for %" PRIu32 " workers",
                       found, count);
    }
    return MUSTER_OK;
}

muster_status muster_config_until(const muster_config *config,
                                  muster_error *error_out,
                                  muster_config_goal *goal_out,
                                  double *value_out)
{
    const char *text = muster_config_string(config, MUSTER_OPT_UNTIL);
    *goal_out = MUSTER_GOAL_NONE;
    if (text == NULL) {
        return MUSTER_OK;
    }
    const char *number = strchr(text, '=');
    bool known = number != NULL && muster_value_double(number + 1, value_out);
    if (known && strncmp(text, "accuracy=", 9) == 0 && *value_out > 0 &&
        *value_out <= 1) {
        *goal_out = MUSTER_GOAL_ACCURACY;
    } else if (known && strncmp(text, "loss=", 5) == 0) {
        *goal_out = MUSTER_GOAL_LOSS;
    } else {
        return INVALID("--until %.60s: expected accuracy=0.97 (above 0, at "
                       "most 1) or loss=0.1",
                       text);
    }
    return MUSTER_OK;
}

uint64_t muster_config_eval_every(const muster_config *config)
{
    uint64_t every = muster_config_uint(config, MUSTER_OPT_EVAL_EVERY);
    bool wanted = muster_config_string(config, MUSTER_OPT_UNTIL) != NULL;
    return every == 0 && wanted ? EVAL_DEFAULT : every;
}
