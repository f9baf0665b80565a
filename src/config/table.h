/*
 * config/table.h -- the rows of options.def and verbs.def as data.
 *
 * Private to this room: the parsers, writers and the help walk these rows
 * instead of naming options.
 */
#ifndef MUSTER_CONFIG_TABLE_H
#define MUSTER_CONFIG_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/suggest.h"
#include "config/config.h"

typedef enum muster_option_type {
    MUSTER_TYPE_STRING,
    MUSTER_TYPE_UINT,
    MUSTER_TYPE_DOUBLE,
    MUSTER_TYPE_FLAG,
    MUSTER_TYPE_DURATION,
    MUSTER_TYPE_LIST,
} muster_option_type;

typedef enum muster_verb {
#define VERB(id, name, positional, usage, summary, example) MUSTER_VERB_##id,
#include "config/verbs.def"
#undef VERB
    MUSTER_VERB_COUNT
} muster_verb;

/* In muster_option_row.verbs beside the verbs' bits. */
#define MUSTER_OPTION_UNSAVED (1u << 31)

typedef struct muster_option_row {
    const char *name;
    muster_option_type type;
    uint32_t verbs; // bit 1 << muster_verb
    double min;     // of numbers; seconds for durations
    double max;
    const char *fallback; // the default as text, or NULL
    const char *meta;     // NULL for flags
    const char *help;
} muster_option_row;

typedef struct muster_verb_row {
    const char *name;
    muster_option positional; // MUSTER_OPT_COUNT: none
    const char *usage;
    const char *summary;
    const char *example;
} muster_verb_row;

/* A line of options.def: a heading of --help, or an option. */
typedef struct muster_option_line {
    const char *heading; // NULL for an option
    muster_option option;
} muster_option_line;

/* The lines in order, ended by one with neither. */
const muster_option_line *muster_option_lines(void);

const muster_option_row *muster_option_get(muster_option option);
const muster_verb_row *muster_verb_get(muster_verb verb);

/* MUSTER_VERB_COUNT when there is none. */
muster_verb muster_verb_find(const char *name);

bool muster_option_serves(muster_option option, muster_verb verb);

/* The option of `verb` with this name, MUSTER_OPT_COUNT when there is none. */
muster_option muster_option_find(muster_verb verb, const char *name);

/* What may have been meant, among the verb's options. */
muster_suggestion muster_option_suggest(muster_verb verb, const char *name);

#endif // MUSTER_CONFIG_TABLE_H
