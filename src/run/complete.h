/*
 * run/complete.h -- `--resume` of a run that has nothing left to do, or that
 * has no checkpoint yet.
 */
#ifndef MUSTER_RUN_COMPLETE_H
#define MUSTER_RUN_COMPLETE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "record/run_folder.h"

/* Say that a run is complete, and which option makes it longer: "80 of 80
 * steps; give a larger --epochs to go on". */
void muster_run_tell_complete(uint64_t done, uint64_t wanted, const char *unit,
                              const char *option);

/* Say that there is no checkpoint, so that the run starts again. */
void muster_run_tell_no_checkpoint(const char *folder);

/* The text of the summary.json that the run left when it ended, the caller's
 * for muster_mem_free(); NULL when that file or the model is missing: the run
 * was killed before it wrote them. */
char *muster_run_summary_text(muster_run_folder *folder);

/* Append all bytes of a file to a vector of bytes, which the caller ends; false
 * when it cannot be read or memory is out. */
bool muster_run_read_file(const char *path, muster_vec *bytes);

#endif // MUSTER_RUN_COMPLETE_H
