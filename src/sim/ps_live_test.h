/*
 * sim/ps_live_test.h -- what happens to the nodes of sim/ps_world_test.h: their
 * workers' operations, faults, meetings; and waiting until all has come to
 * rest.
 */
#ifndef MUSTER_SIM_PS_LIVE_TEST_H
#define MUSTER_SIM_PS_LIVE_TEST_H

#include "sim/ps_world_test.h"

#define DEADLINE (60000 * MS) // by then all has come to rest

/* ---- workers and faults -------------------------------------------------- */

static process *somebody(world *w)
{
    process *p;
    do {
        p = &w->at[below(w, w->nodes)];
    } while (!p->up);
    return p;
}

static asked *new_asked(world *w, const process *p, muster_row_op op)
{
    asked *a = calloc(1, sizeof(*a));
    assert_non_null(a);
    a->next = w->all;
    w->all = a;
    a->at = p->number;
    a->life = p->life;
    a->request = (muster_row_request){.op = op,
                                      .keys = a->keys,
                                      .values = a->values,
                                      .positions = a->positions,
                                      .context = a};
    a->begun = ++w->moment;
    a->orphan = p->given_up;
    return a;
}

/* Entry i, in place where that can be. */
static void try_here(process *p, asked *a, uint32_t i)
{
    float copy[WIDTH];
    memcpy(copy, &a->values[WIDTH * i], sizeof(copy));
    if (!muster_ps_table_try(p->table, a->request.op, a->keys[i], copy)) {
        a->positions[a->request.count++] = i;
    }
}

/* What could not be done here is asked for. */
static void submit(world *w, process *p, asked *a)
{
    if (a->request.count == 0) {
        finish(w, a);
        return;
    }
    MUST(w, muster_protocol_request(p->node, w->now_ns, &a->request, &p->out) ==
                MUSTER_OK);
    collect(w, p);
}

static void push_some(world *w, process *p)
{
    static const muster_row_op ops[4] = {MUSTER_ROWOP_PULL, MUSTER_ROWOP_PUSH,
                                         MUSTER_ROWOP_PUSH,
                                         MUSTER_ROWOP_GRADIENT};
    asked *a = new_asked(w, p, ops[below(w, 4)]);
    bool pull = a->request.op == MUSTER_ROWOP_PULL;
    // One step against a gradient, at rate 1, adds as much as a push.
    float one = a->request.op == MUSTER_ROWOP_GRADIENT ? -1 : 1;
    for (uint32_t i = 0; i < REQUEST_KEYS; i++) {
        do {
            a->keys[i] = (uint32_t)below(w, KEYS);
        } while (!pull && is_set(a->keys[i]));
        a->values[2 * i] = one;
        a->values[2 * i + 1] = 2 * one;
        w->made[a->keys[i]] += !pull;
        p->updates += !pull;
        try_here(p, a, i);
    }
    submit(w, p, a);
}

/* One row, to a value that nobody else sets. */
static asked *set_row(world *w, process *p, uint32_t key)
{
    asked *a = new_asked(w, p, MUSTER_ROWOP_SET);
    a->keys[0] = key;
    a->values[0] = (float)++w->sets;
    a->values[1] = 2 * a->values[0];
    try_here(p, a, 0);
    submit(w, p, a);
    return a;
}

static void set_some(world *w, process *p)
{
    uint32_t key;
    do {
        key = (uint32_t)below(w, KEYS);
    } while (!is_set(key));
    (void)set_row(w, p, key);
}

static void localize_some(world *w, process *p)
{
    uint32_t keys[REQUEST_KEYS];
    for (uint32_t i = 0; i < REQUEST_KEYS; i++) {
        keys[i] = (uint32_t)below(w, KEYS);
    }
    muster_localize_request wish = {
        .keys = keys, .count = REQUEST_KEYS, .copy = below(w, 4) == 0};
    MUST(w, muster_protocol_localize(p->node, w->now_ns, &wish, &p->out) ==
                MUSTER_OK);
    collect(w, p);
}

/* One more intent of its workers, or one less. */
static void intend_some(world *w, process *p)
{
    bool begins =
        p->intents == 0 || (p->intents < INTENTS_MAX && below(w, 2) == 0);
    uint32_t key =
        begins ? (uint32_t)below(w, KEYS) : p->intended[--p->intents];
    if (begins) {
        p->intended[p->intents++] = key;
    }
    muster_localize_request wish = {.keys = &key, .count = 1};
    MUST(w, muster_protocol_intend(p->node, w->now_ns, &wish, begins,
                                   &p->out) == MUSTER_OK);
    collect(w, p);
}

