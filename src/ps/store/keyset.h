/*
 * ps/store/keyset.h -- a set of rows as sorted ranges of keys.
 *
 *   Lifecycle    make; add ranges; seal; has; fini. A zeroed set is empty.
 *   Allocation   Only add.
 *   Threads      After seal any thread may call has.
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
    uint32_t last; // inclusive
} muster_keyrange;

typedef struct muster_keyset {
    muster_vec ranges; // muster_keyrange; sealed: sorted and disjoint
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
