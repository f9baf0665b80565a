/*
 * local_workers.c -- the workers of `--local N` and the edges of `--topology`:
 * processes that are started with `muster join ADDRESS --worker W` and join
 * over private sockets.
 *
 *   coordinator: FOLDER/socket, or where --listen says
 *   edge K: FOLDER/edge-K, for its workers
 *   worker W of gossip: FOLDER/worker-W, for the others
 *
 * What makes a worker slow (--slow, --delay) is passed on as it was given, so
 * that a local worker reads it like one that a user started (run/build.h).
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "code/hier.h"
#include "model/model.h"
#include "proc/signals.h"
#include "run/build.h"
#include "run/network.h"
#include "run/train.h"

/* How long workers get to end by themselves once the run is over. */
#define LEAVE_NS (500 * MUSTER_NS_PER_MS)

/* Edges are processes: their links are no part of their workers' times. */
static void add_delay(const muster_train_state *train, const char *delay,
                      muster_arguments *arguments)
{
    char *spec = train->edges > 0 ? muster_delay_under_edges(delay) : NULL;
    if (train->edges > 0 && spec == NULL) {
        arguments->failed = true;
        return;
    }
    muster_arguments_add_option(arguments, "--delay",
                                spec != NULL ? spec : delay);
    muster_mem_free(spec);
}

static void add_slowness(const muster_train_state *train,
                         muster_arguments *arguments)
{
    const muster_config *config = train->config;
    const char *delay = muster_config_string(config, MUSTER_OPT_DELAY);
    size_t slow = muster_config_list_count(config, MUSTER_OPT_SLOW);
    if (delay != NULL) {
        add_delay(train, delay, arguments);
        muster_arguments_add_number(arguments, "--workers",
                                    train->code_info.workers);
        muster_arguments_add_number(
            arguments, "--seed", muster_config_uint(config, MUSTER_OPT_SEED));
    }
    for (size_t i = 0; i < slow; i++) {
        muster_arguments_add_option(
            arguments, "--slow",
            muster_config_list_at(config, MUSTER_OPT_SLOW, i));
    }
}

/* Where the coordinator is reached. */
static const char *coordinator_address(const muster_train_state *train)
{
    return train->joined_at[0] != '\0' ? train->joined_at
                                       : train->socket_dir.address;
}

/* What a worker needs to be let in where others join. */
static void add_entrance(const muster_train_state *train,
                         muster_arguments *arguments)
{
    const char *key = muster_config_string(train->config, MUSTER_OPT_KEY_FILE);
    const char *engine = muster_config_string(train->config, MUSTER_OPT_ENGINE);
    if (train->joined_at[0] != '\0' && key != NULL) {
        muster_arguments_add_option(arguments, "--key-file", key);
    }
    if (train->joined_at[0] != '\0' && engine != NULL) {
        muster_arguments_add_option(arguments, "--engine", engine);
    }
}

/* Where an edge listens for its workers. */
static void edge_address(const muster_train_state *train, uint32_t edge,
                         char *address, size_t room)
{
    (void)snprintf(address, room, "unix:%s/edge-%" PRIu32,
                   train->socket_dir.folder, edge);
}

static void add_common(const muster_train_state *train,
                       muster_arguments *arguments, const char *address,
                       uint32_t number)
{
    const muster_config *config = train->config;
    muster_arguments_add_option(arguments, "join", address);
    muster_arguments_add_number(arguments, "--worker", number);
    muster_arguments_add(
        arguments, muster_config_bool(config, MUSTER_OPT_VERBOSE) ? "--verbose"
                                                                  : "--quiet");
    if (train->edges > 0) { // a worker must outlast the loss of its edge
        char patience[32];
        (void)snprintf(
            patience, sizeof patience, "%.3fs",
            (double)muster_config_duration_ns(config, MUSTER_OPT_PATIENCE) *
                1e-9);
        muster_arguments_add_option(arguments, "--patience", patience);
    }
    muster_arguments_add_number(arguments, "--threads",
                                muster_config_threads(config));
    muster_network_pass(config, arguments);
    add_entrance(train, arguments);
}

