/*
 * sparse_train.c -- see sparse_train.h.
 *
 * Epochs are done one after the other; after each the tables are at rest, node
 * 0 gathers a checkpoint when there is a run folder, takes in nodes that
 * replace lost ones, and all nodes go on together. When a node is lost in the
 * middle, the others finish the epoch with its parts (sparse_phase.c,
 * sparse_survive.c).
 *
 * What the run is made of is in sparse_prepare.c, what is told of it in
 * sparse_metrics.c.
 */
#include "run/sparse_train.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "run/complete.h"
#include "run/sparse_checkpoint.h"
#include "run/sparse_run.h"

/* Between epochs: node 0 gathers the tables while all others stand still, and
 * writes them when they go on. */
static muster_status rest(muster_task_run *run, uint32_t epochs,
                          muster_error *error_out)
{
    float *rows[MUSTER_PS_TABLES_MAX] = {NULL};
    bool keep = run->folder != NULL;
    muster_status status = MUSTER_OK;
    if (keep) {
        status = muster_ps_gather(run->workers[0].worker, run->tables, rows);
        if (status != MUSTER_OK) {
            return muster_error_set(
                error_out,
                status == MUSTER_ERR_PEER_LOST ? MUSTER_ERR_QUORUM : status,
                "checkpoint: %s", muster_status_text(status));
        }
    }
    if (run->nodes > 1) {
        muster_task_sums none;
        // An epoch begins with equal rows everywhere.
        muster_task_thread pattern = {.leave = true,
                                      .evaluate = true,
                                      .until = MUSTER_PS_SEEN,
                                      .epoch = epochs};
        if (run->node == 0) {
            muster_task_admit(run, epochs);
        }
        status = muster_task_watch_publish(run);
        if (status == MUSTER_OK) {
            status = muster_task_phase(run, &pattern, error_out, &none);
        }
        if (status == MUSTER_OK) {
            status = muster_task_watch_follow(run);
        }
    }
    if (keep && status == MUSTER_OK) {
        status = muster_ps_checkpoint(
            run->ps, run->tables, rows, epochs,
            muster_run_folder_path(run->folder, MUSTER_RUN_CHECKPOINT),
            error_out);
        if (status == MUSTER_OK) {
            atomic_store(&run->loss.since, 0);
        }
    }
    if (run->node > 0 &&
        muster_config_string(run->config, MUSTER_OPT_RUN) != NULL) {
        // Node 0 may still write, and rows come from the file before it.
        run->loss.unsure = atomic_load(&run->loss.since);
    }
    for (uint32_t i = 0; i < run->tables; i++) {
        muster_mem_free(rows[i]);
    }
    return status;
}

static void count_rows(muster_task_run *run, int which)
{
    run->results.counted[which] = (muster_ps_counters)MUSTER_PS_COUNTERS_INIT;
    (void)!muster_ps_count(run->ps, &run->results.counted[which]);
}

/* What the barrier after an epoch's work waits for. What is told of the last
 * epoch, or ends the run, is of rows that have all updates. Between other
 * epochs replicas may be as old as within one, and nobody waits for them. */
static muster_ps_until work_until(const muster_task_run *run, uint32_t epoch)
{
    return epoch + 1 == run->epochs || run->watch.metric != NULL
               ? MUSTER_PS_SEEN
               : MUSTER_PS_MET;
}

/* Train one epoch, evaluate, write and tell. */
static muster_status one_epoch(muster_task_run *run, uint32_t epoch,
                               muster_error *error_out)
{
    muster_task_sums work;
    muster_task_sums evaluation;
    muster_task_thread pattern = {.epoch = epoch,
                                  .until = work_until(run, epoch)};
    int64_t start = muster_clock_ns();
    count_rows(run, 0);
    muster_status status = muster_task_phase(run, &pattern, error_out, &work);
    if (status != MUSTER_OK) {
        return status;
    }
    count_rows(run, 1);
    muster_task_costs costs = run->results.costs; // not the evaluation's
    muster_task_costs_add(&run->results.total, &costs);
    double s = (double)(muster_clock_ns() - start) / 1e9;
    uint64_t units = run->ops->units(run->task);
    run->results.train_s += s;
    run->results.units += units;
    pattern.evaluate = true;
    // Before rest() gathers rows: those of replicas are read here.
    pattern.until = run->folder != NULL ? MUSTER_PS_SEEN : MUSTER_PS_STORED;
    pattern.final = epoch + 1 == run->epochs;
    status = muster_task_phase(run, &pattern, error_out, &evaluation);
    if (status != MUSTER_OK) {
        return status;
    }
    if (run->node == 0) {
        muster_task_watch_judge(run, epoch + 1, &work, &evaluation);
    }
    status = rest(run, epoch + 1, error_out);
    if (status != MUSTER_OK || run->node > 0) {
        return status;
    }
    const muster_task_told told = {.epoch = epoch + 1,
                                   .s = s,
                                   .units = units,
                                   .costs = &costs,
                                   .work = &work,
                                   .evaluation = &evaluation};
    return muster_task_tell(run, &told, error_out);
}

