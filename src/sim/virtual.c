/*
 * virtual.c -- builds a virtual run from the options, starts its roles, applies
 * its faults, and adds up its reports.
 */
#include "sim/virtual.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "config/fault.h"
#include "role/coordinator.h"
#include "role/worker.h"

#define LATENCY_NS        50000
#define BYTES_PER_S_MBIT  125000.0
#define STEPS_DEFAULT     100u
#define MESSAGE_DIM_PLAIN 100001u
#define VIRTUAL_RUN       0x766972u
/* Without a step for so long, and so many of the longest job and of the
 * patience besides, a run hangs. */
#define HANGS_NS       (3600ll * MUSTER_NS_PER_S)
#define HANGS_JOBS     100
#define HANGS_PATIENCE 4

static muster_status make_code(muster_virtual *run, const char *name,
                               muster_error *error)
{
    const muster_config *config = run->config;
    muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
    opts.name = name;
    opts.workers = muster_config_workers(config);
    opts.stragglers =
        (uint32_t)muster_config_uint(config, MUSTER_OPT_STRAGGLERS);
    opts.comm = (uint32_t)muster_config_uint(config, MUSTER_OPT_COMM);
    opts.load = (uint32_t)muster_config_uint(config, MUSTER_OPT_LOAD);
    opts.seed = muster_config_uint(config, MUSTER_OPT_SEED);
    if (muster_config_is_set(config, MUSTER_OPT_SPEEDS)) {
        opts.speeds = run->speeds;
    }
    muster_status status = muster_code_create(&opts, error, &run->code);
    if (status == MUSTER_OK) {
        run->info = (muster_code_info)MUSTER_CODE_INFO_INIT;
        status = muster_code_describe(run->code, &run->info);
    }
    if (status == MUSTER_OK && run->info.warning != NULL) {
        muster_log(MUSTER_LOG_WARN, "code %s: %s", run->info.name,
                   run->info.warning);
    }
    return status;
}

/* What each machine is like: --speeds, --slow, --delay. */
static muster_status make_machines(muster_virtual *run, muster_error *error)
{
    uint32_t workers = muster_config_workers(run->config);
    run->speeds = muster_mem_array(workers, sizeof(*run->speeds));
    run->factors = muster_mem_array(workers, sizeof(*run->factors));
    run->sleeps = muster_mem_array(workers, sizeof(*run->sleeps));
    run->hosts = muster_mem_array(workers + 1u, sizeof(*run->hosts));
    if (run->speeds == NULL || run->factors == NULL || run->sleeps == NULL ||
        run->hosts == NULL) {
        return muster_error_set(error, MUSTER_ERR_NO_MEMORY,
                                "no memory for %" PRIu32 " workers", workers);
    }
    for (uint32_t worker = 0; worker < workers; worker++) {
        run->speeds[worker] = 1;
        run->factors[worker] = 1;
    }
    muster_status status =
        muster_config_speeds(run->config, workers, error, run->speeds);
    if (status == MUSTER_OK) {
        status = muster_faults_read(run->config, error, &run->faults);
    }
    const muster_fault *faults = run->faults.data;
    for (size_t i = 0; status == MUSTER_OK && i < run->faults.count; i++) {
        if (faults[i].kind == MUSTER_FAULT_SLOW_BY) {
            run->sleeps[faults[i].worker] += faults[i].delay_ns;
        } else if (faults[i].kind == MUSTER_FAULT_SLOW_TIMES) {
            run->factors[faults[i].worker] *= faults[i].factor;
        }
    }
    const char *delay = muster_config_string(run->config, MUSTER_OPT_DELAY);
    if (status == MUSTER_OK && delay != NULL) {
        uint64_t seed = muster_config_uint(run->config, MUSTER_OPT_SEED);
        status = muster_delay_create(delay, workers, seed, error, &run->delay);
    }
    return status;
}

static muster_status make_job(muster_virtual *run, muster_error *error)
{
    run->exact = muster_config_string(run->config, MUSTER_OPT_DATA) != NULL;
    if (!run->exact) {
        uint64_t steps = muster_config_uint(run->config, MUSTER_OPT_STEPS);
        run->steps = steps > 0 ? steps : STEPS_DEFAULT;
        run->message_dim = MESSAGE_DIM_PLAIN;
        return MUSTER_OK;
    }
    muster_status status = muster_executor_create_coordinator(
        run->config, run->info.parts, &muster_executor_heap, error,
        &run->hosts[0].executor);
    if (status == MUSTER_OK) {
        muster_executor_info info =
            muster_executor_describe(run->hosts[0].executor);
        run->steps = info.steps;
        run->message_dim = info.message_dim;
    }
    return status;
}

