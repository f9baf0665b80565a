/*
 * base_test.c -- what the other rooms take for granted: sums that overflow are
 * refused, failures can be injected, draws are reproducible and unbiased, the
 * keyed permutation is one.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/blob.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/perm.h"
#include "base/rng.h"
#include "base/vec.h"

static void an_overflowing_array_is_refused(void **state)
{
    (void)state;
    assert_null(muster_mem_array(SIZE_MAX / 2, 3));
    assert_null(muster_mem_raw_aligned(SIZE_MAX, 1));
    assert_null(muster_mem_resize(NULL, SIZE_MAX / 2, 3));
}

static void allocations_fail_when_a_test_says_so(void **state)
{
    (void)state;
    muster_mem_fail_after(1);
    void *first = muster_mem_array(1, 8);
    void *second = muster_mem_array(1, 8);
    muster_mem_fail_after(UINT64_MAX);
    assert_non_null(first);
    assert_null(second);
    muster_mem_free(first);
}

static bool is_zero(const unsigned char *bytes, size_t count)
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, count - 1) == 0;
}

/* Below and above the 4 MiB from which on they are in large pages; also where
 * memory was used before, and where the last page is not filled. */
static void lines_are_zero_and_apart_whatever_their_number(void **state)
{
    (void)state;
    const size_t line = MUSTER_MEM_APART;
    const size_t limit = ((size_t)4 << 20) / line;
    const size_t counts[] = {1, 3, limit - 1, limit, limit + 1, 3 * limit + 5};
    for (size_t i = 0; i < 2 * sizeof(counts) / sizeof(counts[0]); i++) {
        size_t count = counts[i / 2];
        unsigned char *lines = muster_mem_lines(count, line);
        assert_non_null(lines);
        assert_int_equal((uintptr_t)lines % line, 0);
        assert_true(is_zero(lines, count * line));
        memset(lines, 0xff, count * line);
        muster_mem_free(lines);
    }
    // One element that is larger than that by itself.
    unsigned char *large = muster_mem_lines(1, 5000001);
    assert_non_null(large);
    assert_true(is_zero(large, 5000001));
    muster_mem_free(large);
    assert_null(muster_mem_lines(SIZE_MAX / 2, line));
}

static void a_blob_lives_until_its_last_reference(void **state)
{
    (void)state;
    muster_blob *blob = muster_blob_create(100);
    assert_int_equal((uintptr_t)blob->data % 64, 0);
    assert_ptr_equal(muster_blob_ref(blob), blob);
    muster_blob_unref(blob);
    memset(blob->data, 7, 100);
    muster_blob_unref(blob);
    muster_blob_unref(NULL);
}

static void a_vec_keeps_what_was_pushed(void **state)
{
    (void)state;
    muster_vec vec = muster_vec_make(sizeof(uint32_t));
    for (uint32_t i = 0; i < 1000; i++) {
        *(uint32_t *)muster_vec_push(&vec) = i;
    }
    for (uint32_t i = 0; i < 1000; i++) {
        assert_int_equal(((uint32_t *)vec.data)[i], i);
    }
    muster_vec_fini(&vec);
}

static void a_vec_in_lent_room_leaves_it_when_that_is_full(void **state)
{
    (void)state;
    uint32_t room[2] = {0, 0};
    muster_vec vec = muster_vec_make_in(sizeof(room[0]), room, 2);
    for (uint32_t i = 0; i < 2; i++) {
        *(uint32_t *)muster_vec_push(&vec) = i;
        assert_ptr_equal(vec.data, room);
    }
    *(uint32_t *)muster_vec_push(&vec) = 2;
    assert_ptr_not_equal(vec.data, room);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(((uint32_t *)vec.data)[i], i);
    }
    muster_vec_fini(&vec);
    assert_null(vec.data);
}

static void a_vec_in_lent_room_stays_there_without_memory(void **state)
{
    (void)state;
    uint32_t room[1];
    muster_vec vec = muster_vec_make_in(sizeof(room[0]), room, 1);
    *(uint32_t *)muster_vec_push(&vec) = 7;
    muster_mem_fail_after(0);
    assert_null(muster_vec_push(&vec));
    muster_mem_fail_after(UINT64_MAX);
    assert_ptr_equal(vec.data, room);
    assert_int_equal(room[0], 7);
    muster_vec_fini(&vec);
}

static void the_elements_of_a_vec_of_lines_begin_at_one(void **state)
{
    (void)state;
    muster_vec vec = muster_vec_make_lines(64);
    for (uint32_t i = 0; i < 100; i++) {
        uint32_t *element = muster_vec_push(&vec);
        assert_true((uintptr_t)element % 64 == 0);
        element[0] = i;
    }
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(*(uint32_t *)((char *)vec.data + i * 64), i);
    }
    muster_vec_fini(&vec);
}

static void draws_depend_on_all_three_numbers(void **state)
{
    (void)state;
    uint64_t here = muster_rng_at(1, 2, 3);
    assert_true(here == muster_rng_at(1, 2, 3));
    assert_true(here != muster_rng_at(2, 2, 3));
    assert_true(here != muster_rng_at(1, 3, 3));
    assert_true(here != muster_rng_at(1, 2, 4));
    // Philox 4x32-10 of zero key and counter, from the authors' test vectors.
    assert_true(muster_rng_at(0, 0, 0) == 0xe169c58d6627e8d5u);
}

