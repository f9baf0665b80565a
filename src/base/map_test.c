/*
 * map_test.c -- the hash map against a plain array, keys that fall on one slot,
 * and every allocation failed in turn.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/rng.h"

static void an_empty_map_finds_nothing(void **state)
{
    (void)state;
    muster_map map = {0};
    assert_int_equal(muster_map_find(&map, 0), MUSTER_MAP_NONE);
    muster_map_remove(&map, 7);
    muster_map_fini(&map);
}

static void a_random_history_agrees_with_an_array(void **state)
{
    (void)state;
    enum { KEYS = 700, STEPS = 100000 };
    static uint32_t oracle[KEYS];
    muster_map map = {0};
    for (uint32_t k = 0; k < KEYS; k++) {
        oracle[k] = MUSTER_MAP_NONE;
    }
    for (uint64_t i = 0; i < STEPS; i++) {
        uint64_t draw = muster_rng_at(1, 0, i);
        uint32_t k = (uint32_t)(draw % KEYS);
        // Keys as rows have them: a table above, a small number below.
        uint64_t key = (uint64_t)(k % 3) << 32 | k;
        if (draw >> 63 != 0) {
            muster_map_remove(&map, key);
            oracle[k] = MUSTER_MAP_NONE;
        } else {
            assert_true(muster_map_set(&map, key, (uint32_t)i));
            oracle[k] = (uint32_t)i;
        }
        uint32_t other = (uint32_t)(draw >> 20) % KEYS;
        assert_int_equal(
            muster_map_find(&map, (uint64_t)(other % 3) << 32 | other),
            oracle[other]);
    }
    uint32_t count = 0;
    for (uint32_t k = 0; k < KEYS; k++) {
        count += oracle[k] != MUSTER_MAP_NONE;
    }
    assert_int_equal(map.count, count);
    uint64_t key;
    for (uint32_t cursor = 0; muster_map_next(&map, &cursor, &key);) {
        assert_int_not_equal(oracle[(uint32_t)key], MUSTER_MAP_NONE);
        oracle[(uint32_t)key] = MUSTER_MAP_NONE; // visited once
        count--;
    }
    assert_int_equal(count, 0);
    muster_map_fini(&map);
}

static void neighbours_of_a_removed_key_are_still_found(void **state)
{
    (void)state;
    enum { KEYS = 120 };
    for (uint32_t gone = 0; gone < KEYS; gone++) {
        muster_map map = {0};
        for (uint32_t k = 0; k < KEYS; k++) {
            assert_true(muster_map_set(&map, UINT64_MAX - 1 - k, k));
        }
        muster_map_remove(&map, UINT64_MAX - 1 - gone);
        for (uint32_t k = 0; k < KEYS; k++) {
            assert_int_equal(muster_map_find(&map, UINT64_MAX - 1 - k),
                             k == gone ? MUSTER_MAP_NONE : k);
        }
        muster_map_fini(&map);
    }
}

static void a_map_without_memory_keeps_what_it_has(void **state)
{
    (void)state;
    muster_map map = {0};
    muster_mem_fail_after(1);
    assert_false(muster_map_set(&map, 1, 1));
    muster_mem_fail_after(2);
    uint32_t kept = 0;
    while (muster_map_set(&map, kept, kept)) {
        kept++;
    }
    muster_mem_fail_after(UINT64_MAX);
    assert_int_equal(kept, 128);
    for (uint32_t k = 0; k < kept; k++) {
        assert_int_equal(muster_map_find(&map, k), k);
    }
    muster_map_fini(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_map_finds_nothing),
        cmocka_unit_test(a_random_history_agrees_with_an_array),
        cmocka_unit_test(neighbours_of_a_removed_key_are_still_found),
        cmocka_unit_test(a_map_without_memory_keeps_what_it_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
