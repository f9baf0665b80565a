/*
 * run_folder_test.c -- a folder holds one run; lines come out whole and in
 * order; a continued run drops what came after its checkpoint; a full disk is
 * told by name; the summary adds up, with every key that it promises.
 */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/folder_test.h"
#include "base/mem.h"
#include "base/rng.h"
#include "record/histogram.h"
#include "record/run_folder.h"

static muster_run_folder *open_new(const char *dir)
{
    muster_run_folder *folder = NULL;
    muster_error error = {0};
    assert_int_equal(muster_run_folder_open(dir, false, &error, &folder),
                     MUSTER_OK);
    return folder;
}

static muster_step_line step_line(uint64_t step)
{
    return (muster_step_line){.step = step,
                              .loss = 1.0 / (double)(step + 1),
                              .step_ms = 10 + (double)(step % 3),
                              .responders = 3,
                              .stragglers = 1,
                              .grad_err = 1e-7 * (double)step,
                              .bytes_up = 300,
                              .bytes_down = 400,
                              .messages_up = 3,
                              .bytes_moved = 7,
                              .stages_dropped = 1};
}

static muster_worker_line worker_line(uint64_t step, uint32_t worker)
{
    return (muster_worker_line){.step = step,
                                .worker = worker,
                                .compute_ms = 5 * (worker + 1),
                                .arrive_ms = 6,
                                .late = worker == 3};
}

static void append_steps(muster_run_folder *folder, uint64_t from, uint64_t to)
{
    muster_error error = {0};
    for (uint64_t step = from; step < to; step++) {
        muster_step_line line = step_line(step);
        assert_int_equal(muster_run_folder_step(folder, &line, &error),
                         MUSTER_OK);
        for (uint32_t worker = 0; worker < 4; worker++) {
            muster_worker_line answer = worker_line(step, worker);
            assert_int_equal(muster_run_folder_worker(folder, &answer, &error),
                             MUSTER_OK);
        }
    }
    assert_int_equal(muster_run_folder_flush(folder, &error), MUSTER_OK);
}

/* How many lines, and the step of the last. */
static size_t count_lines(const char *path, uint64_t *last_out)
{
    FILE *stream = fopen(path, "r");
    assert_non_null(stream);
    char text[1024];
    size_t count = 0;
    while (fgets(text, sizeof(text), stream) != NULL) {
        json_t *object = json_loads(text, 0, NULL);
        assert_non_null(object);
        *last_out =
            (uint64_t)json_integer_value(json_object_get(object, "step"));
        json_decref(object);
        count++;
    }
    fclose(stream);
    return count;
}

static void a_folder_holds_one_run(void **state)
{
    char dir[128];
    muster_error error = {0};
    muster_run_folder *second = NULL;
    snprintf(dir, sizeof(dir), "%s/a/b", (char *)*state);
    assert_int_equal(muster_run_folder_open(dir, true, &error, &second),
                     MUSTER_ERR_INPUT);
    assert_non_null(strstr(error.text, "holds no run to continue"));

    muster_run_folder *folder = open_new(dir);
    assert_int_equal(
        muster_run_folder_write(folder, MUSTER_RUN_CONFIG, "{}", &error),
        MUSTER_OK);
    assert_int_equal(muster_run_folder_open(dir, true, &error, &second),
                     MUSTER_ERR_SYSTEM);
    assert_non_null(strstr(error.text, "in use by another process"));
    muster_run_folder_close(folder);

    assert_int_equal(muster_run_folder_open(dir, false, &error, &second),
                     MUSTER_ERR_INVALID);
    assert_non_null(strstr(error.text, "holds another run; continue it with "
                                       "--resume"));
    assert_int_equal(muster_run_folder_open(dir, true, &error, &second),
                     MUSTER_OK);
    muster_run_folder_close(second);
}

static void a_folder_that_cannot_be_made_is_named(void **state)
{
    char dir[128];
    muster_error error = {0};
    muster_run_folder *folder = NULL;
    snprintf(dir, sizeof(dir), "%s/file", (char *)*state);
    fclose(fopen(dir, "w"));
    assert_int_equal(muster_run_folder_open(dir, false, &error, &folder),
                     MUSTER_ERR_INVALID);
    assert_non_null(strstr(error.text, "/file: a file stands where"));
}

