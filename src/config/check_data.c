/*
 * check_data.c -- the files of a run: who reads the data, what its labels are,
 * and what is recorded.
 */
#include <string.h>

#include "base/error.h"
#include "config/state.h"

#define INVALID(...) \
    muster_error_set(error_out, MUSTER_ERR_INVALID, __VA_ARGS__)

/* Is one code simulated, with one seed? */
static bool is_one_run(const muster_config *config)
{
    const char *code = muster_config_string(config, MUSTER_OPT_CODE);
    const char *dots = strstr(code, "..");
    bool range = dots != NULL && dots > code && dots[-1] >= '0' &&
                 dots[-1] <= '9'; // else a path
    return strchr(code, '+') == NULL && !range &&
           muster_config_uint(config, MUSTER_OPT_SEEDS) == 1;
}

/* A file has room for the times of one run. */
static muster_status check_record(const muster_config *config,
                                  muster_error *error_out)
{
    if (muster_config_string(config, MUSTER_OPT_RECORD_DELAYS) != NULL &&
        config->verb == MUSTER_VERB_SIMULATE && !is_one_run(config)) {
        return INVALID("--record-delays: holds the times of one run; give one "
                       "--code and one of the --seeds");
    }
    return MUSTER_OK;
}

static bool is_stdin(const muster_config *config, muster_option option)
{
    const char *path = muster_config_string(config, option);
    return path != NULL && strcmp(path, "-") == 0;
}

static muster_status check_data_at(const muster_config *config,
                                   muster_error *error_out)
{
    const char *where = muster_config_string(config, MUSTER_OPT_DATA_AT);
    bool workers = muster_config_data_at_workers(config);
    if (where != NULL && !workers && strcmp(where, "coordinator") != 0) {
        return INVALID("--data-at %.60s: expected coordinator or workers",
                       where);
    }
    return workers && is_stdin(config, MUSTER_OPT_DATA)
               ? INVALID("--data-at workers: workers cannot read the "
                         "coordinator's stdin; give --data a file")
               : MUSTER_OK;
}

/* Who reads the data. Stdin can be read once, by one process. */
static muster_status check_stdin(const muster_config *config,
                                 muster_error *error_out)
{
    bool data = is_stdin(config, MUSTER_OPT_DATA);
    bool test = is_stdin(config, MUSTER_OPT_TEST);
    const char *name = data ? "data" : "test";
    if (data && test) {
        return INVALID("--data - and --test -: stdin is read once; give a file "
                       "for one of them");
    }
    if ((data || test) && config->verb == MUSTER_VERB_SIMULATE &&
        !is_one_run(config)) {
        return INVALID("--%s -: stdin is read once, and each code of --code "
                       "reads the data; give a file",
                       name);
    }
    if ((data || test) && muster_config_uint(config, MUSTER_OPT_NODES) > 1) {
        return INVALID("--%s -: every one of the --nodes reads the data; give "
                       "a file",
                       name);
    }
    return MUSTER_OK;
}

muster_status muster_config_check_target(const muster_config *config,
                                         muster_error *error_out)
{
    const char *target = muster_config_string(config, MUSTER_OPT_TARGET);
    bool may_lack = config->verb == MUSTER_VERB_PARTITION;
    if (target == NULL || strcmp(target, "class") == 0 ||
        strcmp(target, "value") == 0) {
        return MUSTER_OK;
    }
    if (!may_lack || strcmp(target, "none") != 0) {
        return INVALID("--target %.60s: expected class%s value%s", target,
                       may_lack ? "," : " or", may_lack ? " or none" : "");
    }
    return muster_config_is_set(config, MUSTER_OPT_MODEL)
               ? INVALID("--model: gradients need labels, and --target none "
                         "reads none")
               : MUSTER_OK;
}

muster_status muster_config_check_data(const muster_config *config,
                                       muster_error *error_out)
{
    muster_status status = check_stdin(config, error_out);
    if (status == MUSTER_OK) {
        status = check_data_at(config, error_out);
    }
    if (status == MUSTER_OK) {
        status = check_record(config, error_out);
    }
    return status == MUSTER_OK ? muster_config_check_target(config, error_out)
                               : status;
}
