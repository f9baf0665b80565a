/*
 * role/shuffle.h -- which worker fills which slot of the code, and when that
 * changes.
 *
 * An approximate step loses the parts whose holders all straggle. With slow
 * workers that stay slow, the same parts are lost again and again, and what
 * they would teach is never learned. A shuffle moves workers between slots (a
 * slot is a worker number of the code, see role/assignment.h):
 *
 *   none           never
 *   rotate:PERIOD  worker i fills slot (i + t) mod n, t = step / PERIOD: over n
 *                  turns a slow worker visits every part (Johri et al., 2021).
 *                  A turn is by one slot, also where one came late.
 *   targeted       two workers exchange slots when a part has only slow
 *                  holders, or one active holder and was missed or will be in
 *                  one of 1000 steps; nothing otherwise. An exchange that puts
 *                  no other part in that place is made at once. With too few
 *                  active workers some part is always uncovered: its place is
 *                  handed on to a part that was missed less often, once the
 *                  difference exceeds 1.5 sqrt(1 + misses). So the worst part's
 *                  share of misses tends to the mean, with ever fewer moves.
 *   auto           as targeted, and it follows workers that are slow for a
 *                  while too (the Markov model of cluster/classes.h), once
 *                  that is believed for 32 steps. A place is then handed on at
 *                  a 20th of that difference: who is slow changes anyway, so
 *                  even shares cost few moves.
 *
 * Works from the parts of the slots alone, so for every code.
 *
 *   Promise      A new map is a permutation of the slots, if the old one was.
 *   Lifecycle    create, any number of calls, free.
 *   Ownership    Code or layout are read by create and not kept; the caller
 *                owns the maps (worker -> slot, `slots` numbers).
 *   Threads      One at a time.
 *   Allocation   create and save only.
 *   Determinism  Maps follow from observations and step alone.
 *
 * Background: docs/design/shuffle.md.
 */
#ifndef MUSTER_ROLE_SHUFFLE_H
#define MUSTER_ROLE_SHUFFLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"
#include "muster/code.h"
#include "muster/status.h"

typedef struct muster_shuffle muster_shuffle;

/* Who holds what, where there is no code to ask: studies of layouts. */
typedef struct muster_shuffle_layout {
    uint32_t slots;
    uint32_t parts;
    const uint32_t *first; // slots + 1 numbers: slot i holds held[first[i]]
    const uint32_t *held;  // up to held[first[i + 1] - 1], ascending
} muster_shuffle_layout;

typedef struct muster_shuffle_opts {
    const char *policy;                  // as above
    const muster_code *code;             // either this
    const muster_shuffle_layout *layout; // or this
} muster_shuffle_opts;

/* What a step showed of one worker. */
typedef struct muster_shuffle_seen {
    bool late;            // not used by the step: late, dead, cut off
    bool slow;            // as far as known
    double straggle_rate; // 0..1, as far as known
    bool passing;         // slow or active for a while, not for good
} muster_shuffle_seen;

/*
 * MUSTER_ERR_INVALID    unknown policy; the text lists what would be right
 * MUSTER_ERR_NO_MEMORY
 */
MUSTER_CHECKED muster_status
muster_shuffle_create(const muster_shuffle_opts *opts, muster_error *error_out,
                      muster_shuffle **shuffle_out);
void muster_shuffle_free(muster_shuffle *shuffle);

/* A step ended under this map; one `seen` per worker. O(slots * load). */
void muster_shuffle_observe(muster_shuffle *shuffle, const uint32_t *slot_of,
                            const muster_shuffle_seen *seen);

/*
 * The map for `step` and on, given the present one. False: no change, and
 * slot_of_out equals slot_of. Asking does not oblige: a map that cannot be
 * adopted yet is simply asked for again at a later step.
 * rotate O(slots); targeted O(slots * load) when no part is short, else
 * O(slots * load * replication) for each exchange.
 */
bool muster_shuffle_next(muster_shuffle *shuffle, uint64_t step,
                         const uint32_t *slot_of, uint32_t *slot_of_out);

/*
 * How many turns are known to follow the map whose parts should be on their way
 * before `step`: as many steps ahead as the slot that gets most new parts in a
 * turn needs at the mean pace, and none from step `end` on. 0 where a map
 * follows from what is observed.
 */
uint32_t muster_shuffle_turns_ahead(const muster_shuffle *shuffle,
                                    uint64_t step, uint64_t end,
                                    const uint32_t *slot_of);

/* A turn came late: from now on parts go out earlier, by six steps at most. */
void muster_shuffle_was_late(muster_shuffle *shuffle);

/* The slot that a worker in `slot` fills so many turns later. */
uint32_t muster_shuffle_slot_ahead(const muster_shuffle *shuffle, uint32_t slot,
                                   uint32_t turns);

/*
 * The parts that a worker needs in slot `to` and has not from slot `from`,
 * ascending; returns how many. parts_out has room for the load, or is NULL.
 */
uint32_t muster_shuffle_moves(const muster_shuffle *shuffle, uint32_t from,
                              uint32_t to, uint32_t *parts_out);

/* How often `part` was missed in the steps observed. */
uint64_t muster_shuffle_misses(const muster_shuffle *shuffle, uint32_t part);

/* Append the state to `bytes`; false when out of memory. */
MUSTER_CHECKED bool muster_shuffle_save(const muster_shuffle *shuffle,
                                        muster_vec *bytes);

/* Go on from a saved state. MUSTER_ERR_INPUT: damaged, or of another number of
 * parts; then nothing changes. */
MUSTER_CHECKED muster_status muster_shuffle_load(muster_shuffle *shuffle,
                                                 const void *bytes,
                                                 size_t size);

#endif // MUSTER_ROLE_SHUFFLE_H
