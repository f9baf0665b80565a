/*
 * wire/directory.h -- the payload of a DIRECTORY message: who is where.
 *
 * Little-endian: epoch (8), count (4), then per entry number (4), incarnation
 * (4), length of the address (2), address. Numbers ascend. A directory with a
 * higher epoch replaces one with a lower.
 */
#ifndef MUSTER_WIRE_DIRECTORY_H
#define MUSTER_WIRE_DIRECTORY_H

#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"
#include "muster/status.h"

typedef struct muster_directory_entry {
    uint32_t id;
    uint32_t incarnation;
    char address[128];
} muster_directory_entry;

typedef struct muster_directory {
    uint64_t epoch;
    muster_vec entries; // muster_directory_entry, ascending by id
} muster_directory;

size_t muster_directory_bytes(const muster_directory *directory);
void muster_directory_write(const muster_directory *directory, void *bytes);

/* On MUSTER_OK, muster_directory_fini() frees what it holds. */
MUSTER_CHECKED muster_status
muster_directory_read(const void *bytes, size_t size, muster_error *error_out,
                      muster_directory *directory_out);
void muster_directory_fini(muster_directory *directory);

#endif // MUSTER_WIRE_DIRECTORY_H
