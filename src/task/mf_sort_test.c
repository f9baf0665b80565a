/*
 * mf_sort_test.c -- cells are sorted as a comparison of all their numbers
 * sorts them, and the stable sort leaves equal ones in their order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "task/mf_sort.h"

enum { COUNT = 3000 };

static int compare_numbers(uint32_t a, uint32_t b)
{
    return (a > b) - (a < b);
}

static int compare_places(const void *a, const void *b)
{
    const muster_mf_placed *x = a;
    const muster_mf_placed *y = b;
    int part = compare_numbers(x->part, y->part);
    return part != 0 ? part : compare_numbers(x->minor, y->minor);
}

static int compare_all(const void *a, const void *b)
{
    const muster_mf_placed *x = a;
    const muster_mf_placed *y = b;
    int place = compare_places(a, b);
    int row = compare_numbers(x->cell.row, y->cell.row);
    int col = compare_numbers(x->cell.col, y->cell.col);
    int value =
        (x->cell.value > y->cell.value) - (x->cell.value < y->cell.value);
    return place != 0 ? place : row != 0 ? row : col != 0 ? col : value;
}

/* Few parts, rows and columns, so that many agree in them; numbers of up to 32
 * bits with `wide`. */
static void draw(muster_mf_placed *all, uint64_t seed, bool wide)
{
    muster_rng rng = muster_rng_make(seed, 1);
    uint32_t max = wide ? UINT32_MAX : 5;
    for (uint32_t i = 0; i < COUNT; i++) {
        all[i] = (muster_mf_placed){
            .part = (uint32_t)muster_rng_below(&rng, 3),
            .minor = (uint32_t)muster_rng_below(&rng, max),
            .cell = {.row = (uint32_t)muster_rng_below(&rng, max),
                     .col = (uint32_t)muster_rng_below(&rng, max),
                     .value = (float)muster_rng_normal(&rng)}};
    }
}

static void cells_are_sorted_by_all_their_numbers(void **state)
{
    (void)state;
    static muster_mf_placed all[COUNT];
    static muster_mf_placed spare[COUNT];
    static muster_mf_placed expected[COUNT];
    for (uint64_t seed = 1; seed <= 8; seed++) {
        draw(all, seed, seed % 2 == 0);
        memcpy(expected, all, sizeof(all));
        qsort(expected, COUNT, sizeof(*expected), compare_all);
        muster_mf_sort(all, spare, COUNT);
        assert_memory_equal(all, expected, sizeof(all));
    }
}

static void equal_places_keep_their_order(void **state)
{
    (void)state;
    static muster_mf_placed all[COUNT];
    static muster_mf_placed spare[COUNT];
    draw(all, 9, false);
    for (uint32_t i = 0; i < COUNT; i++) {
        all[i].cell.row = i;
    }
    muster_mf_sort_stable(all, spare, COUNT);
    for (uint32_t i = 1; i < COUNT; i++) {
        int place = compare_places(&all[i - 1], &all[i]);
        assert_true(place < 0 ||
                    (place == 0 && all[i - 1].cell.row < all[i].cell.row));
    }
}

static void no_cells_are_sorted_too(void **state)
{
    (void)state;
    muster_mf_placed one = {.part = 1};
    muster_mf_placed spare = {.part = 2};
    muster_mf_sort(&one, &spare, 0);
    muster_mf_sort(&one, &spare, 1);
    assert_int_equal(one.part, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_are_sorted_by_all_their_numbers),
        cmocka_unit_test(equal_places_keep_their_order),
        cmocka_unit_test(no_cells_are_sorted_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
