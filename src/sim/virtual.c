/*
 * virtual.c -- starts the roles of a virtual run, applies its faults, and adds
 * up its reports.
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
#include "role/edge.h"
#include "role/worker.h"

/* Of the latency, so much more or less at random. */
#define JITTER_PART 10
#define VIRTUAL_RUN 0x766972u
/* Without a step for so long, and so many of the longest job and of the
 * patience besides, a run hangs. */
#define HANGS_NS       (3600ll * MUSTER_NS_PER_S)
#define HANGS_JOBS     100
#define HANGS_PATIENCE 4

static void count_step(muster_virtual *run, const muster_report *report)
{
    run->steps_done++;
    run->step_end_ns = report->now_ns;
    muster_histogram_add(&run->step_ms, report->as.end.step_ms);
    if (run->opts.recorder != NULL) {
        muster_delay_recorder_step(run->opts.recorder, report->step,
                                   report->as.end.step_ms * 1e-3);
    }
    run->bytes_up += report->as.end.bytes_up;
    run->bytes_down += report->as.end.bytes_down;
    run->messages_up += report->as.end.messages_up;
    run->bytes_moved += report->as.end.bytes_moved;
    run->stages_dropped += report->as.end.stages_dropped;
    run->grad_err_max = fmax(run->grad_err_max, report->as.end.grad_err);
    run->grad_err_sum += report->as.end.grad_err;
    run->steps_exact += !report->as.end.inexact;
    run->degraded += report->as.end.degraded;
    run->plans = report->as.end.plan;
    run->classes = report->as.end.classes;
    if (report->as.end.part_count == run->parts) { // not of another code
        memcpy(run->parts_received, report->as.end.parts_received,
               run->parts * sizeof(*run->parts_received));
    }
}

static void start_worker(muster_virtual *run, uint32_t worker)
{
    muster_worker_opts opts = MUSTER_WORKER_OPTS_INIT;
    uint32_t leader =
        run->edges > 0 ? 1 + muster_edge_of(run->opts.coordinator.code, worker)
                       : 0;
    snprintf(opts.address, sizeof(opts.address), "sim:%" PRIu32, leader);
    snprintf(opts.host, sizeof(opts.host), "virtual");
    if (run->opts.coordinator.gossip) {
        snprintf(opts.listen, sizeof(opts.listen), "sim:%" PRIu32,
                 muster_virtual_worker_host(run, worker));
    }
    opts.id = worker;
    opts.pid = worker;
    opts.patience_ns = run->opts.worker_patience_ns;
    opts.room = run->rooms + worker * muster_worker_bytes();
    muster_role role;
    muster_status status = muster_worker_create(&opts, &run->failure, &role);
    if (status == MUSTER_OK) {
        muster_sim_start(run->sim, muster_virtual_worker_host(run, worker),
                         role);
    } else {
        muster_sim_halt(run->sim);
    }
}

static void start_edge(muster_virtual *run, uint32_t edge)
{
    muster_edge_opts opts = MUSTER_EDGE_OPTS_INIT;
    snprintf(opts.address, sizeof(opts.address), "sim:0");
    snprintf(opts.host, sizeof(opts.host), "virtual");
    opts.id = edge;
    opts.pid = edge;
    opts.patience_ns = run->opts.worker_patience_ns;
    muster_role role;
    muster_status status = muster_edge_create(&opts, &run->failure, &role);
    if (status == MUSTER_OK) {
        muster_sim_start(run->sim, 1 + edge, role);
    } else {
        muster_sim_halt(run->sim);
    }
}

static void apply_fault(muster_sim *sim, void *context, uint64_t index)
{
    muster_virtual *run = context;
    const muster_fault *fault = &run->opts.faults[index];
    uint32_t host = fault->edge
                        ? 1 + fault->worker
                        : muster_virtual_worker_host(run, fault->worker);
    if (fault->kind == MUSTER_FAULT_KILL) {
        muster_sim_kill(sim, host);
    } else if (fault->kind == MUSTER_FAULT_STOP) {
        muster_sim_stop(sim, host);
    } else if (fault->kind == MUSTER_FAULT_CONT) {
        muster_sim_cont(sim, host);
    } else if (fault->kind == MUSTER_FAULT_REJOIN &&
               !muster_sim_is_up(sim, host)) {
        if (fault->edge) {
            start_edge(run, fault->worker);
        } else {
            start_worker(run, fault->worker);
        }
    }
}

/* A fault happens when its step begins. */
static void strike(muster_virtual *run, const muster_report *report)
{
    const muster_fault *faults = run->opts.faults;
    for (size_t i = 0; i < run->opts.fault_count; i++) {
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
    case MUSTER_REPORT_BELOW:
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
        run->test_auc = report->as.result.test_auc;
        break;
    case MUSTER_REPORT_EVALUATION:
        if (report->as.evaluation.reached) {
            run->target_step = report->step;
            run->target_ns = report->as.evaluation.model_ns;
        }
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
        if (run->classes != NULL) {
            run->rates = muster_classes_count(run->classes);
            run->fit = muster_classes_describe(run->classes);
        }
        snprintf(run->reason, sizeof(run->reason), "%s", reason);
        muster_sim_halt(run->sim);
    }
}

