/*
 * config_test.c -- flags and set, and what is made of them: each right line
 * gives the value it says; each wrong one is refused with the place and, where
 * one is near, a suggestion.
 */
#define _POSIX_C_SOURCE 200809L
#include "config/config_test.h"

#include "base/names.h"
#include "config/fault.h"
#include "config/state.h"

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
    assert_refused("train", "--data x --local 2 --workers 3 --listen 0.0.0.0:1",
                   "--workers 3 and --local 2 disagree: use one of them");
    assert_refused("train",
                   "--data x --local 4 --topology 2x2 --listen 0.0.0.0:1",
                   "--topology: all edges and workers are started here, or "
                   "with --listen all join: leave out --local");
    assert_refused("train", "--data x --listen 0.0.0.0:1",
                   "--listen: needs --workers N, how many will join, or "
                   "--local N, to be started here");
    assert_refused("train", "--model mf --data x --node 1 --nodes 2",
                   "--node needs --mesh: where the nodes meet");
    assert_refused("train", "--model mf --data x --nodes 2 --mesh tcp:a:1,b:1",
                   "--mesh: say with --node which of these places is this "
                   "one's");
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
                   "or W:FACTORx such as 3:10x (at least 1x), with @STEP to "
                   "begin there");
    assert_refused("train", "--data x --slow 3:20ms@",
                   "--slow 3:20ms@: write W:TIME such as 3:200ms (at most 1h), "
                   "or W:FACTORx such as 3:10x (at least 1x), with @STEP to "
                   "begin there");
    assert_refused("train", "--data x --local 4 --slow 5:0@3",
                   "--slow 5:0@3: there are 4 workers, numbered 0 to 3");
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
                                "--slow 0:200ms --slow 0:0@8 --slow 0:3x@4",
                                true, &error),
                     MUSTER_OK);
    muster_vec faults = muster_vec_make(sizeof(muster_fault));
    assert_int_equal(muster_faults_read(config, &error, &faults), MUSTER_OK);
    static const muster_fault expected[] = {
        {MUSTER_FAULT_SLOW_BY, 0, 0, 200000000, 0, false},
        {MUSTER_FAULT_SLOW_TIMES, 4, 0, 0, 10, false},
        {MUSTER_FAULT_KILL, 2, 3, 0, 0, false},
        {MUSTER_FAULT_SLOW_TIMES, 0, 4, 0, 3, false},
        {MUSTER_FAULT_KILL, 1, 5, 0, 0, false},
        {MUSTER_FAULT_SLOW_BY, 0, 8, 0, 0, false},
        {MUSTER_FAULT_REJOIN, 1, 9, 0, 0, false},
        {MUSTER_FAULT_STOP, 3, 9, 0, 0, false},
        {MUSTER_FAULT_CONT, 3, 10, 0, 0, false},
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

static void a_topology_says_how_many_workers_and_edges_there_are(void **state)
{
    (void)state;
    muster_config *config = make("simulate");
    muster_error error = {0};
    assert_int_equal(parse_line(config,
                                "--topology 3,4,5 --kill edge1@5 --rejoin "
                                "edge1@9 --slow 11:2x",
                                true, &error),
                     MUSTER_OK);
    assert_int_equal(muster_config_workers(config), 12);
    assert_int_equal(muster_config_edges(config), 3);
    assert_string_equal(muster_config_string(config, MUSTER_OPT_CODE), "hier");
    assert_string_equal(muster_config_string(config, MUSTER_OPT_VERIFY), "off");
    muster_vec faults = muster_vec_make(sizeof(muster_fault));
    assert_int_equal(muster_faults_read(config, &error, &faults), MUSTER_OK);
    const muster_fault *found = faults.data;
    assert_int_equal(faults.count, 3);
    assert_true(!found[0].edge && found[1].edge && found[2].edge);
    assert_int_equal(found[1].worker, 1);
    muster_vec_fini(&faults);
    muster_config_free(config);
    assert_refused("simulate", "--topology 4x4 --kill edge4@5",
                   "--kill edge4@5: there are 4 edges, numbered 0 to 3");
    assert_refused("simulate", "--workers 4 --kill edge0@5",
                   "--kill edge0@5: there are no edges without --topology");
    assert_refused("simulate", "--topology 2x2 --cont edge0@5 --stop 0@2",
                   "--cont edge0@5: edge 0 is not stopped before");
    assert_refused("simulate", "--topology 2x2 --workers 5",
                   "--topology 2x2 has 4 workers: leave out --local and "
                   "--workers");
    assert_refused("simulate", "--topology 2x2 --verify correct",
                   "--verify correct: with --topology answers cannot be "
                   "compared, since edges send sums over different workers; "
                   "leave out --verify");
    assert_refused("simulate", "--topology 2x2 --shuffle rotate:1",
                   "--shuffle has no meaning with --topology: every step has "
                   "every part");
    assert_refused("join", "--connect 127.0.0.1:1 --as edge",
                   "--as edge needs --listen ADDRESS: an edge says where "
                   "its workers join it");
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

static void the_help_has_every_task_and_way_to_manage(void **state)
{
    (void)state;
    for (size_t i = 0; muster_task_names[i] != NULL; i++) {
        assert_non_null(strstr(muster_option_get(MUSTER_OPT_MODEL)->help,
                               muster_task_names[i]));
    }
    for (size_t i = 0; muster_manage_names[i] != NULL; i++) {
        assert_non_null(strstr(muster_option_get(MUSTER_OPT_MANAGE)->help,
                               muster_manage_names[i]));
    }
    assert_refused("train", "--model mf --data x --manage clasic",
                   "--manage clasic: unknown; did you mean classic? There are "
                   "auto, relocate, replicate, classic, static");
    assert_refused("train", "--model mf --data x --manage auto:f",
                   "--manage auto:f: a file belongs to static, as in "
                   "static:FILE, and to nothing else");
}

static void tasks_take_the_options_of_copies(void **state)
{
    (void)state;
    muster_config *config = make("train");
    muster_error error = {0};
    assert_int_equal(parse_line(config,
                                "--model mf --data x --staleness 20ms "
                                "--hot-factor 7",
                                true, &error),
                     MUSTER_OK);
    assert_true(muster_config_duration_ns(config, MUSTER_OPT_STALENESS) ==
                20000000);
    assert_int_equal(muster_config_uint(config, MUSTER_OPT_HOT_FACTOR), 7);
    muster_config_free(config);
}

static void defaults_are_legal_and_names_distinct(void **state)
{
    (void)state;
    for (muster_option a = 0; a < MUSTER_OPT_COUNT; a++) {
        const muster_option_row *row = muster_option_get(a);
        assert_true(row->type == MUSTER_TYPE_FLAG || row->meta != NULL);
        assert_true(row->min <= row->max);
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
        cmocka_unit_test(a_topology_says_how_many_workers_and_edges_there_are),
        cmocka_unit_test(speeds_become_numbers),
        cmocka_unit_test(every_option_of_a_verb_is_in_its_help),
        cmocka_unit_test(the_examples_of_the_help_are_right),
        cmocka_unit_test(the_help_has_every_task_and_way_to_manage),
        cmocka_unit_test(tasks_take_the_options_of_copies),
        cmocka_unit_test(defaults_are_legal_and_names_distinct),
        cmocka_unit_test(a_failed_set_leaves_the_old_value),
        cmocka_unit_test(lists_and_values_have_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
