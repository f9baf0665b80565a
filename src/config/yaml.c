/*
 * yaml.c -- options from a YAML mapping (base/yaml.h).
 *
 *     model: mlp:hidden=256
 *     steps: 500
 *     slow: [3:200ms, 5:10x]
 *
 * Only what options need: one mapping at the top, keys are option names, values
 * are scalars, or lists of scalars for repeatable options. Everything else is
 * refused with file:line.
 */
#include "base/yaml.h"

#include <stdio.h>

#include "base/error.h"
#include "config/state.h"

#define PLACE_MAX 512

typedef struct yaml_reader {
    muster_config *config;
    const char *file;
} yaml_reader;

static muster_status refuse(const yaml_reader *reader, uint32_t line,
                            const char *why, muster_error *error_out)
{
    return muster_error_set(error_out, MUSTER_ERR_INVALID, "%s:%u: %s",
                            reader->file, line, why);
}

/* A container where a scalar is expected. */
static muster_status misplaced(const yaml_reader *reader,
                               const muster_yaml_node *node,
                               muster_error *error_out)
{
    return refuse(reader, node->line,
                  node->kind == MUSTER_YAML_LIST
                      ? "a list does not belong here"
                      : "a mapping does not belong here",
                  error_out);
}

static muster_status take_scalar(const yaml_reader *reader,
                                 muster_option option,
                                 const muster_yaml_node *node,
                                 muster_error *error_out)
{
    char place[PLACE_MAX];
    if (node->kind != MUSTER_YAML_SCALAR) {
        return misplaced(reader, node, error_out);
    }
    snprintf(place, sizeof(place), "%s:%u: %s", reader->file, node->line,
             muster_option_get(option)->name);
    return muster_config_apply(reader->config, option, node->text,
                               MUSTER_ORIGIN_YAML, place, error_out);
}

static muster_status take_value(const yaml_reader *reader, muster_option option,
                                const muster_yaml_node *node,
                                muster_error *error_out)
{
    if (node->kind != MUSTER_YAML_LIST ||
        muster_option_get(option)->type != MUSTER_TYPE_LIST) {
        return take_scalar(reader, option, node, error_out);
    }
    muster_status status = MUSTER_OK;
    for (const muster_yaml_node *item = node->first;
         item != NULL && status == MUSTER_OK; item = item->next) {
        status = take_scalar(reader, option, item, error_out);
    }
    return status;
}

static muster_status take_option(const yaml_reader *reader,
                                 const muster_yaml_node *node,
                                 muster_error *error_out)
{
    muster_verb verb = reader->config->verb;
    muster_option option = muster_option_find(verb, node->key);
    if (option == MUSTER_OPT_COUNT) {
        char place[PLACE_MAX];
        snprintf(place, sizeof(place), "%s:%u: ", reader->file, node->key_line);
        return muster_config_unknown(verb, place, node->key, "", error_out);
    }
    if (option == MUSTER_OPT_CONFIG || option == MUSTER_OPT_RESUME ||
        option == MUSTER_OPT_RESUME_OR_START) {
        return refuse(reader, node->key_line,
                      "config and resume are flags only", error_out);
    }
    return take_value(reader, option, node, error_out);
}

static muster_status take_top(const yaml_reader *reader,
                              const muster_yaml_node *top,
                              muster_error *error_out)
{
    if (top->kind == MUSTER_YAML_LIST) {
        return misplaced(reader, top, error_out);
    }
    if (top->kind == MUSTER_YAML_SCALAR) {
        return refuse(reader, top->line, "expected lines of `option: value`",
                      error_out);
    }
    muster_status status = MUSTER_OK;
    for (const muster_yaml_node *node = top->first;
         node != NULL && status == MUSTER_OK; node = node->next) {
        status = take_option(reader, node, error_out);
    }
    return status;
}

muster_status muster_config_read_yaml(muster_config *config, const char *text,
                                      size_t size, const char *file,
                                      muster_error *error_out)
{
    const yaml_reader reader = {.config = config, .file = file};
    muster_yaml *yaml = NULL;
    muster_status status =
        muster_yaml_parse(text, size, file, error_out, &yaml);
    if (status != MUSTER_OK) {
        return status;
    }
    const muster_yaml_node *top = muster_yaml_top(yaml);
    if (top != NULL) {
        status = take_top(&reader, top, error_out);
    }
    muster_yaml_free(yaml);
    return status;
}
