/*
 * dataset_test.c -- from files to data sets: which file a path means, what the
 * labels become, test sets that agree with training sets, parts that are the
 * data set cut.
 */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
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

#include "base/mem.h"
#include "data/dataset.h"
#include "data/shard.h"

static char folder[64];
static char path_buffer[128];

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/muster-dataset-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry != NULL;
         entry = readdir(dir)) {
        snprintf(path_buffer, sizeof(path_buffer), "%s/%.60s", folder,
                 entry->d_name);
        unlink(path_buffer);
    }
    closedir(dir);
    return rmdir(folder);
}

// A path in the folder; valid until the next call.
static const char *in_folder(const char *name)
{
    snprintf(path_buffer, sizeof(path_buffer), "%s/%.60s", folder, name);
    return path_buffer;
}

static void write_bytes(const char *name, const void *bytes, size_t size)
{
    const char *path = in_folder(name);
    size_t length = strlen(name);
    if (length > 3 && strcmp(name + length - 3, ".gz") == 0) {
        gzFile file = gzopen(path, "wb");
        assert_int_equal(gzwrite(file, bytes, (unsigned)size), size);
        assert_int_equal(gzclose(file), Z_OK);
        return;
    }
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

static void write_text(const char *name, const char *text)
{
    write_bytes(name, text, strlen(text));
}

static muster_dataset *load(const char *spec)
{
    muster_dataset *dataset = NULL;
    muster_error error = {.text = ""};
    if (muster_dataset_load(spec, NULL, &error, &dataset) != MUSTER_OK) {
        fail_msg("%s", error.text);
    }
    return dataset;
}

static muster_dataset *load_test(const char *spec, const char *train_spec,
                                 const muster_dataset *train)
{
    muster_dataset *dataset = NULL;
    muster_error error = {.text = ""};
    if (muster_dataset_load_test(spec, train_spec, train, &error, &dataset) !=
        MUSTER_OK) {
        fail_msg("%s", error.text);
    }
    return dataset;
}

static void assert_refused(const char *spec, const char *what)
{
    muster_dataset *dataset = NULL;
    muster_error error = {.text = ""};
    assert_int_equal(muster_dataset_load(spec, NULL, &error, &dataset),
                     MUSTER_ERR_INPUT);
    assert_null(dataset);
    if (strstr(error.text, what) == NULL) {
        fail_msg("'%s' does not say '%s'", error.text, what);
    }
}

static void assert_labels(const char *text, uint32_t classes,
                          const float *expected, uint32_t count)
{
    write_text("d.csv", text);
    muster_dataset *dataset = load(in_folder("d.csv"));
    assert_int_equal(muster_dataset_describe(dataset).classes, classes);
    muster_rows rows = muster_dataset_rows(dataset, 0, count);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(rows.labels[i] == expected[i]);
    }
    muster_dataset_free(dataset);
}

static void labels_take_one_of_three_forms(void **state)
{
    (void)state;
    assert_labels("1,-1\n2,1\n3,-1\n", 2, (const float[]){-1, 1, -1}, 3);
    assert_labels("1,0\n2,1\n3,1.0\n", 2, (const float[]){-1, 1, 1}, 3);
    assert_labels("1,2\n2,1\n3,2\n", 2, (const float[]){1, -1, 1}, 3);
    assert_labels("1,0\n2,2\n3,1\n", 3, (const float[]){0, 2, 1}, 3);
    assert_labels("1,7\n2,-3\n3,100\n", 3, (const float[]){1, 0, 2}, 3);
    assert_labels("1,0.5\n2,1\n3,0\n", 0, (const float[]){0.5f, 1, 0}, 3);
    assert_labels("1,2011\n2,1990\n", 0, (const float[]){2011, 1990}, 2);
    assert_labels("1,1000\n2,-1000\n", 2, (const float[]){1, -1}, 2);
    assert_labels("1,1001\n2,0\n", 0, (const float[]){1001, 0}, 2);
    write_text("d.csv", "1,3\n2,3\n");
    assert_refused(in_folder("d.csv"), "every label is 3");
}

static void the_files_own_class_values_are_kept(void **state)
{
    (void)state;
    write_text("d.csv", "1,7\n2,-3\n3,100\n4,7\n");
    muster_dataset *dataset = load(in_folder("d.csv"));
    assert_true(muster_dataset_class_value(dataset, 0) == -3.0f);
    assert_true(muster_dataset_class_value(dataset, 1) == 7.0f);
    assert_true(muster_dataset_class_value(dataset, 2) == 100.0f);
    muster_dataset_free(dataset);
}

