/*
 * source_test.c -- plain and gzipped files and memory give the same bytes and
 * lines; damage to a gzip stream is told, never taken for the end.
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

#include "base/mem.h"
#include "data/source.h"

#define TEXT_BYTES 700000u // longer than the buffer

typedef struct fixture {
    char folder[64];
    char plain[96];
    char zipped[96];
    char *text;
} fixture;

static void write_file(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

// Lines of growing length, the last without an end.
static int set_up(void **state)
{
    fixture *f = muster_mem_array(1, sizeof(*f));
    snprintf(f->folder, sizeof(f->folder), "/tmp/muster-source-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    snprintf(f->plain, sizeof(f->plain), "%s/plain", f->folder);
    snprintf(f->zipped, sizeof(f->zipped), "%s/zipped.gz", f->folder);
    f->text = muster_mem_array(TEXT_BYTES + 1, 1);
    size_t length = 0;
    for (unsigned line = 0; length < TEXT_BYTES; line++) {
        for (unsigned i = 0; i < line && length < TEXT_BYTES; i++) {
            f->text[length++] = (char)('a' + (line + i) % 26);
        }
        if (length < TEXT_BYTES - 1) {
            f->text[length++] = '\n';
        }
    }
    write_file(f->plain, f->text, TEXT_BYTES);
    gzFile file = gzopen(f->zipped, "wb");
    assert_int_equal(gzwrite(file, f->text, TEXT_BYTES), TEXT_BYTES);
    assert_int_equal(gzclose(file), Z_OK);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    unlink(f->plain);
    unlink(f->zipped);
    rmdir(f->folder);
    muster_mem_free(f->text);
    muster_mem_free(f);
    return 0;
}

static muster_source *open_one(const fixture *f, int which)
{
    muster_source *source = NULL;
    muster_status status =
        which == 0   ? muster_source_open(f->plain, NULL, &source)
        : which == 1 ? muster_source_open(f->zipped, NULL, &source)
                     : muster_source_open_memory("memory", f->text, TEXT_BYTES,
                                                 NULL, &source);
    assert_int_equal(status, MUSTER_OK);
    return source;
}

static void all_kinds_give_the_same_lines(void **state)
{
    const fixture *f = *state;
    for (int which = 0; which < 3; which++) {
        muster_source *source = open_one(f, which);
        const char *expected = f->text;
        const char *line;
        for (;;) {
            assert_int_equal(muster_source_line(source, NULL, &line),
                             MUSTER_OK);
            if (line == NULL) {
                break;
            }
            size_t length = strcspn(expected, "\n");
            assert_int_equal(strlen(line), length);
            assert_memory_equal(line, expected, length);
            expected += length + (expected[length] == '\n');
        }
        assert_int_equal(*expected, '\0');
        assert_int_equal(muster_source_offset(source), TEXT_BYTES);
        muster_source_close(source);
    }
}

static void all_kinds_give_the_same_bytes(void **state)
{
    const fixture *f = *state;
    char *copy = muster_mem_array(TEXT_BYTES, 1);
    for (int which = 0; which < 3; which++) {
        muster_source *source = open_one(f, which);
        const uint8_t *peeked;
        size_t count;
        for (size_t done = 0; done < TEXT_BYTES;) {
            assert_int_equal(muster_source_peek(source, NULL, &peeked, &count),
                             MUSTER_OK);
            size_t left = TEXT_BYTES - done;
            assert_int_equal(count, left < 4096 ? left : 4096);
            assert_memory_equal(peeked, f->text + done, count);
            assert_true(muster_source_left_max(source) >= left);
            size_t now = left < 99991 ? left : 99991;
            assert_int_equal(muster_source_read(source, copy + done, now, NULL),
                             MUSTER_OK);
            done += now;
        }
        assert_memory_equal(copy, f->text, TEXT_BYTES);
        muster_error error;
        assert_int_equal(muster_source_read(source, copy, 5, &error),
                         MUSTER_ERR_INPUT);
        assert_non_null(strstr(error.text, "byte 700000: the file ends here"));
        muster_source_close(source);
    }
    muster_mem_free(copy);
}

static void a_line_longer_than_the_buffer_is_one_line(void **state)
{
    const fixture *f = *state;
    char *text = muster_mem_array(TEXT_BYTES, 1);
    memset(text, 'x', TEXT_BYTES);
    text[TEXT_BYTES - 2] = '\r';
    text[TEXT_BYTES - 1] = '\n';
    write_file(f->plain, text, TEXT_BYTES);
    muster_source *source = open_one(f, 0);
    const char *line;
    assert_int_equal(muster_source_line(source, NULL, &line), MUSTER_OK);
    assert_int_equal(strlen(line), TEXT_BYTES - 2);
    assert_int_equal(muster_source_line(source, NULL, &line), MUSTER_OK);
    assert_null(line);
    muster_source_close(source);
    muster_mem_free(text);
}

static size_t read_whole(const char *path, uint8_t *out, size_t max)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(out, 1, max, file);
    fclose(file);
    return size;
}

static muster_status drain(const char *path, muster_error *error_out)
{
    muster_source *source = NULL;
    muster_status status = muster_source_open(path, error_out, &source);
    assert_int_equal(status, MUSTER_OK);
    const char *line = "";
    while (status == MUSTER_OK && line != NULL) {
        status = muster_source_line(source, error_out, &line);
    }
    muster_source_close(source);
    return status;
}

static void a_damaged_gzip_stream_is_an_error(void **state)
{
    const fixture *f = *state;
    uint8_t *bytes = muster_mem_array(TEXT_BYTES, 1);
    size_t size = read_whole(f->zipped, bytes, TEXT_BYTES);
    size_t stride = size / 40;
    for (size_t cut = 2; cut < size; cut += cut < 20 ? 1 : stride) {
        write_file(f->zipped, bytes, cut);
        muster_error error = {.text = ""};
        assert_int_equal(drain(f->zipped, &error), MUSTER_ERR_INPUT);
        assert_non_null(strstr(error.text, "the gzip stream is cut short"));
    }
    bytes[size / 2] ^= 0x55;
    write_file(f->zipped, bytes, size);
    muster_error error = {.text = ""};
    assert_int_equal(drain(f->zipped, &error), MUSTER_ERR_INPUT);
    assert_non_null(strstr(error.text, "corrupt"));
    bytes[size / 2] ^= 0x55;
    bytes[size - 6] ^= 1; // the checksum
    write_file(f->zipped, bytes, size);
    assert_int_equal(drain(f->zipped, &error), MUSTER_ERR_INPUT);
    muster_mem_free(bytes);
}

static void what_is_no_file_is_refused(void **state)
{
    const fixture *f = *state;
    muster_source *source = NULL;
    muster_error error = {.text = ""};
    assert_int_equal(muster_source_open(f->folder, &error, &source),
                     MUSTER_ERR_INPUT);
    assert_non_null(strstr(error.text, "not a regular file"));
    assert_int_equal(muster_source_open("/nowhere/x", &error, &source),
                     MUSTER_ERR_INPUT);
    assert_string_equal(error.text,
                        "/nowhere/x: cannot open: No such file or directory");
    assert_null(source);
}

static void a_name_without_gz_finds_the_zipped_file(void **state)
{
    const fixture *f = *state;
    char plain[sizeof(f->zipped)];
    size_t length = strlen(f->zipped) - strlen(".gz");
    assert_string_equal(f->zipped + length, ".gz");
    memcpy(plain, f->zipped, length);
    plain[length] = '\0';
    muster_source *source = NULL;
    assert_int_equal(muster_source_open(plain, NULL, &source), MUSTER_OK);
    assert_string_equal(muster_source_name(source), f->zipped);
    muster_source_close(source);
    assert_int_equal(drain(plain, NULL), MUSTER_OK);
    // The file of that very name wins.
    write_file(plain, "x", 1);
    assert_int_equal(muster_source_open(plain, NULL, &source), MUSTER_OK);
    assert_string_equal(muster_source_name(source), plain);
    muster_source_close(source);
    assert_int_equal(unlink(plain), 0);
}

static void opening_survives_failed_allocations(void **state)
{
    const fixture *f = *state;
    muster_status status = MUSTER_ERR_NO_MEMORY;
    for (uint64_t allowed = 0; status != MUSTER_OK; allowed++) {
        assert_in_range(allowed, 0, 10);
        muster_source *source = NULL;
        muster_mem_fail_after(allowed);
        status = muster_source_open(f->plain, NULL, &source);
        muster_mem_fail_after(UINT64_MAX);
        assert_true(status == MUSTER_OK || source == NULL);
        muster_source_close(source);
    }
}

int main(void)
{
#define WITH_FILES(test) \
    cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH_FILES(all_kinds_give_the_same_lines),
        WITH_FILES(all_kinds_give_the_same_bytes),
        WITH_FILES(a_line_longer_than_the_buffer_is_one_line),
        WITH_FILES(a_damaged_gzip_stream_is_an_error),
        WITH_FILES(what_is_no_file_is_refused),
        WITH_FILES(a_name_without_gz_finds_the_zipped_file),
        WITH_FILES(opening_survives_failed_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
