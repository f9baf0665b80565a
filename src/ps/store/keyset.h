/*
 * ps/store/keyset.h -- a set of rows, (table, key), as few sorted ranges.
 *
 *   Lifecycle    make; add ranges; seal; ask; fini. A zeroed one is empty.
 *   Allocation   add.
 *   Threads      After seal it may be asked from any thread.
 */
#ifndef MUSTER_PS_STORE_KEYSET_H
#define MUSTER_PS_STORE_KEYSET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "muster/status.h"

typedef struct muster_keyrange {
    uint32_t table;
    uint32_t first;
    uint32_t last; // it belongs to it
} muster_keyrange;

typedef struct muster_keyset {
    muster_vec ranges; // muster_keyrange; sealed: ascending and apart
} muster_keyset;

muster_keyset muster_keyset_make(void);
void muster_keyset_fini(muster_keyset *set);

/* Ranges may overlap. MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_keyset_add(muster_keyset *set,
                                               muster_keyrange range);
void muster_keyset_seal(muster_keyset *set);

/* O(log ranges). */
bool muster_keyset_has(const muster_keyset *set, uint32_t table, uint32_t key);

#endif // MUSTER_PS_STORE_KEYSET_H
