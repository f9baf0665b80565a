/*
 * config.c -- the values of one verb's options.
 *
 * Invariants: every value holds either its default or a text that passed the
 * type and range of its row, with the parsed form beside it; a failed apply
 * leaves the old value.
 */
#include "config/config.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/threads.h"
#include "base/topology.h"
#include "base/value.h"
#include "config/state.h"

static void list_clear(muster_vec *list)
{
    char **texts = list->data;
    for (size_t i = 0; i < list->count; i++) {
        muster_mem_free(texts[i]);
    }
    muster_vec_clear(list);
}

muster_status muster_config_create(const char *verb, muster_config **config_out)
{
    muster_verb number = muster_verb_find(verb);
    if (number == MUSTER_VERB_COUNT) {
        return MUSTER_ERR_INVALID;
    }
    muster_config *config = muster_mem_array(1, sizeof(*config));
    if (config == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    config->verb = number;
    for (muster_option option = 0; option < MUSTER_OPT_COUNT; option++) {
        config->values[option].list = muster_vec_make(sizeof(char *));
    }
    for (muster_option option = 0; option < MUSTER_OPT_COUNT; option++) {
        const muster_option_row *row = muster_option_get(option);
        if (row->fallback == NULL) {
            continue;
        }
        muster_status status =
            muster_config_apply(config, option, row->fallback,
                                MUSTER_ORIGIN_DEFAULT, row->name, NULL);
        if (status != MUSTER_OK) {
            MUSTER_ASSERT(status == MUSTER_ERR_NO_MEMORY);
            muster_config_free(config);
            return status;
        }
    }
    *config_out = config;
    return MUSTER_OK;
}

void muster_config_free(muster_config *config)
{
    if (config == NULL) {
        return;
    }
    for (muster_option option = 0; option < MUSTER_OPT_COUNT; option++) {
        muster_mem_free(config->values[option].text);
        list_clear(&config->values[option].list);
        muster_vec_fini(&config->values[option].list);
    }
    muster_mem_free(config);
}

static muster_status out_of_range(const muster_option_row *row,
                                  const char *text, const char *place,
                                  muster_error *error_out)
{
    char min[32];
    char max[32];
    if (row->type == MUSTER_TYPE_DURATION) {
        muster_value_format_seconds(row->min, min, sizeof(min));
        muster_value_format_seconds(row->max, max, sizeof(max));
    } else {
        snprintf(min, sizeof(min), "%.17g", row->min);
        snprintf(max, sizeof(max), "%.17g", row->max);
    }
    return muster_error_set(error_out, MUSTER_ERR_INVALID,
                            "%s: %.60s is outside %s to %s", place, text, min,
                            max);
}

static const char *type_text(muster_option_type type)
{
    switch (type) {
    case MUSTER_TYPE_UINT:
        return "a whole number";
    case MUSTER_TYPE_DOUBLE:
        return "a number";
    case MUSTER_TYPE_FLAG:
        return "true or false";
    case MUSTER_TYPE_DURATION:
        return "a time such as 200ms, 2s or 5m";
    case MUSTER_TYPE_STRING:
    case MUSTER_TYPE_LIST:
        break;
    }
    return "a text";
}

/* Text to parsed form; *size_out is what the range speaks of. */
static bool parse_value(muster_option_type type, const char *text,
                        muster_config_value *value, double *size_out)
{
    bool good = true;
    switch (type) {
    case MUSTER_TYPE_UINT:
        good = muster_value_uint(text, &value->as.number);
        *size_out = (double)value->as.number;
        break;
    case MUSTER_TYPE_DOUBLE:
        good = muster_value_double(text, &value->as.real);
        *size_out = value->as.real;
        break;
    case MUSTER_TYPE_FLAG:
        good = muster_value_bool(text, &value->as.flag);
        break;
    case MUSTER_TYPE_DURATION:
        good = muster_value_duration_ns(text, &value->as.ns);
        *size_out = (double)value->as.ns / 1e9;
        break;
    case MUSTER_TYPE_STRING:
    case MUSTER_TYPE_LIST:
        break;
    }
    return good;
}

static muster_status check_value(const muster_option_row *row, const char *text,
                                 const char *place,
                                 muster_config_value *parsed_out,
                                 muster_error *error_out)
{
    if (*text == '\0') {
        return muster_error_set(
            error_out, MUSTER_ERR_INVALID, "%s: needs a value%s%s", place,
            row->meta != NULL ? ": " : "", row->meta != NULL ? row->meta : "");
    }
    if (strlen(text) > MUSTER_CONFIG_VALUE_MAX) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "%s: a value has at most %u bytes", place,
                                MUSTER_CONFIG_VALUE_MAX);
    }
    if (!muster_value_is_text(text)) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "%s: not UTF-8, or with control characters",
                                place);
    }
    double size = row->min;
    if (!parse_value(row->type, text, parsed_out, &size)) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "%s: '%.60s' is not %s", place, text,
                                type_text(row->type));
    }
    if (size < row->min || size > row->max) {
        return out_of_range(row, text, place, error_out);
    }
    return MUSTER_OK;
}

