/*
 * ps/store/slab.h -- rows of one size, side by side, at addresses that never
 * move.
 *
 * Address space for every row that could ever be here is reserved at once;
 * memory is taken page by page as slots are first used, in huge pages where the
 * slab is large. Free slots are chained through their own bytes, so the
 * bookkeeping costs nothing per row.
 *
 *   Threads      take and give: one thread (the protocol). Slots are read and
 *                written by whoever holds the row's latch.
 *   Allocation   Only init and first touches.
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
    uint32_t touched; // slots ever used; those above have never been taken
    uint32_t in_use;
    uint32_t free_head; // MUSTER_SLAB_NONE when the chain is empty
} muster_slab;

/* Zeroed memory of its own mapping, in huge pages when large. NULL when it
 * cannot be had. *mapped_out goes to muster_slab_unmap(). */
void *muster_slab_map(size_t bytes, size_t *mapped_out);
void muster_slab_unmap(void *base, size_t mapped_bytes);

/* Could the machine hold so much, if nothing else were there? A mapping alone
 * does not tell: its pages are counted when they are written. */
bool muster_slab_fits(uint64_t bytes);

/* How far apart rows of `floats` floats lie. Rows below a cache line are
 * spaced so that they never straddle one, larger ones so that they start on
 * one, unless that would waste more than an eighth. */
size_t muster_slab_stride(uint32_t floats);

/* False when the address space cannot be had. */
bool muster_slab_init(muster_slab *slab, uint32_t floats, uint32_t capacity);
void muster_slab_fini(muster_slab *slab);

/* A slot with unspecified bytes, or MUSTER_SLAB_NONE when full. */
uint32_t muster_slab_take(muster_slab *slab);
void muster_slab_give(muster_slab *slab, uint32_t slot);

static inline float *muster_slab_row(const muster_slab *slab, uint32_t slot)
{
    return (float *)(void *)(slab->base + slot * slab->stride_bytes);
}

#endif // MUSTER_PS_STORE_SLAB_H
