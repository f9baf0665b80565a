/*
 * csv.c -- a table of numbers in text: one sample a line, one separator.
 *
 * The first line (blank ones and those that begin with '#' are passed over)
 * fixes the separator and, when none of its fields is a number, holds names.
 * The label is the column named label, class, target or y, else the last one.
 * Every other line must have as many fields as the first, names or not.
 */
#include <string.h>

#include "data/number.h"
#include "data/readers.h"

#define QUOTE_MAX 24 // characters of the file shown in an error

typedef struct csv_parse {
    muster_source *source;
    muster_error *error;
    muster_vec values; // float: the rows so far, without their labels
    muster_vec labels; // float
    char separator;
    bool started; // the first line has been seen
    size_t named; // label column from 1 by name; 0: the last one
    size_t names; // columns of the line of names; 0: there is none
    size_t fields;
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

// A field without the blanks and quotes around it.
static const char *bare(const csv_parse *parse, const char *field,
                        size_t *length)
{
    while (*length > 0 && (is_blank(parse, *field) || *field == '"')) {
        field++;
        (*length)--;
    }
    while (*length > 0 &&
           (is_blank(parse, field[*length - 1]) || field[*length - 1] == '"')) {
        (*length)--;
    }
    return field;
}

static bool names_label(const char *name, size_t length)
{
    static const char *const words[] = {"label", "class", "target", "y"};
    for (size_t w = 0; w < sizeof(words) / sizeof(words[0]); w++) {
        size_t i = 0;
        while (i < length && words[w][i] == (char)(name[i] | 0x20)) {
            i++;
        }
        if (i == length && words[w][i] == '\0') {
            return true;
        }
    }
    return false;
}

// Whether the first line is one of names; if so, notes which is the label's.
static bool take_names(csv_parse *parse, const char *line)
{
    size_t column = 0;
    parse->named = 0;
    for (const char *p = line;; p++) {
        size_t length = field_length(parse, p);
        size_t bare_length = length;
        const char *name = bare(parse, p, &bare_length);
        float value;
        const char *end;
        muster_number_kind kind = muster_number_parse(name, &value, &end);
        bool whole = end == name + bare_length && bare_length > 0;
        if (kind != MUSTER_NUMBER_NONE && whole) {
            return false;
        }
        // Several spaces in a row separate once.
        column += length > 0 || parse->separator != ' ';
        if (parse->named == 0 && names_label(name, bare_length)) {
            parse->named = column;
        }
        p += length;
        if (*p == '\0') {
            parse->names = column;
            return true;
        }
    }
}

static muster_status fail_field(csv_parse *parse, size_t field,
                                const char *text, const char *what)
{
    size_t length = field_length(parse, text);
    int quoted = (int)(length < QUOTE_MAX ? length : QUOTE_MAX);
    return muster_source_fail_line(parse->source, parse->error,
                                   "field %zu '%.*s' %s", field, quoted, text,
                                   what);
}

static muster_status fail_memory(csv_parse *parse)
{
    return muster_table_fail_memory(muster_source_name(parse->source),
                                    parse->error);
}

static muster_status parse_fields(csv_parse *parse, const char *line,
                                  size_t *fields_out)
{
    const char *p = line;
    for (size_t field = 1;; field++) {
        p = skip_blanks(parse, p);
        const char *end;
        float value = 0.0f;
        muster_number_kind kind = muster_number_parse(p, &value, &end);
        if (kind == MUSTER_NUMBER_NOT_FINITE) {
            return fail_field(parse, field, p, "is not finite");
        }
        const char *after = skip_blanks(parse, end);
        bool spaced = parse->separator == ' ' && after > end;
        if (kind == MUSTER_NUMBER_NONE ||
            (*after != '\0' && *after != parse->separator && !spaced)) {
            return fail_field(parse, field, p, "is not a number");
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

static muster_status parse_row(csv_parse *parse, const char *line)
{
    size_t start = parse->values.count;
    size_t fields = 0;
    muster_status status = parse_fields(parse, line, &fields);
    if (status != MUSTER_OK) {
        return status;
    }
    if (parse->labels.count == 0) {
        parse->fields = fields;
    }
    if (parse->names > 0 && fields != parse->names) {
        return muster_source_fail_line(
            parse->source, parse->error,
            "%zu field%s, but the first line names %zu", fields,
            fields == 1 ? "" : "s", parse->names);
    }
    if (fields < 2 || parse->named > fields) {
        return muster_source_fail_line(
            parse->source, parse->error,
            "%zu field%s: too few for features and a label", fields,
            fields == 1 ? "" : "s");
    }
    if (fields != parse->fields) {
        return muster_source_fail_line(
            parse->source, parse->error,
            "%zu field%s, but the lines before have %zu", fields,
            fields == 1 ? "" : "s", parse->fields);
    }
    float *row = (float *)parse->values.data + start;
    size_t label = parse->named > 0 ? parse->named - 1 : fields - 1;
    float value = row[label];
    memmove(row + label, row + label + 1, (fields - 1 - label) * sizeof(float));
    parse->values.count--;
    if (!muster_vec_append(&parse->labels, &value, 1)) {
        return fail_memory(parse);
    }
    if (parse->labels.count > MUSTER_TABLE_SAMPLES_MAX ||
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
        if (take_names(parse, p)) {
            return MUSTER_OK;
        }
        parse->named = 0;
    }
    return parse_row(parse, p);
}

muster_status muster_csv_read(muster_source *source, muster_error *error_out,
                              muster_table *table)
{
    csv_parse parse = {
        .source = source,
        .error = error_out,
        .values = muster_vec_make(sizeof(float)),
        .labels = muster_vec_make(sizeof(float)),
    };
    muster_status status;
    const char *line = NULL;
    do {
        status = muster_source_line(source, error_out, &line);
        if (status == MUSTER_OK && line != NULL) {
            status = parse_line(&parse, line);
        }
    } while (status == MUSTER_OK && line != NULL);
    if (status == MUSTER_OK && parse.labels.count == 0) {
        status = muster_source_fail_line(source, error_out,
                                         "the file ends without a sample");
    }
    if (status == MUSTER_OK) {
        table->samples = parse.labels.count;
        table->features = (uint32_t)(parse.fields - 1);
        table->dense = muster_table_take(&parse.values);
        table->labels = muster_table_take(&parse.labels);
    }
    muster_vec_fini(&parse.values);
    muster_vec_fini(&parse.labels);
    return status;
}
