/*
 * algorithm.c -- --algorithm: how the workers' work becomes one model.
 */
#include <string.h>

#include "base/error.h"
#include "base/value.h"
#include "config/state.h"

#define INVALID(...) \
    muster_error_set(error_out, MUSTER_ERR_INVALID, __VA_ARGS__)

/* The number after the colon of NAME:NUMBER, in 0..max. */
static bool read_after(const char *text, const char *name, uint64_t max,
                       uint64_t *number_out)
{
    size_t length = strlen(name);
    return strncmp(text, name, length) == 0 &&
           muster_value_uint(text + length, number_out) && *number_out <= max;
}

static bool read_gossip(const char *text, muster_algorithm *algorithm)
{
    uint64_t partners = 0;
    bool known = strcmp(text, "gossip:ring") == 0 ||
                 (read_after(text, "gossip:random:", MUSTER_CONFIG_PARTNERS_MAX,
                             &partners) &&
                  partners > 0);
    if (known) {
        algorithm->kind = MUSTER_ALGORITHM_GOSSIP;
        algorithm->partners = (uint32_t)partners;
    }
    return known;
}

bool muster_config_algorithm(const muster_config *config,
                             muster_algorithm *algorithm_out)
{
    const char *text = muster_config_string(config, MUSTER_OPT_ALGORITHM);
    muster_algorithm algorithm = {.kind = MUSTER_ALGORITHM_SYNC};
    uint64_t number = 0;
    bool known = text == NULL || strcmp(text, "sync") == 0;
    if (!known && strcmp(text, "async") == 0) {
        algorithm.kind = MUSTER_ALGORITHM_SSP;
        algorithm.bound = MUSTER_ALGORITHM_UNBOUNDED;
        known = true;
    } else if (!known &&
               read_after(text, "ssp:", MUSTER_CONFIG_BOUND_MAX, &number)) {
        algorithm.kind = MUSTER_ALGORITHM_SSP;
        algorithm.bound = number;
        known = true;
    } else if (!known &&
               read_after(text, "local:", MUSTER_CONFIG_LOCAL_MAX, &number) &&
               number > 0) {
        algorithm.kind = MUSTER_ALGORITHM_LOCAL;
        algorithm.local_steps = (uint32_t)number;
        known = true;
    }
    if (!known) {
        known = read_gossip(text, &algorithm);
    }
    *algorithm_out = algorithm;
    return known;
}

muster_algorithm_kind muster_config_algorithm_kind(const muster_config *config)
{
    muster_algorithm algorithm;
    return muster_config_algorithm(config, &algorithm) ? algorithm.kind
                                                       : MUSTER_ALGORITHM_SYNC;
}

uint32_t muster_config_local_steps(const muster_config *config)
{
    muster_algorithm algorithm;
    return muster_config_algorithm(config, &algorithm) ? algorithm.local_steps
                                                       : 0;
}

muster_status muster_config_check_algorithm(const muster_config *config,
                                            muster_error *error_out)
{
    const char *text = muster_config_string(config, MUSTER_OPT_ALGORITHM);
    const char *shuffle = muster_config_string(config, MUSTER_OPT_SHUFFLE);
    muster_algorithm algorithm;
    if (!muster_config_algorithm(config, &algorithm)) {
        return INVALID("--algorithm %.60s: expected sync, local:H with H steps "
                       "from 1 to %u, ssp:BOUND with a bound from 0 to %u, "
                       "async, gossip:ring, or gossip:random:K with K from 1 "
                       "to %u",
                       text, MUSTER_CONFIG_LOCAL_MAX, MUSTER_CONFIG_BOUND_MAX,
                       MUSTER_CONFIG_PARTNERS_MAX);
    }
    if (algorithm.kind == MUSTER_ALGORITHM_SYNC) {
        return MUSTER_OK;
    }
    if (strcmp(muster_config_string(config, MUSTER_OPT_CODE), "uncoded") != 0 ||
        muster_config_uint(config, MUSTER_OPT_STRAGGLERS) > 0) {
        return INVALID("--algorithm %.60s: every worker has samples of its "
                       "own, and there is nothing to code; leave out --code "
                       "and --stragglers",
                       text);
    }
    if (algorithm.kind != MUSTER_ALGORITHM_LOCAL &&
        muster_config_is_set(config, MUSTER_OPT_DEADLINE)) {
        return INVALID("--algorithm %.60s: steps have no deadline; leave out "
                       "--deadline",
                       text);
    }
    return strcmp(shuffle, "none") == 0
               ? MUSTER_OK
               : INVALID("--algorithm %.60s: workers keep their samples; leave "
                         "out --shuffle",
                         text);
}
