/*
 * sparse_history.c -- what metrics.jsonl tells a run that goes on: how long its
 * earlier lives took, and how good it was. Lines of epochs after the
 * checkpoint, and half a last line, are dropped from the file by node 0.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/vec.h"
#include "run/complete.h"
#include "run/sparse_run.h"

static double number_of(const json_t *line, const char *name)
{
    return json_number_value(json_object_get(line, name));
}

/* What the summary and the early stop know of an epoch. */
static void recall_line(muster_task_run *run, json_t *line)
{
    muster_task_results *results = &run->results;
    const json_t *watched = run->watch.metric == NULL
                                ? NULL
                                : json_object_get(line, run->watch.metric);
    uint32_t epoch =
        (uint32_t)json_integer_value(json_object_get(line, "epoch"));
    double epoch_s = number_of(line, "epoch_s");
    double wall_s = number_of(line, "wall_s");
    results->train_s += epoch_s;
    results->earlier_s = wall_s > 0 ? wall_s : results->earlier_s + epoch_s;
    if (json_is_number(watched)) {
        muster_task_watch_note(run, epoch, json_number_value(watched));
    }
    json_decref(results->last);
    results->last = json_incref(line);
}

/* Whether a line stays; if so, it is recalled. */
static bool keep_line(muster_task_run *run, const char *text, size_t length)
{
    json_t *line = json_loadb(text, length, 0, NULL);
    json_int_t epoch = json_integer_value(json_object_get(line, "epoch"));
    bool kept = epoch > 0 && epoch <= (json_int_t)run->next_epoch;
    if (kept) {
        recall_line(run, line);
    }
    json_decref(line);
    return kept;
}

/* Go through the lines of `bytes`; those that stay move together. */
static void recall_lines(muster_task_run *run, muster_vec *bytes)
{
    char *text = bytes->data;
    size_t used = 0;
    for (size_t at = 0; at < bytes->count;) {
        const char *end = memchr(text + at, '\n', bytes->count - at);
        size_t length = end == NULL ? 0 : (size_t)(end - text) + 1 - at;
        if (length == 0) {
            break;
        }
        if (keep_line(run, text + at, length)) {
            memmove(text + used, text + at, length);
            used += length;
        }
        at += length;
    }
    bytes->count = used;
}

static muster_status write_back(const char *path, const muster_vec *bytes,
                                muster_error *error_out)
{
    muster_atomic file;
    muster_status status = muster_atomic_begin(&file, path, error_out);
    if (status == MUSTER_OK) {
        status =
            muster_atomic_write(&file, bytes->data, bytes->count, error_out);
    }
    return status == MUSTER_OK ? muster_atomic_commit(&file, error_out)
                               : status;
}

muster_status muster_task_recall(muster_task_run *run, const char *dir,
                                 muster_error *error_out)
{
    char path[MUSTER_RECORD_PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, MUSTER_RUN_METRICS);
    run->results.units += run->ops->units(run->task) * run->next_epoch;
    muster_vec bytes = muster_vec_make(1);
    // Without the file the run is told of without its past.
    bool good = muster_run_read_file(path, &bytes);
    size_t before = bytes.count;
    if (good) {
        recall_lines(run, &bytes);
    }
    muster_status status = MUSTER_OK;
    if (good && bytes.count < before && run->node == 0) {
        status = write_back(path, &bytes, error_out);
    }
    muster_vec_fini(&bytes);
    return status;
}
