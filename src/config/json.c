/*
 * json.c -- a configuration as a JSON object and back.
 *
 * {"verb": "train", "model": "softmax", "steps": 0, "slow": ["3:200ms"], ..}:
 * numbers as numbers, switches as booleans, durations and texts as strings,
 * repeatable options as arrays. Reading turns every value into text and goes
 * through the same checks as flags do.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/error.h"
#include "base/mem.h"
#include "config/state.h"

#define PLACE_MAX 512

/* The fewest digits, from 15 on, that give the same number again. */
static int digits_of(double value)
{
    for (int digits = 15; digits < 17; digits++) {
        char text[64];
        snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value) {
            return digits;
        }
    }
    return 17;
}

static json_t *value_to_json(const muster_config_value *value,
                             muster_option_type type)
{
    switch (type) {
    case MUSTER_TYPE_UINT:
        return json_integer((json_int_t)value->as.number);
    case MUSTER_TYPE_DOUBLE:
        return json_real(value->as.real);
    case MUSTER_TYPE_FLAG:
        return json_boolean(value->as.flag);
    case MUSTER_TYPE_STRING:
    case MUSTER_TYPE_DURATION:
        return json_string(value->text);
    case MUSTER_TYPE_LIST:
        break;
    }
    json_t *array = json_array();
    for (size_t i = 0; array != NULL && i < value->list.count; i++) {
        if (json_array_append_new(
                array, json_string(((char **)value->list.data)[i])) != 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

static bool is_saved(const muster_config *config, muster_option option)
{
    const muster_option_row *row = muster_option_get(option);
    const muster_config_value *value = &config->values[option];
    return muster_option_serves(option, config->verb) &&
           (row->verbs & MUSTER_OPTION_UNSAVED) == 0 &&
           (value->text != NULL || value->list.count > 0);
}

char *muster_config_to_json(const muster_config *config)
{
    json_t *object = json_object();
    int failed = json_object_set_new(object, "verb",
                                     json_string(muster_config_verb(config)));
    int digits = 15; // so that 0.1 is 0.1 where all numbers allow it
    for (muster_option option = 0; option < MUSTER_OPT_COUNT; option++) {
        const muster_option_row *row = muster_option_get(option);
        if (is_saved(config, option)) {
            if (row->type == MUSTER_TYPE_DOUBLE) {
                int needed = digits_of(config->values[option].as.real);
                digits = needed > digits ? needed : digits;
            }
            failed |= json_object_set_new(
                object, row->name,
                value_to_json(&config->values[option], row->type));
        }
    }
    char *text =
        failed == 0
            ? json_dumps(object,
                         JSON_INDENT(2) | JSON_REAL_PRECISION((size_t)digits))
            : NULL;
    char *copy = text != NULL ? muster_mem_string(text) : NULL;
    free(text); // heap: jansson's
    json_decref(object);
    return copy;
}

static muster_status apply_json(muster_config *config, muster_option option,
                                const json_t *value, const char *place,
                                muster_error *error_out)
{
    char number[64];
    const char *text = number;
    if (json_is_integer(value)) {
        snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT,
                 json_integer_value(value));
    } else if (json_is_real(value)) {
        double real = json_real_value(value);
        snprintf(number, sizeof(number), "%.*g", digits_of(real), real);
    } else if (json_is_boolean(value)) {
        text = json_is_true(value) ? "true" : "false";
    } else if (json_is_string(value) &&
               strlen(json_string_value(value)) == json_string_length(value)) {
        text = json_string_value(value);
    } else {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "%s: not a value of an option", place);
    }
    // A configuration lists defaults too; those were not set by anyone.
    const char *old = config->values[option].text;
    if (old != NULL && strcmp(old, text) == 0) {
        return MUSTER_OK;
    }
    return muster_config_apply(config, option, text, MUSTER_ORIGIN_JSON, place,
                               error_out);
}

static muster_status read_member(muster_config *config, const char *file,
                                 const char *key, const json_t *value,
                                 muster_error *error_out)
{
    char place[PLACE_MAX];
    muster_option option = muster_option_find(config->verb, key);
    if (option == MUSTER_OPT_COUNT) {
        snprintf(place, sizeof(place), "%.400s: ", file);
        return muster_config_unknown(config->verb, place, key, "", error_out);
    }
    snprintf(place, sizeof(place), "%.400s: %s", file, key);
    // Such options name files that are written, or code that is run.
    if ((muster_option_get(option)->verbs & MUSTER_OPTION_UNSAVED) != 0) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "%s: belongs on the command line, as --%s, "
                                "and not into a file of a run",
                                place, key);
    }
    if (!json_is_array(value)) {
        return apply_json(config, option, value, place, error_out);
    }
    if (muster_option_get(option)->type != MUSTER_TYPE_LIST) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "%s: takes one value, not a list", place);
    }
    muster_status status = MUSTER_OK;
    for (size_t i = 0; status == MUSTER_OK && i < json_array_size(value); i++) {
        status = apply_json(config, option, json_array_get(value, i), place,
                            error_out);
    }
    return status;
}

