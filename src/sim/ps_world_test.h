/*
 * sim/ps_world_test.h -- nodes of a parameter server in virtual time: their
 * processes, and a network in which messages overtake each other and come
 * twice.
 */
#ifndef MUSTER_SIM_PS_WORLD_TEST_H
#define MUSTER_SIM_PS_WORLD_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "ps/protocol/protocol.h"

enum { NODES_MAX = 5, KEYS = 17, WIDTH = 2, FLIGHT_MAX = 8192 };
enum { REQUEST_KEYS = 3 };
#define MS     1000000ll
#define WINDOW (2000 * MS)
#define TICK   (20 * MS)

typedef struct asked {
    muster_row_request request;
    uint32_t keys[REQUEST_KEYS];
    uint32_t positions[REQUEST_KEYS];
    float values[REQUEST_KEYS * WIDTH];
    uint16_t at;
    uint32_t life;
    int ended;
    uint64_t begun; // SET: moments
    uint64_t over;  // 0: not yet
    bool orphan;    // not over when its node was given up
    struct asked *next;
} asked;

typedef struct flight {
    int64_t at_ns;
    muster_protocol_send send;
    uint16_t from;
    uint32_t from_life, to_life;
} flight;

enum { INTENTS_MAX = 4 };

typedef struct world world;

typedef struct process {
    world *in;
    uint16_t number;
    bool up;
    bool given_up; // by the others; it may not know yet
    uint32_t life;
    int64_t stopped_ns; // until then nothing happens in it
    muster_ps_table *table;
    muster_protocol *node;
    muster_protocol_out out;
    uint64_t updates; // since the checkpoint
    uint64_t told;    // of these, as the lead last heard
    uint64_t telling; // and which of its tellings that was
    uint64_t barriers;
    uint32_t intended[INTENTS_MAX]; // keys
    uint32_t intents;
    uint32_t deaf[NODES_MAX]; // lives of others up to which it hears nothing
} process;

struct world {
    uint64_t seed;
    uint16_t nodes;
    muster_ps_manage manage;
    uint32_t entries;         // at most in a message; 0: many
    muster_keyset replicated; // STATIC
    muster_rng rng;
    int64_t now_ns;
    process at[NODES_MAX];
    flight flights[FLIGHT_MAX];
    size_t flying;
    uint64_t made[KEYS];    // pushes, from the beginning
    float checkpoint[KEYS]; // first float of the row
    uint64_t moment;        // numbers what matters for SETs
    uint64_t based[KEYS];   // moment at which the row was its checkpoint's last
    uint64_t resumed;       // moment at which the lead went on after a loss
    uint64_t sets;          // made; each sets another value
    bool restored[KEYS];    // since the checkpoint
    uint64_t base_missing[KEYS]; // of the rows as they are in the checkpoint
    uint64_t allowed;            // missing updates that were reported
    uint64_t unanswered;         // of these, since the checkpoint
    uint64_t orphans;            // not acknowledged to a node that died since
    uint64_t slack; // done by lost nodes after their last heartbeat
    bool losing;    // the lead has lost somebody, not yet resumed
    asked *all;
    uint64_t losses, expelled, joins, copied, rescued, postponed;
};

