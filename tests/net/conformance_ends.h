/*
 * conformance_ends.h -- part of conformance_tests.h: how connections and
 * processes end, idle, wake, and run out of memory.
 */
#ifndef MUSTER_TESTS_NET_CONFORMANCE_ENDS_H
#define MUSTER_TESTS_NET_CONFORMANCE_ENDS_H

/* connections ------------------------------------------------------------- */

static void a_lost_peer_ends_its_sends_first(void **state)
{
    pair *it = pair_open(state, NULL);
    // More than any socket buffer takes, so that something is left unsent.
    const int sends = 400;
    for (int i = 0; i < sends; i++) {
        note what = {(uint64_t)i, 60000, (uint64_t)i, 0};
        assert_int_equal(node_send(&it->a, it->a_to_b, &what, false, 0),
                         MUSTER_OK);
    }
    node *only_a[1] = {&it->a};
    drive_on(only_a, 1);
    int told_before = node_dones(&it->a);
    assert_in_range(told_before, 0, sends - 1);
    node_close(&it->b);
    drive(only_a, 1, &it->a.downs, 1);
    assert_int_equal(it->a.down_status, MUSTER_ERR_PEER_LOST);
    assert_int_equal(it->a.done_at_down, sends);
    assert_int_equal(it->a.done_ok + it->a.done_lost, sends);
    assert_in_range(it->a.done_lost, 1, sends);
    assert_int_equal(node_say(&it->a, it->a_to_b, 1), MUSTER_ERR_PEER_LOST);
    drive_on(only_a, 1);
    assert_int_equal(node_dones(&it->a), sends);
    node_close(&it->a);
    free(it);
}

/* What was kept of a payload stays what it was: a part. */
static void a_payload_that_ends_midway_stays_a_part(void **state)
{
    pair *it = pair_open(state, NULL);
    note huge = {7, 50000000, 7, 0};
    if (strncmp(it->a.backend->name, "sock", 4) != 0) {
        pair_close(it);
        return; // nothing is known of what UCX carries before it is whole
    }
    assert_int_equal(node_send(&it->a, it->a_to_b, &huge, false, 0), MUSTER_OK);
    drive(it->both, 2, &it->b.begun, 1);
    it->a.backend->drop(it->a.net, it->a_to_b);
    drive(it->both, 2, &it->b.downs, 1);
    assert_int_equal(it->b.messages, 0);
    node_check_part(it->b.coming, 7);
    pair_close(it);
}

/* The user may end the connection when it hears that a payload has begun. */
static void dropping_who_begins_to_send_is_fine(void **state)
{
    pair *it = pair_open(state, NULL);
    note huge = {7, 50000000, 7, 0};
    it->b.drop = true;
    assert_int_equal(node_send(&it->a, it->a_to_b, &huge, false, 0), MUSTER_OK);
    drive(it->both, 2, &it->a.downs, 1);
    drive_on(it->both, 2);
    assert_int_equal(it->b.downs, 0);
    pair_close(it);
}

static void a_dropped_peer_is_told_and_we_are_not(void **state)
{
    pair *it = pair_open(state, NULL);
    for (uint64_t i = 0; i < 5; i++) {
        note what = {i, i < 2 ? 100000 : UINT64_MAX, i, 0};
        assert_int_equal(node_send(&it->a, it->a_to_b, &what, true, 0),
                         MUSTER_OK);
    }
    it->a.backend->drop(it->a.net, it->a_to_b);
    it->a.backend->drop(it->a.net, it->a_to_b);
    it->a.backend->drop(it->a.net, 12345);
    assert_int_equal(node_dones(&it->a), 0); // callbacks come from poll only
    assert_int_equal(node_say(&it->a, it->a_to_b, 9), MUSTER_ERR_PEER_LOST);
    drive(it->both, 2, &it->b.downs, 1);
    drive(it->both, 2, &it->a.done_cancelled, 5);
    drive_on(it->both, 2);
    assert_int_equal(it->a.downs, 0);
    assert_int_equal(node_dones(&it->a), 5);
    pair_close(it);
}

