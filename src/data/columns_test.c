/*
 * columns_test.c -- which column is the label: chosen by name or number, known
 * from the training set, or guessed; a choice that cannot be is refused with
 * what would be right; a table without labels is taken for one only where the
 * number of columns says so.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "data/columns.h"
#include "data/readers.h"

static const char house[] = "size,price,Rooms,\"near, school\"\n"
                            "1,2,3,4\n5,6,7,8\n";

static muster_status read_text(const char *text,
                               const muster_label_column *wanted,
                               muster_error *error_out, muster_table *table)
{
    *table = (muster_table){0};
    muster_source *source = NULL;
    assert_int_equal(
        muster_source_open_memory("F", text, strlen(text), NULL, &source),
        MUSTER_OK);
    muster_status status = muster_csv_read(source, wanted, error_out, table);
    muster_source_close(source);
    return status;
}

// The column of the label, and that the others are the rows.
static void assert_label(const char *text, const char *option, uint32_t number,
                         const char *name)
{
    muster_table table;
    muster_error error = {.text = ""};
    const muster_label_column wanted = muster_label_column_parse(option);
    if (read_text(text, &wanted, &error, &table) != MUSTER_OK) {
        fail_msg("--label %s: %s", option, error.text);
    }
    assert_int_equal(table.label_column, number);
    if (name == NULL) {
        assert_null(table.label_name);
    } else {
        assert_string_equal(table.label_name, name);
    }
    assert_int_equal(table.features, 3);
    for (uint32_t row = 0; row < 2; row++) {
        const float *at = table.dense + (size_t)row * 3;
        assert_true(table.labels[row] == (float)(row * 4 + number));
        for (uint32_t c = 0, i = 1; c < 3; c++, i++) {
            i += i == number;
            assert_true(at[c] == (float)(row * 4 + i));
        }
    }
    muster_table_fini(&table);
}

static void assert_refused(const char *text, const char *option,
                           const char *what)
{
    muster_table table;
    muster_error error = {.text = ""};
    const muster_label_column wanted = muster_label_column_parse(option);
    assert_int_equal(read_text(text, &wanted, &error, &table),
                     MUSTER_ERR_INVALID);
    assert_string_equal(error.text, what);
}

static void a_label_is_chosen_by_name_or_number(void **state)
{
    (void)state;
    assert_label(house, NULL, 4, "near, school");
    assert_label(house, "size", 1, "size");
    assert_label(house, "price", 2, "price");
    assert_label(house, "rooms", 3, "Rooms");
    assert_label(house, "near, school", 4, "near, school");
    assert_label(house, "3", 3, "Rooms");
    assert_label("1,2,3,4\n5,6,7,8\n", NULL, 4, NULL);
    assert_label("1,2,3,4\n5,6,7,8\n", "1", 1, NULL);
    assert_label("a y b c\n1 2 3 4\n5 6 7 8\n", NULL, 2, "y");
    assert_label("a y b c\n1 2 3 4\n5 6 7 8\n", "a", 1, "a");
    // Of several such names the likeliest is the label.
    assert_label("x,y,z,label\n1,2,3,4\n5,6,7,8\n", NULL, 4, "label");
    assert_label("y,Class,target,x\n1,2,3,4\n5,6,7,8\n", NULL, 2, "Class");
    assert_label("x,X,b,c\n1,2,3,4\n5,6,7,8\n", "X", 2, "X");
    // Names that are numbers are names where the label is one of them.
    assert_label("0,1,2,kind\n1,2,3,4\n5,6,7,8\n", "kind", 4, "kind");
}

static void a_choice_that_cannot_be_says_what_can(void **state)
{
    (void)state;
    assert_refused(house, "pirce",
                   "--label pirce: F has no such column; did you mean "
                   "'price'? It has: size, price, Rooms, near, school");
    assert_refused(house, "zzzzzzzz",
                   "--label zzzzzzzz: F has no such column; it has: size, "
                   "price, Rooms, near, school");
    assert_refused(house, "5",
                   "--label 5: F has columns 1 to 4: size, price, Rooms, "
                   "near, school");
    assert_refused(house, "0",
                   "--label 0: F has columns 1 to 4: size, price, Rooms, "
                   "near, school");
    assert_refused("1,2\n", "99999999999",
                   "--label 4294967295: F has columns 1 to 2");
    assert_refused("1,2\n", "price",
                   "--label price: F has no line of names: give a number, 1 to "
                   "2");
    assert_refused("a,b,a\n1,2,3\n", "a",
                   "--label a: F has two such columns, 1 and 3: give the "
                   "number");
}

static void long_lists_of_columns_are_cut(void **state)
{
    (void)state;
    char text[8192] = "";
    muster_error error = {.text = ""};
    muster_table table;
    size_t used = 0;
    for (int i = 0; i < 1000; i++) {
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s",
                                 i % 500 > 0 ? ","
                                 : i > 0     ? "\n"
                                             : "",
                                 i < 500 ? "columnname" : "1");
    }
    const muster_label_column wanted = muster_label_column_parse("none");
    assert_int_equal(read_text(text, &wanted, &error, &table),
                     MUSTER_ERR_INVALID);
    assert_non_null(strstr(error.text, "columnname, .."));
    assert_true(strlen(error.text) < sizeof(error.text) - 1);
}

static void later_data_has_the_training_sets_label_or_none(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t label; // 0: none
    } cases[] = {
        {"price,a,b\n1,2,3\n", 1}, // found by its name, wherever it is
        {"a,b,price\n1,2,3\n", 3}, {"1,2,3\n", 2}, {"1,2\n", 0},
        {"a,b\n1,2\n", 0},
    };
    const muster_label_column trained = {
        .name = "price", .number = 2, .unlabelled = 2};
    muster_table table;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(read_text(cases[i].text, &trained, NULL, &table),
                         MUSTER_OK);
        assert_int_equal(table.label_column, cases[i].label);
        assert_int_equal(table.features, 2);
        assert_true((table.labels == NULL) == (cases[i].label == 0));
        muster_table_fini(&table);
    }
    muster_error error = {.text = ""};
    assert_int_equal(read_text("1\n", &trained, &error, &table),
                     MUSTER_ERR_INPUT);
    assert_string_equal(error.text,
                        "F: has columns 1 to 1, but the training set's label "
                        "is column 2");
    assert_int_equal(read_text("a,b,c\n1,2,3\n", &trained, &error, &table),
                     MUSTER_ERR_INPUT);
    assert_string_equal(error.text,
                        "F: no column is called 'price', as the training set's "
                        "label is (--label names another); it has: a, b, c");
}

static void labels_are_told_in_words(void **state)
{
    (void)state;
    char text[MUSTER_LABELS_TEXT_MAX];
    muster_labels map = {.classes = 2, .values = {-7, 1000}};
    const float signs[] = {-1, -1, 1, -1};
    muster_labels_describe(&map, signs, 4, text, sizeof(text));
    assert_string_equal(text, "2 classes, shares: -7 0.75, 1000 0.25");
    map.classes = 12;
    const float many[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 11, 11, 11, 11};
    muster_labels_describe(&map, many, 16, text, sizeof(text));
    assert_string_equal(text, "12 classes, shares from 0.0625 to 0.312");
    map.classes = 0;
    muster_labels_describe(&map, many, 16, text, sizeof(text));
    assert_string_equal(text, "real values from 0 to 11");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_label_is_chosen_by_name_or_number),
        cmocka_unit_test(a_choice_that_cannot_be_says_what_can),
        cmocka_unit_test(long_lists_of_columns_are_cut),
        cmocka_unit_test(later_data_has_the_training_sets_label_or_none),
        cmocka_unit_test(labels_are_told_in_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
