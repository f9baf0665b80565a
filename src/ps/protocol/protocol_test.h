/*
 * ps/protocol/protocol_test.h -- a few parameter-server nodes with real tables,
 * and the messages between them, which are delivered in an order drawn by seed.
 */
#ifndef MUSTER_PS_PROTOCOL_PROTOCOL_TEST_H
#define MUSTER_PS_PROTOCOL_PROTOCOL_TEST_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "ps/protocol/inside.h"

enum { NODES_MAX = 4, FLIGHT_MAX = 4096 };

typedef struct mesh {
    uint16_t nodes;
    uint32_t optimizer; // of the tables
    uint32_t merge;
    muster_rng rng;
    int64_t now_ns;
    muster_ps_table *tables[NODES_MAX];
    muster_protocol *node[NODES_MAX];
    muster_protocol_out out[NODES_MAX];
    muster_protocol_send flight[FLIGHT_MAX];
    size_t flying;
} mesh;

/* The seed under way, and the program that runs it. NULL: none is. */
static struct {
    const char *program;
    uint64_t seed;
} replay;

/* A teardown: after a seed that failed, how to run it alone. */
static inline int tell_replay(void **state)
{
    (void)state;
    if (replay.program != NULL) {
        (void)fprintf(stderr, "replay: MUSTER_SEED=%llu build/dev/%s\n",
                      (unsigned long long)replay.seed, replay.program);
        replay.program = NULL;
    }
    return 0;
}

/* An assertion of the library has failed. */
static inline void tell_replay_at_abort(int number)
{
    (void)number;
    (void)tell_replay(NULL);
}

static inline void replay_begin(const char *program, uint64_t seed)
{
    replay.program = program;
    replay.seed = seed;
    (void)signal(SIGABRT, tell_replay_at_abort);
}

static inline void replay_end(void)
{
    replay.program = NULL;
}

/* Seeds from *first_out on: `count`, or the one that MUSTER_SEED names. Returns
 * the end. */
static inline uint64_t seeds_to_run(uint64_t count, uint64_t *first_out)
{
    const char *only = getenv("MUSTER_SEED");
    *first_out = only == NULL ? 0 : strtoull(only, NULL, 10);
    return only == NULL ? count : *first_out + 1;
}

static inline uint64_t below(mesh *m, uint64_t bound)
{
    return muster_rng_below(&m->rng, bound);
}

static inline muster_blob *make_payload(void *context, size_t bytes)
{
    (void)context;
    return muster_blob_create(bytes);
}

/* Start m->nodes nodes with a table each; `like` has the other options. */
static inline void mesh_start(mesh *m, uint32_t keys, uint32_t width,
                              muster_protocol_opts like)
{
    for (uint16_t i = 0; i < m->nodes; i++) {
        muster_ps_table_opts shape = MUSTER_PS_TABLE_OPTS_INIT;
        shape.keys = keys;
        shape.width = width;
        shape.optimizer = m->optimizer;
        shape.merge = m->merge;
        muster_ps_table_share share = {.node = i, .nodes = m->nodes, .seed = 1};
        assert_int_equal(muster_ps_table_create(&shape, &share, &m->tables[i]),
                         MUSTER_OK);
        like.node = i;
        like.nodes = m->nodes;
        like.tables = &m->tables[i];
        like.table_count = 1;
        like.sync_ns = 20000000;
        like.hot_factor = MUSTER_HEAVY_FACTOR;
        like.make = make_payload;
        assert_int_equal(muster_protocol_create(&like, &m->node[i]), MUSTER_OK);
        m->out[i] = muster_protocol_out_make();
    }
}

static inline void mesh_end(mesh *m)
{
    for (size_t i = 0; i < m->flying; i++) {
        muster_blob_unref(m->flight[i].message.payload);
    }
    for (uint16_t i = 0; i < m->nodes; i++) {
        muster_protocol_free(m->node[i]);
        muster_protocol_out_fini(&m->out[i]);
        muster_ps_table_free(m->tables[i]);
    }
}

/* Rows of one float, managed by themselves. */
static inline mesh *mesh_make(uint16_t nodes, uint32_t keys, bool in_turns)
{
    mesh *m = muster_mem_array(1, sizeof(*m));
    assert_non_null(m);
    m->rng = muster_rng_make(1, 1);
    m->nodes = nodes;
    mesh_start(m, keys, 1,
               (muster_protocol_opts){.manage = MUSTER_PS_AUTO,
                                      .contest_ns = 50000000});
    for (uint16_t i = 0; i < m->nodes; i++) {
        m->tables[i]->in_turns = in_turns;
    }
    return m;
}

static inline void mesh_free(mesh *m)
{
    mesh_end(m);
    muster_mem_free(m);
}