static void dropping_inside_a_callback_is_fine(void **state)
{
    pair *it = pair_open(state, NULL);
    it->a.drop = true;
    for (uint64_t i = 0; i < 10; i++) {
        note what = {i, 100000, i, 40};
        assert_int_equal(node_send(&it->b, it->b_to_a, &what, i % 2, 0),
                         MUSTER_OK);
    }
    drive(it->both, 2, &it->b.downs, 1);
    drive_on(it->both, 2);
    assert_int_equal(it->a.messages, 1);
    assert_int_equal(it->a.downs, 0);
    assert_int_equal(node_dones(&it->b), 10);
    pair_close(it);
}

static void close_calls_every_done(void **state)
{
    pair *it = pair_open(state, NULL);
    for (uint64_t i = 0; i < 20; i++) {
        note what = {i, 80000, i, 0};
        assert_int_equal(node_send(&it->a, it->a_to_b, &what, i % 2, 0),
                         MUSTER_OK);
    }
    node_close(&it->a);
    assert_int_equal(node_dones(&it->a), 20);
    assert_int_equal(it->a.downs, 0);
    node *only_b[1] = {&it->b};
    drive(only_b, 1, &it->b.downs, 1);
    node_close(&it->b);
    free(it);
}

static void a_peer_can_come_back(void **state)
{
    pair *it = pair_open(state, NULL);
    muster_peer before = it->a_to_b;
    it->b.backend->drop(it->b.net, it->b_to_a);
    drive(it->both, 2, &it->a.downs, 1);
    it->b_to_a = node_connect(&it->b, it->a.address);
    drive(it->both, 2, &it->a.ups, 2);
    drive(it->both, 2, &it->b.ups, 2);
    assert_in_range(it->a.last_up, before + 1, NODE_PEERS);
    assert_int_equal(node_say(&it->a, before, 1), MUSTER_ERR_PEER_LOST);
    assert_int_equal(node_say(&it->a, it->a.last_up, 2), MUSTER_OK);
    drive(it->both, 2, &it->b.messages, 1);
    assert_int_equal(it->b.numbers[0], 2);
    pair_close(it);
}

static void connecting_to_nobody_is_told(void **state)
{
    const setting *where = *state;
    pair *it = pair_open(state, NULL);
    char address[MUSTER_NET_ADDRESS_MAX];
    memcpy(address, it->a.address, sizeof(address));
    node_close(&it->a);
    node_open(&it->a, where->backend, NULL);
    drive(it->both, 2, &it->b.downs, 1);
    node_connect(&it->b, address);
    assert_int_equal(it->b.downs, 1); // callbacks come from poll only
    drive(it->both, 2, &it->b.downs, 2);
    assert_int_equal(it->b.down_status, MUSTER_ERR_PEER_LOST);
    assert_true(strlen(it->b.down_reason) > 0);
    assert_int_equal(it->b.ups, 1);
    pair_close(it);
}

static void another_version_is_refused_on_both_sides(void **state)
{
    const setting *where = *state;
    muster_net_opts opts = MUSTER_NET_OPTS_INIT;
    node *a = calloc(1, sizeof(*a));
    node *b = calloc(1, sizeof(*b));
    node *both[2] = {a, b};
    opts.protocol_version = 777;
    node_open(a, where->backend, &opts);
    opts.protocol_version = 888;
    node_open(b, where->backend, &opts);
    node_listen(a, where);
    node_connect(b, a->address);
    drive(both, 2, &a->downs, 1);
    drive(both, 2, &b->downs, 1);
    assert_int_equal(a->ups + b->ups, 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(both[i]->down_status, MUSTER_ERR_REFUSED);
        assert_non_null(strstr(both[i]->down_reason, "777"));
        assert_non_null(strstr(both[i]->down_reason, "888"));
        node_close(both[i]);
        free(both[i]);
    }
}