static void a_test_set_takes_the_training_sets_shape(void **state)
{
    (void)state;
    char train_path[128];
    write_text("d", "-1 1:1 3:1\n+1 2:1\n");
    write_text("d.t.gz", "+1 1:5 4:9\n-1\n+1 2:1 3:1 7:2\n");
    snprintf(train_path, sizeof(train_path), "%s", in_folder("d"));
    muster_dataset *train = load(train_path);
    muster_dataset *test = load_test(NULL, train_path, train);
    assert_non_null(test);
    muster_dataset_info info = muster_dataset_describe(test);
    assert_int_equal(info.samples, 3);
    assert_int_equal(info.features, 3);
    assert_int_equal(info.classes, 2);
    assert_int_equal(info.nonzeros, 3);
    muster_rows rows = muster_dataset_rows(test, 2, 1);
    assert_int_equal(rows.offsets[1] - rows.offsets[0], 2);
    assert_int_equal(rows.columns[rows.offsets[0]], 1);
    assert_true(rows.labels[0] == 1.0f);
    muster_dataset_free(test);
    // One that training never saw.
    write_text("other", "-1 1:1\n3 1:1\n");
    muster_error error = {.text = ""};
    assert_int_equal(muster_dataset_load_test(in_folder("other"), train_path,
                                              train, &error, &test),
                     MUSTER_ERR_INPUT);
    assert_non_null(strstr(error.text, "sample 1 has the label 3"));
    muster_dataset_free(train);
}

static void a_dense_test_set_must_have_the_same_columns(void **state)
{
    (void)state;
    char train_path[128];
    write_text("train.csv", "1,2,0\n3,4,1\n");
    write_text("test.csv", "1,2,3,0\n");
    snprintf(train_path, sizeof(train_path), "%s", in_folder("train.csv"));
    muster_dataset *train = load(train_path);
    muster_dataset *test = NULL;
    muster_error error = {.text = ""};
    assert_int_equal(
        muster_dataset_load_test(NULL, train_path, train, &error, &test),
        MUSTER_ERR_INPUT);
    assert_non_null(strstr(error.text, "3 features"));
    write_text("test.csv", "1,2,0\n"); // one class alone is fine here
    test = load_test(NULL, train_path, train);
    assert_int_equal(muster_dataset_describe(test).samples, 1);
    muster_dataset_free(test);
    test = load_test(train_path, "nowhere", train);
    assert_int_equal(muster_dataset_describe(test).samples, 2);
    muster_dataset_free(test);
    unlink(in_folder("test.csv"));
    test = load_test(NULL, train_path, train);
    assert_null(test);
    // A folder named for tests means the test set in it.
    write_text("test.csv", "1,2,0\n");
    test = load_test(folder, train_path, train);
    assert_int_equal(muster_dataset_describe(test).samples, 1);
    muster_dataset_free(test);
    muster_dataset_free(train);
}

static const uint8_t images[] = {0, 0, 8, 3, 0, 0, 0, 2,   0,  0,
                                 0, 1, 0, 0, 0, 2, 0, 255, 51, 102};
static const uint8_t digits[] = {0, 0, 8, 1, 0, 0, 0, 2, 1, 0};

static void a_folder_of_idx_files_is_a_data_set(void **state)
{
    (void)state;
    write_bytes("train-images-idx3-ubyte.gz", images, sizeof(images));
    write_bytes("train-labels-idx1-ubyte", digits, sizeof(digits));
    write_bytes("t10k-images-idx3-ubyte", images, sizeof(images));
    write_bytes("t10k-labels-idx1-ubyte.gz", digits, sizeof(digits));
    write_text("README.md", "about the data");
    muster_dataset *train = load(folder);
    muster_dataset_info info = muster_dataset_describe(train);
    assert_int_equal(info.samples, 2);
    assert_int_equal(info.features, 2);
    assert_int_equal(info.classes, 2);
    muster_rows rows = muster_dataset_rows(train, 0, 2);
    assert_true(rows.dense[1] == 1.0f);
    assert_true(rows.labels[0] == 1.0f && rows.labels[1] == -1.0f);
    muster_dataset *test = load_test(NULL, folder, train);
    assert_non_null(test);
    muster_dataset_free(test);
    muster_dataset_free(train);
    // A single file of samples finds its labels too.
    train = load(in_folder("t10k-images-idx3-ubyte"));
    muster_dataset_free(train);
    unlink(in_folder("t10k-labels-idx1-ubyte.gz"));
    assert_refused(in_folder("t10k-images-idx3-ubyte"), "labels are missing");
    write_bytes("pixels.idx", images, sizeof(images));
    assert_refused(in_folder("pixels.idx"), "must hold 'images'");
    write_bytes("train-labels-idx1-ubyte", digits, sizeof(digits) - 1);
    assert_refused(folder, "train-labels-idx1-ubyte: byte 8: cut short");
}

