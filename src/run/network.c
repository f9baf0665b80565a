/*
 * network.c -- see network.h.
 */
#include "run/network.h"

#include <inttypes.h>
#include <stdio.h>

#include "role/member.h"

#define BYTES_PER_S_MBIT       125000.0
#define SIM_LATENCY_DEFAULT_NS 100000

double muster_network_bytes_per_s(const muster_config *config)
{
    return muster_config_is_set(config, MUSTER_OPT_BANDWIDTH)
               ? muster_config_double(config, MUSTER_OPT_BANDWIDTH) *
                     BYTES_PER_S_MBIT
               : 0;
}

static int64_t latency_ns(const muster_config *config, int64_t default_ns)
{
    return muster_config_is_set(config, MUSTER_OPT_LATENCY)
               ? muster_config_duration_ns(config, MUSTER_OPT_LATENCY)
               : default_ns;
}

muster_status muster_network_opts(const muster_config *config,
                                  muster_error *error_out,
                                  muster_run_key *key_out,
                                  muster_net_opts *opts_out)
{
    muster_net_opts opts = MUSTER_NET_OPTS_INIT;
    bool has_key = false;
    muster_status status =
        muster_run_key_find(muster_config_string(config, MUSTER_OPT_KEY_FILE),
                            error_out, key_out, &has_key);
    opts.key = has_key ? key_out : NULL;
    opts.insecure = muster_config_bool(config, MUSTER_OPT_INSECURE);
    opts.engine = muster_config_string(config, MUSTER_OPT_ENGINE);
    opts.bytes_per_s = muster_network_bytes_per_s(config);
    opts.latency_ns = latency_ns(config, 0);
    *opts_out = opts;
    return status;
}

void muster_network_pass(const muster_config *config,
                         muster_arguments *arguments)
{
    char text[48];
    if (muster_config_is_set(config, MUSTER_OPT_BANDWIDTH)) {
        snprintf(text, sizeof(text), "%.17g",
                 muster_config_double(config, MUSTER_OPT_BANDWIDTH));
        muster_arguments_add_option(arguments, "--bandwidth", text);
    }
    if (muster_config_is_set(config, MUSTER_OPT_LATENCY)) {
        snprintf(text, sizeof(text), "%.9fs",
                 (double)latency_ns(config, 0) * 1e-9);
        muster_arguments_add_option(arguments, "--latency", text);
    }
}

void muster_network_explain(const muster_config *config, char *text,
                            size_t room)
{
    int64_t latency = latency_ns(config, 0);
    int64_t heartbeat = muster_config_duration_ns(config, MUSTER_OPT_HEARTBEAT);
    text[0] = '\0';
    if (latency > MUSTER_HEARTBEAT_JOIN_NS) {
        snprintf(text, room,
                 "; --latency %.4gs is longer than the %.4gs that a worker "
                 "which joins waits for an answer: use a shorter one",
                 (double)latency * 1e-9, MUSTER_HEARTBEAT_JOIN_NS * 1e-9);
    } else if (latency > heartbeat) {
        snprintf(text, room,
                 "; --latency %.4gs is longer than --heartbeat %.4gs, after "
                 "which a worker is given up: use --heartbeat %.4gs",
                 (double)latency * 1e-9, (double)heartbeat * 1e-9,
                 (double)latency * 2e-9);
    }
}

int64_t muster_network_sim_latency_ns(const muster_config *config)
{
    return latency_ns(config, SIM_LATENCY_DEFAULT_NS);
}
