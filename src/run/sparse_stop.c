/*
 * sparse_stop.c -- a run ends before its last epoch when the metric that its
 * task watches has not become better for some epochs.
 *
 * Node 0 knows the metric and decides, after an evaluation. The other nodes
 * read its decision from a row of the table of sums after the next barrier: at
 * that time node 0 writes no other decision, because it waits for them at the
 * end of the next epoch.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "run/sparse_run.h"

void muster_task_watch_init(muster_task_run *run)
{
    muster_task_watch *watch = &run->watch;
    watch->best = INFINITY;
    watch->best_epoch = 0;
    watch->metric = run->ops->stops_by == NULL
                        ? NULL
                        : run->ops->stops_by(run->task, &watch->patience);
}

void muster_task_watch_note(muster_task_run *run, uint32_t epoch, double value)
{
    muster_task_watch *watch = &run->watch;
    if (value < watch->best) {
        watch->best = value;
        watch->best_epoch = epoch;
    }
    if (epoch - watch->best_epoch >= watch->patience) {
        run->epochs = epoch < run->epochs ? epoch : run->epochs;
    }
}

void muster_task_watch_judge(muster_task_run *run, uint32_t epoch,
                             const muster_task_sums *work,
                             const muster_task_sums *evaluation)
{
    const char *names[MUSTER_TASK_METRICS_MAX];
    double values[MUSTER_TASK_METRICS_MAX];
    if (run->watch.metric == NULL) {
        return;
    }
    uint32_t planned = run->epochs;
    uint32_t count =
        run->ops->report(run->task, work, evaluation, names, values);
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(names[i], run->watch.metric) == 0) {
            muster_task_watch_note(run, epoch, values[i]);
        }
    }
    if (run->epochs < planned) {
        muster_log(MUSTER_LOG_INFO,
                   "%s has not become better since epoch %" PRIu32
                   " (%.4g): the run ends; --epochs N does N",
                   run->watch.metric, run->watch.best_epoch, run->watch.best);
    }
}

/* Behind the rows of sums; node 0 is its home and owner, as of those. */
static uint32_t end_row(const muster_task_run *run)
{
    return 2 * run->parts * run->nodes;
}

muster_status muster_task_watch_publish(muster_task_run *run)
{
    // Each half is exact as a float.
    float row[MUSTER_TASK_SUM_FLOATS] = {(float)(run->epochs >> 16),
                                         (float)(run->epochs & 0xffff)};
    uint32_t key = end_row(run);
    return run->watch.metric == NULL || run->node > 0
               ? MUSTER_OK
               : muster_ps_set(run->workers[0].worker, run->sums_table, &key, 1,
                               row);
}

muster_status muster_task_watch_follow(muster_task_run *run)
{
    float row[MUSTER_TASK_SUM_FLOATS];
    uint32_t key = end_row(run);
    if (run->watch.metric == NULL || run->node == 0) {
        return MUSTER_OK;
    }
    muster_status status =
        muster_ps_pull(run->workers[0].worker, run->sums_table, &key, 1, row);
    if (status == MUSTER_OK) {
        run->epochs = (uint32_t)row[0] << 16 | (uint32_t)row[1];
    }
    return status;
}
