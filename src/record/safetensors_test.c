/*
 * safetensors_test.c -- what was saved comes back bit for bit; every way in
 * which a file can lie is refused; cutting and flipping never crash the reader;
 * a checkpoint survives damage of the newest file; a full disk is told.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/folder_test.h"
#include "base/log.h"
#include "base/mem.h"
#include "record/checkpoint.h"

static const char *path_of(void **state, const char *name)
{
    static char path[256];
    snprintf(path, sizeof(path), "%s/%s", (char *)*state, name);
    return path;
}

static const float floats[3] = {1.5f, -2.25f, 3e-40f};
static const uint8_t letters[5] = "abcde";
static const double doubles[4] = {1e300, -0.0, 1.0 / 3, 7};

static void make_tensors(muster_tensor *tensors)
{
    tensors[0] = muster_tensor_row("w", MUSTER_DTYPE_F32, floats, 3);
    tensors[1] = muster_tensor_row("bytes", MUSTER_DTYPE_U8, letters, 5);
    tensors[2] = muster_tensor_row("m", MUSTER_DTYPE_F64, doubles, 4);
    tensors[2].rank = 2;
    tensors[2].shape[0] = 2;
    tensors[2].shape[1] = 2;
    tensors[3] = muster_tensor_row("empty", MUSTER_DTYPE_U64, doubles, 0);
}

static void assert_same(const muster_safetensors *file)
{
    muster_tensor tensors[4];
    make_tensors(tensors);
    assert_int_equal(muster_safetensors_count(file), 4);
    for (size_t i = 0; i < 4; i++) {
        const muster_tensor *found =
            muster_safetensors_find(file, tensors[i].name);
        assert_non_null(found);
        assert_int_equal(found->dtype, tensors[i].dtype);
        assert_int_equal(found->rank, tensors[i].rank);
        assert_memory_equal(found->shape, tensors[i].shape,
                            sizeof(found->shape));
        assert_int_equal(found->bytes, tensors[i].bytes);
        assert_int_equal(
            (uintptr_t)found->data % muster_dtype_bytes(found->dtype), 0);
        assert_memory_equal(found->data, tensors[i].data, found->bytes);
    }
}

static void what_was_saved_comes_back(void **state)
{
    muster_tensor tensors[4];
    make_tensors(tensors);
    const muster_note notes[] = {{"model", "softmax"},
                                 {"who", "\xc3\xa9 \"x\""}};
    const char *path = path_of(state, "model.safetensors");
    muster_error error = {0};
    assert_int_equal(
        muster_safetensors_save(path, tensors, 4, notes, 2, &error), MUSTER_OK);
    muster_safetensors *file = NULL;
    assert_int_equal(muster_safetensors_open(path, &error, &file), MUSTER_OK);
    assert_same(file);
    assert_string_equal(muster_safetensors_note(file, "model"), "softmax");
    assert_string_equal(muster_safetensors_note(file, "who"), "\xc3\xa9 \"x\"");
    assert_null(muster_safetensors_note(file, "nobody"));
    assert_null(muster_safetensors_find(file, "nobody"));
    assert_int_equal(muster_safetensors_note_count(file), 2);
    muster_safetensors_close(file);
    char beside[300];
    snprintf(beside, sizeof(beside), "%s.tmp", path);
    assert_int_equal(access(beside, F_OK), -1);
}

/* A file with this header and `data` zero bytes, in memory for free(). */
static unsigned char *build(const char *header, size_t data, size_t *size_out)
{
    size_t length = strlen(header);
    unsigned char *bytes = calloc(1, 8 + length + data);
    assert_non_null(bytes);
    bytes[0] = (unsigned char)length;
    bytes[1] = (unsigned char)(length >> 8);
    memcpy(bytes + 8, header, length);
    *size_out = 8 + length + data;
    return bytes;
}

