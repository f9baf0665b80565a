/*
 * peers_test.c -- the connections of a mesh with a peer that does not read,
 * is given up, or comes back as another: a bare net plays it.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "ps/node/mesh_inside.h"

enum { HELLO_MEET = 0, HELLO_JOIN = 1, HELLO_KNOWN = 2 };
enum { QUEUE = 4, MANY = 70000, TURNS = 2000 };

/* Node 0 of two, without its thread. */
typedef struct lead {
    muster_ps ps;
    muster_mesh mesh;
    char address[MUSTER_NET_ADDRESS_MAX];
} lead;

/* What claims to be node 1. */
typedef struct stranger {
    muster_net *net;
    muster_peer peer;
    bool up;
    bool down;
    uint32_t heard[MUSTER_ROWMSG_KIND_LAST + 1];
    uint64_t greeting;
} stranger;

static muster_blob *make_payload(void *context, size_t bytes)
{
    return muster_net_blob(context, bytes);
}

static lead *open_lead(void)
{
    lead *l = muster_mem_lines(1, sizeof(*l)); // bias holders are aligned
    assert_non_null(l);
    muster_mesh *mesh = &l->mesh;
    muster_net_opts opts = MUSTER_NET_OPTS_INIT;
    char address[MUSTER_NET_ADDRESS_MAX];
    opts.queue_messages_max = QUEUE;
    (void)snprintf(address, sizeof(address), "unix:@muster-peers-%d",
                   (int)getpid());
    l->ps.opts.survive = true;
    l->ps.opts.nodes = 2;
    (void)pthread_mutex_init(&l->ps.barrier.lock, NULL);
    (void)pthread_cond_init(&l->ps.barrier.changed, NULL);
    mesh->ps = &l->ps;
    mesh->nodes = 2;
    mesh->driver.out = muster_protocol_out_make();
    mesh->driver.links.unsent = muster_vec_make(sizeof(muster_protocol_send));
    mesh->driver.under_way = muster_vec_make(sizeof(muster_ps_call *));
    assert_int_equal(
        muster_net_open(&opts, &muster_mesh_callbacks, mesh, NULL, &mesh->net),
        MUSTER_OK);
    muster_protocol_opts node = {.nodes = 2,
                                 .make = make_payload,
                                 .make_context = mesh->net,
                                 .heartbeat_ns = 60 * MUSTER_NS_PER_S};
    assert_int_equal(muster_protocol_create(&node, &mesh->driver.protocol),
                     MUSTER_OK);
    atomic_store(&mesh->shared.members, 3);
    assert_int_equal(muster_net_listen(mesh->net, address, NULL, l->address),
                     MUSTER_OK);
    return l;
}

static void close_lead(lead *l)
{
    muster_mesh_peers_drop_unsent(&l->mesh, 1, false);
    assert_int_equal(l->mesh.driver.links.unsent.count, 0);
    muster_protocol_free(l->mesh.driver.protocol);
    muster_protocol_out_fini(&l->mesh.driver.out);
    muster_net_close(l->mesh.net);
    muster_vec_fini(&l->mesh.driver.links.unsent);
    muster_vec_fini(&l->mesh.driver.under_way);
    (void)pthread_mutex_destroy(&l->ps.barrier.lock);
    (void)pthread_cond_destroy(&l->ps.barrier.changed);
    muster_mem_free(l);
}

static void see_up(void *context, muster_peer peer, int incoming)
{
    (void)peer;
    (void)incoming;
    ((stranger *)context)->up = true;
}

static void see_message(void *context, muster_peer peer,
                        const muster_net_message *raw)
{
    stranger *s = context;
    muster_rowmsg message;
    (void)peer;
    assert_int_equal(
        muster_rowmsg_read(raw->header, raw->header_bytes, &message),
        MUSTER_OK);
    s->heard[message.kind]++;
    s->greeting = message.value;
}

static void see_down(void *context, muster_peer peer, muster_status status,
                     const char *reason)
{
    (void)peer;
    (void)status;
    (void)reason;
    ((stranger *)context)->down = true;
}

static const muster_net_callbacks seeing = {
    .on_up = see_up, .on_message = see_message, .on_down = see_down};

static void turn_both(lead *l, stranger *s)
{
    assert_true(muster_net_poll(l->mesh.net, 0) >= 0);
    muster_mesh_peers_send_unsent(&l->mesh);
    assert_true(muster_net_poll(s->net, 0) >= 0);
}

/* Connect, and say HELLO as node 1 to the node that it takes the lead for. */
static void call(lead *l, stranger *s, uint64_t value, uint16_t whom)
{
    const muster_net_opts opts = MUSTER_NET_OPTS_INIT;
    *s = (stranger){.greeting = UINT64_MAX};
    assert_int_equal(muster_net_open(&opts, &seeing, s, NULL, &s->net),
                     MUSTER_OK);
    assert_int_equal(muster_net_connect(s->net, l->address, NULL, &s->peer),
                     MUSTER_OK);
    muster_rowmsg hello = {
        .kind = MUSTER_ROWMSG_HELLO, .from = 1, .origin = whom, .value = value};
    uint8_t header[MUSTER_ROWMSG_BYTES];
    muster_rowmsg_write(&hello, header);
    muster_net_send_opts send = {.header = header,
                                 .header_bytes = sizeof(header)};
    assert_int_equal(muster_net_send(s->net, s->peer, &send), MUSTER_OK);
}

static void come(lead *l, stranger *s, uint64_t value)
{
    muster_peer before = l->mesh.driver.links.peers[1];
    call(l, s, value, 0);
    // What waits is not tried meanwhile, as if the old queue stayed full.
    for (int i = 0; i < TURNS && l->mesh.driver.links.peers[1] == before; i++) {
        assert_true(muster_net_poll(l->mesh.net, 0) >= 0);
        assert_true(muster_net_poll(s->net, 0) >= 0);
    }
    assert_true(l->mesh.driver.links.peers[1] != before);
}

