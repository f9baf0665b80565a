/*
 * sparse_metrics.c -- what is told of a sparse task's run: a line of metrics an
 * epoch, for the run folder and for people, and the summary at the end.
 *
 * Only node 0 tells. What the task measures is summed over all nodes; where
 * rows were found is what this node counted.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "record/json.h"
#include "run/sparse_run.h"

/* The task's own metrics into an object, and as text for people. */
static void describe(const muster_task_run *run, const muster_task_sums *work,
                     const muster_task_sums *evaluation, json_t *into,
                     char *text, size_t size)
{
    const char *names[MUSTER_TASK_METRICS_MAX];
    double values[MUSTER_TASK_METRICS_MAX];
    uint32_t count =
        run->ops->report(run->task, work, evaluation, names, values);
    size_t used = 0;
    for (uint32_t i = 0; i < count; i++) {
        (void)json_object_set_new(into, names[i], muster_json_real(values[i]));
        int length = snprintf(text + used, size - used, "  %s %.4g", names[i],
                              values[i]);
        used += length > 0 && (size_t)length < size - used ? (size_t)length : 0;
    }
}

/* Where this node found its rows in the last epoch. */
static void describe_rows(muster_task_run *run, json_t *into, char *text,
                          size_t size)
{
    muster_ps_counters now = run->results.counted[1];
    const muster_ps_counters *then = &run->results.counted[0];
    double accesses = (double)(now.accesses - then->accesses);
    double remote = (double)(now.remote_accesses - then->remote_accesses);
    double copied = (double)(now.replica_accesses - then->replica_accesses);
    const struct {
        const char *name;
        double value;
    } all[] = {
        {"local_share", 1 - (remote + copied) / accesses},
        {"replica_share", copied / accesses},
        {"remote_share", remote / accesses},
        {"relocated", (double)(now.relocations - then->relocations)},
        {"replicated", (double)(now.replications - then->replications)},
        {"syncs", (double)(now.syncs - then->syncs)},
        {"arriving_share",
         (double)(now.arriving_accesses - then->arriving_accesses) / accesses},
        {"spent_share",
         (double)(now.spent_accesses - then->spent_accesses) / accesses},
        {"copies", (double)now.replicas_held},
    };
    size_t used = strlen(text);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        (void)json_object_set_new(into, all[i].name,
                                  muster_json_real(all[i].value));
        int length = snprintf(text + used, size - used, "  %s %.4g",
                              all[i].name, all[i].value);
        used += length > 0 && (size_t)length < size - used ? (size_t)length : 0;
    }
}

static muster_status append_line(muster_task_run *run, const json_t *line,
                                 muster_error *error_out)
{
    if (run->folder == NULL) {
        return MUSTER_OK;
    }
    const char *path = muster_run_folder_path(run->folder, MUSTER_RUN_METRICS);
    char *text = json_dumps(line, JSON_COMPACT);
    FILE *file = text == NULL ? NULL : fopen(path, "ae");
    bool good = file != NULL && fprintf(file, "%s\n", text) > 0;
    good = (file == NULL || fclose(file) == 0) && good;
    free(text); // heap: jansson's
    return good ? MUSTER_OK : muster_record_failed(path, errno, error_out);
}

/* Since the run began, without the time between its lives. */
static double wall_s(const muster_task_run *run)
{
    return run->results.earlier_s +
           (double)(muster_clock_ns() - run->results.start_ns) / 1e9;
}

muster_status muster_task_tell(muster_task_run *run,
                               const muster_task_told *told,
                               muster_error *error_out)
{
    double units_per_s = (double)told->units / told->s;
    char text[512] = "";
    json_t *line = json_object();
    (void)json_object_set_new(line, "epoch", json_integer(told->epoch));
    (void)json_object_set_new(line, "epoch_s", muster_json_real(told->s));
    (void)json_object_set_new(line, "wall_s", muster_json_real(wall_s(run)));
    (void)json_object_set_new(line, "units_per_s",
                              muster_json_real(units_per_s));
    describe(run, told->work, told->evaluation, line, text, sizeof(text));
    if (run->nodes > 1) {
        describe_rows(run, line, text, sizeof(text));
        muster_task_costs_describe(run, told->costs, line);
    }
    muster_log(MUSTER_LOG_INFO, "epoch %" PRIu32 "  %.2f s  %.3g %s/s%s",
               told->epoch, told->s, units_per_s, run->ops->unit, text);
    muster_status status = append_line(run, line, error_out);
    json_decref(run->results.last);
    run->results.last = line;
    if (status == MUSTER_OK && json_is_null(json_object_get(line, "loss"))) {
        status = muster_error_set(error_out, MUSTER_ERR_INVALID,
                                  "epoch %" PRIu32 ": the loss is not finite; "
                                  "the training diverged: try a smaller --lr, "
                                  "or --manage relocate with several nodes",
                                  told->epoch);
    }
    return status;
}

char *muster_task_summary(const muster_task_run *run)
{
    json_t *all = json_object();
    (void)json_object_set_new(
        all, "model",
        json_string(muster_config_string(run->config, MUSTER_OPT_MODEL)));
    (void)json_object_set_new(all, "steps",
                              json_integer((json_int_t)run->results.units));
    (void)json_object_set_new(all, "wall_s", muster_json_real(wall_s(run)));
    (void)json_object_set_new(all, "train_s",
                              muster_json_real(run->results.train_s));
    (void)json_object_set_new(
        all, "units_per_s",
        muster_json_real(run->results.train_s > 0
                             ? (double)run->results.units / run->results.train_s
                             : NAN));
    (void)json_object_set_new(all, "threads", json_integer(run->threads));
    (void)json_object_set_new(all, "nodes", json_integer(run->nodes));
    (void)json_object_set_new(
        all, "table_bytes", json_integer((json_int_t)muster_ps_bytes(run->ps)));
    if (run->nodes > 1) {
        muster_task_costs_describe(run, &run->results.total, all);
    }
    (void)json_object_update_missing(all, run->results.last);
    char *text = json_dumps(all, JSON_COMPACT);
    char *copy = text == NULL ? NULL : muster_mem_string(text);
    free(text); // heap: jansson's
    json_decref(all);
    return copy;
}
