/*
 * model/options.h -- the options after a name: "hidden=256,128,seed=3".
 *
 * Pairs are separated by commas; a piece without '=' belongs to the value
 * before it, so that a value may be a list. Empty text has no pairs.
 *
 *   Ownership    Pairs lend pointers into the text.
 */
#ifndef MUSTER_MODEL_OPTIONS_H
#define MUSTER_MODEL_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "muster/status.h"

typedef struct muster_model_option {
    const char *key;
    size_t key_length;
    const char *value;
    size_t value_length;
} muster_model_option;

/* The next pair, and *cursor after it; false at the end. Text that is not a
 * pair comes out as a key with value == NULL. */
bool muster_model_option_next(const char **cursor,
                              muster_model_option *option_out);

bool muster_model_option_is(const muster_model_option *option, const char *key);

/* The value as a finite number; false if it is anything else. */
bool muster_model_option_number(const muster_model_option *option,
                                double *number_out);

/* One number that an option sets, and the range it may have. */
typedef struct muster_model_setting {
    const char *key;
    double least;
    double most;
    bool whole; // integers only
    double *number;
} muster_model_setting;

/*
 * Read `text` ("beta=0.9,eps=1e-8" or "") into settings; keys not given keep
 * their number. `what` ("optimizer adam") opens the error text. Fails with
 * MUSTER_ERR_INVALID on an unknown key, which the text answers with the known
 * ones, and on a number out of range.
 */
MUSTER_CHECKED muster_status muster_model_options_read(
    const char *what, const char *text, const muster_model_setting *settings,
    size_t count, muster_error *error_out);

#endif // MUSTER_MODEL_OPTIONS_H
