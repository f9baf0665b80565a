/*
 * cut_test.c -- shards are what they were before as parts, cover the samples
 * once, and never have samples of two owners.
 */
#include "data/cut.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"

static void the_default_is_a_multiple_of_the_parts(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers < 40; workers++) {
        for (uint32_t parts = 1; parts < 200; parts++) {
            uint32_t shards = muster_cut_default(workers, parts);
            assert_int_equal(shards % parts, 0);
            assert_true(shards >= 4 * workers);
            assert_true(shards == parts || shards - parts < 4 * workers);
        }
    }
    assert_int_equal(muster_cut_default(8, 8), 32);
    assert_int_equal(muster_cut_default(65536, UINT32_MAX - 1), UINT32_MAX - 1);
}

/* Part j of k was samples j N / k .. (j + 1) N / k - 1 before there were
 * shards: its shards are the same samples. */
static void parts_are_unions_of_shards(void **state)
{
    (void)state;
    for (uint64_t samples = 1; samples < 300; samples += 7) {
        for (uint32_t parts = 1; parts < 20; parts++) {
            muster_cut cut;
            uint32_t shards = muster_cut_default(6, parts);
            assert_int_equal(muster_cut_even(samples, shards, &cut), MUSTER_OK);
            for (uint32_t j = 0; j <= parts; j++) {
                assert_int_equal(cut.first[j * (shards / parts)],
                                 j * samples / parts);
            }
            muster_cut_fini(&cut);
        }
    }
}

static void check_owned(const uint64_t *ends, uint32_t owners, uint32_t shards)
{
    muster_cut cut;
    muster_error error;
    assert_int_equal(muster_cut_owned(ends, owners, shards, &error, &cut),
                     MUSTER_OK);
    assert_int_equal(cut.shards, shards);
    assert_int_equal(cut.first[0], 0);
    assert_int_equal(cut.first[shards], ends[owners - 1]);
    for (uint32_t s = 0; s < shards; s++) {
        assert_true(cut.first[s] <= cut.first[s + 1]);
        for (uint32_t i = 0; i < owners; i++) { // no end within a shard
            assert_false(cut.first[s] < ends[i] && ends[i] < cut.first[s + 1]);
        }
    }
    muster_cut_fini(&cut);
}

static void no_shard_has_samples_of_two_owners(void **state)
{
    (void)state;
    muster_rng rng = muster_rng_make(17, 1);
    for (uint32_t round = 0; round < 500; round++) {
        uint64_t ends[12];
        uint32_t owners = 1 + (uint32_t)muster_rng_below(&rng, 12);
        uint64_t end = 1;
        for (uint32_t i = 0; i < owners; i++) {
            end += muster_rng_below(&rng, 4) * muster_rng_below(&rng, 50);
            ends[i] = end;
        }
        check_owned(ends, owners,
                    owners + (uint32_t)muster_rng_below(&rng, 60));
    }
}

static void an_owner_has_shards_by_its_share(void **state)
{
    (void)state;
    const uint64_t ends[] = {0, 100, 100, 400};
    muster_cut cut;
    assert_int_equal(muster_cut_owned(ends, 4, 10, NULL, &cut), MUSTER_OK);
    assert_int_equal(cut.first[3], 100); // 1 + 8 / 4
    assert_int_equal(cut.first[10], 400);
    muster_cut_fini(&cut);
}

static void owners_that_cannot_be_served_are_refused(void **state)
{
    (void)state;
    const uint64_t falling[] = {5, 4};
    const uint64_t none[] = {0, 0};
    const uint64_t three[] = {1, 2, 3};
    muster_cut cut;
    muster_error error;
    assert_int_equal(muster_cut_owned(falling, 2, 8, &error, &cut),
                     MUSTER_ERR_INVALID);
    assert_int_equal(muster_cut_owned(none, 2, 8, &error, &cut),
                     MUSTER_ERR_INVALID);
    assert_int_equal(muster_cut_owned(three, 3, 2, &error, &cut),
                     MUSTER_ERR_INVALID);
    muster_mem_fail_after(0);
    muster_status owned = muster_cut_owned(three, 3, 3, &error, &cut);
    muster_status even = muster_cut_even(3, 3, &cut);
    muster_mem_fail_after(UINT64_MAX);
    assert_int_equal(owned, MUSTER_ERR_NO_MEMORY);
    assert_int_equal(even, MUSTER_ERR_NO_MEMORY);
}

static void a_placement_puts_an_owners_samples_side_by_side(void **state)
{
    (void)state;
    static const uint32_t owner_of[] = {2, 0, 2, 2, 0, 3, 2, 3};
    static const uint32_t order[] = {1, 4, 0, 2, 3, 6, 5, 7};
    static const uint32_t owned[] = {0, 1, 1, 2, 4}; // owner 1 has none
    muster_cut cut;
    assert_int_equal(muster_cut_placed(owner_of, 8, 4, 4, NULL, &cut),
                     MUSTER_OK);
    assert_memory_equal(cut.order, order, sizeof(order));
    assert_memory_equal(cut.owned, owned, sizeof(owned));
    for (uint32_t shard = 0; shard < cut.shards; shard++) {
        uint32_t owner = owner_of[cut.order[cut.first[shard]]];
        for (uint64_t i = cut.first[shard]; i < cut.first[shard + 1]; i++) {
            assert_int_equal(owner_of[cut.order[i]], owner);
        }
    }
    muster_cut_fini(&cut);
    muster_error error;
    assert_int_equal(muster_cut_placed(owner_of, 8, 4, 2, &error, &cut),
                     MUSTER_ERR_INVALID);
    for (uint64_t left = 0; left < 4; left++) {
        muster_mem_fail_after(left);
        muster_status status =
            muster_cut_placed(owner_of, 8, 4, 4, &error, &cut);
        muster_mem_fail_after(UINT64_MAX);
        assert_int_equal(status, MUSTER_ERR_NO_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_is_a_multiple_of_the_parts),
        cmocka_unit_test(parts_are_unions_of_shards),
        cmocka_unit_test(no_shard_has_samples_of_two_owners),
        cmocka_unit_test(an_owner_has_shards_by_its_share),
        cmocka_unit_test(owners_that_cannot_be_served_are_refused),
        cmocka_unit_test(a_placement_puts_an_owners_samples_side_by_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