static void files_that_lie_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t data;
        const char *expected;
    } rows[] = {
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 4,
         "f: tensor 'a': offsets outside the file"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8,
         "f: tensor 'a': offsets and shape disagree"},
        {"{\"a\":{\"dtype\":\"F99\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
         "f: tensor 'a': a dtype that is not supported"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8,
         "f: tensor 'a': a shape that cannot be"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387905,4],"
         "\"data_offsets\":[0,16]}}",
         16, "f: tensor 'a': a shape that cannot be"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],"
         "\"data_offsets\":[0,4]}}",
         4, "f: tensor 'a': a shape that cannot be"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,4]}}", 8,
         "f: tensor 'a': offsets outside the file"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 8,
         "f: tensor 'a': offsets outside the file"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}",
         12, "f: tensor 'b': overlaps another"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8,
         "f: tensor 'a': a gap before it"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 8,
         "f: bytes after the last tensor"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[2,6]}}",
         6, "f: tensor 'b': misaligned"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "f: metadata that is not text"},
        {"{\"__metadata__\":[]}", 0, "f: metadata that is not text"},
        {"[]", 0,
         "f: not safetensors: the header is not a JSON object of at most 65536 "
         "tensors"},
        {"{", 0,
         "f: not safetensors: the header is not a JSON object of at most 65536 "
         "tensors"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t size = 0;
        unsigned char *bytes = build(rows[i].header, rows[i].data, &size);
        muster_safetensors *file = NULL;
        muster_error error = {0};
        assert_int_equal(
            muster_safetensors_parse(bytes, size, "f", &error, &file),
            MUSTER_ERR_INPUT);
        assert_string_equal(error.text, rows[i].expected);
        free(bytes);
    }
}

static unsigned char *slurp(const char *path, size_t *size_out)
{
    FILE *stream = fopen(path, "rb");
    assert_non_null(stream);
    unsigned char *bytes = malloc(1 << 16);
    assert_non_null(bytes);
    *size_out = fread(bytes, 1, 1 << 16, stream);
    fclose(stream);
    return bytes;
}

