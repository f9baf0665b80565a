/*
 * latch_test.c -- every interleaving of two workers and the protocol.
 *
 * The threads are small programs whose steps are single memory accesses, made
 * of the very transition functions of latch.h. A depth-first walk over all
 * states (remembered, so each is visited once) checks in every one that at most
 * one thread holds the row, and in every final one that no update was lost. A
 * last test runs real threads over the real words, for the sanitizers.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ps/store/latch.h"

enum { WORKERS = 2, THREADS = 3, SLOTS = 2, SEEN_MAX = 1 << 20 };
enum { DONE = 100, POISON = 50 };

typedef struct world {
    uint64_t word;
    uint64_t guess[THREADS]; // what each thread last loaded
    int8_t row[SLOTS];
    int8_t taken[THREADS]; // a worker's copy of the row, or the transfer
    int8_t base;           // replica: what was last agreed on
    int8_t sent;           // replica: sum of the differences sent
    int8_t at[THREADS];    // program counters
    int8_t elsewhere;      // workers that found the replica spent
    int8_t pad[5];
} world;

typedef void (*program)(world *w);

/* Load a guess, swap it for the latched word. Both parties latch so. */
static void step_latch(world *w, int self, int8_t next)
{
    if (w->at[self] == 0) {
        w->guess[self] = w->word;
        w->at[self] = muster_word_can_latch(w->guess[self]) ? 1 : 0;
        if (self < WORKERS && (w->word & MUSTER_WORD_SPENT)) {
            w->elsewhere++;
            w->at[self] = DONE;
        }
    } else if (w->word == w->guess[self]) {
        w->word = muster_word_latched(w->word);
        w->at[self] = next;
    } else {
        w->at[self] = 0;
    }
}

static void step_worker(world *w, int self)
{
    uint32_t slot = muster_word_slot(w->word);
    switch (w->at[self]) {
    case 0:
    case 1:
        step_latch(w, self, 2);
        return;
    case 2:
        w->taken[self] = w->row[slot];
        w->at[self] = 3;
        return;
    case 3:
        w->row[slot] = (int8_t)(w->taken[self] + 1);
        w->at[self] = 4;
        return;
    case 4:
        w->guess[self] = w->word;
        w->at[self] = 5;
        return;
    default:
        w->word = muster_word_released(w->guess[self], true);
        w->at[self] = DONE;
        return;
    }
}

static void publish(world *w, uint64_t next)
{
    assert_true(muster_word_may_become(w->word, next));
    w->word = next;
}

/* The row leaves, its slot is reused, and the row returns in another slot. */
static void step_hand_over(world *w)
{
    int self = WORKERS;
    switch (w->at[self]) {
    case 0:
    case 1:
        step_latch(w, self, 2);
        return;
    case 2:
        w->taken[self] = w->row[0];
        break;
    case 3:
        publish(w, muster_word_make(MUSTER_ROW_ABSENT, 0, 1));
        break;
    case 4:
        w->row[0] = POISON;
        break;
    case 5:
        publish(w, muster_word_make(MUSTER_ROW_ARRIVING, 0, 1));
        break;
    case 6:
        w->row[1] = w->taken[self];
        break;
    default:
        publish(w, muster_word_make(MUSTER_ROW_OWNED, 1, 2));
        w->at[self] = DONE;
        return;
    }
    w->at[self]++;
}

/* A replica is synchronised: what was added since the last time is sent. */
static void step_synchronise(world *w)
{
    int self = WORKERS;
    switch (w->at[self]) {
    case 0:
    case 1:
        step_latch(w, self, 2);
        return;
    case 2:
        w->taken[self] = w->row[0];
        w->at[self] = 3;
        return;
    case 3:
        w->sent = (int8_t)(w->sent + w->taken[self] - w->base);
        w->base = w->taken[self];
        w->at[self] = 4;
        return;
    default:
        w->word = muster_word_make(MUSTER_ROW_REPLICA, 0, 0);
        w->at[self] = DONE;
        return;
    }
}

/* The protocol's latch, also of what is spent; then `next`. */
static void step_latch_own(world *w, int8_t start, int8_t next)
{
    int self = WORKERS;
    if (w->at[self] == start) {
        w->guess[self] = w->word;
        bool free = (w->word & MUSTER_WORD_LATCHED) == 0;
        w->at[self] = free ? (int8_t)(start + 1) : start;
    } else if (w->word == w->guess[self]) {
        w->word = muster_word_latched(w->word);
        w->at[self] = next;
    } else {
        w->at[self] = start;
    }
}

/* What a replica delta is sent; later the owner's row comes and with it the
 * right to write once more. */
