/*
 * ratings.c -- readers of sparse matrices in coordinates.
 *
 * One parser serves all the text forms: after an optional MatrixMarket head it
 * takes lines of two indices and a value.
 */
#include "data/ratings.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/vec.h"
#include "data/number.h"

typedef struct parse {
    muster_source *source;
    muster_error *error;
    muster_vec cells;
    uint32_t base;     // index of the first row: 1 in MatrixMarket
    bool market;       // sizes are known
    bool pattern;      // no values: all 1
    bool symmetric;    // cells off the diagonal count twice
    uint64_t promised; // entries, as the head says
    uint64_t entries;  // met so far
    muster_ratings *into;
} parse;

static bool is_separator(char c)
{
    return c == ' ' || c == '\t' || c == ',' || c == ';';
}

static const char *skip(const char *p)
{
    while (is_separator(*p)) {
        p++;
    }
    return p;
}

/* A whole number below the index limit; false when there is none. */
static bool take_index(const char **text, uint64_t *index_out)
{
    const char *p = skip(*text);
    const char *start = p;
    uint64_t value = 0;
    for (; *p >= '0' && *p <= '9'; p++) {
        value = value * 10 + (uint64_t)(*p - '0');
        if (value > UINT32_MAX) {
            return false;
        }
    }
    if (p == start || (*p != '\0' && !is_separator(*p))) {
        return false;
    }
    *text = p;
    *index_out = value;
    return true;
}

static muster_status fail(parse *p, const char *what)
{
    return muster_source_fail_line(p->source, p->error, "%s", what);
}

static muster_status fail_memory(parse *p)
{
    return muster_error_set(p->error, MUSTER_ERR_NO_MEMORY, "%s: out of memory",
                            muster_source_name(p->source));
}

static muster_status add_cell(parse *p, uint32_t row, uint32_t col, float value)
{
    muster_cell cell = {.row = row, .col = col, .value = value};
    muster_ratings *into = p->into;
    if (!p->market) {
        into->rows = row >= into->rows ? row + 1 : into->rows;
        into->cols = col >= into->cols ? col + 1 : into->cols;
    } else if (row >= into->rows || col >= into->cols) {
        return fail(p, "an index is larger than the head says");
    }
    return muster_vec_append(&p->cells, &cell, 1) ? MUSTER_OK : fail_memory(p);
}

static muster_status parse_cell(parse *p, const char *line)
{
    uint64_t row;
    uint64_t col;
    float value = 1;
    if (!take_index(&line, &row) || !take_index(&line, &col) || row < p->base ||
        col < p->base || row - p->base > MUSTER_RATINGS_INDEX_MAX ||
        col - p->base > MUSTER_RATINGS_INDEX_MAX) {
        return fail(p, p->market ? "expected `row col value`, counted from 1"
                                 : "expected `row col value`, counted from 0");
    }
    line = skip(line);
    if (!p->pattern) {
        const char *end;
        if (muster_number_parse(line, &value, &end) != MUSTER_NUMBER_FINITE ||
            (*end != '\0' && !is_separator(*end))) {
            return fail(p, "the value is missing or not a finite number");
        }
    }
    uint32_t r = (uint32_t)row - p->base;
    uint32_t c = (uint32_t)col - p->base;
    muster_status status = add_cell(p, r, c, value);
    p->entries++;
    if (status == MUSTER_OK && p->symmetric && r != c) {
        status = add_cell(p, c, r, value);
    }
    return status;
}

static muster_status parse_market_head(parse *p, const char *line)
{
    if (strstr(line, "coordinate") == NULL || strstr(line, "complex") != NULL ||
        strstr(line, "skew") != NULL || strstr(line, "hermitian") != NULL) {
        return fail(p, "only MatrixMarket coordinate matrices, real, integer "
                       "or pattern, general or symmetric, are read");
    }
    p->market = true;
    p->base = 1;
    p->pattern = strstr(line, "pattern") != NULL;
    p->symmetric = strstr(line, "symmetric") != NULL;
    do {
        muster_status status = muster_source_line(p->source, p->error, &line);
        if (status != MUSTER_OK) {
            return status;
        }
    } while (line != NULL && (*line == '%' || *skip(line) == '\0'));
    uint64_t rows;
    uint64_t cols;
    if (line == NULL || !take_index(&line, &rows) ||
        !take_index(&line, &cols) || !take_index(&line, &p->promised) ||
        rows < 1 || cols < 1 || rows > MUSTER_RATINGS_INDEX_MAX ||
        cols > MUSTER_RATINGS_INDEX_MAX || p->promised < 1) {
        return fail(p, "expected `rows cols cells` after the head");
    }
    p->into->rows = (uint32_t)rows;
    p->into->cols = (uint32_t)cols;
    return MUSTER_OK;
}

static muster_status parse_line(parse *p, const char *line, uint64_t number)
{
    const char *start = skip(line);
    if (number == 1 && strncmp(line, "%%MatrixMarket", 14) == 0) {
        return parse_market_head(p, line);
    }
    if (*start == '\0' || *start == '#' || *start == '%') {
        return MUSTER_OK;
    }
    // A first line of names is a header.
    if (number == 1 && !(*start >= '0' && *start <= '9') && *start != '-') {
        return MUSTER_OK;
    }
    return parse_cell(p, line);
}

static muster_status parse_all(parse *p)
{
    uint64_t number = 0;
    const char *line;
    for (;;) {
        muster_status status = muster_source_line(p->source, p->error, &line);
        if (status != MUSTER_OK) {
            return status;
        }
        if (line == NULL) {
            break;
        }
        status = parse_line(p, line, ++number);
        if (status != MUSTER_OK) {
            return status;
        }
    }
    if (p->cells.count == 0) {
        return fail(p, "there is no cell in the file");
    }
    if (p->market && p->entries != p->promised) {
        return fail(p, "the file ends before, or goes beyond, the number of "
                       "cells in its head");
    }
    return MUSTER_OK;
}

muster_status muster_ratings_read(muster_source *source,
                                  muster_error *error_out,
                                  muster_ratings *ratings_out)
{
    muster_ratings read = {0};
    parse p = {.source = source,
               .error = error_out,
               .cells = muster_vec_make(sizeof(muster_cell)),
               .into = &read};
    muster_status status = parse_all(&p);
    if (status != MUSTER_OK) {
        muster_vec_fini(&p.cells);
        return status;
    }
    read.cells = p.cells.data;
    read.count = p.cells.count;
    *ratings_out = read;
    return MUSTER_OK;
}

void muster_ratings_fini(muster_ratings *ratings)
{
    muster_mem_free(ratings->cells);
    *ratings = (muster_ratings){0};
}
