/*
 * role/decodings.h -- the decodings of responder sets that were seen before.
 *
 * Stragglers repeat, so the same few sets of responders come again and again,
 * and a solve is worth keeping. The 64 sets wanted most recently stay.
 *
 *   Ownership    An entry is lent until the next get.
 *   Allocation   Only a set that is not there allocates.
 */
#ifndef MUSTER_ROLE_DECODINGS_H
#define MUSTER_ROLE_DECODINGS_H

#include <stddef.h>
#include <stdint.h>

#include "muster/code.h"
#include "muster/status.h"
#include "role/assignment.h"
#include "role/job.h"

#define MUSTER_DECODINGS_KEPT 64u

typedef struct muster_decodings_entry {
    uint64_t used_at; // 0: empty
    uint32_t *responders;
    uint32_t responder_count;
    uint32_t *used; // slots whose messages the decoding wants, ascending
    uint32_t used_count;
    muster_status status;
    muster_decoding *decoding;
} muster_decodings_entry;

typedef struct muster_decodings {
    const muster_assignment *assignment; // lent
    muster_code_decode_term *scratch;
    uint32_t *number; // by slot: which of the messages used
    uint64_t clock;
    uint64_t solved; // sets that were not there
    muster_decodings_entry entries[MUSTER_DECODINGS_KEPT];
} muster_decodings;

MUSTER_CHECKED muster_status muster_decodings_init(
    muster_decodings *decodings, const muster_assignment *assignment);
void muster_decodings_fini(muster_decodings *decodings);

/* For `responders` (slots, ascending). MUSTER_OK or MUSTER_INEXACT, and an
 * entry that is lent until the next get; MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status
muster_decodings_get(muster_decodings *decodings, const uint32_t *responders,
                     uint32_t count, const muster_decodings_entry **entry_out);

#endif // MUSTER_ROLE_DECODINGS_H