static void step_refresh(world *w)
{
    int self = WORKERS;
    switch (w->at[self]) {
    case 0:
    case 1:
        step_latch_own(w, 0, 2);
        return;
    case 2:
        w->taken[self] = w->row[0];
        w->at[self] = 3;
        return;
    case 3:
        w->sent = (int8_t)(w->sent + w->taken[self] - w->base);
        w->base = w->taken[self];
        w->at[self] = 4;
        return;
    case 4:
        w->word &= ~(MUSTER_WORD_LATCHED | MUSTER_WORD_DIRTY);
        w->at[self] = 5;
        return;
    case 5:
    case 6:
        step_latch_own(w, 5, 7);
        return;
    default:
        w->word = muster_word_replica(0, 1) | (w->word & MUSTER_WORD_DIRTY);
        w->at[self] = DONE;
        return;
    }
}

typedef struct walk {
    world *seen; // open addressing by content; at[0] == -1: free
    size_t visited;
    size_t finals;
    program protocol;
    void (*check_final)(const world *w);
} walk;

static size_t hash_world(const world *w)
{
    const unsigned char *bytes = (const unsigned char *)w;
    uint64_t hash = 1469598103934665603ull;
    for (size_t i = 0; i < sizeof(*w); i++) {
        hash = (hash ^ bytes[i]) * 1099511628211ull;
    }
    return (size_t)(hash >> 20) % SEEN_MAX;
}

static int remember(walk *k, const world *w)
{
    size_t at = hash_world(w);
    while (k->seen[at].at[0] != -1) {
        if (memcmp(&k->seen[at], w, sizeof(*w)) == 0) {
            return 0;
        }
        at = (at + 1) % SEEN_MAX;
    }
    k->seen[at] = *w;
    return 1;
}

static void check_holders(const world *w)
{
    int holders = 0;
    for (int i = 0; i < THREADS; i++) {
        int last = i < WORKERS ? 5 : 3;
        holders += (w->at[i] >= 2 && w->at[i] <= last) || w->at[i] == 7;
    }
    assert_true(holders <= 1);
}

static void visit(walk *k, const world *w)
{
    if (!remember(k, w)) {
        return;
    }
    k->visited++;
    assert_true(k->visited < SEEN_MAX / 2);
    check_holders(w);
    int running = 0;
    for (int i = 0; i < THREADS; i++) {
        if (w->at[i] == DONE) {
            continue;
        }
        running++;
        world next = *w;
        if (i < WORKERS) {
            step_worker(&next, i);
        } else {
            k->protocol(&next);
        }
        visit(k, &next);
    }
    if (running == 0) {
        k->finals++;
        k->check_final(w);
    }
}

static void explore(program protocol, void (*check_final)(const world *),
                    uint64_t start)
{
    walk k = {.protocol = protocol, .check_final = check_final};
    k.seen = calloc(SEEN_MAX, sizeof(*k.seen));
    assert_non_null(k.seen);
    for (size_t i = 0; i < SEEN_MAX; i++) {
        k.seen[i].at[0] = -1;
    }
    world first;
    memset(&first, 0, sizeof(first));
    first.word = start;
    visit(&k, &first);
    assert_true(k.visited > 200);
    assert_true(k.finals > 0);
    free(k.seen);
}

static void both_updates_travelled(const world *w)
{
    assert_int_equal(muster_word_state_of(w->word), MUSTER_ROW_OWNED);
    assert_int_equal(muster_word_slot(w->word), 1);
    assert_int_equal(w->row[1], 2);
}

static void no_update_is_lost_in_any_hand_over(void **state)
{
    (void)state;
    explore(step_hand_over, both_updates_travelled,
            muster_word_make(MUSTER_ROW_OWNED, 0, 0));
}

static void sent_or_still_dirty(const world *w)
{
    assert_int_equal(w->row[0], 2);
    int unsent = w->row[0] - w->base;
    assert_int_equal(w->sent + unsent, 2);
    assert_int_equal((w->word & MUSTER_WORD_DIRTY) != 0, unsent != 0);
}

static void a_replica_is_dirty_exactly_while_something_is_unsent(void **state)
{
    (void)state;
    explore(step_synchronise, sent_or_still_dirty,
            muster_word_make(MUSTER_ROW_REPLICA, 0, 0));
}

/* At most one write before the refresh, and one after it. */
static void written_once_or_elsewhere(const world *w)
{
    assert_int_equal(w->row[0] + w->elsewhere, 2);
    assert_true(w->row[0] >= 1);
    assert_int_equal(w->sent + (w->row[0] - w->base), w->row[0]);
    assert_int_equal((w->word & MUSTER_WORD_DIRTY) != 0, w->row[0] != w->base);
}

static void a_replica_is_written_as_often_as_it_may_be(void **state)
{
    (void)state;
    explore(step_refresh, written_once_or_elsewhere, muster_word_replica(0, 1));
}

