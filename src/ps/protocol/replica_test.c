/*
 * replica_test.c -- when replicas are made, how often they are synchronised and
 * how often they may be written.
 */
#include "ps/protocol/protocol_test.h"

enum { KEYS = 4, SYNC_MS = 20 };

static mesh *build(bool in_turns)
{
    return mesh_make(2, KEYS, in_turns);
}

static void localize_one(mesh *m, uint16_t at, uint32_t key, bool copy)
{
    localize(
        m, at,
        &(muster_localize_request){.keys = &key, .count = 1, .copy = copy});
    come_to_rest(m);
}

/* Node 0 owns key 0 at first; both nodes request it at the same time. */
static void
a_contested_row_is_replicated_unless_it_is_used_in_turns(void **state)
{
    (void)state;
    for (int in_turns = 0; in_turns < 2; in_turns++) {
        mesh *m = build(in_turns != 0);
        localize_one(m, 1, 0, false);
        assert_int_equal(state_at(m, 1, 0), MUSTER_ROW_OWNED);
        localize_one(m, 0, 0, false);
        assert_int_equal(state_at(m, 0, 0),
                         in_turns ? MUSTER_ROW_OWNED : MUSTER_ROW_REPLICA);
        assert_int_equal(state_at(m, 1, 0),
                         in_turns ? MUSTER_ROW_ABSENT : MUSTER_ROW_OWNED);
        // A node that would accept a replica gets the row as well.
        localize_one(m, 1, 2, true);
        assert_int_equal(state_at(m, 1, 2),
                         in_turns ? MUSTER_ROW_OWNED : MUSTER_ROW_REPLICA);
        mesh_free(m);
    }
}

/* Run until node 1 synchronises its replicas, those that were changed and some
 * of the others; returns its next period. */
static int64_t synchronise(mesh *m)
{
    tick_all(m, muster_protocol_due_ns(m->node[1]) - m->now_ns);
    while (m->flying > 0) {
        deliver(m, false);
    }
    return muster_protocol_due_ns(m->node[1]) - m->now_ns;
}

/* Run until node 1 has synchronised its replica, though it was not changed. */
static void refresh(mesh *m)
{
    uint64_t before = muster_protocol_count(m->node[1]).syncs;
    while (muster_protocol_count(m->node[1]).syncs == before) {
        (void)synchronise(m);
    }
}

static void
replicas_that_do_not_change_are_synchronised_less_often(void **state)
{
    (void)state;
    mesh *m = build(false);
    float one = 1;
    localize_one(m, 1, 0, true);
    assert_int_equal(state_at(m, 1, 0), MUSTER_ROW_REPLICA);
    for (int round = 0; round < 2; round++) {
        assert_true(
            muster_ps_table_try(m->tables[1], MUSTER_ROWOP_PUSH, 0, &one));
        int64_t min = synchronise(m);
        int64_t wait = min;
        assert_true(4 * min <= SYNC_MS * 1000000ll);
        for (int i = 0; i < 8; i++) {
            int64_t next = synchronise(m);
            int64_t max = SYNC_MS * 1000000ll;
            assert_int_equal(next, 2 * wait < max ? 2 * wait : max);
            wait = next;
        }
        assert_int_equal(wait, SYNC_MS * 1000000ll);
    }
    float seen = 0;
    assert_true(muster_ps_table_try(m->tables[0], MUSTER_ROWOP_PULL, 0, &seen));
    assert_true(seen == 2);
    mesh_free(m);
}

/* Run until node 1 has synchronised several times without a change; returns its
 * period. */
static int64_t slow_down(mesh *m)
{
    int64_t wait = 0;
    for (int i = 0; i < 8 && 4 * wait < SYNC_MS * 1000000ll; i++) {
        wait = synchronise(m);
    }
    assert_true(wait > 4000000 && 2 * wait < SYNC_MS * 1000000ll);
    m->now_ns += 1000000;
    return wait;
}

/* Node 1 synchronises at the time planned, and then half as often. */
static void goes_on(mesh *m, int64_t wait)
{
    assert_int_equal(muster_protocol_due_ns(m->node[1]) - m->now_ns,
                     wait - 1000000);
    assert_int_equal(synchronise(m), 2 * wait);
}

