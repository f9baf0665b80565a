/*
 * sim/ps_history_test.h -- a history of the parameter server in a simulated
 * world: what workers do, which faults happen, and the books that checks need.
 *
 * Some rows are only SET and pulled, the others are pushed to and pulled. The
 * second weight of a row is twice the first, so that a row put together from
 * parts of two shows.
 */
#ifndef MUSTER_SIM_PS_HISTORY_TEST_H
#define MUSTER_SIM_PS_HISTORY_TEST_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/ps_world.h"

enum { NODES_MAX = MUSTER_PS_NODES_MAX, KEYS = 17, WIDTH = 2 };
enum { FEW_NODES = 5 }; // most histories have two to so many
enum { REQUEST_KEYS = 3, INTENTS_MAX = 4 };
#define MS            1000000ll
#define HEARTBEAT_NS  (2000 * MS)
#define TICK_NS       (20 * MS)
#define REST_LIMIT_NS (60000 * MS) // by then the world has come to rest

/* A request of a worker. `begun` and `ended_at` are moments of the history. */
typedef struct issued {
    muster_row_request request;
    uint32_t keys[REQUEST_KEYS];
    uint32_t positions[REQUEST_KEYS];
    float values[REQUEST_KEYS * WIDTH];
    uint16_t node;
    uint32_t incarnation;
    int ends; // how often it has ended
    uint64_t begun;
    uint64_t ended_at; // 0: not yet
    bool orphan;       // had not ended when its node was lost
    struct issued *next;
} issued;

/* What the history knows of a node's present incarnation. */
typedef struct node_book {
    bool lost;         // for the others; the node may not know yet
    uint64_t updates;  // since the checkpoint
    uint64_t reported; // of these, in the last report that the lead received
    uint64_t report;   // number of that report
    uint64_t barriers;
    uint32_t intended[INTENTS_MAX]; // keys
    uint32_t intents;
} node_book;

typedef struct history {
    muster_ps_world *world;
    uint64_t seed;
    uint16_t nodes;
    muster_ps_manage manage;
    muster_keyset replicated; // STATIC
    node_book at[NODES_MAX];
    issued *all;
    uint64_t moment; // numbers the events that matter for SETs
    uint64_t sets;   // made; each sets another value
    // By key:
    uint64_t made[KEYS];         // pushes, from the beginning
    float checkpoint[KEYS];      // first weight of the row
    uint64_t based[KEYS];        // moment when the row last equalled it
    bool restored[KEYS];         // since the checkpoint
    uint64_t base_missing[KEYS]; // pushes missing in the checkpoint
    // Of losses:
    bool losing;         // the lead has lost a node and not yet resumed
    uint64_t resumed;    // moment when the lead last resumed
    uint64_t allowed;    // missing updates that were reported
    uint64_t unanswered; // of these, since the checkpoint
    uint64_t orphans;    // not acknowledged to a node that died since
    uint64_t unreported; // made by lost nodes after their last report
    uint64_t losses, expelled, joins, copied, rescued, postponed;
} history;

/* ---- failing seeds ------------------------------------------------------- */

static volatile sig_atomic_t seed_under_way; // for on_abort()

static void print_replay(uint64_t seed)
{
    (void)fprintf(stderr,
                  "replay: MUSTER_SEED=%llu build/dev/test_sim_ps_mesh\n",
                  (unsigned long long)seed);
}

/* An assertion of the library has failed. */
static void on_abort(int number)
{
    (void)number;
    print_replay((uint64_t)seed_under_way);
}

