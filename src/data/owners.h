/*
 * data/owners.h -- a placement as a file: the owner of each sample.
 *
 * owners.npy is a vector with one whole number a sample, the number of the
 * worker that gets it, from 0. `muster partition --out` writes it.
 */
#ifndef MUSTER_DATA_OWNERS_H
#define MUSTER_DATA_OWNERS_H

#include <stdbool.h>
#include <stdint.h>

#include "muster/status.h"

/* Is this the name of such a file, and not of a method? */
bool muster_owners_is_file(const char *text);

/*
 * Read the owners of `samples` samples, each below `workers`.
 * MUSTER_ERR_INPUT      the file is missing or not such a vector; it has
 *                       another length; an owner is not one of the workers
 *                       (names the sample)
 * MUSTER_ERR_NO_MEMORY, MUSTER_ERR_SYSTEM
 */
MUSTER_CHECKED muster_status muster_owners_read(const char *path,
                                                uint64_t samples,
                                                uint32_t workers,
                                                muster_error *error_out,
                                                uint32_t *owners_out);

#endif // MUSTER_DATA_OWNERS_H
