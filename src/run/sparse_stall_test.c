/*
 * sparse_stall_test.c -- which worker threads stand still. Threads and CPU
 * clocks are real, the time of a look is made up: a look comes when every
 * thread does what the test wants of it, and no test measures time.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"
#include "ps/node/inside.h"
#include "ps/node/loss.h"
#include "ps/node/node_test.h"
#include "run/sparse_stall.h"

enum { COMPUTES, STANDS, MEETS, THREADS };

typedef struct scene {
    muster_ps *ps;
    muster_ps_worker *workers[THREADS];
    pthread_t threads[THREADS];
    muster_stall_watch watch;
    _Atomic bool stop;
    _Atomic uint64_t rounds; // of the thread that computes
    sem_t never;
    int64_t now_ns;
} scene;

static void *compute(void *argument)
{
    scene *s = argument;
    muster_stall_begin(&s->watch, COMPUTES, s->workers[COMPUTES]);
    while (!atomic_load(&s->stop)) {
        atomic_fetch_add(&s->rounds, 1);
    }
    return NULL;
}

static void *stand(void *argument)
{
    scene *s = argument;
    muster_stall_begin(&s->watch, STANDS, s->workers[STANDS]);
    (void)sem_wait(&s->never);
    return NULL;
}

static void *meet(void *argument)
{
    scene *s = argument;
    muster_stall_begin(&s->watch, MEETS, s->workers[MEETS]);
    (void)!muster_ps_barrier(s->workers[MEETS]);
    (void)sem_wait(&s->never);
    return NULL;
}

/* A look after a short time; true: the thread used no CPU time since the last
 * one. */
static bool look(scene *s, int thread)
{
    s->now_ns += s->watch.limit_ns / 10;
    (void)muster_stall_look(&s->watch, s->now_ns);
    return s->watch.threads[thread].still_ns > 0;
}

/* The thread that computes has used some CPU time, by its own clock. */
static void let_it_compute(scene *s)
{
    struct timespec before;
    struct timespec after;
    clockid_t clock = atomic_load(&s->watch.threads[COMPUTES].cpu);
    assert_int_equal(clock_gettime(clock, &before), 0);
    do {
        (void)sched_yield();
        assert_int_equal(clock_gettime(clock, &after), 0);
    } while (before.tv_sec == after.tv_sec && before.tv_nsec == after.tv_nsec);
}

static void set_up(scene *s)
{
    void *(*const lives[THREADS])(void *) = {compute, stand, meet};
    *s = (scene){.ps = test_alone_open(&(test_mesh){0})};
    assert_int_equal(sem_init(&s->never, 0, 0), 0);
    assert_int_equal(muster_stall_init(&s->watch, s->ps, THREADS), MUSTER_OK);
    s->now_ns = s->watch.looked_ns;
    for (int i = 0; i < THREADS; i++) {
        s->workers[i] = test_worker_open(s->ps);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&s->threads[i], NULL, lives[i], s), 0);
        while (!atomic_load(&s->watch.threads[i].works)) {
            (void)sched_yield();
        }
    }
}

static void tear_down(scene *s)
{
    atomic_store(&s->stop, true);
    muster_ps_barrier_cancel(s->ps);
    (void)sem_post(&s->never);
    (void)sem_post(&s->never);
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(s->threads[i], NULL);
        muster_stall_end(&s->watch, (uint32_t)i);
        muster_ps_worker_free(s->workers[i]);
    }
    muster_ps_free(s->ps);
    muster_stall_fini(&s->watch);
    (void)sem_destroy(&s->never);
}

static void wait_at_barrier(const scene *s)
{
    while (atomic_load(&s->ps->shared.waits_for[s->workers[MEETS]->slot]) ==
           NULL) {
        (void)sched_yield();
    }
}

static void only_the_thread_that_does_nothing_stands_still(void **state)
{
    (void)state;
    scene s;
    set_up(&s);
    wait_at_barrier(&s);
    while (!look(&s, STANDS)) { // it may be on its way to where it stands
        (void)sched_yield();
    }
    int64_t since = s.now_ns - s.watch.threads[STANDS].still_ns;
    for (int i = 0; i < 20; i++) {
        let_it_compute(&s);
        (void)look(&s, STANDS);
        assert_int_equal(s.watch.threads[STANDS].still_ns, s.now_ns - since);
        assert_int_equal(s.watch.threads[COMPUTES].still_ns, 0);
        assert_int_equal(s.watch.threads[MEETS].still_ns, 0);
    }
    assert_int_equal(muster_stall_look(&s.watch, s.now_ns),
                     (s.now_ns - since) / MUSTER_NS_PER_MS);
    assert_true(s.watch.threads[STANDS].told);
    assert_true(!s.watch.threads[COMPUTES].told &&
                !s.watch.threads[MEETS].told);
    tear_down(&s);
}

