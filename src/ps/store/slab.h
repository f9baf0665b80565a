/*
 * ps/store/slab.h -- slots for rows of one size, at addresses that never
 * change.
 *
 * The address space for all rows that could ever be here is reserved at once.
 * The kernel provides memory page by page when slots are first used, in huge
 * pages when the slab is large. Free slots are a list that is stored in the
 * slots themselves, so it needs no memory of its own.
 *
 *   Threads      take and give: one thread (the protocol). The bytes of a slot
 *                belong to the thread that has the row open (latch.h, bias.h).
 *   Allocation   Only init, and the first use of each page.
 */
#ifndef MUSTER_PS_STORE_SLAB_H
#define MUSTER_PS_STORE_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MUSTER_SLAB_NONE UINT32_MAX

typedef struct muster_slab {
    char *base;
    size_t stride_bytes;
    size_t mapped_bytes;
    uint32_t capacity;
    uint32_t touched; // slots below this were used before
    uint32_t in_use;
    uint32_t free_head; // MUSTER_SLAB_NONE: the free list is empty
} muster_slab;

/* Map zeroed memory, in huge pages when it is large. NULL: the system refused.
 * Give *mapped_out to muster_slab_unmap(). */
void *muster_slab_map(size_t bytes, size_t *mapped_out);
void muster_slab_unmap(void *base, size_t mapped_bytes);

/* Does the machine have so much memory at all? A mapping alone does not tell:
 * its pages are provided when they are written. */
bool muster_slab_fits(uint64_t bytes);

/* Distance between rows of `floats` floats. A row smaller than a cache line
 * lies within one, a larger row starts on one, unless that would waste more
 * than an eighth of the memory. */
size_t muster_slab_stride(uint32_t floats);

/* False: the system refused the address space. */
bool muster_slab_init(muster_slab *slab, uint32_t floats, uint32_t capacity);
void muster_slab_fini(muster_slab *slab);

/* Take a slot; its bytes are unspecified. MUSTER_SLAB_NONE: the slab is full.
 */
uint32_t muster_slab_take(muster_slab *slab);
void muster_slab_give(muster_slab *slab, uint32_t slot);

static inline float *muster_slab_row(const muster_slab *slab, uint32_t slot)
{
    return (float *)(void *)(slab->base + slot * slab->stride_bytes);
}

#endif // MUSTER_PS_STORE_SLAB_H
