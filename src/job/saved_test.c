/*
 * What outlives a process: a run cut off and restored from its checkpoint ends
 * with the very bits of one that was not; a saved model comes back as it was;
 * files that are not what they should be are refused.
 */
#define _POSIX_C_SOURCE 200809L
#include "job/saved.h"

#include <unistd.h>

#include "base/error.h"
#include "base/folder_test.h"
#include "job/job_test.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define NOBODY       UINT32_MAX

static char folder[] = "/tmp/muster-saved-XXXXXX";

static const char *inside(const char *name, char path[128])
{
    (void)snprintf(path, 128, "%s/%s", folder, name);
    return path;
}

static const bed_option options[] = {
    {"data", "synthetic:samples=300,features=8,classes=3,seed=5"},
    {"model", "mlp:hidden=6"},
    {"batch", "32"},
    {"optimizer", "adam"},
    {"schedule", "cosine:warmup=3"},
    {"steps", "20"},
};
/* All that a step may draw or keep. */
static const bed_option deep[] = {
    {"data", "synthetic:samples=300,features=8,classes=3,seed=5"},
    {"model", "cnn:channels=3,image=4x2,hidden=6,dropout=0.3,norm=layer,"
              "smoothing=0.1,class-weights=1,2,0.5"},
    {"batch", "32"},
    {"optimizer", "adamw:decay=0.1"},
    {"schedule", "cosine:warmup=3"},
    {"steps", "20"},
    {"clip", "0.5"},
};

static muster_blob *train(testbed *bed, uint64_t steps)
{
    while (bed->step < steps) {
        bed_step(bed, NOBODY);
    }
    return muster_executor_model_blob(bed->coordinator);
}

static void check_restoring(const bed_option *of, size_t count)
{
    char path[128];
    testbed whole;
    bed_open(&whole, "uncoded", 3, of, count);
    muster_blob *expected = train(&whole, 20);

    testbed first;
    bed_open(&first, "uncoded", 3, of, count);
    assert_int_equal(muster_executor_snapshot_to(first.coordinator,
                                                 inside("checkpoint", path)),
                     MUSTER_OK);
    muster_blob_unref(train(&first, 9));
    muster_blob *role = muster_blob_create(5);
    memcpy(role->data, "role!", 5);
    bed_run_ok(&first, first.coordinator,
               (muster_job){.kind = MUSTER_JOB_SNAPSHOT, .input = role});
    bed_close(&first);

    testbed second;
    muster_error error = {MUSTER_OK, ""};
    bed_open(&second, "uncoded", 3, of, count);
    muster_blob *back = NULL;
    if (muster_executor_restore(second.coordinator, path, &error, &back) !=
        MUSTER_OK) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(back->bytes, 5);
    assert_memory_equal(back->data, "role!", 5);
    second.step = muster_executor_describe(second.coordinator).step;
    assert_int_equal(second.step, 9);
    muster_blob *found = train(&second, 20);
    assert_memory_equal(found->data, expected->data, expected->bytes);
    muster_blob_unref(back);
    muster_blob_unref(found);
    muster_blob_unref(expected);
    bed_close(&second);
    bed_close(&whole);
}

static void a_restored_run_ends_with_the_same_bits(void **state)
{
    (void)state;
    check_restoring(options, COUNT(options));
    check_restoring(deep, COUNT(deep));
}

static void a_checkpoint_of_another_job_is_refused(void **state)
{
    (void)state;
    char path[128];
    testbed bed;
    bed_open(&bed, "uncoded", 1, options, COUNT(options));
    assert_int_equal(
        muster_executor_snapshot_to(bed.coordinator, inside("other", path)),
        MUSTER_OK);
    bed_run_ok(&bed, bed.coordinator,
               (muster_job){.kind = MUSTER_JOB_SNAPSHOT});
    bed_close(&bed);
    static const bed_option changes[] = {
        {"model", "mlp:hidden=7"},
        {"optimizer", "sgd"},
        {"batch", "31"},
        {"seed", "2"},
        {"data", "synthetic:samples=301,features=8,classes=3,seed=5"},
    };
    for (size_t i = 0; i < COUNT(changes); i++) {
        bed_option other[COUNT(options) + 1];
        muster_error error = {MUSTER_OK, ""};
        muster_blob *role = NULL;
        memcpy(other, options, sizeof(options));
        other[COUNT(options)] = changes[i];
        bed_open(&bed, "uncoded", 1, other, COUNT(other));
        assert_int_equal(
            muster_executor_restore(bed.coordinator, path, &error, &role),
            MUSTER_ERR_INPUT);
        assert_non_null(strstr(error.text, "another job"));
        assert_int_equal(muster_executor_restore(bed.coordinator,
                                                 "/tmp/no-such-folder", &error,
                                                 &role),
                         MUSTER_ERR_INPUT);
        bed_close(&bed);
    }
}

static void a_snapshot_that_cannot_be_written_says_where(void **state)
{
    (void)state;
    testbed bed;
    bed_open(&bed, "uncoded", 1, options, COUNT(options));
    assert_int_equal(
        muster_executor_snapshot_to(bed.coordinator, "/proc/none/checkpoint"),
        MUSTER_OK);
    muster_job_result result = bed_run(
        &bed, bed.coordinator, (muster_job){.kind = MUSTER_JOB_SNAPSHOT});
    assert_int_equal(result.status, MUSTER_ERR_SYSTEM);
    assert_non_null(strstr(result.text, "/proc/none"));
    bed_close(&bed);
}