/* SIGKILL: of what it sent some is lost, and each peer hears at its own time
 * that the connection is over, after which nothing comes from it. */
static void kill_one(world *w, process *p)
{
    for (size_t i = 0; i < w->flying;) {
        if (w->flights[i].from == p->number && below(w, 2) == 0) {
            muster_blob_unref(w->flights[i].send.message.payload);
            w->flights[i] = w->flights[--w->flying];
        } else {
            i++;
        }
    }
    uint32_t life = p->life;
    end(p);
    for (uint16_t i = 0; i < w->nodes; i++) {
        process *q = &w->at[i];
        pass(w, w->now_ns + (int64_t)below(w, 5 * MS));
        if (q->up && q->life > 0 && i != p->number &&
            q->stopped_ns <= w->now_ns) {
            q->deaf[p->number] = life;
            MUST(w, muster_protocol_down(q->node, w->now_ns, p->number,
                                         &q->out) == MUSTER_OK);
            collect(w, q);
        }
    }
}

/* Something bad happens to a node that is not the lead. */
static void hurt(world *w)
{
    process *p = somebody(w);
    if (p->number == 0) {
        // The lead may stand still, but not for as long as the window.
        p->stopped_ns = w->now_ns + (int64_t)below(w, 900 * MS);
    } else if (below(w, 2) == 0) {
        kill_one(w, p);
    } else {
        p->stopped_ns = w->now_ns + (int64_t)below(w, 5000 * MS);
    }
}

/* ---- rest ---------------------------------------------------------------- */

static bool at_rest(const world *w)
{
    uint64_t up = 0;
    bool rest = !w->losing;
    for (uint16_t i = 0; i < w->nodes; i++) {
        const process *p = &w->at[i];
        up |= p->up ? 1ull << i : 0;
        rest = rest && (!p->up || (p->stopped_ns <= w->now_ns &&
                                   muster_protocol_idle(p->node)));
    }
    for (uint16_t i = 0; i < w->nodes && rest; i++) {
        rest = !w->at[i].up || muster_protocol_members(w->at[i].node) == up;
    }
    for (size_t i = 0; i < w->flying && rest; i++) {
        rest = w->flights[i].send.message.kind == MUSTER_ROWMSG_HEARTBEAT;
    }
    return rest;
}

static void come_to_rest(world *w)
{
    int64_t end_ns = w->now_ns + DEADLINE;
    while (!at_rest(w)) {
        MUST(w, w->now_ns < end_ns);
        pass(w, w->now_ns + 5 * MS);
    }
}

/* A barrier of all; somebody may be hurt while they meet. */
static void meet(world *w, bool hurting)
{
    for (uint16_t i = 0; i < w->nodes; i++) {
        process *p = &w->at[i];
        while (p->up && p->stopped_ns > w->now_ns) {
            pass(w, w->now_ns + 5 * MS);
        }
        if (p->up) {
            MUST(w, muster_protocol_barrier(p->node, w->now_ns, &p->out) ==
                        MUSTER_OK);
            p->barriers++;
            collect(w, p);
        }
        pass(w, w->now_ns + (int64_t)below(w, 3 * MS));
        if (hurting && below(w, w->nodes) == 0) {
            hurt(w);
        }
    }
    come_to_rest(w);
    for (uint16_t i = 0; i < w->nodes; i++) {
        if (w->at[i].up) {
            MUST(w, w->at[i].out.released == w->at[i].barriers);
        }
    }
}

static void see_row(world *w, uint32_t key, float *row)
{
    int owners = 0;
    float seen[WIDTH] = {0};
    for (uint16_t i = 0; i < w->nodes; i++) {
        process *p = &w->at[i];
        if (!p->up) {
            continue;
        }
        uint64_t word = atomic_load(&p->table->words[key]);
        if (muster_word_state_of(word) == MUSTER_ROW_OWNED) {
            owners++;
            uint16_t home = muster_protocol_home(p->node, key);
            MUST(w, w->at[home].up);
            MUST(w, muster_protocol_owner(w->at[home].node, 0, key) == i);
            MUST(w, muster_ps_table_try(p->table, MUSTER_ROWOP_PULL, key, row));
        }
    }
    MUST(w, owners == 1);
    for (uint16_t i = 0; i < w->nodes; i++) {
        if (w->at[i].up &&
            muster_ps_table_try(w->at[i].table, MUSTER_ROWOP_PULL, key, seen)) {
            MUST(w, memcmp(seen, row, sizeof(seen)) == 0);
        }
    }
}

#endif // MUSTER_SIM_PS_LIVE_TEST_H
