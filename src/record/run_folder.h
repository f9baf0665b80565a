/*
 * record/run_folder.h -- what a run leaves behind: config, metrics, summary,
 * checkpoints, model.
 *
 *   DIR/config.json         the resolved options
 *   DIR/metrics.jsonl       a line a step
 *   DIR/workers.jsonl       a line per worker and step
 *   DIR/summary.json        at the end
 *   DIR/cluster.yaml        what was measured of the workers
 *   DIR/model.safetensors   at the end
 *   DIR/checkpoint/         see record/checkpoint.h
 *
 *   Promise      One process has a folder open at a time. Whole files appear
 *                atomically; lines are written at the latest with the 256th or
 *                a second after the one before, and on flush. A full disk is
 *                MUSTER_ERR_SYSTEM that names the file, on the call that met
 *                it and on every later one for that file.
 *   Ownership    The caller's from open to close.
 *   Threads      One at a time.
 *   Allocation   Lines go through fixed buffers.
 *
 * For users: docs/run-folder.md.
 */
#ifndef MUSTER_RECORD_RUN_FOLDER_H
#define MUSTER_RECORD_RUN_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "muster/status.h"
#include "record/atomic.h"
#include "record/line.h"
#include "record/summary.h"

#define MUSTER_RUN_CONFIG     "config.json"
#define MUSTER_RUN_METRICS    "metrics.jsonl"
#define MUSTER_RUN_WORKERS    "workers.jsonl"
#define MUSTER_RUN_SUMMARY    "summary.json"
#define MUSTER_RUN_CLUSTER    "cluster.yaml"
#define MUSTER_RUN_MODEL      "model.safetensors"
#define MUSTER_RUN_CHECKPOINT "checkpoint"

typedef struct muster_run_folder muster_run_folder;

/*
 * Open DIR for a new run (made when missing, with its parents), or to continue
 * the one it holds.
 * MUSTER_ERR_INVALID  a new run, but DIR holds another or is a file
 * MUSTER_ERR_INPUT    to continue, but DIR holds none
 * MUSTER_ERR_SYSTEM   DIR cannot be made or is in use by another process
 */
MUSTER_CHECKED muster_status
muster_run_folder_open(const char *dir, bool resume, muster_error *error_out,
                       muster_run_folder **folder_out);

/* Flushes what it can; call flush before to learn whether it worked. NULL is
 * allowed. */
void muster_run_folder_close(muster_run_folder *folder);

/* DIR/name; lent until the next call of this function. */
const char *muster_run_folder_path(muster_run_folder *folder, const char *name);

/* Write DIR/name whole: config.json, summary.json, cluster.yaml. */
MUSTER_CHECKED muster_status muster_run_folder_write(muster_run_folder *folder,
                                                     const char *name,
                                                     const char *text,
                                                     muster_error *error_out);

/* Append a line. */
MUSTER_CHECKED muster_status
muster_run_folder_step(muster_run_folder *folder, const muster_step_line *line,
                       muster_error *error_out);
MUSTER_CHECKED muster_status muster_run_folder_worker(
    muster_run_folder *folder, const muster_worker_line *line,
    muster_error *error_out);

/* All lines so far are on disk, as a checkpoint is: call it before each. */
MUSTER_CHECKED muster_status muster_run_folder_flush(muster_run_folder *folder,
                                                     muster_error *error_out);

/* Who is told of the lines that stay; each may be NULL. */
typedef struct muster_run_counts {
    muster_summary *summary; // those that the coordinator leads
    muster_summary *below;   // the workers under edges
} muster_run_counts;

/*
 * When a run continues at `next_step`: drop the lines of that step and later
 * ones, and half a last line, and tell `counts` of those kept. Before the first
 * line is appended.
 */
MUSTER_CHECKED muster_status
muster_run_folder_cut(muster_run_folder *folder, uint64_t next_step,
                      const muster_run_counts *counts, muster_error *error_out);

#endif // MUSTER_RECORD_RUN_FOLDER_H