static muster_status out_of_memory(muster_error *error_out)
{
    return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY, "out of memory");
}

static muster_status list_append(muster_config_value *value, char *copy,
                                 muster_config_origin origin, const char *place,
                                 muster_error *error_out)
{
    if (origin > value->origin) {
        list_clear(&value->list);
    }
    if (value->list.count >= MUSTER_CONFIG_LIST_MAX) {
        muster_mem_free(copy);
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "%s: given more than %u times", place,
                                MUSTER_CONFIG_LIST_MAX);
    }
    char **slot = muster_vec_push(&value->list);
    if (slot == NULL) {
        muster_mem_free(copy);
        return out_of_memory(error_out);
    }
    *slot = copy;
    value->origin = origin;
    return MUSTER_OK;
}

muster_status muster_config_apply(muster_config *config, muster_option option,
                                  const char *text, muster_config_origin origin,
                                  const char *place, muster_error *error_out)
{
    const muster_option_row *row = muster_option_get(option);
    muster_config_value *value = &config->values[option];
    muster_config_value parsed = {0};
    muster_status status = check_value(row, text, place, &parsed, error_out);
    if (status != MUSTER_OK) {
        return status;
    }
    char *copy = muster_mem_string(text);
    if (copy == NULL) {
        return out_of_memory(error_out);
    }
    if (row->type == MUSTER_TYPE_LIST) {
        return list_append(value, copy, origin, place, error_out);
    }
    muster_mem_free(value->text);
    value->text = copy;
    value->as = parsed.as;
    value->origin = origin;
    return MUSTER_OK;
}

muster_status muster_config_unknown(muster_verb verb, const char *place,
                                    const char *name, const char *prefix,
                                    muster_error *error_out)
{
    muster_suggestion meant = muster_option_suggest(verb, name);
    const char *verb_name = muster_verb_get(verb)->name;
    if (meant.nearest[0] != '\0') {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "%s%s%.60s: unknown option of %s; did you mean "
                                "%s%s?",
                                place, prefix, name, verb_name, prefix,
                                meant.nearest);
    }
    return muster_error_set(error_out, MUSTER_ERR_INVALID,
                            "%s%s%.60s: unknown option of %s; see `muster %s "
                            "--help`",
                            place, prefix, name, verb_name, verb_name);
}

muster_status muster_config_set(muster_config *config, const char *name,
                                const char *value, muster_error *error_out)
{
    muster_option option = muster_option_find(config->verb, name);
    if (option == MUSTER_OPT_COUNT) {
        return muster_config_unknown(config->verb, "", name, "", error_out);
    }
    return muster_config_apply(config, option, value, MUSTER_ORIGIN_FLAG, name,
                               error_out);
}