static inline muster_word_state state_at(const mesh *m, uint16_t at,
                                         uint32_t key)
{
    return muster_word_state_of(atomic_load(&m->tables[at]->words[key]));
}

/* A row is ARRIVING exactly while the node has a record of it; the word has the
 * index of the record. */
static inline void check_arrivals(const mesh *m, uint16_t at)
{
    const muster_protocol *node = m->node[at];
    const muster_ps_table *rows = m->tables[at];
    uint32_t arriving = 0;
    for (uint32_t key = 0; key < rows->keys; key++) {
        uint64_t word = atomic_load(&rows->words[key]);
        if (muster_word_state_of(word) == MUSTER_ROW_ARRIVING) {
            const muster_arriving_row *all = node->arriving.rows.data;
            uint32_t index = muster_word_slot(word);
            arriving++;
            assert_true(index < node->arriving.rows.count);
            assert_true(all[index].ref == muster_rowref_make(0, key));
        }
    }
    assert_int_equal(arriving, node->arriving.count);
}

/* Take over the results of a step. The context of a request is an int that
 * counts how often it has ended. */
static inline void collect(mesh *m, uint16_t from)
{
    check_arrivals(m, from);
    muster_protocol_out *out = &m->out[from];
    const muster_protocol_send *sends = out->sends.data;
    for (size_t i = 0; i < out->sends.count; i++) {
        assert_true(m->flying < FLIGHT_MAX);
        assert_true(sends[i].to != from && sends[i].to < m->nodes);
        m->flight[m->flying++] = sends[i];
    }
    muster_vec_clear(&out->sends);
    muster_row_request **done = out->done.data;
    for (size_t i = 0; i < out->done.count; i++) {
        int *ended = done[i]->context;
        ++*ended;
        assert_int_equal(*ended, 1);
    }
    muster_vec_clear(&out->done);
}

/* One row that a node asks for, and whether that has ended. */
typedef struct asked_row {
    uint32_t key;
    uint32_t position;
    float value;
    int ended;
    muster_row_request request;
} asked_row;

/* `row` stays the protocol's until it has ended. */
static inline void ask_row(mesh *m, uint16_t at, muster_row_op op,
                           asked_row *row)
{
    row->request = (muster_row_request){.op = op,
                                        .keys = &row->key,
                                        .values = &row->value,
                                        .positions = &row->position,
                                        .count = 1,
                                        .context = &row->ended};
    assert_int_equal(muster_protocol_request(m->node[at], m->now_ns,
                                             &row->request, &m->out[at]),
                     MUSTER_OK);
    collect(m, at);
}

/* Deliver any message under way; `twice`: it will be delivered again. */
static inline void deliver(mesh *m, bool twice)
{
    if (m->flying == 0) {
        return;
    }
    size_t at = below(m, m->flying);
    muster_protocol_send send = m->flight[at];
    if (twice) {
        (void)muster_blob_ref(send.message.payload);
    } else {
        m->flight[at] = m->flight[--m->flying];
    }
    assert_int_equal(muster_protocol_message(m->node[send.to], m->now_ns,
                                             &send.message, &m->out[send.to]),
                     MUSTER_OK);
    muster_blob_unref(send.message.payload);
    collect(m, send.to);
}

static inline void tick_all(mesh *m, int64_t ns)
{
    m->now_ns += ns;
    for (uint16_t i = 0; i < m->nodes; i++) {
        assert_int_equal(
            muster_protocol_tick(m->node[i], m->now_ns, &m->out[i]), MUSTER_OK);
        collect(m, i);
    }
}

static inline bool at_rest(const mesh *m)
{
    bool idle = m->flying == 0;
    for (uint16_t i = 0; i < m->nodes; i++) {
        idle = idle && muster_protocol_idle(m->node[i]);
    }
    return idle;
}

static inline void come_to_rest(mesh *m)
{
    for (int rounds = 0; !at_rest(m); rounds++) {
        assert_true(rounds < 20000);
        if (m->flying > 0) {
            deliver(m, false);
        } else {
            tick_all(m, 10000000);
        }
    }
}

static inline void localize(mesh *m, uint16_t at,
                            const muster_localize_request *request)
{
    assert_int_equal(
        muster_protocol_localize(m->node[at], m->now_ns, request, &m->out[at]),
        MUSTER_OK);
    collect(m, at);
}

static inline void intend(mesh *m, uint16_t at, uint32_t key, bool begins)
{
    muster_localize_request request = {.keys = &key, .count = 1};
    assert_int_equal(muster_protocol_intend(m->node[at], m->now_ns, &request,
                                            begins, &m->out[at]),
                     MUSTER_OK);
    collect(m, at);
}

#endif // MUSTER_PS_PROTOCOL_PROTOCOL_TEST_H
