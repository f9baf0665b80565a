/*
 * shard_test.c -- shards come back as they were written; bytes that are not a
 * shard are refused, for every truncation and every flipped bit, and what is
 * accepted in spite of a flip still keeps all promises.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "data/shard.h"

#define ROWS     5
#define FEATURES 7

static const float dense_values[ROWS * FEATURES + 8] = {
    1, 2, 3, 4, 5, 6, 7, -1, -2, -3, -4, -5, -6, -7, 0.5f};
static const float labels[ROWS] = {-1, 1, 1, -1, 1};
static const uint32_t ids[ROWS] = {3, 4, 9, 100, 70000};
// The view starts at entry 2 of longer arrays, as a range of rows does.
static const uint64_t offsets[ROWS + 1] = {2, 5, 5, 6, 10, 12};
static const uint32_t columns[12] = {9, 9, 0, 3, 6, 1, 2, 3, 4, 5, 0, 6};
static const float values[12] = {0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};

static muster_rows dense_rows(void)
{
    return (muster_rows){.count = ROWS,
                         .features = FEATURES,
                         .dense = dense_values,
                         .stride = FEATURES + 1,
                         .labels = labels};
}

static muster_rows sparse_rows(void)
{
    return (muster_rows){.count = ROWS,
                         .features = FEATURES,
                         .offsets = offsets,
                         .columns = columns,
                         .values = values,
                         .labels = labels};
}

static uint8_t *write_shard(const muster_rows *rows, size_t *size_out)
{
    *size_out = muster_shard_bytes(rows);
    uint8_t *bytes = muster_mem_raw_aligned(*size_out, 1);
    assert_non_null(bytes);
    memset(bytes, 0xee, *size_out); // gaps must be written too
    muster_shard_write(42, ids, rows, bytes);
    return bytes;
}

static void a_dense_shard_comes_back(void **state)
{
    (void)state;
    muster_rows rows = dense_rows();
    size_t size;
    uint8_t *bytes = write_shard(&rows, &size);
    muster_shard shard;
    assert_int_equal(muster_shard_open(bytes, size, NULL, &shard), MUSTER_OK);
    assert_int_equal(shard.number, 42);
    assert_int_equal(shard.rows.count, ROWS);
    assert_int_equal(shard.rows.features, FEATURES);
    assert_null(shard.rows.offsets);
    assert_int_equal((uintptr_t)shard.rows.dense % 64, 0);
    assert_memory_equal(shard.sample_ids, ids, sizeof(ids));
    assert_memory_equal(shard.rows.labels, labels, sizeof(labels));
    for (size_t r = 0; r < ROWS; r++) {
        assert_memory_equal(shard.rows.dense + r * shard.rows.stride,
                            dense_values + r * (FEATURES + 1),
                            FEATURES * sizeof(float));
    }
    muster_mem_free(bytes);
}

static void a_sparse_shard_comes_back(void **state)
{
    (void)state;
    muster_rows rows = sparse_rows();
    size_t size;
    uint8_t *bytes = write_shard(&rows, &size);
    muster_shard shard;
    assert_int_equal(muster_shard_open(bytes, size, NULL, &shard), MUSTER_OK);
    assert_null(shard.rows.dense);
    assert_int_equal(shard.rows.count, ROWS);
    for (uint32_t r = 0; r <= ROWS; r++) {
        assert_int_equal(shard.rows.offsets[r], offsets[r] - 2);
    }
    assert_memory_equal(shard.rows.columns, columns + 2, 10 * sizeof(uint32_t));
    assert_memory_equal(shard.rows.values, values + 2, 10 * sizeof(float));
    assert_memory_equal(shard.rows.labels, labels, sizeof(labels));
    muster_mem_free(bytes);
}

static void a_range_needs_no_list_of_samples(void **state)
{
    (void)state;
    muster_rows rows = sparse_rows();
    static const uint32_t range[ROWS] = {50, 51, 52, 53, 54};
    size_t size = muster_shard_bytes(&rows);
    uint8_t *listed = muster_mem_raw_aligned(size, 1);
    uint8_t *ranged = muster_mem_raw_aligned(size, 1);
    assert_non_null(listed);
    assert_non_null(ranged);
    muster_shard_write(1, range, &rows, listed);
    muster_shard_write_range(1, 50, &rows, ranged);
    assert_memory_equal(listed, ranged, size);
    muster_mem_free(listed);
    muster_mem_free(ranged);
}

static void an_empty_shard_is_a_shard(void **state)
{
    (void)state;
    for (int sparse = 0; sparse < 2; sparse++) {
        muster_rows rows = sparse ? sparse_rows() : dense_rows();
        rows.count = 0;
        size_t size;
        uint8_t *bytes = write_shard(&rows, &size);
        muster_shard shard;
        assert_int_equal(muster_shard_open(bytes, size, NULL, &shard),
                         MUSTER_OK);
        assert_int_equal(shard.rows.count, 0);
        assert_int_equal(muster_shard_find(&shard, 3), UINT32_MAX);
        muster_mem_free(bytes);
    }
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    for (int sparse = 0; sparse < 2; sparse++) {
        muster_rows rows = sparse ? sparse_rows() : dense_rows();
        size_t size;
        uint8_t *bytes = write_shard(&rows, &size);
        for (size_t cut = 0; cut < size; cut++) {
            uint8_t *copy = muster_mem_raw_aligned(cut, 1);
            assert_non_null(copy);
            memcpy(copy, bytes, cut);
            muster_shard shard;
            muster_error error = {.status = MUSTER_OK};
            assert_int_equal(muster_shard_open(copy, cut, &error, &shard),
                             MUSTER_ERR_PROTOCOL);
            assert_int_equal(error.status, MUSTER_ERR_PROTOCOL);
            muster_mem_free(copy);
        }
        muster_mem_free(bytes);
    }
}

// Every promise of a shard, checked one by one and slowly.
static void assert_sound(const muster_shard *shard, size_t size,
                         const uint8_t *bytes)
{
    const muster_rows *rows = &shard->rows;
    assert_true(rows->features > 0);
    for (uint32_t r = 0; r < rows->count; r++) {
        assert_true(isfinite(rows->labels[r]));
        assert_true(r == 0 || shard->sample_ids[r] > shard->sample_ids[r - 1]);
        if (rows->dense != NULL) {
            for (uint32_t j = 0; j < rows->features; j++) {
                const float *x = &rows->dense[r * rows->stride + j];
                assert_in_range((uintptr_t)x, (uintptr_t)bytes,
                                (uintptr_t)(bytes + size - sizeof(*x)));
                assert_true(isfinite(*x));
            }
            continue;
        }
        for (uint64_t e = rows->offsets[r]; e < rows->offsets[r + 1]; e++) {
            assert_in_range((uintptr_t)&rows->values[e], (uintptr_t)bytes,
                            (uintptr_t)(bytes + size - sizeof(float)));
            assert_true(isfinite(rows->values[e]));
            assert_true(rows->columns[e] < rows->features);
            assert_true(e == rows->offsets[r] ||
                        rows->columns[e] > rows->columns[e - 1]);
        }
    }
}

static void every_flipped_bit_is_refused_or_harmless(void **state)
{
    (void)state;
    for (int sparse = 0; sparse < 2; sparse++) {
        muster_rows rows = sparse ? sparse_rows() : dense_rows();
        size_t size;
        unsigned refused = 0;
        uint8_t *bytes = write_shard(&rows, &size);
        for (size_t bit = 0; bit < size * 8; bit++) {
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
            muster_shard shard;
            if (muster_shard_open(bytes, size, NULL, &shard) == MUSTER_OK) {
                assert_sound(&shard, size, bytes);
                // Of the header only the number and the features may vary.
                assert_true(bit >= 512 || (bit >= 96 && bit < 128) ||
                            (bit >= 160 && bit < 192));
            } else {
                refused++;
            }
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        assert_true(refused > size); // header, gaps, offsets, columns
        muster_mem_free(bytes);
    }
}

static void random_damage_never_breaks_a_promise(void **state)
{
    (void)state;
    muster_rng rng = muster_rng_make(11, 0);
    muster_rows rows = sparse_rows();
    size_t size;
    uint8_t *bytes = write_shard(&rows, &size);
    uint8_t *copy = muster_mem_raw_aligned(size, 1);
    assert_non_null(copy);
    for (int i = 0; i < 20000; i++) {
        memcpy(copy, bytes, size);
        uint64_t changes = 1 + muster_rng_below(&rng, 6);
        for (uint64_t c = 0; c < changes; c++) {
            copy[muster_rng_below(&rng, size)] = (uint8_t)muster_rng_next(&rng);
        }
        muster_shard shard;
        if (muster_shard_open(copy, size, NULL, &shard) == MUSTER_OK) {
            assert_sound(&shard, size, copy);
        }
    }
    muster_mem_free(copy);
    muster_mem_free(bytes);
}

static void a_sample_is_found_where_it_is(void **state)
{
    (void)state;
    muster_shard listed = {.sample_ids = ids, .rows = {.count = ROWS}};
    static const uint32_t range[4] = {7, 8, 9, 10};
    muster_shard ranged = {.sample_ids = range, .rows = {.count = 4}};
    for (uint32_t sample = 0; sample < 70010; sample++) {
        uint32_t row = UINT32_MAX;
        for (uint32_t r = 0; r < ROWS; r++) {
            row = ids[r] == sample ? r : row;
        }
        assert_int_equal(muster_shard_find(&listed, sample), row);
        row = sample >= 7 && sample <= 10 ? sample - 7 : UINT32_MAX;
        assert_int_equal(muster_shard_find(&ranged, sample), row);
    }
}

/* Rows 0, 2 and 4 of rows that begin at entry 0, as a data set's do. */
static void listed_rows_come_back(void **state)
{
    (void)state;
    static const uint32_t picked[] = {0, 2, 4};
    static const uint64_t from_0[ROWS + 1] = {0, 3, 3, 4, 8, 10};
    muster_rows kinds[2] = {dense_rows(), sparse_rows()};
    kinds[1].offsets = from_0;
    kinds[1].columns = columns + 2;
    kinds[1].values = values + 2;
    for (int k = 0; k < 2; k++) {
        size_t size = muster_shard_bytes_listed(&kinds[k], picked, 3);
        uint8_t *bytes = muster_mem_raw_aligned(size, 1);
        assert_non_null(bytes);
        memset(bytes, 0xee, size);
        muster_shard_write_listed(7, picked, 3, &kinds[k], bytes);
        muster_shard shard;
        assert_int_equal(muster_shard_open(bytes, size, NULL, &shard),
                         MUSTER_OK);
        assert_int_equal(shard.number, 7);
        assert_memory_equal(shard.sample_ids, picked, sizeof(picked));
        for (uint32_t r = 0; r < 3; r++) {
            assert_true(shard.rows.labels[r] == labels[picked[r]]);
        }
        if (k == 0) {
            assert_memory_equal(shard.rows.dense + 2 * shard.rows.stride,
                                dense_values + 4 * (FEATURES + 1),
                                FEATURES * sizeof(float));
        } else {
            assert_int_equal(shard.rows.offsets[1], 3);
            assert_int_equal(shard.rows.offsets[3], 6);
            assert_int_equal(shard.rows.columns[3], 1);
            assert_true(shard.rows.values[5] == 10);
        }
        muster_mem_free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(listed_rows_come_back),
        cmocka_unit_test(a_dense_shard_comes_back),
        cmocka_unit_test(a_sparse_shard_comes_back),
        cmocka_unit_test(a_range_needs_no_list_of_samples),
        cmocka_unit_test(an_empty_shard_is_a_shard),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(every_flipped_bit_is_refused_or_harmless),
        cmocka_unit_test(random_damage_never_breaks_a_promise),
        cmocka_unit_test(a_sample_is_found_where_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
