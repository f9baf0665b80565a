/* blas_room.c -- see blas_room.h. */
#define _GNU_SOURCE
#include "linalg/blas_room.h"

#include <cblas.h>
#include <inttypes.h>
#include <sys/mman.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/mem.h"

#define BUFFER_BYTES ((128ull << 20) + (16ull << 10))
#define SIDE         128 // smaller matrices may do without the buffer

/* Make OpenBLAS take its first buffer. */
static muster_status multiply_once(void)
{
    float *zeros = muster_mem_array((size_t)2 * SIDE * SIDE, sizeof(*zeros));
    if (zeros == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, SIDE, SIDE, SIDE, 1,
                zeros, SIDE, zeros, SIDE, 0, zeros + (size_t)SIDE * SIDE, SIDE);
    muster_mem_free(zeros);
    return MUSTER_OK;
}

muster_status muster_blas_room_take(uint32_t threads, muster_error *error_out)
{
    if (muster_limits_get(MUSTER_LIMIT_SPACE) == UINT64_MAX &&
        muster_limits_get(MUSTER_LIMIT_DATA) == UINT64_MAX) {
        return MUSTER_OK;
    }
    uint64_t bytes = threads * BUFFER_BYTES;
    void *room = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "BLAS needs %" PRIu64
                                " kB of memory more for %" PRIu32 " thread(s)",
                                bytes / 1024, threads);
    }
    (void)munmap(room, (size_t)bytes);
    return multiply_once();
}
