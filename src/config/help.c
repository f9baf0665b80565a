/*
 * help.c -- `muster VERB --help`, made from the table.
 *
 * Flags at column 2, help at column 26, wrapped at 80. Headings without an
 * option of this verb are left out, and so are clauses of a help text that are
 * for other verbs: "; join: .." or ". join: ..".
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/vec.h"
#include "config/table.h"

#define HELP_COLUMN 26u
#define HELP_WIDTH  80u

typedef struct help_text {
    muster_vec bytes; // of char
    bool failed;
} help_text;

static void add(help_text *text, const char *piece, size_t length)
{
    text->failed |= !muster_vec_append(&text->bytes, piece, length);
}

static void add_text(help_text *text, const char *piece)
{
    add(text, piece, strlen(piece));
}

static void add_spaces(help_text *text, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        add(text, " ", 1);
    }
}

/* Words of `words`, continued at HELP_COLUMN when a line is full. */
static void add_wrapped(help_text *text, const char *words)
{
    size_t column = HELP_COLUMN;
    while (*words != '\0') {
        size_t length = strcspn(words, " ");
        if (column > HELP_COLUMN && column + 1 + length > HELP_WIDTH) {
            add_text(text, "\n");
            add_spaces(text, HELP_COLUMN);
            column = HELP_COLUMN;
        } else if (column > HELP_COLUMN) {
            add_text(text, " ");
            column++;
        }
        add(text, words, length);
        column += length;
        words += length + strspn(words + length, " ");
    }
    add_text(text, "\n");
}

/* Defaults of 0 and false are said in words by the help, or go without. */
static bool shows_default(const muster_option_row *row)
{
    return row->fallback != NULL && strcmp(row->fallback, "0") != 0 &&
           row->type != MUSTER_TYPE_FLAG;
}

/* The verb whose clause begins here, as in "join: ..", or MUSTER_VERB_COUNT. */
static muster_verb clause_verb(const char *help, const char *at)
{
    char name[16] = "";
    size_t length = strcspn(at, ": ");
    bool begins = at == help || (at - help >= 2 && at[-1] == ' ' &&
                                 (at[-2] == ';' || at[-2] == '.'));
    if (!begins || length >= sizeof(name) ||
        strncmp(at + length, ": ", 2) != 0) {
        return MUSTER_VERB_COUNT;
    }
    memcpy(name, at, length);
    return muster_verb_find(name);
}

/* What `help` says to this verb: clauses of others are left out. */
static void choose_clauses(const char *help, muster_verb verb, char *into,
                           size_t room)
{
    bool wanted = true;
    size_t length = 0;
    for (const char *at = help; *at != '\0'; at++) {
        muster_verb of = clause_verb(help, at);
        if (of != MUSTER_VERB_COUNT) {
            wanted = of == verb;
            at += length == 0 ? strcspn(at, " ") + 1 : 0; // its name is clear
        }
        if (wanted && length + 1 < room) {
            into[length++] = *at;
        }
    }
    while (length > 0 && strchr(" ;.", into[length - 1]) != NULL) {
        length--;
    }
    into[length] = '\0';
}

static void add_option(help_text *text, const muster_option_row *row,
                       muster_verb verb)
{
    char left[96];
    char clauses[600];
    char help[700];
    choose_clauses(row->help, verb, clauses, sizeof(clauses));
    snprintf(left, sizeof(left), "  --%s%s%s", row->name,
             row->meta != NULL ? " " : "", row->meta != NULL ? row->meta : "");
    snprintf(
        help, sizeof(help), "%s%s%s%s", clauses, shows_default(row) ? " [" : "",
        shows_default(row) ? row->fallback : "", shows_default(row) ? "]" : "");
    add_text(text, left);
    size_t width = strlen(left);
    if (width + 2 > HELP_COLUMN) {
        add_text(text, "\n");
        width = 0;
    }
    add_spaces(text, HELP_COLUMN - width);
    add_wrapped(text, help);
}

static void add_options(help_text *text, muster_verb verb)
{
    const char *heading = NULL;
    for (const muster_option_line *line = muster_option_lines();
         line->heading != NULL || line->option != MUSTER_OPT_COUNT; line++) {
        if (line->heading != NULL) {
            heading = line->heading;
        } else if (muster_option_serves(line->option, verb)) {
            if (heading != NULL) {
                add_text(text, "\n");
                add_text(text, heading);
                add_text(text, ":\n");
                heading = NULL;
            }
            add_option(text, muster_option_get(line->option), verb);
        }
    }
}

char *muster_config_help(const char *verb)
{
    muster_verb number = muster_verb_find(verb);
    if (number == MUSTER_VERB_COUNT) {
        return NULL;
    }
    const muster_verb_row *row = muster_verb_get(number);
    help_text text = {.bytes = muster_vec_make(1)};
    const char *const pieces[] = {
        "usage: muster ", row->name,          " ",          row->usage, "\n\n",
        row->summary,     "\n\nExample:\n  ", row->example, "\n"};
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        add_text(&text, pieces[i]);
    }
    add_options(&text, number);
    add(&text, "", 1);
    if (text.failed) {
        muster_vec_fini(&text.bytes);
        return NULL;
    }
    return text.bytes.data;
}
