/*
 * config_test.c -- the doors into a configuration: flags, YAML, JSON, set. Each
 * right line gives the value it says; each wrong one is refused with the place
 * and, where one is near, a suggestion; the order of precedence holds; no
 * allocation failure leaks or is taken for something else.
 */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "config/config.h"
#include "config/fault.h"
#include "config/state.h"

#define ARGUMENTS_MAX 32

static muster_config *make(const char *verb)
{
    muster_config *config = NULL;
    assert_int_equal(muster_config_create(verb, &config), MUSTER_OK);
    return config;
}

/* Parse (and check, when asked) a line of words separated by blanks. */
static muster_status parse_line(muster_config *config, const char *line,
                                bool check, muster_error *error)
{
    char words[1024];
    const char *argv[ARGUMENTS_MAX];
    int argc = 0;
    snprintf(words, sizeof(words), "%s", line);
    char *rest = NULL;
    for (char *word = strtok_r(words, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        assert_true(argc < ARGUMENTS_MAX);
        argv[argc++] = word;
    }
    muster_status status = muster_config_parse(config, argc, argv, error);
    if (status == MUSTER_OK && check) {
        status = muster_config_check(config, error);
    }
    return status;
}

static void assert_refused(const char *verb, const char *line,
                           const char *expected)
{
    muster_config *config = make(verb);
    muster_error error = {0};
    assert_int_equal(parse_line(config, line, true, &error),
                     MUSTER_ERR_INVALID);
    assert_string_equal(error.text, expected);
    muster_config_free(config);
}

static void a_new_user_gets_a_good_run(void **state)
{
    (void)state;
    muster_config *config = make("train");
    muster_error error = {0};
    assert_int_equal(parse_line(config,
                                "--data x --local 8 --code frc --stragglers 1",
                                true, &error),
                     MUSTER_OK);
    assert_int_equal(muster_config_uint(config, MUSTER_OPT_EPOCHS), 10);
    assert_int_equal(muster_config_uint(config, MUSTER_OPT_STEPS), 0);
    assert_int_equal(muster_config_uint(config, MUSTER_OPT_BATCH), 256);
    assert_true(muster_config_double(config, MUSTER_OPT_LR) == 0.1);
    assert_string_equal(muster_config_string(config, MUSTER_OPT_MODEL),
                        "softmax");
    assert_int_equal(muster_config_workers(config), 8);
    assert_true(muster_config_duration_ns(config, MUSTER_OPT_HEARTBEAT) ==
                2000000000);
    assert_false(muster_config_is_set(config, MUSTER_OPT_EPOCHS));
    assert_true(muster_config_is_set(config, MUSTER_OPT_LOCAL));
    muster_config_free(config);
}

static void check_settles_what_depends_on_others(void **state)
{
    (void)state;
    muster_config *config = make("train");
    muster_error error = {0};
    assert_int_equal(
        parse_line(config, "--data x --optimizer adam --steps 5", true, &error),
        MUSTER_OK);
    assert_true(muster_config_double(config, MUSTER_OPT_LR) == 0.001);
    assert_int_equal(muster_config_uint(config, MUSTER_OPT_EPOCHS), 0);
    assert_int_equal(muster_config_uint(config, MUSTER_OPT_LOCAL), 4);
    char *once = muster_config_to_json(config);
    assert_int_equal(muster_config_check(config, &error), MUSTER_OK);
    char *twice = muster_config_to_json(config);
    assert_string_equal(once, twice);
    muster_config_text_free(once);
    muster_config_text_free(twice);
    muster_config_free(config);
}

static void flags_take_values_in_both_spellings(void **state)
{
    (void)state;
    muster_config *config = make("train");
    muster_error error = {0};
    assert_int_equal(parse_line(config,
                                "--steps=7 --lr 1e-2 --json --slow 1:20ms "
                                "--slow=2:3x --patience 5m --quiet=false",
                                false, &error),
                     MUSTER_OK);
    assert_int_equal(muster_config_uint(config, MUSTER_OPT_STEPS), 7);
    assert_true(muster_config_double(config, MUSTER_OPT_LR) == 0.01);
    assert_true(muster_config_bool(config, MUSTER_OPT_JSON));
    assert_false(muster_config_bool(config, MUSTER_OPT_QUIET));
    assert_int_equal(muster_config_list_count(config, MUSTER_OPT_SLOW), 2);
    assert_string_equal(muster_config_list_at(config, MUSTER_OPT_SLOW, 1),
                        "2:3x");
    assert_string_equal(muster_config_get(config, "slow"), "2:3x");
    assert_string_equal(muster_config_get(config, "steps"), "7");
    assert_null(muster_config_get(config, "data"));
    assert_null(muster_config_get(config, "no-such-thing"));
    muster_config_free(config);
}

static void a_positional_argument_is_the_verbs_own(void **state)
{
    (void)state;
    muster_config *config = make("join");
    muster_error error = {0};
    assert_int_equal(
        parse_line(config, "127.0.0.1:7700 --worker 3", true, &error),
        MUSTER_OK);
    assert_string_equal(muster_config_string(config, MUSTER_OPT_CONNECT),
                        "127.0.0.1:7700");
    assert_int_equal(muster_config_uint(config, MUSTER_OPT_WORKER), 3);
    muster_config_free(config);
    assert_refused("join", "a:1 b:2",
                   "join: what is 'b:2'? Options begin with --");
    assert_refused("train", "mnist",
                   "train: what is 'mnist'? Options begin with --");
}

static void wrong_flags_are_refused_with_a_hint(void **state)
{
    (void)state;
    assert_refused("train", "--stragler 1",
                   "--stragler: unknown option of train; did you mean "
                   "--stragglers?");
    assert_refused("train", "--qwertyuiop 1",
                   "--qwertyuiop: unknown option of train; see `muster train "
                   "--help`");
    assert_refused("join", "--epochs 3",
                   "--epochs: unknown option of join; see `muster join "
                   "--help`");
    assert_refused("train", "--steps x", "--steps: 'x' is not a whole number");
    assert_refused("train", "--steps", "--steps: needs a value: N");
    assert_refused("train", "--steps --json", "--steps: needs a value: N");
    assert_refused("train", "--steps=", "--steps: needs a value: N");
    assert_refused("train", "--lr -1", "--lr: -1 is outside 0 to 1000000");
    assert_refused("train", "--local 5000",
                   "--local: 5000 is outside 0 to 4096");
    assert_refused("train", "--heartbeat 1ms",
                   "--heartbeat: 1ms is outside 50ms to 1h");
    assert_refused("train", "--patience 60",
                   "--patience: '60' is not a time such as 200ms, 2s or 5m");
    assert_refused("train", "--data a\nb",
                   "--data: not UTF-8, or with control characters");
    assert_refused("train", "--json=perhaps",
                   "--json: 'perhaps' is not true or false");
}

static void options_are_checked_together(void **state)
{
    (void)state;
    assert_refused("train", "--local 2",
                   "train: --data is missing; for example --data "
                   "synthetic:samples=10000");
    assert_refused("join", "",
                   "join: --connect is missing; for example muster "
                   "join 10.0.0.1:7700");
    assert_refused("predict", "runs/a",
                   "predict: --data is missing; for example muster predict "
                   "runs/first --data PATH");
    assert_refused("train", "--data x --local 2 --listen 0.0.0.0:1",
                   "--local starts workers here, --listen waits for others to "
                   "join: use one of them");
    assert_refused("train", "--data x --listen 0.0.0.0:1",
                   "--listen: needs --workers N, how many will join");
    assert_refused("train", "--data x --workers 3",
                   "--workers 3: needs --listen ADDRESS; for workers on this "
                   "machine use --local 3");
    assert_refused("simulate", "--workers 3 --local 2",
                   "--workers 3 and --local 2 disagree: use one of them");
    assert_refused("train", "--data x --local 4 --stragglers 4",
                   "--stragglers 4: of 4 workers at most 3 may be left out");
    assert_refused("train", "--data x --local 3 --speeds 1,2",
                   "--speeds: 2 speeds for 3 workers");
    assert_refused("train", "--data x --local 3 --speeds 1,,2",
                   "--speeds: '' is not a positive number; write one for each "
                   "worker, such as 1,1,2,4");
    assert_refused("train", "--data x --quiet --verbose",
                   "--quiet and --verbose: use one of them");
}

static void faults_of_workers_that_are_not_there_are_refused(void **state)
{
    (void)state;
    assert_refused("train", "--data x --local 8 --kill 99@5",
                   "--kill 99@5: there are 8 workers, numbered 0 to 7");
    assert_refused("simulate", "--workers 1 --slow 1:2x",
                   "--slow 1:2x: there is 1 worker, numbered 0 to 0");
    assert_refused("train", "--data x --kill 3",
                   "--kill 3: write W@STEP such as 3@50");
    assert_refused("train", "--data x --kill x@3",
                   "--kill x@3: write W@STEP such as 3@50");
    assert_refused("train", "--data x --slow 3:0.5x",
                   "--slow 3:0.5x: write W:TIME such as 3:200ms (at most 1h), "
                   "or W:FACTORx such as 3:10x (at least 1x)");
    assert_refused("train", "--data x --rejoin 1@5 --kill 1@9",
                   "--rejoin 1@5: worker 1 is not killed before");
    assert_refused("train", "--data x --kill 1@5 --cont 1@9",
                   "--cont 1@9: worker 1 is not stopped before");
    assert_refused(
        "train", "--data x --listen :1 --workers 4 --kill 1@5",
        "--slow, --delay, --kill, --stop and the like need --local: workers "
        "that join are not ours to disturb");
}

static void faults_come_in_the_order_they_happen(void **state)
{
    (void)state;
    muster_config *config = make("simulate");
    muster_error error = {0};
    assert_int_equal(parse_line(config,
                                "--workers 5 --kill 1@5 --kill 2@3 --rejoin "
                                "1@9 --stop 3@9 --cont 3@10 --slow 4:10x "
                                "--slow 0:200ms",
                                true, &error),
                     MUSTER_OK);
    muster_vec faults = muster_vec_make(sizeof(muster_fault));
    assert_int_equal(muster_faults_read(config, &error, &faults), MUSTER_OK);
    static const muster_fault expected[] = {
        {MUSTER_FAULT_SLOW_BY, 0, 0, 200000000, 0},
        {MUSTER_FAULT_SLOW_TIMES, 4, 0, 0, 10},
        {MUSTER_FAULT_KILL, 2, 3, 0, 0},
        {MUSTER_FAULT_KILL, 1, 5, 0, 0},
        {MUSTER_FAULT_REJOIN, 1, 9, 0, 0},
        {MUSTER_FAULT_STOP, 3, 9, 0, 0},
        {MUSTER_FAULT_CONT, 3, 10, 0, 0},
    };
    assert_int_equal(faults.count, sizeof(expected) / sizeof(expected[0]));
    const muster_fault *found = faults.data;
    for (size_t i = 0; i < faults.count; i++) {
        assert_int_equal(found[i].kind, expected[i].kind);
        assert_int_equal(found[i].worker, expected[i].worker);
        assert_int_equal(found[i].step, expected[i].step);
        assert_int_equal(found[i].delay_ns, expected[i].delay_ns);
        assert_true(found[i].factor == expected[i].factor);
    }
    muster_vec_fini(&faults);
    muster_config_free(config);
}

static void speeds_become_numbers(void **state)
{
    (void)state;
    muster_config *config = make("simulate");
    muster_error error = {0};
    double speeds[3] = {0};
    assert_int_equal(
        parse_line(config, "--workers 3 --speeds 1,2.5,4", true, &error),
        MUSTER_OK);
    assert_int_equal(muster_config_speeds(config, 3, &error, speeds),
                     MUSTER_OK);
    assert_true(speeds[0] == 1 && speeds[1] == 2.5 && speeds[2] == 4);
    muster_config_free(config);
}

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
             "%s/config.json: No such file or directory", (char *)*state);
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

