/*
 * base/suggest.h -- the name that was meant, when an unknown one was typed.
 *
 *   muster_suggestion meant = muster_suggestion_make("sofmax", 6);
 *   muster_suggestion_add(&meant, "softmax");     // every name that there is
 *   return muster_suggestion_fail(&meant, "--model ", error_out);
 *
 * says "--model sofmax: unknown; did you mean softmax? There are ..".
 */
#ifndef MUSTER_BASE_SUGGEST_H
#define MUSTER_BASE_SUGGEST_H

#include <stddef.h>

#include "muster/status.h"

/* Names of more letters are near to nothing. */
#define MUSTER_SUGGEST_NAME_MAX 63u

typedef struct muster_suggestion {
    char typed[MUSTER_SUGGEST_NAME_MAX + 1];   // cut where it is longer
    char nearest[MUSTER_SUGGEST_NAME_MAX + 1]; // "": no name is near
    char names[512];                           // "a, b, c"
    unsigned distance;                         // of the nearest name
} muster_suggestion;

/* For the first `length` bytes of `typed`. */
muster_suggestion muster_suggestion_make(const char *typed, size_t length);

/* One of the names that there are. It may show how it is written, "rotate:30":
 * what follows a colon need not be near. */
void muster_suggestion_add(muster_suggestion *suggestion, const char *name);

/* All names of an array that NULL ends. */
void muster_suggestion_add_all(muster_suggestion *suggestion,
                               const char *const *names);

/* The names of a list such as "column|random", separated by `separator`. */
void muster_suggestion_add_list(muster_suggestion *suggestion, const char *list,
                                char separator);

/* MUSTER_ERR_INVALID with a text that `place` ("--model ") opens. */
MUSTER_CHECKED muster_status
muster_suggestion_fail(const muster_suggestion *suggestion, const char *place,
                       muster_error *error_out);

/* Letters to insert, delete, change, or swap with their neighbour; UINT32_MAX
 * when a name is too long. */
unsigned muster_suggest_distance(const char *typed, const char *known);

#endif // MUSTER_BASE_SUGGEST_H
