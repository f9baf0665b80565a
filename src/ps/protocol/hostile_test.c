/*
 * hostile_test.c -- messages that are well formed and cannot be true: their
 * origin is one that no correct node sends, or they order what only the home of
 * a row may order. Each is dropped and counted, and changes nothing.
 *
 * Node 2 sends the false messages; the home of a key is node key % 3.
 */
#include "ps/protocol/protocol_test.h"

enum { NODES = 3, KEYS = 9, LIAR = 2 };

static mesh *build(bool in_turns)
{
    return mesh_make(NODES, KEYS, in_turns);
}

static void localize_one(mesh *m, uint16_t at, uint32_t key, bool copy)
{
    localize(
        m, at,
        &(muster_localize_request){.keys = &key, .count = 1, .copy = copy});
}

/* Node `to` receives a false message, numbered as the next of its sender.
 * Returns how many violations it counts. */
static uint64_t tell(mesh *m, uint16_t to, muster_rowmsg lie)
{
    uint64_t before = muster_protocol_count(m->node[to]).violations;
    lie.link = m->node[lie.from]->links[to].next_out++;
    m->node[lie.from]->links[to].counted_out +=
        muster_node_link_counts(lie.kind);
    assert_int_equal(
        muster_protocol_message(m->node[to], m->now_ns, &lie, &m->out[to]),
        MUSTER_OK);
    collect(m, to);
    return muster_protocol_count(m->node[to]).violations - before;
}

/* The same about a row. */
static uint64_t tell_of(mesh *m, uint16_t to, uint32_t key, muster_rowmsg lie)
{
    lie.count = 1;
    lie.payload = muster_blob_create(muster_rowmsg_payload_bytes(1, 0));
    assert_non_null(lie.payload);
    uint32_t *words = lie.payload->data;
    words[0] = key;
    words[1] = 1;
    uint64_t refused = tell(m, to, lie);
    muster_blob_unref(lie.payload);
    return refused;
}

/* One node owns the row, its home knows that, and a push from another node
 * ends. */
static void is_well(mesh *m, uint32_t key, uint16_t owner)
{
    asked_row row = {.key = key, .value = 1};
    uint16_t from = owner == 0 ? 1 : 0;
    come_to_rest(m);
    for (uint16_t i = 0; i < m->nodes; i++) {
        assert_int_equal(state_at(m, i, key) == MUSTER_ROW_OWNED, i == owner);
    }
    assert_int_equal(muster_protocol_owner(m->node[key % NODES], 0, key),
                     owner);
    ask_row(m, from, MUSTER_ROWOP_PUSH, &row);
    come_to_rest(m);
    assert_int_equal(row.ended, 1);
}

/* If accepted, the row would be transferred to the node that has it and have no
 * owner: operations would travel between owner and home for ever. */
static void no_node_is_told_to_hand_a_row_over_to_itself(void **state)
{
    (void)state;
    for (uint16_t home = 0; home < NODES; home += LIAR) {
        mesh *m = build(true);
        localize_one(m, 1, home, false);
        assert_int_equal(state_at(m, 1, home), MUSTER_ROW_ARRIVING);
        // While the row arrives, and when it has arrived.
        for (int i = 0; i < 2; i++) {
            assert_int_equal(
                tell_of(m, 1, home,
                        (muster_rowmsg){.kind = MUSTER_ROWMSG_HAND_OVER,
                                        .from = home,
                                        .origin = 1}),
                1);
            is_well(m, home, 1);
        }
        mesh_free(m);
    }
}

/* If accepted, the row would go to a node that does not wait for it. */
static void only_its_home_orders_a_row_away(void **state)
{
    (void)state;
    mesh *m = build(false);
    muster_rowmsg order = {
        .kind = MUSTER_ROWMSG_HAND_OVER, .from = LIAR, .origin = 0};
    assert_int_equal(tell_of(m, 1, 1, order), 1);
    is_well(m, 1, 1);
    localize_one(m, 1, 0, false); // nor a row that still arrives
    assert_int_equal(tell_of(m, 1, 0, order), 1);
    is_well(m, 0, 1);
    mesh_free(m);
}

/* If accepted, the home would give the row to a node that did not request it.
 */
static void no_node_requests_rows_for_another(void **state)
{
    (void)state;
    mesh *m = build(false);
    assert_int_equal(tell_of(m, 0, 0,
                             (muster_rowmsg){.kind = MUSTER_ROWMSG_LOCALIZE,
                                             .from = LIAR,
                                             .origin = 1}),
                     1);
    is_well(m, 0, 0);
    // If accepted, rows that only this node uses would be shared for ever.
    assert_int_equal(tell_of(m, 0, 0,
                             (muster_rowmsg){.kind = MUSTER_ROWMSG_INTENT,
                                             .from = LIAR,
                                             .origin = 1}),
                     1);
    assert_true(!muster_node_intents_of(m->node[0], 0, 0, 0).others);
    mesh_free(m);
}

