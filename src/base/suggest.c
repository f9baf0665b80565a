/*
 * suggest.c -- restricted edit distance (insert, delete, change, swap).
 *
 * Three rows of the usual table, on the stack; names are short.
 */
#include "base/suggest.h"

#include <stdint.h>
#include <string.h>

#define NAME_MAX_LENGTH 63u

static unsigned least(unsigned a, unsigned b)
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
            now[j] = least(change, least(before[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && typed[i - 1] == known[j - 2] &&
                typed[i - 2] == known[j - 1]) {
                now[j] = least(now[j], earlier[j - 2] + 1);
            }
        }
    }
    return rows[n % 3][m];
}

unsigned muster_suggest_limit(const char *typed)
{
    size_t length = strlen(typed);
    return length <= 3 ? 1 : length <= 6 ? 2 : 3;
}
