/*
 * base/spec.h -- the one reader of NAME:key=value,key=value.
 *
 *     mf:rank=32,order=column      mlp:hidden=256,128      iid:p=0.1,delay=2ms
 *
 * A name, and after a colon pairs separated by commas. A piece without '='
 * belongs to the value before it, so that a value may be a list. Numbers are
 * decimal and times carry a unit (base/value.h). A key is given once.
 *
 * Who takes such a spec describes its keys by a table of fields, and
 * muster_spec_read() fills a struct. Every error is one line that names option,
 * key and value, says what is expected, and suggests the nearest name.
 *
 *   Threads      Pure functions.
 */
#ifndef MUSTER_BASE_SPEC_H
#define MUSTER_BASE_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "muster/status.h"

/* ---- the name ------------------------------------------------------------ */

/* The length of the name; *params_out is what follows its colon, or "". */
size_t muster_spec_name(const char *spec, const char **params_out);

/* Does `spec` have this name? */
bool muster_spec_is(const char *spec, const char *name);

/* ---- the pairs ----------------------------------------------------------- */

typedef struct muster_spec_pair {
    const char *key; // lent: points into the text
    size_t key_length;
    const char *value; // NULL: the piece has no '='
    size_t value_length;
} muster_spec_pair;

/* The next pair, and *cursor after it; false at the end of the text. */
bool muster_spec_next(const char **cursor, muster_spec_pair *pair_out);

/* ---- a table of keys ----------------------------------------------------- */

typedef enum muster_spec_type {
    MUSTER_SPEC_UINT = 1,    // uint32_t
    MUSTER_SPEC_UINT64 = 2,  // uint64_t
    MUSTER_SPEC_DOUBLE = 3,  // double
    MUSTER_SPEC_SECONDS = 4, // double, from a time such as 20ms
    MUSTER_SPEC_WORD = 5,    // uint32_t: index into `words`
    MUSTER_SPEC_TEXT = 6,    // char[most], with its terminating zero
} muster_spec_type;

typedef struct muster_spec_field {
    const char *name; // NULL ends a table
    muster_spec_type type;
    size_t offset;     // in the struct that is filled
    double min, max;   // inclusive; of numbers and times
    const char *words; // MUSTER_SPEC_WORD: "column|random"
    bool required;
} muster_spec_field;

/* As `least`: any number above 0. As `most`: no limit. */
#define MUSTER_SPEC_ABOVE_0  2.2250738585072014e-308
#define MUSTER_SPEC_NO_LIMIT 1.7976931348623157e+308

/* Longest value, with its terminating zero. */
#define MUSTER_SPEC_VALUE_MAX 512u

/*
 * Overwrite the fields of `into` that `params` ("rank=32,order=column") names;
 * the others keep their value. `place` ("--model mf") opens an error. When
 * given_out is not NULL, bit i says whether field i was named (at most 64).
 *
 * MUSTER_ERR_INVALID: an unknown key, one that is given twice, a value that is
 * not what the field takes, or a required field without one.
 */
MUSTER_CHECKED muster_status muster_spec_read(const char *place,
                                              const char *params,
                                              const muster_spec_field *fields,
                                              void *into, uint64_t *given_out,
                                              muster_error *error_out);

#endif // MUSTER_BASE_SPEC_H