static void count_step(muster_virtual *run, const muster_report *report)
{
    run->steps_done++;
    run->step_end_ns = report->now_ns;
    muster_histogram_add(&run->step_ms, report->as.end.step_ms);
    run->bytes_up += report->as.end.bytes_up;
    run->bytes_down += report->as.end.bytes_down;
    run->messages_up += report->as.end.messages_up;
    run->bytes_moved += report->as.end.bytes_moved;
    run->grad_err_max = fmax(run->grad_err_max, report->as.end.grad_err);
    run->grad_err_sum += report->as.end.grad_err;
    run->steps_exact += !report->as.end.inexact;
    run->degraded += report->as.end.degraded;
    run->plans = report->as.end.plan;
    memcpy(run->parts_received, report->as.end.parts_received,
           run->info.parts * sizeof(*run->parts_received));
}

static void start_worker(muster_virtual *run, uint32_t worker)
{
    muster_worker_opts opts = MUSTER_WORKER_OPTS_INIT;
    snprintf(opts.address, sizeof(opts.address), "sim:0");
    snprintf(opts.host, sizeof(opts.host), "virtual");
    opts.id = worker;
    opts.pid = worker;
    opts.patience_ns =
        muster_config_duration_ns(run->config, MUSTER_OPT_PATIENCE);
    muster_role role;
    muster_status status = muster_worker_create(&opts, &run->failure, &role);
    if (status == MUSTER_OK) {
        muster_sim_start(run->sim, worker + 1, role);
    } else {
        muster_sim_halt(run->sim);
    }
}

static void apply_fault(muster_sim *sim, void *context, uint64_t index)
{
    muster_virtual *run = context;
    const muster_fault *fault = (const muster_fault *)run->faults.data + index;
    uint32_t host = fault->worker + 1;
    if (fault->kind == MUSTER_FAULT_KILL) {
        muster_sim_kill(sim, host);
    } else if (fault->kind == MUSTER_FAULT_STOP) {
        muster_sim_stop(sim, host);
    } else if (fault->kind == MUSTER_FAULT_CONT) {
        muster_sim_cont(sim, host);
    } else if (fault->kind == MUSTER_FAULT_REJOIN &&
               !muster_sim_is_up(sim, host)) {
        start_worker(run, fault->worker);
    }
}

/* Faults hang on the beginning of their step. */
static void strike(muster_virtual *run, const muster_report *report)
{
    const muster_fault *faults = run->faults.data;
    for (size_t i = 0; i < run->faults.count; i++) {
        if (faults[i].kind >= MUSTER_FAULT_KILL &&
            faults[i].step == report->step) {
            muster_sim_at(run->sim, report->now_ns, apply_fault, run, i);
        }
    }
}

static void on_report(void *context, uint32_t host, const muster_report *report)
{
    muster_virtual *run = context;
    if (host != 0) {
        return;
    }
    switch (report->kind) {
    case MUSTER_REPORT_STEP_BEGIN:
        strike(run, report);
        break;
    case MUSTER_REPORT_STEP_END:
        count_step(run, report);
        break;
    case MUSTER_REPORT_ANSWER:
        run->late += report->as.answer.late;
        break;
    case MUSTER_REPORT_WORKER:
        run->losses += report->as.worker.change == MUSTER_WORKER_LOST;
        break;
    case MUSTER_REPORT_RESULT:
        run->loss = report->as.result.loss;
        run->theta_norm = report->as.result.theta_norm;
        run->test_loss = report->as.result.test_loss;
        run->test_accuracy = report->as.result.test_accuracy;
        break;
    case MUSTER_REPORT_NOTICE:
        muster_log(report->as.notice.level, "%s", report->as.notice.text);
        break;
    }
}

static void on_stop(void *context, uint32_t host, muster_status status,
                    const char *reason)
{
    muster_virtual *run = context;
    if (host == 0) {
        run->status = status;
        snprintf(run->reason, sizeof(run->reason), "%s", reason);
        muster_sim_halt(run->sim);
    }
}

muster_status muster_virtual_init(muster_virtual *run,
                                  const muster_config *config, const char *code,
                                  muster_error *error_out)
{
    *run = (muster_virtual){.config = config,
                            .faults = muster_vec_make(sizeof(muster_fault)),
                            .status = MUSTER_ERR_QUORUM,
                            .loss = NAN,
                            .theta_norm = NAN,
                            .test_loss = NAN,
                            .test_accuracy = NAN};
    muster_status status = make_machines(run, error_out);
    if (status == MUSTER_OK) {
        status = make_code(run, code, error_out);
    }
    if (status == MUSTER_OK) {
        status = make_job(run, error_out);
    }
    if (status == MUSTER_OK) {
        run->parts_received =
            muster_mem_array(run->info.parts, sizeof(*run->parts_received));
        status = run->parts_received != NULL ? MUSTER_OK : MUSTER_ERR_NO_MEMORY;
    }
    if (status == MUSTER_OK) {
        double mbit = muster_config_double(config, MUSTER_OPT_BANDWIDTH);
        muster_sim_opts opts = {
            .seed = muster_config_uint(config, MUSTER_OPT_SEED),
            .compute = muster_virtual_compute(run),
            .link = {LATENCY_NS, LATENCY_NS / 10, mbit * BYTES_PER_S_MBIT},
            .context = run,
            .on_report = on_report,
            .on_stop = on_stop};
        status = muster_sim_create(&opts, run->info.workers + 1, &run->sim);
    }
    if (status != MUSTER_OK) {
        muster_virtual_fini(run);
    }
    return status;
}