static const muster_config_value *value_of(const muster_config *config,
                                           muster_option option,
                                           muster_option_type type)
{
    MUSTER_ASSERT(muster_option_get(option)->type == type);
    return &config->values[option];
}

const char *muster_config_verb(const muster_config *config)
{
    return muster_verb_get(config->verb)->name;
}

bool muster_config_is_set(const muster_config *config, muster_option option)
{
    MUSTER_ASSERT(option < MUSTER_OPT_COUNT);
    return config->values[option].origin != MUSTER_ORIGIN_DEFAULT;
}

bool muster_config_is_from_file(const muster_config *config,
                                muster_option option)
{
    MUSTER_ASSERT(option < MUSTER_OPT_COUNT);
    return config->values[option].origin == MUSTER_ORIGIN_JSON;
}

const char *muster_config_string(const muster_config *config,
                                 muster_option option)
{
    return value_of(config, option, MUSTER_TYPE_STRING)->text;
}

uint64_t muster_config_uint(const muster_config *config, muster_option option)
{
    return value_of(config, option, MUSTER_TYPE_UINT)->as.number;
}

double muster_config_double(const muster_config *config, muster_option option)
{
    return value_of(config, option, MUSTER_TYPE_DOUBLE)->as.real;
}

bool muster_config_bool(const muster_config *config, muster_option option)
{
    return value_of(config, option, MUSTER_TYPE_FLAG)->as.flag;
}

int64_t muster_config_duration_ns(const muster_config *config,
                                  muster_option option)
{
    return value_of(config, option, MUSTER_TYPE_DURATION)->as.ns;
}

size_t muster_config_list_count(const muster_config *config,
                                muster_option option)
{
    return value_of(config, option, MUSTER_TYPE_LIST)->list.count;
}

const char *muster_config_list_at(const muster_config *config,
                                  muster_option option, size_t index)
{
    const muster_vec *list = &value_of(config, option, MUSTER_TYPE_LIST)->list;
    MUSTER_ASSERT(index < list->count);
    return ((char *const *)list->data)[index];
}

const char *muster_config_get(const muster_config *config, const char *name)
{
    muster_option option = muster_option_find(config->verb, name);
    if (option == MUSTER_OPT_COUNT) {
        return NULL;
    }
    const muster_config_value *value = &config->values[option];
    if (value->list.count > 0) {
        return ((char *const *)value->list.data)[value->list.count - 1];
    }
    return value->text;
}

uint32_t muster_config_edges(const muster_config *config)
{
    const char *text = muster_config_string(config, MUSTER_OPT_TOPOLOGY);
    muster_topology topology = {0};
    if (text == NULL ||
        muster_topology_parse("", text, NULL, &topology) != MUSTER_OK) {
        return 0;
    }
    uint32_t edges = topology.edges;
    muster_topology_fini(&topology);
    return edges;
}

uint32_t muster_config_workers(const muster_config *config)
{
    uint64_t workers = muster_config_uint(config, MUSTER_OPT_WORKERS);
    uint64_t local = muster_config_uint(config, MUSTER_OPT_LOCAL);
    return (uint32_t)(workers > 0 ? workers : local);
}

uint32_t muster_config_threads(const muster_config *config)
{
    uint32_t threads = (uint32_t)muster_config_uint(config, MUSTER_OPT_THREADS);
    if (threads > 0) {
        return threads;
    }
    bool is_shared =
        config->verb == MUSTER_VERB_JOIN ||
        (config->verb == MUSTER_VERB_TRAIN && !muster_config_is_task(config));
    uint64_t local = muster_config_uint(config, MUSTER_OPT_LOCAL);
    uint64_t each = muster_threads_here() / (local > 0 ? local : 1);
    return is_shared && each > 1 ? (uint32_t)each : 1;
}

void muster_config_text_free(char *text)
{
    muster_mem_free(text);
}
