/*
 * threads_test.c -- every task is done once, by however many threads.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/threads.h"

#define TASKS 100u
#define RUNS  300u

typedef struct tally {
    _Atomic uint32_t done[TASKS];
    uint32_t plain[TASKS]; // not atomic: run must order these
} tally;

static void count_task(void *context, uint32_t index)
{
    tally *all = context;
    all->done[index]++;
    all->plain[index]++;
}

static void check_runs(muster_threads *pool)
{
    tally all = {{0}, {0}};
    for (uint32_t run = 0; run < RUNS; run++) {
        muster_threads_run(pool, run % (TASKS + 1), count_task, &all);
    }
    uint32_t sum = 0;
    for (uint32_t i = 0; i < TASKS; i++) {
        assert_int_equal(all.done[i], all.plain[i]);
        sum += all.plain[i];
    }
    uint32_t wanted = 0;
    for (uint32_t run = 0; run < RUNS; run++) {
        wanted += run % (TASKS + 1);
    }
    assert_int_equal(sum, wanted);
}

static void every_task_is_done_once(void **state)
{
    (void)state;
    check_runs(NULL);
    for (uint32_t threads = 1; threads <= 8; threads++) {
        muster_threads *pool = NULL;
        assert_int_equal(muster_threads_create(threads, &pool), MUSTER_OK);
        assert_int_equal(muster_threads_count(pool), threads);
        check_runs(pool);
        muster_threads_free(pool);
    }
}

static void threads_that_did_nothing_end(void **state)
{
    (void)state;
    muster_threads *pool = NULL;
    assert_int_equal(muster_threads_create(MUSTER_THREADS_MAX, &pool),
                     MUSTER_OK);
    muster_threads_free(pool);
    muster_threads_free(NULL);
}

static void short_work_has_few_parts(void **state)
{
    (void)state;
    muster_threads *pool = NULL;
    assert_int_equal(muster_threads_create(4, &pool), MUSTER_OK);
    assert_int_equal(muster_threads_parts(NULL, 1e6), 1);
    assert_int_equal(muster_threads_parts(pool, 0), 1);
    assert_int_equal(muster_threads_parts(pool, 1e6), 4);
    uint32_t before = 1;
    for (double work_us = 0; work_us < 100; work_us += 1) {
        uint32_t parts = muster_threads_parts(pool, work_us);
        assert_in_range(parts, before, 4);
        before = parts;
    }
    tally all = {{0}, {0}};
    for (uint32_t run = 0; run < RUNS; run++) { // some wake, some do not
        muster_threads_run_some(pool, TASKS, run, count_task, &all);
    }
    for (uint32_t i = 0; i < TASKS; i++) {
        assert_int_equal(all.plain[i], RUNS);
    }
    muster_threads_free(pool);
}

/* Two tasks that are there at once. */
typedef struct meeting {
    pthread_t caller;
    _Atomic uint32_t there;
    _Atomic int processors; // of the other thread
    _Atomic int nice;       // likewise
} meeting;

static void meet(void *context, uint32_t index)
{
    meeting *both = context;
    cpu_set_t mine;
    (void)index;
    if (pthread_equal(pthread_self(), both->caller) == 0) {
        both->nice = getpriority(PRIO_PROCESS, 0);
        if (sched_getaffinity(0, sizeof(mine), &mine) == 0) {
            both->processors = CPU_COUNT(&mine);
        }
    }
    both->there++;
    while (both->there < 2) {
        (void)sched_yield();
    }
}

static void threads_that_yield_have_a_lower_priority(void **state)
{
    (void)state;
    int here = getpriority(PRIO_PROCESS, 0); // a larger one is nicer
    muster_threads *equal = NULL;
    muster_threads *lower = NULL;
    assert_int_equal(muster_threads_create(2, &equal), MUSTER_OK);
    assert_int_equal(muster_threads_create_yielding(2, &lower), MUSTER_OK);
    meeting first = {.caller = pthread_self()};
    meeting second = {.caller = pthread_self()};
    muster_threads_run(equal, 2, meet, &first);
    muster_threads_run(lower, 2, meet, &second);
    assert_int_equal(first.nice, here);
    assert_true(here < 19 ? second.nice > here : second.nice == here);
    assert_int_equal(getpriority(PRIO_PROCESS, 0), here);
    muster_threads_free(equal);
    muster_threads_free(lower);
}

/* Processors that this thread may use and choose from; 0, and why: none. */
static int processors_to_choose(void)
{
    cpu_set_t mine;
    if (sched_getaffinity(0, sizeof(mine), &mine) != 0 ||
        sched_setaffinity(0, sizeof(mine), &mine) != 0) {
        print_message("skipped: the system refuses threads an affinity\n");
        return 0;
    }
    if (CPU_COUNT(&mine) < 2) {
        print_message("skipped: there is one processor\n");
        return 0;
    }
    return CPU_COUNT(&mine);
}

/* Turns until a thread has slept once: each is longer than it looks. */
#define TURNS_MAX 10000u

