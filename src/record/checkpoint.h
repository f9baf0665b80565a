/*
 * record/checkpoint.h -- the state of a run, so that it can go on.
 *
 * A checkpoint is a safetensors file FOLDER/step-000000000500.safetensors with
 * whatever tensors and notes the run needs, plus the notes `step`, `version`
 * (of this format: 2) and `checksum` (XXH3 over all tensors and notes). The
 * last two are kept: should the newest be damaged, the one before it serves.
 *
 *   Promise      A crash at any moment leaves at least the checkpoints that
 *                were there before. What load returns has the checksum that
 *                was written.
 *   Ownership    muster_checkpoint_fini() ends what load gave.
 *   Costs        One pass for the checksum, one write, two fsyncs.
 */
#ifndef MUSTER_RECORD_CHECKPOINT_H
#define MUSTER_RECORD_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "record/safetensors.h"

typedef struct muster_checkpoint {
    uint64_t step; // the next step to do
    muster_safetensors *file;
} muster_checkpoint;

/* What to store. The keys `step`, `version` and `checksum` are taken. */
typedef struct muster_checkpoint_parts {
    uint64_t step;
    const muster_tensor *tensors;
    size_t tensor_count;
    const muster_note *notes;
    size_t note_count;
} muster_checkpoint_parts;

/* Write into `folder` (made when missing), then drop all but the newest two.
 * MUSTER_ERR_SYSTEM names the file. */
MUSTER_CHECKED muster_status muster_checkpoint_write(
    const char *folder, const muster_checkpoint_parts *parts,
    muster_error *error_out);

/* Load the newest that is whole, with a warning for each damaged one passed
 * over. MUSTER_ERR_INPUT: there is none, or only of another version, which the
 * text then names. */
MUSTER_CHECKED muster_status
muster_checkpoint_load(const char *folder, muster_error *error_out,
                       muster_checkpoint *checkpoint_out);

/* Is there none in `folder`, not even a damaged one, because none was written
 * yet? false also where that cannot be known: load says why. */
bool muster_checkpoint_none(const char *folder);

void muster_checkpoint_fini(muster_checkpoint *checkpoint);

#endif // MUSTER_RECORD_CHECKPOINT_H
