/*
 * mem.c -- the heap door: overflow checks and failure injection.
 */
#define _DEFAULT_SOURCE
#include "base/mem.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MEM_ALIGNMENT 64u
#define HUGE_PAGE     ((size_t)2 << 20)

static _Atomic uint64_t allowed = UINT64_MAX;

void muster_mem_fail_after(uint64_t count)
{
    atomic_store(&allowed, count);
}

static bool permitted(void)
{
    uint64_t left = atomic_load_explicit(&allowed, memory_order_relaxed);
    if (left == UINT64_MAX) {
        return true;
    }
    while (left > 0) {
        if (atomic_compare_exchange_weak(&allowed, &left, left - 1)) {
            return true;
        }
    }
    return false;
}

static bool product(size_t count, size_t size, size_t *bytes_out)
{
    if (size != 0 && count > SIZE_MAX / size) {
        return false;
    }
    *bytes_out = count * size > 0 ? count * size : 1;
    return true;
}

void *muster_mem_array(size_t count, size_t size)
{
    size_t bytes;
    if (!product(count, size, &bytes) || !permitted()) {
        return NULL;
    }
    return calloc(1, bytes);
}

/* Room of whole multiples of `alignment`, not zeroed. */
static void *aligned(size_t count, size_t size, size_t alignment)
{
    size_t bytes;
    if (!product(count, size, &bytes) || !permitted() ||
        bytes > SIZE_MAX - alignment) {
        return NULL;
    }
    bytes = (bytes + alignment - 1) / alignment * alignment;
    return aligned_alloc(alignment, bytes);
}

void *muster_mem_raw_aligned(size_t count, size_t size)
{
    return aligned(count, size, MEM_ALIGNMENT);
}

void *muster_mem_lines(size_t count, size_t size)
{
    // Of many elements, read in any order, each would be in another page, and
    // the processor knows where few pages are: ask for large ones.
    bool is_large = size > 0 && count >= 2 * HUGE_PAGE / size;
    void *block = aligned(count, size, is_large ? HUGE_PAGE : MUSTER_MEM_APART);
    if (block != NULL) {
        if (is_large) {
            (void)madvise(block, count * size, MADV_HUGEPAGE);
        }
        memset(block, 0, count * size);
    }
    return block;
}

void *muster_mem_resize(void *block, size_t count, size_t size)
{
    size_t bytes;
    if (!product(count, size, &bytes) || !permitted()) {
        return NULL;
    }
    return realloc(block, bytes);
}

char *muster_mem_string_n(const char *text, size_t length)
{
    if (length == SIZE_MAX) {
        return NULL;
    }
    char *copy = muster_mem_array(length + 1, 1);
    if (copy != NULL) {
        memcpy(copy, text, length);
    }
    return copy;
}

char *muster_mem_string(const char *text)
{
    return muster_mem_string_n(text, strlen(text));
}

void muster_mem_free(void *block)
{
    free(block);
}
