/*
 * runtime/summary.h -- the end of a run as text: summary.json, which is also
 * what `muster train --json` prints, and cluster.yaml.
 *
 *   Ownership    Texts are the caller's, for muster_mem_free(); NULL when out
 *                of memory.
 */
#ifndef MUSTER_RUNTIME_SUMMARY_H
#define MUSTER_RUNTIME_SUMMARY_H

#include <stdint.h>

#include "muster/code.h"
#include "muster/status.h"
#include "runtime/tally.h"

/* What the tally does not know. */
typedef struct muster_summary_facts {
    const muster_code *code;
    muster_status status; // how the run ended
    double wall_s;        // of this life, from the first step on
    uint64_t steps;       // of the whole run, earlier lives included
} muster_summary_facts;

/* One JSON object on one line with the keys of docs/training.md. Numbers that
 * are not known (no test set, no answer) are null. Step times are reordered. */
char *muster_summary_json(muster_tally *tally,
                          const muster_summary_facts *facts);

/* What was measured of the machines, for a person and for planning. */
char *muster_summary_cluster(muster_tally *tally, const muster_code *code);

/* A few lines for people, told to the log. */
void muster_summary_tell(muster_tally *tally,
                         const muster_summary_facts *facts);

#endif // MUSTER_RUNTIME_SUMMARY_H
