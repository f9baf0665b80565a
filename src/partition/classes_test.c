/*
 * classes_test.c -- labels of all kinds become classes; bad labels are refused
 * with the row they stand in.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "partition/classes.h"

static muster_partition_opts labelled(const float *labels, uint32_t count,
                                      uint32_t kind)
{
    muster_partition_opts opts = MUSTER_PARTITION_OPTS_INIT;
    opts.rows.count = count;
    opts.rows.labels = labels;
    opts.label_kind = kind;
    return opts;
}

static void equal_labels_are_one_class(void **state)
{
    (void)state;
    static const float labels[] = {7, -1, 7, 2, -1, 7};
    muster_partition_opts opts = labelled(labels, 6, MUSTER_PARTITION_CLASSES);
    muster_sample_classes classes;
    assert_int_equal(muster_sample_classes_init(&classes, &opts, NULL),
                     MUSTER_OK);
    static const uint32_t of[] = {2, 0, 2, 1, 0, 2};
    static const uint32_t members[] = {1, 4, 3, 0, 2, 5};
    static const uint32_t starts[] = {0, 2, 3, 6};
    assert_int_equal(classes.count, 3);
    assert_memory_equal(classes.of, of, sizeof(of));
    assert_memory_equal(classes.members, members, sizeof(members));
    assert_memory_equal(classes.starts, starts, sizeof(starts));
    assert_true(classes.values[1] == 2.0f);
    muster_sample_classes_fini(&classes);
}

static void unlabelled_rows_are_one_class(void **state)
{
    (void)state;
    muster_partition_opts opts = labelled(NULL, 5, MUSTER_PARTITION_UNLABELLED);
    muster_sample_classes classes;
    assert_int_equal(muster_sample_classes_init(&classes, &opts, NULL),
                     MUSTER_OK);
    assert_int_equal(classes.count, 1);
    assert_int_equal(muster_sample_classes_size(&classes, 0), 5);
    muster_sample_classes_fini(&classes);
}

static void targets_are_cut_at_quantiles(void **state)
{
    (void)state;
    float labels[100];
    for (uint32_t i = 0; i < 100; i++) {
        labels[i] = (float)((i * 37) % 100) * 0.01f;
    }
    muster_partition_opts opts =
        labelled(labels, 100, MUSTER_PARTITION_TARGETS);
    opts.quantiles = 4;
    muster_sample_classes classes;
    assert_int_equal(muster_sample_classes_init(&classes, &opts, NULL),
                     MUSTER_OK);
    assert_int_equal(classes.count, 4);
    for (uint32_t c = 0; c < 4; c++) {
        assert_int_equal(muster_sample_classes_size(&classes, c), 25);
    }
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(classes.of[i], (i * 37) % 100 / 25);
    }
    muster_sample_classes_fini(&classes);
}

static void equal_targets_stay_together(void **state)
{
    (void)state;
    static const float labels[] = {0, 0, 0, 0, 0, 0, 0, 1, 2, 3};
    muster_partition_opts opts = labelled(labels, 10, MUSTER_PARTITION_TARGETS);
    opts.quantiles = 5;
    muster_sample_classes classes;
    assert_int_equal(muster_sample_classes_init(&classes, &opts, NULL),
                     MUSTER_OK);
    assert_int_equal(classes.count, 2);
    assert_int_equal(muster_sample_classes_size(&classes, 0), 8);
    muster_sample_classes_fini(&classes);
}

static void more_quantiles_than_rows_is_a_class_a_row(void **state)
{
    (void)state;
    static const float labels[] = {3, 1, 2};
    muster_partition_opts opts = labelled(labels, 3, MUSTER_PARTITION_TARGETS);
    opts.quantiles = 50;
    muster_sample_classes classes;
    assert_int_equal(muster_sample_classes_init(&classes, &opts, NULL),
                     MUSTER_OK);
    assert_int_equal(classes.count, 3);
    muster_sample_classes_fini(&classes);
}

static void bad_labels_name_their_row(void **state)
{
    (void)state;
    float labels[] = {1, 2, NAN};
    muster_error error;
    muster_sample_classes classes;
    muster_partition_opts opts = labelled(labels, 3, MUSTER_PARTITION_CLASSES);
    assert_int_equal(muster_sample_classes_init(&classes, &opts, &error),
                     MUSTER_ERR_INVALID);
    assert_non_null(strstr(error.text, "row 2"));
    opts.rows.labels = NULL;
    assert_int_equal(muster_sample_classes_init(&classes, &opts, &error),
                     MUSTER_ERR_INVALID);
    assert_non_null(strstr(error.text, "no labels"));
}

static void too_many_classes_are_refused(void **state)
{
    (void)state;
    uint32_t count = MUSTER_PARTITION_CLASSES_MAX + 1;
    float *labels = muster_mem_array(count, sizeof(*labels));
    assert_non_null(labels);
    for (uint32_t i = 0; i < count; i++) {
        labels[i] = (float)i;
    }
    muster_partition_opts opts =
        labelled(labels, count, MUSTER_PARTITION_CLASSES);
    muster_error error;
    muster_sample_classes classes;
    assert_int_equal(muster_sample_classes_init(&classes, &opts, &error),
                     MUSTER_ERR_INVALID);
    assert_non_null(strstr(error.text, "real targets"));
    muster_mem_free(labels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_labels_are_one_class),
        cmocka_unit_test(unlabelled_rows_are_one_class),
        cmocka_unit_test(targets_are_cut_at_quantiles),
        cmocka_unit_test(equal_targets_stay_together),
        cmocka_unit_test(more_quantiles_than_rows_is_a_class_a_row),
        cmocka_unit_test(bad_labels_name_their_row),
        cmocka_unit_test(too_many_classes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
