/*
 * files_test.c -- YAML, JSON and resumed runs: wrong ones are refused with the
 * file and the line; the order of precedence holds; no allocation failure leaks
 * or is taken for something else.
 */
#define _POSIX_C_SOURCE 200809L
#include <sys/stat.h>
#include <unistd.h>

#include "config/config_test.h"

#include "base/mem.h"
#include "config/state.h"

static muster_status read_yaml(muster_config *config, const char *text,
                               muster_error *error)
{
    return muster_config_read_yaml(config, text, strlen(text), "run.yaml",
                                   error);
}

static void yaml_sets_options(void **state)
{
    (void)state;
    muster_config *config = make("train");
    muster_error error = {0};
    assert_int_equal(read_yaml(config,
                               "# a run\n"
                               "model: mlp:hidden=256\n"
                               "steps: 500\n"
                               "lr: 1e-2\n"
                               "json: yes\n"
                               "kill: 3@50\n"
                               "slow: [3:200ms, \"5:10x\"]\n",
                               &error),
                     MUSTER_OK);
    assert_string_equal(muster_config_string(config, MUSTER_OPT_MODEL),
                        "mlp:hidden=256");
    assert_int_equal(muster_config_uint(config, MUSTER_OPT_STEPS), 500);
    assert_true(muster_config_bool(config, MUSTER_OPT_JSON));
    assert_int_equal(muster_config_list_count(config, MUSTER_OPT_SLOW), 2);
    assert_string_equal(muster_config_list_at(config, MUSTER_OPT_SLOW, 1),
                        "5:10x");
    assert_int_equal(read_yaml(config, "# nothing\n", &error), MUSTER_OK);
    assert_int_equal(read_yaml(config, "", &error), MUSTER_OK);
    muster_config_free(config);
}

