/*
 * sim_queue_test.c -- the queue of events gives what a sorted list gives, item
 * by item: random pushes and pops of dense and of sparse times, with limits
 * that fall between items, after which earlier items are pushed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "sim/sim_inside.h"

#define ROUNDS 20000u
#define ROOM   4096u

/* The slow twin: (time, number) in order. */
typedef struct twin {
    int64_t at_ns[ROOM];
    uint64_t number[ROOM];
    size_t count;
} twin;

static void twin_push(twin *list, int64_t at_ns, uint64_t number)
{
    size_t at = list->count;
    while (at > 0 && list->at_ns[at - 1] > at_ns) {
        at--;
    }
    size_t after = list->count++ - at;
    memmove(list->at_ns + at + 1, list->at_ns + at, after * sizeof(int64_t));
    memmove(list->number + at + 1, list->number + at, after * sizeof(uint64_t));
    list->at_ns[at] = at_ns;
    list->number[at] = number;
}

static void twin_drop_first(twin *list)
{
    list->count--;
    memmove(list->at_ns, list->at_ns + 1, list->count * sizeof(int64_t));
    memmove(list->number, list->number + 1, list->count * sizeof(uint64_t));
}

/* Pop once from both; true when there was something until then. */
static bool pop_both(muster_sim *sim, twin *list, int64_t until_ns)
{
    muster_sim_item item;
    bool expected = list->count > 0 && list->at_ns[0] <= until_ns;
    assert_int_equal(muster_sim_pop(sim, until_ns, &item), expected);
    if (expected) {
        assert_int_equal(item.at_ns, list->at_ns[0]);
        assert_int_equal(item.as.ticket, list->number[0]);
        sim->now_ns = item.at_ns;
        twin_drop_first(list);
    }
    return expected;
}

static void check_spread(uint64_t seed, uint64_t span_ns)
{
    static twin list;
    muster_sim_process process = {0};
    muster_sim *sim = muster_mem_array(1, sizeof(*sim));
    assert_non_null(sim);
    list.count = 0;
    sim->processes = &process;
    muster_sim_queue_init(&sim->queue);
    muster_rng rng = muster_rng_make(seed, 1);
    for (uint64_t number = 0; number < ROUNDS; number++) {
        bool grows = (number / 1000) % 2 == 0;
        if (list.count < ROOM && muster_rng_below(&rng, 3) < (grows ? 2 : 1)) {
            uint64_t later = muster_rng_below(&rng, span_ns);
            muster_sim_item item = {.kind = MUSTER_SIM_JOB_END,
                                    .at_ns = sim->now_ns + (int64_t)later,
                                    .as.ticket = number};
            muster_sim_push(sim, &item);
            twin_push(&list, item.at_ns, number);
        } else {
            // Now and then until a time before the next item, or between.
            bool limited = muster_rng_below(&rng, 2) == 0;
            int64_t until_ns =
                limited ? sim->now_ns +
                              (int64_t)muster_rng_below(&rng, span_ns / 16 + 1)
                        : INT64_MAX;
            pop_both(sim, &list, until_ns);
        }
    }
    while (pop_both(sim, &list, INT64_MAX)) {
    }
    muster_sim_queue_fini(sim);
    muster_mem_free(sim);
}

static void items_come_by_time_and_then_in_order_of_scheduling(void **state)
{
    (void)state;
    static const uint64_t spans_ns[] = {1,        3,
                                        64,       5000,
                                        10000000, UINT64_C(1) << 36,
                                        1000000,  UINT64_C(1) << 47};
    for (size_t i = 0; i < sizeof(spans_ns) / sizeof(spans_ns[0]); i++) {
        check_spread(i + 1, spans_ns[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_come_by_time_and_then_in_order_of_scheduling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