static void every_option_of_a_verb_is_in_its_help(void **state)
{
    (void)state;
    for (muster_verb verb = 0; verb < MUSTER_VERB_COUNT; verb++) {
        char *help = muster_config_help(muster_verb_get(verb)->name);
        assert_non_null(help);
        assert_non_null(strstr(help, "Example:\n  muster "));
        size_t column = 0;
        for (const char *at = help; *at != '\0'; at++) {
            column = *at == '\n' ? 0 : column + 1;
            assert_true(column <= 80);
        }
        for (muster_option option = 0; option < MUSTER_OPT_COUNT; option++) {
            char flag[64];
            snprintf(flag, sizeof(flag), "\n  --%s",
                     muster_option_get(option)->name);
            const char *found = strstr(help, flag);
            while (found != NULL &&
                   strchr(" \n", found[strlen(flag)]) == NULL) {
                found = strstr(found + 1, flag);
            }
            assert_int_equal(found != NULL, muster_option_serves(option, verb));
        }
        muster_config_text_free(help);
    }
    assert_null(muster_config_help("dance"));
}

static void the_examples_of_the_help_are_right(void **state)
{
    (void)state;
    for (muster_verb verb = 0; verb < MUSTER_VERB_COUNT; verb++) {
        const muster_verb_row *row = muster_verb_get(verb);
        char start[64];
        muster_error error = {0};
        int length = snprintf(start, sizeof(start), "muster %s ", row->name);
        assert_memory_equal(row->example, start, (size_t)length);
        muster_config *config = make(row->name);
        assert_int_equal(
            parse_line(config, row->example + length, true, &error), MUSTER_OK);
        muster_config_free(config);
    }
}

