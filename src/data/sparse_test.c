/*
 * sparse_test.c -- readers of ratings, triples and text: what they accept, what
 * they refuse with which line, and every failed allocation.
 */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/folder_test.h"
#include "base/mem.h"
#include "data/corpus.h"
#include "data/ratings.h"
#include "data/triples.h"

static muster_status ratings(const char *text, muster_error *error,
                             muster_ratings *out)
{
    muster_source *source = NULL;
    muster_status status =
        muster_source_open_memory("m", text, strlen(text), error, &source);
    if (status == MUSTER_OK) {
        status = muster_ratings_read(source, error, out);
        muster_source_close(source);
    }
    return status;
}

static void every_form_of_ratings_gives_the_same_cells(void **state)
{
    (void)state;
    static const char *const forms[] = {
        "%%MatrixMarket matrix coordinate real general\n% note\n3 2 2\n"
        "1 2 4.5\n3 1 -1\n",
        "0 1 4.5\n2 0 -1\n", "user,item,rating\n0,1,4.5,99\n2,0,-1,98\n",
        "0\t1\t4.5\r\n\r\n2\t0\t-1\r\n"};
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        muster_ratings r = {0};
        muster_error error = {.text = ""};
        assert_int_equal(ratings(forms[i], &error, &r), MUSTER_OK);
        assert_int_equal(r.rows, 3);
        assert_int_equal(r.cols, 2);
        assert_int_equal(r.count, 2);
        assert_int_equal(r.cells[0].row, 0);
        assert_int_equal(r.cells[0].col, 1);
        assert_true(r.cells[0].value == 4.5f && r.cells[1].value == -1);
        assert_int_equal(r.cells[1].row, 2);
        muster_ratings_fini(&r);
    }
}

static void symmetric_patterns_count_both_ways(void **state)
{
    (void)state;
    muster_ratings r = {0};
    muster_error error;
    assert_int_equal(
        ratings("%%MatrixMarket matrix coordinate pattern symmetric\n2 2 2\n"
                "1 1\n2 1\n",
                &error, &r),
        MUSTER_OK);
    assert_int_equal(r.count, 3);
    assert_true(r.cells[2].row == 0 && r.cells[2].col == 1);
    muster_ratings_fini(&r);
}

static void bad_ratings_are_refused_with_their_line(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *place;
    } bad[] = {
        {"", "m"},
        {"0 1 2\n0 x 3\n", "m:2"},
        {"0 1 2\n0 1 nan\n", "m:2"},
        {"0 1\n", "m:1"},
        {"0 99999999999 1\n", "m:1"},
        {"%%MatrixMarket matrix array real general\n2 2\n1\n", "m:1"},
        {"%%MatrixMarket matrix coordinate real general\n2 2 1\n3 1 1\n",
         "m:3"},
        {"%%MatrixMarket matrix coordinate real general\n2 2 1\n0 1 1\n",
         "m:3"},
        {"%%MatrixMarket matrix coordinate real general\n2 2 5\n1 1 1\n", "m"},
        {"%%MatrixMarket matrix coordinate real symmetric\n2 2 5\n2 1 1\n",
         "m"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        muster_ratings r = {0};
        muster_error error = {.text = ""};
        assert_int_equal(ratings(bad[i].text, &error, &r), MUSTER_ERR_INPUT);
        assert_non_null(strstr(error.text, bad[i].place));
        assert_null(r.cells);
    }
}

static void the_zipf_matrix_is_skewed_and_repeatable(void **state)
{
    (void)state;
    const char *spec = "zipf:rows=500,cols=100,cells=20000,rank=4,seed=3";
    muster_ratings one = {0};
    muster_ratings two = {0};
    muster_error error;
    assert_int_equal(muster_ratings_load(spec, 1, &error, &one), MUSTER_OK);
    assert_int_equal(one.count, 20000);
    for (uint32_t threads = 0; threads < 6; threads++) {
        assert_int_equal(muster_ratings_load(spec, threads, &error, &two),
                         MUSTER_OK);
        assert_int_equal(two.count, one.count);
        assert_memory_equal(one.cells, two.cells,
                            one.count * sizeof(*one.cells));
        muster_ratings_fini(&two);
    }
    uint64_t first = 0;
    uint64_t tenth = 0;
    for (uint64_t i = 0; i < one.count; i++) {
        first += one.cells[i].col == 0;
        tenth += one.cells[i].col == 9;
    }
    // (10)^1.1 = 12.6 times as often.
    assert_true(first > 9 * tenth && first < 18 * tenth);
    muster_ratings_fini(&one);
    assert_int_equal(muster_ratings_load("zipf:rows=0", 1, &error, &one),
                     MUSTER_ERR_INVALID);
    assert_int_equal(muster_ratings_load("zipf:what=1", 1, &error, &one),
                     MUSTER_ERR_INVALID);
}

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void remove_file(const char *folder, const char *name)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    (void)unlink(path);
}

