/*
 * library_test.c -- Muster in a program that is not the command: it leaves the
 * number of BLAS threads alone, and what --local workers train does not depend
 * on it.
 */
#define _GNU_SOURCE
#include <cblas.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/folder_test.h"
#include "muster/config.h"
#include "muster/run.h"

#define FILE_MAX 65536

/* The verb's result, or NULL; the caller's to free. */
static char *run_verb(const char *verb, int count, const char *const *flags)
{
    muster_error error = {MUSTER_OK, ""};
    muster_config *config = NULL;
    char *json = NULL;
    muster_status status = muster_config_create(verb, &config);
    if (status == MUSTER_OK) {
        status = muster_config_parse(config, count, flags, &error);
    }
    if (status == MUSTER_OK) {
        status = muster_config_check(config, &error);
    }
    if (status == MUSTER_OK) {
        status = strcmp(verb, "train") == 0
                     ? muster_train(config, getenv("MUSTER_BIN"), &error, &json)
                     : muster_simulate(config, &error, &json);
    }
    muster_config_free(config);
    if (status != MUSTER_OK) {
        fail_msg("%s: %s: %s", verb, muster_status_name(status), error.text);
    }
    return json;
}

/* Train with so many BLAS threads in this process; the model's bytes. */
static size_t train(const char *folder, int threads, char *bytes_out)
{
    char run[128];
    char path[160];
    snprintf(run, sizeof(run), "%s/run-%d", folder, threads);
    const char *const flags[] = {
        "--model",      "mlp:hidden=48",
        "--data",       "synthetic:samples=2000,features=400,classes=10",
        "--local",      "2",
        "--code",       "frc",
        "--stragglers", "1",
        "--steps",      "6",
        "--run",        run};
    openblas_set_num_threads(threads);
    char *json = run_verb("train", sizeof(flags) / sizeof(flags[0]), flags);
    assert_non_null(json);
    muster_config_text_free(json);
    assert_int_equal(openblas_get_num_threads(), threads);
    snprintf(path, sizeof(path), "%s/model.safetensors", run);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t length = fread(bytes_out, 1, FILE_MAX * 4, file);
    (void)fclose(file);
    return length;
}

static void the_trained_model_does_not_depend_on_blas_threads(void **state)
{
    static char one[FILE_MAX * 4];
    static char three[FILE_MAX * 4];
    size_t length = train(*state, 1, one);
    assert_in_range(length, 400 * 48 * sizeof(float), FILE_MAX * 4 - 1);
    assert_int_equal(train(*state, 3, three), length);
    assert_memory_equal(one, three, length);
}

static void a_simulation_keeps_the_blas_threads(void **state)
{
    (void)state;
    const char *const flags[] = {
        "--model",      "softmax",
        "--data",       "synthetic:samples=400,features=50,classes=4",
        "--code",       "frc",
        "--workers",    "4",
        "--stragglers", "1",
        "--steps",      "3"};
    openblas_set_num_threads(3);
    char *json = run_verb("simulate", sizeof(flags) / sizeof(flags[0]), flags);
    assert_non_null(json);
    muster_config_text_free(json);
    assert_int_equal(openblas_get_num_threads(), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            the_trained_model_does_not_depend_on_blas_threads, folder_setup,
            folder_teardown),
        cmocka_unit_test(a_simulation_keeps_the_blas_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