static void cut_and_flipped_files_never_crash(void **state)
{
    muster_tensor tensors[4];
    make_tensors(tensors);
    const muster_note note = {"k", "v"};
    const char *path = path_of(state, "x.safetensors");
    muster_error error = {0};
    assert_int_equal(
        muster_safetensors_save(path, tensors, 4, &note, 1, &error), MUSTER_OK);
    size_t size = 0;
    unsigned char *bytes = slurp(path, &size);
    for (size_t cut = 0; cut < size; cut++) {
        unsigned char *part = malloc(cut > 0 ? cut : 1);
        memcpy(part, bytes, cut);
        muster_safetensors *file = NULL;
        assert_int_equal(
            muster_safetensors_parse(part, cut, "f", &error, &file),
            MUSTER_ERR_INPUT);
        free(part);
    }
    for (size_t bit = 0; bit < size * 8; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        muster_safetensors *file = NULL;
        if (muster_safetensors_parse(bytes, size, "f", &error, &file) ==
            MUSTER_OK) {
            muster_safetensors_close(file);
        }
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    free(bytes);
}

static void what_cannot_be_written_is_refused(void **state)
{
    const char *path = path_of(state, "x.safetensors");
    muster_error error = {0};
    muster_tensor twice[2] = {
        muster_tensor_row("w", MUSTER_DTYPE_F32, floats, 3),
        muster_tensor_row("w", MUSTER_DTYPE_F32, floats, 3)};
    assert_int_equal(muster_safetensors_save(path, twice, 2, NULL, 0, &error),
                     MUSTER_ERR_INVALID);
    twice[0].bytes = 8;
    assert_int_equal(muster_safetensors_save(path, twice, 1, NULL, 0, &error),
                     MUSTER_ERR_INVALID);
    const muster_note notes[] = {{"a", "1"}, {"a", "2"}};
    assert_int_equal(muster_safetensors_save(path, NULL, 0, notes, 2, &error),
                     MUSTER_ERR_INVALID);
    const muster_note broken = {"a", "\xff\xfe"};
    assert_int_equal(muster_safetensors_save(path, NULL, 0, &broken, 1, &error),
                     MUSTER_ERR_INVALID);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(muster_safetensors_save(path_of(state, "no/such/x"), NULL,
                                             0, NULL, 0, &error),
                     MUSTER_ERR_SYSTEM);
    assert_non_null(strstr(error.text, "No such file or directory"));
}

static void a_full_disk_leaves_the_old_file(void **state)
{
    const char *path = path_of(state, "x.safetensors");
    muster_error error = {0};
    muster_tensor small = muster_tensor_row("w", MUSTER_DTYPE_F32, floats, 3);
    assert_int_equal(muster_safetensors_save(path, &small, 1, NULL, 0, &error),
                     MUSTER_OK);
    size_t count = 1 << 18;
    float *many = calloc(count, sizeof(float));
    muster_tensor big = muster_tensor_row("w", MUSTER_DTYPE_F32, many, count);
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit tight = {.rlim_cur = 65536, .rlim_max = before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    muster_status status =
        muster_safetensors_save(path, &big, 1, NULL, 0, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_DFL);
    free(many);
    assert_int_equal(status, MUSTER_ERR_SYSTEM);
    assert_non_null(strstr(error.text, "x.safetensors: File too large"));
    muster_safetensors *file = NULL;
    assert_int_equal(muster_safetensors_open(path, &error, &file), MUSTER_OK);
    assert_int_equal(muster_safetensors_find(file, "w")->bytes, 12);
    muster_safetensors_close(file);
    char beside[300];
    snprintf(beside, sizeof(beside), "%s.tmp", path);
    assert_int_equal(access(beside, F_OK), -1);
}

static muster_status save_and_load(const char *path)
{
    muster_tensor tensors[4];
    make_tensors(tensors);
    muster_error error = {0};
    muster_safetensors *file = NULL;
    muster_status status =
        muster_safetensors_save(path, tensors, 4, NULL, 0, &error);
    if (status == MUSTER_OK) {
        status = muster_safetensors_open(path, &error, &file);
    }
    muster_safetensors_close(file);
    return status;
}

static void every_failed_allocation_is_reported(void **state)
{
    const char *path = path_of(state, "x.safetensors");
    muster_status status = MUSTER_ERR_NO_MEMORY;
    unsigned count = 0;
    for (; status != MUSTER_OK && count < 1000; count++) {
        muster_mem_fail_after(count);
        status = save_and_load(path);
        muster_mem_fail_after(UINT64_MAX);
        assert_true(status == MUSTER_OK || status == MUSTER_ERR_NO_MEMORY);
    }
    assert_int_equal(status, MUSTER_OK);
    assert_true(count > 5);
}

static void write_checkpoint(const char *folder, uint64_t step)
{
    muster_tensor tensors[4];
    make_tensors(tensors);
    const muster_note note = {"run", "7"};
    muster_checkpoint_parts parts = {.step = step,
                                     .tensors = tensors,
                                     .tensor_count = 4,
                                     .notes = &note,
                                     .note_count = 1};
    muster_error error = {0};
    assert_int_equal(muster_checkpoint_write(folder, &parts, &error),
                     MUSTER_OK);
}

static void flip_byte(const char *folder, const char *name, long from_end)
{
    char path[300];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *stream = fopen(path, "r+b");
    assert_non_null(stream);
    assert_int_equal(fseek(stream, -from_end, SEEK_END), 0);
    int byte = fgetc(stream);
    assert_int_equal(fseek(stream, -from_end, SEEK_END), 0);
    fputc(byte ^ 1, stream);
    fclose(stream);
}

static void count_warning(void *context, muster_log_level level,
                          const char *line)
{
    assert_int_equal(level, MUSTER_LOG_WARN);
    assert_non_null(strstr(line, "step-000000000300"));
    ++*(int *)context;
}

static void the_newest_whole_checkpoint_is_loaded(void **state)
{
    char folder[256];
    snprintf(folder, sizeof(folder), "%s", path_of(state, "checkpoint"));
    muster_error error = {0};
    muster_checkpoint checkpoint = {0};
    assert_int_equal(muster_checkpoint_load(folder, &error, &checkpoint),
                     MUSTER_ERR_INPUT);
    for (uint64_t step = 100; step <= 300; step += 100) {
        write_checkpoint(folder, step);
    }
    assert_int_equal(access(path_of(state, "checkpoint/"
                                           "step-000000000100.safetensors"),
                            F_OK),
                     -1);
    assert_int_equal(muster_checkpoint_load(folder, &error, &checkpoint),
                     MUSTER_OK);
    assert_int_equal(checkpoint.step, 300);
    assert_same(checkpoint.file);
    assert_string_equal(muster_safetensors_note(checkpoint.file, "run"), "7");
    muster_checkpoint_fini(&checkpoint);

    int warnings = 0;
    muster_log_to(count_warning, &warnings, MUSTER_LOG_WARN);
    flip_byte(folder, "step-000000000300.safetensors", 1);
    assert_int_equal(muster_checkpoint_load(folder, &error, &checkpoint),
                     MUSTER_OK);
    muster_log_to(NULL, NULL, MUSTER_LOG_ERROR);
    assert_int_equal(warnings, 1);
    assert_int_equal(checkpoint.step, 200);
    muster_checkpoint_fini(&checkpoint);

    flip_byte(folder, "step-000000000200.safetensors", 20);
    assert_int_equal(muster_checkpoint_load(folder, &error, &checkpoint),
                     MUSTER_ERR_INPUT);
    assert_non_null(strstr(error.text, "no checkpoint to continue from"));
}

/* As a muster of version 1 wrote it: without the note `version`. */
static void a_checkpoint_of_version_1_is_refused_by_name(void **state)
{
    char folder[256];
    snprintf(folder, sizeof(folder), "%s", path_of(state, "checkpoint"));
    assert_int_equal(mkdir(folder, 0777), 0);
    muster_tensor tensors[4];
    make_tensors(tensors);
    const muster_note notes[] = {{"step", "100"},
                                 {"checksum", "cb19a8cac0cf8582"}};
    muster_error error = {0};
    assert_int_equal(
        muster_safetensors_save(path_of(state, "checkpoint/step-000000000100"
                                               ".safetensors"),
                                tensors, 4, notes, 2, &error),
        MUSTER_OK);
    muster_checkpoint checkpoint = {0};
    assert_int_equal(muster_checkpoint_load(folder, &error, &checkpoint),
                     MUSTER_ERR_INPUT);
    assert_non_null(strstr(error.text, "is a checkpoint of version 1; this "
                                       "muster reads version 2"));
}

static void every_flipped_byte_of_a_checkpoint_is_noticed(void **state)
{
    char folder[256];
    snprintf(folder, sizeof(folder), "%s", path_of(state, "checkpoint"));
    write_checkpoint(folder, 100);
    const char *name = "step-000000000100.safetensors";
    struct stat about;
    assert_int_equal(
        stat(path_of(state, "checkpoint/step-000000000100.safetensors"),
             &about),
        0);
    for (long from_end = 1; from_end <= about.st_size; from_end++) {
        muster_error error = {0};
        muster_checkpoint checkpoint = {0};
        flip_byte(folder, name, from_end);
        assert_int_equal(muster_checkpoint_load(folder, &error, &checkpoint),
                         MUSTER_ERR_INPUT);
        flip_byte(folder, name, from_end);
    }
}

/* Stored in run folders: it may never change within a version. */
static void the_checksum_is_the_one_of_version_2(void **state)
{
    char folder[256];
    snprintf(folder, sizeof(folder), "%s", path_of(state, "checkpoint"));
    const float data[] = {1, 2, 3};
    const muster_tensor tensor = {.name = "theta",
                                  .dtype = MUSTER_DTYPE_F32,
                                  .rank = 1,
                                  .shape = {3},
                                  .data = data,
                                  .bytes = sizeof(data)};
    const muster_checkpoint_parts parts = {
        .step = 7, .tensors = &tensor, .tensor_count = 1};
    muster_error error = {0};
    assert_int_equal(muster_checkpoint_write(folder, &parts, &error),
                     MUSTER_OK);
    muster_checkpoint checkpoint = {0};
    assert_int_equal(muster_checkpoint_load(folder, &error, &checkpoint),
                     MUSTER_OK);
    assert_string_equal(muster_safetensors_note(checkpoint.file, "version"),
                        "2");
    assert_string_equal(muster_safetensors_note(checkpoint.file, "checksum"),
                        "910ebe54df3a73ae");
    muster_checkpoint_fini(&checkpoint);
}

static void reserved_notes_are_refused(void **state)
{
    const muster_note note = {"checksum", "0"};
    muster_checkpoint_parts parts = {
        .step = 1, .notes = &note, .note_count = 1};
    muster_error error = {0};
    assert_int_equal(
        muster_checkpoint_write(path_of(state, "c"), &parts, &error),
        MUSTER_ERR_INVALID);
}

int main(void)
{
#define TEST_IN_FOLDER(test) \
    cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        TEST_IN_FOLDER(what_was_saved_comes_back),
        cmocka_unit_test(files_that_lie_are_refused),
        TEST_IN_FOLDER(cut_and_flipped_files_never_crash),
        TEST_IN_FOLDER(what_cannot_be_written_is_refused),
        TEST_IN_FOLDER(a_full_disk_leaves_the_old_file),
        TEST_IN_FOLDER(every_failed_allocation_is_reported),
        TEST_IN_FOLDER(a_checkpoint_of_version_1_is_refused_by_name),
        TEST_IN_FOLDER(every_flipped_byte_of_a_checkpoint_is_noticed),
        TEST_IN_FOLDER(the_checksum_is_the_one_of_version_2),
        TEST_IN_FOLDER(the_newest_whole_checkpoint_is_loaded),
        TEST_IN_FOLDER(reserved_notes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