/* If accepted, the barrier would be released before node 1 reached it. */
static void no_node_reaches_a_barrier_for_another(void **state)
{
    (void)state;
    mesh *m = build(false);
    for (uint16_t i = 0; i < NODES; i++) {
        if (i == 1) {
            assert_int_equal(tell(m, 0,
                                  (muster_rowmsg){.kind = MUSTER_ROWMSG_BARRIER,
                                                  .from = LIAR,
                                                  .origin = 1,
                                                  .request = 1}),
                             1);
        } else {
            assert_int_equal(muster_protocol_barrier(m->node[i], m->now_ns,
                                                     MUSTER_PS_SEEN,
                                                     &m->out[i]),
                             MUSTER_OK);
            collect(m, i);
        }
    }
    while (m->flying > 0) {
        deliver(m, false);
    }
    assert_int_equal(m->out[0].released, 0);
    assert_int_equal(muster_protocol_barrier(m->node[1], m->now_ns,
                                             MUSTER_PS_SEEN, &m->out[1]),
                     MUSTER_OK);
    collect(m, 1);
    come_to_rest(m);
    assert_int_equal(m->out[0].released, 1);
    // A node reports only its own updates.
    assert_int_equal(tell(m, 0,
                          (muster_rowmsg){.kind = MUSTER_ROWMSG_HEARTBEAT,
                                          .from = LIAR,
                                          .origin = 1,
                                          .mask = UINT64_MAX,
                                          .value = UINT64_MAX}),
                     1);
    mesh_free(m);
}

/* Node 1 is lost: the lead orders the first phase. */
static void lose_one(mesh *m)
{
    assert_int_equal(muster_protocol_down(m->node[0], m->now_ns, 1, &m->out[0]),
                     MUSTER_OK);
    collect(m, 0);
}

static void deliver_to_members(mesh *m)
{
    for (size_t i = 0; i < m->flying;) {
        if (m->flight[i].to == 1) {
            muster_blob_unref(m->flight[i].message.payload);
            m->flight[i] = m->flight[--m->flying];
        } else {
            i++;
        }
    }
    deliver(m, false);
}

/* If accepted, the lead would wait for ever: the counts of the lost node never
 * agree with those of the members. */
static void lost_nodes_are_not_counted(void **state)
{
    (void)state;
    mesh *m = build(false);
    lose_one(m);
    const muster_membership_change *change = &m->node[0]->change;
    muster_rowmsg lie = {.kind = MUSTER_ROWMSG_COUNT,
                         .from = LIAR,
                         .origin = 1,
                         .epoch = change->lead.epoch};
    for (size_t i = 0; i < m->flying; i++) {
        if (m->flight[i].message.kind == MUSTER_ROWMSG_PHASE) {
            lie.request = m->flight[i].message.request;
        }
    }
    assert_int_equal(tell(m, 0, lie), 1);
    for (int i = 0; i < 1000 && m->flying > 0; i++) {
        deliver_to_members(m);
    }
    assert_true(!muster_protocol_changing(m->node[0]));
    assert_int_equal(muster_protocol_members(m->node[LIAR]), 1u | 1u << LIAR);
    mesh_free(m);
}

/* If accepted, the row would have two owners. */
static void only_its_home_makes_a_replica_the_row(void **state)
{
    (void)state;
    mesh *m = build(false);
    localize_one(m, 0, 2, false);
    come_to_rest(m);
    localize_one(m, 2, 2, true); // its home has a replica
    come_to_rest(m);
    assert_int_equal(state_at(m, 2, 2), MUSTER_ROW_REPLICA);
    lose_one(m);
    while (!muster_protocol_changing(m->node[2])) {
        deliver_to_members(m);
    }
    assert_int_equal(
        tell_of(m, 2, 2, (muster_rowmsg){.kind = MUSTER_ROWMSG_ADOPT}), 1);
    assert_int_equal(state_at(m, 2, 2), MUSTER_ROW_REPLICA);
    mesh_free(m);
}

/* No node has so many intents; one more would overflow. */
static void intents_are_counted_only_so_far(void **state)
{
    (void)state;
    mesh *m = build(false);
    muster_rowmsg begins = {
        .kind = MUSTER_ROWMSG_INTENT, .from = LIAR, .origin = LIAR};
    assert_int_equal(tell_of(m, 0, 0, begins), 0);
    muster_home_intent *want = m->node[0]->intents.entries.data;
    want->count = INT32_MAX;
    assert_int_equal(tell_of(m, 0, 0, begins), 1);
    assert_true(muster_node_intents_of(m->node[0], 0, 0, 0).others);
    mesh_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_node_is_told_to_hand_a_row_over_to_itself),
        cmocka_unit_test(only_its_home_orders_a_row_away),
        cmocka_unit_test(no_node_requests_rows_for_another),
        cmocka_unit_test(no_node_reaches_a_barrier_for_another),
        cmocka_unit_test(lost_nodes_are_not_counted),
        cmocka_unit_test(only_its_home_makes_a_replica_the_row),
        cmocka_unit_test(intents_are_counted_only_so_far),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
