/*
 * libsvm.c -- sparse text: one sample a line, `label column:value ...`, columns
 * from 1 and ascending, '#' begins a comment. Rows stay sparse (CSR).
 */
#include "data/bulk.h"
#include "data/number.h"
#include "data/readers.h"

#define QUOTE_MAX 24 // characters of the file shown in an error

typedef struct libsvm_parse {
    muster_source *source;
    muster_error *error;
    muster_vec offsets;  // uint64_t
    muster_bulk columns; // uint32_t
    muster_bulk values;  // float
    muster_vec labels;   // float
    uint32_t features;
} libsvm_parse;

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool is_end(char c)
{
    return c == '\0' || c == '#';
}

static const char *skip_blanks(const char *p)
{
    while (is_blank(*p)) {
        p++;
    }
    return p;
}

// How much of a token to quote.
static int quote_length(const char *p)
{
    int length = 0;
    while (length < QUOTE_MAX && !is_blank(p[length]) && !is_end(p[length])) {
        length++;
    }
    return length;
}

static muster_status fail_token(libsvm_parse *parse, const char *token,
                                const char *what)
{
    return muster_source_fail_line(parse->source, parse->error, "'%.*s' %s",
                                   quote_length(token), token, what);
}

static muster_status fail_memory(libsvm_parse *parse)
{
    return muster_table_fail_memory(muster_source_name(parse->source),
                                    parse->error);
}

static muster_status parse_label(libsvm_parse *parse, const char **line)
{
    const char *token = *line;
    const char *end;
    float label;
    muster_number_kind kind = muster_number_parse(token, &label, &end);
    if (kind == MUSTER_NUMBER_NOT_FINITE) {
        return fail_token(parse, token, "is not a finite label");
    }
    if (kind == MUSTER_NUMBER_FINITE && *end == ':') {
        return fail_token(parse, token,
                          "stands where the label belongs: label missing");
    }
    if (kind == MUSTER_NUMBER_NONE || (!is_blank(*end) && !is_end(*end))) {
        return fail_token(parse, token, "is not a number; expected a label");
    }
    *line = end;
    return muster_vec_append(&parse->labels, &label, 1) ? MUSTER_OK
                                                        : fail_memory(parse);
}

// The column before a ':', from 1; 0 when there is none in range.
static uint32_t parse_column(const char **text)
{
    uint64_t column = 0;
    const char *p = *text;
    for (; *p >= '0' && *p <= '9'; p++) {
        column = column * 10 + (uint64_t)(*p - '0');
        if (column > MUSTER_TABLE_FEATURES_MAX) {
            return 0;
        }
    }
    *text = p;
    return (uint32_t)column;
}

static muster_status parse_entry(libsvm_parse *parse, const char **line,
                                 uint32_t *last)
{
    const char *token = *line;
    const char *p = token;
    uint32_t column = parse_column(&p);
    if (column == 0 || *p != ':') {
        return fail_token(parse, token,
                          "is not column:value with a column from 1 to 2^28");
    }
    if (column <= *last) {
        return muster_source_fail_line(
            parse->source, parse->error,
            "column %u comes after column %u; columns must ascend", column,
            *last);
    }
    float value;
    const char *end;
    muster_number_kind kind = muster_number_parse(p + 1, &value, &end);
    if (kind == MUSTER_NUMBER_NOT_FINITE) {
        return fail_token(parse, token, "has a value that is not finite");
    }
    if (kind == MUSTER_NUMBER_NONE || (!is_blank(*end) && !is_end(*end))) {
        return fail_token(parse, token, "has a value that is not a number");
    }
    uint32_t index = column - 1;
    if (!muster_bulk_append(&parse->columns, &index, 1) ||
        !muster_bulk_append(&parse->values, &value, 1)) {
        return fail_memory(parse);
    }
    *last = column;
    *line = end;
    return MUSTER_OK;
}

static muster_status parse_line(libsvm_parse *parse, const char *line)
{
    const char *p = skip_blanks(line);
    if (is_end(*p)) {
        return MUSTER_OK;
    }
    muster_status status = parse_label(parse, &p);
    uint32_t last = 0;
    for (p = skip_blanks(p); status == MUSTER_OK && !is_end(*p);
         p = skip_blanks(p)) {
        status = parse_entry(parse, &p, &last);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    parse->features = last > parse->features ? last : parse->features;
    uint64_t offset = muster_bulk_count(&parse->columns);
    if (!muster_vec_append(&parse->offsets, &offset, 1)) {
        return fail_memory(parse);
    }
    if (parse->labels.count > MUSTER_TABLE_SAMPLES_MAX) {
        return muster_source_fail_line(parse->source, parse->error,
                                       "more than 2^32-1 samples");
    }
    return MUSTER_OK;
}

static muster_status parse_lines(libsvm_parse *parse)
{
    uint64_t zero = 0;
    if (!muster_vec_append(&parse->offsets, &zero, 1)) {
        return fail_memory(parse);
    }
    for (;;) {
        const char *line;
        muster_status status =
            muster_source_line(parse->source, parse->error, &line);
        if (status == MUSTER_OK && line != NULL) {
            status = parse_line(parse, line);
        }
        if (status != MUSTER_OK || line == NULL) {
            return status;
        }
    }
}

muster_status muster_libsvm_read(muster_source *source, muster_error *error_out,
                                 muster_table *table)
{
    const size_t limit = muster_bulk_limit() / 2; // for each of two arrays
    libsvm_parse parse = {
        .source = source,
        .error = error_out,
        .offsets = muster_vec_make(sizeof(uint64_t)),
        .columns = muster_bulk_make(sizeof(uint32_t), limit),
        .values = muster_bulk_make(sizeof(float), limit),
        .labels = muster_vec_make(sizeof(float)),
    };
    muster_status status = parse_lines(&parse);
    if (status == MUSTER_OK && parse.features == 0) {
        status = muster_source_fail_line(
            source, error_out, "the file ends without a sample or a feature");
    }
    if (status == MUSTER_OK) {
        table->samples = parse.labels.count;
        table->features = parse.features;
        table->sparse = true;
        table->offsets = muster_table_take(&parse.offsets);
        table->columns =
            muster_bulk_take(&parse.columns, &table->columns_mapped);
        table->values = muster_bulk_take(&parse.values, &table->values_mapped);
        table->labels = muster_table_take(&parse.labels);
    }
    muster_vec_fini(&parse.offsets);
    muster_bulk_fini(&parse.columns);
    muster_bulk_fini(&parse.values);
    muster_vec_fini(&parse.labels);
    return status;
}