/* The intent ends for a row that is not a replica, or has more intents. */
static void an_ended_intent_does_not_change_the_period(void **state)
{
    (void)state;
    enum { OWN = 1, REPLICATED = 0 };
    static const uint32_t keys[2] = {OWN, REPLICATED};
    for (int i = 0; i < 2; i++) {
        mesh *m = build(false);
        intend(m, 0, REPLICATED, true);
        intend(m, 1, REPLICATED, true);
        intend(m, 1, REPLICATED, true);
        intend(m, 1, OWN, true);
        come_to_rest(m);
        assert_int_equal(state_at(m, 1, REPLICATED), MUSTER_ROW_REPLICA);
        assert_int_equal(state_at(m, 1, OWN), MUSTER_ROW_OWNED);
        int64_t wait = slow_down(m);
        intend(m, 1, keys[i], false);
        come_to_rest(m);
        goes_on(m, wait);
        mesh_free(m);
    }
}

/* An unwanted replica is dropped soon, even when none was changed for long. */
static void a_replica_is_dropped_soon_after_its_last_intent(void **state)
{
    (void)state;
    mesh *m = build(false);
    intend(m, 0, 2, true);
    intend(m, 1, 2, true);
    come_to_rest(m);
    assert_int_equal(state_at(m, 1, 2), MUSTER_ROW_REPLICA);
    int64_t wait = slow_down(m);
    intend(m, 1, 2, false);
    come_to_rest(m);
    int64_t soon = muster_protocol_due_ns(m->node[1]) - m->now_ns;
    assert_true(4 * soon <= wait);
    tick_all(m, soon);
    assert_int_equal(state_at(m, 1, 2), MUSTER_ROW_ABSENT);
    mesh_free(m);
}

/* Ten seconds without a change: a replica that was only localized is dropped.
 */
static void a_replica_stays_as_long_as_it_is_intended(void **state)
{
    (void)state;
    enum { INTENDED = 0, WISHED = 2 };
    mesh *m = build(false);
    localize_one(m, 1, WISHED, true);
    intend(m, 0, INTENDED, true);
    intend(m, 1, INTENDED, true);
    come_to_rest(m);
    int64_t end = m->now_ns + 10000000000ll;
    while (m->now_ns < end) {
        tick_all(m, muster_protocol_due_ns(m->node[1]) - m->now_ns);
        come_to_rest(m);
    }
    assert_int_equal(state_at(m, 1, INTENDED), MUSTER_ROW_REPLICA);
    assert_int_equal(state_at(m, 1, WISHED), MUSTER_ROW_ABSENT);
    mesh_free(m);
}

/* The refresh of a barrier does not count as a change, nor as a synchronisation
 * without one. */
static void a_barrier_does_not_change_the_period(void **state)
{
    (void)state;
    mesh *m = build(false);
    localize_one(m, 1, 0, true);
    int64_t wait = slow_down(m);
    for (uint16_t i = 0; i < m->nodes; i++) {
        assert_int_equal(muster_protocol_barrier(m->node[i], m->now_ns,
                                                 MUSTER_PS_SEEN, &m->out[i]),
                         MUSTER_OK);
        collect(m, i);
    }
    come_to_rest(m);
    assert_int_equal(m->out[1].released, 1);
    goes_on(m, wait);
    mesh_free(m);
}

static void push(mesh *m, uint16_t at, float what, uint32_t times)
{
    for (uint32_t i = 0; i < times; i++) {
        assert_true(
            muster_ps_table_try(m->tables[at], MUSTER_ROWOP_PUSH, 0, &what));
    }
}

static uint32_t budget_at(const mesh *m, uint16_t at)
{
    return muster_word_budget(atomic_load(&m->tables[at]->words[0]));
}

/* Node 1 writes its replica `times` times before each synchronisation, or as
 * often as it may; returns the budget then. */
static uint32_t write_for_long(mesh *m, uint32_t times)
{
    for (int i = 0; i < 60; i++) {
        push(m, 1, 1, budget_at(m, 1) < times ? budget_at(m, 1) : times);
        (void)synchronise(m);
    }
    return budget_at(m, 1);
}

/* The budget begins small and grows to the usual one. Node 1 writes its replica
 * as often as it may: it grows further. Then hardly ever: it returns. */
