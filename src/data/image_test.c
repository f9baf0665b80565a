/*
 * image_test.c -- files of images: CIFAR-10's batches as one data set, pixels
 * in their places, and that idx and npy arrays of images keep their shape.
 */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <zlib.h>

#include "base/folder_test.h"
#include "data/dataset.h"

#define RECORD ((size_t)3073)
#define PIXELS 1024u

static char folder[] = "/tmp/muster-image-XXXXXX";

static const char *inside(const char *name, char path[128])
{
    (void)snprintf(path, 128, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const void *bytes, size_t size)
{
    char path[128];
    gzFile file =
        gzopen(inside(name, path), strstr(name, ".gz") != NULL ? "wb" : "wbT");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, bytes, (unsigned)size), size);
    assert_int_equal(gzclose(file), Z_OK);
}

/* Value of channel c of pixel p of the image that has this label. */
static uint8_t value_of(uint32_t label, uint32_t c, uint32_t p)
{
    return (uint8_t)(label * 31 + c * 97 + p);
}

static void write_batch(const char *name, uint32_t first_label)
{
    static uint8_t records[2 * RECORD];
    for (uint32_t i = 0; i < 2; i++) {
        uint8_t *record = records + i * RECORD;
        uint32_t label = first_label + i;
        record[0] = (uint8_t)label;
        for (uint32_t j = 0; j < RECORD - 1; j++) {
            record[1 + j] = value_of(label, j / PIXELS, j % PIXELS);
        }
    }
    write_file(name, records, sizeof(records));
}

static void check_image(muster_image image, uint32_t height, uint32_t width,
                        uint32_t channels)
{
    assert_int_equal(image.height, height);
    assert_int_equal(image.width, width);
    assert_int_equal(image.channels, channels);
}

static void batches_of_cifar_are_one_data_set(void **state)
{
    (void)state;
    char path[128];
    muster_dataset *train = NULL;
    muster_dataset *test = NULL;
    write_batch("data_batch_1.bin", 0);
    write_batch("data_batch_2.bin.gz", 2);
    write_batch("data_batch_3.bin", 4);
    write_batch("test_batch.bin", 1);
    assert_int_equal(muster_dataset_load(folder, NULL, NULL, &train),
                     MUSTER_OK);
    muster_dataset_info info = muster_dataset_describe(train);
    assert_int_equal(info.samples, 6);
    assert_int_equal(info.classes, 6);
    check_image(info.image, 32, 32, 3);
    muster_rows rows = muster_dataset_rows(train, 0, 6);
    for (uint32_t r = 0; r < 6; r++) {
        const float *row = rows.dense + r * rows.stride;
        assert_true(rows.labels[r] == (float)r);
        for (uint32_t c = 0; c < 3; c++) {
            uint32_t p = 33 * (r + 1);
            assert_true(row[3 * p + c] == (float)value_of(r, c, p) / 255.0f);
        }
    }
    assert_int_equal(muster_dataset_load_test(NULL, folder, train, NULL, &test),
                     MUSTER_OK);
    assert_int_equal(muster_dataset_describe(test).samples, 2);
    muster_dataset_free(test);
    muster_dataset_free(train);
    // A later batch alone is what it is.
    assert_int_equal(muster_dataset_load(inside("data_batch_3.bin", path), NULL,
                                         NULL, &train),
                     MUSTER_OK);
    assert_int_equal(muster_dataset_describe(train).samples, 2);
    muster_dataset_free(train);
}

static void refused(const char *name, const void *bytes, size_t size,
                    const char *text)
{
    char path[128];
    muster_error error = {.text = ""};
    muster_dataset *dataset = NULL;
    write_file(name, bytes, size);
    assert_int_equal(
        muster_dataset_load(inside(name, path), NULL, &error, &dataset),
        MUSTER_ERR_INPUT);
    if (strstr(error.text, text) == NULL) {
        fail_msg("'%s' does not say '%s'", error.text, text);
    }
}

static void bad_cifar_files_are_named(void **state)
{
    (void)state;
    static uint8_t records[2 * RECORD];
    refused("data_batch_9.bin", records, 2 * RECORD - 5, "5 bytes too early");
    records[RECORD] = 10;
    refused("data_batch_9.bin", records, 2 * RECORD,
            "byte 3074: the label before is 10");
}

static void idx_and_npy_images_keep_their_shape(void **state)
{
    (void)state;
    char path[128];
    muster_dataset *set = NULL;
    static const uint8_t images[] = {0, 0, 8, 3, 0, 0,  0,  2, 0, 0,
                                     0, 2, 0, 0, 0, 3,  1,  2, 3, 4,
                                     5, 6, 7, 8, 9, 10, 11, 12};
    static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 0, 1};
    write_file("train-images-idx3-ubyte", images, sizeof(images));
    write_file("train-labels-idx1-ubyte", labels, sizeof(labels));
    assert_int_equal(
        muster_dataset_load(inside("train-images-idx3-ubyte", path), NULL, NULL,
                            &set),
        MUSTER_OK);
    check_image(muster_dataset_describe(set).image, 2, 3, 1);
    muster_dataset_free(set);

    char npy[128 + 2 * 2 * 3 * 3] = "\x93NUMPY\x01\x00\x76";
    (void)snprintf(npy + 10, 119, "%-117s\n",
                   "{'descr': '|u1', 'fortran_order': False, "
                   "'shape': (2, 2, 3, 3), }");
    char column[128 + 2] = "\x93NUMPY\x01\x00\x76";
    (void)snprintf(column + 10, 119, "%-117s\n",
                   "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }");
    npy[128] = 1;
    column[128] = 1;
    column[129] = 2;
    write_file("pictures.npy", npy, sizeof(npy));
    write_file("pictures_labels.npy", column, sizeof(column));
    assert_int_equal(
        muster_dataset_load(inside("pictures.npy", path), NULL, NULL, &set),
        MUSTER_OK);
    check_image(muster_dataset_describe(set).image, 2, 3, 3);
    muster_dataset_free(set);
}

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    return folder_drop(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_of_cifar_are_one_data_set),
        cmocka_unit_test(bad_cifar_files_are_named),
        cmocka_unit_test(idx_and_npy_images_keep_their_shape),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
