/*
 * greedy_test.c -- lazy greedy picks what naive greedy picks, item by item, on
 * dense and sparse similarities, with many blocks and with one, also where
 * gains are equal all over; and the sums it keeps are those of its sets.
 */
#include "partition/greedy.h"

#include "partition/partition_test.h"

#define ITEMS  60u
#define BLOCKS 5u

typedef struct greedy_case {
    muster_facility facility;
    float *dense;
    uint32_t quotas[BLOCKS];
    uint32_t blocks;
    uint32_t turn;
    muster_meter meter;
} greedy_case;

typedef struct greedy_answer {
    uint32_t owners[ITEMS];
    uint32_t places[ITEMS];
    uint32_t picks[ITEMS];
    double gains[ITEMS];
    double values[BLOCKS];
} greedy_answer;

/* Similarities with `levels` different values (few: ties), 0: all different. */
static void make_case(greedy_case *c, uint64_t seed, uint32_t levels)
{
    muster_rng rng = muster_rng_make(seed, 3);
    memset(c, 0, sizeof(*c));
    c->dense = test_room((size_t)ITEMS * ITEMS, sizeof(float));
    for (uint32_t i = 0; i < ITEMS * ITEMS; i++) {
        c->dense[i] = levels == 0
                          ? (float)muster_rng_uniform(&rng)
                          : 0.25f * (float)muster_rng_below(&rng, levels);
    }
    c->facility = (muster_facility){
        .items = ITEMS, .clients = ITEMS, .dense = c->dense, .stride = ITEMS};
    c->blocks = 1 + (uint32_t)muster_rng_below(&rng, BLOCKS);
    uint32_t left = ITEMS - (uint32_t)muster_rng_below(&rng, 10);
    for (uint32_t j = 0; j < c->blocks; j++) {
        c->quotas[j] = j + 1 == c->blocks
                           ? left
                           : (uint32_t)muster_rng_below(&rng, left + 1);
        left -= c->quotas[j];
    }
    c->turn = (uint32_t)(seed % 2);
    test_meter(&c->meter);
}

/* The same similarities as CSR, without the smaller ones. */
static void make_sparse(greedy_case *c)
{
    muster_facility sparse = {.items = ITEMS, .clients = ITEMS};
    sparse.offsets = test_room(ITEMS + 1, sizeof(uint64_t));
    sparse.columns = test_room(ITEMS * ITEMS, sizeof(uint32_t));
    sparse.values = test_room(ITEMS * ITEMS, sizeof(float));
    uint64_t at = 0;
    for (uint32_t i = 0; i < ITEMS; i++) {
        for (uint32_t u = 0; u < ITEMS; u++) {
            if (c->dense[i * ITEMS + u] > 0.8f) {
                sparse.columns[at] = u;
                sparse.values[at++] = c->dense[i * ITEMS + u];
            }
        }
        sparse.offsets[i + 1] = at;
    }
    c->facility = sparse;
}

static void end_case(greedy_case *c)
{
    muster_facility_fini(&c->facility);
    muster_mem_free(c->dense);
    muster_meter_fini(&c->meter);
}

/* The slow twin: every gain of every free item, each time. */
static void naive_greedy(const greedy_case *c, greedy_answer *answer)
{
    static float best[BLOCKS][ITEMS];
    uint32_t counts[BLOCKS] = {0};
    memset(best, 0, sizeof(best));
    memset(answer, 0, sizeof(*answer));
    memset(answer->owners, 0xff, sizeof(answer->owners));
    for (uint32_t picked = 0;; picked++) {
        uint32_t turn = c->blocks;
        double lowest = INFINITY;
        for (uint32_t j = 0; j < c->blocks; j++) {
            double key = c->turn == MUSTER_PARTITION_ROUND_ROBIN
                             ? (double)counts[j] / c->quotas[j]
                             : answer->values[j];
            if (counts[j] < c->quotas[j] && key < lowest) {
                lowest = key;
                turn = j;
            }
        }
        if (turn == c->blocks) {
            return;
        }
        uint32_t pick = ITEMS;
        double largest = -1.0;
        for (uint32_t i = 0; i < ITEMS; i++) {
            double gain = muster_facility_gain(&c->facility, best[turn], i);
            if (answer->owners[i] == MUSTER_GREEDY_FREE && gain > largest) {
                largest = gain;
                pick = i;
            }
        }
        answer->owners[pick] = turn;
        answer->places[pick] = counts[turn]++;
        answer->picks[picked] = pick;
        answer->gains[picked] = largest;
        answer->values[turn] += largest;
        muster_facility_take(&c->facility, best[turn], pick);
    }
}

