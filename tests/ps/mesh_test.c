/*
 * mesh_test.c -- several nodes over real sockets, in one process: every push
 * counts once however rows are managed, barriers show everybody's work, a lost
 * node ends calls instead of hanging them.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "muster/ps.h"
#include "runtime/ps_loss.h"

enum { NODES_MAX = 3, WORKERS = 2, KEYS = 37, WIDTH = 3, ROUNDS = 400 };

typedef struct place {
    char folder[32];
    uint32_t nodes;
    uint32_t manage;
    uint32_t patience_ms; // 0: the default
    bool survive;
} place;

typedef struct member {
    const place *at;
    uint32_t node;
    muster_ps *ps;
    muster_status status;
    muster_ps_counters counted;
} member;

static void make_folder(place *p)
{
    (void)snprintf(p->folder, sizeof(p->folder), "/tmp/muster-mesh-XXXXXX");
    assert_non_null(mkdtemp(p->folder));
}

static void remove_folder(const place *p)
{
    char path[64];
    for (uint32_t i = 0; i < p->nodes; i++) {
        (void)snprintf(path, sizeof(path), "%s/node-%u", p->folder, i);
        (void)unlink(path);
    }
    assert_int_equal(rmdir(p->folder), 0);
}

static void survive(muster_ps *ps)
{
    muster_psloss loss = {.survive = true};
    muster_ps_on_loss(ps, &loss);
}

static muster_status open_node(member *m)
{
    muster_error error = {.text = ""};
    muster_ps_opts opts = MUSTER_PS_OPTS_INIT;
    opts.nodes = m->at->nodes;
    opts.node = m->node;
    opts.mesh = m->at->folder;
    opts.manage = m->at->manage;
    opts.staleness_ms = 10;
    opts.patience_ms =
        m->at->patience_ms > 0 ? m->at->patience_ms : opts.patience_ms;
    muster_status status = muster_ps_create(&opts, &error, &m->ps);
    if (status == MUSTER_OK && m->at->survive) {
        survive(m->ps);
    }
    for (uint32_t t = 0; t < 2 && status == MUSTER_OK; t++) {
        muster_ps_table_opts table = MUSTER_PS_TABLE_OPTS_INIT;
        uint32_t number;
        table.keys = KEYS;
        table.width = WIDTH;
        table.optimizer = t == 0 ? MUSTER_PS_NONE : MUSTER_PS_ADAGRAD;
        status = muster_ps_table_add(m->ps, &table, &error, &number);
    }
    return status == MUSTER_OK ? muster_ps_connect(m->ps, &error) : status;
}

static muster_status one_round(muster_ps_worker *worker, uint32_t *draw)
{
    uint32_t keys[4];
    float ones[4 * WIDTH];
    for (int i = 0; i < 4; i++) {
        *draw = *draw * 1664525u + 1013904223u;
        keys[i] = (*draw >> 8) % KEYS;
    }
    for (int i = 0; i < 4 * WIDTH; i++) {
        ones[i] = 1;
    }
    muster_status status = MUSTER_OK;
    if (*draw % 3 == 0) {
        status = muster_ps_localize(worker, 0, keys, 4);
        status = status == MUSTER_ERR_AGAIN ? MUSTER_OK : status;
    }
    if (status == MUSTER_OK) {
        status = muster_ps_push(worker, 0, keys, 4, ones);
    }
    float *row;
    if (status == MUSTER_OK) {
        status = muster_ps_begin(worker, 1, keys[0], &row);
    }
    if (status == MUSTER_OK) {
        row[0] += 1;
        row[WIDTH] += 2; // the optimiser's state travels too
        status = muster_ps_end(worker, 1, keys[0]);
    }
    return status;
}

static muster_status sum_table(muster_ps_worker *worker, double *sums)
{
    for (uint32_t key = 0; key < KEYS; key++) {
        float seen[WIDTH];
        float *row;
        muster_status status = muster_ps_pull(worker, 0, &key, 1, seen);
        if (status == MUSTER_OK) {
            sums[0] += (double)seen[WIDTH - 1];
            status = muster_ps_begin(worker, 1, key, &row);
        }
        if (status != MUSTER_OK) {
            return status;
        }
        sums[1] += (double)row[0];
        sums[2] += (double)row[WIDTH];
        status = muster_ps_end(worker, 1, key);
        if (status != MUSTER_OK) {
            return status;
        }
    }
    return MUSTER_OK;
}

typedef struct seat {
    member *of;
    uint32_t number;
    muster_ps_worker *worker;
    muster_status status;
    double sums[3];
} seat;

static void *work(void *argument)
{
    seat *s = argument;
    uint32_t draw = 7 * s->number + 1000 * s->of->node + 1;
    for (int i = 0; i < ROUNDS && s->status == MUSTER_OK; i++) {
        s->status = one_round(s->worker, &draw);
    }
    if (s->status == MUSTER_OK) {
        s->status = muster_ps_barrier(s->worker);
    }
    if (s->status == MUSTER_OK) {
        s->status = sum_table(s->worker, s->sums);
    }
    // Nobody leaves while others still look.
    if (s->status == MUSTER_OK) {
        s->status = muster_ps_barrier(s->worker);
    }
    return NULL;
}

static void *live(void *argument)
{
    member *m = argument;
    m->status = open_node(m);
    if (m->status != MUSTER_OK) {
        return NULL;
    }
    seat seats[WORKERS] = {{0}};
    pthread_t threads[WORKERS];
    for (uint32_t i = 0; i < WORKERS; i++) {
        seats[i].of = m;
        seats[i].number = i;
        m->status = muster_ps_worker_create(m->ps, &seats[i].worker);
        if (m->status != MUSTER_OK) {
            return NULL;
        }
    }
    for (uint32_t i = 0; i < WORKERS; i++) {
        (void)pthread_create(&threads[i], NULL, work, &seats[i]);
    }
    double expected = (double)m->at->nodes * WORKERS * ROUNDS;
    for (uint32_t i = 0; i < WORKERS; i++) {
        (void)pthread_join(threads[i], NULL);
        if (seats[i].status != MUSTER_OK) {
            m->status = seats[i].status;
        } else if (seats[i].sums[0] != 4 * expected ||
                   seats[i].sums[1] != expected ||
                   seats[i].sums[2] != 2 * expected) {
            m->status = MUSTER_ERR_PROTOCOL;
        }
    }
    for (uint32_t i = 0; i < WORKERS; i++) {
        muster_ps_worker_free(seats[i].worker);
    }
    // Nodes take leave of each other, so each goes in its own thread.
    m->counted = muster_ps_count(m->ps);
    muster_ps_free(m->ps);
    return NULL;
}

static void every_push_counts_once_however_rows_are_managed(void **state)
{
    (void)state;
    for (uint32_t manage = 0; manage <= MUSTER_PS_CLASSIC; manage++) {
        place p = {.nodes = 2 + manage % 2, .manage = manage};
        make_folder(&p);
        member members[NODES_MAX];
        pthread_t threads[NODES_MAX];
        for (uint32_t i = 0; i < p.nodes; i++) {
            members[i] = (member){.at = &p, .node = i};
            assert_int_equal(
                pthread_create(&threads[i], NULL, live, &members[i]), 0);
        }
        for (uint32_t i = 0; i < p.nodes; i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
            assert_int_equal(members[i].status, MUSTER_OK);
        }
        uint64_t moved = 0;
        uint64_t copied = 0;
        for (uint32_t i = 0; i < p.nodes; i++) {
            muster_ps_counters c = members[i].counted;
            moved += c.relocations;
            copied += c.replicas;
            assert_true(c.accesses > ROUNDS);
        }
        bool moves = manage == MUSTER_PS_AUTO || manage == MUSTER_PS_RELOCATE;
        bool copies = manage == MUSTER_PS_AUTO || manage == MUSTER_PS_REPLICATE;
        assert_int_equal(moved > 0, moves);
        assert_int_equal(copied > 0, copies);
        remove_folder(&p);
    }
}

static void *just_open(void *argument)
{
    member *m = argument;
    m->status = open_node(m);
    return NULL;
}

static void a_lost_node_ends_calls_instead_of_hanging_them(void **state)
{
    (void)state;
    place p = {.nodes = 2, .manage = MUSTER_PS_CLASSIC};
    make_folder(&p);
    member members[2];
    pthread_t threads[2];
    for (uint32_t i = 0; i < 2; i++) {
        members[i] = (member){.at = &p, .node = i};
        assert_int_equal(
            pthread_create(&threads[i], NULL, just_open, &members[i]), 0);
    }
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(members[i].status, MUSTER_OK);
    }
    muster_ps_worker *worker = NULL;
    assert_int_equal(muster_ps_worker_create(members[0].ps, &worker),
                     MUSTER_OK);
    uint32_t there = 1;
    float seen[WIDTH];
    assert_int_equal(muster_ps_pull(worker, 0, &there, 1, seen), MUSTER_OK);
    // A node that goes in peace is no loss, but its rows are gone with it.
    muster_ps_free(members[1].ps);
    muster_status status = MUSTER_OK;
    for (int i = 0; i < 1000 && status == MUSTER_OK; i++) {
        status = muster_ps_pull(worker, 0, &there, 1, seen);
    }
    assert_int_equal(status, MUSTER_ERR_PEER_LOST);
    uint32_t here = 0;
    assert_int_equal(muster_ps_pull(worker, 0, &here, 1, seen), MUSTER_OK);
    muster_ps_worker_free(worker);
    muster_ps_free(members[0].ps);
    remove_folder(&p);
}

static void *just_meet(void *argument)
{
    seat *s = argument;
    s->status = muster_ps_barrier(s->worker);
    return NULL;
}

/* One worker is sent off from the barrier and goes; the other comes later. */
static void a_barrier_after_a_loss_waits_for_nobody(void **state)
{
    (void)state;
    place p = {.nodes = 2, .manage = MUSTER_PS_CLASSIC};
    make_folder(&p);
    member members[2];
    seat seats[2] = {{0}};
    pthread_t threads[2];
    for (uint32_t i = 0; i < 2; i++) {
        members[i] = (member){.at = &p, .node = i};
        assert_int_equal(
            pthread_create(&threads[i], NULL, just_open, &members[i]), 0);
    }
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(
            muster_ps_worker_create(members[0].ps, &seats[i].worker),
            MUSTER_OK);
    }
    assert_int_equal(pthread_create(&threads[0], NULL, just_meet, &seats[0]),
                     0);
    (void)usleep(50000); // it waits, or it comes too late: both must end
    muster_ps_free(members[1].ps);
    assert_int_equal(pthread_join(threads[0], NULL), 0);
    assert_int_equal(seats[0].status, MUSTER_ERR_PEER_LOST);
    muster_ps_worker_free(seats[0].worker);
    assert_int_equal(muster_ps_barrier(seats[1].worker), MUSTER_ERR_PEER_LOST);
    muster_ps_worker_free(seats[1].worker);
    muster_ps_free(members[0].ps);
    remove_folder(&p);
}