static void lines_come_back_as_they_were(void **state)
{
    (void)state;
    char text[MUSTER_LINE_BYTES_MAX];
    muster_step_line step = step_line(7);
    step.loss = NAN;
    step.inexact = step.degraded = true;
    muster_step_line step_back = {0};
    size_t length = muster_step_line_write(&step, text);
    assert_int_equal(text[length - 1], '\n');
    assert_true(muster_step_line_read(text, length - 1, &step_back));
    assert_true(isnan(step_back.loss));
    assert_int_equal(step_back.step, 7);
    assert_int_equal(step_back.bytes_down, 400);
    assert_int_equal(step_back.bytes_moved, 7);
    assert_int_equal(step_back.stages_dropped, 1);
    assert_int_equal(step_back.stragglers, 1);
    assert_true(step_back.inexact && step_back.degraded);
    assert_true(fabs(step_back.step_ms - step.step_ms) < 1e-6);
    muster_worker_line worker = worker_line(7, 3);
    muster_worker_line worker_back = {0};
    length = muster_worker_line_write(&worker, text);
    assert_true(muster_worker_line_read(text, length - 1, &worker_back));
    assert_true(worker_back.late && worker_back.worker == 3);
    assert_false(muster_worker_line_read(text, length / 2, &worker_back));
    assert_false(muster_step_line_read(text, length - 1, &step_back));
    muster_step_line widest = {UINT64_MAX, -1e-300,    -1e-300,    UINT32_MAX,
                               UINT32_MAX, -1e-300,    UINT64_MAX, UINT64_MAX,
                               UINT64_MAX, UINT64_MAX, UINT64_MAX, true,
                               false};
    assert_true(muster_step_line_write(&widest, text) < MUSTER_LINE_BYTES_MAX);
}

