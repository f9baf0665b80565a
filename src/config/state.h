/*
 * config/state.h -- the inside of a muster_config, for this room only.
 *
 * Every way in (flags, YAML, JSON, set) ends in muster_config_apply(), which
 * checks type and range once and knows the place to complain about.
 */
#ifndef MUSTER_CONFIG_STATE_H
#define MUSTER_CONFIG_STATE_H

#include "base/vec.h"
#include "config/table.h"

/* Longest value, longest list: generous, and finite. */
#define MUSTER_CONFIG_VALUE_MAX 65536u
#define MUSTER_CONFIG_LIST_MAX  4096u
/* Longest YAML or JSON text. */
#define MUSTER_CONFIG_FILE_MAX (1u << 20)

/* Who gave a value; a later one replaces, the same one appends to lists. */
typedef enum muster_config_origin {
    MUSTER_ORIGIN_DEFAULT,
    MUSTER_ORIGIN_JSON,
    MUSTER_ORIGIN_YAML,
    MUSTER_ORIGIN_FLAG,
} muster_config_origin;

typedef struct muster_config_value {
    muster_config_origin origin;
    char *text; // as written; NULL: none. Not for lists.
    union {
        uint64_t number;
        double real;
        bool flag;
        int64_t ns;
    } as;
    muster_vec list; // of char *, for lists
} muster_config_value;

struct muster_config {
    muster_verb verb;
    muster_config_value values[MUSTER_OPT_COUNT];
};

/*
 * Give `option` a value. `place` opens the error line: "--steps" or
 * "run.yaml:3: steps". MUSTER_ERR_INVALID or _NO_MEMORY; the old value stands.
 */
MUSTER_CHECKED muster_status muster_config_apply(
    muster_config *config, muster_option option, const char *text,
    muster_config_origin origin, const char *place, muster_error *error_out);

/* "PLACE is unknown; did you mean X?"; always MUSTER_ERR_INVALID. `prefix` is
 * "--" or "". */
muster_status muster_config_unknown(muster_verb verb, const char *place,
                                    const char *name, const char *prefix,
                                    muster_error *error_out);

/* Options from YAML text; `file` names it in errors. */
MUSTER_CHECKED muster_status muster_config_read_yaml(muster_config *config,
                                                     const char *text,
                                                     size_t size,
                                                     const char *file,
                                                     muster_error *error_out);

/* Options from JSON text into an existing configuration of the same verb. */
MUSTER_CHECKED muster_status muster_config_read_json(muster_config *config,
                                                     const char *text,
                                                     size_t size,
                                                     const char *file,
                                                     muster_error *error_out);

/* A whole file of at most MUSTER_CONFIG_FILE_MAX bytes; text for
 * muster_mem_free(). MUSTER_ERR_INPUT names the file and the reason. */
MUSTER_CHECKED muster_status muster_config_read_file(const char *path,
                                                     muster_error *error_out,
                                                     char **text_out,
                                                     size_t *size_out);

/* check_data.c: --data -, --data-at, --target and --record-delays. */
MUSTER_CHECKED muster_status
muster_config_check_data(const muster_config *config, muster_error *error_out);
/* --target alone. */
MUSTER_CHECKED muster_status muster_config_check_target(
    const muster_config *config, muster_error *error_out);
/* check_task.c: the options of a sparse task; and that a run of another model
 * has none of those. */
MUSTER_CHECKED muster_status muster_config_check_task(muster_config *config,
                                                      muster_error *error_out);
MUSTER_CHECKED muster_status
muster_config_check_dense(const muster_config *config, muster_error *error_out);
/* check_faults.c: --slow, --kill and the like. */
MUSTER_CHECKED muster_status muster_config_check_faults(
    const muster_config *config, muster_error *error_out);

/* training.c: what --code auto does not go with. */
MUSTER_CHECKED muster_status
muster_config_check_auto(const muster_config *config, muster_error *error_out);

/* --engine; `where` is the option that says where the others are, `example` how
 * to give it. */
MUSTER_CHECKED muster_status
muster_config_check_engine(const muster_config *config, muster_option where,
                           const char *example, muster_error *error_out);
/* Is --algorithm one, and does the rest go with it? MUSTER_ERR_INVALID. */
MUSTER_CHECKED muster_status muster_config_check_algorithm(
    const muster_config *config, muster_error *error_out);

#endif // MUSTER_CONFIG_STATE_H
