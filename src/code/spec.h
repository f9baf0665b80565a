/*
 * code/spec.h -- the name and numbers of a code, taken apart.
 *
 *     NAME[:key=value[,key=value..]]        frc:s=2    ye-abbe:s=2,m=3
 *     linear:KIND[:key=value..]             linear:tuned:s=2,m=2
 *     linear:file=PATH[:d=8]                PATH is all that follows, but for
 *                                           a minimum distance that is stated
 *
 * s, m, d and seed are known to every family and win over the fields of
 * muster_code_opts, as is force=1: build a code whose decodings are mostly
 * wrong in double, to look at it. Other keys belong to a family, which must
 * take all of them: what it does not take is refused by name. So is a key that
 * is given twice.
 *
 *   Ownership    A spec holds copies, but for speeds, which are lent.
 *   Threads      Pure.
 */
#ifndef MUSTER_CODE_SPEC_H
#define MUSTER_CODE_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "muster/code.h"

#define MUSTER_CODE_SPEC_OPTIONS_MAX 8u
#define MUSTER_CODE_SPEC_TEXT_MAX    64u
#define MUSTER_CODE_SPEC_PATH_MAX    4096u

typedef struct muster_code_spec_option {
    char key[MUSTER_CODE_SPEC_TEXT_MAX];
    char value[MUSTER_CODE_SPEC_TEXT_MAX];
} muster_code_spec_option;

typedef struct muster_code_spec {
    char family[MUSTER_CODE_SPEC_TEXT_MAX]; // "frc", "linear:tuned"
    uint32_t workers;                       // n
    uint32_t stragglers;                    // s
    uint32_t comm;                          // m, 0: the code's default
    uint32_t load;                          // d, 0: the least
    bool force;                             // build it even if useless
    uint32_t common_given; // bits: s, m, d, seed, force were in the name
    uint64_t seed;
    const double *speeds; // lent by the caller of create
    uint32_t option_count;
    muster_code_spec_option options[MUSTER_CODE_SPEC_OPTIONS_MAX];
    char path[MUSTER_CODE_SPEC_PATH_MAX]; // of linear:file, or ""
    uint32_t distance;    // of linear:file as stated, 0: not stated
    const char *topology; // of hier; lent by the caller of create
} muster_code_spec;

/* Parse opts->name and merge. MUSTER_ERR_INVALID with a message;
 * MUSTER_ERR_UNSUPPORTED: s leaves no worker. */
MUSTER_CHECKED muster_status
muster_code_spec_parse(const muster_code_opts *opts, muster_error *error,
                       muster_code_spec *spec_out);

/* The value of a family's own key, or NULL. */
const char *muster_code_spec_option_get(const muster_code_spec *spec,
                                        const char *key);

/* Its value as a number in low..high into *value_out, untouched when absent.
 * MUSTER_ERR_INVALID: no whole number; MUSTER_ERR_UNSUPPORTED: another one. */
MUSTER_CHECKED muster_status muster_code_spec_option_number(
    const muster_code_spec *spec, const char *key, uint32_t low, uint32_t high,
    muster_error *error, uint32_t *value_out);

/* Refuse keys that are not in `known` (comma-separated, may be ""). */
MUSTER_CHECKED muster_status muster_code_spec_accept(
    const muster_code_spec *spec, const char *known, muster_error *error);

/* The rule d >= s + m of most families: fills in what was left out (m = 1 at
 * least, d = s + m, or s = d - m when only the load was given) and refuses
 * s >= n, d > n and m > d - s. A larger load buys tolerance. */
MUSTER_CHECKED muster_status muster_code_spec_balance(muster_code_spec *spec,
                                                      muster_error *error);

/* Refuse m > 1 for families without splitting. */
MUSTER_CHECKED muster_status
muster_code_spec_whole(const muster_code_spec *spec, muster_error *error);

/* All three, for families with whole messages. */
MUSTER_CHECKED muster_status muster_code_spec_settle(muster_code_spec *spec,
                                                     const char *known,
                                                     muster_error *error);

#endif // MUSTER_CODE_SPEC_H
