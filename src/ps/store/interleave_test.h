/*
 * ps/store/interleave_test.h -- explores every interleaving of a few threads
 * with store buffers.
 *
 * Threads are small programs whose steps are single memory accesses. A store
 * goes into the buffer of its thread, which sees it at once. It reaches the
 * memory, and so the other threads, at any later moment: in program order (as
 * on x86), or weakly ordered: then only a release waits for the stores before
 * it, and stores to one cell keep their order. Loads are not delayed: they are
 * acquires where that matters. A walk over all states counts the states with
 * two threads at the row, the final states in which a change to the row is
 * missing, and the states from which no final state can be reached, where a
 * thread waits for ever.
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
    int8_t at; // step of its program, or DONE
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
    bool unfenced; // the revoker leaves out the fence
    bool relaxed;  // workers write their list without releases
    bool hasty;    // the revoker does not wait
    uint32_t threads;
    uint8_t rounds;
    void (*step[THREADS])(const struct rules *r, world *w, uint32_t self);
    bool (*at_row)(const thread *t);
    uint32_t row;     // the cell that counts changes,
    uint32_t changes; // and its value at the end
} rules;

static inline uint32_t get(const world *w, uint32_t self, uint32_t where)
{
    const thread *t = &w->threads[self];
    for (uint32_t i = t->waiting; i > 0; i--) {
        if (t->buffer[i - 1].where == where) {
            return t->buffer[i - 1].value;
        }
    }
    return w->cells[where];
}

/* A thread steps only while its buffer has room. */
static inline void put(world *w, uint32_t self, uint32_t where, uint32_t value,
                       bool release)
{
    thread *t = &w->threads[self];
    t->buffer[t->waiting++] =
        (sent){.value = value, .where = (uint8_t)where, .release = release};
}

/* A store of the buffer reaches the memory; may it? */
static inline void arrive(world *w, uint32_t self, uint32_t i)
{
    thread *t = &w->threads[self];
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

/* May the thread swap? Not before its own stores have reached memory; weakly
 * ordered, only those to the same cell, unless the swap is a release. */
static inline bool is_ready(const rules *r, const thread *t, uint32_t where,
                            bool ordered)
{
    bool ready = t->waiting == 0 || (r->weak && !ordered);
    for (uint32_t i = 0; i < t->waiting; i++) {
        ready = ready && t->buffer[i].where != where;
    }
    return ready;
}

/* membarrier(2): the buffers of all threads are emptied. */
static inline void fence(const rules *r, world *w, uint32_t self)
{
    for (uint32_t i = 0; i < r->threads; i++) {
        while (w->threads[i].waiting > 0 && (i == self || !r->unfenced)) {
            arrive(w, i, 0);
        }
    }
}

typedef struct found {
    uint32_t states;
    uint32_t finals;
    uint32_t meetings; // states with two threads at the row
    uint32_t lost;     // final states where a change is missing
    uint32_t endless;  // states that lead to no final state
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

/* Add all states that can follow. True: none, all threads are done. */
static inline bool expand(walk *k, uint32_t from)
{
    bool done = true;
    for (uint32_t self = 0; self < k->r->threads; self++) {
        const thread *t = &k->all[from].threads[self];
        done = done && t->at == DONE && t->waiting == 0;
        if (t->at != DONE && t->waiting < SENT_MAX) {
            world next = k->all[from];
            k->r->step[self](k->r, &next, self);
            add_edge(k, from, &next);
        }
        for (uint32_t i = 0; i < t->waiting; i++) {
            if (may_arrive(k->r, t, i)) {
                world next = k->all[from];
                arrive(&next, self, i);
                add_edge(k, from, &next);
            }
        }
    }
    return done;
}

/* Count the states that lead to no final state: mark those that do, from the
 * last edges to the first, until no more are found. */
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
        for (uint32_t self = 0; self < r->threads; self++) {
            at_row += r->at_row(&k.all[i].threads[self]);
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