static void both_forms_of_triples_are_read(void **state)
{
    (void)state;
    char folder[] = "/tmp/muster-triples-XXXXXX";
    assert_non_null(mkdtemp(folder));
    muster_triples t;
    muster_error error = {.text = ""};
    assert_int_equal(muster_triples_load(folder, &error, &t), MUSTER_ERR_INPUT);
    write_file(folder, "train.txt", "a\tlikes\tb\nb\tlikes\tc d\n");
    write_file(folder, "test.txt", "c d\thates\ta\n");
    assert_int_equal(muster_triples_load(folder, &error, &t), MUSTER_OK);
    assert_int_equal(t.entities, 3);
    assert_int_equal(t.relations, 2);
    assert_int_equal(t.count[MUSTER_TRIPLES_TRAIN], 2);
    assert_int_equal(t.count[MUSTER_TRIPLES_VALID], 0);
    assert_int_equal(t.set[MUSTER_TRIPLES_TEST][0].head, 2);
    assert_string_equal(muster_names_at(&t.names, 2), "c d");
    muster_triples_fini(&t);
    // OpenKE's form wins where it is there: head, tail, relation.
    write_file(folder, "train2id.txt", "2\n0 1 0\n1 4 2\n");
    assert_int_equal(muster_triples_load(folder, &error, &t), MUSTER_OK);
    assert_int_equal(t.entities, 5);
    assert_int_equal(t.relations, 3);
    assert_int_equal(t.set[MUSTER_TRIPLES_TRAIN][1].tail, 4);
    muster_triples_fini(&t);
    write_file(folder, "train2id.txt", "3\n0 1 0\n1 4 2\n");
    assert_int_equal(muster_triples_load(folder, &error, &t), MUSTER_ERR_INPUT);
    write_file(folder, "train2id.txt", "1\n0 x 0\n");
    assert_int_equal(muster_triples_load(folder, &error, &t), MUSTER_ERR_INPUT);
    assert_non_null(strstr(error.text, ":2"));
    remove_file(folder, "train2id.txt");
    remove_file(folder, "train.txt");
    remove_file(folder, "test.txt");
    assert_int_equal(rmdir(folder), 0);
}

static void openke_numbers_must_have_names(void **state)
{
    (void)state;
    static const struct {
        const char *entities;
        const char *relations;
        const char *triples;
        const char *says; // NULL: fine
    } cases[] = {
        {"2\na 0\nb 1\n", "1\nr 0\n", "1\n0 1 0\n", NULL},
        {"2\na 0\nb 1\n", "1\nr 0\n", "2\n0 1 0\n0 2 0\n",
         "train2id.txt:3: entity 2, but entity2id.txt has 2"},
        {"2\na 0\nb 1\n", "1\nr 0\n", "1\n0 1 1\n",
         "train2id.txt:2: relation 1, but relation2id.txt has 1"},
        {"3\na 0\nb 1\n", "1\nr 0\n", "1\n0 1 0\n",
         "entity2id.txt:3: 2 names, but the first line says 3"},
        {"2\na 0\na 1\n", "1\nr 0\n", "1\n0 1 0\n",
         "entity2id.txt:3: a name that was there before"},
        {"2\na 0\nb 2\n", "1\nr 0\n", "1\n0 1 0\n",
         "entity2id.txt:3: expected `name 1`"},
    };
    char folder[] = "/tmp/muster-triples-XXXXXX";
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        muster_triples t;
        muster_error error = {.text = ""};
        write_file(folder, "entity2id.txt", cases[i].entities);
        write_file(folder, "relation2id.txt", cases[i].relations);
        write_file(folder, "train2id.txt", cases[i].triples);
        muster_status status = muster_triples_load(folder, &error, &t);
        if (cases[i].says == NULL) {
            assert_int_equal(status, MUSTER_OK);
            assert_int_equal(t.entities, 2);
            muster_triples_fini(&t);
        } else {
            assert_int_equal(status, MUSTER_ERR_INPUT);
            assert_non_null(strstr(error.text, cases[i].says));
        }
    }
    remove_file(folder, "entity2id.txt");
    remove_file(folder, "relation2id.txt");
    remove_file(folder, "train2id.txt");
    assert_int_equal(rmdir(folder), 0);
}

static muster_status corpus(const char *text, uint64_t min_count,
                            muster_error *error, muster_corpus *out)
{
    muster_source *source = NULL;
    muster_status status =
        muster_source_open_memory("t", text, strlen(text), error, &source);
    if (status == MUSTER_OK) {
        status = muster_corpus_read(source, min_count, error, out);
        muster_source_close(source);
    }
    return status;
}

