/*
 * ps/store/latch.h -- the latch word of a row: the only state that worker
 * threads and the protocol share.
 *
 * Every key of a table has one 64-bit word at every node. The word says whether
 * the row is at this node, in which slot of the slab, and whether a thread uses
 * it:
 *
 *     bits  0..31  slot      of the row when it is here. While the row arrives:
 *                            index of its record in the protocol
 *     bit   32     LATCHED   one thread uses the row
 *     bit   33     DIRTY     a replica has a delta that was not yet sent
 *     bits 34..35  state     ABSENT 0, ARRIVING 1, OWNED 2, REPLICA 3
 *     bits 36..62  moves     OWNED: how often the row has changed its owner.
 *                            REPLICA: counts writes up to 2^27. On a single
 *                            node: the worker that the row is biased to, plus
 *                            one (bias.h)
 *     bit   63     SPENT     a replica has used up its writes
 *
 * The row is here when the upper state bit is set. A replica may be written a
 * limited number of times between two synchronisations, so that the replicas
 * of several nodes stay close to each other. When its count overflows into
 * SPENT, workers treat the replica as not here.
 *
 * Nothing but these transitions changes a word:
 *
 *   worker    latch     OWNED or REPLICA, neither LATCHED nor SPENT
 *                       -> LATCHED
 *   worker    release   LATCHED -> not LATCHED. A replica that was written
 *                       becomes DIRTY, and its count goes up by one
 *   protocol  latch     as a worker's, also when SPENT
 *   protocol  request   ABSENT -> ARRIVING
 *   protocol  settle    ABSENT or ARRIVING -> OWNED or REPLICA, not LATCHED
 *   protocol  withdraw  ARRIVING -> ABSENT
 *   protocol  depart    OWNED or REPLICA, LATCHED by the protocol -> ABSENT
 *   protocol  replace   OWNED or REPLICA, LATCHED by the protocol -> OWNED or
 *                       REPLICA, not LATCHED
 *
 * The protocol runs in one thread of the node at a time. So when two threads
 * may write a word at the same time, at least one of them latches. Latching is
 * a compare-and-swap, which fails when the word has changed in any way.
 *
 * Two more writes happen only while rows are used without latches (bias.h). On
 * a single node a worker puts its number into `moves` by a compare-and-swap. In
 * a mesh the only worker of a node marks a replica as written by a plain store.
 *
 *   Memory order  A latch is an acquire. Every transition that makes a row
 *                 available or takes it away is a release store. The bytes of
 *                 a slot are read and written only by the thread that holds
 *                 the latch, or by the protocol while no word names the slot.
 *                 So a thread that has the latch happens after the thread that
 *                 released it, and after the settle that filled the slot. The
 *                 load before the compare-and-swap is relaxed: when it reads
 *                 an old word, the swap fails. A row may leave and return and
 *                 have the same word again (ABA). That is harmless: the swap's
 *                 acquire reads from the last settle, or from a release after
 *                 it.
 *   Progress      A thread that holds a latch never blocks, so spins are short.
 *                 A waiting thread yields after LATCH_SPINS tries.
 *
 * latch_test.c explores all interleavings of two workers and a hand-over, over
 * these very functions.
 */
#ifndef MUSTER_PS_STORE_LATCH_H
#define MUSTER_PS_STORE_LATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"

#define MUSTER_WORD_SLOT_MASK   0xffffffffull
#define MUSTER_WORD_LATCHED     (1ull << 32)
#define MUSTER_WORD_DIRTY       (1ull << 33)
#define MUSTER_WORD_STATE_SHIFT 34
#define MUSTER_WORD_STATE_MASK  (3ull << MUSTER_WORD_STATE_SHIFT)
#define MUSTER_WORD_HERE        (2ull << MUSTER_WORD_STATE_SHIFT)
#define MUSTER_WORD_MOVES_SHIFT 36
#define MUSTER_WORD_MOVES_MAX   ((1ull << 27) - 1)
#define MUSTER_WORD_SPENT       (1ull << 63)

typedef enum muster_word_state {
    MUSTER_ROW_ABSENT = 0,
    MUSTER_ROW_ARRIVING = 1,
    MUSTER_ROW_OWNED = 2,
    MUSTER_ROW_REPLICA = 3,
} muster_word_state;

typedef _Atomic uint64_t muster_word;

static inline muster_word_state muster_word_state_of(uint64_t word)
{
    return (muster_word_state)((word >> MUSTER_WORD_STATE_SHIFT) & 3);
}

static inline bool muster_word_here(uint64_t word)
{
    return (word & MUSTER_WORD_HERE) != 0;
}

static inline uint32_t muster_word_slot(uint64_t word)
{
    return (uint32_t)(word & MUSTER_WORD_SLOT_MASK);
}

static inline uint32_t muster_word_moves(uint64_t word)
{
    return (uint32_t)(word >> MUSTER_WORD_MOVES_SHIFT & MUSTER_WORD_MOVES_MAX);
}

/* The word of a row that is not latched; moves count modulo 2^27. */
static inline uint64_t muster_word_make(muster_word_state state, uint32_t slot,
                                        uint32_t moves)
{
    return (uint64_t)slot | (uint64_t)state << MUSTER_WORD_STATE_SHIFT |
           (moves & MUSTER_WORD_MOVES_MAX) << MUSTER_WORD_MOVES_SHIFT;
}

