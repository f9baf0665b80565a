/*
 * csv.c -- a table of numbers in text: one sample a line, one separator.
 *
 * The first line (blank ones and those that begin with '#' are passed over)
 * fixes the separator. It holds names when none of its fields is a number, or
 * when one of them is the name of the label. Every other line must have as many
 * fields as the first, names or not. Numbers may stand in double quotes. Which
 * column is the label is settled with the first sample: data/columns.h.
 */
#include <string.h>

#include "base/mem.h"
#include "data/columns.h"
#include "data/number.h"
#include "data/readers.h"

#define QUOTE_MAX 24 // characters of the file shown in an error

typedef struct csv_parse {
    muster_source *source;
    muster_error *error;
    const muster_label_column *wanted;
    muster_vec values; // float: the rows so far, without their labels
    muster_vec labels; // float
    char separator;
    bool started; // the first line has been seen
    char *names;  // the line of names; NULL: there is none
    size_t name_count;
    size_t fields;
    size_t samples;
    muster_label_choice label; // known with the first sample
} csv_parse;

static bool is_blank(const csv_parse *parse, char c)
{
    return c == ' ' || (c == '\t' && parse->separator != '\t');
}

static const char *skip_blanks(const csv_parse *parse, const char *p)
{
    while (is_blank(parse, *p)) {
        p++;
    }
    return p;
}

static char guess_separator(const char *line)
{
    static const char separators[] = {',', ';', '\t'};
    for (size_t i = 0; i < sizeof(separators); i++) {
        if (strchr(line, separators[i]) != NULL) {
            return separators[i];
        }
    }
    return ' ';
}

static size_t field_length(const csv_parse *parse, const char *field)
{
    size_t length = 0;
    while (field[length] != '\0' && field[length] != parse->separator) {
        length++;
    }
    return length;
}

static bool is_number(const muster_column_walk *walk)
{
    float value;
    const char *end = walk->name;
    muster_number_kind kind = muster_number_parse(walk->name, &value, &end);
    return kind != MUSTER_NUMBER_NONE && walk->length > 0 &&
           end == walk->name + walk->length;
}

// Whether the first line is one of names; if so, how many.
static bool has_names(const csv_parse *parse, const char *line,
                      size_t *count_out)
{
    muster_column_walk walk = {.at = line, .separator = parse->separator};
    bool has_number = false;
    bool has_label = false;
    while (muster_column_next(&walk)) {
        has_number = has_number || is_number(&walk);
        has_label =
            has_label || muster_column_names_label(&walk, parse->wanted);
    }
    *count_out = walk.number;
    return !has_number || has_label;
}

static muster_status fail_memory(csv_parse *parse)
{
    return muster_table_fail_memory(muster_source_name(parse->source),
                                    parse->error);
}

// What is wrong with a field that is no number.
static const char *complaint(char first)
{
    bool is_word = (first >= 'a' && first <= 'z') ||
                   (first >= 'A' && first <= 'Z') || (first & 0x80) != 0;
    return first == '\0' ? "is not a number: a value is missing"
           : is_word     ? "is not a number: words must be numbered (0, 1, 2), "
                           "missing values filled in"
                         : "is not a number";
}

static muster_status fail_field(csv_parse *parse, size_t field,
                                const char *text, bool is_infinite)
{
    size_t length = field_length(parse, text);
    int quoted = (int)(length < QUOTE_MAX ? length : QUOTE_MAX);
    const char *inside = text + (text[0] == '"');
    return muster_source_fail_line(
        parse->source, parse->error, "field %zu '%.*s' %s", field, quoted, text,
        is_infinite ? "is not finite"
                    : complaint(length > 0 ? inside[0] : '\0'));
}

// A number, in double quotes or not; *end_out is behind it and its blanks.
static muster_number_kind parse_number(const csv_parse *parse, const char *p,
                                       float *value_out, const char **end_out)
{
    bool quoted = *p == '"';
    const char *end = NULL;
    muster_number_kind kind = muster_number_parse(
        quoted ? skip_blanks(parse, p + 1) : p, value_out, &end);
    if (quoted) {
        end = skip_blanks(parse, end);
        kind = *end == '"' ? kind : MUSTER_NUMBER_NONE;
        end += *end == '"';
    }
    *end_out = end;
    return kind;
}

static muster_status parse_fields(csv_parse *parse, const char *line,
                                  size_t *fields_out)
{
    const char *p = line;
    for (size_t field = 1;; field++) {
        p = skip_blanks(parse, p);
        const char *end;
        float value = 0.0f;
        muster_number_kind kind = parse_number(parse, p, &value, &end);
        if (kind == MUSTER_NUMBER_NOT_FINITE) {
            return fail_field(parse, field, p, true);
        }
        const char *after = skip_blanks(parse, end);
        bool spaced = parse->separator == ' ' && after > end;
        if (kind == MUSTER_NUMBER_NONE ||
            (*after != '\0' && *after != parse->separator && !spaced)) {
            return fail_field(parse, field, p, false);
        }
        if (!muster_vec_append(&parse->values, &value, 1)) {
            return fail_memory(parse);
        }
        if (*after == '\0') {
            *fields_out = field;
            return MUSTER_OK;
        }
        p = spaced ? after : after + 1;
    }
}

