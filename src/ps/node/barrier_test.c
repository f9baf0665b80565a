/*
 * barrier_test.c -- the barrier of a single node's workers: none passes early,
 * and none waits for workers that will not come.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

#include "muster/ps.h"
#include "ps/node/inside.h"

#include "ps/node/node_test.h"

enum { WORKERS = 4, ROUNDS = 200 };

typedef struct team {
    muster_ps *ps;
    muster_ps_worker *workers[WORKERS];
    pthread_t threads[WORKERS];
    _Atomic uint32_t arrivals;
    _Atomic uint32_t early; // passed before all had come
} team;

typedef struct member {
    team *team;
    muster_ps_worker *worker;
    muster_status status;
} member;

static void make_team(team *c)
{
    *c = (team){.ps = test_alone_open(&(test_mesh){0})};
    for (int i = 0; i < WORKERS; i++) {
        c->workers[i] = test_worker_open(c->ps);
    }
}

static void free_team(team *c)
{
    for (int i = 0; i < WORKERS; i++) {
        muster_ps_worker_free(c->workers[i]);
    }
    muster_ps_free(c->ps);
}

static void *meet_again_and_again(void *argument)
{
    member *s = argument;
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        atomic_fetch_add(&s->team->arrivals, 1);
        s->status = muster_ps_barrier(s->worker);
        if (s->status != MUSTER_OK) {
            return NULL;
        }
        if (atomic_load(&s->team->arrivals) < round * WORKERS) {
            atomic_fetch_add(&s->team->early, 1);
        }
    }
    return NULL;
}

static void start_team(team *c, int present, member *members)
{
    for (int i = 0; i < present; i++) {
        members[i] = (member){.team = c, .worker = c->workers[i]};
        assert_int_equal(pthread_create(&c->threads[i], NULL,
                                        meet_again_and_again, &members[i]),
                         0);
    }
}

static void join_team(team *c, int present)
{
    for (int i = 0; i < present; i++) {
        assert_int_equal(pthread_join(c->threads[i], NULL), 0);
    }
}

static void no_worker_passes_before_all_have_come(void **state)
{
    (void)state;
    team c;
    member members[WORKERS];
    make_team(&c);
    start_team(&c, WORKERS, members);
    join_team(&c, WORKERS);
    for (int i = 0; i < WORKERS; i++) {
        assert_int_equal(members[i].status, MUSTER_OK);
    }
    assert_int_equal(c.arrivals, WORKERS * ROUNDS);
    assert_int_equal(c.early, 0);
    free_team(&c);
}

/* Whether the others wait already or come later, they do not hang. */
static void a_cancelled_barrier_lets_every_worker_go(void **state)
{
    (void)state;
    team c;
    member members[WORKERS];
    make_team(&c);
    start_team(&c, WORKERS - 1, members);
    muster_ps_barrier_cancel(c.ps);
    join_team(&c, WORKERS - 1);
    for (int i = 0; i < WORKERS - 1; i++) {
        assert_int_equal(members[i].status, MUSTER_ERR_CANCELLED);
    }
    assert_int_equal(muster_ps_barrier(c.workers[WORKERS - 1]),
                     MUSTER_ERR_CANCELLED);
    free_team(&c);
}

static void workers_that_end_are_not_waited_for(void **state)
{
    (void)state;
    team c;
    member members[WORKERS];
    make_team(&c);
    start_team(&c, WORKERS - 1, members);
    while (atomic_load(&c.arrivals) < WORKERS - 1) { // ends: they arrive
    }
    muster_ps_worker_free(c.workers[WORKERS - 1]);
    c.workers[WORKERS - 1] = NULL;
    join_team(&c, WORKERS - 1);
    for (int i = 0; i < WORKERS - 1; i++) {
        assert_int_equal(members[i].status, MUSTER_OK);
    }
    free_team(&c);
}

static void after_a_loss_no_worker_waits(void **state)
{
    (void)state;
    team c;
    make_team(&c);
    c.ps->barrier.status = MUSTER_ERR_PEER_LOST; // as the mesh leaves it
    assert_int_equal(muster_ps_barrier(c.workers[0]), MUSTER_ERR_PEER_LOST);
    free_team(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_worker_passes_before_all_have_come),
        cmocka_unit_test(a_cancelled_barrier_lets_every_worker_go),
        cmocka_unit_test(workers_that_end_are_not_waited_for),
        cmocka_unit_test(after_a_loss_no_worker_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
