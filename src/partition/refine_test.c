/*
 * refine_test.c -- swaps lower the drift to what is asked for, keep the sizes
 * of blocks, and leave early picks where they are while late ones suffice.
 */
#include "partition/refine.h"

#include "partition/partition_test.h"

#define COUNT   400u
#define COLUMNS 10u
#define BLOCKS  3u

typedef struct refine_case {
    float *rows;
    uint32_t owners[COUNT];
    uint32_t places[COUNT];
    uint32_t quotas[BLOCKS];
    muster_refine_input input;
} refine_case;

/* Sorted by the first feature and cut: as far from random as can be. */
static void make_case(refine_case *c)
{
    static const uint32_t quotas[BLOCKS] = {50, 150, 200};
    c->rows = test_rows(COUNT, COLUMNS, 11, true);
    memcpy(c->quotas, quotas, sizeof(quotas));
    uint32_t counts[BLOCKS] = {0};
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t below = 0;
        for (uint32_t k = 0; k < COUNT; k++) {
            below += c->rows[k * COLUMNS] < c->rows[i * COLUMNS] ||
                     (c->rows[k * COLUMNS] == c->rows[i * COLUMNS] && k < i);
        }
        c->owners[i] = below < 50 ? 0 : below < 200 ? 1 : 2;
        c->places[i] = counts[c->owners[i]]++;
    }
    c->input = (muster_refine_input){.rows = c->rows,
                                     .count = COUNT,
                                     .columns = COLUMNS,
                                     .blocks = BLOCKS,
                                     .quotas = c->quotas,
                                     .places = c->places,
                                     .share = 1.0,
                                     .trials = 100 * COUNT,
                                     .rng = muster_rng_make(3, 3)};
}

/* Largest drift of a block beside that of a random one. */
static double drift_share(const refine_case *c)
{
    double mean[COLUMNS] = {0};
    double sums[BLOCKS][COLUMNS] = {{0}};
    double squares = 0.0;
    for (uint32_t i = 0; i < COUNT; i++) {
        for (uint32_t t = 0; t < COLUMNS; t++) {
            double x = (double)c->rows[i * COLUMNS + t];
            mean[t] += x / COUNT;
            sums[c->owners[i]][t] += x;
            squares += x * x / COUNT;
        }
    }
    double variance = squares;
    for (uint32_t t = 0; t < COLUMNS; t++) {
        variance -= mean[t] * mean[t];
    }
    double worst = 0.0;
    for (uint32_t j = 0; j < BLOCKS; j++) {
        double q = c->quotas[j];
        double off = 0.0;
        for (uint32_t t = 0; t < COLUMNS; t++) {
            double d = sums[j][t] / q - mean[t];
            off += d * d;
        }
        double random = variance / q * (COUNT - q) / (COUNT - 1.0);
        worst = fmax(worst, sqrt(off / random));
    }
    return worst;
}

static void swaps_reach_the_drift_asked_for(void **state)
{
    (void)state;
    refine_case c;
    make_case(&c);
    assert_true(drift_share(&c) > 2.0);
    uint64_t tried = 0;
    uint64_t done = 0;
    assert_int_equal(muster_refine_run(&c.input, c.owners, &tried, &done),
                     MUSTER_OK);
    assert_true(done > 0 && tried >= done);
    assert_true(tried < c.input.trials);
    assert_true(drift_share(&c) <= 1.0001);
    muster_mem_free(c.rows);
}

static void sizes_stay(void **state)
{
    (void)state;
    refine_case c;
    make_case(&c);
    uint64_t tried = 0;
    uint64_t done = 0;
    assert_int_equal(muster_refine_run(&c.input, c.owners, &tried, &done),
                     MUSTER_OK);
    uint32_t counts[BLOCKS] = {0};
    for (uint32_t i = 0; i < COUNT; i++) {
        counts[c.owners[i]]++;
    }
    assert_memory_equal(counts, c.quotas, sizeof(counts));
    muster_mem_free(c.rows);
}

static void early_picks_stay_while_late_ones_suffice(void **state)
{
    (void)state;
    refine_case c;
    make_case(&c);
    c.input.share = 4.0;
    uint32_t before[COUNT];
    memcpy(before, c.owners, sizeof(before));
    uint64_t tried = 0;
    uint64_t done = 0;
    assert_int_equal(muster_refine_run(&c.input, c.owners, &tried, &done),
                     MUSTER_OK);
    assert_true(done > 0 && tried < c.input.trials / 2);
    for (uint32_t i = 0; i < COUNT; i++) {
        if (c.places[i] < c.quotas[before[i]] / 2) {
            assert_int_equal(c.owners[i], before[i]);
        }
    }
    muster_mem_free(c.rows);
}

static void trials_are_a_limit(void **state)
{
    (void)state;
    refine_case c;
    make_case(&c);
    c.input.trials = 5;
    uint64_t tried = 0;
    uint64_t done = 0;
    assert_int_equal(muster_refine_run(&c.input, c.owners, &tried, &done),
                     MUSTER_OK);
    assert_int_equal(tried, 5);
    muster_mem_free(c.rows);
}

static void one_block_has_nobody_to_swap_with(void **state)
{
    (void)state;
    refine_case c;
    make_case(&c);
    memset(c.owners, 0, sizeof(c.owners));
    c.quotas[0] = COUNT;
    c.input.blocks = 1;
    uint64_t tried = 0;
    uint64_t done = 0;
    assert_int_equal(muster_refine_run(&c.input, c.owners, &tried, &done),
                     MUSTER_OK);
    assert_int_equal(done, 0);
    muster_mem_free(c.rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(swaps_reach_the_drift_asked_for),
        cmocka_unit_test(sizes_stay),
        cmocka_unit_test(early_picks_stay_while_late_ones_suffice),
        cmocka_unit_test(trials_are_a_limit),
        cmocka_unit_test(one_block_has_nobody_to_swap_with),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
