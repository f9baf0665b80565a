/*
 * spec.c -- names, pairs, and tables of keys.
 */
#include "base/spec.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/suggest.h"
#include "base/value.h"

/* ---- the name ------------------------------------------------------------ */

size_t muster_spec_name(const char *spec, const char **params_out)
{
    size_t length = strcspn(spec, ":");
    *params_out = spec + length + (spec[length] == ':');
    return length;
}

bool muster_spec_is(const char *spec, const char *name)
{
    size_t length = strcspn(spec, ":");
    return strlen(name) == length && memcmp(spec, name, length) == 0;
}

/* ---- the pairs ----------------------------------------------------------- */

/* The end of the pair that starts at `text`: the last comma before the next
 * '=' that is not its own, or the end of the text. */
static const char *pair_end(const char *text)
{
    const char *equals = strchr(text, '=');
    const char *next = equals != NULL ? strchr(equals + 1, '=') : NULL;
    if (next == NULL) {
        return text + strlen(text);
    }
    const char *end = next;
    while (end > equals && *end != ',') {
        end--;
    }
    return end > equals ? end : text + strlen(text);
}

bool muster_spec_next(const char **cursor, muster_spec_pair *pair_out)
{
    const char *text = *cursor;
    if (*text == '\0') {
        return false;
    }
    const char *end = pair_end(text);
    const char *equals = memchr(text, '=', (size_t)(end - text));
    pair_out->key = text;
    pair_out->key_length = (size_t)((equals != NULL ? equals : end) - text);
    pair_out->value = equals != NULL ? equals + 1 : NULL;
    pair_out->value_length = equals != NULL ? (size_t)(end - equals - 1) : 0;
    *cursor = *end == ',' ? end + 1 : end;
    return true;
}

/* ---- a table of keys ----------------------------------------------------- */

/* The index of `value` in "a|b|c", or -1. */
static int find_word(const char *words, const char *value)
{
    size_t length = strlen(value);
    for (int index = 0; *words != '\0'; index++) {
        size_t word = strcspn(words, "|");
        if (word == length && strncmp(words, value, word) == 0) {
            return index;
        }
        words += word + (words[word] == '|');
    }
    return -1;
}

/* How a number of these bounds is called. */
static void describe_range(const muster_spec_field *field, char *out,
                           size_t size)
{
    bool whole =
        field->type == MUSTER_SPEC_UINT || field->type == MUSTER_SPEC_UINT64;
    const char *noun = whole ? "whole number" : "number";
    bool open = field->max >= MUSTER_SPEC_NO_LIMIT;
    bool above_0 = field->min > 0 && field->min <= MUSTER_SPEC_ABOVE_0;
    if (above_0 && open) {
        snprintf(out, size, "a %s above 0", noun);
    } else if (open) {
        snprintf(out, size, "a %s of at least %.10g", noun, field->min);
    } else {
        snprintf(out, size, "a %s from %.10g to %.10g", noun,
                 above_0 ? 0 : field->min, field->max);
    }
}

static void describe(const muster_spec_field *field, char *out, size_t size)
{
    char max[32];
    switch (field->type) {
    case MUSTER_SPEC_UINT:
    case MUSTER_SPEC_UINT64:
    case MUSTER_SPEC_DOUBLE:
        describe_range(field, out, size);
        break;
    case MUSTER_SPEC_SECONDS:
        muster_value_format_seconds(field->max, max, sizeof(max));
        snprintf(out, size, "a time of at most %s, such as 20ms", max);
        break;
    case MUSTER_SPEC_TEXT:
        snprintf(out, size, "a text of 1 to %.0f bytes", field->max - 1);
        break;
    case MUSTER_SPEC_WORD:
        snprintf(out, size, "one of %s", field->words);
        break;
    }
}

static bool in_range(const muster_spec_field *field, double number)
{
    return number >= field->min && number <= field->max;
}

static bool set_whole(const muster_spec_field *field, const char *value,
                      char *into)
{
    uint64_t whole = 0;
    if (!muster_value_uint(value, &whole) || !in_range(field, (double)whole)) {
        return false;
    }
    if (field->type == MUSTER_SPEC_UINT64) {
        memcpy(into, &whole, sizeof(whole));
    } else {
        uint32_t small = (uint32_t)whole;
        memcpy(into, &small, sizeof(small));
    }
    return true;
}

static bool set_real(const muster_spec_field *field, const char *value,
                     char *into)
{
    double number = 0;
    bool good = field->type == MUSTER_SPEC_SECONDS
                    ? muster_value_duration_s(value, &number)
                    : muster_value_double(value, &number);
    if (!good || !in_range(field, number)) {
        return false;
    }
    memcpy(into, &number, sizeof(number));
    return true;
}

static bool set_word(const muster_spec_field *field, const char *value,
                     char *into)
{
    int index = find_word(field->words, value);
    if (index < 0) {
        return false;
    }
    uint32_t chosen = (uint32_t)index;
    memcpy(into, &chosen, sizeof(chosen));
    return true;
}

static bool set_text(const muster_spec_field *field, const char *value,
                     char *into)
{
    size_t length = strlen(value);
    if (length == 0 || (double)length >= field->max) {
        return false;
    }
    memcpy(into, value, length + 1);
    return true;
}

