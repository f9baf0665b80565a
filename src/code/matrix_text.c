/*
 * matrix_text.c -- parses k' lines of n' numbers.
 */
#include "code/matrix_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/vec.h"

typedef struct reader {
    const char *name;
    uint32_t line;
    muster_error *error;
    muster_vec numbers; // double
    uint32_t rows;
    uint32_t columns; // of the first row
} reader;

static muster_status bad(const reader *r, const char *why)
{
    return muster_error_set(r->error, MUSTER_ERR_INPUT, "%.200s:%u: %s",
                            r->name, r->line, why);
}

/* One number at *at, moved past it. */
static muster_status take_number(reader *r, const char **at)
{
    char *end = NULL;
    double value = strtod(*at, &end);
    if (end == *at || strchr(" \t,\r\n#", *end) == NULL) {
        return bad(r, "not a number; a matrix is lines of numbers separated by "
                      "blanks or commas");
    }
    if (!isfinite(value)) {
        return bad(r, "a number is not finite");
    }
    *at = end;
    return muster_vec_append(&r->numbers, &value, 1) ? MUSTER_OK
                                                     : MUSTER_ERR_NO_MEMORY;
}

/* One line, up to its newline or the end; *at moves past it. */
static muster_status take_line(reader *r, const char **at)
{
    uint32_t count = 0;
    for (;;) {
        *at += strspn(*at, " \t,\r");
        if (**at == '#') {
            *at += strcspn(*at, "\n");
        }
        if (**at == '\n' || **at == '\0') {
            break;
        }
        if (count == MUSTER_MATRIX_COLUMNS_MAX) {
            return bad(r, "a row has more than 4096 numbers");
        }
        muster_status status = take_number(r, at);
        if (status != MUSTER_OK) {
            return status;
        }
        count++;
    }
    *at += **at == '\n';
    if (count == 0) {
        return MUSTER_OK;
    }
    if (r->rows == 0) {
        r->columns = count;
    }
    if (count != r->columns) {
        return bad(r, "this row has not as many numbers as the first");
    }
    if (r->rows == MUSTER_MATRIX_ROWS_MAX) {
        return bad(r, "more than 256 rows");
    }
    r->rows++;
    return MUSTER_OK;
}

muster_status muster_matrix_text_parse(const char *text, const char *name,
                                       muster_error *error,
                                       muster_generator *out)
{
    reader r = {.name = name,
                .error = error,
                .numbers = muster_vec_make(sizeof(double))};
    muster_status status = MUSTER_OK;
    while (status == MUSTER_OK && *text != '\0') {
        r.line++;
        status = take_line(&r, &text);
    }
    if (status == MUSTER_OK && r.rows == 0) {
        status = bad(&r, "no row of numbers");
    }
    double *entries = NULL;
    if (status == MUSTER_OK) {
        entries = muster_mem_array(r.numbers.count, sizeof(double));
        status = entries != NULL ? MUSTER_OK : MUSTER_ERR_NO_MEMORY;
    }
    if (status == MUSTER_OK) {
        memcpy(entries, r.numbers.data, r.numbers.count * sizeof(double));
        *out = (muster_generator){r.rows, r.columns, entries};
    }
    muster_vec_fini(&r.numbers);
    return status;
}
