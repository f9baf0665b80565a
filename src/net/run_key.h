/*
 * net/run_key.h -- the key of a run, from its file.
 *
 *   Promise      A file that others than its owner can open is refused.
 *   Not here     How a key is proved: tls.h. Making one: muster/key.h.
 */
#ifndef MUSTER_NET_RUN_KEY_H
#define MUSTER_NET_RUN_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "muster/status.h"

#define MUSTER_RUN_KEY_BYTES 32u

typedef struct muster_run_key {
    uint8_t bytes[MUSTER_RUN_KEY_BYTES];
} muster_run_key;

/* MUSTER_ERR_INPUT: it cannot be read, its group or others can read or write
 * it, or it holds no key; error_out says which, and what would be right. */
MUSTER_CHECKED muster_status muster_run_key_read(const char *path,
                                                 muster_error *error_out,
                                                 muster_run_key *key_out);

/* The key that this process was given: from `path`, or where that is NULL from
 * the file that MUSTER_KEY_FILE names. *found_out false: none was. Errors as
 * above. */
MUSTER_CHECKED muster_status muster_run_key_find(const char *path,
                                                 muster_error *error_out,
                                                 muster_run_key *key_out,
                                                 bool *found_out);

#endif // MUSTER_NET_RUN_KEY_H
