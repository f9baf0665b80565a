/*
 * directory_test.c -- directories come back as they went; damaged ones are
 * refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "wire/directory.h"

static const uint8_t golden[] = {
    9, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0,   0,        // epoch 9, two entries
    1, 0, 0, 0, 5, 0, 0, 0, 3, 0, 'a', ':', 'b', // number 1, life 5
    4, 0, 0, 0, 6, 0, 0, 0, 0, 0,                // number 4, life 6
};

static void a_directory_comes_back_as_it_went(void **state)
{
    (void)state;
    muster_directory directory;
    assert_int_equal(
        muster_directory_read(golden, sizeof(golden), NULL, &directory),
        MUSTER_OK);
    const muster_directory_entry *entries = directory.entries.data;
    assert_int_equal(directory.epoch, 9);
    assert_int_equal(directory.entries.count, 2);
    assert_int_equal(entries[0].id, 1);
    assert_int_equal(entries[0].incarnation, 5);
    assert_string_equal(entries[0].address, "a:b");
    assert_int_equal(entries[1].id, 4);
    uint8_t again[sizeof(golden)];
    assert_int_equal(muster_directory_bytes(&directory), sizeof(golden));
    muster_directory_write(&directory, again);
    assert_memory_equal(again, golden, sizeof(golden));
    muster_directory_fini(&directory);
}

static muster_status read_back(const uint8_t *bytes, size_t size)
{
    muster_directory directory;
    muster_status status = muster_directory_read(bytes, size, NULL, &directory);
    if (status == MUSTER_OK) {
        uint8_t again[sizeof(golden)];
        assert_int_equal(muster_directory_bytes(&directory), size);
        muster_directory_write(&directory, again);
        assert_memory_equal(again, bytes, size);
        muster_directory_fini(&directory);
    }
    return status;
}

static void damage_is_refused_or_another_directory(void **state)
{
    (void)state;
    for (size_t cut = 0; cut < sizeof(golden); cut++) {
        assert_int_equal(read_back(golden, cut), MUSTER_ERR_PROTOCOL);
    }
    uint8_t bytes[sizeof(golden)];
    memcpy(bytes, golden, sizeof(golden));
    for (size_t bit = 0; bit < 8 * sizeof(golden); bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        (void)read_back(bytes, sizeof(bytes));
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    bytes[12] = 4; // the same number twice
    assert_int_equal(read_back(bytes, sizeof(bytes)), MUSTER_ERR_PROTOCOL);
}

static void a_directory_without_memory_is_an_error(void **state)
{
    (void)state;
    muster_mem_fail_after(0);
    muster_status status = read_back(golden, sizeof(golden));
    muster_mem_fail_after(UINT64_MAX);
    assert_int_equal(status, MUSTER_ERR_NO_MEMORY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_directory_comes_back_as_it_went),
        cmocka_unit_test(damage_is_refused_or_another_directory),
        cmocka_unit_test(a_directory_without_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
