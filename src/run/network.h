/*
 * run/network.h -- what --bandwidth and --latency mean: the NIC of a process in
 * a real run, of a machine in a simulated one; and --key-file, --insecure,
 * --engine.
 *
 * Where --bandwidth is not given, messages of any length take no time but the
 * latency, which in a simulation is 100 us unless --latency says another.
 */
#ifndef MUSTER_RUN_NETWORK_H
#define MUSTER_RUN_NETWORK_H

#include "config/config.h"
#include "net/net.h"
#include "proc/arguments.h"

/* Of this process's net. key_out is used by opts_out, until the net is open.
 * MUSTER_ERR_INPUT: what is wrong with the key file. */
MUSTER_CHECKED muster_status muster_network_opts(const muster_config *config,
                                                 muster_error *error_out,
                                                 muster_run_key *key_out,
                                                 muster_net_opts *opts_out);

/* Pass the options on to a worker: each process has a NIC of its own. */
void muster_network_pass(const muster_config *config,
                         muster_arguments *arguments);

/* Each way; 0: no limit. */
double muster_network_bytes_per_s(const muster_config *config);
/* Between two machines of a simulation. */
int64_t muster_network_sim_latency_ns(const muster_config *config);

/* Why no worker may have come in, where messages take longer than workers and
 * coordinator wait for each other: "; ..", or "" where they do not. */
void muster_network_explain(const muster_config *config, char *text,
                            size_t room);

#endif // MUSTER_RUN_NETWORK_H
