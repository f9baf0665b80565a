/*
 * bernoulli_test.c -- codes that place parts at random: that each worker holds
 * each part with chance d / n by itself, and what rbgc cuts.
 */
#include "code/code_test.h"

enum { PLACE_N = 12, PLACE_SEEDS = 2000 };

/* What many seeds place: how often each cell of n x n is held, and how often a
 * worker holds so many parts. */
static void count_placements(const char *family, uint32_t d, uint32_t *cells,
                             uint32_t *loads)
{
    for (uint32_t seed = 1; seed <= PLACE_SEEDS; seed++) {
        char name[64];
        snprintf(name, sizeof(name), "%s:draws=1,d=%u,seed=%u", family, d,
                 seed);
        muster_code *code = build_code(name, PLACE_N, 0, 0);
        for (uint32_t w = 0; w < PLACE_N; w++) {
            const uint32_t *parts;
            uint32_t count;
            assert_int_equal(muster_code_parts(code, w, &parts, &count),
                             MUSTER_OK);
            loads[count]++;
            for (uint32_t i = 0; i < count; i++) {
                cells[w * PLACE_N + parts[i]]++;
            }
        }
        muster_code_free(code);
    }
}

/* Within five standard deviations of `draws` coins of chance p. */
static void as_often(uint32_t found, double p, double draws)
{
    double off = fabs((double)found - p * draws);
    if (!(off <= 5.0 * sqrt(draws * p * (1.0 - p)))) {
        fail_msg("%u of %g, with chance %g", found, draws, p);
    }
}

static void parts_are_placed_by_independent_coins(void **state)
{
    (void)state;
    enum { D = 2 };
    static uint32_t cells[PLACE_N * PLACE_N];
    static uint32_t loads[PLACE_N + 1];
    double p = (double)D / PLACE_N;
    double chance = pow(1.0 - p, PLACE_N); // of no part at all
    count_placements("bgc", D, cells, loads);
    for (uint32_t i = 0; i < PLACE_N * PLACE_N; i++) {
        as_often(cells[i], p, PLACE_SEEDS);
    }
    for (uint32_t count = 0; count <= PLACE_N; count++) {
        as_often(loads[count], chance, PLACE_N * PLACE_SEEDS);
        chance *= (PLACE_N - count) / (count + 1.0) * p / (1.0 - p);
    }
}

static void rbgc_cuts_large_loads_to_d(void **state)
{
    (void)state;
    enum { D = 2 };
    static uint32_t cells[PLACE_N * PLACE_N];
    static uint32_t loads[PLACE_N + 1];
    double p = (double)D / PLACE_N;
    double chance = pow(1.0 - p, PLACE_N);
    double cut = 1.0;
    double kept[2 * D + 1];
    count_placements("rbgc", D, cells, loads);
    for (uint32_t count = 0; count <= 2 * D; count++) {
        kept[count] = chance;
        cut -= chance;
        chance *= (PLACE_N - count) / (count + 1.0) * p / (1.0 - p);
    }
    kept[D] += cut;
    for (uint32_t count = 0; count <= PLACE_N; count++) {
        as_often(loads[count], count <= 2 * D ? kept[count] : 0.0,
                 PLACE_N * PLACE_SEEDS);
    }
}

static void load_n_places_everything_everywhere(void **state)
{
    (void)state;
    static uint32_t cells[PLACE_N * PLACE_N];
    static uint32_t loads[PLACE_N + 1];
    count_placements("bgc", PLACE_N, cells, loads);
    assert_int_equal(loads[PLACE_N], PLACE_N * PLACE_SEEDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_placed_by_independent_coins),
        cmocka_unit_test(rbgc_cuts_large_loads_to_d),
        cmocka_unit_test(load_n_places_everything_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
