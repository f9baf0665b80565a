/*
 * ps/store/latch.h -- the one word in which worker threads and the protocol
 * meet.
 *
 * Every key of a table has one 64-bit word at every node. It says whether the
 * row is here, in which slot of the slab, and who may touch it:
 *
 *     bits  0..31  slot      where the row lies, when it is here; of one that
 *           is
 *                            arriving: the number of its record, which only
 *                            the protocol may use
 *     bit   32     LATCHED   somebody holds the row
 *     bit   33     DIRTY     a replica was written since its last
 *           synchronisation bits 34..35  state     ABSENT 0, ARRIVING 1, OWNED
 *           2, REPLICA 3 bits 36..62  moves     how often the row has changed
 *           its owner; of a
 *                            replica: how often it may be written, counted up;
 *                            on a single node: the worker that it belongs to,
 *                            above 0 (holder.h)
 *     bit   63     SPENT     a replica was written as often as it may be
 *
 * The row is here exactly when the upper state bit is set. A replica is written
 * a bounded number of times between synchronisations, so that several nodes do
 * not go far from each other: when its count runs over into SPENT, workers
 * treat it as not here. The transitions (nothing else ever changes a word):
 *
 *   any thread   latch      (OWNED|REPLICA), not LATCHED, not SPENT -> LATCHED
 *   holder       release    LATCHED -> not LATCHED; a replica that was written
 *                           becomes DIRTY and counts up, perhaps to SPENT
 *   protocol     latch own  as latch, SPENT or not
 *   protocol     expect     ABSENT -> ARRIVING
 *   protocol     settle     ABSENT or ARRIVING -> OWNED or REPLICA, unlatched
 *   protocol     withdraw   ARRIVING -> ABSENT
 *   protocol     depart     OWNED or REPLICA, latched by the protocol -> ABSENT
 *   protocol     convert    OWNED <-> REPLICA, latched by the protocol, then
 *                           unlatched; DIRTY is cleared
 *
 * On a single node any thread may also put the first owner into a word, by a
 * swap; a holder's release may undo that, but rows are latched only once owners
 * mean nothing any more. Rows are used without latches where nobody else can be
 * at them (holder.h); a replica used so becomes DIRTY and counts up by a plain
 * store. What follows is about the others.
 *
 * "Protocol" is one thread per node. So of two threads that may write a word at
 * the same moment one at least is latching, and latching is a compare-and-swap
 * that fails when anything at all has changed.
 *
 *   Memory order  latch is an acquire, every transition that leaves a row here
 *                 or takes it away is a release store. The bytes of a slot are
 *                 read and written only while LATCHED is held, or by the
 *                 protocol while no word names the slot. A thread that latched
 *                 therefore happens after the release of the holder before it,
 *                 and after the settle that filled the slot. The load that
 *                 precedes the compare-and-swap is relaxed: it is a guess, and
 *                 a wrong guess fails. A word that left and came back with the
 *                 same bits (ABA) is harmless, since the swap's acquire reads
 *                 from the last settle or a release that follows it.
 *   Progress      Holders do not block, so a spin is short; a waiter yields
 *                 after LATCH_SPINS tries.
 *
 * All interleavings of two workers and a hand-over are explored in
 * latch_test.c, over these very functions.
 */
#ifndef MUSTER_PS_STORE_LATCH_H
#define MUSTER_PS_STORE_LATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

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

/* A word at rest; moves count modulo 2^27. */
static inline uint64_t muster_word_make(muster_word_state state, uint32_t slot,
                                        uint32_t moves)
{
    return (uint64_t)slot | (uint64_t)state << MUSTER_WORD_STATE_SHIFT |
           (moves & MUSTER_WORD_MOVES_MAX) << MUSTER_WORD_MOVES_SHIFT;
}

/* A replica at rest that may be written `budget` times, 1..2^27. */
static inline uint64_t muster_word_replica(uint32_t slot, uint32_t budget)
{
    return (uint64_t)slot | MUSTER_WORD_STATE_MASK |
           ((1ull << 27) - budget) << MUSTER_WORD_MOVES_SHIFT;
}

/* How often a replica may still be written. */
static inline uint32_t muster_word_budget(uint64_t word)
{
    return word & MUSTER_WORD_SPENT ? 0 : (1u << 27) - muster_word_moves(word);
}

/* Here, and not spent: a worker may use it. */
static inline bool muster_word_usable(uint64_t word)
{
    return (word & (MUSTER_WORD_HERE | MUSTER_WORD_SPENT)) == MUSTER_WORD_HERE;
}

/* The transitions as functions of the word alone. */

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
        // The protocol may write one that is spent already.
        uint64_t one =
            word & MUSTER_WORD_SPENT ? 0 : 1ull << MUSTER_WORD_MOVES_SHIFT;
        word = (word | MUSTER_WORD_DIRTY) + one;
    }
    return word;
}

/* One try. True: the caller holds the row, *seen is the word before. False:
 * *seen is what stood in the way. */
static inline bool muster_latch_try(muster_word *word, uint64_t *seen)
{
    return muster_word_can_latch(*seen) &&
           atomic_compare_exchange_weak_explicit(
               word, seen, muster_word_latched(*seen), memory_order_acquire,
               memory_order_relaxed);
}

/* Wait politely before the next try; `tries` counts them. */
void muster_latch_pause(uint32_t *tries);

/* Latch the row if it can be used: true and the word as it was, or false and
 * the word that says why not. */
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

/* The protocol's: latch the row if it is here, spent or not. No worker holds
 * one that is spent, so that its word needs no swap. */
static inline bool muster_latch_here(muster_word *word, uint64_t *seen_out)
{
    if (muster_latch(word, seen_out)) {
        return true;
    }
    if (!muster_word_here(*seen_out)) {
        return false;
    }
    // Nobody else changes it now; this reads from the last release.
    *seen_out = atomic_load_explicit(word, memory_order_acquire);
    atomic_store_explicit(word, muster_word_latched(*seen_out),
                          memory_order_relaxed);
    return true;
}

/* Let go. Only the holder may change a latched word, so its load is exact. */
static inline void muster_latch_release(muster_word *word, bool written)
{
    uint64_t held = atomic_load_explicit(word, memory_order_relaxed);
    atomic_store_explicit(word, muster_word_released(held, written),
                          memory_order_release);
}

/* The protocol's transitions: settle, depart, convert, expect, withdraw are
 * all "publish this word", allowed when the list above says so. */
static inline void muster_latch_publish(muster_word *word, uint64_t next)
{
    atomic_store_explicit(word, next, memory_order_release);
}

#endif // MUSTER_PS_STORE_LATCH_H