static void defaults_are_legal_and_names_distinct(void **state)
{
    (void)state;
    for (muster_option a = 0; a < MUSTER_OPT_COUNT; a++) {
        const muster_option_row *row = muster_option_get(a);
        assert_true(row->type == MUSTER_TYPE_FLAG || row->meta != NULL);
        assert_true(row->least <= row->most);
        for (muster_option b = a + 1; b < MUSTER_OPT_COUNT; b++) {
            assert_string_not_equal(row->name, muster_option_get(b)->name);
        }
    }
    muster_config *none = NULL;
    assert_int_equal(muster_config_create("dance", &none), MUSTER_ERR_INVALID);
}

static void a_failed_set_leaves_the_old_value(void **state)
{
    (void)state;
    muster_config *config = make("train");
    muster_error error = {0};
    assert_int_equal(muster_config_set(config, "steps", "5", &error),
                     MUSTER_OK);
    assert_int_equal(muster_config_set(config, "steps", "five", &error),
                     MUSTER_ERR_INVALID);
    assert_string_equal(error.text, "steps: 'five' is not a whole number");
    assert_int_equal(muster_config_uint(config, MUSTER_OPT_STEPS), 5);
    assert_int_equal(muster_config_set(config, "step", "5", &error),
                     MUSTER_ERR_INVALID);
    muster_config_free(config);
}

