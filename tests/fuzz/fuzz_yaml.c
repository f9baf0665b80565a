/*
 * fuzz_yaml.c -- hostile YAML. A tree that is handed out must be whole: parents
 * know their children, keys are found, paths are written within their room.
 */
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "base/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const muster_yaml_node *node)
{
    char path[40];
    uint32_t count = 0;
    muster_yaml_path(node, path, sizeof(path));
    MUSTER_ASSERT(strlen(path) < sizeof(path));
    MUSTER_ASSERT((node->kind == MUSTER_YAML_SCALAR) == (node->text != NULL));
    const muster_yaml_node *child = node->first;
    for (; child != NULL; child = child->next) {
        MUSTER_ASSERT(child->parent == node && child->index == count);
        MUSTER_ASSERT(child->key == NULL ||
                      muster_yaml_get(node, child->key) == child);
        count++;
    }
    MUSTER_ASSERT(count == node->count);
}

/* Parents before children, without recursion. */
static const muster_yaml_node *after(const muster_yaml_node *node)
{
    if (node->first != NULL) {
        return node->first;
    }
    while (node != NULL && node->next == NULL) {
        node = node->parent;
    }
    return node != NULL ? node->next : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    muster_yaml *yaml = NULL;
    muster_error error = {.text = ""};
    if (muster_yaml_parse((const char *)data, size, "f", &error, &yaml) !=
        MUSTER_OK) {
        MUSTER_ASSERT(error.text[0] != '\0');
        return 0;
    }
    for (const muster_yaml_node *node = muster_yaml_top(yaml); node != NULL;
         node = after(node)) {
        check(node);
    }
    muster_yaml_free(yaml);
    return 0;
}