static void npy_labels_are_found_by_name(void **state)
{
    (void)state;
    static const char x[] = "\x93NUMPY\x01\0\x3f\0"
                            "{'descr': '|u1', 'fortran_order': False, "
                            "'shape': (2, 2), }   \n"
                            "\1\2\3\4";
    static const char y[] = "\x93NUMPY\x01\0\x3f\0"
                            "{'descr': '|u1', 'fortran_order': False, "
                            "'shape': (2,), }     \n"
                            "\5\6";
    write_bytes("X_train.npy", x, sizeof(x) - 1);
    muster_dataset *dataset = load(folder);
    assert_int_equal(muster_dataset_describe(dataset).features, 1);
    assert_true(muster_dataset_class_value(dataset, 1) == 4.0f);
    muster_dataset_free(dataset);
    write_bytes("y_train.npy", y, sizeof(y) - 1);
    dataset = load(folder);
    assert_int_equal(muster_dataset_describe(dataset).features, 2);
    assert_true(muster_dataset_class_value(dataset, 1) == 6.0f);
    muster_dataset_free(dataset);
    write_bytes("a.npy", x, sizeof(x) - 1);
    write_bytes("a_labels.npy", y, sizeof(y) - 1);
    dataset = load(in_folder("a.npy"));
    assert_int_equal(muster_dataset_describe(dataset).features, 2);
    muster_dataset_free(dataset);
}

static void formats_are_told_by_name_or_content(void **state)
{
    (void)state;
    write_text("a", "1 1:1\n0 2:1\n");
    muster_dataset *dataset = load(in_folder("a"));
    assert_true(muster_dataset_describe(dataset).sparse);
    muster_dataset_free(dataset);
    write_text("b", "1;2;0\n2;3;1\n");
    dataset = load(in_folder("b"));
    assert_false(muster_dataset_describe(dataset).sparse);
    muster_dataset_free(dataset);
    write_text("c.csv.gz", "t:0,t:1\n1,0\n2,1\n");
    dataset = load(in_folder("c.csv.gz"));
    assert_int_equal(muster_dataset_describe(dataset).features, 1);
    muster_dataset_free(dataset);
    write_text("d", "");
    assert_refused(in_folder("d"), "the file is empty");
    write_bytes("e", "\1\2\3", 3);
    assert_refused(in_folder("e"), "of no known format");
    write_text("f.npy", "1,2\n");
    assert_refused(in_folder("f.npy"), "f.npy: byte ");
    write_text("images-ubyte", "1,2\n");
    write_text("labels-ubyte", "1,2\n");
    assert_refused(in_folder("images-ubyte"), "not an idx file");
    assert_refused(in_folder("gone"), "gone: cannot open: No such file");
}

static void a_folder_must_leave_no_choice(void **state)
{
    (void)state;
    assert_refused(folder, "holds no training data");
    write_text("a.csv", "1,0\n2,1\n");
    write_text("a.csv.gz", "1,0\n2,1\n3,1\n");
    muster_dataset *dataset = load(folder); // the plain one
    assert_int_equal(muster_dataset_describe(dataset).samples, 2);
    muster_dataset_free(dataset);
    write_text("b.csv", "1,0\n2,1\n");
    assert_refused(folder, "name the one to train on");
    write_text("b_train.csv", "1,0\n2,1\n3,1\n");
    dataset = load(folder);
    assert_int_equal(muster_dataset_describe(dataset).samples, 3);
    muster_dataset_free(dataset);
}