static void lists_and_values_have_limits(void **state)
{
    (void)state;
    muster_config *config = make("train");
    muster_error error = {0};
    for (unsigned i = 0; i < MUSTER_CONFIG_LIST_MAX; i++) {
        assert_int_equal(muster_config_set(config, "kill", "1@1", &error),
                         MUSTER_OK);
    }
    assert_int_equal(muster_config_set(config, "kill", "1@1", &error),
                     MUSTER_ERR_INVALID);
    char *huge = calloc(MUSTER_CONFIG_VALUE_MAX + 2, 1);
    memset(huge, 'x', MUSTER_CONFIG_VALUE_MAX + 1);
    assert_int_equal(muster_config_set(config, "data", huge, &error),
                     MUSTER_ERR_INVALID);
    free(huge);
    muster_config_free(config);
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
        cmocka_unit_test(a_new_user_gets_a_good_run),
        cmocka_unit_test(check_settles_what_depends_on_others),
        cmocka_unit_test(flags_take_values_in_both_spellings),
        cmocka_unit_test(a_positional_argument_is_the_verbs_own),
        cmocka_unit_test(wrong_flags_are_refused_with_a_hint),
        cmocka_unit_test(options_are_checked_together),
        cmocka_unit_test(faults_of_workers_that_are_not_there_are_refused),
        cmocka_unit_test(faults_come_in_the_order_they_happen),
        cmocka_unit_test(speeds_become_numbers),
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
        cmocka_unit_test(every_option_of_a_verb_is_in_its_help),
        cmocka_unit_test(the_examples_of_the_help_are_right),
        cmocka_unit_test(defaults_are_legal_and_names_distinct),
        cmocka_unit_test(a_failed_set_leaves_the_old_value),
        cmocka_unit_test(lists_and_values_have_limits),
        cmocka_unit_test_setup_teardown(every_failed_allocation_is_reported,
                                        make_folder, drop_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
