/*
 * table.c -- options.def and verbs.def turned into arrays.
 *
 * The words that options.def uses for types and verbs are macros of this file
 * only.
 */
#include "config/table.h"

#include <string.h>

#include "base/assert.h"

#define TRAIN     (1u << MUSTER_VERB_TRAIN)
#define JOIN      (1u << MUSTER_VERB_JOIN)
#define PREDICT   (1u << MUSTER_VERB_PREDICT)
#define SIMULATE  (1u << MUSTER_VERB_SIMULATE)
#define CODE      (1u << MUSTER_VERB_CODE)
#define PLAN      (1u << MUSTER_VERB_PLAN)
#define PARTITION (1u << MUSTER_VERB_PARTITION)
#define UNSAVED   MUSTER_OPTION_UNSAVED

#define RANGE(kind, from, to) .type = (kind), .min = (from), .max = (to)
#define STRING                RANGE(MUSTER_TYPE_STRING, 0, 0)
#define LIST                  RANGE(MUSTER_TYPE_LIST, 0, 0)
#define FLAG                  RANGE(MUSTER_TYPE_FLAG, 0, 0)
#define UINT(from, to)        RANGE(MUSTER_TYPE_UINT, (from), (to))
#define DOUBLE(from, to)      RANGE(MUSTER_TYPE_DOUBLE, (from), (to))
#define DURATION(from, to)    RANGE(MUSTER_TYPE_DURATION, (from), (to))

static const muster_option_row rows[MUSTER_OPT_COUNT] = {
#define OPTION(id, label, range, deflt, mask, value, text) \
    [MUSTER_OPT_##id] = {.name = (label),                  \
                         range,                            \
                         .fallback = (deflt),              \
                         .verbs = (mask),                  \
                         .meta = (value),                  \
                         .help = (text)},
#include "config/options.def"
#undef OPTION
};

static const muster_option_line lines[] = {
#define OPTION(id, name, type, fallback, verbs, meta, help) \
    {NULL, MUSTER_OPT_##id},
#define SECTION(title) {title, MUSTER_OPT_COUNT},
#include "config/options.def"
#undef OPTION
    {NULL, MUSTER_OPT_COUNT},
};

#define MUSTER_OPT_NONE MUSTER_OPT_COUNT

static const muster_verb_row verb_rows[MUSTER_VERB_COUNT] = {
#define VERB(id, name, positional, usage, summary, example) \
    [MUSTER_VERB_##                                         \
        id] = {name, MUSTER_OPT_##positional, usage, summary, example},
#include "config/verbs.def"
#undef VERB
};

const muster_option_line *muster_option_lines(void)
{
    return lines;
}

const muster_option_row *muster_option_get(muster_option option)
{
    MUSTER_ASSERT(option < MUSTER_OPT_COUNT);
    return &rows[option];
}

const muster_verb_row *muster_verb_get(muster_verb verb)
{
    MUSTER_ASSERT(verb < MUSTER_VERB_COUNT);
    return &verb_rows[verb];
}

muster_verb muster_verb_find(const char *name)
{
    for (muster_verb verb = 0; verb < MUSTER_VERB_COUNT; verb++) {
        if (strcmp(verb_rows[verb].name, name) == 0) {
            return verb;
        }
    }
    return MUSTER_VERB_COUNT;
}

bool muster_option_serves(muster_option option, muster_verb verb)
{
    return (muster_option_get(option)->verbs >> verb & 1u) != 0;
}

muster_option muster_option_find(muster_verb verb, const char *name)
{
    for (muster_option option = 0; option < MUSTER_OPT_COUNT; option++) {
        if (muster_option_serves(option, verb) &&
            strcmp(rows[option].name, name) == 0) {
            return option;
        }
    }
    return MUSTER_OPT_COUNT;
}

muster_suggestion muster_option_suggest(muster_verb verb, const char *name)
{
    muster_suggestion meant = muster_suggestion_make(name, strlen(name));
    for (muster_option option = 0; option < MUSTER_OPT_COUNT; option++) {
        if (muster_option_serves(option, verb)) {
            muster_suggestion_add(&meant, rows[option].name);
        }
    }
    return meant;
}