static void other_machines_are_not_listened_to_without_a_key(void **state)
{
    const setting *where = *state;
    static const muster_net_callbacks callbacks = {0};
    static const muster_run_key key = {{1}};
    const char *const everywhere = "tcp:0.0.0.0:0";
    for (int i = 0; i < 3; i++) {
        muster_net_opts opts = MUSTER_NET_OPTS_INIT;
        opts.key = i == 1 ? &key : NULL;
        opts.insecure = i == 2;
        muster_net *net = NULL;
        muster_error error = {0};
        assert_int_equal(muster_net_open(&opts, &callbacks, NULL, &error, &net),
                         MUSTER_OK);
        assert_int_equal(where->backend->listen(net, everywhere, &error, NULL),
                         i == 0 ? MUSTER_ERR_INVALID : MUSTER_OK);
        assert_true((strstr(error.text, "--key-file") != NULL) == (i == 0));
        where->backend->close(net);
    }
}

static void a_mesh_of_six_talks(void **state)
{
    enum { NODES = 6 };
    const setting *where = *state;
    node *nodes[NODES];
    for (int i = 0; i < NODES; i++) {
        nodes[i] = calloc(1, sizeof(node));
        node_open(nodes[i], where->backend, NULL);
        node_listen(nodes[i], where);
    }
    for (int i = 0; i < NODES; i++) {
        for (int j = i + 1; j < NODES; j++) {
            node_connect(nodes[i], nodes[j]->address);
        }
    }
    for (int i = 0; i < NODES; i++) {
        drive(nodes, NODES, &nodes[i]->ups, NODES - 1);
    }
    const int rounds = 20;
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < NODES; i++) {
            for (muster_peer peer = 1; peer < NODES; peer++) {
                uint64_t bytes = round % 3 == 0 ? 150000 : 300;
                note what = {(uint64_t)round, bytes, (uint64_t)i, 0};
                assert_int_equal(node_send(nodes[i], peer, &what, round % 2, 0),
                                 MUSTER_OK);
            }
        }
    }
    for (int i = 0; i < NODES; i++) {
        drive(nodes, NODES, &nodes[i]->messages, rounds * (NODES - 1));
        drive(nodes, NODES, &nodes[i]->done_ok, rounds * (NODES - 1));
        int from[NODES] = {0};
        for (int m = 0; m < nodes[i]->messages; m++) {
            from[nodes[i]->from[m]]++;
        }
        for (int peer = 1; peer < NODES; peer++) {
            assert_int_equal(from[peer], rounds);
        }
    }
    for (int i = 0; i < NODES; i++) {
        node_close(nodes[i]);
        free(nodes[i]);
    }
}

/* Three nets that send, keep, let go, drop and connect again as a seed says.
 * node.h checks every arrival; here, that every send was told exactly once. */
typedef struct chaos {
    node *nodes[3];
    int taken[3]; // sends that were taken
    muster_rng rng;
} chaos;

static void chaos_send(chaos *it, unsigned who)
{
    static const uint64_t sizes[] = {UINT64_MAX, 0, 300, 65536, 150000, 700000};
    node *self = it->nodes[who];
    muster_peer peer = 1 + muster_rng_below(&it->rng, self->last_up + 2);
    note what = {(uint64_t)it->taken[who], sizes[muster_rng_below(&it->rng, 6)],
                 muster_rng_next(&it->rng), muster_rng_below(&it->rng, 300)};
    bool shared = muster_rng_below(&it->rng, 3) > 0;
    uint32_t slot = (uint32_t)muster_rng_below(&it->rng, 3);
    muster_status status = node_send(self, peer, &what, shared, slot);
    assert_true(status == MUSTER_OK || status == MUSTER_ERR_AGAIN ||
                status == MUSTER_ERR_PEER_LOST);
    it->taken[who] += status == MUSTER_OK;
}

