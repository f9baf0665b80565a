/*
 * task/ahead.h -- how far ahead of its use a task asks for its rows.
 *
 * A row of another node takes some time to come. A task looks so many units
 * ahead (words, cells, triples) and asks for the rows that they name. The look
 * is doubled when a row came too late, and shortened slowly while none does: it
 * follows what the network, the other nodes and this one's load make of the
 * latency.
 */
#ifndef MUSTER_TASK_AHEAD_H
#define MUSTER_TASK_AHEAD_H

#include <stdint.h>

#include "muster/ps.h"

typedef struct muster_ahead {
    const muster_ps_worker *worker;
    uint64_t look; // units
    uint64_t min;
    uint64_t max;
    uint64_t late;   // rows that had come too late when last looked
    uint64_t passed; // units since the look was doubled
} muster_ahead;

muster_ahead muster_ahead_make(const muster_ps_worker *worker, uint64_t min,
                               uint64_t max);

/* The look from now on, after the rows of some more units were asked for. What
 * a longer look brings is seen only after as many units: it is not doubled
 * again before. */
uint64_t muster_ahead_look(muster_ahead *ahead, uint64_t units);

/* Ask for rows that other nodes use as well. A full queue is no error: rows
 * that were not asked for only come later. */
MUSTER_CHECKED muster_status muster_ahead_ask(muster_ps_worker *worker,
                                              uint32_t table,
                                              const uint32_t *keys,
                                              size_t count);

#endif // MUSTER_TASK_AHEAD_H
