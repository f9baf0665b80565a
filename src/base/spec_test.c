/*
 * spec_test.c -- specs are taken apart as written, values land in their fields,
 * and every refusal names place, key and value and what would be right.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/names.h"
#include "base/spec.h"
#include "base/suggest.h"

typedef struct options {
    uint32_t rank;
    uint64_t seed;
    double rate;
    double pause_s;
    uint32_t order;
    char list[16];
} options;

static const muster_spec_field fields[] = {
    {"rank", MUSTER_SPEC_UINT, offsetof(options, rank), 1, 4096, NULL, false},
    {"seed", MUSTER_SPEC_UINT64, offsetof(options, seed), 0,
     MUSTER_SPEC_NO_LIMIT, NULL, false},
    {"rate", MUSTER_SPEC_DOUBLE, offsetof(options, rate), MUSTER_SPEC_ABOVE_0,
     MUSTER_SPEC_NO_LIMIT, NULL, false},
    {"pause", MUSTER_SPEC_SECONDS, offsetof(options, pause_s), 0, 3600, NULL,
     false},
    {"order", MUSTER_SPEC_WORD, offsetof(options, order), 0, 0,
     "column|random|none", false},
    {"list", MUSTER_SPEC_TEXT, offsetof(options, list), 0, 16, NULL, true},
    {.name = NULL},
};

static void pairs_are_cut_at_commas_but_lists_are_not(void **state)
{
    (void)state;
    const char *text = "a=1,hidden=256,128,c=,odd";
    static const char *const expected[] = {"a|1", "hidden|256,128", "c|,odd"};
    muster_spec_pair pair;
    for (size_t i = 0; i < 3; i++) {
        char got[64];
        assert_true(muster_spec_next(&text, &pair));
        snprintf(got, sizeof(got), "%.*s|%.*s", (int)pair.key_length, pair.key,
                 (int)pair.value_length, pair.value);
        assert_string_equal(got, expected[i]);
    }
    assert_false(muster_spec_next(&text, &pair));
    text = "bare";
    assert_true(muster_spec_next(&text, &pair));
    assert_null(pair.value);
    assert_int_equal(pair.key_length, 4);
    text = "";
    assert_false(muster_spec_next(&text, &pair));
}

static void a_name_ends_at_its_colon(void **state)
{
    (void)state;
    const char *params;
    assert_int_equal(muster_spec_name("mf:rank=3", &params), 2);
    assert_string_equal(params, "rank=3");
    assert_int_equal(muster_spec_name("mf", &params), 2);
    assert_string_equal(params, "");
    assert_true(muster_spec_is("mf:", "mf"));
    assert_false(muster_spec_is("mfx", "mf"));
    assert_false(muster_spec_is("m", "mf"));
    assert_int_equal(muster_name_index(muster_task_names, "complex:dim=2"), 1);
    assert_int_equal(muster_name_index(muster_task_names, "softmax"), -1);
}

static void values_land_in_their_fields(void **state)
{
    (void)state;
    options o = {.rank = 7, .rate = 1};
    uint64_t given = 0;
    assert_int_equal(
        muster_spec_read("x",
                         "list=1,2,seed=18446744073709551615,pause=1.5h,"
                         "order=random,rate=1e-3,rank=1e3,",
                         fields, &o, &given, NULL),
        MUSTER_ERR_INVALID);
    assert_int_equal(
        muster_spec_read("x",
                         "list=1,2,seed=18446744073709551615,pause=30m,"
                         "order=random,rate=1e-3,rank=1e3,",
                         fields, &o, &given, NULL),
        MUSTER_OK);
    assert_int_equal(o.rank, 1000);
    assert_true(o.seed == UINT64_MAX);
    assert_true(o.rate == 1e-3);
    assert_true(o.pause_s == 1800);
    assert_int_equal(o.order, 1);
    assert_string_equal(o.list, "1,2");
    assert_int_equal(given, 63);
    options kept = {.rank = 7};
    assert_int_equal(
        muster_spec_read("x", "list=a", fields, &kept, &given, NULL),
        MUSTER_OK);
    assert_int_equal(kept.rank, 7);
    assert_int_equal(given, 1u << 5);
}

static void refusals_name_place_key_and_value(void **state)
{
    (void)state;
    static const struct {
        const char *params;
        const char *text;
    } rows[] = {
        {"rank=0x4", "--m x: rank=0x4: expected a whole number from 1 to 4096"},
        {"rank=0", "--m x: rank=0: expected a whole number from 1 to 4096"},
        {"rank=-1", "--m x: rank=-1: expected a whole number from 1 to 4096"},
        {"rank= 4", "--m x: rank= 4: expected a whole number from 1 to 4096"},
        {"rank=", "--m x: rank=: expected a whole number from 1 to 4096"},
        {"seed=1.5", "--m x: seed=1.5: expected a whole number of at least 0"},
        {"rate=0", "--m x: rate=0: expected a number above 0"},
        {"rate=inf", "--m x: rate=inf: expected a number above 0"},
        {"pause=5",
         "--m x: pause=5: expected a time of at most 1h, such as 20ms"},
        {"pause=2h",
         "--m x: pause=2h: expected a time of at most 1h, such as 20ms"},
        {"order=colum", "--m x: order=colum: unknown; did you mean column? "
                        "There are column, random, none"},
        {"list=", "--m x: list=: expected a text of 1 to 15 bytes"},
        {"list=0123456789abcdef",
         "--m x: list=0123456789abcdef: expected a text of 1 to 15 bytes"},
        {"ranck=3", "--m x: parameter ranck: unknown; did you mean rank? There "
                    "are rank, seed, rate, pause, order, list"},
        {"colour=3", "--m x: parameter colour: unknown; there are rank, seed, "
                     "rate, pause, order, list"},
        {"rank", "--m x: rank needs a value: write rank=.."},
        {"rank=2,order=none,rank=3", "--m x: rank= is given twice"},
        {"pause=5ms,pause=5ms", "--m x: pause= is given twice"},
        {"order=none,order=random,list=a", "--m x: order= is given twice"},
        {"rank=3", "--m x: needs list=.., a text of 1 to 15 bytes"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        options o = {.rank = 7};
        muster_error error = {.text = ""};
        assert_int_equal(
            muster_spec_read("--m x", rows[i].params, fields, &o, NULL, &error),
            MUSTER_ERR_INVALID);
        assert_string_equal(error.text, rows[i].text);
    }
    static const muster_spec_field none[] = {{.name = NULL}};
    muster_error error = {.text = ""};
    assert_int_equal(muster_spec_read("--m y", "a=1", none, NULL, NULL, &error),
                     MUSTER_ERR_INVALID);
    assert_string_equal(error.text, "--m y: 'a': it takes no parameters");
}

static void a_value_without_end_is_refused(void **state)
{
    (void)state;
    char params[1000] = "list=";
    memset(params + 5, 'x', sizeof(params) - 6);
    options o = {.rank = 7};
    muster_error error = {.text = ""};
    assert_int_equal(muster_spec_read("x", params, fields, &o, NULL, &error),
                     MUSTER_ERR_INVALID);
    assert_non_null(strstr(error.text, "longer than 511 bytes"));
}

static void the_nearest_name_is_suggested(void **state)
{
    (void)state;
    static const struct {
        const char *typed;
        const char *nearest;
    } rows[] = {{"sofmax", "softmax"},
                {"rotat", "rotate:30"},
                {"linear:tuend", "linear:tuned"},
                {"", ""},
                {"perceptron", ""}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        muster_suggestion meant =
            muster_suggestion_make(rows[i].typed, strlen(rows[i].typed));
        muster_suggestion_add_list(
            &meant, "softmax,rotate:30,linear:spc,linear:tuned,m", ',');
        assert_string_equal(meant.nearest, rows[i].nearest);
    }
    char huge[200];
    memset(huge, 'x', sizeof(huge));
    muster_suggestion meant = muster_suggestion_make(huge, sizeof(huge));
    muster_suggestion_add(&meant, "x");
    assert_string_equal(meant.nearest, "");
    assert_int_equal(strlen(meant.typed), MUSTER_SUGGEST_NAME_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_are_cut_at_commas_but_lists_are_not),
        cmocka_unit_test(a_name_ends_at_its_colon),
        cmocka_unit_test(values_land_in_their_fields),
        cmocka_unit_test(refusals_name_place_key_and_value),
        cmocka_unit_test(a_value_without_end_is_refused),
        cmocka_unit_test(the_nearest_name_is_suggested),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