/* The word of a replica that may be written `budget` times, 1..2^27. */
static inline uint64_t muster_word_replica(uint32_t slot, uint32_t budget)
{
    return (uint64_t)slot | MUSTER_WORD_STATE_MASK |
           ((1ull << 27) - budget) << MUSTER_WORD_MOVES_SHIFT;
}

/* How often the replica may still be written. */
static inline uint32_t muster_word_budget(uint64_t word)
{
    return word & MUSTER_WORD_SPENT ? 0 : (1u << 27) - muster_word_moves(word);
}

/* Must a write that finds this word ask for a synchronisation, so that the
 * budget is not spent before the owner's row comes? Budgets are 3 * 2^k: when a
 * third is used, and from then on whenever half of the rest is. */
static inline bool muster_word_asks(uint64_t word)
{
    uint32_t left = muster_word_budget(word);
    return (left & (left - 1)) == 0 && left > 0;
}

/* Here and not spent: a worker may use the row. */
static inline bool muster_word_usable(uint64_t word)
{
    return (word & (MUSTER_WORD_HERE | MUSTER_WORD_SPENT)) == MUSTER_WORD_HERE;
}

/* The transitions as functions of the word alone. */

/* May the protocol replace this word by `next`? */
static inline bool muster_word_may_become(uint64_t word, uint64_t next)
{
    // What is here must be latched: else a worker might be using it.
    bool held = !muster_word_here(word) || (word & MUSTER_WORD_LATCHED) != 0;
    bool requested = muster_word_state_of(next) != MUSTER_ROW_ARRIVING ||
                     muster_word_state_of(word) == MUSTER_ROW_ABSENT;
    return held && requested && (next & MUSTER_WORD_LATCHED) == 0;
}

static inline bool muster_word_can_latch(uint64_t word)
{
    return (word & (MUSTER_WORD_HERE | MUSTER_WORD_SPENT |
                    MUSTER_WORD_LATCHED)) == MUSTER_WORD_HERE;
}

static inline uint64_t muster_word_latched(uint64_t word)
{
    return word | MUSTER_WORD_LATCHED;
}

static inline uint64_t muster_word_released(uint64_t word, bool written)
{
    word &= ~MUSTER_WORD_LATCHED;
    if (written && (word & MUSTER_WORD_STATE_MASK) == MUSTER_WORD_STATE_MASK) {
        // The protocol may write a replica that is already spent.
        uint64_t one =
            word & MUSTER_WORD_SPENT ? 0 : 1ull << MUSTER_WORD_MOVES_SHIFT;
        word = (word | MUSTER_WORD_DIRTY) + one;
    }
    return word;
}

/* Try once. True: the caller has the latch, and *seen is the word before it.
 * False: *seen is the word that prevented it. */
static inline bool muster_latch_try(muster_word *word, uint64_t *seen)
{
    return muster_word_can_latch(*seen) &&
           atomic_compare_exchange_weak_explicit(
               word, seen, muster_word_latched(*seen), memory_order_acquire,
               memory_order_relaxed);
}

/* Pause before the next try; `tries` counts the tries. */
void muster_latch_pause(uint32_t *tries);

/* Latch the row if a worker may use it. True: *seen_out is the word before.
 * False: *seen_out is the word that says why not. */
static inline bool muster_latch(muster_word *word, uint64_t *seen_out)
{
    uint64_t seen = atomic_load_explicit(word, memory_order_relaxed);
    uint32_t tries = 0;
    while (!muster_latch_try(word, &seen)) {
        if (!muster_word_usable(seen)) {
            *seen_out = seen;
            return false;
        }
        if (seen & MUSTER_WORD_LATCHED) {
            muster_latch_pause(&tries);
            seen = atomic_load_explicit(word, memory_order_relaxed);
        }
    }
    *seen_out = seen;
    return true;
}

/* Latch the row if it is here, spent or not. For the protocol. No worker has
 * the latch of a spent replica, so its word needs no swap. */
static inline bool muster_latch_here(muster_word *word, uint64_t *seen_out)
{
    if (muster_latch(word, seen_out)) {
        return true;
    }
    if (!muster_word_here(*seen_out)) {
        return false;
    }
    // No worker changes a spent word. This load reads from the last release.
    *seen_out = atomic_load_explicit(word, memory_order_acquire);
    atomic_store_explicit(word, muster_word_latched(*seen_out),
                          memory_order_relaxed);
    return true;
}

/* Release the latch. Only the thread that has it changes a latched word, so
 * the load is exact. */
static inline void muster_latch_release(muster_word *word, bool written)
{
    uint64_t held = atomic_load_explicit(word, memory_order_relaxed);
    atomic_store_explicit(word, muster_word_released(held, written),
                          memory_order_release);
}

/* All other transitions of the protocol: request, settle, withdraw, depart,
 * replace. */
static inline void muster_latch_publish(muster_word *word, uint64_t next)
{
    MUSTER_ASSERT(muster_word_may_become(
        atomic_load_explicit(word, memory_order_relaxed), next));
    atomic_store_explicit(word, next, memory_order_release);
}

#endif // MUSTER_PS_STORE_LATCH_H
