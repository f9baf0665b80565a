/*
 * local_workers.c -- the workers of `--local N`: processes that are started
 * with `muster join ADDRESS --worker W` and join over a private socket.
 *
 * What makes a worker slow (--slow, --delay) is passed on as it was given, so
 * that a local worker reads it like one that a user started (run/build.h).
 */
#include "base/clock.h"
#include "model/model.h"
#include "proc/signals.h"
#include "run/build.h"
#include "run/network.h"
#include "run/train.h"

/* How long workers get to end by themselves once the run is over. */
#define LEAVE_NS (500 * MUSTER_NS_PER_MS)

static void add_slowness(const muster_train_state *train,
                         muster_arguments *arguments)
{
    const muster_config *config = train->config;
    const char *delay = muster_config_string(config, MUSTER_OPT_DELAY);
    size_t slow = muster_config_list_count(config, MUSTER_OPT_SLOW);
    if (delay != NULL) {
        muster_arguments_add_option(arguments, "--delay", delay);
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

muster_status muster_train_spawn_worker(muster_train_state *train,
                                        uint32_t worker,
                                        muster_error *error_out)
{
    const muster_config *config = train->config;
    const char *model = muster_build_model_path(config);
    muster_arguments arguments = muster_arguments_make();
    muster_arguments_add_option(&arguments, "join", train->socket_dir.address);
    muster_arguments_add_number(&arguments, "--worker", worker);
    muster_arguments_add(
        &arguments, muster_config_bool(config, MUSTER_OPT_VERBOSE) ? "--verbose"
                                                                   : "--quiet");
    add_slowness(train, &arguments);
    muster_network_pass(config, &arguments);
    if (muster_model_plugin_path(model) > 0) {
        muster_arguments_add_option(&arguments, "--allow-model", model);
    }
    muster_status status = muster_process_group_spawn(train->workers, worker,
                                                      &arguments, error_out);
    muster_arguments_fini(&arguments);
    return status;
}

muster_status muster_train_start_workers(muster_train_state *train,
                                         muster_error *error_out)
{
    char address[MUSTER_NET_ADDRESS_MAX];
    muster_process_group_opts opts = {.program = train->program,
                                      .noun = "worker",
                                      .count = train->code_info.workers,
                                      .leave_ns = LEAVE_NS};
    muster_status status =
        muster_socket_dir_open(error_out, &train->socket_dir);
    if (status < 0) {
        return status;
    }
    muster_signals_remove_at_exit(&train->socket_dir);
    status = muster_net_listen(muster_host_net(train->host),
                               train->socket_dir.address, error_out, address);
    if (status == MUSTER_OK) {
        status = muster_process_group_create(&opts, error_out, &train->workers);
    }
    for (uint32_t w = 0; status == MUSTER_OK && w < opts.count; w++) {
        status = muster_train_spawn_worker(train, w, error_out);
    }
    return status;
}
