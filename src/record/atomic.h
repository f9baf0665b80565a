/*
 * record/atomic.h -- a file that appears whole or not at all.
 *
 * Bytes go to PATH.tmp beside the target; commit makes them durable and renames
 * (fsync of the file, rename, fsync of the folder). A crash at any moment
 * leaves the old file or the new one. One writer per path at a time.
 *
 *   muster_atomic file;
 *   status = muster_atomic_begin(&file, path, &error);
 *   ... muster_atomic_write(&file, bytes, size, &error) ...
 *   status = muster_atomic_commit(&file, &error);  // or muster_atomic_abort
 *
 *   Errors       MUSTER_ERR_SYSTEM with the path and the reason, also when the
 *                disk is full. A failed write or commit has aborted already;
 *                abort after that does nothing.
 */
#ifndef MUSTER_RECORD_ATOMIC_H
#define MUSTER_RECORD_ATOMIC_H

#include <stddef.h>

#include "muster/status.h"

#define MUSTER_RECORD_PATH_MAX 4096u

typedef struct muster_atomic {
    int fd;       // -1: nothing to commit
    char *path;   // the target
    char *beside; // the temporary file
} muster_atomic;

MUSTER_CHECKED muster_status muster_atomic_begin(muster_atomic *file,
                                                 const char *path,
                                                 muster_error *error_out);
MUSTER_CHECKED muster_status muster_atomic_write(muster_atomic *file,
                                                 const void *bytes, size_t size,
                                                 muster_error *error_out);
MUSTER_CHECKED muster_status muster_atomic_commit(muster_atomic *file,
                                                  muster_error *error_out);
void muster_atomic_abort(muster_atomic *file);

/* All three for a text. */
MUSTER_CHECKED muster_status muster_atomic_text(const char *path,
                                                const char *text,
                                                muster_error *error_out);

/* Write all bytes to an open file: short writes and EINTR are dealt with.
 * Returns 0 or an errno. */
int muster_write_all(int fd, const void *bytes, size_t size);

/* "PATH: reason" of an errno; always MUSTER_ERR_SYSTEM. */
muster_status muster_record_failed(const char *path, int reason,
                                   muster_error *error_out);

#endif // MUSTER_RECORD_ATOMIC_H
