/*
 * sim_parcel.c -- the memory of messages on their way.
 *
 * Parcels are cut from slabs and used again, the last given back first: a
 * simulation of n workers has about n of them under way, in memory that the
 * processor's caches know.
 */
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "sim/sim_inside.h"

#define SLAB_PARCELS 256u

static void cut_slab(muster_sim *sim)
{
    muster_sim_parcel *slab = muster_mem_lines(SLAB_PARCELS, sizeof(*slab));
    MUSTER_ASSERT(slab != NULL && muster_vec_append(&sim->slabs, &slab, 1));
    for (uint32_t i = 0; i < SLAB_PARCELS; i++) {
        slab[i].next = sim->free_parcels;
        sim->free_parcels = &slab[i];
    }
}

/* Of most kinds only the numbers are used, not the room for text. */
static size_t used_bytes(muster_message_kind kind)
{
    bool has_text = kind == MUSTER_MSG_HELLO || kind == MUSTER_MSG_REFUSE ||
                    kind == MUSTER_MSG_STOP;
    return has_text ? sizeof(muster_message)
                    : offsetof(muster_message, as) +
                          sizeof(((muster_message *)NULL)->as.heartbeat);
}

muster_sim_parcel *muster_sim_parcel_make(muster_sim *sim,
                                          const muster_message *message,
                                          muster_blob *payload)
{
    if (sim->free_parcels == NULL) {
        cut_slab(sim);
    }
    muster_sim_parcel *parcel = sim->free_parcels;
    sim->free_parcels = parcel->next;
    parcel->references = 1;
    parcel->copies = 1;
    parcel->payload = payload;
    parcel->digest = muster_sim_digest(sim, payload);
    memcpy(&parcel->message, message, used_bytes(message->kind));
    return parcel;
}

void muster_sim_parcel_unref(muster_sim *sim, muster_sim_parcel *parcel)
{
    if (parcel == NULL || --parcel->references > 0) {
        return;
    }
    muster_blob_unref(parcel->payload);
    parcel->next = sim->free_parcels;
    sim->free_parcels = parcel;
}

void muster_sim_parcels_fini(muster_sim *sim)
{
    muster_sim_parcel **slabs = sim->slabs.data;
    for (size_t i = 0; i < sim->slabs.count; i++) {
        for (uint32_t k = 0; k < SLAB_PARCELS; k++) {
            if (slabs[i][k].references > 0) { // it was still on its way
                muster_blob_unref(slabs[i][k].payload);
            }
        }
        muster_mem_free(slabs[i]);
    }
    muster_vec_fini(&sim->slabs);
}