// With the first sample the number of columns is known, and so is the label's.
static muster_status check_fields(csv_parse *parse, size_t fields)
{
    const char *plural = fields == 1 ? "" : "s";
    if (parse->names != NULL && fields != parse->name_count) {
        return muster_source_fail_line(
            parse->source, parse->error,
            "%zu field%s, but the first line names %zu", fields, plural,
            parse->name_count);
    }
    if (parse->samples > 0 && fields != parse->fields) {
        return muster_source_fail_line(
            parse->source, parse->error,
            "%zu field%s, but the lines before have %zu", fields, plural,
            parse->fields);
    }
    muster_status status = MUSTER_OK;
    if (parse->samples == 0) {
        const muster_columns columns = {parse->names, parse->separator, fields};
        parse->fields = fields;
        status = muster_label_choose(&columns, parse->wanted,
                                     muster_source_name(parse->source),
                                     parse->error, &parse->label);
    }
    if (status == MUSTER_OK && fields < 2 && parse->label.number > 0) {
        return muster_source_fail_line(
            parse->source, parse->error,
            "%zu field%s: too few for features and a label", fields, plural);
    }
    return status;
}

static muster_status parse_row(csv_parse *parse, const char *line)
{
    size_t start = parse->values.count;
    size_t fields = 0;
    muster_status status = parse_fields(parse, line, &fields);
    if (status == MUSTER_OK) {
        status = check_fields(parse, fields);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    if (parse->label.number > 0) {
        float *row = (float *)parse->values.data + start;
        size_t label = (size_t)parse->label.number - 1;
        float value = row[label];
        memmove(row + label, row + label + 1,
                (fields - 1 - label) * sizeof(float));
        parse->values.count--;
        if (!muster_vec_append(&parse->labels, &value, 1)) {
            return fail_memory(parse);
        }
    }
    parse->samples++;
    if (parse->samples > MUSTER_TABLE_SAMPLES_MAX ||
        fields - 1 > MUSTER_TABLE_FEATURES_MAX) {
        return muster_source_fail_line(parse->source, parse->error,
                                       "too many samples or features");
    }
    return MUSTER_OK;
}

static muster_status parse_line(csv_parse *parse, const char *line)
{
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    const char *p = line;
    if (!parse->started && strncmp(p, byte_order_mark, 3) == 0) {
        p += 3;
    }
    p = p + strspn(p, " ");
    if (*p == '\0' || *p == '#') {
        return MUSTER_OK;
    }
    if (!parse->started) {
        parse->started = true;
        parse->separator = guess_separator(p);
        if (has_names(parse, p, &parse->name_count)) {
            parse->names = muster_mem_string(p);
            return parse->names != NULL ? MUSTER_OK : fail_memory(parse);
        }
    }
    return parse_row(parse, p);
}

static muster_status parse_file(csv_parse *parse)
{
    muster_status status;
    const char *line = NULL;
    do {
        status = muster_source_line(parse->source, parse->error, &line);
        if (status == MUSTER_OK && line != NULL) {
            status = parse_line(parse, line);
        }
    } while (status == MUSTER_OK && line != NULL);
    if (status == MUSTER_OK && parse->samples == 0) {
        status = muster_source_fail_line(parse->source, parse->error,
                                         "the file ends without a sample");
    }
    return status;
}

muster_status muster_csv_read(muster_source *source,
                              const muster_label_column *label,
                              muster_error *error_out, muster_table *table)
{
    csv_parse parse = {
        .source = source,
        .error = error_out,
        .wanted = label,
        .values = muster_vec_make(sizeof(float)),
        .labels = muster_vec_make(sizeof(float)),
    };
    char *name = NULL;
    muster_status status = parse_file(&parse);
    if (status == MUSTER_OK && parse.label.name != NULL) {
        name = muster_mem_string_n(parse.label.name, parse.label.name_length);
        status = name != NULL ? MUSTER_OK : fail_memory(&parse);
    }
    if (status == MUSTER_OK) {
        bool labelled = parse.label.number > 0;
        table->samples = parse.samples;
        table->features = (uint32_t)(parse.fields - labelled);
        table->dense = muster_table_take(&parse.values);
        table->labels = labelled ? muster_table_take(&parse.labels) : NULL;
        table->label_column = (uint32_t)parse.label.number;
        table->label_name = name;
        table->label_why = parse.label.why;
    }
    muster_mem_free(parse.names);
    muster_vec_fini(&parse.values);
    muster_vec_fini(&parse.labels);
    return status;
}