/* Store a value into its field; false when it is not what the field takes. */
static bool set_field(const muster_spec_field *field, const char *value,
                      char *into)
{
    switch (field->type) {
    case MUSTER_SPEC_UINT:
    case MUSTER_SPEC_UINT64:
        return set_whole(field, value, into);
    case MUSTER_SPEC_DOUBLE:
    case MUSTER_SPEC_SECONDS:
        return set_real(field, value, into);
    case MUSTER_SPEC_WORD:
        return set_word(field, value, into);
    case MUSTER_SPEC_TEXT:
        return set_text(field, value, into);
    }
    return false;
}

static muster_status refuse_value(const char *place,
                                  const muster_spec_field *field,
                                  const char *value, muster_error *error_out)
{
    char expected[128];
    char at[128];
    if (field->type == MUSTER_SPEC_WORD) {
        muster_suggestion meant = muster_suggestion_make(value, strlen(value));
        muster_suggestion_add_list(&meant, field->words, '|');
        snprintf(at, sizeof(at), "%s: %s=", place, field->name);
        return muster_suggestion_fail(&meant, at, error_out);
    }
    describe(field, expected, sizeof(expected));
    return muster_error_set(error_out, MUSTER_ERR_INVALID,
                            "%s: %s=%.60s: expected %s", place, field->name,
                            value, expected);
}

static muster_status refuse_key(const char *place, const muster_spec_pair *pair,
                                const muster_spec_field *fields,
                                muster_error *error_out)
{
    char at[128];
    if (fields[0].name == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "%s: '%.*s': it takes no parameters", place,
                                (int)pair->key_length, pair->key);
    }
    muster_suggestion meant =
        muster_suggestion_make(pair->key, pair->key_length);
    for (size_t i = 0; fields[i].name != NULL; i++) {
        muster_suggestion_add(&meant, fields[i].name);
    }
    snprintf(at, sizeof(at), "%s: parameter ", place);
    return muster_suggestion_fail(&meant, at, error_out);
}

static const muster_spec_field *find_field(const muster_spec_field *fields,
                                           const muster_spec_pair *pair)
{
    for (; fields->name != NULL; fields++) {
        if (strlen(fields->name) == pair->key_length &&
            memcmp(fields->name, pair->key, pair->key_length) == 0) {
            return fields;
        }
    }
    return NULL;
}

/* A comma after the last pair does no harm, but in a list it lacks a piece. */
static bool ends_text(const muster_spec_pair *pair)
{
    return pair->value_length > 0 && pair->value[pair->value_length] == '\0' &&
           pair->value[pair->value_length - 1] == ',';
}

static muster_status read_pair(const char *place, const muster_spec_pair *pair,
                               const muster_spec_field *field, char *into,
                               muster_error *error_out)
{
    char value[MUSTER_SPEC_VALUE_MAX];
    if (pair->value == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "%s: %s needs a value: write %s=..", place,
                                field->name, field->name);
    }
    if (pair->value_length >= sizeof(value)) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "%s: %s=%.60s..: longer than %zu bytes", place,
                                field->name, pair->value, sizeof(value) - 1);
    }
    memcpy(value, pair->value, pair->value_length);
    value[pair->value_length] = '\0';
    if (field->type != MUSTER_SPEC_TEXT && ends_text(pair)) {
        value[pair->value_length - 1] = '\0';
    }
    return set_field(field, value, into + field->offset)
               ? MUSTER_OK
               : refuse_value(place, field, value, error_out);
}

static muster_status refuse_twice(const char *place,
                                  const muster_spec_field *field,
                                  muster_error *error_out)
{
    return muster_error_set(error_out, MUSTER_ERR_INVALID,
                            "%s: %s= is given twice", place, field->name);
}

static muster_status check_required(const char *place,
                                    const muster_spec_field *fields,
                                    uint64_t given, muster_error *error_out)
{
    for (size_t i = 0; fields[i].name != NULL; i++) {
        if (fields[i].required && (given >> i & 1) == 0) {
            char expected[128];
            describe(&fields[i], expected, sizeof(expected));
            return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                    "%s: needs %s=.., %s", place,
                                    fields[i].name, expected);
        }
    }
    return MUSTER_OK;
}

muster_status muster_spec_read(const char *place, const char *params,
                               const muster_spec_field *fields, void *into,
                               uint64_t *given_out, muster_error *error_out)
{
    muster_spec_pair pair;
    uint64_t given = 0;
    while (muster_spec_next(&params, &pair)) {
        const muster_spec_field *field = find_field(fields, &pair);
        if (field == NULL) {
            return refuse_key(place, &pair, fields, error_out);
        }
        uint64_t bit = UINT64_C(1) << (field - fields);
        muster_status status =
            (given & bit) == 0 ? read_pair(place, &pair, field, into, error_out)
                               : refuse_twice(place, field, error_out);
        if (status != MUSTER_OK) {
            return status;
        }
        given |= bit;
    }
    if (given_out != NULL) {
        *given_out = given;
    }
    return check_required(place, fields, given, error_out);
}
