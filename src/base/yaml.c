/*
 * yaml.c -- libyaml's events into a tree.
 *
 * `open` is the way from the top to the container that is being filled. In a
 * map, scalars are keys and values by turns; a key waits in `key` for the event
 * that is its value. All nodes hang in one chain for the end.
 */
#include "base/yaml.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <yaml.h>

#include "base/error.h"
#include "base/mem.h"

#define PATH_MAX_BYTES 256u

typedef struct chained {
    muster_yaml_node node;
    struct chained *last_child;
    struct chained *chain;
} chained;

struct muster_yaml {
    const char *file;
    chained *top;
    chained *all;
};

typedef struct builder {
    muster_yaml *yaml;
    chained *open[MUSTER_YAML_DEPTH_MAX];
    uint32_t depth;
    char *key; // of the value that comes; NULL: none waits
    uint32_t key_line;
    bool ended;
    muster_error *error;
} builder;

static muster_status no_memory(muster_error *error_out)
{
    return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY, "out of memory");
}

static unsigned long line_of(const yaml_event_t *event)
{
    return (unsigned long)event->start_mark.line + 1;
}

static muster_status refuse_event(const builder *b, const yaml_event_t *event,
                                  const char *why)
{
    return muster_error_set(b->error, MUSTER_ERR_INVALID, "%s:%lu: %s",
                            b->yaml->file, line_of(event), why);
}

/* ---- building ------------------------------------------------------------ */

static chained *parent_of(const builder *b)
{
    return b->depth > 0 ? b->open[b->depth - 1] : NULL;
}

static bool wants_key(const builder *b)
{
    const chained *parent = parent_of(b);
    return parent != NULL && parent->node.kind == MUSTER_YAML_MAP &&
           b->key == NULL;
}

/* A node at the end of the open container, with the key that waits. NULL when
 * out of memory. */
static chained *add(builder *b, const yaml_event_t *event,
                    muster_yaml_kind kind)
{
    chained *parent = parent_of(b);
    chained *made = muster_mem_array(1, sizeof(*made));
    if (made == NULL) {
        return NULL;
    }
    made->node.kind = kind;
    made->node.line = (uint32_t)line_of(event);
    made->node.key_line = b->key != NULL ? b->key_line : made->node.line;
    made->node.key = b->key;
    b->key = NULL;
    made->chain = b->yaml->all;
    b->yaml->all = made;
    if (parent == NULL) {
        b->yaml->top = made;
    } else {
        made->node.parent = &parent->node;
        made->node.index = parent->node.count++;
        if (parent->last_child != NULL) {
            parent->last_child->node.next = &made->node;
        } else {
            parent->node.first = &made->node;
        }
        parent->last_child = made;
    }
    return made;
}

static muster_status take_key(builder *b, const yaml_event_t *event,
                              const char *text)
{
    const chained *parent = parent_of(b);
    if (parent->node.count == MUSTER_YAML_KEYS_MAX) {
        return refuse_event(b, event, "too many keys");
    }
    if (muster_yaml_get(&parent->node, text) != NULL) {
        char path[PATH_MAX_BYTES];
        char why[PATH_MAX_BYTES + 80];
        muster_yaml_path(&parent->node, path, sizeof(path));
        snprintf(why, sizeof(why), "%s%s%.60s: given twice", path,
                 path[0] != '\0' ? "." : "", text);
        return refuse_event(b, event, why);
    }
    b->key = muster_mem_string(text);
    b->key_line = (uint32_t)line_of(event);
    return b->key != NULL ? MUSTER_OK : no_memory(b->error);
}

static muster_status take_scalar(builder *b, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    if (strlen(text) != event->data.scalar.length) {
        return refuse_event(b, event, "a value holds a zero byte");
    }
    if (wants_key(b)) {
        return take_key(b, event, text);
    }
    if (parent_of(b) == NULL && *text == '\0') {
        return MUSTER_OK; // comments only
    }
    chained *made = add(b, event, MUSTER_YAML_SCALAR);
    if (made != NULL) {
        made->node.text = muster_mem_string(text);
    }
    return made != NULL && made->node.text != NULL ? MUSTER_OK
                                                   : no_memory(b->error);
}

static muster_status open_container(builder *b, const yaml_event_t *event,
                                    muster_yaml_kind kind)
{
    if (wants_key(b)) {
        return refuse_event(b, event,
                            kind == MUSTER_YAML_MAP
                                ? "a mapping does not belong here"
                                : "a list does not belong here");
    }
    if (b->depth == MUSTER_YAML_DEPTH_MAX) {
        return refuse_event(b, event, "nested too deep");
    }
    chained *made = add(b, event, kind);
    if (made == NULL) {
        return no_memory(b->error);
    }
    b->open[b->depth++] = made;
    return MUSTER_OK;
}

