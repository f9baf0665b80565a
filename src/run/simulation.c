/*
 * simulation.c -- see simulation.h.
 */
#include "run/simulation.h"

#include <inttypes.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "code/numbers.h"
#include "config/fault.h"
#include "run/network.h"
#include "run/placed.h"
#include "run/record_delays.h"

/* Workers for which the default of --heartbeat is meant. */
#define WORKERS_A_HEARTBEAT 1000u

static muster_status make_code(muster_simulation *simulation,
                               const muster_config *config, const char *name,
                               muster_error *error_out)
{
    muster_status status =
        muster_build_code_opts(config, muster_build_first(config, name),
                               error_out, &simulation->build);
    if (status == MUSTER_OK) {
        status = muster_code_create(&simulation->build.opts, error_out,
                                    &simulation->code);
    }
    if (status < 0) {
        return status;
    }
    muster_code_info info = *muster_code_numbers(simulation->code);
    if (info.warning != NULL) {
        muster_log(MUSTER_LOG_WARN, "code %s: %s", info.name, info.warning);
    }
    return MUSTER_OK;
}

static muster_status make_edges(muster_simulation *simulation,
                                const muster_config *config,
                                muster_error *error_out)
{
    uint32_t edges = muster_config_edges(config);
    if (edges == 0) {
        return MUSTER_OK;
    }
    simulation->edge_slowness =
        muster_mem_array(edges, sizeof(*simulation->edge_slowness));
    if (simulation->edge_slowness == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "no memory for %" PRIu32 " edges", edges);
    }
    simulation->edges = edges;
    muster_status status = MUSTER_OK;
    for (uint32_t i = 0; i < edges && status == MUSTER_OK; i++) {
        status =
            muster_build_edge_slowness(config, i, simulation->delay, error_out,
                                       &simulation->edge_slowness[i]);
    }
    return status;
}

static muster_status read_cluster(muster_simulation *simulation,
                                  const muster_config *config,
                                  muster_error *error_out)
{
    const char *path = muster_config_string(config, MUSTER_OPT_CLUSTER);
    return path != NULL
               ? muster_cluster_read(path, error_out, &simulation->cluster)
               : MUSTER_OK;
}

/* What each machine is like: --cluster, --slow, --delay and the faults. */
static muster_status make_machines(muster_simulation *simulation,
                                   const muster_config *config,
                                   muster_error *error_out)
{
    uint32_t workers = simulation->build.opts.workers;
    simulation->slowness =
        muster_mem_array(workers, sizeof(*simulation->slowness));
    if (simulation->slowness == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "no memory for %" PRIu32 " workers", workers);
    }
    muster_status status =
        muster_build_delay(config, workers, error_out, &simulation->delay);
    if (status == MUSTER_OK) {
        status = make_edges(simulation, config, error_out);
    }
    if (status == MUSTER_OK) {
        status = read_cluster(simulation, config, error_out);
    }
    for (uint32_t i = 0; i < workers && status == MUSTER_OK; i++) {
        status = muster_build_slowness(config, i, simulation->delay, error_out,
                                       &simulation->slowness[i]);
    }
    if (status == MUSTER_OK) {
        status = muster_record_delays_open(config, workers, error_out,
                                           &simulation->recorder);
    }
    return status == MUSTER_OK
               ? muster_faults_read(config, error_out, &simulation->faults)
               : status;
}

static muster_status make_job(muster_simulation *simulation,
                              const muster_config *config,
                              muster_error *error_out)
{
    muster_status status = MUSTER_OK;
    if (muster_config_string(config, MUSTER_OPT_DATA) != NULL) {
        status = muster_executor_create_coordinator(
            config, muster_build_shards(config, simulation->code),
            &muster_executor_heap, error_out, &simulation->executor);
        if (status == MUSTER_OK) {
            status = muster_build_check_shards(
                config, simulation->code,
                muster_executor_describe(simulation->executor).samples,
                error_out);
        }
        if (status == MUSTER_OK) {
            status = muster_placed_make(config, simulation->code,
                                        simulation->executor, error_out);
        }
    }
    return status == MUSTER_OK
               ? muster_build_coordinator(config, simulation->code,
                                          simulation->executor, error_out,
                                          &simulation->opts.coordinator)
               : status;
}