#define MUST(h, condition)                             \
    do {                                               \
        if (!(condition)) {                            \
            (void)fprintf(stderr, "%s\n", #condition); \
            print_replay((h)->seed);                   \
            assert_true(condition);                    \
        }                                              \
    } while (0)

/* ---- hooks --------------------------------------------------------------- */

static uint64_t below(history *h, uint64_t bound)
{
    return muster_ps_world_below(h->world, bound);
}

static muster_ps_process *process(const history *h, uint16_t node)
{
    return muster_ps_world_process(h->world, node);
}

static bool is_up(const history *h, uint16_t node)
{
    return process(h, node)->up;
}

static void pass(history *h, int64_t for_ns)
{
    muster_ps_world_pass(h->world, for_ns);
}

static bool is_set(uint32_t key)
{
    return key % 6 < 2;
}

static bool is_update(muster_row_op op)
{
    return op == MUSTER_ROWOP_PUSH || op == MUSTER_ROWOP_GRADIENT;
}

/* A host that takes its time for the first row that it has to restore. */
static bool prepared(void *context, uint16_t node)
{
    history *h = context;
    (void)node;
    h->postponed++;
    return below(h, 8) == 0;
}

static bool restore(void *context, uint16_t node, uint32_t key, float *row)
{
    history *h = context;
    if (!h->at[node].lost) { // else the others have another row
        h->restored[key] = true;
        h->based[key] = ++h->moment;
    }
    row[0] = h->checkpoint[key];
    row[1] = 2 * h->checkpoint[key];
    return true;
}

static uint64_t updates(void *context, uint16_t node)
{
    const history *h = context;
    return h->at[node].updates;
}

/* Which report of updates has the lead received last? */
static void on_delivery(void *context, const muster_ps_delivery *delivery)
{
    history *h = context;
    const muster_rowmsg *message = delivery->message;
    bool reports = message->kind == MUSTER_ROWMSG_HEARTBEAT ||
                   message->kind == MUSTER_ROWMSG_BARRIER;
    node_book *from = &h->at[delivery->from];
    if (reports && delivery->to == 0 && delivery->from_current &&
        message->mask > from->report) {
        from->report = message->mask;
        from->reported = message->value;
    }
}

/* From now on the others do not know what this node does. */
static void lose(history *h, uint16_t node)
{
    const muster_ps_process *lost = process(h, node);
    h->at[node].lost = true;
    for (issued *a = h->all; a != NULL; a = a->next) {
        bool open = a->node == node && a->incarnation == lost->incarnation &&
                    a->ended_at == 0;
        a->orphan = a->orphan || open;
    }
}

static void on_news(void *context, uint16_t node,
                    const muster_membership_news *news)
{
    history *h = context;
    MUST(h, news->kind != MUSTER_NEWS_LEADLESS);
    h->expelled += news->kind == MUSTER_NEWS_EXPELLED;
    if (node != 0) {
        return;
    }
    if (news->kind == MUSTER_NEWS_LOST) {
        const node_book *lost = &h->at[news->node];
        h->losing = true;
        lose(h, news->node);
        h->unreported +=
            lost->updates > lost->reported ? lost->updates - lost->reported : 0;
        h->losses++;
    } else if (news->kind == MUSTER_NEWS_RESUMED && h->losing) {
        h->losing = false;
        h->resumed = ++h->moment;
        h->allowed += news->updates;
        h->unanswered += news->unanswered;
        h->copied += news->copied;
        h->rescued += news->restored;
    }
}

/* A request has ended. No pull has seen parts of two rows. */
static void finish(history *h, issued *a)
{
    a->ends++;
    a->ended_at = ++h->moment;
    MUST(h, a->ends == 1);
    for (uint32_t i = 0; i < a->request.count; i++) {
        const float *seen = a->values + (size_t)a->positions[i] * WIDTH;
        MUST(h, a->request.op != MUSTER_ROWOP_PULL || seen[1] == 2 * seen[0]);
    }
}

static void on_done(void *context, uint16_t node, muster_row_request *request)
{
    (void)node;
    finish(context, request->context);
}

static void on_end(void *context, uint16_t node)
{
    history *h = context;
    const muster_ps_process *ended = process(h, node);
    for (const issued *a = h->all; a != NULL; a = a->next) {
        bool open = a->node == node && a->incarnation == ended->incarnation &&
                    a->ends == 0;
        h->orphans += open && is_update(a->request.op) ? a->request.count : 0;
    }
}

/* ---- begin and end ------------------------------------------------------- */

static void start_node(history *h, uint16_t node, bool joins)
{
    h->at[node] = (node_book){.barriers = h->at[node].barriers};
    muster_ps_world_start(h->world, node, joins);
}

static muster_ps_world_opts world_opts(history *h)
{
    muster_ps_table_opts table = MUSTER_PS_TABLE_OPTS_INIT;
    table.keys = KEYS;
    table.width = WIDTH;
    table.optimizer = MUSTER_PS_SGD;
    table.rate = 1;
    return (muster_ps_world_opts){.seed = h->seed,
                                  .table = table,
                                  .protocol = {.replicated = &h->replicated,
                                               .sync_ns = 20 * MS,
                                               .contest_ns = 50 * MS,
                                               .hot_factor = 100,
                                               .heartbeat_ns = HEARTBEAT_NS},
                                  .duplicate_one_in = 20,
                                  .tick_ns = TICK_NS,
                                  .hooks = {.context = h,
                                            .prepared = prepared,
                                            .restore = restore,
                                            .updates = updates,
                                            .on_delivery = on_delivery,
                                            .on_news = on_news,
                                            .on_done = on_done,
                                            .on_end = on_end}};
}

/* `nodes` 0: a few. */
static void begin_history(history *h, uint64_t seed, uint16_t nodes)
{
    memset(h, 0, sizeof(*h));
    h->seed = seed;
    seed_under_way = (sig_atomic_t)seed;
    h->replicated = muster_keyset_make();
    assert_int_equal(
        muster_keyset_add(&h->replicated, (muster_keyrange){.last = KEYS / 3}),
        MUSTER_OK);
    muster_keyset_seal(&h->replicated);
    muster_ps_world_opts opts = world_opts(h);
    assert_int_equal(muster_ps_world_create(&opts, &h->world), MUSTER_OK);
    uint16_t few = (uint16_t)(2 + below(h, FEW_NODES - 1));
    h->nodes = nodes > 0 ? nodes : few;
    h->manage = (muster_ps_manage)below(h, MUSTER_PS_STATIC + 1);
    if (nodes > 0) { // replicas of so many never rest at the same time
        h->manage = seed % 2 == 0 ? MUSTER_PS_RELOCATE : MUSTER_PS_CLASSIC;
    }
    // STATIC synchronises its replicas all the time: with few entries in a
    // message it would not come to rest.
    uint32_t entries =
        h->manage == MUSTER_PS_STATIC ? 0 : (uint32_t)below(h, 4);
    muster_ps_world_set_nodes(h->world, h->nodes, h->manage, entries);
    for (uint16_t i = 0; i < h->nodes; i++) {
        start_node(h, i, false);
    }
}

static void end_history(history *h)
{
    muster_ps_world_free(h->world);
    muster_keyset_fini(&h->replicated);
    while (h->all != NULL) {
        issued *next = h->all->next;
        free(h->all);
        h->all = next;
    }
}

/* ---- workers ------------------------------------------------------------- */

static uint16_t any_node(history *h)
{
    uint16_t node;
    do {
        node = (uint16_t)below(h, h->nodes);
    } while (!is_up(h, node));
    return node;
}

static issued *new_request(history *h, uint16_t node, muster_row_op op)
{
    issued *a = calloc(1, sizeof(*a));
    assert_non_null(a);
    a->next = h->all;
    h->all = a;
    a->node = node;
    a->incarnation = process(h, node)->incarnation;
    a->request = (muster_row_request){.op = op,
                                      .keys = a->keys,
                                      .values = a->values,
                                      .positions = a->positions,
                                      .context = a};
    a->begun = ++h->moment;
    a->orphan = h->at[node].lost;
    return a;
}

/* Apply entry i in place if the row is here; else it joins the request. */
static void try_here(history *h, issued *a, uint32_t i)
{
    float values[WIDTH];
    memcpy(values, &a->values[WIDTH * i], sizeof(values));
    if (!muster_ps_table_try(process(h, a->node)->table, a->request.op,
                             a->keys[i], values)) {
        a->positions[a->request.count++] = i;
    }
}

static void submit(history *h, issued *a)
{
    if (a->request.count == 0) {
        finish(h, a);
        return;
    }
    muster_ps_world_request(h->world, a->node, &a->request);
}

static void push_some(history *h, uint16_t node)
{
    static const muster_row_op ops[4] = {MUSTER_ROWOP_PULL, MUSTER_ROWOP_PUSH,
                                         MUSTER_ROWOP_PUSH,
                                         MUSTER_ROWOP_GRADIENT};
    issued *a = new_request(h, node, ops[below(h, 4)]);
    bool pull = a->request.op == MUSTER_ROWOP_PULL;
    // One step against a gradient, at rate 1, adds as much as a push.
    float one = a->request.op == MUSTER_ROWOP_GRADIENT ? -1 : 1;
    for (uint32_t i = 0; i < REQUEST_KEYS; i++) {
        do {
            a->keys[i] = (uint32_t)below(h, KEYS);
        } while (!pull && is_set(a->keys[i]));
        a->values[2 * i] = one;
        a->values[2 * i + 1] = 2 * one;
        h->made[a->keys[i]] += !pull;
        h->at[node].updates += !pull;
        try_here(h, a, i);
    }
    submit(h, a);
}

/* SET one row to a value that no other SET has. */
static issued *set_row(history *h, uint16_t node, uint32_t key)
{
    issued *a = new_request(h, node, MUSTER_ROWOP_SET);
    a->keys[0] = key;
    a->values[0] = (float)++h->sets;
    a->values[1] = 2 * a->values[0];
    try_here(h, a, 0);
    submit(h, a);
    return a;
}

static void set_some(history *h, uint16_t node)
{
    uint32_t key;
    do {
        key = (uint32_t)below(h, KEYS);
    } while (!is_set(key));
    (void)set_row(h, node, key);
}

static void localize_some(history *h, uint16_t node)
{
    uint32_t keys[REQUEST_KEYS];
    for (uint32_t i = 0; i < REQUEST_KEYS; i++) {
        keys[i] = (uint32_t)below(h, KEYS);
    }
    muster_localize_request request = {
        .keys = keys, .count = REQUEST_KEYS, .copy = below(h, 4) == 0};
    muster_ps_world_localize(h->world, node, &request);
}

/* An intent of the node's workers begins or ends. */
static void intend_some(history *h, uint16_t node)
{
    node_book *book = &h->at[node];
    bool begins =
        book->intents == 0 || (book->intents < INTENTS_MAX && below(h, 2) == 0);
    uint32_t key =
        begins ? (uint32_t)below(h, KEYS) : book->intended[--book->intents];
    if (begins) {
        book->intended[book->intents++] = key;
    }
    muster_localize_request request = {.keys = &key, .count = 1};
    muster_ps_world_intend(h->world, node, &request, begins);
}

/* ---- faults and rest ----------------------------------------------------- */

/* A node is killed or stopped; the lead is only stopped, and not for as long as
 * a heartbeat may be missing. */
static void hurt(history *h)
{
    uint16_t node = any_node(h);
    int64_t now_ns = muster_ps_world_now(h->world);
    if (node == 0) {
        muster_ps_world_stop(h->world, node,
                             now_ns + (int64_t)below(h, 900 * MS));
    } else if (below(h, 2) == 0) {
        muster_ps_world_kill(h->world, node);
    } else {
        muster_ps_world_stop(h->world, node,
                             now_ns + (int64_t)below(h, 5000 * MS));
    }
}

static void come_to_rest(history *h)
{
    int64_t end_ns = muster_ps_world_now(h->world) + REST_LIMIT_NS;
    while (h->losing || !muster_ps_world_at_rest(h->world)) {
        MUST(h, muster_ps_world_now(h->world) < end_ns);
        pass(h, 5 * MS);
    }
}

/* A barrier of all nodes; `hurting`: faults may happen meanwhile. */
static void meet_until(history *h, muster_ps_until until, bool hurting)
{
    for (uint16_t i = 0; i < h->nodes; i++) {
        while (is_up(h, i) && !muster_ps_world_runs(h->world, i)) {
            pass(h, 5 * MS);
        }
        if (is_up(h, i)) {
            h->at[i].barriers++;
            muster_ps_world_barrier(h->world, i, until);
        }
        pass(h, (int64_t)below(h, 3 * MS));
        if (hurting && below(h, h->nodes) == 0) {
            hurt(h);
        }
    }
    come_to_rest(h);
    for (uint16_t i = 0; i < h->nodes; i++) {
        MUST(h,
             !is_up(h, i) || process(h, i)->out.released == h->at[i].barriers);
    }
}

/* Barriers of which the last one refreshes all replicas. */
static void meet(history *h, bool hurting)
{
    uint64_t kind = below(h, 4);
    if (kind == MUSTER_PS_STORED || kind == MUSTER_PS_MET) {
        meet_until(h, (muster_ps_until)kind, hurting);
    }
    meet_until(h, MUSTER_PS_SEEN, hurting);
}

/* The row at rest: one owner, which its home knows, and equal replicas. */
static void see_row(history *h, uint32_t key, float *row)
{
    int owners = 0;
    float seen[WIDTH] = {0};
    for (uint16_t i = 0; i < h->nodes; i++) {
        muster_ps_process *p = process(h, i);
        if (!p->up) {
            continue;
        }
        uint64_t word = atomic_load(&p->table->words[key]);
        if (muster_word_state_of(word) == MUSTER_ROW_OWNED) {
            owners++;
            uint16_t home = muster_protocol_home(p->protocol, key);
            MUST(h, is_up(h, home));
            MUST(h, muster_protocol_owner(process(h, home)->protocol, 0, key) ==
                        i);
            MUST(h, muster_ps_table_try(p->table, MUSTER_ROWOP_PULL, key, row));
        }
    }
    MUST(h, owners == 1);
    for (uint16_t i = 0; i < h->nodes; i++) {
        if (is_up(h, i) && muster_ps_table_try(process(h, i)->table,
                                               MUSTER_ROWOP_PULL, key, seen)) {
            MUST(h, memcmp(seen, row, sizeof(seen)) == 0);
        }
    }
}

#endif // MUSTER_SIM_PS_HISTORY_TEST_H