static muster_status conclude(muster_task_run *run, muster_error *error_out,
                              char **json_out)
{
    char *text = muster_task_summary(run);
    if (text == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "no memory for the summary");
    }
    muster_status status = MUSTER_OK;
    if (run->folder != NULL) {
        status = muster_run_folder_write(run->folder, MUSTER_RUN_SUMMARY, text,
                                         error_out);
    }
    if (status == MUSTER_OK && run->folder != NULL) {
        status = muster_task_save(run->ops, run->task, run->workers[0].worker,
                                  run->folder, error_out);
    }
    *json_out = text;
    return status;
}

static void tell_plan(const muster_task_run *run)
{
    muster_log(MUSTER_LOG_INFO,
               "%s: %" PRIu64 " %s, %" PRIu32 " epochs, %" PRIu32
               " node(s) of %" PRIu32 " thread(s), %.1f MB of tables here",
               run->ops->name, run->ops->units(run->task), run->ops->unit,
               run->epochs, run->nodes, run->threads,
               (double)muster_ps_bytes(run->ps) / 1e6);
}

/* All epochs that are left, then the files, then the farewell. */
static muster_status go_through(muster_task_run *run, muster_error *error_out,
                                char **json_out)
{
    muster_status status = MUSTER_OK;
    bool complete = run->folder != NULL && run->next_epoch > 0 &&
                    run->next_epoch >= run->epochs; // in earlier lives
    if (run->joins) {
        // The others stand between two epochs and wait for us as well.
        muster_task_sums none;
        muster_task_thread pattern = {
            .leave = true, .evaluate = true, .until = MUSTER_PS_SEEN};
        status = muster_task_phase(run, &pattern, error_out, &none);
    } else if (run->next_epoch == 0) {
        // A run that ends in its first epoch can be resumed as well.
        status = rest(run, 0, error_out);
    }
    for (; run->next_epoch < run->epochs && status == MUSTER_OK;
         run->next_epoch += status == MUSTER_OK) {
        status = one_epoch(run, run->next_epoch, error_out);
    }
    if (status == MUSTER_OK && run->node == 0 && complete) {
        muster_run_tell_complete(run->next_epoch, run->epochs, "epochs",
                                 "epochs");
        *json_out = muster_run_summary_text(run->folder);
    }
    if (status == MUSTER_OK && run->node == 0 && *json_out == NULL) {
        muster_task_costs_tell(run);
        status = conclude(run, error_out, json_out);
    }
    // The rows of a node go with it: all stay until node 0 has read them.
    if (status == MUSTER_OK && run->nodes > 1) {
        muster_task_sums none;
        muster_task_thread pattern = {
            .leave = true, .evaluate = true, .until = MUSTER_PS_MET};
        status = muster_task_phase(run, &pattern, error_out, &none);
    }
    return status;
}

muster_status muster_train_task(const muster_config *config,
                                const char *program, muster_error *error_out,
                                char **json_out)
{
    muster_task_run run = {
        .config = config,
        .program = program,
        .nodes = (uint32_t)muster_config_uint(config, MUSTER_OPT_NODES),
        .node = (uint32_t)muster_config_uint(config, MUSTER_OPT_NODE),
        .threads = muster_config_threads(config),
        .joins = muster_config_bool(config, MUSTER_OPT_REPLACE),
        .results = {.start_ns = muster_clock_ns(), .last = json_object()}};
    run.parts = run.nodes * run.threads;
    muster_status status = muster_task_prepare(&run, error_out);
    if (status == MUSTER_OK) {
        tell_plan(&run);
        status = go_through(&run, error_out, json_out);
    }
    if (status != MUSTER_OK && run.ps != NULL) {
        muster_ps_abandon(run.ps);
    }
    muster_task_finish(&run);
    return status;
}