static void draws_have_their_moments(void **state)
{
    (void)state;
    muster_rng rng = muster_rng_make(42, 0);
    double uniform = 0, normal = 0, square = 0, exponential = 0;
    const int count = 200000;
    for (int i = 0; i < count; i++) {
        double z = muster_rng_normal(&rng);
        uniform += muster_rng_uniform(&rng) / count;
        normal += z / count;
        square += z * z / count;
        exponential += muster_rng_exponential(&rng) / count;
    }
    // Five standard deviations of each mean.
    assert_true(fabs(uniform - 0.5) < 5 * 0.289 / sqrt(count));
    assert_true(fabs(normal) < 5 / sqrt(count));
    assert_true(fabs(square - 1) < 5 * 1.414 / sqrt(count));
    assert_true(fabs(exponential - 1) < 5 / sqrt(count));
}

static void bounded_draws_reach_every_value(void **state)
{
    (void)state;
    muster_rng rng = muster_rng_make(7, 1);
    int seen[6] = {0};
    for (int i = 0; i < 6000; i++) {
        seen[muster_rng_below(&rng, 6)]++;
    }
    for (int i = 0; i < 6; i++) {
        assert_in_range(seen[i], 850, 1150);
    }
}

static void the_permutation_is_a_bijection_for_every_count(void **state)
{
    (void)state;
    static uint8_t seen[4097];
    const uint64_t counts[] = {1, 2, 3, 4, 5, 16, 17, 100, 1000, 4096, 4097};
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        muster_perm perm = muster_perm_make(9, c, counts[c]);
        memset(seen, 0, sizeof(seen));
        for (uint64_t i = 0; i < counts[c]; i++) {
            uint64_t x = muster_perm_at(&perm, i);
            assert_true(x < counts[c]);
            assert_int_equal(seen[x]++, 0);
        }
    }
}

/* Short runs and long ones, from tables and without. */
static void a_run_of_positions_is_each_of_them(void **state)
{
    (void)state;
    static uint32_t run[4096];
    const uint64_t counts[] = {1, 5, 4097, 60000, 1000003, 5000000};
    const uint64_t lengths[] = {0, 1, 511, 512, 4096};
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        muster_perm perm = muster_perm_make(7, c, counts[c]);
        for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
            uint64_t count = lengths[l] < counts[c] ? lengths[l] : counts[c];
            uint64_t first = (counts[c] - count) / 2;
            muster_perm_run(&perm, first, count, run);
            for (uint64_t i = 0; i < count; i++) {
                assert_int_equal(run[i], muster_perm_at(&perm, first + i));
            }
        }
    }
}

static void epochs_are_permuted_differently(void **state)
{
    (void)state;
    muster_perm one = muster_perm_make(9, 0, 1000);
    muster_perm two = muster_perm_make(9, 1, 1000);
    int same = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        same += muster_perm_at(&one, i) == muster_perm_at(&two, i);
    }
    assert_in_range(same, 0, 10);
}

static void every_status_has_a_text_and_an_exit_code(void **state)
{
    (void)state;
    muster_error error;
    assert_int_equal(muster_error_set(&error, MUSTER_ERR_INPUT, "line %d", 3),
                     MUSTER_ERR_INPUT);
    assert_string_equal(error.text, "line 3");
    assert_int_equal(muster_error_set(NULL, MUSTER_ERR_INPUT, "x"),
                     MUSTER_ERR_INPUT);
    assert_int_equal(muster_status_exit_code(MUSTER_ERR_INPUT), 3);
    assert_int_equal(muster_status_exit_code(MUSTER_ERR_QUORUM), 4);
    assert_int_equal(muster_status_exit_code((muster_status)-999), 1);
    assert_string_equal(muster_status_name(MUSTER_OK), "MUSTER_OK");
    assert_string_equal(muster_status_text((muster_status)77),
                        "unknown status");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_overflowing_array_is_refused),
        cmocka_unit_test(allocations_fail_when_a_test_says_so),
        cmocka_unit_test(lines_are_zero_and_apart_whatever_their_number),
        cmocka_unit_test(a_blob_lives_until_its_last_reference),
        cmocka_unit_test(a_vec_keeps_what_was_pushed),
        cmocka_unit_test(a_vec_in_lent_room_leaves_it_when_that_is_full),
        cmocka_unit_test(a_vec_in_lent_room_stays_there_without_memory),
        cmocka_unit_test(the_elements_of_a_vec_of_lines_begin_at_one),
        cmocka_unit_test(draws_depend_on_all_three_numbers),
        cmocka_unit_test(draws_have_their_moments),
        cmocka_unit_test(bounded_draws_reach_every_value),
        cmocka_unit_test(the_permutation_is_a_bijection_for_every_count),
        cmocka_unit_test(a_run_of_positions_is_each_of_them),
        cmocka_unit_test(epochs_are_permuted_differently),
        cmocka_unit_test(every_status_has_a_text_and_an_exit_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
