/*
 * cache_test.c -- the cache of decodings: what it lends is what a solve gives,
 * known sets cost no memory, and lost memory costs no more than the set.
 */
#include "code/cache.h"
#include "code/code_test.h"
#include "code/sets.h"

static void the_cache_remembers_and_forgets_the_oldest(void **state)
{
    (void)state;
    enum { N = 10, S = 2 };
    muster_code *code = build_code("cyclic-mds", N, S, 0);
    muster_code_cache *cache = NULL;
    assert_int_equal(muster_code_cache_create(code, 0, &cache),
                     MUSTER_ERR_INVALID);
    assert_int_equal(muster_code_cache_create(code, 8, &cache), MUSTER_OK);
    muster_rng rng = muster_rng_make(1, 1);
    for (int round = 0; round < 2000; round++) {
        // Few enough sets to hit, many enough to evict.
        muster_code_sets sets = muster_code_sets_make(N, S, 45, 1);
        uint32_t missing[S];
        uint32_t responders[N];
        uint64_t pick = muster_rng_below(&rng, 12);
        for (uint64_t i = 0; i <= pick; i++) {
            assert_true(muster_code_sets_next(&sets, missing));
        }
        uint32_t count = muster_code_sets_responders(N, missing, S, responders);
        const muster_code_decode_term *lent;
        muster_code_decode_term own[4 * N]; // complex: four a worker
        size_t lent_count;
        size_t own_count;
        muster_code_fit lent_fit = MUSTER_CODE_FIT_INIT;
        muster_code_fit own_fit = MUSTER_CODE_FIT_INIT;
        assert_int_equal(muster_code_cache_weights(cache, responders, count,
                                                   &lent, &lent_count,
                                                   &lent_fit),
                         MUSTER_OK);
        assert_int_equal(muster_code_weights(code, responders, count, own,
                                             &own_count, &own_fit),
                         MUSTER_OK);
        assert_int_equal(lent_count, own_count);
        for (size_t t = 0; t < own_count; t++) {
            assert_int_equal(lent[t].worker, own[t].worker);
            assert_true(lent[t].weight == own[t].weight);
        }
        assert_true(lent_fit.residual == own_fit.residual);
    }
    muster_code_cache_free(cache);
    muster_code_free(code);
}

static void a_known_set_needs_no_memory(void **state)
{
    (void)state;
    enum { N = 10 };
    muster_code *code = build_code("cyclic-mds", N, 2, 0);
    muster_code_cache *cache = NULL;
    assert_int_equal(muster_code_cache_create(code, 8, &cache), MUSTER_OK);
    const uint32_t set[N - 1] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    const muster_code_decode_term *terms;
    size_t count;
    muster_code_fit fit = MUSTER_CODE_FIT_INIT;
    assert_int_equal(
        muster_code_cache_weights(cache, set, N - 1, &terms, &count, &fit),
        MUSTER_OK);
    muster_mem_fail_after(0);
    assert_int_equal(
        muster_code_cache_weights(cache, set, N - 1, &terms, &count, &fit),
        MUSTER_OK);
    muster_mem_fail_after(UINT64_MAX);
    const uint32_t bad[2] = {3, 1};
    assert_int_equal(
        muster_code_cache_weights(cache, bad, 2, &terms, &count, &fit),
        MUSTER_ERR_INVALID);
    assert_int_equal(
        muster_code_cache_weights(cache, set, 3, &terms, &count, &fit),
        MUSTER_INEXACT);
    muster_code_cache_free(cache);
    muster_code_free(code);
}

/* A job on another thread keeps the decoding that its step began with. */
static void a_decoding_outlives_its_entry(void **state)
{
    (void)state;
    muster_code *code = build_code("frc:s=1", 4, 0, 0);
    muster_code_cache *cache = NULL;
    const uint32_t first[] = {0, 1, 2};
    const uint32_t second[] = {0, 1, 2, 3};
    muster_decoding *kept = NULL;
    muster_decoding *other = NULL;
    assert_int_equal(muster_code_cache_create(code, 1, &cache), MUSTER_OK);
    assert_int_equal(muster_code_cache_get(cache, first, 3, &kept), MUSTER_OK);
    kept = muster_decoding_ref(kept);
    assert_int_equal(muster_code_cache_get(cache, second, 4, &other),
                     MUSTER_OK); // forgets the first
    assert_int_equal(muster_code_cache_get(cache, second, 4, &other),
                     MUSTER_OK);
    assert_int_equal(muster_code_cache_solved(cache), 2);
    muster_code_cache_free(cache);
    assert_int_equal(kept->workers, 4);
    assert_int_equal(kept->used_count, kept->term_count); // one a worker
    for (uint32_t i = 0; i < kept->used_count; i++) {
        assert_int_equal(kept->used[i], kept->terms[i].worker);
        assert_in_range(kept->used[i], i, 2);
    }
    muster_decoding_unref(kept);
    muster_code_free(code);
}

/* Ask for the sets without worker 0, 1, 2, 3 in turn. */
static void ask_in_turn(muster_code_cache *cache)
{
    for (uint32_t lost = 0; lost < 4; lost++) {
        uint32_t heard[4];
        uint32_t count = 0;
        for (uint32_t w = 0; w < 5; w++) {
            if (w != lost) {
                heard[count++] = w;
            }
        }
        const muster_code_decode_term *terms;
        size_t term_count;
        muster_code_fit fit = MUSTER_CODE_FIT_INIT;
        muster_status status = muster_code_cache_weights(
            cache, heard, 4, &terms, &term_count, &fit);
        assert_true(status == MUSTER_OK || status == MUSTER_ERR_NO_MEMORY);
    }
}

static void the_cache_survives_lost_memory(void **state)
{
    (void)state;
    muster_code *code = build_code("rs:s=1", 5, 0, 0);
    for (uint64_t allowed = 0; allowed < 40; allowed++) {
        muster_code_cache *cache = NULL;
        muster_mem_fail_after(allowed);
        if (muster_code_cache_create(code, 2, &cache) == MUSTER_OK) {
            ask_in_turn(cache);
        }
        muster_mem_fail_after(UINT64_MAX);
        muster_code_cache_free(cache);
    }
    muster_code_free(code);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cache_remembers_and_forgets_the_oldest),
        cmocka_unit_test(a_known_set_needs_no_memory),
        cmocka_unit_test(a_decoding_outlives_its_entry),
        cmocka_unit_test(the_cache_survives_lost_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