static muster_status make_arrays(muster_virtual *run, muster_error *error_out)
{
    run->hosts =
        muster_mem_lines(muster_virtual_worker_host(run, run->info.workers),
                         sizeof(*run->hosts));
    // In one block, since an event's worker is in no cache: large pages.
    run->rooms = muster_mem_lines(run->info.workers, muster_worker_bytes());
    run->parts_received =
        muster_mem_array(run->parts, sizeof(*run->parts_received));
    if (run->hosts == NULL || run->rooms == NULL ||
        run->parts_received == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "no memory for %" PRIu32 " workers",
                                run->info.workers);
    }
    run->hosts[0].executor = run->opts.executor;
    return MUSTER_OK;
}

static void set_nic(muster_virtual *run, uint32_t host, double bytes_per_s)
{
    if (bytes_per_s > 0) {
        muster_sim_set_link(
            run->sim, host,
            (muster_sim_link){run->opts.latency_ns / 2,
                              run->opts.latency_ns / 2 / JITTER_PART,
                              bytes_per_s});
    }
}

static void set_nics(muster_virtual *run)
{
    const muster_cluster *cluster = run->opts.cluster;
    if (cluster == NULL) {
        return;
    }
    set_nic(run, 0, cluster->bytes_per_s);
    for (uint32_t e = 0; e < run->edges && e < cluster->edge_count; e++) {
        set_nic(run, 1 + e, cluster->edges[e].bytes_per_s);
    }
}

muster_status muster_virtual_init(muster_virtual *run,
                                  const muster_virtual_opts *opts,
                                  muster_error *error_out)
{
    *run = (muster_virtual){
        .opts = *opts,
        .planner = muster_planner_make(),
        .info = MUSTER_CODE_INFO_INIT,
        .status = MUSTER_ERR_QUORUM,
        .loss = NAN,
        .theta_norm = NAN,
        .test_loss = NAN,
        .test_accuracy = NAN,
        .test_auc = NAN,
        .rates = {0, NAN, NAN, NAN, NAN},
        .fit = {MUSTER_CLASSES_ONE, NAN, NAN, NAN, NAN, NAN, {NAN, NAN, NAN}}};
    muster_status status =
        muster_code_describe(opts->coordinator.code, &run->info);
    if (status == MUSTER_OK) {
        run->edges = opts->coordinator.edges
                         ? muster_edge_count(opts->coordinator.code)
                         : 0;
        run->parts = run->edges > 0 ? muster_edge_parts(opts->coordinator.code)
                                    : run->info.parts;
        status = make_arrays(run, error_out);
    }
    if (status == MUSTER_OK) {
        muster_sim_opts sim = {.seed = opts->seed,
                               .compute = muster_virtual_compute(run),
                               // Half of it, and of its jitter, at either end.
                               .link = {opts->latency_ns / 2,
                                        opts->latency_ns / 2 / JITTER_PART,
                                        opts->bytes_per_s},
                               .duplicate = opts->duplicate,
                               .echo = opts->echo,
                               .context = run,
                               .on_report = on_report,
                               .on_stop = on_stop};
        status = muster_sim_create(
            &sim, muster_virtual_worker_host(run, run->info.workers),
            &run->sim);
    }
    if (status != MUSTER_OK) {
        muster_virtual_fini(run);
        return status;
    }
    set_nics(run);
    return status;
}

void muster_virtual_fini(muster_virtual *run)
{
    muster_sim_free(run->sim);
    uint32_t hosts = muster_virtual_worker_host(run, run->info.workers);
    for (uint32_t host = 1; run->hosts != NULL && host < hosts; host++) {
        muster_executor_free(run->hosts[host].executor);
        for (uint32_t i = 0; i < MUSTER_WORKER_PLANS; i++) {
            muster_mem_free(run->hosts[host].plans[i].by_stage);
        }
    }
    muster_blob_unref(run->gradient);
    muster_planner_fini(&run->planner);
    muster_mem_free(run->hosts);
    muster_mem_free(run->rooms);
    muster_mem_free(run->parts_received);
}

static muster_status start_coordinator(muster_virtual *run, muster_error *error)
{
    muster_coordinator_opts opts = run->opts.coordinator;
    muster_role role;
    opts.run = VIRTUAL_RUN;
    muster_status status = muster_coordinator_create(&opts, error, &role);
    if (status == MUSTER_OK) {
        muster_sim_start(run->sim, 0, role);
    }
    return status;
}

/* The longest time that may pass without a step. */
static int64_t hangs_after_ns(const muster_virtual *run)
{
    return HANGS_NS + HANGS_JOBS * run->longest_job_ns +
           HANGS_PATIENCE * run->opts.coordinator.patience_ns;
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
                run->steps_done, run->opts.seed);
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
    for (uint32_t edge = 0; edge < run->edges; edge++) {
        start_edge(run, edge);
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