static void wrong_yaml_is_refused_with_its_line(void **state)
{
    (void)state;
    static const struct {
        const char *yaml;
        const char *expected;
    } rows[] = {
        {"data: x\nstragler: 1\n",
         "run.yaml:2: stragler: unknown option of train; did you mean "
         "stragglers?"},
        {"steps: many\n", "run.yaml:1: steps: 'many' is not a whole number"},
        {"steps: [1, 2]\n", "run.yaml:1: a list does not belong here"},
        {"\nsteps:\n  more: 1\n", "run.yaml:3: a mapping does not belong here"},
        {"steps: 1\nsteps: 2\n", "run.yaml:2: steps: given twice"},
        {"steps:\n", "run.yaml:1: steps: needs a value: N"},
        {"- steps\n", "run.yaml:1: a list does not belong here"},
        {"steps\n", "run.yaml:1: expected lines of `option: value`"},
        {"config: other.yaml\n",
         "run.yaml:1: config and resume are flags only"},
        {"slow: [a, [b]]\n", "run.yaml:1: a list does not belong here"},
        {"slow: &a [1:2x]\nkill: *a\n",
         "run.yaml:2: aliases are not supported"},
        {"steps: 1\n---\nlr: 2\n", "run.yaml:2: a second document"},
        {"[a]: 1\n", "run.yaml:1: a list does not belong here"},
        {"model: \"a\\0b\"\n", "run.yaml:1: a value holds a zero byte"},
        {"slow: [1:2x\n", NULL},
        {"\t", NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        muster_config *config = make("train");
        muster_error error = {0};
        assert_int_equal(read_yaml(config, rows[i].yaml, &error),
                         MUSTER_ERR_INVALID);
        if (rows[i].expected != NULL) {
            assert_string_equal(error.text, rows[i].expected);
        } else {
            assert_non_null(strstr(error.text, "not YAML"));
        }
        muster_config_free(config);
    }
}

/* A folder of its own for each test. */
static int make_folder(void **state)
{
    char *folder = malloc(64);
    if (folder == NULL) {
        return -1;
    }
    snprintf(folder, 64, "/tmp/muster-config-test-XXXXXX");
    *state = folder;
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int drop_folder(void **state)
{
    static const char *const names[] = {"config.json", "run.yaml"};
    for (size_t i = 0; i < 2; i++) {
        char path[128];
        snprintf(path, sizeof(path), "%s/%s", (char *)*state, names[i]);
        unlink(path);
    }
    rmdir(*state);
    free(*state);
    return 0;
}

static void put_file(const char *folder, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void flags_win_over_yaml_and_yaml_over_a_resumed_run(void **state)
{
    const char *folder = *state;
    put_file(folder, "config.json",
             "{\"verb\": \"train\", \"data\": \"x\", \"steps\": 1, \"epochs\": "
             "2, \"batch\": 3, \"local\": 6, \"slow\": [\"0:2x\", \"1:2x\"], "
             "\"run\": \"/gone\"}");
    put_file(folder, "run.yaml", "epochs: 20\nbatch: 30\nslow: [2:2x]\n");
    char line[256];
    snprintf(line, sizeof(line),
             "--batch 300 --config %s/run.yaml --resume %s --slow 3:2x --slow "
             "4:2x",
             folder, folder);
    muster_config *config = make("train");
    muster_error error = {0};
    assert_int_equal(parse_line(config, line, true, &error), MUSTER_OK);
    assert_int_equal(muster_config_uint(config, MUSTER_OPT_STEPS), 1);
    assert_int_equal(muster_config_uint(config, MUSTER_OPT_EPOCHS), 20);
    assert_int_equal(muster_config_uint(config, MUSTER_OPT_BATCH), 300);
    assert_int_equal(muster_config_list_count(config, MUSTER_OPT_SLOW), 2);
    assert_string_equal(muster_config_list_at(config, MUSTER_OPT_SLOW, 0),
                        "3:2x");
    assert_string_equal(muster_config_string(config, MUSTER_OPT_RUN), folder);
    char *json = muster_config_to_json(config);
    assert_null(strstr(json, "resume"));
    muster_config_text_free(json);
    muster_config_free(config);
}

static void a_missing_file_is_bad_input(void **state)
{
    char line[256];
    char expected[256];
    muster_error error = {0};
    muster_config *config = make("train");
    snprintf(line, sizeof(line), "--config %s/none.yaml", (char *)*state);
    snprintf(expected, sizeof(expected),
             "%s/none.yaml: No such file or directory", (char *)*state);
    assert_int_equal(parse_line(config, line, false, &error), MUSTER_ERR_INPUT);
    assert_string_equal(error.text, expected);
    muster_config_free(config);
    config = make("train");
    snprintf(line, sizeof(line), "--resume %s", (char *)*state);
    snprintf(expected, sizeof(expected),
             "--resume %s: there is no run to continue: config.json: No such "
             "file or directory; --run DIR starts one",
             (char *)*state);
    assert_int_equal(parse_line(config, line, false, &error), MUSTER_ERR_INPUT);
    assert_string_equal(error.text, expected);
    muster_config_free(config);
}

static void resume_and_another_run_folder_disagree(void **state)
{
    const char *folder = *state;
    char line[256];
    put_file(folder, "config.json", "{\"verb\": \"train\", \"data\": \"x\"}");
    muster_error error = {0};
    muster_config *config = make("train");
    snprintf(line, sizeof(line), "--resume %s --run /other", folder);
    assert_int_equal(parse_line(config, line, true, &error),
                     MUSTER_ERR_INVALID);
    assert_non_null(strstr(error.text, "leave out --run"));
    muster_config_free(config);
}

static void json_there_and_back_is_the_same(void **state)
{
    (void)state;
    muster_config *config = make("train");
    muster_error error = {0};
    assert_int_equal(
        parse_line(config,
                   "--data a\"b\\c --lr 0.3333333333333333 --l2 1e-7 --seed "
                   "9007199254740992 --heartbeat 150ms --slow 1:20ms --kill "
                   "2@7 --local 3 --speeds 1,2,3 --model mlp:hidden=\xc3\xa9",
                   true, &error),
        MUSTER_OK);
    char *first = muster_config_to_json(config);
    assert_non_null(first);
    muster_config *copy = NULL;
    assert_int_equal(muster_config_from_json(first, &error, &copy), MUSTER_OK);
    char *second = muster_config_to_json(copy);
    assert_string_equal(first, second);
    assert_true(muster_config_double(copy, MUSTER_OPT_LR) ==
                muster_config_double(config, MUSTER_OPT_LR));
    assert_true(muster_config_duration_ns(copy, MUSTER_OPT_HEARTBEAT) ==
                150000000);
    assert_string_equal(muster_config_string(copy, MUSTER_OPT_DATA), "a\"b\\c");
    assert_true(muster_config_is_set(copy, MUSTER_OPT_DATA));
    assert_false(muster_config_is_set(copy, MUSTER_OPT_BATCH));
    muster_config_text_free(first);
    muster_config_text_free(second);
    muster_config_free(copy);
    muster_config_free(config);
}

static void wrong_json_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        const char *expected;
    } rows[] = {
        {"{\"verb\":\"train\",\"stepz\":1}",
         "configuration: stepz: unknown option of train; did you mean steps?"},
        {"{\"verb\":\"train\",\"steps\":-1}",
         "configuration: steps: '-1' is not a whole number"},
        {"{\"verb\":\"train\",\"steps\":1.5}",
         "configuration: steps: '1.5' is not a whole number"},
        {"{\"verb\":\"train\",\"steps\":[1]}",
         "configuration: steps: takes one value, not a list"},
        {"{\"verb\":\"train\",\"steps\":null}",
         "configuration: steps: not a value of an option"},
        {"{\"verb\":\"train\",\"slow\":[{}]}",
         "configuration: slow: not a value of an option"},
        {"{\"verb\":\"dance\"}", "configuration: dance: no such verb"},
        {"{\"steps\":1}", "configuration: not a configuration: no \"verb\""},
        {"[]", "configuration: not a configuration: no \"verb\""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        muster_config *config = NULL;
        muster_error error = {0};
        assert_int_equal(muster_config_from_json(rows[i].json, &error, &config),
                         MUSTER_ERR_INVALID);
        assert_string_equal(error.text, rows[i].expected);
    }
    muster_config *config = NULL;
    muster_error error = {0};
    assert_int_equal(muster_config_from_json("{", &error, &config),
                     MUSTER_ERR_INVALID);
    assert_non_null(strstr(error.text, "not JSON"));
}

/* One journey through every door, for the walk below. */
static muster_status journey(const char *folder)
{
    char line[256];
    snprintf(line, sizeof(line),
             "--config %s/run.yaml --data x --slow 1:2x --kill 2@3", folder);
    muster_config *config = NULL;
    muster_config *copy = NULL;
    muster_error error = {0};
    muster_status status = muster_config_create("train", &config);
    if (status != MUSTER_OK) {
        return status;
    }
    status = parse_line(config, line, true, &error);
    char *json = status == MUSTER_OK ? muster_config_to_json(config) : NULL;
    if (status == MUSTER_OK && json == NULL) {
        status = MUSTER_ERR_NO_MEMORY;
    }
    if (status == MUSTER_OK) {
        status = muster_config_from_json(json, &error, &copy);
    }
    char *help = status == MUSTER_OK ? muster_config_help("train") : NULL;
    if (status == MUSTER_OK && help == NULL) {
        status = MUSTER_ERR_NO_MEMORY;
    }
    muster_config_text_free(json);
    muster_config_text_free(help);
    muster_config_free(copy);
    muster_config_free(config);
    return status;
}

static void every_failed_allocation_is_reported(void **state)
{
    put_file(*state, "run.yaml", "steps: 3\nstop: [1@2]\ncont: [1@4]\n");
    muster_status status = MUSTER_ERR_NO_MEMORY;
    unsigned count = 0;
    for (; status != MUSTER_OK && count < 10000; count++) {
        muster_mem_fail_after(count);
        status = journey(*state);
        muster_mem_fail_after(UINT64_MAX);
        assert_true(status == MUSTER_OK || status == MUSTER_ERR_NO_MEMORY);
    }
    assert_int_equal(status, MUSTER_OK);
    assert_true(count > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(yaml_sets_options),
        cmocka_unit_test(wrong_yaml_is_refused_with_its_line),
        cmocka_unit_test_setup_teardown(
            flags_win_over_yaml_and_yaml_over_a_resumed_run, make_folder,
            drop_folder),
        cmocka_unit_test_setup_teardown(a_missing_file_is_bad_input,
                                        make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(resume_and_another_run_folder_disagree,
                                        make_folder, drop_folder),
        cmocka_unit_test(json_there_and_back_is_the_same),
        cmocka_unit_test(wrong_json_is_refused),
        cmocka_unit_test_setup_teardown(every_failed_allocation_is_reported,
                                        make_folder, drop_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