// All shards, put together, are the data set; whatever their number.
static void check_shards(const muster_dataset *dataset, uint32_t shards)
{
    muster_dataset_info info = muster_dataset_describe(dataset);
    uint32_t sample = 0;
    muster_cut cut;
    assert_int_equal(muster_cut_even(info.samples, shards, &cut), MUSTER_OK);
    for (uint32_t s = 0; s < shards; s++) {
        size_t size = muster_dataset_shard_bytes(dataset, &cut, s);
        void *bytes = muster_mem_raw_aligned(size, 1);
        assert_non_null(bytes);
        muster_dataset_shard_write(dataset, &cut, s, bytes);
        muster_shard shard;
        assert_int_equal(muster_shard_open(bytes, size, NULL, &shard),
                         MUSTER_OK);
        assert_int_equal(shard.number, s);
        assert_int_equal(shard.rows.features, info.features);
        for (uint32_t r = 0; r < shard.rows.count; r++, sample++) {
            muster_rows row = muster_dataset_rows(dataset, sample, 1);
            assert_int_equal(shard.sample_ids[r], sample);
            assert_true(shard.rows.labels[r] == row.labels[0]);
            if (!info.sparse) {
                assert_memory_equal(shard.rows.dense + r * shard.rows.stride,
                                    row.dense, info.features * sizeof(float));
                continue;
            }
            uint64_t count = row.offsets[1] - row.offsets[0];
            uint64_t at = shard.rows.offsets[r];
            assert_int_equal(shard.rows.offsets[r + 1] - at, count);
            if (count > 0) {
                assert_memory_equal(shard.rows.columns + at,
                                    row.columns + row.offsets[0], count * 4);
                assert_memory_equal(shard.rows.values + at,
                                    row.values + row.offsets[0], count * 4);
            }
        }
        muster_mem_free(bytes);
    }
    muster_cut_fini(&cut);
    assert_int_equal(sample, info.samples);
}

static void shards_are_the_data_set_cut(void **state)
{
    (void)state;
    muster_dataset *dense = load("synthetic:samples=23,features=3,classes=4");
    write_text("s", "1 1:1\n0\n0 2:3 4:5\n1 3:1\n1 1:1 2:2 3:3\n");
    muster_dataset *sparse = load(in_folder("s"));
    for (uint32_t shards = 1; shards <= 30; shards++) {
        check_shards(dense, shards);
        check_shards(sparse, shards);
    }
    muster_dataset_free(dense);
    muster_dataset_free(sparse);
}

static void synthetic_data_has_its_test_set(void **state)
{
    (void)state;
    const char *spec = "synthetic:samples=50,features=3,classes=2";
    muster_dataset *train = load(spec);
    muster_dataset *test = load_test(NULL, spec, train);
    muster_dataset_info info = muster_dataset_describe(test);
    assert_int_equal(info.samples, 10);
    assert_int_equal(info.classes, 2);
    muster_rows rows = muster_dataset_rows(test, 0, 10);
    for (uint32_t i = 0; i < 10; i++) {
        assert_true(rows.labels[i] == 1.0f || rows.labels[i] == -1.0f);
    }
    muster_dataset_free(test);
    test = load_test(NULL, "synthetic:test=0", train);
    assert_null(test);
    muster_dataset_free(train);
}

static void data_met_later_keeps_the_training_sets_numbers(void **state)
{
    (void)state;
    // Only one of three classes, and a column that training never saw.
    write_text("later", "7 1:1 9:1\n7 2:1\n");
    const float values[] = {-3, 7, 100};
    muster_dataset_form form = {
        .features = 4, .classes = 3, .class_values = values};
    muster_dataset *dataset = NULL;
    assert_int_equal(
        muster_dataset_load_as(in_folder("later"), &form, NULL, &dataset),
        MUSTER_OK);
    muster_rows rows = muster_dataset_rows(dataset, 0, 2);
    assert_int_equal(rows.features, 4);
    assert_true(rows.labels[0] == 1.0f && rows.labels[1] == 1.0f);
    muster_dataset_free(dataset);
    form.classes = 0;
    assert_int_equal(
        muster_dataset_load_as(in_folder("later"), &form, NULL, &dataset),
        MUSTER_OK);
    assert_true(muster_dataset_rows(dataset, 0, 1).labels[0] == 7.0f);
    muster_dataset_free(dataset);
    dataset = NULL;
    static const float bad[][2] = {{1, 1}, {2, 1}, {0, 0.5f}, {0, 1001}};
    form.classes = 2;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        form.class_values = bad[i];
        assert_int_equal(
            muster_dataset_load_as(in_folder("later"), &form, NULL, &dataset),
            MUSTER_ERR_INVALID);
    }
    form.class_values = values;
    assert_int_equal(
        muster_dataset_load_as("synthetic:test=0", &form, NULL, &dataset),
        MUSTER_ERR_INVALID);
    assert_null(dataset);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    char path[128];
    write_text("train", "1 1:1\n0 2:1\n");
    write_text("test", "1 1:1 3:1\n");
    write_bytes("b-images", images, sizeof(images));
    write_bytes("b-labels", digits, sizeof(digits));
    static const char *const names[] = {"train", "b-images"};
    for (int which = 0; which < 2; which++) {
        snprintf(path, sizeof(path), "%s", in_folder(names[which]));
        muster_status status = MUSTER_ERR_NO_MEMORY;
        uint64_t allowed = 0;
        for (; status != MUSTER_OK; allowed++) {
            assert_in_range(allowed, 0, 200);
            muster_dataset *train = NULL;
            muster_dataset *test = NULL;
            muster_error error = {.status = MUSTER_OK};
            muster_mem_fail_after(allowed);
            status = muster_dataset_load(path, NULL, &error, &train);
            if (status == MUSTER_OK) {
                status =
                    muster_dataset_load_test(NULL, path, train, &error, &test);
            }
            muster_mem_fail_after(UINT64_MAX);
            assert_true(status == MUSTER_OK || status == MUSTER_ERR_NO_MEMORY);
            assert_int_equal(error.status, status);
            muster_dataset_free(train);
            muster_dataset_free(test);
        }
        assert_true(allowed > 8);
    }
}

