/*
 * suggest.c -- restricted edit distance (insert, delete, change, swap).
 *
 * Three rows of the usual table, on the stack; names are short.
 */
#include "base/suggest.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

#define NAME_MAX_LENGTH MUSTER_SUGGEST_NAME_MAX

static unsigned smaller(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

unsigned muster_suggest_distance(const char *typed, const char *known)
{
    size_t n = strlen(typed);
    size_t m = strlen(known);
    if (n > NAME_MAX_LENGTH || m > NAME_MAX_LENGTH) {
        return UINT32_MAX;
    }
    unsigned rows[3][NAME_MAX_LENGTH + 1];
    for (size_t j = 0; j <= m; j++) {
        rows[0][j] = (unsigned)j;
    }
    for (size_t i = 1; i <= n; i++) {
        unsigned *now = rows[i % 3];
        const unsigned *before = rows[(i + 2) % 3];
        const unsigned *earlier = rows[(i + 1) % 3];
        now[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            unsigned change = before[j - 1] + (typed[i - 1] != known[j - 1]);
            now[j] = smaller(change, smaller(before[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && typed[i - 1] == known[j - 2] &&
                typed[i - 2] == known[j - 1]) {
                now[j] = smaller(now[j], earlier[j - 2] + 1);
            }
        }
    }
    return rows[n % 3][m];
}

/* The largest distance at which a suggestion still helps. */
static unsigned limit(const char *typed)
{
    size_t length = strlen(typed);
    return length <= 3 ? 1 : length <= 6 ? 2 : 3;
}

muster_suggestion muster_suggestion_make(const char *typed, size_t length)
{
    muster_suggestion suggestion = {.names = ""};
    size_t kept = length < NAME_MAX_LENGTH ? length : NAME_MAX_LENGTH;
    memcpy(suggestion.typed, typed, kept);
    suggestion.distance = length == 0 || length > NAME_MAX_LENGTH
                              ? 0
                              : limit(suggestion.typed) + 1;
    return suggestion;
}

void muster_suggestion_add(muster_suggestion *suggestion, const char *name)
{
    size_t used = strlen(suggestion->names);
    (void)snprintf(suggestion->names + used, sizeof(suggestion->names) - used,
                   "%s%s", used > 0 ? ", " : "", name);
    char base[NAME_MAX_LENGTH + 1];
    (void)snprintf(base, sizeof(base), "%.*s", (int)strcspn(name, ":"), name);
    unsigned distance =
        smaller(muster_suggest_distance(suggestion->typed, name),
                muster_suggest_distance(suggestion->typed, base));
    if (distance < suggestion->distance) {
        suggestion->distance = distance;
        (void)snprintf(suggestion->nearest, sizeof(suggestion->nearest), "%s",
                       name);
    }
}

void muster_suggestion_add_all(muster_suggestion *suggestion,
                               const char *const *names)
{
    for (; *names != NULL; names++) {
        muster_suggestion_add(suggestion, *names);
    }
}

void muster_suggestion_add_list(muster_suggestion *suggestion, const char *list,
                                char separator)
{
    const char separators[] = {separator, '\0'};
    while (*list != '\0') {
        char name[NAME_MAX_LENGTH + 1];
        size_t length = strcspn(list, separators);
        (void)snprintf(name, sizeof(name), "%.*s", (int)length, list);
        muster_suggestion_add(suggestion, name);
        list += length + (list[length] == separator);
    }
}

muster_status muster_suggestion_fail(const muster_suggestion *suggestion,
                                     const char *place, muster_error *error_out)
{
    if (suggestion->nearest[0] != '\0') {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "%s%s: unknown; did you mean %s? There are %s",
                                place, suggestion->typed, suggestion->nearest,
                                suggestion->names);
    }
    return muster_error_set(error_out, MUSTER_ERR_INVALID,
                            "%s%s: unknown; there are %s", place,
                            suggestion->typed, suggestion->names);
}
