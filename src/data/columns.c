#include "data/columns.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/suggest.h"

#define LIST_MAX 280 // characters of a list of columns in an error
#define NAME_MAX 64  // characters of a name in an error

static bool is_blank(const muster_column_walk *walk, char c)
{
    return c == ' ' || (c == '\t' && walk->separator != '\t');
}

// The closing quote of the text after an opening one, or the end of the line.
static const char *quote_end(const char *p)
{
    while (*p != '\0' && !(p[0] == '"' && p[1] != '"')) {
        p += p[0] == '"' ? 2 : 1;
    }
    return p;
}

bool muster_column_next(muster_column_walk *walk)
{
    const char *p = walk->at;
    while (p != NULL && is_blank(walk, *p)) {
        p++;
    }
    // Spaces that separate also end the line.
    if (p == NULL || (*p == '\0' && walk->separator == ' ')) {
        return false;
    }
    bool quoted = *p == '"';
    const char *start = p + quoted;
    const char *end = quoted ? quote_end(start) : start;
    p = end;
    while (*p != '\0' && *p != walk->separator) {
        p++;
    }
    end = quoted ? end : p;
    while (end > start && is_blank(walk, end[-1])) {
        end--;
    }
    walk->name = start;
    walk->length = (size_t)(end - start);
    walk->number++;
    walk->at = *p == '\0' ? NULL : p + 1;
    return true;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static bool is_called(const muster_column_walk *walk, const char *name,
                      bool any_case)
{
    if (strlen(name) != walk->length) {
        return false;
    }
    bool same = true;
    for (size_t i = 0; same && i < walk->length; i++) {
        char c = walk->name[i];
        same = name[i] == c || (any_case && lower(name[i]) == lower(c));
    }
    return same;
}

// What a label is called where nobody says, the likeliest name first.
static const char *const label_words[] = {"label", "class", "target", "y"};
#define LABEL_WORDS (sizeof(label_words) / sizeof(label_words[0]))

bool muster_column_names_label(const muster_column_walk *walk,
                               const muster_label_column *wanted)
{
    bool found = wanted->name != NULL && is_called(walk, wanted->name, true);
    for (size_t i = 0; !found && i < LABEL_WORDS; i++) {
        found = is_called(walk, label_words[i], true);
    }
    return found;
}

static muster_column_walk walk_of(const muster_columns *columns)
{
    return (muster_column_walk){.at = columns->names,
                                .separator = columns->separator};
}

// ": a, b, c", as many as there is room for; "" without names.
static const char *list_columns(const muster_columns *columns, char *list)
{
    size_t used = 0;
    list[0] = '\0';
    muster_column_walk walk = walk_of(columns);
    while (muster_column_next(&walk)) {
        if (used + walk.length + 8 > LIST_MAX) {
            (void)snprintf(list + used, LIST_MAX - used, ", ..");
            break;
        }
        used += (size_t)snprintf(list + used, LIST_MAX - used, "%s%.*s",
                                 used == 0 ? ": " : ", ", (int)walk.length,
                                 walk.name);
    }
    return list;
}

// "; did you mean 'price'?" where a name is near, else "".
static void suggest(const muster_columns *columns, const char *typed,
                    char *text, size_t size)
{
    muster_suggestion meant = muster_suggestion_make(typed, strlen(typed));
    muster_column_walk walk = walk_of(columns);
    while (muster_column_next(&walk)) {
        char name[NAME_MAX];
        (void)snprintf(name, sizeof(name), "%.*s", (int)walk.length, walk.name);
        muster_suggestion_add(&meant, name);
    }
    bool found = meant.nearest[0] != '\0';
    (void)snprintf(text, size, "%s%s%s", found ? "; did you mean '" : "",
                   meant.nearest, found ? "'?" : "");
}

static muster_status fail_name(const muster_columns *columns,
                               const muster_label_column *wanted,
                               const char *file, muster_error *error_out)
{
    char list[LIST_MAX];
    char meant[NAME_MAX + 32];
    list_columns(columns, list);
    if (!wanted->is_given) {
        return muster_error_set(error_out, MUSTER_ERR_INPUT,
                                "%s: no column is called '%.60s', as the "
                                "training set's label is (--label names "
                                "another); it has%s",
                                file, wanted->name, list);
    }
    suggest(columns, wanted->name, meant, sizeof(meant));
    return muster_error_set(error_out, MUSTER_ERR_INVALID,
                            "--label %.60s: %s has no such column%s%s%s",
                            wanted->name, file, meant,
                            meant[0] != '\0' ? " It has" : "; it has", list);
}

// The column of this name; *number_out is 0 when there is none.
static muster_status find_name(const muster_columns *columns,
                               const muster_label_column *wanted,
                               const char *file, muster_error *error_out,
                               uint64_t *number_out)
{
    *number_out = 0;
    for (int any_case = 0; any_case < 2 && *number_out == 0; any_case++) {
        muster_column_walk walk = walk_of(columns);
        while (muster_column_next(&walk)) {
            if (!is_called(&walk, wanted->name, any_case == 1)) {
                continue;
            }
            if (*number_out != 0) {
                return muster_error_set(
                    error_out,
                    wanted->is_given ? MUSTER_ERR_INVALID : MUSTER_ERR_INPUT,
                    "--label %.60s: %s has two such columns, %llu and %llu: "
                    "give the number",
                    wanted->name, file, (unsigned long long)*number_out,
                    (unsigned long long)walk.number);
            }
            *number_out = walk.number;
        }
    }
    return MUSTER_OK;
}

static muster_status check_number(const muster_columns *columns,
                                  const muster_label_column *wanted,
                                  const char *file, muster_error *error_out)
{
    char list[LIST_MAX];
    unsigned long long count = columns->count;
    bool good = wanted->number > 0 && wanted->number <= columns->count;
    if (!good && !wanted->is_given) {
        return muster_error_set(error_out, MUSTER_ERR_INPUT,
                                "%s: has columns 1 to %llu, but the training "
                                "set's label is column %u",
                                file, count, wanted->number);
    }
    if (!good && wanted->name != NULL) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "--label %.60s: %s has no line of names: give "
                                "a number, 1 to %llu",
                                wanted->name, file, count);
    }
    return good ? MUSTER_OK
                : muster_error_set(error_out, MUSTER_ERR_INVALID,
                                   "--label %u: %s has columns 1 to %llu%s",
                                   wanted->number, file, count,
                                   list_columns(columns, list));
}