static void *push_all_and_meet(void *argument)
{
    member *m = argument;
    muster_ps_worker *worker = NULL;
    m->status = muster_ps_worker_create(m->ps, &worker);
    for (uint32_t key = 0; key < KEYS && m->status == MUSTER_OK; key++) {
        const float one[WIDTH] = {1, 1, 1};
        m->status = muster_ps_push(worker, 0, &key, 1, one);
    }
    if (m->status == MUSTER_OK) {
        m->status = muster_ps_barrier(worker);
    }
    muster_ps_worker_free(worker);
    return NULL;
}

static void in_all(member *members, uint32_t count, void *(*body)(void *))
{
    pthread_t threads[NODES_MAX];
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, body, &members[i]),
                         0);
    }
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(members[i].status, MUSTER_OK);
    }
}

static void *just_free(void *argument)
{
    member *m = argument;
    muster_ps_free(m->ps);
    return NULL;
}

/* Rows stay at home here, so those of node 2 are known to go with it. */
static void calls_wait_through_the_loss_of_a_node(void **state)
{
    (void)state;
    place p = {.nodes = 3, .manage = MUSTER_PS_CLASSIC, .survive = true};
    make_folder(&p);
    member members[3];
    for (uint32_t i = 0; i < 3; i++) {
        members[i] = (member){.at = &p, .node = i};
    }
    in_all(members, 3, just_open);
    in_all(members, 3, push_all_and_meet);
    assert_int_equal(muster_ps_met(members[0].ps), 7);
    muster_ps_abandon(members[2].ps);
    muster_ps_free(members[2].ps);
    in_all(members, 2, push_all_and_meet);
    assert_int_equal(muster_ps_met(members[0].ps), 3);
    assert_int_equal(muster_ps_lost(members[1].ps), 4);
    muster_ps_worker *worker = NULL;
    assert_int_equal(muster_ps_worker_create(members[1].ps, &worker),
                     MUSTER_OK);
    for (uint32_t key = 0; key < KEYS; key++) {
        float seen[WIDTH];
        assert_int_equal(muster_ps_pull(worker, 0, &key, 1, seen), MUSTER_OK);
        assert_true(seen[0] == (key % 3 == 2 ? 2 : 5));
    }
    muster_ps_worker_free(worker);
    in_all(members, 2, just_free);
    remove_folder(&p);
}

