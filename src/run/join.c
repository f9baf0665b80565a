/*
 * join.c -- `muster join`: one worker or edge process, from connect to the end.
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
#include "role/act.h"
#include "run/build.h"
#include "run/network.h"

/* A worker computes one step at a time, and loads its parts. */
#define JOBS_MAX 4096u

static muster_status read_slowness(const muster_config *config, uint32_t id,
                                   bool edge, muster_error *error_out,
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
    status = edge ? muster_build_edge_slowness(config, id, delay, error_out,
                                               slowness_out)
                  : muster_build_slowness(config, id, delay, error_out,
                                          slowness_out);
    if (status < 0) {
        muster_delay_free(delay);
    }
    return status;
}

static muster_status check_allowed(const char *allowed, muster_error *error_out)
{
    muster_status status = muster_model_allow_check(allowed, error_out);
    if (status == MUSTER_OK) {
        muster_model_tell_code(allowed);
    }
    return status;
}

/* Where the coordinator, or a worker's edge, listens. */
static muster_status read_address(const muster_config *config,
                                  muster_error *error_out, char *address)
{
    // The role would try an address that is no address until patience is over.
    return muster_user_address_read(
        muster_config_string(config, MUSTER_OPT_CONNECT), "join", error_out,
        address);
}

static void read_host(char *host, size_t room)
{
    if (gethostname(host, room - 1) != 0) {
        (void)snprintf(host, room, "unknown");
    }
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

/* What makes a process a worker or an edge. */
typedef struct joiner {
    muster_executor *executor;
    muster_role role;
    muster_slowness slowness;
} joiner;

/* At --listen; `reachable_out` is where others find it. */
static muster_status listen_as_joiner(const muster_config *config,
                                      muster_host *host,
                                      muster_error *error_out,
                                      char *reachable_out)
{
    char wanted[MUSTER_NET_ADDRESS_MAX], address[MUSTER_NET_ADDRESS_MAX];
    muster_status status = muster_user_address_expand(
        muster_config_string(config, MUSTER_OPT_LISTEN), "--listen", error_out,
        wanted);
    if (status == MUSTER_OK) {
        // Callers have little to say before we know the job.
        muster_net_expect(muster_host_net(host), MUSTER_EXPECT_BYTES);
        status = muster_net_listen(muster_host_net(host), wanted, error_out,
                                   address);
    }
    if (status == MUSTER_OK) {
        muster_net_reachable(address, reachable_out);
    }
    return status;
}

static muster_status make_worker(const muster_config *config, muster_host *host,
                                 muster_error *error_out, joiner *self)
{
    const char *allowed = muster_config_string(config, MUSTER_OPT_ALLOW_MODEL);
    const char *data = muster_config_string(config, MUSTER_OPT_DATA);
    muster_executor_alloc alloc = muster_host_alloc(host);
    muster_worker_opts opts = muster_build_worker(config);
    opts.pid = (uint32_t)getpid();
    read_host(opts.host, sizeof opts.host);
    muster_status status = read_address(config, error_out, opts.address);
    if (status == MUSTER_OK) {
        status =
            read_slowness(config, opts.id, false, error_out, &self->slowness);
    }
    if (status == MUSTER_OK &&
        muster_config_string(config, MUSTER_OPT_LISTEN) != NULL) {
        status = listen_as_joiner(config, host, error_out, opts.listen);
    }
    if (status < 0) {
        return status;
    }
    status = muster_executor_create_worker(&alloc, &self->executor);
    if (status == MUSTER_OK && allowed != NULL) {
        status = muster_executor_allow_model(self->executor, allowed);
    }
    if (status == MUSTER_OK && data != NULL) {
        status = muster_executor_read_from(self->executor, data);
    }
    if (status < 0) {
        return muster_error_set(error_out, status, "no memory for a worker");
    }
    status = muster_build_threads(config, self->executor, error_out);
    return status < 0 ? status
                      : muster_worker_create(&opts, error_out, &self->role);
}

/* Where an edge's workers join it. */
static muster_status listen_for_workers(const muster_config *config,
                                        muster_host *host,
                                        muster_error *error_out)
{
    char reachable[MUSTER_NET_ADDRESS_MAX];
    muster_status status = listen_as_joiner(config, host, error_out, reachable);
    if (status == MUSTER_OK) {
        muster_log(MUSTER_LOG_INFO,
                   "an edge's workers join it here: muster "
                   "join %s",
                   reachable);
    }
    return status;
}

static muster_status make_edge(const muster_config *config, muster_host *host,
                               muster_error *error_out, joiner *self)
{
    muster_executor_alloc alloc = muster_host_alloc(host);
    muster_edge_opts opts = muster_build_edge(config);
    opts.pid = (uint32_t)getpid();
    read_host(opts.host, sizeof opts.host);
    muster_status status = read_address(config, error_out, opts.address);
    if (status == MUSTER_OK) {
        status =
            read_slowness(config, opts.id, true, error_out, &self->slowness);
    }
    if (status == MUSTER_OK) {
        status = listen_for_workers(config, host, error_out);
    }
    if (status < 0) {
        return status;
    }
    status = muster_executor_create_edge(muster_build_code_of, &alloc,
                                         &self->executor);
    return status < 0
               ? muster_error_set(error_out, status, "no memory for an edge")
               : muster_edge_create(&opts, error_out, &self->role);
}

static void joiner_fini(joiner *self)
{
    if (self->role.state != NULL) {
        self->role.ops->free(self->role.state);
    }
    muster_executor_free(self->executor);
    muster_delay_free(self->slowness.delay);
    muster_slowness_fini(&self->slowness);
}

static muster_status serve(const muster_config *config, muster_host *host,
                           muster_error *error_out)
{
    joiner self = {.slowness = MUSTER_SLOWNESS_NONE};
    bool edge =
        strcmp(muster_config_string(config, MUSTER_OPT_AS), "edge") == 0;
    muster_status status = edge ? make_edge(config, host, error_out, &self)
                                : make_worker(config, host, error_out, &self);
    if (status == MUSTER_OK) {
        status = muster_signals_start(muster_host_net(host), error_out);
    }
    if (status == MUSTER_OK) {
        muster_host_work work = {
            .role = self.role,
            .engine = muster_compute_engine_of(self.executor),
            .slowness = self.slowness,
            .queue_max = JOBS_MAX,
        };
        status = muster_host_run(host, &work, error_out);
        muster_signals_stop();
    }
    joiner_fini(&self);
    return status;
}

muster_status muster_join(const muster_config *config, muster_error *error_out)
{
    muster_error unheard;
    muster_host_opts host_opts = {.on_report = on_report, .on_turn = on_turn};
    muster_run_key key;
    muster_host *host = NULL;
    if (error_out == NULL) {
        error_out = &unheard;
    }
    muster_status status = check_allowed(
        muster_config_string(config, MUSTER_OPT_ALLOW_MODEL), error_out);
    if (status < 0) {
        return status;
    }
    status = muster_network_opts(config, error_out, &key, &host_opts.net);
    if (status == MUSTER_OK) {
        status = muster_host_open(&host_opts, error_out, &host);
    }
    if (status == MUSTER_OK) {
        status = serve(config, host, error_out);
        muster_host_close(host);
    }
    return status;
}
