/*
 * muster/config.h -- the options of a verb, by name.
 *
 * Start with the defaults of a verb ("train", "simulate", ..), then set options
 * from flags, a YAML file or one by one; names are those of `muster VERB
 * --help`, without the dashes.
 *
 *   Promise      What cannot be right is refused with a line that names the
 *                flag or file:line, and suggests the nearest known name.
 *   Ownership    The caller's from create to free.
 *   Threads      One at a time.
 */
#ifndef MUSTER_CONFIG_H
#define MUSTER_CONFIG_H

#include "muster/export.h"
#include "muster/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct muster_config muster_config;

/* MUSTER_ERR_INVALID: no such verb. */
MUSTER_API MUSTER_CHECKED muster_status
muster_config_create(const char *verb, muster_config **config_out);
MUSTER_API void muster_config_free(muster_config *config);

/* Take flags, as after the verb; --config FILE is read first, flags win. */
MUSTER_API MUSTER_CHECKED muster_status
muster_config_parse(muster_config *config, int argc, const char *const *argv,
                    muster_error *error_out);

/* One option; repeatable ones are appended to. */
MUSTER_API MUSTER_CHECKED muster_status
muster_config_set(muster_config *config, const char *name, const char *value,
                  muster_error *error_out);

/* The value as text, or NULL when it has none; lent until the next set. */
MUSTER_API const char *muster_config_get(const muster_config *config,
                                         const char *name);

/* Resolved options as a JSON object, a new string for muster_config_text_free;
 * NULL when out of memory. */
MUSTER_API char *muster_config_to_json(const muster_config *config);
MUSTER_API MUSTER_CHECKED muster_status muster_config_from_json(
    const char *json, muster_error *error_out, muster_config **config_out);

/* The text of `muster VERB --help`, with an example. */
MUSTER_API char *muster_config_help(const char *verb);
MUSTER_API void muster_config_text_free(char *text);

#ifdef __cplusplus
}
#endif
#endif // MUSTER_CONFIG_H
