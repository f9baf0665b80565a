/*
 * listing_test.c -- a listing comes back as it was written, for cuts in order
 * and placed ones; the shard that another reader of the data makes of it has
 * its hash, one of other data has not; bytes that are no listing are refused.
 */
#include "data/listing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "data/shard.h"

#define SAMPLES 60u
#define SHARDS  4u
#define SPEC    "synthetic:samples=60,features=5,classes=3,seed="

typedef struct bed {
    muster_dataset *here, *same, *other;
    muster_cut cut;
} bed;

static muster_dataset *load(const char *spec)
{
    muster_error error;
    muster_dataset *dataset = NULL;
    assert_int_equal(muster_dataset_load(spec, NULL, &error, &dataset),
                     MUSTER_OK);
    return dataset;
}

static void make_bed(bool placed, bed *b)
{
    *b = (bed){load(SPEC "1"), load(SPEC "1"), load(SPEC "2"), {0}};
    uint32_t owners[SAMPLES];
    muster_error error;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        owners[i] = i % 3 == 0;
    }
    assert_int_equal(
        placed ? muster_cut_placed(owners, SAMPLES, 2, SHARDS, &error, &b->cut)
               : muster_cut_even(SAMPLES, SHARDS, &b->cut),
        MUSTER_OK);
}

static void free_bed(bed *b)
{
    muster_dataset_free(b->here);
    muster_dataset_free(b->same);
    muster_dataset_free(b->other);
    muster_cut_fini(&b->cut);
}

static uint8_t *make_listing(const bed *b, uint32_t shard, size_t *size_out)
{
    size_t bytes = muster_dataset_shard_bytes(b->here, &b->cut, shard);
    void *made = muster_mem_raw_aligned(bytes, 1);
    *size_out = muster_listing_bytes(&b->cut, shard);
    uint8_t *listing = muster_mem_raw_aligned(*size_out, 1);
    assert_true(made != NULL && listing != NULL);
    muster_dataset_shard_write(b->here, &b->cut, shard, made);
    assert_false(muster_listing_is(made, bytes));
    muster_listing_write(&b->cut, shard, made, bytes, listing);
    muster_mem_free(made);
    return listing;
}

static bool reads_the_same(const muster_listing *listing,
                           const muster_dataset *data)
{
    size_t bytes = muster_listing_shard_bytes(listing, data);
    void *made = muster_mem_raw_aligned(bytes, 1);
    assert_non_null(made);
    muster_listing_shard_write(listing, data, made);
    bool same = muster_listing_matches(listing, made, bytes);
    muster_mem_free(made);
    return same;
}

static void who_has_the_data_makes_the_shard_that_was_listed(void **state)
{
    (void)state;
    for (int placed = 0; placed < 2; placed++) {
        bed b;
        make_bed(placed != 0, &b);
        for (uint32_t shard = 0; shard < SHARDS; shard++) {
            size_t size = 0;
            muster_error error;
            muster_listing listing;
            uint8_t *bytes = make_listing(&b, shard, &size);
            assert_true(muster_listing_is(bytes, size));
            assert_int_equal(
                muster_listing_open(bytes, size, SAMPLES, &error, &listing),
                MUSTER_OK);
            assert_int_equal(listing.number, shard);
            assert_true(reads_the_same(&listing, b.same));
            assert_false(reads_the_same(&listing, b.other));
            muster_mem_free(bytes);
        }
        free_bed(&b);
    }
}

static muster_status reopen(const uint8_t *bytes, size_t size, uint64_t samples)
{
    muster_error error;
    muster_listing listing;
    return muster_listing_open(bytes, size, samples, &error, &listing);
}

static void what_is_no_listing_is_refused(void **state)
{
    (void)state;
    for (int placed = 0; placed < 2; placed++) {
        bed b;
        size_t size = 0;
        make_bed(placed != 0, &b);
        uint8_t *bytes = make_listing(&b, SHARDS - 1, &size);
        for (size_t cut = 0; cut < size; cut++) {
            assert_int_equal(reopen(bytes, cut, SAMPLES), MUSTER_ERR_PROTOCOL);
        }
        assert_int_equal(reopen(bytes, size, SAMPLES - 1 - SAMPLES / 2),
                         MUSTER_ERR_PROTOCOL);
        static const size_t fixed[] = {0, 8, 16, 27, 28, 48, 63};
        for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++) {
            bytes[fixed[i]] ^= 0x80;
            assert_int_equal(reopen(bytes, size, SAMPLES), MUSTER_ERR_PROTOCOL);
            bytes[fixed[i]] ^= 0x80;
        }
        assert_int_equal(reopen(bytes, size, SAMPLES), MUSTER_OK);
        if (placed) { // numbers that do not ascend
            memcpy(bytes + 64, bytes + 68, 4);
            assert_int_equal(reopen(bytes, size, SAMPLES), MUSTER_ERR_PROTOCOL);
        }
        muster_mem_free(bytes);
        free_bed(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_has_the_data_makes_the_shard_that_was_listed),
        cmocka_unit_test(what_is_no_listing_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
