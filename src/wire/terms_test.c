/*
 * terms_test.c -- plans come back as they went; damaged ones are refused.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "wire/terms.h"

static muster_code_encode_term sample_terms[] = {
    {0, 1, 0, 1.0}, {0, 1, 1, -2.5}, {1, 1, 0, 0.5}, {0, 4, 1, 3e-300}};
static muster_terms_part sample_parts[] = {{1, 3, 2}, {4, 5, 0}};
static const muster_terms sample = {2, 2, 4, 2, sample_terms, sample_parts};
#define SAMPLE_BYTES (16u + 4u * 20u + 2u * 12u)

static void write_sample(uint8_t *bytes)
{
    assert_int_equal(muster_terms_bytes(4, 2), SAMPLE_BYTES);
    muster_terms_write(&sample, bytes);
}

static muster_status read_back(const uint8_t *bytes, size_t size)
{
    muster_terms back;
    muster_status status = muster_terms_read(bytes, size, NULL, &back);
    if (status == MUSTER_OK) {
        muster_terms_fini(&back);
    }
    return status;
}

static void terms_come_back_as_they_went(void **state)
{
    (void)state;
    uint8_t bytes[SAMPLE_BYTES];
    write_sample(bytes);
    muster_terms back;
    assert_int_equal(muster_terms_read(bytes, sizeof(bytes), NULL, &back),
                     MUSTER_OK);
    assert_int_equal(back.gradient_blocks, 2);
    assert_int_equal(back.message_blocks, 2);
    assert_int_equal(back.count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(back.terms[i].message_block,
                         sample_terms[i].message_block);
        assert_int_equal(back.terms[i].part, sample_terms[i].part);
        assert_int_equal(back.terms[i].gradient_block,
                         sample_terms[i].gradient_block);
        assert_memory_equal(&back.terms[i].coef, &sample_terms[i].coef, 8);
    }
    assert_int_equal(back.part_count, 2);
    assert_memory_equal(back.parts, sample_parts, sizeof(sample_parts));
    muster_terms_fini(&back);
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    uint8_t bytes[SAMPLE_BYTES];
    write_sample(bytes);
    for (size_t cut = 0; cut < sizeof(bytes); cut++) {
        assert_int_equal(read_back(bytes, cut), MUSTER_ERR_PROTOCOL);
    }
}

static void every_flipped_bit_is_refused_or_another_plan(void **state)
{
    (void)state;
    uint8_t bytes[SAMPLE_BYTES];
    uint8_t again[SAMPLE_BYTES];
    write_sample(bytes);
    for (size_t bit = 0; bit < 8 * sizeof(bytes); bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        muster_terms back;
        if (muster_terms_read(bytes, sizeof(bytes), NULL, &back) == MUSTER_OK) {
            muster_terms_write(&back, again);
            assert_memory_equal(again, bytes, sizeof(bytes));
            muster_terms_fini(&back);
        }
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void refused_with(muster_code_encode_term last)
{
    uint8_t bytes[SAMPLE_BYTES];
    muster_code_encode_term terms[4];
    memcpy(terms, sample_terms, sizeof(terms));
    terms[3] = last;
    muster_terms_write(&(muster_terms){2, 2, 4, 2, terms, sample_parts}, bytes);
    assert_int_equal(read_back(bytes, sizeof(bytes)), MUSTER_ERR_PROTOCOL);
}

static void refused_parts(muster_terms_part first, muster_terms_part last)
{
    uint8_t bytes[SAMPLE_BYTES];
    muster_terms_part parts[] = {first, last};
    muster_terms_write(&(muster_terms){2, 2, 4, 2, sample_terms, parts}, bytes);
    assert_int_equal(read_back(bytes, sizeof(bytes)), MUSTER_ERR_PROTOCOL);
}

static void wrong_shards_are_refused(void **state)
{
    (void)state;
    const muster_terms_part one = {1, 3, 2};
    refused_parts(one, (muster_terms_part){3, 5, 1}); // not of the terms
    refused_parts(one, (muster_terms_part){4, 4, 1}); // in both
    refused_parts(one, (muster_terms_part){4, 0, 1}); // out of order
    refused_parts(one, (muster_terms_part){4, UINT32_MAX, 1});
    refused_parts((muster_terms_part){4, 5, 1}, one);
}

static void as_many_parts_as_the_terms_name_are_wanted(void **state)
{
    (void)state;
    muster_terms_part parts[] = {{1, 3, 2}, {4, 5, 0}, {5, 5, 1}};
    uint8_t bytes[SAMPLE_BYTES + 12];
    for (uint32_t count = 1; count <= 3; count++) {
        muster_terms terms = {2, 2, 4, count, sample_terms, parts};
        muster_terms_write(&terms, bytes);
        assert_int_equal(read_back(bytes, muster_terms_bytes(4, count)),
                         count == 2 ? MUSTER_OK : MUSTER_ERR_PROTOCOL);
    }
}

static void wrong_terms_are_refused(void **state)
{
    (void)state;
    refused_with((muster_code_encode_term){2, 4, 0, 1.0}); // message block
    refused_with((muster_code_encode_term){0, 4, 2, 1.0}); // gradient block
    refused_with((muster_code_encode_term){0, 4, 0, NAN});
    refused_with((muster_code_encode_term){0, 4, 0, INFINITY});
    refused_with((muster_code_encode_term){0, 0, 0, 1.0}); // out of order
    refused_with((muster_code_encode_term){0, 1, 0, 1.0}); // out of order
}

static void a_plan_without_memory_is_an_error(void **state)
{
    (void)state;
    uint8_t bytes[SAMPLE_BYTES];
    write_sample(bytes);
    muster_mem_fail_after(0);
    muster_status status = read_back(bytes, sizeof(bytes));
    muster_mem_fail_after(UINT64_MAX);
    assert_int_equal(status, MUSTER_ERR_NO_MEMORY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(terms_come_back_as_they_went),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(every_flipped_bit_is_refused_or_another_plan),
        cmocka_unit_test(wrong_terms_are_refused),
        cmocka_unit_test(wrong_shards_are_refused),
        cmocka_unit_test(as_many_parts_as_the_terms_name_are_wanted),
        cmocka_unit_test(a_plan_without_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