static muster_status parse_object(const char *text, size_t size,
                                  const char *file, muster_error *error_out,
                                  json_t **object_out)
{
    json_error_t problem;
    json_t *object =
        size <= MUSTER_CONFIG_FILE_MAX
            ? json_loadb(text, size, JSON_REJECT_DUPLICATES, &problem)
            : NULL;
    if (size > MUSTER_CONFIG_FILE_MAX) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "%s: longer than %u bytes", file,
                                MUSTER_CONFIG_FILE_MAX);
    }
    if (object == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "%s:%d: not JSON: %s", file, problem.line,
                                problem.text);
    }
    if (!json_is_string(json_object_get(object, "verb"))) {
        json_decref(object);
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "%s: not a configuration: no \"verb\"", file);
    }
    *object_out = object;
    return MUSTER_OK;
}

static muster_status read_object(muster_config *config, json_t *object,
                                 const char *file, muster_error *error_out)
{
    muster_status status = MUSTER_OK;
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        if (status == MUSTER_OK && strcmp(key, "verb") != 0) {
            status = read_member(config, file, key, value, error_out);
        }
    }
    return status;
}

muster_status muster_config_read_json(muster_config *config, const char *text,
                                      size_t size, const char *file,
                                      muster_error *error_out)
{
    json_t *object = NULL;
    muster_status status = parse_object(text, size, file, error_out, &object);
    if (status != MUSTER_OK) {
        return status;
    }
    const char *verb = json_string_value(json_object_get(object, "verb"));
    if (strcmp(verb, muster_config_verb(config)) != 0) {
        status = muster_error_set(error_out, MUSTER_ERR_INVALID,
                                  "%s: a configuration of %.40s, not of %s",
                                  file, verb, muster_config_verb(config));
    } else {
        status = read_object(config, object, file, error_out);
    }
    json_decref(object);
    return status;
}

muster_status muster_config_from_json(const char *json, muster_error *error_out,
                                      muster_config **config_out)
{
    static const char file[] = "configuration";
    json_t *object = NULL;
    muster_status status =
        parse_object(json, strlen(json), file, error_out, &object);
    if (status != MUSTER_OK) {
        return status;
    }
    const char *verb = json_string_value(json_object_get(object, "verb"));
    muster_config *config = NULL;
    status = muster_config_create(verb, &config);
    if (status != MUSTER_OK) {
        muster_error_set(error_out, status, "%s: %.40s: %s", file, verb,
                         status == MUSTER_ERR_INVALID ? "no such verb"
                                                      : "out of memory");
    } else {
        status = read_object(config, object, file, error_out);
    }
    json_decref(object);
    if (status != MUSTER_OK) {
        muster_config_free(config);
        return status;
    }
    *config_out = config;
    return MUSTER_OK;
}
