/*
 * muster/config.h -- the options of a verb, by name.
 *
 * Start with the defaults of a verb ("train", "simulate", ..), then set options
 * from flags, a YAML file or one by one; names are those of `muster VERB
 * --help`, without the dashes. When all are set, check() looks at them
 * together and fills in what depends on others.
 *
 *   Promise      What cannot be right is refused with a line that names the
 *                flag or file:line, and suggests the nearest known name.
 *   Lifecycle    create or from_json; set or parse; check; a verb; free.
 *   Ownership    The caller's from create to free. Texts that are handed over
 *                end with muster_config_text_free().
 *   Threads      One at a time.
 *   Allocation   Every call but free may allocate.
 *   Not here     Whether files exist or a code is legal: the verbs say so.
 *
 * Background: docs/design/config.md; for users: docs/cli.md.
 */
#ifndef MUSTER_CONFIG_H
#define MUSTER_CONFIG_H

#include "muster/export.h"
#include "muster/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct muster_config muster_config;

/* The defaults of a verb.
 * MUSTER_ERR_INVALID    no such verb
 * MUSTER_ERR_NO_MEMORY  the options do not fit the memory */
MUSTER_API MUSTER_CHECKED muster_status
muster_config_create(const char *verb, muster_config **config_out);
/* NULL is allowed and does nothing. */
MUSTER_API void muster_config_free(muster_config *config);

/*
 * Take flags, as after the verb. --resume DIR starts from DIR/config.json,
 * --config FILE is read next, flags win over both. On failure some options may
 * have been set: free the configuration.
 * MUSTER_ERR_INVALID    an option is unknown, ill-typed or out of range
 * MUSTER_ERR_INPUT      FILE or DIR/config.json cannot be read
 * MUSTER_ERR_NO_MEMORY  a value or a file does not fit the memory
 */
MUSTER_API MUSTER_CHECKED muster_status
muster_config_parse(muster_config *config, int argc, const char *const *argv,
                    muster_error *error_out);

/* One option; repeatable ones are appended to.
 * MUSTER_ERR_INVALID    the option is unknown, ill-typed or out of range
 * MUSTER_ERR_NO_MEMORY  the value does not fit the memory */
MUSTER_API MUSTER_CHECKED muster_status
muster_config_set(muster_config *config, const char *name, const char *value,
                  muster_error *error_out);

/* Look at all options together (missing ones, `--kill 99@5` of 8 workers, ..)
 * and settle those that depend on others (epochs, lr, local, run). Call it
 * before the verb; calling it twice changes nothing.
 * MUSTER_ERR_INVALID    options are missing or contradict each other
 * MUSTER_ERR_NO_MEMORY  a settled value does not fit the memory */
MUSTER_API MUSTER_CHECKED muster_status
muster_config_check(muster_config *config, muster_error *error_out);

/* The value as text, NULL when it has none or there is no such option, the
 * last one of a repeatable option; lent until the next set. */
MUSTER_API const char *muster_config_get(const muster_config *config,
                                         const char *name);

/* Resolved options as a JSON object, a new string for muster_config_text_free;
 * NULL when out of memory. */
MUSTER_API char *muster_config_to_json(const muster_config *config);
/* The reverse, as strict as flags are.
 * MUSTER_ERR_INVALID    not JSON, or an option is unknown or out of range
 * MUSTER_ERR_NO_MEMORY  the options do not fit the memory */
MUSTER_API MUSTER_CHECKED muster_status muster_config_from_json(
    const char *json, muster_error *error_out, muster_config **config_out);

/* The text of `muster VERB --help`, with an example; NULL when there is no
 * such verb or no memory. */
MUSTER_API char *muster_config_help(const char *verb);
/* Ends any text that the library handed over. NULL does nothing. */
MUSTER_API void muster_config_text_free(char *text);

#ifdef __cplusplus
}
#endif
#endif // MUSTER_CONFIG_H