/* `first`: the features of the first sample, unless NULL. */
static void assert_unlabelled(const char *spec, const char *label,
                              uint32_t samples, uint32_t features,
                              const float *first)
{
    muster_dataset *dataset = NULL;
    muster_error error = {.text = ""};
    if (muster_dataset_load_unlabelled(spec, label, &error, &dataset) !=
        MUSTER_OK) {
        fail_msg("%s", error.text);
    }
    muster_dataset_info info = muster_dataset_describe(dataset);
    assert_int_equal(info.samples, samples);
    assert_int_equal(info.features, features);
    assert_int_equal(info.classes, 0);
    muster_rows rows = muster_dataset_rows(dataset, 0, samples);
    assert_null(rows.labels);
    if (first != NULL) {
        assert_memory_equal(rows.dense, first, features * sizeof(*first));
    }
    muster_dataset_free(dataset);
}

static void assert_label_refused(const char *spec, const char *text)
{
    muster_dataset *dataset = NULL;
    muster_error error = {.text = ""};
    assert_int_equal(
        muster_dataset_load_unlabelled(spec, "1", &error, &dataset),
        MUSTER_ERR_INVALID);
    assert_non_null(strstr(error.text, "--label: "));
    assert_non_null(strstr(error.text, text));
    assert_null(dataset);
}

static void samples_without_labels_have_every_other_column(void **state)
{
    (void)state;
    write_text("plain.csv", "1,5\n2,6\n3,7\n");
    assert_unlabelled(in_folder("plain.csv"), NULL, 3, 2, (float[]){1, 5});
    assert_unlabelled(in_folder("plain.csv"), "1", 3, 1, (float[]){5});
    write_text("named.csv", "a,class,b\n1,0,2\n3,0,4\n");
    assert_unlabelled(in_folder("named.csv"), NULL, 2, 2, (float[]){1, 2});
    assert_unlabelled(in_folder("named.csv"), "b", 2, 2, (float[]){1, 0});
    write_text("same.libsvm", "1 1:2\n1 2:3\n");
    assert_unlabelled(in_folder("same.libsvm"), NULL, 2, 2, NULL);
    write_bytes("train-images-idx3-ubyte", images, sizeof(images));
    const char *idx = in_folder("train-images-idx3-ubyte");
    assert_unlabelled(idx, NULL, 2, 2, (float[]){0, 1});
    assert_label_refused(idx, "no column of an idx file is the label");
    assert_unlabelled("synthetic:samples=6,features=3", NULL, 6, 3, NULL);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(samples_without_labels_have_every_other_column),
        IN_FOLDER(labels_take_one_of_three_forms),
        IN_FOLDER(the_files_own_class_values_are_kept),
        IN_FOLDER(a_test_set_takes_the_training_sets_shape),
        IN_FOLDER(a_dense_test_set_must_have_the_same_columns),
        IN_FOLDER(a_folder_of_idx_files_is_a_data_set),
        IN_FOLDER(npy_labels_are_found_by_name),
        IN_FOLDER(formats_are_told_by_name_or_content),
        IN_FOLDER(a_folder_must_leave_no_choice),
        IN_FOLDER(shards_are_the_data_set_cut),
        IN_FOLDER(synthetic_data_has_its_test_set),
        IN_FOLDER(data_met_later_keeps_the_training_sets_numbers),
        IN_FOLDER(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