void muster_virtual_fini(muster_virtual *run)
{
    muster_sim_free(run->sim);
    uint32_t hosts = run->info.workers + 1;
    for (uint32_t host = 0; run->hosts != NULL && host < hosts; host++) {
        muster_executor_free(run->hosts[host].executor);
    }
    muster_mem_free(run->hosts);
    muster_mem_free(run->speeds);
    muster_mem_free(run->factors);
    muster_mem_free(run->sleeps);
    muster_mem_free(run->parts_received);
    muster_delay_free(run->delay);
    muster_code_free(run->code);
    muster_vec_fini(&run->faults);
}

static muster_status start_coordinator(muster_virtual *run, muster_error *error)
{
    const muster_config *config = run->config;
    muster_executor *executor = run->hosts[0].executor;
    muster_coordinator_opts opts = MUSTER_COORDINATOR_OPTS_INIT;
    opts.code = run->code;
    opts.run = VIRTUAL_RUN;
    opts.last_step = run->steps;
    opts.message_dim = run->message_dim;
    opts.setup = run->exact ? muster_executor_setup_blob(executor)
                            : muster_blob_create_empty(0);
    opts.model =
        run->exact
            ? muster_executor_model_blob(executor)
            : muster_blob_create_empty((run->message_dim - 1) * sizeof(float));
    opts.heartbeat_ns = muster_config_duration_ns(config, MUSTER_OPT_HEARTBEAT);
    opts.patience_ns = muster_config_duration_ns(config, MUSTER_OPT_PATIENCE);
    opts.evaluate_at_end = true;
    opts.deadline_ns = muster_config_deadline_ns(config);
    opts.degrade = strcmp(muster_config_string(config, MUSTER_OPT_ON_LOSS),
                          "degrade") == 0;
    opts.shuffle = muster_config_string(config, MUSTER_OPT_SHUFFLE);
    muster_role role;
    muster_status status = MUSTER_ERR_NO_MEMORY;
    if (opts.setup != NULL && opts.model != NULL) {
        status = muster_coordinator_create(&opts, error, &role);
    }
    muster_blob_unref(opts.setup);
    muster_blob_unref(opts.model);
    if (status == MUSTER_OK) {
        muster_sim_start(run->sim, 0, role);
    }
    return status;
}

/* The longest time that may pass without a step. */
static int64_t hangs_after_ns(const muster_virtual *run)
{
    return HANGS_NS + HANGS_JOBS * run->longest_job_ns +
           HANGS_PATIENCE *
               muster_config_duration_ns(run->config, MUSTER_OPT_PATIENCE);
}

/* Until the coordinator stops. Heartbeats go on for ever in a run that
 * hangs, so only the time without a step tells. */
static muster_status run_watched(muster_virtual *run, muster_error *error)
{
    int64_t until_ns = hangs_after_ns(run);
    while (!muster_sim_run(run->sim, until_ns)) {
        int64_t later_ns = run->step_end_ns + hangs_after_ns(run);
        if (later_ns <= until_ns) {
            return muster_error_set(
                error, MUSTER_ERR_TIMED_OUT,
                "%s: the simulated run hangs: no step has ended since second "
                "%.3f, after step %" PRIu64 "; the same options with --seed "
                "%" PRIu64 " replay it",
                run->info.name, (double)run->step_end_ns * 1e-9,
                run->steps_done,
                muster_config_uint(run->config, MUSTER_OPT_SEED));
        }
        until_ns = later_ns;
    }
    return MUSTER_OK;
}

muster_status muster_virtual_run(muster_virtual *run, muster_error *error_out)
{
    muster_status status = start_coordinator(run, error_out);
    if (status != MUSTER_OK) {
        return status;
    }
    for (uint32_t worker = 0; worker < run->info.workers; worker++) {
        start_worker(run, worker);
    }
    status = run_watched(run, error_out);
    if (run->failure.status != MUSTER_OK) {
        return muster_error_set(error_out, run->failure.status, "%s",
                                run->failure.text);
    }
    return status;
}
