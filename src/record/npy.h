/*
 * record/npy.h -- write NumPy's array file, whole or not at all.
 */
#ifndef MUSTER_RECORD_NPY_H
#define MUSTER_RECORD_NPY_H

#include <stddef.h>

#include "muster/status.h"

/* `type` ("<f4") and `shape` ("3, 4" or "3,") as NumPy writes them; `bytes` of
 * elements in C order. MUSTER_ERR_SYSTEM: it could not be written. */
MUSTER_CHECKED muster_status muster_npy_save(const char *path, const char *type,
                                             const char *shape,
                                             const void *elements, size_t bytes,
                                             muster_error *error_out);

#endif // MUSTER_RECORD_NPY_H
