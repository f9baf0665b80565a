/*
 * runtime/ps_inside.h -- what is behind the handles of muster/ps.h.
 */
#ifndef MUSTER_RUNTIME_PS_INSIDE_H
#define MUSTER_RUNTIME_PS_INSIDE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "muster/ps.h"
#include "ps/scheme.h"
#include "ps/store.h"
#include "ps/target.h"

typedef struct muster_ps_distribution {
    muster_target *target;
    uint32_t table;
    muster_sampler_opts sampler; // without the worker's stream
} muster_ps_distribution;

struct muster_ps {
    uint64_t seed;
    muster_pstable *tables[MUSTER_PS_TABLES_MAX];
    uint32_t table_count;
    muster_ps_distribution distributions[MUSTER_PS_DISTRIBUTIONS_MAX];
    uint32_t distribution_count;
    _Atomic uint32_t workers_alive;
    _Atomic uint32_t workers_made;
};

/* An open row: its place in the order of (table, key). */
typedef uint64_t muster_ps_place;

struct muster_ps_worker {
    muster_ps *ps;
    muster_pstable *const *tables;
    uint32_t table_count;
    uint32_t number;
    uint32_t open_count;
    muster_ps_place open[MUSTER_PS_OPEN_MAX];              // ascending
    muster_sampler *samplers[MUSTER_PS_DISTRIBUTIONS_MAX]; // NULL until used
    bool notes; // some sampler repurposes direct accesses
};

/* The table, or NULL when the number or a key is wrong. */
muster_pstable *muster_ps_check(const muster_ps_worker *worker, uint32_t table,
                                const uint32_t *keys, size_t count);

/* Tell the repurposing samplers of a table about a direct access. */
void muster_ps_note(muster_ps_worker *worker, uint32_t table, uint32_t key);

/* Free every sampler of a worker. */
void muster_ps_samplers_fini(muster_ps_worker *worker);

#endif // MUSTER_RUNTIME_PS_INSIDE_H
