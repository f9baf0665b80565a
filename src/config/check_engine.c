/*
 * check_engine.c -- what --engine may be, and where it has a meaning.
 */
#include <string.h>

#include "base/error.h"
#include "config/state.h"

/* Processes of one machine share memory: no engine carries their messages. */
static bool is_on_one_machine(const char *address)
{
    return address == NULL || strncmp(address, "unix:", 5) == 0 ||
           strchr(address, '/') != NULL;
}

muster_status muster_config_check_engine(const muster_config *config,
                                         muster_option where,
                                         const char *example,
                                         muster_error *error_out)
{
    const char *engine = muster_config_string(config, MUSTER_OPT_ENGINE);
    if (strcmp(engine, "sock") == 0) {
        return MUSTER_OK;
    }
    if (strcmp(engine, "ucx") != 0) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "--engine %.60s: expected sock or ucx", engine);
    }
    if (is_on_one_machine(muster_config_string(config, where))) {
        return muster_error_set(
            error_out, MUSTER_ERR_INVALID,
            "--engine ucx carries messages between machines, and processes "
            "that one command starts share memory: give %s, or leave --engine",
            example);
    }
    return MUSTER_OK;
}