static void a_budget_is_as_large_as_it_is_used(void **state)
{
    (void)state;
    mesh *m = build(false);
    localize_one(m, 1, 0, true);
    assert_int_equal(budget_at(m, 1), 8);
    assert_true(muster_word_asks(atomic_load(&m->tables[1]->words[0])));
    uint32_t usual = write_for_long(m, 4);
    assert_true(usual > 2 && usual < 100);
    assert_true(write_for_long(m, 1000) > 8 * usual);
    assert_int_equal(write_for_long(m, 1), usual);
    mesh_free(m);
}

/* Node 0 moves the row, and each write of node 1 undoes a tenth of that: two
 * nodes that wrote more than a few times each would go too far. */
static void a_replica_that_undoes_others_may_be_written_less(void **state)
{
    (void)state;
    mesh *m = build(false);
    localize_one(m, 1, 0, true);
    float at = 0;
    m->node[1]->replicas.sweep.pace = 8; // budgets may be large
    for (int i = 0; i < 60; i++) {
        push(m, 0, i % 2 == 0 ? 1 : -1, 1);
        refresh(m); // node 1 sees it
        uint32_t writes = budget_at(m, 1) < 8 ? budget_at(m, 1) : 8;
        at += i % 2 == 0 ? 1 : -1;
        push(m, 1, -0.1f * at, writes);
        at -= 0.1f * at * (float)writes;
        (void)synchronise(m);
        m->node[1]->replicas.sweep.pace = 8;
    }
    assert_true(budget_at(m, 1) <= 12);
    mesh_free(m);
}

/* The same movements, but node 1 writes before it sees what node 0 did: these
 * writes undo nothing. */
static void writes_before_the_owners_row_comes_undo_nothing(void **state)
{
    (void)state;
    mesh *m = build(false);
    localize_one(m, 1, 0, true);
    for (int i = 0; i < 60; i++) {
        float step = i % 2 == 0 ? 1 : -1;
        push(m, 0, step, 1);
        push(m, 1, 1e-6f, 1);
        tick_all(m, muster_protocol_due_ns(m->node[1]) - m->now_ns);
        assert_true(m->flying > 0);
        push(m, 1, -step, 1);
        while (m->flying > 0) {
            deliver(m, false);
        }
    }
    assert_true(budget_at(m, 1) > 10);
    mesh_free(m);
}

/* A worker that has used much of the budget asks: the owner's row comes with
 * the next ticks, and the budget is full again. */
static void a_replica_is_synchronised_when_a_worker_asks(void **state)
{
    (void)state;
    mesh *m = build(false);
    localize_one(m, 1, 0, true);
    uint32_t before = write_for_long(m, 4);
    (void)slow_down(m);
    uint32_t writes = 0;
    while (!muster_word_asks(atomic_load(&m->tables[1]->words[0]))) {
        push(m, 1, 1e-3f, 1);
        writes++;
    }
    assert_true(writes > 0 && writes <= before / 3);
    uint64_t syncs = muster_protocol_count(m->node[1]).syncs;
    muster_rowref ref = muster_rowref_make(0, 0);
    muster_protocol_ask_sync(m->node[1], m->now_ns, ref, false);
    muster_protocol_ask_sync(m->node[1], m->now_ns, ref, true); // counts once
    tick_all(m, muster_protocol_due_ns(m->node[1]) - m->now_ns);
    come_to_rest(m);
    assert_int_equal(muster_protocol_count(m->node[1]).syncs, syncs + 1);
    assert_true(budget_at(m, 1) >= before);
    mesh_free(m);
}

/* Of two replicas one is asked for every second; after ten it is still here. */
static void a_replica_that_is_asked_for_is_not_dropped(void **state)
{
    (void)state;
    enum { ASKED = 0, FORGOTTEN = 2 };
    mesh *m = build(false);
    localize_one(m, 1, ASKED, true);
    localize_one(m, 1, FORGOTTEN, true);
    for (int second = 0; second < 10; second++) {
        int64_t end = m->now_ns + 1000000000ll;
        localize_one(m, 1, ASKED, true);
        while (m->now_ns < end) {
            tick_all(m, muster_protocol_due_ns(m->node[1]) - m->now_ns);
            come_to_rest(m);
        }
    }
    assert_int_equal(state_at(m, 1, ASKED), MUSTER_ROW_REPLICA);
    assert_int_equal(state_at(m, 1, FORGOTTEN), MUSTER_ROW_ABSENT);
    mesh_free(m);
}

/* SYNC has the index of the replica in the list; the index has changed when the
 * answer comes. */