/* What it waited for has come: from then on it has work, awake or not. */
static void
a_thread_whose_wait_has_ended_stands_still_until_it_wakes(void **state)
{
    (void)state;
    scene s;
    set_up(&s);
    wait_at_barrier(&s);
    (void)pthread_mutex_lock(
        &s.ps->barrier.lock); // it cannot wake from here on
    muster_barrier_end_waits(s.ps);
    while (!look(&s, MEETS)) {
        (void)sched_yield();
    }
    (void)pthread_mutex_unlock(&s.ps->barrier.lock);
    tear_down(&s);
}

static void
a_pause_of_the_process_counts_as_a_quarter_of_the_limit(void **state)
{
    (void)state;
    scene s;
    set_up(&s);
    while (!look(&s, STANDS)) {
        (void)sched_yield();
    }
    const muster_stall_thread *thread = &s.watch.threads[STANDS];
    int64_t before_ns = thread->still_ns;
    s.now_ns += 100 * s.watch.limit_ns;
    (void)muster_stall_look(&s.watch, s.now_ns);
    assert_int_equal(thread->still_ns, before_ns + s.watch.limit_ns / 4);
    // On a busy machine looks are rare; a thread that stands still is named.
    for (int i = 0; i < 3; i++) {
        assert_true(!thread->told);
        s.now_ns += s.watch.limit_ns / 2;
        (void)muster_stall_look(&s.watch, s.now_ns);
    }
    assert_true(thread->told);
    tear_down(&s);
}

static void a_thread_that_was_joined_has_no_work(void **state)
{
    (void)state;
    scene s;
    set_up(&s);
    atomic_store(&s.stop, true);
    (void)pthread_join(s.threads[COMPUTES], NULL);
    assert_true(!look(&s, COMPUTES)); // joined: its clock is gone
    muster_stall_end(&s.watch, COMPUTES);
    assert_true(!look(&s, COMPUTES));
    assert_int_equal(pthread_create(&s.threads[COMPUTES], NULL, compute, &s),
                     0);
    tear_down(&s);
}

static void a_driver_that_does_not_look_stands_still(void **state)
{
    (void)state;
    muster_stall_watch watch = {.limit_ns = 1000};
    int64_t now = 0;
    for (int i = 0; i < 20; i++) {
        (void)muster_stall_look(&watch, now);
        assert_true(!muster_stall_driver_stalls(&watch, now));
        now += 100;
    }
    for (int i = 0; i < 9; i++) {
        assert_true(!muster_stall_driver_stalls(&watch, now));
        now += 100;
    }
    assert_true(muster_stall_driver_stalls(&watch, now));
    // A pause of the process is none of the driver.
    (void)muster_stall_look(&watch, now);
    assert_true(!muster_stall_driver_stalls(&watch, now));
    assert_true(!muster_stall_driver_stalls(&watch, now + 100000));
}

/* What was before the watch began does not count. */
static void time_counts_from_the_begin_of_the_watch(void **state)
{
    (void)state;
    int64_t before_ns = muster_clock_ns();
    scene s;
    set_up(&s);
    assert_in_range(s.watch.checked_ns, before_ns, muster_clock_ns());
    assert_true(!muster_stall_driver_stalls(&s.watch, s.now_ns + 5));
    assert_int_equal(s.watch.unseen_ns, 5);
    (void)muster_stall_look(&s.watch, s.now_ns + 7);
    assert_in_range(s.watch.threads[STANDS].still_ns, 0, 7);
    tear_down(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_thread_that_does_nothing_stands_still),
        cmocka_unit_test(
            a_thread_whose_wait_has_ended_stands_still_until_it_wakes),
        cmocka_unit_test(
            a_pause_of_the_process_counts_as_a_quarter_of_the_limit),
        cmocka_unit_test(a_thread_that_was_joined_has_no_work),
        cmocka_unit_test(a_driver_that_does_not_look_stands_still),
        cmocka_unit_test(time_counts_from_the_begin_of_the_watch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