#define MUST(w, condition)                                            \
    do {                                                              \
        if (!(condition)) {                                           \
            (void)fprintf(stderr,                                     \
                          "%s\nreplay: MUSTER_SEED=%llu "             \
                          "build/dev/test_sim_psmesh\n",              \
                          #condition, (unsigned long long)(w)->seed); \
            assert_true(condition);                                   \
        }                                                             \
    } while (0)

static uint64_t below(world *w, uint64_t bound)
{
    return muster_rng_below(&w->rng, bound);
}

/* Some rows are only SET and pulled, the others are pushed to and pulled. */
static bool is_set(uint32_t key)
{
    return key % 6 < 2;
}

static muster_blob *make_payload(void *context, size_t bytes)
{
    (void)context;
    return muster_blob_create(bytes);
}

/* A host that takes its time for the first row it is asked for. */
static bool prepared(void *context)
{
    const process *p = context;
    p->in->postponed++;
    return below(p->in, 8) == 0;
}

static bool restore(void *context, uint32_t table, uint32_t key, float *row)
{
    const process *p = context;
    (void)table;
    if (!p->given_up) { // else the row is not the one that the others have
        p->in->restored[key] = true;
        p->in->based[key] = ++p->in->moment;
    }
    row[0] = p->in->checkpoint[key];
    row[1] = 2 * p->in->checkpoint[key];
    return true;
}

static uint64_t updates(void *context)
{
    const process *p = context;
    return p->updates;
}

static void start(world *w, uint16_t number, bool joins)
{
    process *p = &w->at[number];
    muster_ps_table_opts shape = MUSTER_PS_TABLE_OPTS_INIT;
    shape.keys = KEYS;
    shape.width = WIDTH;
    shape.optimizer = MUSTER_PS_SGD;
    shape.rate = 1;
    // A node that joins begins without rows.
    muster_ps_table_share share = {
        .node = joins ? UINT32_MAX : number, .nodes = w->nodes, .seed = 1};
    p->in = w;
    p->number = number;
    p->up = true;
    p->given_up = false;
    p->life++;
    p->updates = 0;
    p->told = 0;
    p->telling = 0;
    p->intents = 0;
    p->stopped_ns = 0;
    assert_int_equal(muster_ps_table_create(&shape, &share, &p->table),
                     MUSTER_OK);
    muster_protocol_opts opts = {.node = number,
                                 .nodes = w->nodes,
                                 .tables = &p->table,
                                 .table_count = 1,
                                 .manage = w->manage,
                                 .replicated = &w->replicated,
                                 .sync_ns = 20 * MS,
                                 .contest_ns = 50 * MS,
                                 .message_entries = w->entries,
                                 .make = make_payload,
                                 .heartbeat_ns = WINDOW,
                                 .joins = joins,
                                 .prepared = prepared,
                                 .restore = restore,
                                 .updates = updates,
                                 .host = p};
    assert_int_equal(muster_protocol_create(&opts, &p->node), MUSTER_OK);
    p->out = muster_protocol_out_make();
}

static bool counts(muster_row_op op)
{
    return op == MUSTER_ROWOP_PUSH || op == MUSTER_ROWOP_GRADIENT;
}

static void end(process *p)
{
    for (const asked *a = p->in->all; a != NULL; a = a->next) {
        bool open = a->at == p->number && a->life == p->life && a->ended == 0;
        p->in->orphans += open && counts(a->request.op) ? a->request.count : 0;
    }
    muster_protocol_free(p->node);
    muster_protocol_out_fini(&p->out);
    muster_ps_table_free(p->table);
    p->node = NULL;
    p->up = false;
}

static void build(world *w, uint64_t seed)
{
    memset(w, 0, sizeof(*w));
    w->seed = seed;
    w->rng = muster_rng_make(seed, 11);
    w->nodes = (uint16_t)(2 + below(w, NODES_MAX - 1));
    w->manage = (muster_ps_manage)below(w, MUSTER_PS_STATIC + 1);
    // Copies that always are synchronised, each by itself, would not come to
    // rest.
    w->entries = w->manage == MUSTER_PS_STATIC ? 0 : (uint32_t)below(w, 4);
    w->replicated = muster_keyset_make();
    assert_int_equal(
        muster_keyset_add(&w->replicated, (muster_keyrange){.last = KEYS / 3}),
        MUSTER_OK);
    muster_keyset_seal(&w->replicated);
    w->now_ns = MS;
    for (uint16_t i = 0; i < w->nodes; i++) {
        start(w, i, false);
    }
}

static void destroy(world *w)
{
    for (size_t i = 0; i < w->flying; i++) {
        muster_blob_unref(w->flights[i].send.message.payload);
    }
    for (uint16_t i = 0; i < w->nodes; i++) {
        if (w->at[i].up) {
            end(&w->at[i]);
        }
    }
    muster_keyset_fini(&w->replicated);
    while (w->all != NULL) {
        asked *next = w->all->next;
        free(w->all);
        w->all = next;
    }
}

/* ---- the network --------------------------------------------------------- */

static int64_t travel(world *w)
{
    // Mostly quick, now and then slow.
    return (int64_t)below(w, below(w, 10) == 0 ? 60 * MS : 2 * MS) + 1;
}

static void send_later(world *w, uint16_t from,
                       const muster_protocol_send *send)
{
    MUST(w, w->flying < FLIGHT_MAX && send->to < w->nodes && send->to != from);
    w->flights[w->flying++] = (flight){.at_ns = w->now_ns + travel(w),
                                       .send = *send,
                                       .from = from,
                                       .from_life = w->at[from].life,
                                       .to_life = w->at[send->to].life};
    w->flights[w->flying - 1].send.message.from = from;
}

/* Whatever such a node is told, or does with rows that it had, is not known to
 * the others. */
static void give_up(world *w, process *lost)
{
    lost->given_up = true;
    for (asked *a = w->all; a != NULL; a = a->next) {
        bool open =
            a->at == lost->number && a->life == lost->life && a->over == 0;
        a->orphan = a->orphan || open;
    }
}

static void hear_news(world *w, process *p, const muster_membership_news *news)
{
    MUST(w, news->kind != MUSTER_NEWS_LEADLESS);
    if (p->number != 0) {
        return;
    }
    if (news->kind == MUSTER_NEWS_LOST) {
        process *lost = &w->at[news->node];
        w->losing = true;
        give_up(w, lost);
        w->slack += lost->updates > lost->told ? lost->updates - lost->told : 0;
        w->losses++;
    } else if (news->kind == MUSTER_NEWS_RESUMED && w->losing) {
        w->losing = false;
        w->resumed = ++w->moment;
        w->allowed += news->updates;
        w->unanswered += news->unanswered;
        w->copied += news->copied;
        w->rescued += news->restored;
    }
}

/* A request has ended; no pull has seen halves of two rows. */
static void finish(world *w, asked *a)
{
    a->ended++;
    a->over = ++w->moment;
    MUST(w, a->ended == 1);
    for (uint32_t i = 0; i < a->request.count; i++) {
        const float *seen = a->values + (size_t)a->positions[i] * WIDTH;
        MUST(w, a->request.op != MUSTER_ROWOP_PULL || seen[1] == 2 * seen[0]);
    }
}

/* Take over what a step asked for; a node that was given up ends. */
static void collect(world *w, process *p)
{
    const muster_protocol_send *sends = p->out.sends.data;
    for (size_t i = 0; i < p->out.sends.count; i++) {
        send_later(w, p->number, &sends[i]);
    }
    muster_vec_clear(&p->out.sends);
    // News first: what is asked again may be done in the same step.
    bool over = false;
    const muster_membership_news *news = p->out.news.data;
    for (size_t i = 0; i < p->out.news.count; i++) {
        hear_news(w, p, &news[i]);
        over = over || news[i].kind == MUSTER_NEWS_EXPELLED;
    }
    muster_vec_clear(&p->out.news);
    muster_row_request **done = p->out.done.data;
    for (size_t i = 0; i < p->out.done.count; i++) {
        finish(w, done[i]->context);
    }
    muster_vec_clear(&p->out.done);
    if (over) {
        w->expelled++;
        end(p);
    }
}

static void deliver(world *w, size_t index)
{
    flight f = w->flights[index];
    process *to = &w->at[f.send.to];
    if (to->up && to->stopped_ns > w->now_ns) {
        w->flights[index].at_ns = to->stopped_ns + travel(w);
        return;
    }
    bool again = below(w, 20) == 0;
    if (again) {
        (void)muster_blob_ref(f.send.message.payload);
        w->flights[index].at_ns = w->now_ns + travel(w);
    } else {
        w->flights[index] = w->flights[--w->flying];
    }
    if (to->up && to->life == f.to_life && to->deaf[f.from] < f.from_life) {
        bool tells = f.send.message.kind == MUSTER_ROWMSG_HEARTBEAT ||
                     f.send.message.kind == MUSTER_ROWMSG_BARRIER;
        process *from = &w->at[f.from];
        if (tells && to->number == 0 && from->life == f.from_life &&
            f.send.message.mask > from->telling) {
            from->telling = f.send.message.mask;
            from->told = f.send.message.value;
        }
        MUST(w, muster_protocol_message(to->node, w->now_ns, &f.send.message,
                                        &to->out) == MUSTER_OK);
        collect(w, to);
    }
    muster_blob_unref(f.send.message.payload);
}

static void tick_all(world *w)
{
    for (uint16_t i = 0; i < w->nodes; i++) {
        process *p = &w->at[i];
        if (p->up && p->stopped_ns <= w->now_ns) {
            MUST(w, muster_protocol_tick(p->node, w->now_ns, &p->out) ==
                        MUSTER_OK);
            collect(w, p);
        }
    }
}

/* Let virtual time pass: messages in the order of their arrival, ticks. */
static void pass(world *w, int64_t until_ns)
{
    for (;;) {
        int64_t tick = (w->now_ns / TICK + 1) * TICK;
        size_t first = 0;
        for (size_t i = 1; i < w->flying; i++) {
            first = w->flights[i].at_ns < w->flights[first].at_ns ? i : first;
        }
        bool mail = w->flying > 0 && w->flights[first].at_ns < tick;
        int64_t next = mail ? w->flights[first].at_ns : tick;
        if (next > until_ns) {
            w->now_ns = until_ns;
            return;
        }
        w->now_ns = next > w->now_ns ? next : w->now_ns;
        if (mail) {
            deliver(w, first);
        } else {
            tick_all(w);
        }
    }
}

#endif // MUSTER_SIM_PS_WORLD_TEST_H