static void chaos_act(chaos *it)
{
    unsigned who = (unsigned)muster_rng_below(&it->rng, 3);
    node *self = it->nodes[who];
    uint64_t choice = muster_rng_below(&it->rng, 100);
    if (choice < 45) {
        chaos_send(it, who);
    } else if (choice < 93) {
        self->keep = self->kept_count < 4 && choice % 2 == 0;
        assert_int_equal(self->backend->poll(self->net, 0), MUSTER_OK);
    } else if (choice < 96 && self->kept_count > 0) {
        self->kept_count--;
        muster_blob_unref(self->kept[self->kept_count]);
    } else if (choice < 98) {
        muster_peer peer = 1 + muster_rng_below(&it->rng, self->last_up + 1);
        self->backend->drop(self->net, peer);
    } else {
        node_connect(self, it->nodes[(who + 1) % 3]->address);
    }
}

static void chaos_keeps_every_promise(void **state)
{
    const setting *where = *state;
    muster_net_opts opts = MUSTER_NET_OPTS_INIT;
    opts.queue_messages_max = 20;
    opts.queue_bytes_max = 2000000;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        chaos it = {.rng = muster_rng_make(seed, 0)};
        for (int i = 0; i < 3; i++) {
            it.nodes[i] = calloc(1, sizeof(node));
            node_open(it.nodes[i], where->backend, &opts);
            node_listen(it.nodes[i], where);
        }
        for (int i = 0; i < 3; i++) {
            node_connect(it.nodes[i], it.nodes[(i + 1) % 3]->address);
        }
        for (int i = 0; i < 3; i++) {
            drive(it.nodes, 3, &it.nodes[i]->ups, 2);
        }
        for (int act = 0; act < 1500; act++) {
            chaos_act(&it);
        }
        for (int i = 0; i < 3; i++) {
            assert_in_range(it.nodes[i]->messages, 1, NODE_MESSAGES);
            node_close(it.nodes[i]);
            assert_int_equal(node_dones(it.nodes[i]), it.taken[i]);
            assert_int_equal(it.nodes[i]->done_other, 0);
            free(it.nodes[i]);
        }
    }
}

/* processes --------------------------------------------------------------- */

/* A child that connects and answers every message, until it is lost. */
static pid_t fork_echo(const setting *where, const char *address)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child > 0) {
        return child;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL); // do not outlive a test that failed
    node *self = calloc(1, sizeof(*self));
    node_open(self, where->backend, NULL);
    self->echo = true;
    node_connect(self, address);
    while (self->downs == 0) {
        if (where->backend->poll(self->net, -1) != MUSTER_OK) {
            _exit(3);
        }
    }
    _exit(0);
}

