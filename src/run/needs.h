/*
 * run/needs.h -- what a run will need of the system, checked before it starts.
 *
 * A run that has too few descriptors, processes or bytes on disk would fail or
 * hang in the middle. What is known in advance is compared with the limits; the
 * error names the limit, its value and what is needed. The numbers are lower
 * bounds: a run that passes can still meet a limit later.
 */
#ifndef MUSTER_RUN_NEEDS_H
#define MUSTER_RUN_NEEDS_H

#include <stdint.h>

#include "muster/status.h"

typedef struct muster_needs {
    uint64_t files;      // open in this process at the same time
    uint64_t processes;  // with threads, that are still to be started
    const char *folder;  // where files will be written; NULL: nowhere
    uint64_t file_bytes; // the largest of them
    uint64_t disk_bytes; // all of them at the same time
} muster_needs;

/* Open files are allowed as needed, where that is possible. MUSTER_ERR_SYSTEM:
 * a limit is too low. */
MUSTER_CHECKED muster_status muster_needs_check(const muster_needs *needs,
                                                muster_error *error_out);

#endif // MUSTER_RUN_NEEDS_H