static void words_keep_what_they_are_made_of(void **state)
{
    (void)state;
    uint64_t word = muster_word_make(MUSTER_ROW_REPLICA, 0xfffffffeu,
                                     (uint32_t)MUSTER_WORD_MOVES_MAX);
    assert_int_equal(muster_word_slot(word), 0xfffffffeu);
    assert_int_equal(muster_word_moves(word), MUSTER_WORD_MOVES_MAX);
    assert_int_equal(muster_word_state_of(word), MUSTER_ROW_REPLICA);
    assert_true(muster_word_can_latch(word));
    assert_false(muster_word_can_latch(muster_word_latched(word)));
    uint64_t away = muster_word_make(MUSTER_ROW_ARRIVING, 1, 1);
    assert_false(muster_word_here(away));
    assert_false(muster_word_can_latch(away));
    uint64_t twice = muster_word_replica(5, 2);
    assert_true(muster_word_usable(twice));
    twice = muster_word_released(muster_word_latched(twice), false);
    assert_int_equal(twice, muster_word_replica(5, 2));
    twice = muster_word_released(muster_word_latched(twice), true);
    assert_true(muster_word_can_latch(twice));
    twice = muster_word_released(muster_word_latched(twice), true);
    assert_false(muster_word_can_latch(twice));
    assert_false(muster_word_usable(twice));
    assert_true(muster_word_here(twice));
    assert_int_equal(muster_word_slot(twice), 5);
    assert_int_equal(muster_word_state_of(twice), MUSTER_ROW_REPLICA);
    // The protocol may write what is spent, as often as it likes.
    assert_int_equal(muster_word_released(muster_word_latched(twice), true),
                     twice);
    uint64_t owned = muster_word_make(MUSTER_ROW_OWNED, 1, 1);
    assert_int_equal(muster_word_released(muster_word_latched(owned), true),
                     owned);
}

enum { REAL_UPDATES = 20000 };

typedef struct real {
    muster_word word;
    long rows[2];
} real;

static void *real_worker(void *argument)
{
    real *shared = argument;
    for (int done = 0; done < REAL_UPDATES;) {
        uint64_t seen;
        uint32_t tries = 0;
        if (muster_latch(&shared->word, &seen)) {
            shared->rows[muster_word_slot(seen)]++;
            muster_latch_release(&shared->word, true);
            done++;
        } else {
            muster_latch_pause(&tries);
        }
    }
    return NULL;
}

/* From each state, latched or not, to each state. */
static void the_protocol_makes_only_the_transitions_listed(void **state)
{
    (void)state;
    for (uint32_t from = 0; from < 4; from++) {
        uint64_t word = muster_word_make((muster_word_state)from, 3, 1);
        bool here = muster_word_here(word);
        for (uint32_t to = 0; to < 4; to++) {
            uint64_t next = muster_word_make((muster_word_state)to, 3, 1);
            bool request = to != MUSTER_ROW_ARRIVING;
            assert_int_equal(muster_word_may_become(word, next),
                             !here && (request || from == MUSTER_ROW_ABSENT));
            assert_int_equal(
                muster_word_may_become(muster_word_latched(word), next),
                request || from == MUSTER_ROW_ABSENT);
            assert_false(
                muster_word_may_become(word, muster_word_latched(next)));
        }
    }
}

static void real_threads_lose_nothing_while_the_row_moves(void **state)
{
    (void)state;
    real shared = {0};
    atomic_init(&shared.word, muster_word_make(MUSTER_ROW_OWNED, 0, 0));
    pthread_t threads[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        assert_int_equal(
            pthread_create(&threads[i], NULL, real_worker, &shared), 0);
    }
    uint32_t slot = 0;
    for (uint32_t moves = 1; moves <= 2000; moves++) {
        uint64_t seen;
        assert_true(muster_latch(&shared.word, &seen));
        long value = shared.rows[slot];
        muster_latch_publish(&shared.word,
                             muster_word_make(MUSTER_ROW_ABSENT, 0, moves));
        muster_latch_publish(&shared.word,
                             muster_word_make(MUSTER_ROW_ARRIVING, 0, moves));
        shared.rows[slot] = -1;
        slot = 1 - slot;
        shared.rows[slot] = value;
        muster_latch_publish(&shared.word,
                             muster_word_make(MUSTER_ROW_OWNED, slot, moves));
    }
    for (int i = 0; i < WORKERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(shared.rows[slot], WORKERS * REAL_UPDATES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_keep_what_they_are_made_of),
        cmocka_unit_test(the_protocol_makes_only_the_transitions_listed),
        cmocka_unit_test(no_update_is_lost_in_any_hand_over),
        cmocka_unit_test(a_replica_is_dirty_exactly_while_something_is_unsent),
        cmocka_unit_test(a_replica_is_written_as_often_as_it_may_be),
        cmocka_unit_test(real_threads_lose_nothing_while_the_row_moves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
