/*
 * ps/store/interleave_test.h -- every interleaving of a few threads over store
 * buffers.
 *
 * Threads are small programs whose steps are single memory accesses. Stores go
 * into a buffer of their thread, which sees them at once; they reach the
 * memory, and so the others, at any later moment: in their order (as on x86),
 * or weakly, where only a release waits for those before it and stores to one
 * cell keep their order. Loads are not delayed: they are acquires where that
 * matters. A walk over all states counts those with two threads at the row, the
 * final ones where a change to the row was lost, and those from which no final
 * one can be reached, where somebody waits for ever.
 */
#ifndef MUSTER_PS_STORE_INTERLEAVE_TEST_H
#define MUSTER_PS_STORE_INTERLEAVE_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { THREADS = 3, CELLS = 16, SENT_MAX = 4, DONE = 100 };
enum { STATES_MAX = 1 << 17, EDGES_MAX = 4 * STATES_MAX };

typedef struct sent {
    uint32_t value;
    uint8_t where;
    bool release;
    uint8_t pad[2];
} sent;

typedef struct thread {
    int8_t at; // the step of its program, or DONE
    uint8_t round;
    uint8_t other;   // for the program, as what follows
    uint8_t waiting; // stores in the buffer
    uint32_t seen[2];
    sent buffer[SENT_MAX];
} thread;

typedef struct world {
    uint32_t cells[CELLS];
    thread threads[THREADS];
} world;

typedef struct rules {
    bool weak;     // stores may overtake each other
    bool unfenced; // who takes the permission away does not pay
    bool relaxed;  // what a worker lists is not released
    bool hasty;    // not all that is to be waited for is
    uint32_t threads;
    uint8_t rounds;
    void (*step[THREADS])(const struct rules *r, world *w, uint32_t who);
    bool (*at_row)(const thread *t);
    uint32_t row;     // the cell that must not be lost,
    uint32_t changes; // and how often it is counted up, in all
} rules;

static inline uint32_t get(const world *w, uint32_t who, uint32_t where)
{
    const thread *t = &w->threads[who];
    for (uint32_t i = t->waiting; i > 0; i--) {
        if (t->buffer[i - 1].where == where) {
            return t->buffer[i - 1].value;
        }
    }
    return w->cells[where];
}

/* A thread steps only while its buffer has room. */
static inline void put(world *w, uint32_t who, uint32_t where, uint32_t value,
                       bool release)
{
    thread *t = &w->threads[who];
    t->buffer[t->waiting++] =
        (sent){.value = value, .where = (uint8_t)where, .release = release};
}

/* A store of the buffer reaches the memory; may it? */
static inline void arrive(world *w, uint32_t who, uint32_t i)
{
    thread *t = &w->threads[who];
    w->cells[t->buffer[i].where] = t->buffer[i].value;
    for (t->waiting--; i < t->waiting; i++) {
        t->buffer[i] = t->buffer[i + 1];
    }
    t->buffer[t->waiting] = (sent){0};
}

static inline bool may_arrive(const rules *r, const thread *t, uint32_t i)
{
    if (i > 0 && (!r->weak || t->buffer[i].release)) {
        return false;
    }
    for (uint32_t before = 0; before < i; before++) {
        if (t->buffer[before].where == t->buffer[i].where) {
            return false;
        }
    }
    return true;
}

/* Compare and swap, of a thread that is ready for it. */
static inline bool swap(world *w, uint32_t where, uint32_t from, uint32_t to)
{
    bool same = w->cells[where] == from;
    w->cells[where] = same ? to : w->cells[where];
    return same;
}

/* Can it swap? Not before what it stored; weakly, only not to the same place,
 * unless the swap is to be seen in its order. */
static inline bool is_ready(const rules *r, const thread *t, uint32_t where,
                            bool ordered)
{
    bool ready = t->waiting == 0 || (r->weak && !ordered);
    for (uint32_t i = 0; i < t->waiting; i++) {
        ready = ready && t->buffer[i].where != where;
    }
    return ready;
}

/* The one that is paid by one side: every buffer is emptied. */
static inline void fence(const rules *r, world *w, uint32_t who)
{
    for (uint32_t i = 0; i < r->threads; i++) {
        while (w->threads[i].waiting > 0 && (i == who || !r->unfenced)) {
            arrive(w, i, 0);
        }
    }
}

