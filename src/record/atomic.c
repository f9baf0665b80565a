/*
 * atomic.c -- write beside, make durable, rename.
 */
#define _GNU_SOURCE
#include "record/atomic.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/mem.h"

/* One write(2) of at most this: the kernel's own limit is just below 2 GiB. */
#define WRITE_BYTES_MAX (1u << 30)

muster_status muster_record_failed(const char *path, int reason,
                                   muster_error *error_out)
{
    char text[128];
    char hint[MUSTER_LIMITS_HINT_BYTES];
    muster_error_set(error_out, MUSTER_ERR_SYSTEM, "%.280s: %s%s", path,
                     strerror_r(reason, text, sizeof(text)),
                     muster_limits_hint(reason, hint));
    return MUSTER_ERR_SYSTEM;
}

int muster_write_all(int fd, const void *bytes, size_t size)
{
    const char *next = bytes;
    while (size > 0) {
        ssize_t count =
            write(fd, next, size < WRITE_BYTES_MAX ? size : WRITE_BYTES_MAX);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count <= 0) {
            return count < 0 ? errno : ENOSPC;
        }
        next += count;
        size -= (size_t)count;
    }
    return 0;
}

muster_status muster_atomic_begin(muster_atomic *file, const char *path,
                                  muster_error *error_out)
{
    size_t size = strlen(path) + sizeof(".tmp");
    *file = (muster_atomic){.fd = -1};
    file->path = muster_mem_string(path);
    file->beside = muster_mem_array(size, 1);
    if (file->path == NULL || file->beside == NULL) {
        muster_atomic_abort(file);
        muster_error_set(error_out, MUSTER_ERR_NO_MEMORY, "out of memory");
        return MUSTER_ERR_NO_MEMORY;
    }
    snprintf(file->beside, size, "%s.tmp", path);
    // What an earlier process left is not written through: it may be a link.
    (void)unlink(file->beside);
    file->fd = open(file->beside,
                    O_WRONLY | O_CREAT | O_EXCL | O_TRUNC | O_CLOEXEC, 0666);
    if (file->fd < 0) {
        int reason = errno;
        muster_atomic_abort(file);
        return muster_record_failed(path, reason, error_out);
    }
    return MUSTER_OK;
}

void muster_atomic_abort(muster_atomic *file)
{
    if (file->fd >= 0) {
        close(file->fd);
        unlink(file->beside);
    }
    muster_mem_free(file->path);
    muster_mem_free(file->beside);
    *file = (muster_atomic){.fd = -1};
}

/* Abort, but keep the path long enough to name it. */
static muster_status give_up(muster_atomic *file, int reason,
                             muster_error *error_out)
{
    muster_status status = muster_record_failed(file->path, reason, error_out);
    muster_atomic_abort(file);
    return status;
}

muster_status muster_atomic_write(muster_atomic *file, const void *bytes,
                                  size_t size, muster_error *error_out)
{
    int reason = muster_write_all(file->fd, bytes, size);
    return reason == 0 ? MUSTER_OK : give_up(file, reason, error_out);
}

/* Make the rename itself durable. File systems that cannot sync a folder say
 * EINVAL; there is nothing more to do there. */
static int sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char folder[MUSTER_RECORD_PATH_MAX] = ".";
    if (slash != NULL) {
        int length = slash == path ? 1 : (int)(slash - path);
        snprintf(folder, sizeof(folder), "%.*s", length, path);
    }
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return errno;
    }
    int reason = fsync(fd) == 0 || errno == EINVAL ? 0 : errno;
    close(fd);
    return reason;
}

muster_status muster_atomic_commit(muster_atomic *file, muster_error *error_out)
{
    if (fsync(file->fd) != 0) {
        return give_up(file, errno, error_out);
    }
    int closed = close(file->fd);
    file->fd = -1;
    if (closed != 0 || rename(file->beside, file->path) != 0) {
        int reason = errno;
        unlink(file->beside);
        return give_up(file, reason, error_out);
    }
    int reason = sync_folder(file->path);
    if (reason != 0) {
        return give_up(file, reason, error_out);
    }
    muster_atomic_abort(file);
    return MUSTER_OK;
}

muster_status muster_atomic_text(const char *path, const char *text,
                                 muster_error *error_out)
{
    muster_atomic file;
    muster_status status = muster_atomic_begin(&file, path, error_out);
    if (status == MUSTER_OK) {
        status = muster_atomic_write(&file, text, strlen(text), error_out);
    }
    if (status == MUSTER_OK) {
        status = muster_atomic_commit(&file, error_out);
    }
    return status;
}