/* A step of more workers takes longer, and every worker beats in every window:
 * with a fixed one heartbeats would be most of what is simulated. */
static void widen_heartbeat(const muster_config *config,
                            muster_coordinator_opts *opts)
{
    uint32_t workers = muster_config_workers(config);
    if (!muster_config_is_set(config, MUSTER_OPT_HEARTBEAT) &&
        workers > WORKERS_A_HEARTBEAT) {
        int64_t times = workers / WORKERS_A_HEARTBEAT;
        opts->heartbeat_ns *= times;
        opts->stall_ns *= times; // progress is told by heartbeats
    }
}

/* A cluster file says how long computing and links take; --compute and
 * --latency add to it. */
static void set_times(muster_simulation *simulation,
                      const muster_config *config)
{
    muster_virtual_opts *opts = &simulation->opts;
    bool file = simulation->cluster != NULL;
    opts->cluster = simulation->cluster;
    if (!file || muster_config_is_set(config, MUSTER_OPT_COMPUTE)) {
        opts->compute_ns =
            muster_config_duration_ns(config, MUSTER_OPT_COMPUTE);
    }
    if (!file || muster_config_is_set(config, MUSTER_OPT_LATENCY)) {
        opts->latency_ns = muster_network_sim_latency_ns(config);
    }
    opts->bytes_per_s = muster_network_bytes_per_s(config);
}

muster_status muster_simulation_init(muster_simulation *simulation,
                                     const muster_config *config,
                                     const char *code, muster_error *error_out)
{
    *simulation =
        (muster_simulation){.faults = muster_vec_make(sizeof(muster_fault))};
    muster_status status = make_code(simulation, config, code, error_out);
    if (status == MUSTER_OK) {
        status = make_machines(simulation, config, error_out);
    }
    if (status == MUSTER_OK) {
        status = make_job(simulation, config, error_out);
    }
    if (status < 0) {
        muster_simulation_fini(simulation);
        return status;
    }
    muster_virtual_opts *opts = &simulation->opts;
    widen_heartbeat(config, &opts->coordinator);
    opts->coordinator.replan = muster_config_is_auto(config, code);
    opts->worker_patience_ns = muster_build_worker(config).patience_ns;
    opts->executor = simulation->executor;
    opts->model = muster_config_string(config, MUSTER_OPT_MODEL);
    opts->speeds = simulation->build.speeds;
    opts->slowness = simulation->slowness;
    opts->edge_slowness = simulation->edge_slowness;
    opts->make_code = muster_build_code_of;
    opts->recorder = simulation->recorder;
    opts->faults = simulation->faults.data;
    opts->fault_count = simulation->faults.count;
    set_times(simulation, config);
    if (muster_config_local_steps(config) > 0) {
        opts->compute_ns *= muster_config_local_steps(config);
    }
    opts->seed = muster_config_uint(config, MUSTER_OPT_SEED);
    return MUSTER_OK;
}

muster_status muster_simulation_recorded(muster_simulation *simulation,
                                         const muster_config *config,
                                         muster_status status,
                                         muster_error *error_out)
{
    if (status < 0) {
        return status;
    }
    status =
        muster_record_delays_close(config, simulation->recorder, error_out);
    simulation->recorder = NULL;
    return status;
}

void muster_simulation_fini(muster_simulation *simulation)
{
    if (muster_delay_recorder_close(simulation->recorder, NULL) < 0) {
        muster_log(MUSTER_LOG_DEBUG, "the recorded times are not whole");
    }
    muster_build_coordinator_fini(&simulation->opts.coordinator);
    muster_executor_free(simulation->executor);
    muster_vec_fini(&simulation->faults);
    muster_delay_free(simulation->delay);
    for (uint32_t i = 0;
         simulation->slowness != NULL && i < simulation->build.opts.workers;
         i++) {
        muster_slowness_fini(&simulation->slowness[i]);
    }
    muster_mem_free(simulation->slowness);
    for (uint32_t i = 0; i < simulation->edges; i++) {
        muster_slowness_fini(&simulation->edge_slowness[i]);
    }
    muster_mem_free(simulation->edge_slowness);
    muster_cluster_free(simulation->cluster);
    muster_code_free(simulation->code);
    muster_build_code_fini(&simulation->build);
}