typedef struct found {
    uint32_t states;
    uint32_t finals;
    uint32_t meetings; // two at the row
    uint32_t lost;     // finals where a change is missing
    uint32_t endless;  // states that no final one follows
} found;

typedef struct walk {
    const rules *r;
    world *all;   // each state once, in the order of discovery
    uint32_t *at; // number + 1 of a state by its hash; 0: free
    uint32_t count;
    uint32_t *edges; // pairs: from, to
    uint32_t edge_count;
} walk;

static inline uint32_t number_of(walk *k, const world *w)
{
    const unsigned char *bytes = (const unsigned char *)w;
    uint64_t hash = 1469598103934665603ull;
    for (size_t i = 0; i < sizeof(*w); i++) {
        hash = (hash ^ bytes[i]) * 1099511628211ull;
    }
    uint32_t slot = (uint32_t)(hash >> 20) % (2 * STATES_MAX);
    while (k->at[slot] != 0) {
        if (memcmp(&k->all[k->at[slot] - 1], w, sizeof(*w)) == 0) {
            return k->at[slot] - 1;
        }
        slot = (slot + 1) % (2 * STATES_MAX);
    }
    assert_true(k->count < STATES_MAX);
    k->all[k->count] = *w;
    k->at[slot] = ++k->count;
    return k->count - 1;
}

static inline void add_edge(walk *k, uint32_t from, const world *to)
{
    uint32_t number = number_of(k, to);
    if (number != from) {
        assert_true(k->edge_count < EDGES_MAX);
        k->edges[2 * k->edge_count] = from;
        k->edges[2 * k->edge_count + 1] = number;
        k->edge_count++;
    }
}

/* Whatever can happen next. True: nothing, all have come to their end. */
static inline bool expand(walk *k, uint32_t from)
{
    bool done = true;
    for (uint32_t who = 0; who < k->r->threads; who++) {
        const thread *t = &k->all[from].threads[who];
        done = done && t->at == DONE && t->waiting == 0;
        if (t->at != DONE && t->waiting < SENT_MAX) {
            world next = k->all[from];
            k->r->step[who](k->r, &next, who);
            add_edge(k, from, &next);
        }
        for (uint32_t i = 0; i < t->waiting; i++) {
            if (may_arrive(k->r, t, i)) {
                world next = k->all[from];
                arrive(&next, who, i);
                add_edge(k, from, &next);
            }
        }
    }
    return done;
}

/* How many states no final one follows: those that lead to one are marked, from
 * the last edges to the first, until there are no more. */
static inline uint32_t count_endless(const walk *k, bool *ends)
{
    bool more = true;
    while (more) {
        more = false;
        for (uint32_t i = k->edge_count; i > 0; i--) {
            const uint32_t *edge = &k->edges[2 * (i - 1)];
            if (ends[edge[1]] && !ends[edge[0]]) {
                ends[edge[0]] = true;
                more = true;
            }
        }
    }
    uint32_t endless = 0;
    for (uint32_t i = 0; i < k->count; i++) {
        endless += !ends[i];
    }
    return endless;
}

static inline void *must_have(size_t count, size_t size)
{
    void *block = calloc(count, size);
    if (block == NULL) {
        abort();
    }
    return block;
}

static inline found explore(const rules *r, const world *first)
{
    found f = {0};
    walk k = {.r = r,
              .all = must_have(STATES_MAX, sizeof(*k.all)),
              .at = must_have(2 * (size_t)STATES_MAX, sizeof(*k.at)),
              .edges = must_have(2 * (size_t)EDGES_MAX, sizeof(*k.edges))};
    bool *ends = must_have(STATES_MAX, sizeof(*ends));
    (void)number_of(&k, first);
    for (uint32_t i = 0; i < k.count; i++) {
        uint32_t at_row = 0;
        for (uint32_t who = 0; who < r->threads; who++) {
            at_row += r->at_row(&k.all[i].threads[who]);
        }
        f.meetings += at_row > 1;
        ends[i] = expand(&k, i);
        f.finals += ends[i];
        f.lost += ends[i] && k.all[i].cells[r->row] != r->changes;
    }
    f.states = k.count;
    f.endless = count_endless(&k, ends);
    free(k.all);
    free(k.at);
    free(k.edges);
    free(ends);
    return f;
}

#endif // MUSTER_PS_STORE_INTERLEAVE_TEST_H
