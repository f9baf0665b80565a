/*
 * membership_test.c -- nodes that live but do not work: heartbeats tell it, the
 * lead removes such a node and says why, and a lead that does not work ends the
 * mesh. Time is made up.
 */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "ps/protocol/protocol_test.h"

#define BEAT_NS  (400 * MUSTER_NS_PER_MS)
#define STALL_NS (2000 * MUSTER_NS_PER_MS)

static uint64_t told_ms(void *context)
{
    return *(const uint64_t *)context;
}

/* Three nodes; `stalled` is what each says of itself. */
static mesh *build(uint64_t stalled_ms[NODES_MAX])
{
    mesh *m = muster_mem_array(1, sizeof(*m));
    assert_non_null(m);
    m->rng = muster_rng_make(1, 1);
    m->nodes = 3;
    mesh_start(m, 5, 1,
               (muster_protocol_opts){.manage = MUSTER_PS_RELOCATE,
                                      .contest_ns = 50000000,
                                      .heartbeat_ns = BEAT_NS,
                                      .stalled_ms = told_ms,
                                      .stall_ns = STALL_NS});
    for (uint16_t i = 0; i < m->nodes; i++) {
        m->node[i]->opts.host = &stalled_ms[i];
    }
    return m;
}

static void pass(mesh *m, int64_t ns)
{
    for (int64_t end = m->now_ns + ns; m->now_ns < end;) {
        tick_all(m, BEAT_NS / 20);
        while (m->flying > 0) {
            deliver(m, false);
        }
    }
}

/* The first news of a kind at a node, or NULL. */
static const muster_membership_news *news_of(const mesh *m, uint16_t at,
                                             muster_membership_news_kind kind)
{
    const muster_membership_news *all = m->out[at].news.data;
    for (size_t i = 0; i < m->out[at].news.count; i++) {
        if (all[i].kind == kind) {
            return &all[i];
        }
    }
    return NULL;
}

static void a_stalled_node_is_removed_and_the_cause_is_told(void **state)
{
    (void)state;
    uint64_t stalled_ms[NODES_MAX] = {0, 1999, 1999};
    mesh *m = build(stalled_ms);
    pass(m, 10 * BEAT_NS);
    assert_int_equal(muster_protocol_members(m->node[0]), 7);
    stalled_ms[2] = 2000;
    pass(m, BEAT_NS);
    for (uint16_t i = 0; i < 2; i++) {
        const muster_membership_news *lost = news_of(m, i, MUSTER_NEWS_LOST);
        assert_non_null(lost);
        assert_int_equal(lost->node, 2);
        assert_int_equal(lost->cause, MUSTER_LOSS_STALLED);
        assert_int_equal(muster_protocol_members(m->node[i]), 3);
    }
    assert_non_null(news_of(m, 2, MUSTER_NEWS_EXPELLED));
    mesh_free(m);
}

/* An update of node 2 with a value that is not finite. */
static void tell_not_finite(mesh *m, uint16_t to, uint32_t key, float value)
{
    muster_rowmsg lie = {.kind = MUSTER_ROWMSG_OP,
                         .op = MUSTER_ROWOP_PUSH,
                         .from = 2,
                         .origin = 2,
                         .count = 1};
    uint32_t floats =
        muster_rowmsg_floats(lie.kind, lie.op, &m->node[to]->shapes[0]);
    lie.payload = muster_blob_create(muster_rowmsg_payload_bytes(1, floats));
    assert_non_null(lie.payload);
    memset(lie.payload->data, 0, lie.payload->bytes);
    muster_rowmsg_keys(&lie)[0] = key;
    muster_rowmsg_values(&lie)[floats - 1] = value;
    lie.link = m->node[2]->links[to].next_out++;
    m->node[2]->links[to].counted_out += muster_node_link_counts(lie.kind);
    assert_int_equal(
        muster_protocol_message(m->node[to], m->now_ns, &lie, &m->out[to]),
        MUSTER_OK);
    muster_blob_unref(lie.payload);
    collect(m, to);
}

static void a_node_that_sends_what_is_not_finite_is_removed(void **state)
{
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    uint64_t stalled_ms[NODES_MAX] = {0};
    for (uint16_t to = 0; to < 2; to++) {
        mesh *m = build(stalled_ms);
        tell_not_finite(m, to, to, bad[to]);
        pass(m, BEAT_NS);
        for (uint16_t i = 0; i < 2; i++) {
            const muster_membership_news *lost =
                news_of(m, i, MUSTER_NEWS_LOST);
            assert_non_null(lost);
            assert_int_equal(lost->node, 2);
            assert_int_equal(lost->cause, MUSTER_LOSS_NOT_FINITE);
        }
        assert_non_null(news_of(m, 2, MUSTER_NEWS_EXPELLED));
        mesh_free(m);
    }
}

static void a_stalled_lead_ends_the_mesh(void **state)
{
    (void)state;
    uint64_t stalled_ms[NODES_MAX] = {2000};
    mesh *m = build(stalled_ms);
    pass(m, BEAT_NS);
    const muster_membership_news *end = news_of(m, 0, MUSTER_NEWS_LEADLESS);
    assert_non_null(end);
    assert_int_equal(end->cause, MUSTER_LOSS_STALLED);
    assert_null(news_of(m, 0, MUSTER_NEWS_LOST));
    mesh_free(m);
}

static void without_a_limit_no_node_is_stalled(void **state)
{
    (void)state;
    uint64_t stalled_ms[NODES_MAX] = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
    mesh *m = build(stalled_ms);
    for (uint16_t i = 0; i < m->nodes; i++) {
        m->node[i]->opts.stall_ns = 0;
    }
    pass(m, 10 * BEAT_NS);
    assert_int_equal(muster_protocol_members(m->node[0]), 7);
    assert_null(news_of(m, 0, MUSTER_NEWS_LEADLESS));
    mesh_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stalled_node_is_removed_and_the_cause_is_told),
        cmocka_unit_test(a_stalled_lead_ends_the_mesh),
        cmocka_unit_test(a_node_that_sends_what_is_not_finite_is_removed),
        cmocka_unit_test(without_a_limit_no_node_is_stalled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