/* Bits of the file, one at a time: the model is refused, or as it was. */
static void a_flipped_bit_of_a_saved_model_is_found(void **state)
{
    (void)state;
    char path[128];
    testbed bed;
    muster_error error = {MUSTER_OK, ""};
    bed_open(&bed, "uncoded", 1, options, COUNT(options));
    muster_blob *theta = train(&bed, 2);
    assert_int_equal(
        muster_executor_save_model(bed.coordinator,
                                   inside("flip.safetensors", path), &error),
        MUSTER_OK);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long size = ftell(file);
    uint32_t found = 0;
    for (long at = size - 1; at >= 0; at -= at >= size - 200 ? 1 : 7) {
        assert_int_equal(fseek(file, at, SEEK_SET), 0);
        int byte = fgetc(file);
        assert_int_equal(fseek(file, at, SEEK_SET), 0);
        assert_int_equal(fputc(byte ^ 1 << at % 8, file), byte ^ 1 << at % 8);
        assert_int_equal(fflush(file), 0);
        muster_saved saved;
        if (muster_saved_read(path, NULL, NULL, &saved) == MUSTER_OK) {
            assert_true(at < size - (long)theta->bytes); // no weight
            assert_memory_equal(saved.theta, theta->data, theta->bytes);
            muster_saved_fini(&saved);
        } else {
            found++;
        }
        assert_int_equal(fseek(file, at, SEEK_SET), 0);
        assert_int_equal(fputc(byte, file), byte);
        assert_int_equal(fflush(file), 0);
    }
    assert_true(found > 200);
    assert_int_equal(fclose(file), 0);
    muster_blob_unref(theta);
    bed_close(&bed);
}

static void a_saved_model_comes_back_as_it_was(void **state)
{
    (void)state;
    char path[128];
    testbed bed;
    muster_error error = {MUSTER_OK, ""};
    bed_open(&bed, "uncoded", 2, options, COUNT(options));
    muster_blob *theta = train(&bed, 5);
    if (muster_executor_save_model(bed.coordinator,
                                   inside("model.safetensors", path),
                                   &error) != MUSTER_OK) {
        fail_msg("%s", error.text);
    }
    muster_saved saved;
    if (muster_saved_read(path, NULL, &error, &saved) != MUSTER_OK) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(saved.model.features, 8);
    assert_int_equal(saved.model.classes, 3);
    assert_int_equal(theta->bytes, saved.model.dim * sizeof(float));
    assert_memory_equal(saved.theta, theta->data, theta->bytes);
    for (uint32_t c = 0; c < 3; c++) {
        assert_true(saved.class_values[c] == (float)c);
    }
    assert_null(saved.label_name); // the generator's label is no column
    assert_int_equal(saved.label_column, 0);
    // The same weights under another model's name are not that model.
    assert_int_equal(muster_saved_write(path, "softmax", &saved, &error),
                     MUSTER_OK);
    muster_saved other;
    assert_int_equal(muster_saved_read(path, NULL, &error, &other),
                     MUSTER_ERR_INPUT);
    assert_non_null(strstr(error.text, "tensors"));
    assert_int_equal(
        muster_saved_read("/tmp/no-such-file", NULL, &error, &other),
        MUSTER_ERR_INPUT);
    muster_saved_fini(&saved);
    muster_blob_unref(theta);
    bed_close(&bed);
}

static void a_saved_model_knows_its_label(void **state)
{
    (void)state;
    static const struct {
        const char *written;
        const char *read;
    } names[] = {{"near, \"school\"", "near, \"school\""},
                 {NULL, NULL},
                 {"\xff", NULL}}; // no UTF-8: the number has to do
    char path[128];
    muster_error error = {MUSTER_OK, ""};
    for (size_t i = 0; i < COUNT(names); i++) {
        float theta[] = {2, -1, -1};
        float values[] = {3, 7};
        char name[32] = "";
        muster_saved saved = {
            .theta = theta, .class_values = values, .label_column = 4};
        if (names[i].written != NULL) {
            (void)snprintf(name, sizeof(name), "%s", names[i].written);
            saved.label_name = name;
        }
        assert_int_equal(
            muster_model_create("logistic", 2, 2, NULL, &saved.model),
            MUSTER_OK);
        assert_int_equal(muster_saved_write(inside("label.safetensors", path),
                                            "logistic", &saved, &error),
                         MUSTER_OK);
        muster_model_free(&saved.model);
        muster_saved back;
        assert_int_equal(muster_saved_read(path, NULL, &error, &back),
                         MUSTER_OK);
        assert_int_equal(back.label_column, 4);
        if (names[i].read == NULL) {
            assert_null(back.label_name);
        } else {
            assert_string_equal(back.label_name, names[i].read);
        }
        muster_saved_fini(&back);
    }
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return folder_drop(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_restored_run_ends_with_the_same_bits),
        cmocka_unit_test(a_checkpoint_of_another_job_is_refused),
        cmocka_unit_test(a_snapshot_that_cannot_be_written_says_where),
        cmocka_unit_test(a_saved_model_comes_back_as_it_was),
        cmocka_unit_test(a_flipped_bit_of_a_saved_model_is_found),
        cmocka_unit_test(a_saved_model_knows_its_label),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