static void reap(pid_t child, int signal_wanted)
{
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (signal_wanted != 0) {
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), signal_wanted);
    } else {
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

static void a_killed_process_is_a_lost_peer(void **state)
{
    const setting *where = *state;
    node *hub = calloc(1, sizeof(*hub));
    node *nodes[1] = {hub};
    node_open(hub, where->backend, NULL);
    node_listen(hub, where);
    pid_t first = fork_echo(where, hub->address);
    drive(nodes, 1, &hub->ups, 1);
    pid_t second = fork_echo(where, hub->address);
    drive(nodes, 1, &hub->ups, 2);
    note what = {1, 300000, 1, 0};
    assert_int_equal(node_send(hub, 1, &what, true, 0), MUSTER_OK);
    drive(nodes, 1, &hub->messages, 1);
    kill(first, SIGKILL);
    reap(first, SIGKILL);
    drive(nodes, 1, &hub->downs, 1);
    assert_true(hub->down[1]);
    assert_int_equal(hub->down_status, MUSTER_ERR_PEER_LOST);
    assert_int_equal(node_send(hub, 2, &what, true, 0), MUSTER_OK);
    drive(nodes, 1, &hub->messages, 2);
    node_close(hub);
    reap(second, 0);
    free(hub);
}

/* Send the same payload to both peers, the newest replacing what waits. A
 * transport may give a peer up that reads nothing for long. */
static void offer(node *hub, uint64_t number)
{
    note what = {number, 1 << 19, number, 0};
    muster_blob *payload = hub->backend->blob(hub->net, what.payload_bytes);
    assert_non_null(payload);
    node_fill(payload, number);
    for (muster_peer peer = 1; peer <= 2; peer++) {
        muster_status status =
            node_send_raw(hub, peer, &what, sizeof(what), payload, 1);
        assert_true(status == MUSTER_OK || hub->down[1]);
    }
    muster_blob_unref(payload);
}

static void a_stopped_process_delays_nobody(void **state)
{
    const setting *where = *state;
    node *hub = calloc(1, sizeof(*hub));
    node *nodes[1] = {hub};
    node_open(hub, where->backend, NULL);
    node_listen(hub, where);
    pid_t stopped = fork_echo(where, hub->address);
    drive(nodes, 1, &hub->ups, 1);
    pid_t lively = fork_echo(where, hub->address);
    drive(nodes, 1, &hub->ups, 2);
    kill(stopped, SIGSTOP);
    int status = 0;
    assert_int_equal(waitpid(stopped, &status, WUNTRACED), stopped);
    assert_true(WIFSTOPPED(status));
    const int rounds = 60;
    for (int i = 0; i < rounds; i++) {
        offer(hub, (uint64_t)i);
        drive(nodes, 1, &hub->messages, i + 1);
        assert_int_equal(hub->from[i], 2);
    }
    kill(stopped, SIGCONT);
    if (strncmp(where->pattern, "unix", 4) == 0) {
        assert_int_equal(hub->downs, 0);
    }
    if (hub->downs == 0) {
        // Most were replaced: a stopped peer does not pin what it cannot read.
        assert_in_range(hub->done_cancelled, rounds / 4, rounds);
        // What was not replaced arrives, the newest included.
        drive(nodes, 1, &hub->messages, 2 * rounds - hub->done_cancelled);
        assert_int_equal(hub->numbers[hub->messages - 1], rounds - 1);
    }
    node_close(hub);
    reap(stopped, 0);
    reap(lively, 0);
    free(hub);
}

/* A payload and a word to every peer that is up; all answer both. */
static void ask_all(node *hub)
{
    node *nodes[1] = {hub};
    int wanted = hub->messages;
    for (muster_peer peer = 1; peer < NODE_PEERS; peer++) {
        note what = {peer, 150000, peer, 0};
        if (!hub->up[peer] || hub->down[peer]) {
            continue;
        }
        assert_int_equal(node_send(hub, peer, &what, true, 0), MUSTER_OK);
        assert_int_equal(node_say(hub, peer, peer), MUSTER_OK);
        wanted += 2;
    }
    drive(nodes, 1, &hub->messages, wanted);
}

/* More processes than processors; one dies and another comes in its place. */
static void sixteen_processes_answer(void **state)
{
    enum { PEERS = 16 };
    const setting *where = *state;
    node *hub = calloc(1, sizeof(*hub));
    node *nodes[1] = {hub};
    pid_t children[PEERS];
    node_open(hub, where->backend, NULL);
    node_listen(hub, where);
    for (int i = 0; i < PEERS; i++) {
        children[i] = fork_echo(where, hub->address);
    }
    drive(nodes, 1, &hub->ups, PEERS);
    for (int round = 0; round < 5; round++) {
        ask_all(hub);
    }
    kill(children[3], SIGKILL);
    reap(children[3], SIGKILL);
    drive(nodes, 1, &hub->downs, 1);
    children[3] = fork_echo(where, hub->address);
    drive(nodes, 1, &hub->ups, PEERS + 1);
    ask_all(hub);
    assert_int_equal(hub->messages, 6 * 2 * PEERS);
    node_close(hub);
    for (int i = 0; i < PEERS; i++) {
        reap(children[i], 0);
    }
    free(hub);
}

/* the loop ---------------------------------------------------------------- */

static void idle_nets_sleep(void **state)
{
    pair *it = pair_open(state, NULL);
    note what = {1, 300000, 1, 0};
    assert_int_equal(node_send(&it->a, it->a_to_b, &what, true, 0), MUSTER_OK);
    drive(it->both, 2, &it->b.messages, 1);
    drive_on(it->both, 2);
    uint64_t before = it->a.backend->count(it->a.net).syscalls;
    const int polls = 40;
    for (int i = 0; i < polls; i++) {
        assert_int_equal(it->a.backend->poll(it->a.net, 1000000), MUSTER_OK);
    }
    // One wait each, and nothing between.
    assert_int_equal(it->a.backend->count(it->a.net).syscalls - before, polls);
    pair_close(it);
}

static void *wake_soon(void *argument)
{
    node *self = argument;
    self->backend->wake(self->net);
    return NULL;
}

static void wake_ends_a_poll(void **state)
{
    pair *it = pair_open(state, NULL);
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, wake_soon, &it->a), 0);
        // For ever, unless woken.
        assert_int_equal(it->a.backend->poll(it->a.net, -1), MUSTER_OK);
        pthread_join(thread, NULL);
        drive_on(it->both, 2);
    }
    assert_string_not_equal(it->a.backend->peer_name(it->a.net, it->a_to_b),
                            "");
    assert_non_null(it->a.backend->peer_name(it->a.net, 999));
    pair_close(it);
}

