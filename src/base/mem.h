/*
 * base/mem.h -- the one door to the heap.
 *
 * Sizes are count * size with the overflow checked; memory comes zeroed, unless
 * the name says raw. Tests make the N-th allocation fail with
 * muster_mem_fail_after(), and so walk every out-of-memory path.
 *
 *   Ownership    The caller frees with muster_mem_free(); NULL is fine there.
 *   Threads      Any.
 *   Allocation   This is it. Data paths call it at start only.
 */
#ifndef MUSTER_BASE_MEM_H
#define MUSTER_BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

/* `count` zeroed objects of `size` bytes. NULL when out of memory, when the
 * product overflows, or when a test asked for it. count == 0 gives a valid,
 * freeable pointer. */
void *muster_mem_array(size_t count, size_t size);

/* The same, aligned to 64 bytes (a cache line) and not zeroed. */
void *muster_mem_raw_aligned(size_t count, size_t size);

/* Two cache lines: processors fetch them in pairs, so that what threads
 * write must be as far apart as that. */
#define MUSTER_MEM_APART 128u

/* Zeroed as well, and in cache lines of its own: for what one thread writes
 * while others read what lies beside it. Where it is megabytes, large pages are
 * asked for. */
void *muster_mem_lines(size_t count, size_t size);

/* Resize to count * size; new bytes are not zeroed. On NULL the old block
 * still stands. Not for aligned blocks. */
void *muster_mem_resize(void *block, size_t count, size_t size);

/* A copy of a string, NULL when out of memory. */
char *muster_mem_string(const char *text);

/* A copy of the first `length` bytes, with a terminating zero. */
char *muster_mem_string_n(const char *text, size_t length);

void muster_mem_free(void *block);

/* Tests only: let `count` more allocations of this process succeed, then fail
 * every one. UINT64_MAX (the start) never fails. */
void muster_mem_fail_after(uint64_t count);

#endif // MUSTER_BASE_MEM_H
