/*
 * runtime/progress.h -- tells a person how a run goes.
 *
 * On a terminal, one line on stderr that is rewritten a few times a second:
 *
 *   step 120/1000  loss 0.3123  85.2 steps/s  ETA 0:10  6 heard, 2 not  slow: 3 5
 *
 * elsewhere the same as a plain line to the log every few seconds. NO_COLOR
 * and --quiet are respected.
 *
 *   Threads      The network thread's alone.
 *   Allocation   At init only.
 */
#ifndef MUSTER_RUNTIME_PROGRESS_H
#define MUSTER_RUNTIME_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "muster/status.h"
#include "runtime/tally.h"

#define MUSTER_PROGRESS_TEXT_MAX 256u

typedef struct muster_progress {
    bool quiet, terminal, color;
    bool drawn;                 // a line stands on the terminal
    uint64_t steps_done_before; // by an earlier life
    uint64_t steps_all;
    int64_t drawn_ns; // when last drawn
    uint64_t drawn_steps;
    double rate;        // steps per second, smoothed
    int64_t classes_ns; // when last classified
    muster_worker_class *classes;
} muster_progress;

/* `first` and `last` are the first step of this life and one past the last. */
MUSTER_CHECKED muster_status
muster_progress_init(uint32_t workers, uint64_t first, uint64_t last,
                     bool quiet, muster_progress *progress_out);
void muster_progress_fini(muster_progress *progress);

/* A step has ended: draw when it is time to. */
void muster_progress_step(muster_progress *progress, muster_tally *tally,
                          int64_t now_ns);

/* Clear the line on the terminal, before other text or at the end. */
void muster_progress_clear(muster_progress *progress);

/* The line itself; text_out has MUSTER_PROGRESS_TEXT_MAX bytes. */
void muster_progress_text(const muster_progress *progress,
                          const muster_tally *tally, char *text_out);

/* "1:05:09", "0:10". */
void muster_progress_duration(double seconds, char *text_out, size_t size);

#endif // MUSTER_RUNTIME_PROGRESS_H
