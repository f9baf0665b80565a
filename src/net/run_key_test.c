/*
 * run_key_test.c -- key files: what `muster key` prints is read back; a file
 * that others can open, or that holds anything else, is refused by name.
 */
#define _GNU_SOURCE
#include "net/run_key.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "muster/key.h"

static char path[] = "/tmp/muster-run-key-XXXXXX";

static void write_file(const char *text, size_t length, mode_t mode)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void a_key_comes_back(void **state)
{
    (void)state;
    char text[MUSTER_KEY_TEXT_BYTES];
    char other[MUSTER_KEY_TEXT_BYTES];
    muster_run_key key = {{0}};
    assert_int_equal(muster_key_make(text), MUSTER_OK);
    assert_int_equal(muster_key_make(other), MUSTER_OK);
    assert_string_not_equal(text, other);
    assert_int_equal(strlen(text), MUSTER_KEY_TEXT_BYTES - 1);
    write_file(text, strlen(text), 0400);
    assert_int_equal(muster_run_key_read(path, NULL, &key), MUSTER_OK);
    for (unsigned i = 0; i < MUSTER_RUN_KEY_BYTES; i++) {
        char digits[3];
        snprintf(digits, sizeof(digits), "%02x", key.bytes[i]);
        assert_memory_equal(digits, text + 2 * (size_t)i, 2);
    }
}

static void a_file_that_others_can_open_is_refused(void **state)
{
    (void)state;
    char text[MUSTER_KEY_TEXT_BYTES];
    static const mode_t modes[] = {0640, 0604, 0620, 0601, 0666};
    assert_int_equal(muster_key_make(text), MUSTER_OK);
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        muster_error error = {.text = ""};
        muster_run_key key;
        write_file(text, strlen(text), modes[i]);
        assert_int_equal(muster_run_key_read(path, &error, &key),
                         MUSTER_ERR_INPUT);
        assert_non_null(strstr(error.text, "chmod 600"));
        assert_non_null(strstr(error.text, path));
    }
}

static void anything_but_a_key_is_refused(void **state)
{
    (void)state;
    char good[MUSTER_KEY_TEXT_BYTES];
    char text[200];
    muster_error error = {.text = ""};
    muster_run_key key;
    assert_int_equal(muster_key_make(good), MUSTER_OK);
    for (size_t length = 0; length < 64; length++) { // cut
        write_file(good, length, 0600);
        assert_int_equal(muster_run_key_read(path, &error, &key),
                         MUSTER_ERR_INPUT);
    }
    assert_non_null(strstr(error.text, "muster key"));
    for (size_t at = 0; at < 64; at++) { // no digit
        memcpy(text, good, sizeof(good));
        text[at] = 'g';
        write_file(text, 65, 0600);
        assert_int_equal(muster_run_key_read(path, &error, &key),
                         MUSTER_ERR_INPUT);
    }
    memset(text, ' ', sizeof(text)); // more than a key
    memcpy(text, good, 64);
    text[66] = 'x';
    write_file(text, 67, 0600);
    assert_int_equal(muster_run_key_read(path, &error, &key), MUSTER_ERR_INPUT);
    text[66] = ' ';
    write_file(text, sizeof(text), 0600);
    assert_int_equal(muster_run_key_read(path, &error, &key), MUSTER_ERR_INPUT);
}

static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    muster_error error = {.text = ""};
    muster_run_key key;
    assert_int_equal(muster_run_key_read("/tmp", &error, &key),
                     MUSTER_ERR_INPUT);
    assert_non_null(strstr(error.text, "not a file"));
    assert_int_equal(muster_run_key_read("/nowhere/at/all", &error, &key),
                     MUSTER_ERR_INPUT);
    assert_non_null(strstr(error.text, "/nowhere/at/all"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_comes_back),
        cmocka_unit_test(a_file_that_others_can_open_is_refused),
        cmocka_unit_test(anything_but_a_key_is_refused),
        cmocka_unit_test(what_is_no_file_is_refused),
    };
    int fd = mkstemp(path);
    if (fd < 0) {
        return 1;
    }
    close(fd);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
