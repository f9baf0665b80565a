/*
 * base/yaml.h -- a YAML text as a tree of maps, lists and scalars.
 *
 *     version: 1
 *     workers:
 *       - {name: a, speed: 2}
 *
 * The one user of libyaml. A node knows its line and its path
 * ("workers[0].speed"), so that a reader can say where something is wrong.
 * Scalars are texts: what they mean is the reader's business (base/value.h).
 *
 *   Promise      A tree grows with its text alone: there are no aliases, a
 *                key stands once in a map, a map has at most
 *                MUSTER_YAML_KEYS_MAX keys, and containers lie at most
 *                MUSTER_YAML_DEPTH_MAX deep. All else is refused.
 *   Lifecycle    parse; look; free, which ends all nodes.
 *   Threads      A parsed tree does not change.
 */
#ifndef MUSTER_BASE_YAML_H
#define MUSTER_BASE_YAML_H

#include <stddef.h>
#include <stdint.h>

#include "muster/status.h"

#define MUSTER_YAML_DEPTH_MAX 16u
#define MUSTER_YAML_KEYS_MAX  1024u

typedef enum muster_yaml_kind {
    MUSTER_YAML_SCALAR = 1,
    MUSTER_YAML_MAP = 2,
    MUSTER_YAML_LIST = 3,
} muster_yaml_kind;

typedef struct muster_yaml_node {
    muster_yaml_kind kind;
    uint32_t line;                         // from 1
    uint32_t key_line;                     // of its key, or as `line`
    uint32_t index;                        // among the children of its parent
    uint32_t count;                        // of children
    const char *key;                       // in a map; else NULL
    const char *text;                      // of a scalar; else NULL
    const struct muster_yaml_node *parent; // NULL: the top
    const struct muster_yaml_node *first;  // child, or NULL
    const struct muster_yaml_node *next;   // sibling, or NULL
} muster_yaml_node;

typedef struct muster_yaml muster_yaml;

/*
 * Parse `size` bytes; `file` names them in errors, "FILE:LINE: ..", and must
 * live as long as the tree.
 * MUSTER_ERR_INVALID    not YAML, or more of it than a tree takes
 * MUSTER_ERR_NO_MEMORY
 */
MUSTER_CHECKED muster_status muster_yaml_parse(const char *text, size_t size,
                                               const char *file,
                                               muster_error *error_out,
                                               muster_yaml **yaml_out);
void muster_yaml_free(muster_yaml *yaml);

/* NULL when the text has no more than comments. */
const muster_yaml_node *muster_yaml_top(const muster_yaml *yaml);

/* The value of a key in a map; NULL when it is not there. */
const muster_yaml_node *muster_yaml_get(const muster_yaml_node *map,
                                        const char *key);

/* "workers[0].speed"; "" for the top. Cut where it does not fit. */
void muster_yaml_path(const muster_yaml_node *node, char *path_out,
                      size_t size);

/* "FILE:LINE: PATH: WHY", or without the path at the top; always
 * MUSTER_ERR_INVALID. */
MUSTER_CHECKED muster_status muster_yaml_refuse(const muster_yaml *yaml,
                                                const muster_yaml_node *node,
                                                const char *why,
                                                muster_error *error_out);

#endif // MUSTER_BASE_YAML_H