static void a_thread_wakes_on_processors_of_its_own(void **state)
{
    (void)state;
    muster_threads *pool = NULL;
    int here = processors_to_choose();
    if (here == 0) {
        skip();
    }
    assert_int_equal(muster_threads_create(2, &pool), MUSTER_OK);
    meeting both = {.caller = pthread_self(), .processors = here};
    for (uint32_t i = 0; i < TURNS_MAX && both.processors == here; i++) {
        const struct timespec while_it_looks = {0, 2000000};
        (void)nanosleep(&while_it_looks, NULL);
        both.there = 0;
        muster_threads_run(pool, 2, meet, &both);
    }
    assert_in_range(both.processors, 1, (here + 1) / 2);
    muster_threads_free(pool);
}

/* A run that goes on for one of two threads: the one that is at work. The other
 * waits, for the next run or for the end of this one. */
enum { CALLER, OTHER };

typedef struct long_run {
    pthread_t caller;
    int at_work;
    int64_t lasts_ns;       // 0: until the other one sleeps
    _Atomic int numbers[2]; // of the threads that are in it
    char state;             // of who waits, at the end: R: it runs or could;
                            // S: it sleeps
    int64_t told_ns;        // when
} long_run;

#define SLEEPS_IN_NS (60 * MUSTER_NS_PER_S) // or never

static char state_of(int thread)
{
    char path[64];
    char state = '?';
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", thread);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*d (%*[^)]) %c", &state), 1);
    fclose(file);
    return state;
}

static void watch(long_run *run, int thread)
{
    int64_t end_ns =
        muster_clock_ns() + (run->lasts_ns > 0 ? run->lasts_ns : SLEEPS_IN_NS);
    while (muster_clock_ns() < end_ns &&
           (run->lasts_ns > 0 || state_of(thread) != 'S')) {
        (void)sched_yield();
    }
    run->state = state_of(thread);
    run->told_ns = muster_clock_ns();
}

static void be_long(void *context, uint32_t index)
{
    long_run *run = context;
    int me = pthread_equal(pthread_self(), run->caller) != 0 ? CALLER : OTHER;
    (void)index;
    run->numbers[me] = (int)syscall(SYS_gettid);
    while (run->numbers[CALLER] == 0 || run->numbers[OTHER] == 0) {
        (void)sched_yield();
    }
    if (me == run->at_work) {
        watch(run, run->numbers[1 - me]);
    }
}

/* Runs longer than a thread looks for one, and less than it looks in one. */
#define LONG_NS 3000000
#define SLOW_NS 10000000 // this machine is: it tells nothing
#define TRIES   10

static void nobody_sleeps_while_a_run_is_under_way(void **state)
{
    (void)state;
    muster_threads *pool = NULL;
    uint32_t told = 0;
    assert_int_equal(muster_threads_create(2, &pool), MUSTER_OK);
    for (int i = 0; i < 2 * TRIES; i++) {
        long_run run = {.caller = pthread_self(),
                        .at_work = i % 2 == 0 ? CALLER : OTHER,
                        .lasts_ns = LONG_NS};
        int64_t begin_ns = muster_clock_ns();
        muster_threads_run(pool, 2, be_long, &run);
        if (run.told_ns - begin_ns < SLOW_NS) {
            assert_int_equal(run.state, 'R');
            told++;
        }
    }
    muster_threads_free(pool);
    if (told == 0) {
        print_message("skipped: other programs keep the processors\n");
        skip();
    }
}

static void who_waits_sleeps_in_a_run_of_minutes(void **state)
{
    (void)state;
    muster_threads *pool = NULL;
    assert_int_equal(muster_threads_create(2, &pool), MUSTER_OK);
    for (int i = 0; i < 2 * TRIES; i++) {
        long_run run = {.caller = pthread_self(),
                        .at_work = i % 2 == 0 ? CALLER : OTHER};
        muster_threads_run(pool, 2, be_long, &run);
        assert_int_equal(run.state, 'S');
    }
    check_runs(pool); // all are awake again
    muster_threads_free(pool);
}

static void parts_cover_a_range_once(void **state)
{
    (void)state;
    for (uint32_t size = 0; size < 200; size += 7) {
        for (uint32_t parts = 1; parts < 20; parts++) {
            assert_int_equal(muster_threads_part(size, parts, 0), 0);
            assert_int_equal(muster_threads_part(size, parts, parts), size);
            for (uint32_t i = 0; i < parts; i++) {
                uint64_t end = muster_threads_part(size, parts, i + 1);
                assert_true(muster_threads_part(size, parts, i) <= end);
                assert_true(end % 16 == 0 || end == size);
            }
        }
    }
}

static void this_program_may_use_a_processor(void **state)
{
    (void)state;
    assert_in_range(muster_threads_here(), 1, MUSTER_THREADS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_is_done_once),
        cmocka_unit_test(threads_that_did_nothing_end),
        cmocka_unit_test(short_work_has_few_parts),
        cmocka_unit_test(a_thread_wakes_on_processors_of_its_own),
        cmocka_unit_test(threads_that_yield_have_a_lower_priority),
        cmocka_unit_test(nobody_sleeps_while_a_run_is_under_way),
        cmocka_unit_test(who_waits_sleeps_in_a_run_of_minutes),
        cmocka_unit_test(parts_cover_a_range_once),
        cmocka_unit_test(this_program_may_use_a_processor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
