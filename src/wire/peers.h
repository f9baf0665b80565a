/*
 * wire/peers.h -- the payload of PEERS: who takes part in a step of gossip.
 *
 * Little-endian: seed (8 bytes), partners (4), flags (4; bit 0: wants_model),
 * then 4 bytes for each member: its number, with the highest bit set where it
 * is fresh. Numbers ascend.
 */
#ifndef MUSTER_WIRE_PEERS_H
#define MUSTER_WIRE_PEERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/blob.h"
#include "base/vec.h"

#define MUSTER_PARTNERS_MAX 16u

typedef struct muster_peers_member {
    uint32_t id;
    bool fresh; // it has no model yet, and gets that of its neighbours
} muster_peers_member;

typedef struct muster_peers {
    uint64_t seed;      // of the matchings
    uint32_t partners;  // matchings in a step; 0: a ring
    bool wants_model;   // the answer is to have the worker's model
    muster_vec members; // muster_peers_member, ids ascending
} muster_peers;

/* NULL when out of memory. */
muster_blob *muster_peers_write(const muster_peers *peers);

/* Into `peers_out`, whose `members` was made. False: the bytes are not what
 * write makes, or there is no memory. */
bool muster_peers_read(const muster_blob *blob, muster_peers *peers_out);

/* Where member `id` is in the list; its length: nowhere. */
uint32_t muster_peers_find(const muster_peers *peers, uint32_t id);

#endif // MUSTER_WIRE_PEERS_H
