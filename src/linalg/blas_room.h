/*
 * linalg/blas_room.h -- is there address space for BLAS?
 *
 * OpenBLAS maps a buffer of 128 MiB when a thread first multiplies matrices,
 * and tries for ever when it cannot. Where the address space
 * (`ulimit -v`) or the data (`ulimit -d`) is limited, ask before.
 */
#ifndef MUSTER_LINALG_BLAS_ROOM_H
#define MUSTER_LINALG_BLAS_ROOM_H

#include <stdint.h>

#include "muster/status.h"

/* Room for so many threads that call BLAS at the same time; the first buffer is
 * taken at once. MUSTER_ERR_NO_MEMORY: there is none. Costs nothing where
 * neither is limited. */
MUSTER_CHECKED muster_status muster_blas_room_take(uint32_t threads,
                                                   muster_error *error_out);

#endif // MUSTER_LINALG_BLAS_ROOM_H
