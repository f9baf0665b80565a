/*
 * slab.c -- see slab.h. Mappings come from mmap and not from base/mem.h because
 * their address space is reserved far beyond what is ever touched.
 */
#define _GNU_SOURCE
#include "ps/store/slab.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/mem.h"

#define HUGE_PAGE_BYTES ((size_t)2 << 20)
#define LINE_BYTES      64u

static void *map_anonymous(size_t bytes)
{
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return base == MAP_FAILED ? NULL : base;
}

static void *map_small(size_t bytes, size_t *mapped_out)
{
    *mapped_out = bytes;
    return map_anonymous(bytes);
}

/* The mapping begins with a huge page. The end that does not fill a huge page
 * is in small ones, so that no more memory is used than the rows need. */
static void *map_huge(size_t bytes, size_t *mapped_out)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t whole = (bytes + page - 1) / page * page;
    char *base = map_anonymous(whole + HUGE_PAGE_BYTES);
    if (base == NULL) {
        return NULL;
    }
    size_t before = -(uintptr_t)base & (HUGE_PAGE_BYTES - 1);
    if (before > 0) {
        (void)munmap(base, before);
    }
    (void)munmap(base + before + whole, HUGE_PAGE_BYTES - before);
    // Only advice: everything works in small pages too.
    (void)madvise(base + before, bytes & ~(HUGE_PAGE_BYTES - 1), MADV_HUGEPAGE);
    *mapped_out = whole;
    return base + before;
}

void *muster_slab_map(size_t bytes, size_t *mapped_out)
{
    // Tests that fail each allocation in turn shall reach mappings too.
    void *permit = muster_mem_array(1, 1);
    if (permit == NULL) {
        return NULL;
    }
    muster_mem_free(permit);
    if (bytes == 0 || bytes > SIZE_MAX - 2 * HUGE_PAGE_BYTES) {
        return NULL;
    }
    return bytes < HUGE_PAGE_BYTES ? map_small(bytes, mapped_out)
                                   : map_huge(bytes, mapped_out);
}

void muster_slab_unmap(void *base, size_t mapped_bytes)
{
    if (base != NULL) {
        (void)munmap(base, mapped_bytes);
    }
}

bool muster_slab_fits(uint64_t bytes)
{
    struct sysinfo machine;
    return sysinfo(&machine) != 0 ||
           bytes / machine.mem_unit <= machine.totalram + machine.totalswap;
}

size_t muster_slab_stride(uint32_t floats)
{
    size_t bytes = (size_t)floats * sizeof(float);
    if (bytes < LINE_BYTES) {
        size_t power = sizeof(float);
        while (power < bytes) {
            power *= 2;
        }
        return power - bytes <= bytes / 8 ? power : bytes;
    }
    size_t lines = (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
    return lines - bytes <= bytes / 8 ? lines : bytes;
}

bool muster_slab_init(muster_slab *slab, uint32_t floats, uint32_t capacity)
{
    size_t stride = muster_slab_stride(floats);
    *slab = (muster_slab){.stride_bytes = stride,
                          .capacity = capacity,
                          .free_head = MUSTER_SLAB_NONE};
    if (capacity > SIZE_MAX / stride) {
        return false;
    }
    slab->base = muster_slab_map(capacity * stride, &slab->mapped_bytes);
    return slab->base != NULL;
}

void muster_slab_fini(muster_slab *slab)
{
    muster_slab_unmap(slab->base, slab->mapped_bytes);
    slab->base = NULL;
}

uint32_t muster_slab_take(muster_slab *slab)
{
    uint32_t slot = slab->free_head;
    if (slot != MUSTER_SLAB_NONE) {
        memcpy(&slab->free_head, muster_slab_row(slab, slot),
               sizeof(slab->free_head));
    } else if (slab->touched < slab->capacity) {
        slot = slab->touched++;
    } else {
        return MUSTER_SLAB_NONE;
    }
    MUSTER_ASSERT(slot < slab->touched);
    slab->in_use++;
    return slot;
}

void muster_slab_give(muster_slab *slab, uint32_t slot)
{
    MUSTER_ASSERT(slot < slab->touched && slab->in_use > 0);
    memcpy(muster_slab_row(slab, slot), &slab->free_head,
           sizeof(slab->free_head));
    slab->free_head = slot;
    slab->in_use--;
}
