/*
 * delay_recorder.c -- see delay_recorder.h.
 *
 * A ring of rows, by step modulo MUSTER_DELAY_ROWS. Rows first..next-1 are in
 * the file, next..next+MUSTER_DELAY_ROWS-1 are in the ring.
 */
#include "cluster/delay_recorder.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"

#define UNKNOWN (-1.0)

struct muster_delay_recorder {
    FILE *file;
    char *path;
    uint32_t workers;
    bool begun;
    uint64_t first, next; // steps
    double *seconds;      // [row * workers + worker]; UNKNOWN: not yet
    double step_s[MUSTER_DELAY_ROWS]; // UNKNOWN: it has not ended
    double fastest;                   // 0: none yet
    int failed;                       // errno of the first write that failed
};

static double *row_of(muster_delay_recorder *recorder, uint64_t step)
{
    return &recorder->seconds[step % MUSTER_DELAY_ROWS * recorder->workers];
}

static void clear_row(muster_delay_recorder *recorder, uint64_t step)
{
    double *row = row_of(recorder, step);
    for (uint32_t worker = 0; worker < recorder->workers; worker++) {
        row[worker] = UNKNOWN;
    }
    recorder->step_s[step % MUSTER_DELAY_ROWS] = UNKNOWN;
}

static void note_failure(muster_delay_recorder *recorder, bool failed)
{
    if (failed && recorder->failed == 0) {
        recorder->failed = errno != 0 ? errno : EIO;
    }
}

muster_status muster_delay_recorder_open(const char *path, uint32_t workers,
                                         muster_error *error_out,
                                         muster_delay_recorder **recorder_out)
{
    muster_delay_recorder *recorder = muster_mem_array(1, sizeof *recorder);
    muster_status status = MUSTER_ERR_NO_MEMORY;
    if (recorder != NULL) {
        recorder->workers = workers;
        recorder->path = muster_mem_string(path);
        recorder->seconds = muster_mem_array(
            (size_t)MUSTER_DELAY_ROWS * workers, sizeof *recorder->seconds);
    }
    if (recorder == NULL || recorder->path == NULL ||
        recorder->seconds == NULL) {
        (void)muster_error_set(
            error_out, status,
            "--record-delays: no memory for %" PRIu32 " workers", workers);
        goto out;
    }
    recorder->file = fopen(path, "w");
    if (recorder->file == NULL) {
        status =
            muster_error_set(error_out, MUSTER_ERR_SYSTEM,
                             "--record-delays %s: %s", path, strerror(errno));
        goto out;
    }
    note_failure(recorder,
                 fputs("iteration,worker,seconds\n", recorder->file) < 0);
    for (uint64_t row = 0; row < MUSTER_DELAY_ROWS; row++) {
        clear_row(recorder, row);
    }
    *recorder_out = recorder;
    return MUSTER_OK;

out:
    if (recorder != NULL) {
        muster_mem_free(recorder->seconds);
        muster_mem_free(recorder->path);
        muster_mem_free(recorder);
    }
    return status;
}

/* The oldest row of the ring goes to the file. */
static void write_row(muster_delay_recorder *recorder)
{
    const double *row = row_of(recorder, recorder->next);
    double step_s = recorder->step_s[recorder->next % MUSTER_DELAY_ROWS];
    for (uint32_t worker = 0; worker < recorder->workers; worker++) {
        double seconds = row[worker] != UNKNOWN ? row[worker]
                         : step_s != UNKNOWN    ? step_s
                                                : 0;
        note_failure(recorder,
                     fprintf(recorder->file, "%" PRIu64 ",%" PRIu32 ",%.9f\n",
                             recorder->next - recorder->first, worker,
                             seconds) < 0);
    }
    clear_row(recorder, recorder->next);
    recorder->next++;
}

/* Is there a row for `step`? Makes room for a new one. */
static bool reach(muster_delay_recorder *recorder, uint64_t step)
{
    if (!recorder->begun) {
        recorder->begun = true;
        recorder->first = recorder->next = step;
    }
    if (step < recorder->next) {
        return false;
    }
    while (step - recorder->next >= MUSTER_DELAY_ROWS) {
        write_row(recorder);
    }
    return true;
}

void muster_delay_recorder_time(muster_delay_recorder *recorder, uint64_t step,
                                uint32_t worker, double seconds)
{
    if (worker < recorder->workers && seconds >= 0 && reach(recorder, step)) {
        row_of(recorder, step)[worker] = seconds;
        if (recorder->fastest == 0 || seconds < recorder->fastest) {
            recorder->fastest = seconds;
        }
    }
}

void muster_delay_recorder_step(muster_delay_recorder *recorder, uint64_t step,
                                double seconds)
{
    if (seconds >= 0 && reach(recorder, step)) {
        recorder->step_s[step % MUSTER_DELAY_ROWS] = seconds;
    }
}

double muster_delay_recorder_fastest(const muster_delay_recorder *recorder)
{
    return recorder->fastest;
}

muster_status muster_delay_recorder_close(muster_delay_recorder *recorder,
                                          muster_error *error_out)
{
    if (recorder == NULL) {
        return MUSTER_OK;
    }
    // A step that did not end is no measurement.
    while (recorder->step_s[recorder->next % MUSTER_DELAY_ROWS] != UNKNOWN) {
        write_row(recorder);
    }
    note_failure(recorder, fclose(recorder->file) != 0);
    muster_status status = MUSTER_OK;
    if (recorder->failed != 0) {
        status = muster_error_set(error_out, MUSTER_ERR_SYSTEM,
                                  "--record-delays %s: %s", recorder->path,
                                  strerror(recorder->failed));
    }
    muster_mem_free(recorder->seconds);
    muster_mem_free(recorder->path);
    muster_mem_free(recorder);
    return status;
}