static void a_replica_is_found_though_the_list_has_changed(void **state)
{
    (void)state;
    enum { GOES = 0, STAYS = 2 };
    mesh *m = build(false);
    intend(m, 0, GOES, true);
    intend(m, 1, GOES, true);
    come_to_rest(m);
    localize_one(m, 1, STAYS, true);
    assert_int_equal(state_at(m, 1, GOES), MUSTER_ROW_REPLICA);
    assert_int_equal(state_at(m, 1, STAYS), MUSTER_ROW_REPLICA);
    const muster_replica *first = m->node[1]->replicas.all.data;
    assert_true(first->ref == muster_rowref_make(0, GOES));
    float one = 1;
    assert_true(
        muster_ps_table_try(m->tables[1], MUSTER_ROWOP_PUSH, STAYS, &one));
    muster_protocol_begin(m->node[1], m->now_ns, &m->out[1]);
    muster_replica_refresh(m->node[1], 0, STAYS);
    assert_int_equal(muster_protocol_end(m->node[1]), MUSTER_OK);
    collect(m, 1);
    assert_int_equal(m->flying, 1);
    muster_protocol_send sync = m->flight[--m->flying];
    intend(m, 1, GOES, false);
    for (int i = 0; state_at(m, 1, GOES) == MUSTER_ROW_REPLICA; i++) {
        assert_true(i < 100);
        tick_all(m, 1000000);
        while (m->flying > 0) {
            deliver(m, false);
        }
    }
    first = m->node[1]->replicas.all.data;
    assert_true(first->ref == muster_rowref_make(0, STAYS) && first->syncing);
    m->flight[m->flying++] = sync;
    while (m->flying > 0) {
        deliver(m, false);
    }
    assert_false(first->syncing);
    float seen = 0;
    assert_true(
        muster_ps_table_try(m->tables[0], MUSTER_ROWOP_PULL, STAYS, &seen));
    assert_true(seen == 1);
    assert_int_equal(muster_protocol_count(m->node[1]).violations, 0);
    mesh_free(m);
}

/* More rows than one message should have, in both directions. */
static void many_wide_replicas_go_in_several_messages(void **state)
{
    (void)state;
    enum { ROWS = 200, FLOATS = 1000, MAX = 40 }; // of them in a message
    mesh *m = muster_mem_array(1, sizeof(*m));
    assert_non_null(m);
    m->rng = muster_rng_make(1, 1);
    m->nodes = 2;
    mesh_start(m, 2 * ROWS, FLOATS,
               (muster_protocol_opts){.manage = MUSTER_PS_AUTO});
    uint32_t theirs[ROWS];
    for (uint32_t i = 0; i < ROWS; i++) {
        theirs[i] = 2 * i; // node 0's
    }
    localize(m, 1,
             &(muster_localize_request){
                 .keys = theirs, .count = ROWS, .copy = true});
    come_to_rest(m);
    float values[FLOATS];
    for (uint32_t i = 0; i < ROWS; i++) {
        assert_int_equal(state_at(m, 1, theirs[i]), MUSTER_ROW_REPLICA);
        for (uint32_t j = 0; j < FLOATS; j++) {
            values[j] = (float)(i + j);
        }
        assert_true(muster_ps_table_try(m->tables[1], MUSTER_ROWOP_PUSH,
                                        theirs[i], values));
    }
    muster_protocol_begin(m->node[1], m->now_ns, &m->out[1]);
    muster_sweep_all(m->node[1], false);
    assert_int_equal(muster_protocol_end(m->node[1]), MUSTER_OK);
    collect(m, 1);
    uint32_t sent = 0;
    for (size_t i = 0; i < m->flying; i++) {
        const muster_rowmsg *message = &m->flight[i].message;
        bool sync = message->kind == MUSTER_ROWMSG_SYNC;
        assert_true(!sync || message->count <= MAX);
        sent += sync ? message->count : 0;
    }
    assert_int_equal(sent, ROWS);
    come_to_rest(m);
    for (uint32_t i = 0; i < ROWS; i++) {
        assert_true(muster_ps_table_try(m->tables[0], MUSTER_ROWOP_PULL,
                                        theirs[i], values));
        for (uint32_t j = 0; j < FLOATS; j++) {
            assert_true(values[j] == (float)(i + j));
        }
    }
    mesh_free(m);
}