static void say(lead *l, muster_rowmsg_kind kind)
{
    muster_protocol_send word = {.to = 1, .message = {.kind = kind}};
    muster_mesh_peers_send(&l->mesh, &word);
}

/* Node 1 stops reading and is given up; another takes its place before the old
 * connection has ended. */
static void
a_replacement_hears_nothing_meant_for_the_node_before_it(void **state)
{
    (void)state;
    lead *l = open_lead();
    stranger first;
    stranger second;
    come(l, &first, HELLO_MEET);
    while (l->mesh.driver.links.unsent.count < 3) {
        say(l, MUSTER_ROWMSG_STATS);
    }
    muster_mesh_apply_step(&l->mesh,
                           muster_protocol_down(l->mesh.driver.protocol,
                                                muster_clock_ns(), 1,
                                                &l->mesh.driver.out));
    assert_int_equal(atomic_load(&l->mesh.shared.members), 1);
    // That it was given up, and who the members are, still waits for it.
    const muster_protocol_send *left = l->mesh.driver.links.unsent.data;
    assert_int_equal(l->mesh.driver.links.unsent.count, 2);
    assert_int_equal(left[0].message.kind, MUSTER_ROWMSG_EXPEL);
    assert_int_equal(left[1].message.kind, MUSTER_ROWMSG_HELLO);
    come(l, &second, HELLO_JOIN);
    for (int i = 0; i < TURNS; i++) {
        turn_both(l, &second);
    }
    assert_int_equal(second.heard[MUSTER_ROWMSG_HELLO], 1);
    assert_int_equal(second.greeting, HELLO_KNOWN);
    assert_int_equal(second.heard[MUSTER_ROWMSG_STATS], 0);
    assert_int_equal(second.heard[MUSTER_ROWMSG_EXPEL], 0);
    muster_net_close(first.net);
    muster_net_close(second.net);
    close_lead(l);
}

static void
what_waits_for_a_slow_node_arrives_without_old_heartbeats(void **state)
{
    (void)state;
    lead *l = open_lead();
    stranger s;
    come(l, &s, HELLO_MEET);
    for (int i = 0; i < 100; i++) {
        say(l, i % 2 == 0 ? MUSTER_ROWMSG_STATS : MUSTER_ROWMSG_HEARTBEAT);
    }
    assert_true(l->mesh.driver.links.unsent.count > 0 &&
                l->mesh.driver.links.unsent.count <= 50);
    for (int i = 0; i < TURNS && s.heard[MUSTER_ROWMSG_STATS] < 50; i++) {
        turn_both(l, &s);
    }
    assert_int_equal(s.heard[MUSTER_ROWMSG_STATS], 50);
    assert_true(s.heard[MUSTER_ROWMSG_HEARTBEAT] <= QUEUE);
    assert_int_equal(l->mesh.driver.links.unsent.count, 0);
    muster_net_close(s.net);
    close_lead(l);
}

static void a_node_that_never_reads_is_lost_before_memory_is(void **state)
{
    (void)state;
    lead *l = open_lead();
    stranger s;
    come(l, &s, HELLO_MEET);
    for (int i = 0; i < MANY; i++) {
        say(l, MUSTER_ROWMSG_STATS);
    }
    assert_true(l->mesh.driver.links.unsent.count < MANY - QUEUE);
    muster_mesh_peers_send_unsent(&l->mesh);
    assert_int_equal(l->mesh.driver.links.peers[1], 0);
    assert_int_equal(l->mesh.driver.links.unsent.count, 0);
    assert_int_equal(atomic_load(&l->mesh.shared.members), 1);
    for (int i = 0; i < TURNS && !s.down; i++) {
        turn_both(l, &s);
    }
    assert_true(s.down);
    muster_net_close(s.net);
    close_lead(l);
}

/* A count would take the two lives of one node for two nodes. */
static void a_node_that_comes_twice_is_one(void **state)
{
    (void)state;
    lead *l = open_lead();
    stranger s;
    l->mesh.nodes = 3;
    assert_int_equal(muster_mesh_peers_missing(&l->mesh), 6);
    for (int life = 0; life < 2; life++) {
        l->mesh.driver.links.peers[1] = 0;
        come(l, &s, HELLO_MEET);
        assert_int_equal(muster_mesh_peers_missing(&l->mesh), 4);
        muster_net_close(s.net);
    }
    l->mesh.nodes = 64;
    assert_true(muster_mesh_peers_missing(&l->mesh) == (UINT64_MAX & ~3ull));
    l->mesh.nodes = 2;
    close_lead(l);
}

/* Whoever has other places than this node is not met. */
static void a_hello_for_another_node_is_refused(void **state)
{
    (void)state;
    lead *l = open_lead();
    stranger s;
    call(l, &s, HELLO_MEET, 1);
    for (int i = 0; i < TURNS && !s.down; i++) {
        turn_both(l, &s);
    }
    assert_true(s.down);
    assert_int_equal(l->mesh.driver.links.peers[1], 0);
    assert_int_equal(muster_mesh_peers_missing(&l->mesh), 2);
    muster_net_close(s.net);
    close_lead(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            a_replacement_hears_nothing_meant_for_the_node_before_it),
        cmocka_unit_test(
            what_waits_for_a_slow_node_arrives_without_old_heartbeats),
        cmocka_unit_test(a_node_that_never_reads_is_lost_before_memory_is),
        cmocka_unit_test(a_node_that_comes_twice_is_one),
        cmocka_unit_test(a_hello_for_another_node_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