/* Let the allocation numbered `limit` and all after it fail. */
static bool survive(const setting *where, uint64_t limit)
{
    static const muster_net_callbacks callbacks = {0};
    muster_net *nets[2] = {0};
    char address[MUSTER_NET_ADDRESS_MAX];
    muster_peer peer = 0;
    muster_blob *large = NULL;
    muster_status worst = MUSTER_OK;
    next_address(where, address);
    muster_mem_fail_after(limit);
    for (int i = 0; i < 2 && worst == MUSTER_OK; i++) {
        worst = where->backend->open(NULL, &callbacks, NULL, NULL, &nets[i]);
    }
    if (worst == MUSTER_OK) {
        worst = where->backend->listen(nets[0], address, NULL, address);
    }
    if (worst == MUSTER_OK) {
        worst = where->backend->connect(nets[1], address, NULL, &peer);
    }
    if (worst == MUSTER_OK) {
        large = where->backend->blob(nets[1], 200000);
        muster_net_send_opts opts = {
            .header = "x", .header_bytes = 1, .payload = large};
        worst = where->backend->send(nets[1], peer, &opts);
        for (int turn = 0;
             turn < 200 &&
             where->backend->count(nets[0]).messages_received == 0;
             turn++) {
            for (int i = 0; i < 2; i++) {
                // An engine's own threads get the processor at last.
                int64_t wait_ns = turn > 30 ? 100000 : 0;
                assert_int_equal(where->backend->poll(nets[i], wait_ns),
                                 MUSTER_OK);
            }
        }
        if (where->backend->count(nets[0]).messages_received == 0) {
            worst = MUSTER_ERR_NO_MEMORY;
        }
    }
    muster_blob_unref(large);
    where->backend->close(nets[1]);
    where->backend->close(nets[0]);
    muster_mem_fail_after(UINT64_MAX);
    return worst == MUSTER_OK;
}

static void running_out_of_memory_breaks_nothing(void **state)
{
    const setting *where = *state;
    int failed = 0;
    while (failed < 500 && !survive(where, (uint64_t)failed)) {
        failed++;
    }
    assert_in_range(failed, 5, 499);
}

#endif // MUSTER_TESTS_NET_CONFORMANCE_ENDS_H