/* The delta of a replica is sent before the first operation that finds it
 * spent, also when there are more operations than fit in a message. */
static void operations_do_not_overtake_the_delta_of_a_replica(void **state)
{
    (void)state;
    enum { REPLICATED = 0, ENTRIES = 2, SET = 4 };
    mesh *m = muster_mem_array(1, sizeof(*m));
    assert_non_null(m);
    m->rng = muster_rng_make(1, 1);
    m->nodes = 2;
    mesh_start(m, 2 * SET, 1,
               (muster_protocol_opts){.manage = MUSTER_PS_AUTO,
                                      .message_entries = ENTRIES});
    localize_one(m, 1, REPLICATED, true);
    float one = 1;
    while (muster_ps_table_try(m->tables[1], MUSTER_ROWOP_PUSH, REPLICATED,
                               &one)) {
    }
    assert_int_equal(state_at(m, 1, REPLICATED),
                     MUSTER_ROW_REPLICA);                    // but spent
    static const uint32_t keys[SET] = {REPLICATED, 2, 4, 6}; // node 0's
    static const uint32_t positions[SET] = {0, 1, 2, 3};
    float values[SET] = {10, 11, 12, 13};
    int ended = 0;
    muster_row_request request = {.op = MUSTER_ROWOP_SET,
                                  .keys = keys,
                                  .values = values,
                                  .positions = positions,
                                  .count = SET,
                                  .context = &ended};
    assert_int_equal(
        muster_protocol_request(m->node[1], m->now_ns, &request, &m->out[1]),
        MUSTER_OK);
    collect(m, 1);
    assert_int_equal(m->flying, 3);
    assert_int_equal(m->flight[0].message.kind, MUSTER_ROWMSG_SYNC);
    assert_int_equal(m->flight[1].message.count, ENTRIES);
    assert_int_equal(m->flight[2].message.count, SET - ENTRIES);
    come_to_rest(m);
    assert_int_equal(ended, 1);
    mesh_free(m);
}

static void request_here(mesh *m, uint16_t at, muster_row_op op)
{
    asked_row row = {.key = 0, .value = 1};
    ask_row(m, at, op, &row);
    assert_int_equal(row.ended, 1);
    assert_int_equal(m->flying, 0);
}

/* The replica arrived after the worker had looked: the request is answered
 * here, and a pull has no delta to send. */
static void a_pull_leaves_a_replica_clean(void **state)
{
    (void)state;
    mesh *m = build(false);
    localize_one(m, 1, 0, true);
    uint32_t before = budget_at(m, 1);
    request_here(m, 1, MUSTER_ROWOP_PULL);
    request_here(m, 1, MUSTER_ROWOP_PULL_ROW);
    assert_int_equal(budget_at(m, 1), before);
    assert_false(atomic_load(&m->tables[1]->words[0]) & MUSTER_WORD_DIRTY);
    request_here(m, 1, MUSTER_ROWOP_PUSH);
    assert_int_equal(budget_at(m, 1), before - 1);
    assert_true(atomic_load(&m->tables[1]->words[0]) & MUSTER_WORD_DIRTY);
    mesh_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pull_leaves_a_replica_clean),
        cmocka_unit_test(
            a_contested_row_is_replicated_unless_it_is_used_in_turns),
        cmocka_unit_test(
            replicas_that_do_not_change_are_synchronised_less_often),
        cmocka_unit_test(an_ended_intent_does_not_change_the_period),
        cmocka_unit_test(a_replica_is_dropped_soon_after_its_last_intent),
        cmocka_unit_test(a_replica_stays_as_long_as_it_is_intended),
        cmocka_unit_test(a_barrier_does_not_change_the_period),
        cmocka_unit_test(a_budget_is_as_large_as_it_is_used),
        cmocka_unit_test(a_replica_that_undoes_others_may_be_written_less),
        cmocka_unit_test(a_replica_is_synchronised_when_a_worker_asks),
        cmocka_unit_test(a_replica_that_is_asked_for_is_not_dropped),
        cmocka_unit_test(writes_before_the_owners_row_comes_undo_nothing),
        cmocka_unit_test(a_replica_is_found_though_the_list_has_changed),
        cmocka_unit_test(many_wide_replicas_go_in_several_messages),
        cmocka_unit_test(operations_do_not_overtake_the_delta_of_a_replica),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
