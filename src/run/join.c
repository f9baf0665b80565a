/*
 * join.c -- `muster join`: one worker process, from connect to the end.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "config/config.h"
#include "job/executor.h"
#include "model/allow.h"
#include "muster/run.h"
#include "net/socket_address.h"
#include "proc/host.h"
#include "proc/signals.h"
#include "proc/user_address.h"
#include "run/build.h"
#include "run/network.h"

/* A worker computes one step at a time, and loads its parts. */
#define JOBS_MAX 4096u

static muster_status read_slowness(const muster_config *config, uint32_t id,
                                   muster_error *error_out,
                                   muster_slowness *slowness_out)
{
    if (id == MUSTER_ID_ANY &&
        muster_config_list_count(config, MUSTER_OPT_SLOW) > 0) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "--slow: say with --worker which worker this "
                                "one is to be");
    }
    muster_delay *delay = NULL;
    muster_status status = muster_build_delay(
        config, muster_config_workers(config), error_out, &delay);
    if (status < 0) {
        return status;
    }
    status = muster_build_slowness(config, id, delay, error_out, slowness_out);
    if (status < 0) {
        muster_delay_free(delay);
    }
    return status;
}

static muster_status read_options(const muster_config *config,
                                  muster_error *error_out,
                                  muster_worker_opts *opts_out,
                                  muster_slowness *slowness_out)
{
    muster_worker_opts opts = muster_build_worker(config);
    const char *allowed = muster_config_string(config, MUSTER_OPT_ALLOW_MODEL);
    muster_status status = muster_model_allow_check(allowed, error_out);
    if (status < 0) {
        return status;
    }
    muster_model_tell_code(allowed);
    status = muster_user_address_expand(
        muster_config_string(config, MUSTER_OPT_CONNECT), "join", error_out,
        opts.address);
    if (status < 0) {
        return status;
    }
    // The role would try an address that is no address until patience is over.
    muster_socket_address parsed;
    status = muster_socket_address_parse(opts.address, error_out, &parsed);
    if (status < 0) {
        return status;
    }
    opts.pid = (uint32_t)getpid();
    if (gethostname(opts.host, sizeof opts.host - 1) != 0) {
        (void)snprintf(opts.host, sizeof opts.host, "unknown");
    }
    *opts_out = opts;
    return read_slowness(config, opts.id, error_out, slowness_out);
}

static void on_report(void *context, const muster_report *report)
{
    (void)context;
    if (report->kind == MUSTER_REPORT_NOTICE) {
        muster_log(report->as.notice.level, "%s", report->as.notice.text);
    }
}

static bool on_turn(void *context, int64_t now_ns, int64_t *wait_until_ns)
{
    (void)context;
    (void)now_ns;
    (void)wait_until_ns;
    return muster_signals_stop_asked();
}

static muster_status serve(muster_host *host, const muster_worker_opts *opts,
                           muster_slowness slowness, const char *allowed,
                           muster_error *error_out)
{
    muster_executor_alloc alloc = muster_host_alloc(host);
    muster_executor *executor = NULL;
    muster_role role = {NULL, NULL};
    muster_status status = muster_executor_create_worker(&alloc, &executor);
    if (status < 0) {
        return muster_error_set(error_out, status, "no memory for a worker");
    }
    if (allowed != NULL) {
        status = muster_executor_allow_model(executor, allowed);
    }
    if (status < 0) {
        muster_executor_free(executor);
        return muster_error_set(error_out, status, "no memory for a worker");
    }
    status = muster_worker_create(opts, error_out, &role);
    if (status == MUSTER_OK) {
        muster_host_work work = {
            .role = role,
            .engine = muster_compute_engine_of(executor),
            .slowness = slowness,
            .queue_max = JOBS_MAX,
        };
        status = muster_host_run(host, &work, error_out);
        role.ops->free(role.state);
    }
    muster_executor_free(executor);
    return status;
}

muster_status muster_join(const muster_config *config, muster_error *error_out)
{
    muster_error unheard;
    muster_worker_opts opts;
    muster_slowness slowness = MUSTER_SLOWNESS_NONE;
    muster_host_opts host_opts = {.net = muster_network_opts(config),
                                  .on_report = on_report,
                                  .on_turn = on_turn};
    muster_host *host = NULL;
    if (error_out == NULL) {
        error_out = &unheard;
    }
    muster_status status = read_options(config, error_out, &opts, &slowness);
    if (status < 0) {
        return status;
    }
    status = muster_host_open(&host_opts, error_out, &host);
    if (status == MUSTER_OK) {
        status = muster_signals_start(muster_host_net(host), error_out);
        if (status == MUSTER_OK) {
            const char *allowed =
                muster_config_string(config, MUSTER_OPT_ALLOW_MODEL);
            status = serve(host, &opts, slowness, allowed, error_out);
            muster_signals_stop();
        }
        muster_host_close(host);
    }
    muster_delay_free(slowness.delay);
    muster_slowness_fini(&slowness);
    return status;
}
