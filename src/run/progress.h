/*
 * run/progress.h -- tells a person how a run goes, a few times a second:
 *
 *   step 120/1000  loss 0.3123  85.2 steps/s  ETA 0:10  6 heard, 2 not  slow: 3
 *
 * as progress lines of muster/log.h, which the command rewrites in place on a
 * terminal and thins out elsewhere.
 *
 *   Threads      The network thread's alone.
 *   Allocation   At init only.
 */
#ifndef MUSTER_RUN_PROGRESS_H
#define MUSTER_RUN_PROGRESS_H

#include <stddef.h>
#include <stdint.h>

#include "muster/status.h"
#include "run/tally.h"

#define MUSTER_PROGRESS_TEXT_MAX 256u

typedef struct muster_progress {
    uint64_t first, last; // first step of this life, one past the last
    int64_t told_ns;      // when the last line was told
    uint64_t told_steps;  // and after how many steps
    double rate;          // steps per second, smoothed
    int64_t classes_ns;   // when the workers were last classified
    muster_worker_class *classes;
} muster_progress;

MUSTER_CHECKED muster_status
muster_progress_init(uint32_t workers, muster_progress *progress_out);
void muster_progress_fini(muster_progress *progress);

/* The steps ahead, and that time runs from now on. */
void muster_progress_span(muster_progress *progress, uint64_t first,
                          uint64_t last, int64_t now_ns);

/* A step has ended: tell when it is time to. */
void muster_progress_step(muster_progress *progress, muster_tally *tally,
                          int64_t now_ns);

/* The line itself; text_out has MUSTER_PROGRESS_TEXT_MAX bytes. */
void muster_progress_text(const muster_progress *progress,
                          const muster_tally *tally, char *text_out);

/* "1:05:09", "0:10"; "?" of what is no time. */
void muster_progress_duration(double seconds, char *text_out, size_t size);

/* Append " TITLE: 3 5 .." for the workers of a class, if there are any. */
void muster_progress_add_class(const muster_worker_class *classes,
                               uint32_t count, muster_worker_class wanted,
                               char *text);

#endif // MUSTER_RUN_PROGRESS_H