static void words_are_numbered_by_falling_frequency(void **state)
{
    (void)state;
    muster_corpus c;
    muster_error error;
    assert_int_equal(corpus("x b a\n\n  rare \na b  b\tc a\nc", 2, &error, &c),
                     MUSTER_OK);
    assert_int_equal(muster_names_count(&c.words), 3);
    assert_string_equal(muster_names_at(&c.words, 0), "b");
    assert_string_equal(muster_names_at(&c.words, 1), "a");
    assert_string_equal(muster_names_at(&c.words, 2), "c");
    assert_int_equal(c.counts[0], 3);
    const uint32_t end = MUSTER_CORPUS_END;
    const uint32_t expected[] = {0, 1, end, 1, 0, 0, 2, 1, end, 2, end};
    assert_int_equal(c.token_count, sizeof(expected) / sizeof(expected[0]));
    assert_memory_equal(c.tokens, expected, sizeof(expected));
    assert_int_equal(c.word_count, 8);
    muster_corpus_fini(&c);
    assert_int_equal(corpus("a b c", 2, &error, &c), MUSTER_ERR_INPUT);
}

static void many_names_keep_their_numbers(void **state)
{
    (void)state;
    muster_names names;
    muster_names_init(&names);
    char text[32];
    for (uint32_t i = 0; i < 5000; i++) {
        int length = snprintf(text, sizeof(text), "n%u", i);
        assert_int_equal(muster_names_add(&names, text, (size_t)length), i);
        assert_int_equal(muster_names_add(&names, text, (size_t)length), i);
    }
    assert_int_equal(muster_names_find(&names, "n4321", 5), 4321);
    assert_int_equal(muster_names_find(&names, "n4321", 4), 432);
    assert_int_equal(muster_names_find(&names, "none", 4), MUSTER_NAMES_NONE);
    assert_null(muster_names_at(&names, 5000));
    muster_names_fini(&names);
}

static void word_tests_of_any_name_are_read(void **state)
{
    const char *folder = *state;
    muster_error error = {.text = ""};
    muster_wordtest test;
    assert_int_equal(muster_wordtest_load(folder, &error, &test),
                     MUSTER_ERR_INPUT);
    assert_non_null(strstr(error.text, "no .txt, .tsv or .csv file"));
    write_file(folder, "mine.tsv", "Sun\tmoon\t7.5\n");
    write_file(folder, "a.csv", "cat,dog,5\ncat,car,1\n");
    write_file(folder, "asked.txt", ": capital\nrome italy paris france\n");
    write_file(folder, "README.md", "not a test");
    assert_int_equal(muster_wordtest_load(folder, &error, &test), MUSTER_OK);
    assert_int_equal(test.pairs.count, 3);
    assert_int_equal(test.analogies.count, 1);
    assert_int_equal(test.file_count, 2);
    assert_string_equal(test.files[0].name, "a");
    assert_int_equal(test.files[0].end, 2);
    assert_string_equal(test.files[1].name, "mine");
    assert_int_equal(test.files[1].end - test.files[1].first, 1);
    muster_wordtest_fini(&test);
    write_file(folder, "notes.txt", "this is what I did\n");
    assert_int_equal(muster_wordtest_load(folder, &error, &test),
                     MUSTER_ERR_INPUT);
    assert_non_null(strstr(error.text, "notes.txt:1: expected `word word"));
}

static void more_files_of_pairs_than_can_be_told_of_are_refused(void **state)
{
    const char *folder = *state;
    muster_error error = {.text = ""};
    muster_wordtest test;
    for (uint32_t i = 0; i <= MUSTER_WORDFILES_MAX; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "pairs%u.txt", i);
        write_file(folder, name, "a b 1\n");
    }
    assert_int_equal(muster_wordtest_load(folder, &error, &test),
                     MUSTER_ERR_INPUT);
    assert_non_null(strstr(error.text, "more than 8 files"));
}

static muster_status read_everything(void)
{
    muster_error error;
    muster_ratings r = {0};
    muster_corpus c = {0};
    muster_status status = ratings("0 1 2\n1 1 2\n", &error, &r);
    if (status == MUSTER_OK) {
        muster_ratings_fini(&r);
        status = corpus("a b a", 1, &error, &c);
    }
    if (status == MUSTER_OK) {
        muster_corpus_fini(&c);
    }
    return status;
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    muster_status status = MUSTER_ERR_NO_MEMORY;
    uint64_t failures = 0;
    for (uint64_t n = 0; status == MUSTER_ERR_NO_MEMORY && n < 200; n++) {
        muster_mem_fail_after(n);
        status = read_everything();
        muster_mem_fail_after(UINT64_MAX);
        failures += status == MUSTER_ERR_NO_MEMORY;
    }
    assert_int_equal(status, MUSTER_OK);
    assert_true(failures > 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_of_ratings_gives_the_same_cells),
        cmocka_unit_test(symmetric_patterns_count_both_ways),
        cmocka_unit_test(bad_ratings_are_refused_with_their_line),
        cmocka_unit_test(the_zipf_matrix_is_skewed_and_repeatable),
        cmocka_unit_test(both_forms_of_triples_are_read),
        cmocka_unit_test(openke_numbers_must_have_names),
        cmocka_unit_test(words_are_numbered_by_falling_frequency),
        cmocka_unit_test(many_names_keep_their_numbers),
        cmocka_unit_test_setup_teardown(word_tests_of_any_name_are_read,
                                        folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(
            more_files_of_pairs_than_can_be_told_of_are_refused, folder_setup,
            folder_teardown),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
