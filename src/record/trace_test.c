/*
 * trace_test.c -- traces are JSON, also when they are cut short.
 */
#define _POSIX_C_SOURCE 200809L
#include "record/trace.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"

#define EVENTS 2000u

static char path[] = "/tmp/muster-trace-XXXXXX";

static int make_file(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

static muster_trace *open_trace(void)
{
    muster_trace *trace = NULL;
    assert_int_equal(muster_trace_open(path, NULL, &trace), MUSTER_OK);
    return trace;
}

static void fill(muster_trace *trace)
{
    assert_int_equal(muster_trace_name(trace, 0, "coordinator", NULL),
                     MUSTER_OK);
    for (uint64_t i = 0; i < EVENTS; i++) {
        muster_trace_event event = {.row = (uint32_t)(i % 3),
                                    .name = "compute",
                                    .begin_ns = (int64_t)i * 2000000 + 5,
                                    .end_ns = (int64_t)i * 2000000 + 1500005,
                                    .step = i};
        assert_int_equal(i % 5 == 4 ? muster_trace_mark(trace, &event, NULL)
                                    : muster_trace_span(trace, &event, NULL),
                         MUSTER_OK);
    }
}

static json_t *load(void)
{
    json_t *list = json_load_file(path, 0, NULL);
    assert_true(json_is_array(list));
    return list;
}

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static const char *text(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static void a_trace_is_a_json_array_of_events(void **state)
{
    (void)state;
    muster_trace *trace = open_trace();
    fill(trace);
    assert_int_equal(muster_trace_close(trace, NULL), MUSTER_OK);
    json_t *list = load();
    assert_int_equal(json_array_size(list), 2 + EVENTS);
    assert_string_equal(text(json_array_get(list, 0), "name"), "thread_name");
    for (size_t i = 0; i < EVENTS; i++) {
        const json_t *event = json_array_get(list, 2 + i);
        bool mark = i % 5 == 4;
        assert_string_equal(text(event, "ph"), mark ? "i" : "X");
        assert_true(number(event, "tid") == (double)(i % 3));
        assert_true(fabs(number(event, "ts") - 2000.0 * (double)i) < 1e-6);
        assert_true(mark || fabs(number(event, "dur") - 1500) < 1e-6);
        assert_true(number(json_object_get(event, "args"), "step") ==
                    (double)i);
    }
    json_decref(list);
}

static void an_empty_trace_is_an_empty_array(void **state)
{
    (void)state;
    assert_int_equal(muster_trace_close(open_trace(), NULL), MUSTER_OK);
    json_t *list = load();
    assert_int_equal(json_array_size(list), 0);
    json_decref(list);
    assert_int_equal(muster_trace_close(NULL, NULL), MUSTER_OK);
}

/* What a killed writer leaves: whole events without the bracket. */
static void a_trace_cut_short_lacks_only_its_bracket(void **state)
{
    (void)state;
    muster_trace *trace = open_trace();
    fill(trace);
    struct stat found;
    assert_int_equal(stat(path, &found), 0);
    size_t size = (size_t)found.st_size;
    assert_true(size > 1000);
    char *bytes = muster_mem_array(size + 2, 1);
    FILE *file = fopen(path, "r");
    assert_int_equal(fread(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    // Some readers are strict about a comma at the end.
    size_t kept = size;
    while (kept > 0 && (bytes[kept - 1] == '\n' || bytes[kept - 1] == ',')) {
        kept--;
    }
    bytes[kept] = ']';
    json_t *list = json_loadb(bytes, kept + 1, 0, NULL);
    assert_true(json_array_size(list) > 100);
    assert_true(json_array_size(list) < EVENTS + 2);
    json_decref(list);
    muster_mem_free(bytes);
    assert_int_equal(muster_trace_close(trace, NULL), MUSTER_OK);
}

static void names_are_escaped(void **state)
{
    (void)state;
    muster_trace *trace = open_trace();
    assert_int_equal(muster_trace_name(trace, 1, "a\"b\\c\n\x01", NULL),
                     MUSTER_OK);
    char wide[200];
    memset(wide, '\x02', sizeof wide);
    wide[199] = '\0';
    assert_int_equal(muster_trace_name(trace, 2, wide, NULL), MUSTER_OK);
    assert_int_equal(muster_trace_close(trace, NULL), MUSTER_OK);
    json_t *list = load();
    const json_t *args = json_object_get(json_array_get(list, 0), "args");
    assert_string_equal(text(args, "name"), "a\"b\\c\n\x01");
    args = json_object_get(json_array_get(list, 2), "args");
    assert_int_equal(strlen(text(args, "name")), 64);
    json_decref(list);
}

static void a_full_disk_and_a_missing_folder_are_named(void **state)
{
    (void)state;
    muster_error error = {.text = ""};
    muster_trace *trace = NULL;
    assert_int_equal(muster_trace_open("/nonexistent/t.json", &error, &trace),
                     MUSTER_ERR_SYSTEM);
    assert_non_null(strstr(error.text, "/nonexistent/t.json"));
    assert_int_equal(muster_trace_open("/dev/full", &error, &trace), MUSTER_OK);
    muster_status status = MUSTER_OK;
    for (int i = 0; i < 5000 && status == MUSTER_OK; i++) {
        muster_trace_event event = {.name = "wait", .begin_ns = i};
        status = muster_trace_mark(trace, &event, &error);
    }
    assert_int_equal(status, MUSTER_ERR_SYSTEM);
    assert_non_null(strstr(error.text, "/dev/full"));
    assert_int_equal(muster_trace_close(trace, &error), MUSTER_ERR_SYSTEM);
}

static void open_fails_cleanly_without_memory(void **state)
{
    (void)state;
    for (uint64_t allowed = 0; allowed < 2; allowed++) {
        muster_trace *trace = NULL;
        muster_mem_fail_after(allowed);
        muster_status status = muster_trace_open(path, NULL, &trace);
        muster_mem_fail_after(UINT64_MAX);
        assert_true(status < 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trace_is_a_json_array_of_events),
        cmocka_unit_test(an_empty_trace_is_an_empty_array),
        cmocka_unit_test(a_trace_cut_short_lacks_only_its_bracket),
        cmocka_unit_test(names_are_escaped),
        cmocka_unit_test(a_full_disk_and_a_missing_folder_are_named),
        cmocka_unit_test(open_fails_cleanly_without_memory),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
