/*
 * peers.c -- see peers.h.
 */
#include "wire/peers.h"

#include "wire/bytes.h"

#define HEAD_BYTES  16u
#define ENTRY_BYTES 4u
#define FRESH       0x80000000u
#define WANTS_MODEL 1u

muster_blob *muster_peers_write(const muster_peers *peers)
{
    const muster_peers_member *members = peers->members.data;
    size_t count = peers->members.count;
    muster_blob *blob = muster_blob_create(HEAD_BYTES + count * ENTRY_BYTES);
    if (blob == NULL) {
        return NULL;
    }
    uint8_t *at = blob->data;
    muster_bytes_put(at, peers->seed, 8);
    muster_bytes_put(at + 8, peers->partners, 4);
    muster_bytes_put(at + 12, peers->wants_model ? WANTS_MODEL : 0, 4);
    for (size_t i = 0; i < count; i++) {
        muster_bytes_put(at + HEAD_BYTES + i * ENTRY_BYTES,
                         members[i].id | (members[i].fresh ? FRESH : 0),
                         ENTRY_BYTES);
    }
    return blob;
}

static bool read_members(const uint8_t *at, size_t count, muster_vec *members)
{
    muster_vec_clear(members);
    for (size_t i = 0; i < count; i++) {
        uint64_t entry = muster_bytes_get(at + i * ENTRY_BYTES, ENTRY_BYTES);
        uint32_t id = (uint32_t)entry & ~FRESH;
        const muster_peers_member *last = members->data;
        muster_peers_member *added = NULL;
        if (i == 0 || last[i - 1].id < id) {
            added = muster_vec_push(members);
        }
        if (added == NULL) {
            return false;
        }
        *added = (muster_peers_member){id, (entry & FRESH) != 0};
    }
    return true;
}

bool muster_peers_read(const muster_blob *blob, muster_peers *peers_out)
{
    if (blob == NULL || blob->data == NULL || blob->bytes < HEAD_BYTES ||
        (blob->bytes - HEAD_BYTES) % ENTRY_BYTES != 0) {
        return false;
    }
    const uint8_t *at = blob->data;
    uint64_t partners = muster_bytes_get(at + 8, 4);
    uint64_t flags = muster_bytes_get(at + 12, 4);
    if (partners > MUSTER_PARTNERS_MAX || flags > WANTS_MODEL) {
        return false;
    }
    peers_out->seed = muster_bytes_get(at, 8);
    peers_out->partners = (uint32_t)partners;
    peers_out->wants_model = flags == WANTS_MODEL;
    return read_members(at + HEAD_BYTES,
                        (blob->bytes - HEAD_BYTES) / ENTRY_BYTES,
                        &peers_out->members);
}

uint32_t muster_peers_find(const muster_peers *peers, uint32_t id)
{
    const muster_peers_member *members = peers->members.data;
    uint32_t low = 0;
    uint32_t high = (uint32_t)peers->members.count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (members[middle].id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool found = low < peers->members.count && members[low].id == id;
    return found ? low : (uint32_t)peers->members.count;
}
