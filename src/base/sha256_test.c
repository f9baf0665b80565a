/*
 * SHA-256 against the examples of FIPS 180-4 and `sha256sum`.
 */
#define _POSIX_C_SOURCE 200809L
#include "base/sha256.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void digests(const char *text, size_t step, const char *expected)
{
    char found[MUSTER_SHA256_TEXT];
    muster_sha256 hash = muster_sha256_make();
    size_t size = strlen(text);
    for (size_t at = 0; at < size; at += step) {
        size_t part = size - at < step ? size - at : step;
        muster_sha256_add(&hash, text + at, part);
    }
    muster_sha256_text(&hash, found);
    assert_string_equal(found, expected);
}

static void known_texts_have_their_digests(void **state)
{
    (void)state;
    const char *two =
        "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    digests("", 1,
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    digests("abc", 3,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    for (size_t step = 1; step < 60; step++) {
        digests(
            two, step,
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    }
}

static void a_pipe_is_not_waited_for(void **state)
{
    (void)state;
    char found[MUSTER_SHA256_TEXT];
    char path[] = "/tmp/muster-sha256-XXXXXX";
    assert_non_null(mkdtemp(path));
    char pipe[64];
    (void)snprintf(pipe, sizeof(pipe), "%s/pipe", path);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_false(muster_sha256_file(pipe, found));
    assert_false(muster_sha256_file("/dev/zero", found));
    assert_false(muster_sha256_file(path, found));
    assert_int_equal(unlink(pipe), 0);
    assert_false(muster_sha256_file(pipe, found));
    FILE *file = fopen(pipe, "w");
    assert_non_null(file);
    assert_true(fputs("abc", file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_true(muster_sha256_file(pipe, found));
    assert_string_equal(
        found,
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_int_equal(unlink(pipe), 0);
    assert_int_equal(rmdir(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_texts_have_their_digests),
        cmocka_unit_test(a_pipe_is_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