static void a_step_line_tells_exact_from_degraded(void **state)
{
    (void)state;
    static const struct {
        const char *more;
        bool good, inexact, degraded;
    } rows[] = {
        {"", true, false, false},
        {",\"exact\":true,\"degraded\":false", true, false, false},
        {",\"exact\":false,\"degraded\":false", true, true, false},
        {",\"exact\":false,\"degraded\":true", true, true, true},
        {",\"bytes_moved\":5,\"stages_dropped\":6", true, false, false},
        {",\"bytes_moved\":-5", false, false, false},
        {",\"exact\":0", false, false, false},
        {",\"degraded\":\"no\"", false, false, false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[MUSTER_LINE_BYTES_MAX];
        muster_step_line line = {0};
        int length =
            snprintf(text, sizeof(text),
                     "{\"step\":1,\"loss\":1,\"step_ms\":1,\"responders\":1,"
                     "\"stragglers\":0,\"grad_err\":0,\"bytes_up\":0,"
                     "\"bytes_down\":0,\"messages_up\":0%s}",
                     rows[i].more);
        assert_int_equal(muster_step_line_read(text, (size_t)length, &line),
                         rows[i].good);
        assert_int_equal(line.inexact, rows[i].inexact);
        assert_int_equal(line.degraded, rows[i].degraded);
    }
}

static void a_continued_run_drops_what_came_after(void **state)
{
    muster_error error = {0};
    muster_run_folder *folder = open_new(*state);
    assert_int_equal(
        muster_run_folder_write(folder, MUSTER_RUN_CONFIG, "{}", &error),
        MUSTER_OK);
    append_steps(folder, 0, 1000);
    char path[256];
    snprintf(path, sizeof(path), "%s",
             muster_run_folder_path(folder, MUSTER_RUN_METRICS));
    uint64_t last = 0;
    assert_int_equal(count_lines(path, &last), 1000);
    muster_run_folder_close(folder);
    // A crash in the middle of a line.
    FILE *stream = fopen(path, "a");
    fputs("{\"step\":1000,\"lo", stream);
    fclose(stream);

    muster_summary *summary = NULL;
    assert_int_equal(muster_summary_create(4, &summary), MUSTER_OK);
    assert_int_equal(muster_run_folder_open(*state, true, &error, &folder),
                     MUSTER_OK);
    assert_int_equal(muster_run_folder_cut(folder, 600,
                                           &(muster_run_counts){summary, NULL},
                                           &error),
                     MUSTER_OK);
    assert_int_equal(muster_summary_steps(summary), 600);
    append_steps(folder, 600, 700);
    assert_int_equal(count_lines(path, &last), 700);
    assert_int_equal(last, 699);
    snprintf(path, sizeof(path), "%s",
             muster_run_folder_path(folder, MUSTER_RUN_WORKERS));
    assert_int_equal(count_lines(path, &last), 2800);
    muster_run_folder_close(folder);
    muster_summary_free(summary);
}

static void cutting_a_run_without_lines_is_fine(void **state)
{
    muster_error error = {0};
    muster_run_folder *folder = open_new(*state);
    assert_int_equal(muster_run_folder_cut(
                         folder, 5, &(muster_run_counts){NULL, NULL}, &error),
                     MUSTER_OK);
    muster_run_folder_close(folder);
}

static void a_full_disk_names_the_file(void **state)
{
    muster_error error = {0};
    muster_run_folder *folder = open_new(*state);
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit tight = {.rlim_cur = 4096, .rlim_max = before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    muster_status status = MUSTER_OK;
    uint64_t step = 0;
    for (; status == MUSTER_OK && step < 1000; step++) {
        muster_step_line line = step_line(step);
        status = muster_run_folder_step(folder, &line, &error);
    }
    muster_error again = {0};
    muster_step_line line = step_line(step);
    muster_status later = muster_run_folder_step(folder, &line, &again);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(status, MUSTER_ERR_SYSTEM);
    assert_non_null(strstr(error.text, "metrics.jsonl: File too large"));
    assert_int_equal(later, MUSTER_ERR_SYSTEM);
    assert_string_equal(error.text, again.text);
    muster_run_folder_close(folder);
}

/* Flushed to the device that is always full, the error is the disk's own. */
static void no_space_left_is_told(void **state)
{
    char path[256];
    muster_error error = {0};
    muster_run_folder *folder = open_new(*state);
    snprintf(path, sizeof(path), "%s/%s", (char *)*state, MUSTER_RUN_METRICS);
    assert_int_equal(symlink("/dev/full", path), 0);
    muster_step_line line = step_line(1);
    muster_status status = muster_run_folder_step(folder, &line, &error);
    if (status == MUSTER_OK) {
        status = muster_run_folder_flush(folder, &error);
    }
    assert_int_equal(status, MUSTER_ERR_SYSTEM);
    assert_non_null(
        strstr(error.text, "metrics.jsonl: No space left on device"));
    muster_run_folder_close(folder);
}

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static void quantiles_are_right_to_three_percent(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    static double values[COUNT];
    static muster_histogram histogram;
    muster_rng rng = muster_rng_make(1, 2);
    double sum = 0;
    for (size_t i = 0; i < COUNT; i++) {
        values[i] = exp(2 * muster_rng_normal(&rng));
        sum += values[i];
        muster_histogram_add(&histogram, values[i]);
    }
    muster_histogram_add(&histogram, NAN);
    qsort(values, COUNT, sizeof(values[0]), compare_doubles);
    static const double shares[] = {0.01, 0.5, 0.9, 0.99};
    for (size_t i = 0; i < 4; i++) {
        double exact = values[(size_t)(shares[i] * COUNT)];
        double found = muster_histogram_quantile(&histogram, shares[i]);
        assert_true(fabs(found - exact) <= 0.03 * exact);
    }
    assert_true(fabs(muster_histogram_mean(&histogram) - sum / COUNT) <
                1e-9 * sum);
    assert_true(muster_histogram_quantile(&histogram, 0) == values[0]);
    assert_true(muster_histogram_quantile(&histogram, 1) == values[COUNT - 1]);
}

static void a_histogram_takes_any_time(void **state)
{
    (void)state;
    static muster_histogram histogram;
    assert_true(isnan(muster_histogram_quantile(&histogram, 0.5)));
    assert_true(isnan(muster_histogram_mean(&histogram)));
    muster_histogram_add(&histogram, 7.5);
    assert_true(muster_histogram_quantile(&histogram, 0.5) == 7.5);
    static const double odd[] = {0, -1, 1e-9, 1e300, 5e-324};
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        muster_histogram_add(&histogram, odd[i]);
    }
    assert_int_equal(histogram.count, 6);
    assert_true(muster_histogram_quantile(&histogram, 1) == 1e300);
}

static double number_at(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static muster_summary *hundred_steps(void)
{
    muster_summary *summary = NULL;
    assert_int_equal(muster_summary_create(5, &summary), MUSTER_OK);
    for (uint64_t step = 0; step < 100; step++) {
        muster_step_line line = step_line(step);
        line.inexact = step >= 80;
        line.degraded = step >= 95;
        muster_summary_step(summary, &line);
        for (uint32_t worker = 0; worker < 4; worker++) {
            muster_worker_line answer = worker_line(step, worker);
            muster_summary_worker(summary, &answer);
        }
    }
    muster_worker_line stranger = worker_line(0, 99);
    muster_summary_worker(summary, &stranger);
    muster_summary_death(summary, 2);
    return summary;
}

static void the_summary_adds_up(void **state)
{
    (void)state;
    static const uint64_t received[] = {5, 6};
    muster_summary *summary = hundred_steps();
    muster_summary_end end = {.wall_s = 2,
                              .loss = 0.25,
                              .test_loss = 0.5,
                              .test_accuracy = 0.9,
                              .test_auc = 0.95,
                              .theta_norm = 3,
                              .code = "frc",
                              .n = 5,
                              .s = 1,
                              .m = 1,
                              .d = 2,
                              .parts_received = received,
                              .part_count = 2};
    char *text = muster_summary_json(summary, &end);
    json_t *object = json_loads(text, 0, NULL);
    assert_non_null(object);
    static const struct {
        const char *key;
        double value;
    } rows[] = {
        {"steps", 100},          {"bytes_up", 30000},  {"bytes_down", 40000},
        {"messages_up", 300},    {"bytes_moved", 700}, {"stages_dropped", 100},
        {"loss", 0.25},          {"wall_s", 2},        {"theta_norm", 3},
        {"grad_err_max", 99e-7}, {"degraded_steps", 5}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_true(fabs(number_at(object, rows[i].key) - rows[i].value) <
                    1e-12);
    }
    assert_true(json_is_false(json_object_get(object, "exact")));
    const json_t *times = json_object_get(object, "step_ms");
    assert_true(fabs(number_at(times, "p50") - 11) < 0.4);
    assert_true(fabs(number_at(times, "p90") - 12) < 0.4);
    assert_true(fabs(number_at(times, "p99") - 12) < 0.4);
    assert_true(fabs(number_at(times, "mean") - 10.99) < 1e-9);
    const json_t *test = json_object_get(object, "test");
    assert_true(number_at(test, "accuracy") == 0.9);
    assert_true(number_at(test, "auc") == 0.95);
    const json_t *code = json_object_get(object, "code");
    assert_string_equal(json_string_value(json_object_get(code, "name")),
                        "frc");
    assert_true(number_at(code, "d") == 2);
    assert_int_equal(json_array_size(json_object_get(object, "parts_received")),
                     2);
    json_decref(object);
    muster_mem_free(text);
    muster_summary_free(summary);
}

static void the_summary_tells_the_workers_apart(void **state)
{
    (void)state;
    muster_summary *summary = hundred_steps();
    muster_summary_end end = MUSTER_SUMMARY_END_INIT;
    static const double probability[] = {0, 0, 0, 0.75, 0};
    end.slow_probability = probability;
    end.straggler_wait_ms = 1.5;
    char *text = muster_summary_json(summary, &end);
    json_t *object = json_loads(text, 0, NULL);
    assert_true(number_at(object, "straggler_wait_ms") == 1.5);
    const json_t *workers = json_object_get(object, "workers");
    assert_int_equal(json_array_size(workers), 5);
    const json_t *late = json_array_get(workers, 3);
    assert_true(number_at(late, "straggle_rate") == 1);
    assert_true(number_at(late, "late") == 100);
    assert_true(number_at(late, "slow_probability") == 0.75);
    assert_true(json_is_null(json_object_get(late, "behind_ms")));
    assert_string_equal(json_string_value(json_object_get(late, "class")),
                        "slow");
    assert_true(fabs(number_at(late, "compute_ms_p50") - 20) < 0.7);
    assert_true(number_at(json_array_get(workers, 2), "deaths") == 1);
    assert_true(number_at(json_array_get(workers, 0), "straggle_rate") == 0);
    assert_true(json_is_null(
        json_object_get(json_array_get(workers, 4), "compute_ms_p50")));
    json_decref(object);
    muster_mem_free(text);
    muster_summary_free(summary);
}

static void without_a_test_set_there_is_no_test(void **state)
{
    (void)state;
    muster_summary *summary = NULL;
    assert_int_equal(muster_summary_create(0, &summary), MUSTER_OK);
    muster_summary_end end = MUSTER_SUMMARY_END_INIT;
    char *text = muster_summary_json(summary, &end);
    json_t *object = json_loads(text, 0, NULL);
    assert_null(json_object_get(object, "test"));
    assert_true(json_is_null(json_object_get(object, "loss")));
    json_decref(object);
    muster_mem_free(text);
    muster_summary_free(summary);
}

int main(void)
{
#define TEST_IN_FOLDER(test) \
    cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        TEST_IN_FOLDER(a_folder_holds_one_run),
        TEST_IN_FOLDER(a_folder_that_cannot_be_made_is_named),
        cmocka_unit_test(lines_come_back_as_they_were),
        cmocka_unit_test(a_step_line_tells_exact_from_degraded),
        TEST_IN_FOLDER(a_continued_run_drops_what_came_after),
        TEST_IN_FOLDER(cutting_a_run_without_lines_is_fine),
        TEST_IN_FOLDER(a_full_disk_names_the_file),
        TEST_IN_FOLDER(no_space_left_is_told),
        cmocka_unit_test(quantiles_are_right_to_three_percent),
        cmocka_unit_test(a_histogram_takes_any_time),
        cmocka_unit_test(the_summary_adds_up),
        cmocka_unit_test(the_summary_tells_the_workers_apart),
        cmocka_unit_test(without_a_test_set_there_is_no_test),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