static muster_status take_event(builder *b, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return take_scalar(b, event);
    case YAML_SEQUENCE_START_EVENT:
        return open_container(b, event, MUSTER_YAML_LIST);
    case YAML_MAPPING_START_EVENT:
        return open_container(b, event, MUSTER_YAML_MAP);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        b->depth--;
        return MUSTER_OK;
    case YAML_DOCUMENT_START_EVENT:
        return b->ended ? refuse_event(b, event, "a second document")
                        : MUSTER_OK;
    case YAML_DOCUMENT_END_EVENT:
        b->ended = true;
        return MUSTER_OK;
    case YAML_ALIAS_EVENT:
        return refuse_event(b, event, "aliases are not supported");
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
        break;
    }
    return MUSTER_OK;
}

static muster_status syntax_error(const builder *b, const yaml_parser_t *parser)
{
    if (parser->error == YAML_MEMORY_ERROR) {
        return no_memory(b->error);
    }
    return muster_error_set(
        b->error, MUSTER_ERR_INVALID, "%s:%lu: not YAML: %s", b->yaml->file,
        (unsigned long)parser->problem_mark.line + 1,
        parser->problem != NULL ? parser->problem : "unreadable");
}

static muster_status build(builder *b, yaml_parser_t *parser)
{
    muster_status status = MUSTER_OK;
    bool more = true;
    while (status == MUSTER_OK && more) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event)) {
            return syntax_error(b, parser);
        }
        more = event.type != YAML_STREAM_END_EVENT;
        status = take_event(b, &event);
        yaml_event_delete(&event);
    }
    return status;
}

muster_status muster_yaml_parse(const char *text, size_t size, const char *file,
                                muster_error *error_out, muster_yaml **yaml_out)
{
    yaml_parser_t parser;
    muster_yaml *yaml = muster_mem_array(1, sizeof(*yaml));
    if (yaml == NULL || !yaml_parser_initialize(&parser)) {
        muster_mem_free(yaml);
        return no_memory(error_out);
    }
    yaml->file = file;
    builder b = {.yaml = yaml, .error = error_out};
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
    muster_status status = build(&b, &parser);
    yaml_parser_delete(&parser);
    muster_mem_free(b.key);
    if (status != MUSTER_OK) {
        muster_yaml_free(yaml);
        return status;
    }
    *yaml_out = yaml;
    return MUSTER_OK;
}

void muster_yaml_free(muster_yaml *yaml)
{
    if (yaml == NULL) {
        return;
    }
    for (chained *at = yaml->all; at != NULL;) {
        chained *next = at->chain;
        muster_mem_free((void *)(uintptr_t)at->node.key);
        muster_mem_free((void *)(uintptr_t)at->node.text);
        muster_mem_free(at);
        at = next;
    }
    muster_mem_free(yaml);
}

/* ---- looking ------------------------------------------------------------- */

const muster_yaml_node *muster_yaml_top(const muster_yaml *yaml)
{
    return yaml->top != NULL ? &yaml->top->node : NULL;
}

const muster_yaml_node *muster_yaml_get(const muster_yaml_node *map,
                                        const char *key)
{
    if (map->kind != MUSTER_YAML_MAP) {
        return NULL;
    }
    const muster_yaml_node *child = map->first;
    while (child != NULL && strcmp(child->key, key) != 0) {
        child = child->next;
    }
    return child;
}

void muster_yaml_path(const muster_yaml_node *node, char *path_out, size_t size)
{
    const muster_yaml_node *way[MUSTER_YAML_DEPTH_MAX + 1];
    uint32_t count = 0;
    for (; node->parent != NULL; node = node->parent) {
        way[count++] = node;
    }
    size_t used = 0;
    path_out[0] = '\0';
    while (count-- > 0 && used < size) {
        int wrote = way[count]->key != NULL
                        ? snprintf(path_out + used, size - used, "%s%.60s",
                                   used > 0 ? "." : "", way[count]->key)
                        : snprintf(path_out + used, size - used, "[%u]",
                                   way[count]->index);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
}

muster_status muster_yaml_refuse(const muster_yaml *yaml,
                                 const muster_yaml_node *node, const char *why,
                                 muster_error *error_out)
{
    char path[PATH_MAX_BYTES];
    muster_yaml_path(node, path, sizeof(path));
    return muster_error_set(error_out, MUSTER_ERR_INVALID, "%s:%u: %s%s%s",
                            yaml->file, node->line, path,
                            path[0] != '\0' ? ": " : "", why);
}
