/*
 * check_engine.c -- what --engine may be, and where it has a meaning; which of
 * the nodes of a sparse task this is, and where they meet.
 */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "config/state.h"

#define INVALID(...) \
    muster_error_set(error_out, MUSTER_ERR_INVALID, __VA_ARGS__)

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
        return INVALID("--engine %.60s: expected sock or ucx", engine);
    }
    if (is_on_one_machine(muster_config_string(config, where))) {
        return INVALID(
            "--engine ucx carries messages between machines, and processes "
            "that one command starts share memory: give %s, or leave --engine",
            example);
    }
    return MUSTER_OK;
}

muster_status muster_config_check_nodes(muster_config *config,
                                        muster_error *error_out)
{
    muster_status status = MUSTER_OK;
    bool node = muster_config_is_set(config, MUSTER_OPT_NODE);
    if (muster_config_bool(config, MUSTER_OPT_REPLACE) &&
        muster_config_uint(config, MUSTER_OPT_NODE) == 0) {
        return INVALID("--replace needs --node 1 or higher: node 0 leads, "
                       "without it there is no run");
    }
    const char *mesh = muster_config_string(config, MUSTER_OPT_MESH);
    if (node && mesh == NULL) {
        return INVALID("--node needs --mesh: where the nodes meet");
    }
    if (!node && mesh != NULL && strchr(mesh, ',') != NULL) {
        return INVALID("--mesh: say with --node which of these places is this "
                       "one's");
    }
    uint64_t nodes = muster_config_uint(config, MUSTER_OPT_NODES);
    if (node && muster_config_uint(config, MUSTER_OPT_NODE) >= nodes) {
        return INVALID("--node: nodes are numbered 0 to %" PRIu64, nodes - 1);
    }
    // A run folder does not say where its nodes met: now they may be here.
    if (mesh == NULL && muster_config_is_from_file(config, MUSTER_OPT_ENGINE)) {
        status = muster_config_apply(config, MUSTER_OPT_ENGINE, "sock",
                                     config->values[MUSTER_OPT_ENGINE].origin,
                                     "engine", error_out);
    }
    return status == MUSTER_OK
               ? muster_config_check_engine(config, MUSTER_OPT_MESH,
                                            "--mesh tcp:HOST:PORT", error_out)
               : status;
}
