/*
 * ps/store/bias_model_test.h -- shared by the programs of bias_model_test.c:
 * the memory cells, how a bias holder is read, and how a row is latched,
 * changed and released.
 */
#ifndef MUSTER_PS_STORE_BIAS_MODEL_TEST_H
#define MUSTER_PS_STORE_BIAS_MODEL_TEST_H

#include "ps/store/interleave_test.h"

#include "ps/store/bias.h"
#include "ps/store/latch.h"

enum { ROW_BIAS, REVOKED, LIMIT, WORD, ROW, STATE, LIST = STATE + THREADS };
enum { NOTHING, HERE, ELSEWHERE }; // what is listed, unlatched
_Static_assert(LIST + 2 * THREADS <= CELLS, "a cell for each");

/* The upper half of the word is enough: the row is in slot 0. */
static inline uint64_t word_of(uint32_t half)
{
    return (uint64_t)half << 32;
}

static inline uint32_t half_of(uint64_t word)
{
    return (uint32_t)(word >> 32);
}

static inline void add_to_state(world *w, uint32_t self, uint64_t what)
{
    uint32_t state = get(w, self, STATE + self);
    put(w, self, STATE + self, (uint32_t)(state + what), true);
}

static inline void list(const rules *r, world *w, uint32_t self, uint32_t i,
                        uint32_t what)
{
    put(w, self, LIST + 2 * self + i, what, !r->relaxed);
}

/* Steps start..start+2: does another worker list the row? See has_row(). */
static inline void seek(world *w, uint32_t self, int8_t start, int8_t listed,
                        int8_t none)
{
    thread *t = &w->threads[self];
    uint32_t state = STATE + t->other;
    if (t->at == start) {
        t->seen[0] = get(w, self, state);
        t->at++;
    } else if (t->at == start + 1) {
        bool more = (t->seen[0] & MUSTER_BIAS_UNLATCHED) != 0 &&
                    t->seen[1] < muster_bias_open_rows(t->seen[0]);
        uint32_t entry = LIST + 2u * t->other + t->seen[1];
        if (more && get(w, self, entry) == HERE) {
            t->at = listed;
            t->seen[0] = t->seen[1] = 0;
        } else if (more) {
            t->seen[1]++;
        } else {
            t->at++;
        }
    } else if (get(w, self, state) == t->seen[0]) {
        t->at = none;
        t->seen[0] = t->seen[1] = 0;
    } else {
        t->at = start;
        t->seen[0] = t->seen[1] = 0;
    }
}

/* Add 1 to the row, in steps start and start+1. */
static inline void change_row(world *w, uint32_t self, int8_t start)
{
    thread *t = &w->threads[self];
    if (t->at == start) {
        t->seen[0] = get(w, self, ROW);
    } else {
        put(w, self, ROW, t->seen[0] + 1, false);
        t->seen[0] = 0;
    }
    t->at++;
}

static inline void end_round(const rules *r, thread *t, int8_t start)
{
    t->round++;
    t->at = t->round < r->rounds ? start : DONE;
}

/* Steps that all programs share: the row is latched, or open unlatched. In them
 * a thread is at the row. */
enum { LATCH = 40, LATCH_SWAP, HELD, HELD_STORE, RELEASE, RELEASE_STORE };
enum { UNLATCHED = 60, PLAIN_STORE, LEAVE };
enum { MOVE = 70, MOVE_END = 75 };
enum { PAUSED = DONE + 10, PAUSED_STORE, RESUME };

static inline bool is_at_row(const thread *t)
{
    return (t->at >= HELD && t->at <= RELEASE_STORE) ||
           (t->at >= UNLATCHED && t->at <= LEAVE) ||
           (t->at >= MOVE && t->at <= MOVE_END) ||
           (t->at >= PAUSED && t->at <= RESUME);
}

/* Latch the row, then continue at `next`. */
static inline void step_latch(const rules *r, world *w, uint32_t self,
                              int8_t next)
{
    thread *t = &w->threads[self];
    if (t->at == LATCH) {
        uint32_t seen = get(w, self, WORD);
        bool can = muster_word_can_latch(word_of(seen));
        t->seen[0] = can ? seen : 0;
        t->at = can ? LATCH_SWAP : LATCH;
    } else if (is_ready(r, t, WORD, false)) {
        uint32_t latched = half_of(muster_word_latched(word_of(t->seen[0])));
        t->at = swap(w, WORD, t->seen[0], latched) ? next : LATCH;
        t->seen[0] = 0;
    }
}

/* Change the row and release it; the next round begins at `start`. */
static inline void step_row(const rules *r, world *w, uint32_t self,
                            int8_t start)
{
    thread *t = &w->threads[self];
    switch (t->at) {
    case HELD:
    case HELD_STORE:
        change_row(w, self, HELD);
        return;
    case RELEASE:
        t->seen[0] = get(w, self, WORD);
        t->at++;
        return;
    case RELEASE_STORE:
        put(w, self, WORD,
            half_of(muster_word_released(word_of(t->seen[0]), true)), true);
        t->seen[0] = 0;
        end_round(r, t, start);
        return;
    case LEAVE:
        add_to_state(w, self, (uint64_t)-1);
        end_round(r, t, start);
        return;
    default:
        change_row(w, self, UNLATCHED);
        return;
    }
}

#endif // MUSTER_PS_STORE_BIAS_MODEL_TEST_H