static void edge_arguments(const muster_train_state *train, uint32_t edge,
                           muster_arguments *arguments)
{
    char own[MUSTER_NET_ADDRESS_MAX];
    edge_address(train, edge, own, sizeof own);
    add_common(train, arguments, coordinator_address(train), edge);
    muster_arguments_add_option(arguments, "--as", "edge");
    muster_arguments_add_option(arguments, "--listen", own);
    add_slowness(train, arguments);
}

static void worker_arguments(const muster_train_state *train, uint32_t worker,
                             muster_arguments *arguments)
{
    const char *model = muster_build_model_path(train->config);
    char address[MUSTER_NET_ADDRESS_MAX];
    (void)snprintf(address, sizeof address, "%s", coordinator_address(train));
    if (train->edges > 0) {
        edge_address(train, muster_hier_edge_of(train->code, worker), address,
                     sizeof address);
    }
    add_common(train, arguments, address, worker);
    if (muster_train_is_gossip(train)) {
        (void)snprintf(address, sizeof address, "unix:%s/worker-%" PRIu32,
                       train->socket_dir.folder, worker);
        muster_arguments_add_option(arguments, "--listen", address);
    }
    add_slowness(train, arguments);
    if (muster_model_plugin_path(model) > 0) {
        muster_arguments_add_option(arguments, "--allow-model", model);
    }
}

uint32_t muster_train_process(const muster_train_state *train,
                              const muster_fault *fault)
{
    return fault->edge ? fault->worker : train->edges + fault->worker;
}

muster_status muster_train_spawn(muster_train_state *train, uint32_t process,
                                 muster_error *error_out)
{
    muster_arguments arguments = muster_arguments_make();
    if (process < train->edges) {
        edge_arguments(train, process, &arguments);
    } else {
        worker_arguments(train, process - train->edges, &arguments);
    }
    muster_status status = muster_process_group_spawn(train->workers, process,
                                                      &arguments, error_out);
    muster_arguments_fini(&arguments);
    return status;
}

muster_status muster_train_restart(muster_train_state *train,
                                   muster_error *error_out)
{
    uint64_t max = muster_config_uint(train->config, MUSTER_OPT_RESTART);
    uint32_t count = train->edges + train->code_info.workers;
    muster_status status = MUSTER_OK;
    for (uint32_t p = 0; status == MUSTER_OK && p < count; p++) {
        uint32_t deaths = muster_process_group_deaths(train->workers, p);
        if (!muster_process_group_has_died(train->workers, p) || deaths > max) {
            continue;
        }
        bool edge = p < train->edges;
        muster_log(MUSTER_LOG_INFO,
                   "starting %s %" PRIu32 " again, time %" PRIu32
                   " of at most %" PRIu64,
                   edge ? "edge" : "worker", edge ? p : p - train->edges,
                   deaths, max);
        status = muster_train_spawn(train, p, error_out);
    }
    return status;
}

muster_status muster_train_start_workers(muster_train_state *train,
                                         muster_error *error_out)
{
    char address[MUSTER_NET_ADDRESS_MAX];
    muster_process_group_opts opts = {.program = train->program,
                                      .noun = "worker",
                                      .edges = train->edges,
                                      .count = train->edges +
                                               train->code_info.workers,
                                      .leave_ns = LEAVE_NS};
    muster_status status =
        muster_socket_dir_open(error_out, &train->socket_dir);
    if (status < 0) {
        return status;
    }
    muster_signals_remove_at_exit(&train->socket_dir);
    if (train->joined_at[0] == '\0') {
        status =
            muster_net_listen(muster_host_net(train->host),
                              train->socket_dir.address, error_out, address);
    }
    if (status == MUSTER_OK) {
        status = muster_process_group_create(&opts, error_out, &train->workers);
    }
    for (uint32_t p = 0; status == MUSTER_OK && p < opts.count; p++) {
        status = muster_train_spawn(train, p, error_out);
    }
    return status;
}
