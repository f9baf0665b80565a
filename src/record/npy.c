/*
 * npy.c -- see npy.h. Version 1.0 of the format: a padded line of Python, then
 * the elements.
 */
#include "record/npy.h"

#include <stdio.h>
#include <string.h>

#include "record/atomic.h"

#define HEAD_MAX 256u
#define HEAD_FIX 10u // the signature, the version, the length

static size_t write_head(const char *type, const char *shape,
                         char head[HEAD_MAX])
{
    static const char magic[8] = {'\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0};
    memset(head, ' ', HEAD_MAX);
    int length = snprintf(head + HEAD_FIX, HEAD_MAX - HEAD_FIX,
                          "{'descr': '%.8s', 'fortran_order': False, 'shape': "
                          "(%.64s), }",
                          type, shape);
    size_t total = (HEAD_FIX + (size_t)length + 1 + 63) / 64 * 64;
    memcpy(head, magic, sizeof(magic));
    head[8] = (char)((total - HEAD_FIX) & 0xff);
    head[9] = (char)((total - HEAD_FIX) >> 8);
    head[HEAD_FIX + (size_t)length] = ' ';
    head[total - 1] = '\n';
    return total;
}

muster_status muster_npy_save(const char *path, const char *type,
                              const char *shape, const void *elements,
                              size_t bytes, muster_error *error_out)
{
    char head[HEAD_MAX];
    size_t head_bytes = write_head(type, shape, head);
    muster_atomic file;
    muster_status status = muster_atomic_begin(&file, path, error_out);
    if (status == MUSTER_OK) {
        status = muster_atomic_write(&file, head, head_bytes, error_out);
    }
    if (status == MUSTER_OK) {
        status = muster_atomic_write(&file, elements, bytes, error_out);
    }
    return status == MUSTER_OK ? muster_atomic_commit(&file, error_out)
                               : status;
}
