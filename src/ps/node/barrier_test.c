/*
 * barrier_test.c -- the barrier of a single node's workers: nobody passes
 * early, and nobody waits for those who will not come.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

#include "muster/ps.h"
#include "ps/node/inside.h"

#include "ps/node/alone_test.h"

enum { WORKERS = 4, ROUNDS = 200 };

typedef struct crew {
    muster_ps *ps;
    muster_ps_worker *workers[WORKERS];
    pthread_t threads[WORKERS];
    _Atomic uint32_t arrivals;
    _Atomic uint32_t early; // passed before all had come
} crew;

typedef struct seat {
    crew *crew;
    muster_ps_worker *worker;
    muster_status status;
} seat;

static void make_crew(crew *c)
{
    *c = (crew){.ps = test_alone_open(&(test_tables){0})};
    for (int i = 0; i < WORKERS; i++) {
        c->workers[i] = test_alone_worker(c->ps);
    }
}

static void free_crew(crew *c)
{
    for (int i = 0; i < WORKERS; i++) {
        muster_ps_worker_free(c->workers[i]);
    }
    muster_ps_free(c->ps);
}

static void *meet_again_and_again(void *argument)
{
    seat *s = argument;
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        atomic_fetch_add(&s->crew->arrivals, 1);
        s->status = muster_ps_barrier(s->worker);
        if (s->status != MUSTER_OK) {
            return NULL;
        }
        if (atomic_load(&s->crew->arrivals) < round * WORKERS) {
            atomic_fetch_add(&s->crew->early, 1);
        }
    }
    return NULL;
}

static void run_crew(crew *c, int present, seat *seats)
{
    for (int i = 0; i < present; i++) {
        seats[i] = (seat){.crew = c, .worker = c->workers[i]};
        assert_int_equal(pthread_create(&c->threads[i], NULL,
                                        meet_again_and_again, &seats[i]),
                         0);
    }
}

static void join_crew(crew *c, int present)
{
    for (int i = 0; i < present; i++) {
        assert_int_equal(pthread_join(c->threads[i], NULL), 0);
    }
}

static void nobody_passes_before_all_have_come(void **state)
{
    (void)state;
    crew c;
    seat seats[WORKERS];
    make_crew(&c);
    run_crew(&c, WORKERS, seats);
    join_crew(&c, WORKERS);
    for (int i = 0; i < WORKERS; i++) {
        assert_int_equal(seats[i].status, MUSTER_OK);
    }
    assert_int_equal(c.arrivals, WORKERS * ROUNDS);
    assert_int_equal(c.early, 0);
    free_crew(&c);
}

/* Whether the others wait already or come later, they do not hang. */
static void a_cancelled_barrier_lets_everybody_go(void **state)
{
    (void)state;
    crew c;
    seat seats[WORKERS];
    make_crew(&c);
    run_crew(&c, WORKERS - 1, seats);
    muster_ps_barrier_cancel(c.ps);
    join_crew(&c, WORKERS - 1);
    for (int i = 0; i < WORKERS - 1; i++) {
        assert_int_equal(seats[i].status, MUSTER_ERR_CANCELLED);
    }
    assert_int_equal(muster_ps_barrier(c.workers[WORKERS - 1]),
                     MUSTER_ERR_CANCELLED);
    free_crew(&c);
}

static void those_who_leave_are_not_waited_for(void **state)
{
    (void)state;
    crew c;
    seat seats[WORKERS];
    make_crew(&c);
    run_crew(&c, WORKERS - 1, seats);
    while (atomic_load(&c.arrivals) < WORKERS - 1) { // ends: they arrive
    }
    muster_ps_worker_free(c.workers[WORKERS - 1]);
    c.workers[WORKERS - 1] = NULL;
    join_crew(&c, WORKERS - 1);
    for (int i = 0; i < WORKERS - 1; i++) {
        assert_int_equal(seats[i].status, MUSTER_OK);
    }
    free_crew(&c);
}

static void after_a_loss_nobody_waits(void **state)
{
    (void)state;
    crew c;
    make_crew(&c);
    c.ps->barrier_status = MUSTER_ERR_PEER_LOST; // as the mesh leaves it
    assert_int_equal(muster_ps_barrier(c.workers[0]), MUSTER_ERR_PEER_LOST);
    free_crew(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_passes_before_all_have_come),
        cmocka_unit_test(a_cancelled_barrier_lets_everybody_go),
        cmocka_unit_test(those_who_leave_are_not_waited_for),
        cmocka_unit_test(after_a_loss_nobody_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