static void nodes_meet_over_tcp_as_well(void **state)
{
    (void)state;
    // A range of ports that nobody uses is found by trying.
    for (unsigned port = 21000 + (unsigned)getpid() % 20000, tries = 0;;
         port += 7, tries++) {
        place p = {.nodes = 3, .patience_ms = 5000};
        (void)snprintf(p.folder, sizeof(p.folder), "tcp:127.0.0.1:%u", port);
        member members[3];
        pthread_t threads[3];
        bool met = true;
        for (uint32_t i = 0; i < 3; i++) {
            members[i] = (member){.at = &p, .node = i};
            assert_int_equal(
                pthread_create(&threads[i], NULL, live, &members[i]), 0);
        }
        for (uint32_t i = 0; i < 3; i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
            met = met && members[i].status == MUSTER_OK;
        }
        if (met) {
            return;
        }
        assert_true(tries < 5);
    }
}

static void a_node_that_does_not_come_is_named(void **state)
{
    (void)state;
    place p = {.nodes = 2};
    make_folder(&p);
    muster_error error = {.text = ""};
    muster_ps *ps = NULL;
    uint32_t number;
    muster_ps_opts opts = MUSTER_PS_OPTS_INIT;
    muster_ps_table_opts table = MUSTER_PS_TABLE_OPTS_INIT;
    table.keys = 2;
    table.width = 1;
    opts.nodes = 2;
    opts.mesh = p.folder;
    opts.patience_ms = 50;
    assert_int_equal(muster_ps_create(&opts, &error, &ps), MUSTER_OK);
    assert_int_equal(muster_ps_connect(ps, &error), MUSTER_ERR_INVALID);
    assert_int_equal(muster_ps_table_add(ps, &table, &error, &number),
                     MUSTER_OK);
    muster_ps_worker *worker = NULL;
    assert_int_equal(muster_ps_worker_create(ps, &worker), MUSTER_ERR_INVALID);
    assert_int_equal(muster_ps_connect(ps, &error), MUSTER_ERR_TIMED_OUT);
    assert_non_null(strstr(error.text, "0 of 1"));
    muster_ps_free(ps);
    remove_folder(&p);
}

