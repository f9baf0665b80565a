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

#define SLAB_PARCELS 256u // of the first; each has twice those of the last
#define FREE_AHEAD   4u   // parcels that will be used are asked for so early

static void cut_slab(muster_sim *sim)
{
    size_t count = (size_t)SLAB_PARCELS << sim->slabs.count;
    muster_sim_parcel *slab = muster_mem_lines(count, sizeof(*slab));
    MUSTER_ASSERT(slab != NULL && muster_vec_append(&sim->slabs, &slab, 1));
    // As many as all slabs together have.
    MUSTER_ASSERT(
        muster_vec_reserve(&sim->free_parcels, 2 * count - SLAB_PARCELS));
    muster_sim_parcel **free = sim->free_parcels.data;
    for (size_t i = count; i-- > 0;) {
        free[sim->free_parcels.count++] = &slab[i];
    }
}

muster_sim_parcel *muster_sim_parcel_make(muster_sim *sim,
                                          const muster_message *message,
                                          muster_blob *payload)
{
    if (sim->free_parcels.count == 0) {
        cut_slab(sim);
    }
    muster_sim_parcel **free = sim->free_parcels.data;
    muster_sim_parcel *parcel = free[--sim->free_parcels.count];
    if (sim->free_parcels.count >= FREE_AHEAD) {
        const char *later = (char *)free[sim->free_parcels.count - FREE_AHEAD];
        __builtin_prefetch(later, 1);
        __builtin_prefetch(later + MUSTER_SIM_LINE, 1);
    }
    parcel->references = 1;
    parcel->copies = 1;
    parcel->payload = payload;
    parcel->coming = NULL;
    parcel->digest = muster_sim_digest(sim, payload);
    muster_message_copy(&parcel->message, message);
    return parcel;
}

void muster_sim_parcel_unref(muster_sim *sim, muster_sim_parcel *parcel)
{
    if (parcel == NULL || --parcel->references > 0) {
        return;
    }
    muster_blob_unref(parcel->payload);
    muster_blob_unref(parcel->coming);
    muster_sim_parcel **free = sim->free_parcels.data;
    free[sim->free_parcels.count++] = parcel;
}

muster_blob *muster_sim_parcel_whole(muster_sim_parcel *parcel)
{
    muster_blob *coming = parcel->coming;
    if (coming != NULL && muster_blob_here(coming) < coming->bytes) {
        memcpy(coming->data, parcel->payload->data, coming->bytes);
        muster_blob_set_missing(coming, 0);
    }
    return coming != NULL ? coming : parcel->payload;
}

void muster_sim_parcels_fini(muster_sim *sim)
{
    muster_sim_parcel **slabs = sim->slabs.data;
    for (size_t i = 0; i < sim->slabs.count; i++) {
        for (size_t k = 0; k < (size_t)SLAB_PARCELS << i; k++) {
            if (slabs[i][k].references > 0) { // it was still on its way
                muster_blob_unref(slabs[i][k].payload);
                muster_blob_unref(slabs[i][k].coming);
            }
        }
        muster_mem_free(slabs[i]);
    }
    muster_vec_fini(&sim->slabs);
    muster_vec_fini(&sim->free_parcels);
}