static muster_status lazy_greedy(greedy_case *c, greedy_answer *answer)
{
    memset(answer, 0, sizeof(*answer));
    muster_greedy_input input = {.facility = &c->facility,
                                 .blocks = c->blocks,
                                 .quotas = c->quotas,
                                 .turn = c->turn,
                                 .meter = &c->meter};
    muster_greedy_result result = {.owners = answer->owners,
                                   .places = answer->places,
                                   .picks = answer->picks,
                                   .gains = answer->gains,
                                   .values = answer->values};
    return muster_greedy_run(&input, &result);
}

static void compare_on(greedy_case *c)
{
    greedy_answer naive;
    greedy_answer lazy;
    naive_greedy(c, &naive);
    assert_int_equal(lazy_greedy(c, &lazy), MUSTER_OK);
    assert_memory_equal(&naive, &lazy, sizeof(naive));
}

static void lazy_picks_are_the_naive_ones(void **state)
{
    (void)state;
    greedy_case c;
    for (uint64_t seed = 0; seed < 60; seed++) {
        make_case(&c, seed, 0);
        compare_on(&c);
        make_sparse(&c);
        compare_on(&c);
        end_case(&c);
    }
}

static void ties_go_to_the_lower_item(void **state)
{
    (void)state;
    greedy_case c;
    for (uint64_t seed = 0; seed < 60; seed++) {
        make_case(&c, seed, 1 + (uint32_t)(seed % 5));
        compare_on(&c);
        make_sparse(&c);
        compare_on(&c);
        end_case(&c);
    }
}

static void values_are_those_of_the_sets(void **state)
{
    (void)state;
    greedy_case c;
    greedy_answer answer;
    for (uint64_t seed = 100; seed < 120; seed++) {
        make_case(&c, seed, 0);
        assert_int_equal(lazy_greedy(&c, &answer), MUSTER_OK);
        for (uint32_t j = 0; j < c.blocks; j++) {
            float best[ITEMS] = {0};
            uint32_t count = 0;
            for (uint32_t i = 0; i < ITEMS; i++) {
                if (answer.owners[i] == j) {
                    muster_facility_take(&c.facility, best, i);
                    count++;
                }
            }
            assert_int_equal(count, c.quotas[j]);
            double value = muster_facility_value(&c.facility, best);
            assert_true(fabs(value - answer.values[j]) <= 1e-5 * (value + 1.0));
        }
        end_case(&c);
    }
}

static void gains_of_one_block_fall_and_stay_positive(void **state)
{
    (void)state;
    greedy_case c;
    greedy_answer answer;
    make_case(&c, 4, 0);
    c.blocks = 1;
    c.quotas[0] = ITEMS;
    assert_int_equal(lazy_greedy(&c, &answer), MUSTER_OK);
    for (uint32_t i = 0; i < ITEMS; i++) {
        assert_true(answer.gains[i] >= 0.0);
        assert_true(i == 0 || answer.gains[i] <= answer.gains[i - 1]);
    }
    end_case(&c);
}

static void every_failed_allocation_is_a_status(void **state)
{
    (void)state;
    greedy_case c;
    greedy_answer answer;
    make_case(&c, 2, 0);
    muster_status status = MUSTER_ERR_NO_MEMORY;
    uint64_t allowed = 0;
    for (; status != MUSTER_OK; allowed++) {
        assert_int_equal(status, MUSTER_ERR_NO_MEMORY);
        muster_mem_fail_after(allowed);
        status = lazy_greedy(&c, &answer);
        muster_mem_fail_after(UINT64_MAX);
    }
    assert_true(allowed > 3);
    end_case(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lazy_picks_are_the_naive_ones),
        cmocka_unit_test(ties_go_to_the_lower_item),
        cmocka_unit_test(values_are_those_of_the_sets),
        cmocka_unit_test(gains_of_one_block_fall_and_stay_positive),
        cmocka_unit_test(every_failed_allocation_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
