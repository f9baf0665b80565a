/*
 * threads_test.c -- every task is done once, by however many threads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

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
        cmocka_unit_test(parts_cover_a_range_once),
        cmocka_unit_test(this_program_may_use_a_processor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
