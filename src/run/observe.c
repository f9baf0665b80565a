/*
 * observe.c -- what happens while a run trains: lines for people and files,
 * faults on demand, children that end, signals.
 */
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "code/numbers.h"
#include "config/fault.h"
#include "proc/signals.h"
#include "run/measured_cluster.h"
#include "run/train.h"

/* Faults of the steps up to `step` that were not done yet. */
static void do_faults(muster_train_state *train, uint64_t step)
{
    const muster_fault *all = train->faults.data;
    for (; train->next_fault < train->faults.count &&
           all[train->next_fault].step <= step;
         train->next_fault++) {
        const muster_fault *fault = &all[train->next_fault];
        muster_error error = {.text = ""};
        const char *what = NULL;
        uint32_t process = muster_train_process(train, fault);
        switch (fault->kind) {
        case MUSTER_FAULT_KILL:
            what = "killed";
            muster_process_group_signal(train->workers, process, SIGKILL);
            break;
        case MUSTER_FAULT_STOP:
            what = "stopped";
            muster_process_group_signal(train->workers, process, SIGSTOP);
            break;
        case MUSTER_FAULT_CONT:
            what = "continued";
            muster_process_group_signal(train->workers, process, SIGCONT);
            break;
        case MUSTER_FAULT_REJOIN:
            what = "started again";
            if (muster_train_spawn(train, process, &error) < 0) {
                muster_host_fail(train->host, &error);
            }
            break;
        case MUSTER_FAULT_SLOW_BY:
        case MUSTER_FAULT_SLOW_TIMES:
            // The worker does it by itself: it was started with --slow.
            what = fault->step > 0 ? "changes its slowness" : NULL;
            break;
        }
        if (what != NULL) {
            muster_log(MUSTER_LOG_INFO,
                       "step %" PRIu64 ": %s %" PRIu32 " %s, as asked", step,
                       fault->edge ? "edge" : "worker", fault->worker, what);
        }
    }
}

/* Faults before the checkpoint were done before it. */
static void skip_faults(muster_train_state *train, uint64_t first_step)
{
    const muster_fault *all = train->faults.data;
    while (train->next_fault < train->faults.count &&
           all[train->next_fault].step < first_step) {
        train->next_fault++;
    }
}

static void on_answer(muster_train_state *train, const muster_report *report)
{
    muster_error error = {.text = ""};
    bool below = report->kind == MUSTER_REPORT_BELOW;
    muster_worker_line line =
        below ? muster_below_line(report) : muster_tally_worker_line(report);
    line.edge = !below && train->edges > 0;
    if (train->folder != NULL &&
        muster_run_folder_worker(train->folder, &line, &error) < 0) {
        muster_host_fail(train->host, &error);
    }
}

/* Will there be a checkpoint before another step ends? */
static bool checkpoint_follows(const muster_train_state *train, uint64_t step)
{
    uint64_t every =
        muster_config_uint(train->config, MUSTER_OPT_CHECKPOINT_EVERY);
    return (every > 0 && (step + 1) % every == 0) ||
           step + 1 >= train->job.steps || muster_signals_stop_asked();
}

/* A checkpoint must not know more than the lines: flush before each. */
static muster_status write_step(muster_train_state *train,
                                const muster_step_line *line,
                                muster_error *error_out)
{
    muster_status status =
        muster_run_folder_step(train->folder, line, error_out);
    if (status == MUSTER_OK && checkpoint_follows(train, line->step)) {
        status = muster_run_folder_flush(train->folder, error_out);
    }
    return status;
}

/* The code may be another than before. */
static void note_code(muster_train_state *train, const muster_code *code)
{
    if (code != train->in_force) {
        train->in_force = code;
        train->code_info = *muster_code_numbers(code);
    }
}

static void on_step_end(muster_train_state *train, const muster_report *report)
{
    muster_error error = {.text = ""};
    note_code(train, report->as.end.code);
    muster_step_line line = muster_tally_step_line(report);
    train->last_step_ns = report->now_ns;
    if (train->folder != NULL && write_step(train, &line, &error) < 0) {
        muster_host_fail(train->host, &error);
    }
    muster_progress_step(&train->progress, &train->tally, report->now_ns);
}

static void on_worker(muster_train_state *train, const muster_report *report)
{
    uint32_t worker = report->as.worker.worker;
    const char *noun = muster_train_noun(train);
    bool returned = worker < train->tally.worker_count &&
                    train->tally.workers[worker].deaths > 0;
    switch (report->as.worker.change) {
    case MUSTER_WORKER_JOINED:
        muster_log(MUSTER_LOG_DEBUG, "%s %" PRIu32 " has joined", noun, worker);
        break;
    case MUSTER_WORKER_READY:
        if (returned) {
            muster_log(MUSTER_LOG_INFO, "%s %" PRIu32 " is back", noun, worker);
        } else {
            muster_log(MUSTER_LOG_DEBUG, "%s %" PRIu32 " is ready", noun,
                       worker);
        }
        break;
    case MUSTER_WORKER_LOST:
        muster_log(MUSTER_LOG_WARN, "%s %" PRIu32 " is lost: %s", noun, worker,
                   report->as.worker.reason);
        break;
    }
}

