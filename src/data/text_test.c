/*
 * text_test.c -- libsvm and csv: what is read, and every kind of bad line, told
 * with its place.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "data/readers.h"

typedef muster_status (*reader)(muster_source *source, muster_error *error_out,
                                muster_table *table);

// csv without a wish for a certain label.
static muster_status read_csv(muster_source *source, muster_error *error_out,
                              muster_table *table)
{
    const muster_label_column none = {.name = NULL};
    return muster_csv_read(source, &none, error_out, table);
}

static muster_status read_bytes(reader read, const char *text, size_t size,
                                muster_error *error_out, muster_table *table)
{
    *table = (muster_table){0};
    muster_source *source = NULL;
    muster_status status =
        muster_source_open_memory("F", text, size, error_out, &source);
    if (status == MUSTER_OK) {
        status = read(source, error_out, table);
        muster_source_close(source);
    }
    return status;
}

static muster_table read_good(reader read, const char *text)
{
    muster_table table;
    muster_error error = {.text = ""};
    if (read_bytes(read, text, strlen(text), &error, &table) != MUSTER_OK) {
        fail_msg("refused: %s", error.text);
    }
    return table;
}

// The text must be refused, with an error that begins with `place` and holds
// `what`.
static void assert_refused(reader read, const char *text, const char *place,
                           const char *what)
{
    muster_table table;
    muster_error error = {.text = ""};
    assert_int_equal(read_bytes(read, text, strlen(text), &error, &table),
                     MUSTER_ERR_INPUT);
    if (strncmp(error.text, place, strlen(place)) != 0 ||
        strstr(error.text, what) == NULL || strchr(error.text, '\n') != NULL) {
        fail_msg("'%s' is not '%s ... %s'", error.text, place, what);
    }
    assert_null(table.labels);
}

static void libsvm_lines_become_csr_rows(void **state)
{
    (void)state;
    muster_table table = read_good(
        muster_libsvm_read,
        "+1 1:0.5 3:-2 # a comment\r\n\n# nothing\n-1\n  2.5\t2:1e1 7:7 \n"
        "0 1:1");
    static const uint64_t offsets[] = {0, 2, 2, 4, 5};
    static const uint32_t columns[] = {0, 2, 1, 6, 0};
    static const float values[] = {0.5f, -2, 10, 7, 1};
    static const float labels[] = {1, -1, 2.5f, 0};
    assert_int_equal(table.samples, 4);
    assert_int_equal(table.features, 7);
    assert_true(table.sparse);
    assert_null(table.dense);
    assert_memory_equal(table.offsets, offsets, sizeof(offsets));
    assert_memory_equal(table.columns, columns, sizeof(columns));
    assert_memory_equal(table.values, values, sizeof(values));
    assert_memory_equal(table.labels, labels, sizeof(labels));
    muster_table_fini(&table);
}

static void bad_libsvm_lines_are_named(void **state)
{
    (void)state;
    reader r = muster_libsvm_read;
    assert_refused(r, "1 1:1\nabc 1:1\n", "F:2: ", "'abc' is not a number");
    assert_refused(r, "1 1:1\n\n1 x:1\n", "F:3: ", "'x:1'");
    assert_refused(r, "1 1:1 qid:3\n", "F:1: ", "'qid:3'");
    assert_refused(r, "1 1:x\n", "F:1: ", "not a number");
    assert_refused(r, "1 1:1x\n", "F:1: ", "'1:1x'");
    assert_refused(r, "1 1:\n", "F:1: ", "not a number");
    assert_refused(r, "1 1\n", "F:1: ", "'1' is not column:value");
    assert_refused(r, "1 1 :1\n", "F:1: ", "column:value");
    assert_refused(r, "1 2:1 2:1\n", "F:1: ", "must ascend");
    assert_refused(r, "1 2:1 1:1\n", "F:1: ", "must ascend");
    assert_refused(r, "1 0:1\n", "F:1: ", "from 1");
    assert_refused(r, "1 -1:1\n", "F:1: ", "'-1:1'");
    assert_refused(r, "1 268435457:1\n", "F:1: ", "2^28");
    assert_refused(r, "1 99999999999999999999999:1\n", "F:1: ", "2^28");
    assert_refused(r, "1 1:nan\n", "F:1: ", "not finite");
    assert_refused(r, "1 1:-Inf\n", "F:1: ", "not finite");
    assert_refused(r, "1 1:1e40\n", "F:1: ", "not finite");
    assert_refused(r, "nan 1:1\n", "F:1: ", "not a finite label");
    assert_refused(r, "1:1 2:1\n", "F:1: ", "label missing");
    assert_refused(r, "1,2 1:1\n", "F:1: ", "'1,2' is not a number");
    assert_refused(r, "1 1:1\n\x1b[31m 1:1\n", "F:2: ", "'?[31m'");
    assert_refused(r, "", "F:", "without a sample");
    assert_refused(r, "1\n-1\n", "F:", "without a sample or a feature");
    muster_table table;
    assert_int_equal(read_bytes(r, "1 1:1\0002:1", 10, NULL, &table),
                     MUSTER_ERR_INPUT);
}

static void csv_lines_become_dense_rows(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "1,2,0\n3,4.5,1\n",
        "\xef\xbb\xbfz,b,c\n1,2,0\n3,4.5,1",
        "# numpy\n1;2;0\r\n\r\n3;4.5;1\r\n",
        "a\tb\tc\n1\t2\t0\n3\t4.5\t1\n",
        "  1   2 0\n3 4.5   1  \n",
        "a  b  c\n1 2 0\n3 4.5 1\n",
        " 1 , 2 , 0 \n 3,\t4.5,1\n",
        "\"Label\",\"b\",\"c\"\n0,1,2\n1,3,4.5\n",
        "b,y ,c\n1,0,2\n3,1,4.5\n",
        "b  class  c\n1 0 2\n3 1 4.5\n",
        "\"1\",\"2\",\"0\"\n \"3\" ,\" 4.5 \",1\n",
        "\"a, or b\",\"say \"\"c\"\"\",d\n1,2,0\n3,4.5,1\n",
        ",0,label\n1,2,0\n3,4.5,1\n",
    };
    static const float rows[] = {1, 2, 3, 4.5f};
    static const float labels[] = {0, 1};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        muster_table table = read_good(read_csv, texts[i]);
        assert_int_equal(table.samples, 2);
        assert_int_equal(table.features, 2);
        assert_false(table.sparse);
        assert_memory_equal(table.dense, rows, sizeof(rows));
        assert_memory_equal(table.labels, labels, sizeof(labels));
        muster_table_fini(&table);
    }
}

static void bad_csv_lines_are_named(void **state)
{
    (void)state;
    reader r = read_csv;
    assert_refused(r, "1,2\n1,2,3\n", "F:2: ", "3 fields, but the lines");
    assert_refused(r, "1,2,3\n1,2\n", "F:2: ", "2 fields, but the lines");
    assert_refused(r, "a,label\n1,2\n1,2,3\n",
                   "F:3: ", "3 fields, but the first line names 2");
    assert_refused(r, "a,b\n1,2\n1,x\n", "F:3: ", "field 2 'x'");
    assert_refused(r, "1,2\n1,2x\n", "F:2: ", "field 2 '2x'");
    assert_refused(r, "1,x\n1,2\n", "F:1: ", "field 2 'x'");
    assert_refused(r, "1,2\n1,\"2\n", "F:2: ", "field 2 '\"2'");
    assert_refused(r, "1,2\n1,\"2\"3\n", "F:2: ", "field 2 '\"2\"3'");
    assert_refused(r, "1,2\n1,\"\"\n", "F:2: ", "field 2 '\"\"' is not");
    assert_refused(r, "a,kind\n1,cat\n", "F:2: ", "words must be numbered");
    assert_refused(r, "1,2\n1,\n", "F:2: ", "field 2 '' is not a number");
    assert_refused(r, "1,2\n1,2,\n", "F:2: ", "field 3 ''");
    assert_refused(r, "1,2\n,2\n", "F:2: ", "field 1 ''");
    assert_refused(r, "1,2\n1 1,2\n", "F:2: ", "field 1 '1 1'");
    assert_refused(r, "1,2\nNaN,2\n", "F:2: ", "'NaN' is not finite");
    assert_refused(r, "1,2\n1e99,2\n", "F:2: ", "is not finite");
    assert_refused(r, "nan,2\n", "F:1: ", "is not finite");
    assert_refused(r, "1\n2\n", "F:1: ", "too few");
    assert_refused(r, "a,b,y\n1,2\n", "F:2: ", "names 3");
    assert_refused(r, "a,b\n", "F:", "without a sample");
    assert_refused(r, "", "F:", "without a sample");
}

// What was written at random comes back, number by number.
static void random_sparse_rows_come_back(void **state)
{
    (void)state;
    enum { ROWS = 300, COLUMNS = 50 };
    static float expected[ROWS][COLUMNS];
    static char text[ROWS * COLUMNS * 24];
    size_t length = 0;
    muster_rng rng = muster_rng_make(4, 4);
    for (int r = 0; r < ROWS; r++) {
        length +=
            (size_t)snprintf(text + length, sizeof(text) - length, "%d", r % 3);
        for (int c = 0; c < COLUMNS; c++) {
            expected[r][c] = 0.0f;
            if (muster_rng_below(&rng, 4) == 0 || (r == 0 && c == 49)) {
                expected[r][c] = (float)muster_rng_normal(&rng);
                length +=
                    (size_t)snprintf(text + length, sizeof(text) - length,
                                     " %d:%.9g", c + 1, (double)expected[r][c]);
            }
        }
        length += (size_t)snprintf(text + length, sizeof(text) - length, "\n");
    }
    muster_table table = read_good(muster_libsvm_read, text);
    assert_int_equal(table.samples, ROWS);
    assert_int_equal(table.features, COLUMNS);
    for (int r = 0; r < ROWS; r++) {
        float row[COLUMNS] = {0};
        for (uint64_t e = table.offsets[r]; e < table.offsets[r + 1]; e++) {
            row[table.columns[e]] = table.values[e];
        }
        assert_memory_equal(row, expected[r], sizeof(row));
        assert_true(table.labels[r] == (float)(r % 3));
    }
    muster_table_fini(&table);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    static const char *const texts[] = {"1 1:1 9:2\n0 3:1\n", "1,2,3\n4,5,6\n"};
    static const reader readers[] = {muster_libsvm_read, read_csv};
    for (int which = 0; which < 2; which++) {
        muster_status status = MUSTER_ERR_NO_MEMORY;
        uint64_t allowed = 0;
        for (; status != MUSTER_OK; allowed++) {
            assert_in_range(allowed, 0, 100);
            muster_table table;
            muster_error error = {.status = MUSTER_OK};
            muster_mem_fail_after(allowed);
            status = read_bytes(readers[which], texts[which],
                                strlen(texts[which]), &error, &table);
            muster_mem_fail_after(UINT64_MAX);
            assert_int_equal(error.status, status);
            assert_true(status == MUSTER_OK || status == MUSTER_ERR_NO_MEMORY);
            assert_true(status == MUSTER_OK || table.labels == NULL);
            muster_table_fini(&table);
        }
        assert_true(allowed > 4);
    }
}

// A text cut anywhere is either refused in one line or a shorter good file.
static void every_truncation_is_safe(void **state)
{
    (void)state;
    static const char libsvm[] = "-1 3:1.5 11:1e-3 14:1\n+1 5:1 7:-0.25\n";
    static const char csv[] = "a,b,label\n1.5,-2e3,0\n0.25,4,1\n";
    for (size_t cut = 0; cut < sizeof(libsvm); cut++) {
        muster_table table;
        (void)!read_bytes(muster_libsvm_read, libsvm, cut, NULL, &table);
        assert_true(table.samples <= 2);
        muster_table_fini(&table);
    }
    for (size_t cut = 0; cut < sizeof(csv); cut++) {
        muster_table table;
        (void)!read_bytes(read_csv, csv, cut, NULL, &table);
        assert_true(table.samples <= 2);
        muster_table_fini(&table);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(libsvm_lines_become_csr_rows),
        cmocka_unit_test(bad_libsvm_lines_are_named),
        cmocka_unit_test(csv_lines_become_dense_rows),
        cmocka_unit_test(bad_csv_lines_are_named),
        cmocka_unit_test(random_sparse_rows_come_back),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(every_truncation_is_safe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
