/*
 * dataset_real_test.c -- mnist and a9a, where they are present: whole, with the
 * numbers that were published of them.
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

#include "data/dataset.h"

static muster_dataset *load(const char *spec)
{
    muster_dataset *dataset = NULL;
    muster_error error = {.text = ""};
    if (muster_dataset_load(spec, NULL, &error, &dataset) != MUSTER_OK) {
        fail_msg("%s", error.text);
    }
    return dataset;
}

static muster_dataset *load_test(const char *train_spec,
                                 const muster_dataset *train)
{
    muster_dataset *dataset = NULL;
    muster_error error = {.text = ""};
    if (muster_dataset_load_test(NULL, train_spec, train, &error, &dataset) !=
        MUSTER_OK) {
        fail_msg("%s", error.text);
    }
    return dataset;
}

// The folder of real data, or NULL after saying why the test is skipped.
static const char *real_data(const char *name, char *path, size_t size)
{
    const char *root = getenv("MUSTER_DATA");
    snprintf(path, size, "%s/%s", root != NULL ? root : "../shared/data", name);
    if (access(path, R_OK) == 0) {
        return path;
    }
    const char *ci = getenv("CI");
    if (ci != NULL && strcmp(ci, "true") == 0) {
        fail_msg("%s is missing; set MUSTER_DATA", path);
    }
    print_message("skipped: no %s; set MUSTER_DATA to check real data\n", path);
    return NULL;
}

static void mnist_is_read_whole(void **state)
{
    (void)state;
    char path[512];
    if (real_data("mnist", path, sizeof(path)) == NULL) {
        skip();
    }
    muster_dataset *train = load(path);
    muster_dataset *test = load_test(path, train);
    muster_dataset_info info = muster_dataset_describe(train);
    assert_int_equal(info.samples, 60000);
    assert_int_equal(info.features, 784);
    assert_int_equal(info.classes, 10);
    assert_int_equal(muster_dataset_describe(test).samples, 10000);
    // The published facts: first labels, and the mean pixel 0.1307.
    static const float first[] = {5, 0, 4, 1, 9, 2, 1, 3, 1, 4};
    muster_rows rows = muster_dataset_rows(train, 0, 60000);
    assert_memory_equal(rows.labels, first, sizeof(first));
    double sum = 0;
    for (size_t i = 0; i < (size_t)60000 * 784; i++) {
        sum += (double)rows.dense[i];
    }
    assert_true(sum / (60000.0 * 784.0) > 0.13065 &&
                sum / (60000.0 * 784.0) < 0.13067);
    muster_dataset_free(train);
    muster_dataset_free(test);
}

static void a9a_is_read_whole(void **state)
{
    (void)state;
    char path[512];
    if (real_data("a9a", path, sizeof(path)) == NULL) {
        skip();
    }
    muster_dataset *train = load(path);
    muster_dataset *test = load_test(path, train);
    muster_dataset_info info = muster_dataset_describe(train);
    assert_int_equal(info.samples, 32561);
    assert_int_equal(info.features, 123);
    assert_int_equal(info.classes, 2);
    assert_int_equal(info.nonzeros, 451592);
    assert_true(info.sparse);
    info = muster_dataset_describe(test);
    assert_int_equal(info.samples, 16281);
    assert_int_equal(info.features, 123); // its own file stops at 122
    uint32_t positive = 0;
    muster_rows rows = muster_dataset_rows(test, 0, 16281);
    for (uint32_t i = 0; i < rows.count; i++) {
        positive += rows.labels[i] == 1.0f;
    }
    assert_int_equal(positive, 3846);
    muster_dataset_free(train);
    muster_dataset_free(test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mnist_is_read_whole),
        cmocka_unit_test(a9a_is_read_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