static void guess(const muster_columns *columns,
                  const muster_label_column *wanted,
                  muster_label_choice *choice)
{
    for (size_t i = 0; i < LABEL_WORDS; i++) {
        muster_column_walk walk = walk_of(columns);
        while (choice->number == 0 && muster_column_next(&walk)) {
            if (is_called(&walk, label_words[i], true)) {
                choice->number = walk.number;
                choice->why = ", by its name (--label chooses another)";
            }
        }
    }
    bool lacks = wanted->unlabelled == MUSTER_LABEL_ANY_COLUMNS ||
                 wanted->unlabelled == columns->count;
    if (choice->number == 0 && !lacks) {
        choice->number = columns->count;
        choice->why = ", the last one (--label chooses another)";
    }
}

static void take_name(const muster_columns *columns,
                      muster_label_choice *choice)
{
    muster_column_walk walk = walk_of(columns);
    while (muster_column_next(&walk)) {
        if (walk.number == choice->number) {
            choice->name = walk.name;
            choice->name_length = walk.length;
        }
    }
}

muster_status muster_label_choose(const muster_columns *columns,
                                  const muster_label_column *wanted,
                                  const char *file, muster_error *error_out,
                                  muster_label_choice *choice_out)
{
    muster_label_choice choice = {.why = ""};
    muster_status status = MUSTER_OK;
    bool may_lack = !wanted->is_given && columns->count == wanted->unlabelled;
    if (wanted->name != NULL && columns->names != NULL) {
        status = find_name(columns, wanted, file, error_out, &choice.number);
        if (status == MUSTER_OK && choice.number == 0 && !may_lack) {
            status = fail_name(columns, wanted, file, error_out);
        }
    } else if (wanted->is_given || wanted->number > 0) {
        if (!may_lack) {
            status = check_number(columns, wanted, file, error_out);
            choice.number = wanted->number;
        }
    } else {
        guess(columns, wanted, &choice);
    }
    if (status == MUSTER_OK) {
        take_name(columns, &choice);
        *choice_out = choice;
    }
    return status;
}