/* Node 2 of 3 never comes; node 1 would wait for it for long, the lead not. */
static void a_node_does_not_wait_on_without_its_lead(void **state)
{
    (void)state;
    place hasty = {.nodes = 3, .patience_ms = 2000};
    make_folder(&hasty);
    place patient = hasty;
    patient.patience_ms = 60000;
    member members[2] = {{.at = &hasty, .node = 0},
                         {.at = &patient, .node = 1}};
    pthread_t threads[2];
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(
            pthread_create(&threads[i], NULL, just_open, &members[i]), 0);
    }
    assert_int_equal(pthread_join(threads[0], NULL), 0);
    assert_int_equal(members[0].status, MUSTER_ERR_TIMED_OUT);
    muster_ps_free(members[0].ps);
    assert_int_equal(pthread_join(threads[1], NULL), 0);
    assert_int_equal(members[1].status, MUSTER_ERR_PEER_LOST);
    muster_ps_free(members[1].ps);
    remove_folder(&hasty);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_push_counts_once_however_rows_are_managed),
        cmocka_unit_test(a_lost_node_ends_calls_instead_of_hanging_them),
        cmocka_unit_test(a_barrier_after_a_loss_waits_for_nobody),
        cmocka_unit_test(calls_wait_through_the_loss_of_a_node),
        cmocka_unit_test(nodes_meet_over_tcp_as_well),
        cmocka_unit_test(a_node_that_does_not_come_is_named),
        cmocka_unit_test(a_node_does_not_wait_on_without_its_lead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
