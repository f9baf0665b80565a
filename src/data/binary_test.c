/*
 * binary_test.c -- idx and npy: what is read, what is refused with its byte,
 * and that no truncation or damage is taken for data.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "data/readers.h"

typedef muster_status (*reader)(muster_source *source, muster_source *labels,
                                muster_error *error_out, muster_table *table);

typedef struct bytes {
    uint8_t data[1024];
    size_t size;
} bytes;

static void add(bytes *to, const void *data, size_t size)
{
    assert_true(to->size + size <= sizeof(to->data));
    memcpy(to->data + to->size, data, size);
    to->size += size;
}

// npy without a wish for a certain label.
static muster_status read_npy(muster_source *source, muster_source *labels,
                              muster_error *error_out, muster_table *table)
{
    const muster_label_column none = {.name = NULL};
    return muster_npy_read(source, labels, &none, error_out, table);
}

static muster_status read_pair(reader read, const bytes *samples,
                               const bytes *labels, muster_error *error_out,
                               muster_table *table)
{
    *table = (muster_table){0};
    muster_source *first = NULL;
    muster_source *second = NULL;
    muster_status status = muster_source_open_memory(
        "S", samples->data, samples->size, error_out, &first);
    if (status == MUSTER_OK && labels != NULL) {
        status = muster_source_open_memory("L", labels->data, labels->size,
                                           error_out, &second);
    }
    if (status == MUSTER_OK) {
        status = read(first, second, error_out, table);
    }
    muster_source_close(first);
    muster_source_close(second);
    return status;
}

static void assert_refused(reader read, const bytes *samples,
                           const bytes *labels, const char *place,
                           const char *what)
{
    muster_table table;
    muster_error error = {.text = ""};
    assert_int_equal(read_pair(read, samples, labels, &error, &table),
                     MUSTER_ERR_INPUT);
    if (strncmp(error.text, place, strlen(place)) != 0 ||
        strstr(error.text, what) == NULL) {
        fail_msg("'%s' is not '%s ... %s'", error.text, place, what);
    }
    assert_null(table.dense);
}

static bytes idx_file(const uint32_t *sizes, unsigned dimensions,
                      const uint8_t *elements, size_t count)
{
    bytes file = {.size = 0};
    uint8_t magic[4] = {0, 0, 8, (uint8_t)dimensions};
    add(&file, magic, 4);
    for (unsigned d = 0; d < dimensions; d++) {
        uint8_t b[4] = {(uint8_t)(sizes[d] >> 24), (uint8_t)(sizes[d] >> 16),
                        (uint8_t)(sizes[d] >> 8), (uint8_t)sizes[d]};
        add(&file, b, 4);
    }
    add(&file, elements, count);
    return file;
}

static const uint8_t pixels[12] = {0, 255, 51, 1, 2, 3, 4, 5, 6, 7, 8, 9};
static const uint8_t digits[2] = {7, 3};

static bytes good_images(void)
{
    return idx_file((const uint32_t[]){2, 3, 2}, 3, pixels, 12);
}

static bytes good_digits(void)
{
    return idx_file((const uint32_t[]){2}, 1, digits, 2);
}

static void idx_images_become_rows_of_fractions(void **state)
{
    (void)state;
    bytes images = good_images();
    bytes labels = good_digits();
    muster_table table;
    assert_int_equal(read_pair(muster_idx_read, &images, &labels, NULL, &table),
                     MUSTER_OK);
    assert_int_equal(table.samples, 2);
    assert_int_equal(table.features, 6);
    for (int i = 0; i < 12; i++) {
        assert_true(table.dense[i] == (float)pixels[i] / 255.0f);
    }
    assert_true(table.dense[1] == 1.0f);
    assert_true(table.labels[0] == 7.0f && table.labels[1] == 3.0f);
    muster_table_fini(&table);
}

static void bad_idx_files_are_named(void **state)
{
    (void)state;
    reader r = muster_idx_read;
    bytes images = good_images();
    bytes labels = good_digits();
    bytes bad = images;
    bad.data[0] = 1;
    assert_refused(r, &bad, &labels, "S: byte 0: ", "not an idx file");
    bad = images;
    bad.data[2] = 0x0d;
    assert_refused(r, &bad, &labels, "S: byte 0: ", "type 0x0d");
    bad = images;
    bad.data[3] = 9;
    assert_refused(r, &bad, &labels, "S: byte 0: ", "9 idx dimensions");
    bad = images;
    bad.size--;
    assert_refused(r, &bad, &labels, "S: byte 16: ", "cut short");
    bad = images;
    bad.size++;
    assert_refused(r, &bad, &labels, "S: byte 28: ", "goes on");
    bad = labels;
    bad.data[7] = 3;
    bad.size++;
    assert_refused(r, &images, &bad, "L: byte 8: ", "3 labels");
    assert_refused(r, &labels, &labels, "L: byte ", "need one label a sample");
    bad = idx_file((const uint32_t[]){0, 3}, 2, pixels, 0);
    bytes none = idx_file((const uint32_t[]){0}, 1, pixels, 0);
    assert_refused(r, &bad, &none, "S: ", "nothing to learn from");
    // Sizes that no file can keep are refused before memory is asked for.
    bad = idx_file((const uint32_t[]){UINT32_MAX, UINT32_MAX, UINT32_MAX}, 3,
                   pixels, 12);
    assert_refused(r, &bad, &labels, "S: byte ", "values a sample");
    bad = idx_file((const uint32_t[]){UINT32_MAX, 1 << 14, 1 << 14}, 3, pixels,
                   12);
    assert_refused(r, &bad, &labels, "S: byte 16: ", "cut short");
}

static bytes npy_file(const char *dictionary, const void *data, size_t size)
{
    bytes file = {.size = 0};
    size_t length = strlen(dictionary);
    uint8_t head[10] = {0x93,
                        'N',
                        'U',
                        'M',
                        'P',
                        'Y',
                        1,
                        0,
                        (uint8_t)length,
                        (uint8_t)(length >> 8)};
    add(&file, head, sizeof(head));
    add(&file, dictionary, length);
    add(&file, data, size);
    return file;
}

#define NPY(type, shape) \
    "{'descr': '" type "', 'fortran_order': False, 'shape': " shape ", }\n"

static void npy_elements_of_each_type_are_read(void **state)
{
    (void)state;
    static const float f4[4] = {1, -2, 3, 4};
    static const double f8[4] = {1, -2, 3, 4};
    static const int8_t i1[4] = {1, -2, 3, 4};
    static const int16_t i2[4] = {1, -2, 3, 4};
    static const int32_t i4[4] = {1, -2, 3, 4};
    static const int64_t i8[4] = {1, -2, 3, 4};
    const bytes files[] = {
        npy_file(NPY("<f4", "(2, 2)"), f4, sizeof(f4)),
        npy_file(NPY("<f8", "(2, 2)"), f8, sizeof(f8)),
        npy_file(NPY("|i1", "(2, 2)"), i1, sizeof(i1)),
        npy_file(NPY("<i2", "(2, 2)"), i2, sizeof(i2)),
        npy_file(NPY("<i4", "(2,2)"), i4, sizeof(i4)),
        npy_file(NPY("<i8", "(2, 2, 1)"), i8, sizeof(i8)),
    };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        muster_table table;
        assert_int_equal(read_pair(read_npy, &files[i], NULL, NULL, &table),
                         MUSTER_OK);
        assert_int_equal(table.samples, 2);
        assert_int_equal(table.features, 1);
        assert_true(table.dense[0] == 1.0f && table.dense[1] == 3.0f);
        assert_true(table.labels[0] == -2.0f && table.labels[1] == 4.0f);
        muster_table_fini(&table);
    }
}

static void npy_labels_may_be_a_file_of_their_own(void **state)
{
    (void)state;
    static const float x[6] = {1, 2, 3, 4, 5, 6};
    static const uint8_t y[3] = {200, 0, 1};
    bytes samples = npy_file(NPY("<f4", "(3, 2)"), x, sizeof(x));
    bytes labels = npy_file(NPY("|u1", "(3,)"), y, sizeof(y));
    muster_table table;
    assert_int_equal(read_pair(read_npy, &samples, &labels, NULL, &table),
                     MUSTER_OK);
    assert_int_equal(table.features, 2);
    assert_memory_equal(table.dense, x, sizeof(x));
    assert_true(table.labels[0] == 200.0f);
    muster_table_fini(&table);
    bytes wrong = npy_file(NPY("|u1", "(2,)"), y, 2);
    assert_refused(read_npy, &samples, &wrong, "L: byte ", "need one");
    wrong = npy_file(NPY("<f4", "(6,)"), x, sizeof(x));
    assert_refused(read_npy, &wrong, &labels, "S: byte ", "two dimensions");
}

static void any_column_of_an_npy_file_may_be_the_label(void **state)
{
    (void)state;
    static const float x[6] = {1, 2, 3, 4, 5, 6};
    bytes samples = npy_file(NPY("<f4", "(2, 3)"), x, sizeof(x));
    for (uint32_t number = 0; number <= 3; number++) {
        const muster_label_column label = {
            .number = number, .is_given = number > 0, .unlabelled = 3};
        uint32_t features = number > 0 ? 2 : 3;
        muster_source *source = NULL;
        muster_table table = {0};
        assert_int_equal(muster_source_open_memory("S", samples.data,
                                                   samples.size, NULL, &source),
                         MUSTER_OK);
        assert_int_equal(muster_npy_read(source, NULL, &label, NULL, &table),
                         MUSTER_OK);
        muster_source_close(source);
        assert_int_equal(table.label_column, number);
        assert_int_equal(table.features, features);
        assert_true((table.labels == NULL) == (number == 0));
        for (uint32_t row = 0; row < 2; row++) {
            for (uint32_t c = 0, i = 1; c < features; c++, i++) {
                i += i == number;
                assert_true(table.dense[row * features + c] ==
                            (float)(row * 3 + i));
            }
            assert_true(number == 0 ||
                        table.labels[row] == (float)(row * 3 + number));
        }
        muster_table_fini(&table);
    }
}

static void bad_npy_files_are_named(void **state)
{
    (void)state;
    reader r = read_npy;
    static const float x[4] = {1, 2, 3, 4};
    bytes good = npy_file(NPY("<f4", "(2, 2)"), x, sizeof(x));
    bytes bad = good;
    bad.data[1] = 'n';
    assert_refused(r, &bad, NULL, "S: byte ", "not an npy file");
    bad = good;
    bad.size--;
    assert_refused(r, &bad, NULL, "S: byte ", "cut short");
    bad = good;
    bad.size++;
    assert_refused(r, &bad, NULL, "S: byte ", "goes on");
    static const char *const dictionaries[][2] = {
        {NPY(">f4", "(2, 2)"), "little-endian"},
        {NPY("<c8", "(2, 1)"), "little-endian"},
        {NPY("|f4", "(2, 2)"), "little-endian"},
        {NPY("<f4", "(4,)"), "two dimensions"},
        {NPY("<f4", "()"), "not (a, b)"},
        {NPY("<f4", "(2, x)"), "not (a, b)"},
        {NPY("<f4", "(4, 1)"), "label among"},
        {NPY("<f4", "(0, 4)"), "nothing to learn"},
        {NPY("<f4", "(99999999999999999999, 2)"), "too large"},
        {NPY("<f4", "(4, 99999999999999999999)"), "too large"},
        {NPY("<f4", "(4000000000, 200000000)"), "cut short"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }",
         "C order"},
        {"{'descr': [('a', '<f4')], 'shape': (2, 2), }", "descr"},
        {"{'descr': '<f4', 'fortran_order': False }", "shape"},
    };
    for (size_t i = 0; i < sizeof(dictionaries) / sizeof(dictionaries[0]);
         i++) {
        size_t size = strstr(dictionaries[i][1], "nothing") ? 0 : sizeof(x);
        bad = npy_file(dictionaries[i][0], x, size);
        assert_refused(r, &bad, NULL, "S: ", dictionaries[i][1]);
    }
    const float odd[4] = {1, 2, NAN, 4};
    bad = npy_file(NPY("<f4", "(2, 2)"), odd, sizeof(odd));
    char place[64];
    snprintf(place, sizeof(place), "at byte %zu is not", bad.size - 8);
    assert_refused(r, &bad, NULL, "S: byte ", place);
    static const double large[2] = {1e39, 1};
    bad = npy_file(NPY("<f8", "(1, 2)"), large, sizeof(large));
    assert_refused(r, &bad, NULL, "S: byte ", "not finite");
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    static const float x[4] = {1, 2, 3, 4};
    bytes images = good_images();
    bytes labels = good_digits();
    bytes array = npy_file(NPY("<f4", "(2, 2)"), x, sizeof(x));
    muster_table table;
    for (size_t cut = 0; cut < images.size; cut++) {
        bytes bad = images;
        bad.size = cut;
        assert_int_equal(
            read_pair(muster_idx_read, &bad, &labels, NULL, &table),
            MUSTER_ERR_INPUT);
    }
    for (size_t cut = 0; cut < labels.size; cut++) {
        bytes bad = labels;
        bad.size = cut;
        assert_int_equal(
            read_pair(muster_idx_read, &images, &bad, NULL, &table),
            MUSTER_ERR_INPUT);
    }
    for (size_t cut = 0; cut < array.size; cut++) {
        bytes bad = array;
        bad.size = cut;
        assert_int_equal(read_pair(read_npy, &bad, NULL, NULL, &table),
                         MUSTER_ERR_INPUT);
    }
}

// Bytes changed at random give data within the promises, or an error.
static void random_damage_is_safe(void **state)
{
    (void)state;
    static const float x[4] = {1, 2, 3, 4};
    bytes images = good_images();
    bytes labels = good_digits();
    bytes array = npy_file(NPY("<f4", "(2, 2)"), x, sizeof(x));
    muster_rng rng = muster_rng_make(8, 8);
    for (int i = 0; i < 6000; i++) {
        bytes bad = i % 2 == 0 ? images : array;
        uint64_t changes = 1 + muster_rng_below(&rng, 3);
        for (uint64_t c = 0; c < changes; c++) {
            bad.data[muster_rng_below(&rng, bad.size)] =
                (uint8_t)muster_rng_next(&rng);
        }
        muster_table table;
        muster_status status =
            i % 2 == 0 ? read_pair(muster_idx_read, &bad, &labels, NULL, &table)
                       : read_pair(read_npy, &bad, NULL, NULL, &table);
        for (uint64_t e = 0; e < table.samples * table.features; e++) {
            assert_true(isfinite(table.dense[e]));
        }
        assert_true(status == MUSTER_OK || table.dense == NULL);
        muster_table_fini(&table);
    }
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    static const float x[4] = {1, 2, 3, 4};
    bytes images = good_images();
    bytes labels = good_digits();
    bytes array = npy_file(NPY("<f4", "(2, 2)"), x, sizeof(x));
    for (int which = 0; which < 2; which++) {
        muster_status status = MUSTER_ERR_NO_MEMORY;
        for (uint64_t allowed = 0; status != MUSTER_OK; allowed++) {
            assert_in_range(allowed, 0, 100);
            muster_table table;
            muster_mem_fail_after(allowed);
            status =
                which == 0
                    ? read_pair(muster_idx_read, &images, &labels, NULL, &table)
                    : read_pair(read_npy, &array, NULL, NULL, &table);
            muster_mem_fail_after(UINT64_MAX);
            assert_true(status == MUSTER_OK || status == MUSTER_ERR_NO_MEMORY);
            assert_true(status == MUSTER_OK || table.dense == NULL);
            muster_table_fini(&table);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idx_images_become_rows_of_fractions),
        cmocka_unit_test(bad_idx_files_are_named),
        cmocka_unit_test(npy_elements_of_each_type_are_read),
        cmocka_unit_test(npy_labels_may_be_a_file_of_their_own),
        cmocka_unit_test(any_column_of_an_npy_file_may_be_the_label),
        cmocka_unit_test(bad_npy_files_are_named),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(random_damage_is_safe),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
