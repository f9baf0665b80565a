/*
 * `muster predict` as a function: a model trained here by hand is applied to
 * csv files with labels of the training's own values, with other labels, with
 * too few columns; the lines written agree with the accuracy reported.
 */
#define _POSIX_C_SOURCE 200809L
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/folder_test.h"
#include "base/mem.h"
#include "job/saved.h"
#include "muster/run.h"

static char folder[] = "/tmp/muster-predict-XXXXXX";

static const char *inside(const char *name, char path[128])
{
    (void)snprintf(path, 128, "%s/%s", folder, name);
    return path;
}

static void write_text(const char *name, const char *text)
{
    char path[128];
    FILE *file = fopen(inside(name, path), "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* score = 2 x0 - x1 - 1; class 7 where positive, else class 3. */
static void write_model(void)
{
    char path[128];
    muster_saved saved = {.theta = NULL};
    float theta[] = {2, -1, -1};
    float values[] = {3, 7};
    assert_int_equal(muster_model_create("logistic", 2, 2, NULL, &saved.model),
                     MUSTER_OK);
    saved.theta = theta;
    saved.class_values = values;
    assert_int_equal(muster_saved_write(inside("model.safetensors", path),
                                        "logistic", &saved, NULL),
                     MUSTER_OK);
    muster_model_free(&saved.model);
}

static muster_status predict(const char *from, const char *data,
                             const char *out, muster_error *error,
                             json_t **result_out)
{
    muster_config *config = NULL;
    char *json = NULL;
    assert_int_equal(muster_config_create("predict", &config), MUSTER_OK);
    assert_int_equal(muster_config_set(config, "from", from, error), MUSTER_OK);
    assert_int_equal(muster_config_set(config, "data", data, error), MUSTER_OK);
    if (out != NULL) {
        assert_int_equal(muster_config_set(config, "out", out, error),
                         MUSTER_OK);
    }
    assert_int_equal(muster_config_check(config, error), MUSTER_OK);
    muster_status status = muster_predict(config, error, &json);
    assert_int_equal(status == MUSTER_OK, json != NULL);
    if (json != NULL) {
        *result_out = json_loads(json, 0, NULL);
        assert_non_null(*result_out);
    }
    muster_config_text_free(json);
    muster_config_free(config);
    return status;
}

static double real_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static void labelled_data_gets_an_accuracy_and_lines(void **state)
{
    (void)state;
    char data[128];
    char out[128];
    json_t *result = NULL;
    muster_error error = {MUSTER_OK, ""};
    write_text("rows.csv", "a,b,label\n2,0,7\n0,2,3\n2,2,3\n");
    muster_status status = predict(folder, inside("rows.csv", data),
                                   inside("lines.csv", out), &error, &result);
    if (status != MUSTER_OK) {
        fail_msg("%s", error.text);
    }
    assert_true(real_of(result, "samples") == 3);
    assert_true(fabs(real_of(result, "accuracy") - 2.0 / 3) < 1e-9);
    double loss = log(1 + exp(-3)) + log(1 + exp(-3)) + log(1 + exp(1));
    assert_true(fabs(real_of(result, "loss") - loss / 3) < 1e-6);
    assert_string_equal(json_string_value(json_object_get(result, "output")),
                        out);
    json_decref(result);
    char text[64] = "";
    FILE *file = fopen(out, "r");
    assert_non_null(file);
    assert_true(fread(text, 1, sizeof(text) - 1, file) > 0);
    assert_int_equal(fclose(file), 0);
    assert_string_equal(text, "7,3\n3,-3\n7,1\n");
}

static void other_labels_are_no_labels(void **state)
{
    (void)state;
    char data[128];
    char model[128];
    json_t *result = NULL;
    muster_error error = {MUSTER_OK, ""};
    write_text("rows.csv", "2,0,0\n0,2,0\n");
    assert_int_equal(predict(inside("model.safetensors", model),
                             inside("rows.csv", data), NULL, &error, &result),
                     MUSTER_OK);
    assert_true(real_of(result, "samples") == 2);
    assert_true(json_is_null(json_object_get(result, "accuracy")));
    assert_true(json_is_null(json_object_get(result, "loss")));
    assert_true(json_is_null(json_object_get(result, "output")));
    json_decref(result);
}

static void an_infinite_loss_is_null(void **state)
{
    (void)state;
    char data[128];
    json_t *result = NULL;
    muster_error error = {MUSTER_OK, ""};
    write_text("rows.csv", "-3e38,3e38,7\n0,2,3\n");
    muster_status status =
        predict(folder, inside("rows.csv", data), NULL, &error, &result);
    if (status != MUSTER_OK) {
        fail_msg("%s", error.text);
    }
    assert_true(real_of(result, "accuracy") == 0.5);
    assert_true(json_is_null(json_object_get(result, "loss")));
    json_decref(result);
}

static void what_cannot_be_read_is_named(void **state)
{
    (void)state;
    char data[128];
    json_t *result = NULL;
    muster_error error = {MUSTER_OK, ""};
    write_text("wide.csv", "2,0,1,7\n0,2,1,3\n");
    assert_int_equal(
        predict(folder, inside("wide.csv", data), NULL, &error, &result),
        MUSTER_ERR_INPUT);
    assert_non_null(strstr(error.text, "wide.csv"));
    assert_int_equal(
        predict(folder, inside("none.csv", data), NULL, &error, &result),
        MUSTER_ERR_INPUT);
    assert_non_null(strstr(error.text, "none.csv"));
    write_text("rows.csv", "2,0,7\n0,2,3\n");
    assert_int_equal(predict("/tmp/no-such-run", inside("rows.csv", data), NULL,
                             &error, &result),
                     MUSTER_ERR_INPUT);
    assert_non_null(strstr(error.text, "no-such-run"));
    assert_int_equal(
        predict(folder, data, "/proc/none/out.csv", &error, &result),
        MUSTER_ERR_SYSTEM);
    assert_non_null(strstr(error.text, "/proc/none"));
}

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    write_model();
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return folder_drop(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labelled_data_gets_an_accuracy_and_lines),
        cmocka_unit_test(other_labels_are_no_labels),
        cmocka_unit_test(an_infinite_loss_is_null),
        cmocka_unit_test(what_cannot_be_read_is_named),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
