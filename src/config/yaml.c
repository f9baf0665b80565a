/*
 * yaml.c -- options from a YAML mapping, read event by event.
 *
 *     model: mlp:hidden=256
 *     steps: 500
 *     slow: [3:200ms, 5:10x]
 *
 * Only what options need: one mapping at the top, keys are option names, values
 * are scalars, or sequences of scalars for repeatable options. Everything else
 * (aliases, nesting, a second document) is refused with file:line, so hostile
 * text cannot make this reader grow.
 */
#include <stdio.h>
#include <string.h>

#include <yaml.h>

#include "base/error.h"
#include "config/state.h"

#define PLACE_MAX 512

typedef enum yaml_place {
    YAML_BEFORE, // no mapping yet
    YAML_KEY,
    YAML_VALUE,
    YAML_ITEM, // inside a sequence
    YAML_AFTER,
} yaml_place;

typedef struct yaml_reader {
    muster_config *config;
    const char *file;
    yaml_place at;
    muster_option option; // whose value comes
    bool seen[MUSTER_OPT_COUNT];
} yaml_reader;

static unsigned long line_of(const yaml_event_t *event)
{
    return (unsigned long)event->start_mark.line + 1;
}

static muster_status refuse(const yaml_reader *reader,
                            const yaml_event_t *event, const char *why,
                            muster_error *error_out)
{
    return muster_error_set(error_out, MUSTER_ERR_INVALID, "%s:%lu: %s",
                            reader->file, line_of(event), why);
}

static muster_status take_key(yaml_reader *reader, const yaml_event_t *event,
                              muster_error *error_out)
{
    const char *name = (const char *)event->data.scalar.value;
    char place[PLACE_MAX];
    snprintf(place, sizeof(place), "%s:%lu: ", reader->file, line_of(event));
    muster_option option = muster_option_find(reader->config->verb, name);
    if (option == MUSTER_OPT_COUNT) {
        return muster_config_unknown(reader->config->verb, place, name, "",
                                     error_out);
    }
    if (option == MUSTER_OPT_CONFIG || option == MUSTER_OPT_RESUME) {
        return refuse(reader, event, "config and resume are flags only",
                      error_out);
    }
    if (reader->seen[option]) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "%s%s: given twice", place, name);
    }
    reader->seen[option] = true;
    reader->option = option;
    reader->at = YAML_VALUE;
    return MUSTER_OK;
}

static muster_status take_value(yaml_reader *reader, const yaml_event_t *event,
                                muster_error *error_out)
{
    const muster_option_row *row = muster_option_get(reader->option);
    const char *text = (const char *)event->data.scalar.value;
    char place[PLACE_MAX];
    snprintf(place, sizeof(place), "%s:%lu: %s", reader->file, line_of(event),
             row->name);
    if (strlen(text) != event->data.scalar.length) {
        return refuse(reader, event, "a value holds a zero byte", error_out);
    }
    return muster_config_apply(reader->config, reader->option, text,
                               MUSTER_ORIGIN_YAML, place, error_out);
}

static muster_status take_scalar(yaml_reader *reader, const yaml_event_t *event,
                                 muster_error *error_out)
{
    if (reader->at == YAML_KEY) {
        return take_key(reader, event, error_out);
    }
    if (reader->at == YAML_BEFORE) {
        // An empty file or one of comments only has a single empty scalar.
        return event->data.scalar.length == 0
                   ? MUSTER_OK
                   : refuse(reader, event, "expected lines of `option: value`",
                            error_out);
    }
    muster_status status = take_value(reader, event, error_out);
    if (reader->at == YAML_VALUE) {
        reader->at = YAML_KEY;
    }
    return status;
}

static muster_status take_sequence(yaml_reader *reader,
                                   const yaml_event_t *event,
                                   muster_error *error_out)
{
    if (reader->at != YAML_VALUE ||
        muster_option_get(reader->option)->type != MUSTER_TYPE_LIST) {
        return refuse(reader, event, "a list does not belong here", error_out);
    }
    reader->at = YAML_ITEM;
    return MUSTER_OK;
}

static muster_status take_event(yaml_reader *reader, const yaml_event_t *event,
                                muster_error *error_out)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return take_scalar(reader, event, error_out);
    case YAML_SEQUENCE_START_EVENT:
        return take_sequence(reader, event, error_out);
    case YAML_SEQUENCE_END_EVENT:
        reader->at = YAML_KEY;
        return MUSTER_OK;
    case YAML_MAPPING_START_EVENT:
        if (reader->at != YAML_BEFORE) {
            return refuse(reader, event, "a mapping does not belong here",
                          error_out);
        }
        reader->at = YAML_KEY;
        return MUSTER_OK;
    case YAML_MAPPING_END_EVENT:
        reader->at = YAML_AFTER;
        return MUSTER_OK;
    case YAML_DOCUMENT_START_EVENT:
        return reader->at == YAML_BEFORE
                   ? MUSTER_OK
                   : refuse(reader, event, "a second document", error_out);
    case YAML_ALIAS_EVENT:
        return refuse(reader, event, "aliases are not supported", error_out);
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_END_EVENT:
        break;
    }
    return MUSTER_OK;
}

static muster_status syntax_error(const yaml_reader *reader,
                                  const yaml_parser_t *parser,
                                  muster_error *error_out)
{
    if (parser->error == YAML_MEMORY_ERROR) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "out of memory");
    }
    return muster_error_set(
        error_out, MUSTER_ERR_INVALID, "%s:%lu: not YAML: %s", reader->file,
        (unsigned long)parser->problem_mark.line + 1,
        parser->problem != NULL ? parser->problem : "unreadable");
}

muster_status muster_config_read_yaml(muster_config *config, const char *text,
                                      size_t size, const char *file,
                                      muster_error *error_out)
{
    yaml_reader reader = {.config = config, .file = file};
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser)) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "out of memory");
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
    muster_status status = MUSTER_OK;
    bool more = true;
    while (status == MUSTER_OK && more) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) {
            status = syntax_error(&reader, &parser, error_out);
            break;
        }
        more = event.type != YAML_STREAM_END_EVENT;
        status = take_event(&reader, &event, error_out);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return status;
}