static void on_evaluation(const muster_report *report)
{
    char loss[32] = "", accuracy[48] = "";
    if (!isnan(report->as.evaluation.loss)) {
        (void)snprintf(loss, sizeof(loss), " loss %.6g",
                       report->as.evaluation.loss);
    }
    if (!isnan(report->as.evaluation.test_accuracy)) {
        (void)snprintf(accuracy, sizeof(accuracy), " test accuracy %.4f",
                       report->as.evaluation.test_accuracy);
    }
    muster_log(MUSTER_LOG_INFO, "step %" PRIu64 ":%s%s%s", report->step, loss,
               accuracy,
               report->as.evaluation.reached ? ": the target is reached" : "");
}

static void trace(muster_train_state *train, const muster_report *report)
{
    muster_error error = {.text = ""};
    if (train->tracing != NULL &&
        muster_tracing_report(train->tracing, report, &error) < 0) {
        muster_host_fail(train->host, &error);
    }
}

static void record(muster_train_state *train, const muster_report *report)
{
    if (train->recorder != NULL && report->kind == MUSTER_REPORT_BELOW) {
        muster_delay_recorder_time(train->recorder, report->step,
                                   report->as.below.worker,
                                   report->as.below.compute_ms * 1e-3);
    } else if (train->recorder != NULL && train->edges == 0 &&
               report->kind == MUSTER_REPORT_ANSWER &&
               !report->as.answer.partial) {
        muster_delay_recorder_time(train->recorder, report->step,
                                   report->as.answer.worker,
                                   report->as.answer.compute_ms * 1e-3);
    } else if (train->recorder != NULL &&
               report->kind == MUSTER_REPORT_STEP_END) {
        muster_delay_recorder_step(train->recorder, report->step,
                                   report->as.end.step_ms * 1e-3);
    }
}

/* The load that an answer's worker had; 0: it is not known. */
static double load_of_answer(const muster_train_state *train,
                             const muster_report *report)
{
    if (report->kind == MUSTER_REPORT_BELOW && report->as.below.code != NULL) {
        return muster_measured_load(report->as.below.code, NULL,
                                    report->as.below.worker);
    }
    if (train->edges == 0 && report->kind == MUSTER_REPORT_ANSWER &&
        report->as.answer.code != NULL) {
        return muster_measured_load(report->as.answer.code,
                                    report->as.answer.first_shard,
                                    report->as.answer.worker);
    }
    return 0;
}

/* A chosen code changes the workers' loads: their times over their loads. */
static void measure_load(muster_train_state *train, const muster_report *report)
{
    double load = train->per_load != NULL ? load_of_answer(train, report) : 0;
    if (load > 0) {
        bool below = report->kind == MUSTER_REPORT_BELOW;
        muster_worker_line line = below ? muster_below_line(report)
                                        : muster_tally_worker_line(report);
        double send_ms = line.arrive_ms - line.compute_ms;
        line.compute_ms /= load;
        line.arrive_ms = line.compute_ms + send_ms;
        muster_summary_worker(train->per_load, &line);
    }
}

void muster_train_on_report(void *context, const muster_report *report)
{
    muster_train_state *train = context;
    muster_tally_report(&train->tally, report);
    muster_below_report(&train->below, report);
    measure_load(train, report);
    trace(train, report);
    record(train, report);
    switch (report->kind) {
    case MUSTER_REPORT_NOTICE:
        muster_log(report->as.notice.level, "%s", report->as.notice.text);
        break;
    case MUSTER_REPORT_STEP_BEGIN:
        if (train->first_step_ns == 0) {
            train->first_step_ns = report->now_ns;
            muster_progress_span(&train->progress, report->step,
                                 train->job.steps, report->now_ns);
            skip_faults(train, report->step);
        }
        do_faults(train, report->step);
        break;
    case MUSTER_REPORT_ANSWER:
        if (!report->as.answer.partial) {
            on_answer(train, report);
        }
        break;
    case MUSTER_REPORT_BELOW:
        on_answer(train, report);
        break;
    case MUSTER_REPORT_STEP_END:
        on_step_end(train, report);
        break;
    case MUSTER_REPORT_WORKER:
        on_worker(train, report);
        break;
    case MUSTER_REPORT_EVALUATION:
        on_evaluation(report);
        break;
    case MUSTER_REPORT_RESULT:
        break;
    }
}

/* Start those that died again, unless the run ends. When every local worker
 * has died and none will come, end at once. */
static void check_workers(muster_train_state *train)
{
    muster_error error = {.text = ""};
    if (!muster_signals_stop_asked() &&
        muster_train_restart(train, &error) < 0) {
        muster_log(MUSTER_LOG_WARN, "%s", error.text);
    }
    if (!muster_process_group_is_lost(train->workers)) {
        return;
    }
    (void)muster_error_set(&error, MUSTER_ERR_QUORUM,
                           "all %" PRIu32 " local workers have died",
                           train->code_info.workers);
    muster_host_fail(train->host, &error);
}

static void flush(muster_train_state *train)
{
    muster_error error = {.text = ""};
    if (train->folder != NULL &&
        muster_run_folder_flush(train->folder, &error) < 0) {
        muster_host_fail(train->host, &error);
    }
}

bool muster_train_on_turn(void *context, int64_t now_ns, int64_t *wait_until_ns)
{
    (void)now_ns;
    (void)wait_until_ns;
    muster_train_state *train = context;
    if (train->workers != NULL && muster_signals_child_ended()) {
        muster_process_group_reap(train->workers);
        check_workers(train);
    }
    bool must_stop = muster_signals_stop_asked();
    if (must_stop && !train->is_stopping) {
        train->is_stopping = true;
        flush(train); // the last checkpoint may follow at once
    }
    return must_stop;
}
