/*
 * check_task.c -- sparse tasks, trained on a parameter server: which options
 * have a meaning with them, and which with them alone.
 */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/names.h"
#include "base/spec.h"
#include "base/suggest.h"
#include "config/state.h"
#include "muster/ps.h"

#define INVALID(...) \
    muster_error_set(error_out, MUSTER_ERR_INVALID, __VA_ARGS__)

/* Is --model a sparse task, trained on a parameter server? */
bool muster_config_is_task(const muster_config *config)
{
    const char *model = muster_config_string(config, MUSTER_OPT_MODEL);
    return model != NULL && muster_name_index(muster_task_names, model) >= 0;
}

static muster_status check_manage(const char *manage, muster_error *error_out)
{
    const char *file;
    size_t length = muster_spec_name(manage, &file);
    int way = muster_name_index(muster_manage_names, manage);
    if (way < 0) {
        muster_suggestion meant = muster_suggestion_make(manage, length);
        muster_suggestion_add_all(&meant, muster_manage_names);
        return muster_suggestion_fail(&meant, "--manage ", error_out);
    }
    if ((way == MUSTER_PS_STATIC) != (*file != '\0')) {
        return INVALID("--manage %s: a file belongs to static, as in "
                       "static:FILE, and to nothing else",
                       manage);
    }
    return MUSTER_OK;
}

/* Which node this is, and where the nodes meet. */
static muster_status check_nodes(muster_config *config, muster_error *error_out)
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

/* What a sparse task has no use for is refused, not passed over. */
muster_status muster_config_check_task(muster_config *config,
                                       muster_error *error_out)
{
    static const muster_option used[] = {MUSTER_OPT_MODEL,
                                         MUSTER_OPT_DATA,
                                         MUSTER_OPT_TEST,
                                         MUSTER_OPT_EPOCHS,
                                         MUSTER_OPT_OPTIMIZER,
                                         MUSTER_OPT_LR,
                                         MUSTER_OPT_L2,
                                         MUSTER_OPT_SEED,
                                         MUSTER_OPT_THREADS,
                                         MUSTER_OPT_NODES,
                                         MUSTER_OPT_NODE,
                                         MUSTER_OPT_MESH,
                                         MUSTER_OPT_MANAGE,
                                         MUSTER_OPT_STALENESS,
                                         MUSTER_OPT_HOT_FACTOR,
                                         MUSTER_OPT_RUN,
                                         MUSTER_OPT_RESUME,
                                         MUSTER_OPT_CONFIG,
                                         MUSTER_OPT_JSON,
                                         MUSTER_OPT_QUIET,
                                         MUSTER_OPT_VERBOSE,
                                         MUSTER_OPT_REPLACE,
                                         MUSTER_OPT_HEARTBEAT,
                                         MUSTER_OPT_ON_LOSS,
                                         MUSTER_OPT_RESUME_OR_START,
                                         MUSTER_OPT_KEY_FILE,
                                         MUSTER_OPT_INSECURE,
                                         MUSTER_OPT_ENGINE};
    for (int option = 0; option < MUSTER_OPT_COUNT; option++) {
        // A resumed run's file holds what that run was told, no more.
        bool known = !muster_config_is_set(config, (muster_option)option);
        for (size_t i = 0; i < sizeof(used) / sizeof(used[0]); i++) {
            known = known || used[i] == (muster_option)option;
        }
        if (!known) {
            return INVALID("--%s has no meaning with --model %s",
                           muster_option_get((muster_option)option)->name,
                           muster_config_string(config, MUSTER_OPT_MODEL));
        }
    }
    muster_status status = check_manage(
        muster_config_string(config, MUSTER_OPT_MANAGE), error_out);
    return status == MUSTER_OK ? check_nodes(config, error_out) : status;
}

muster_status muster_config_check_dense(const muster_config *config,
                                        muster_error *error_out)
{
    const char *manage = muster_config_string(config, MUSTER_OPT_MANAGE);
    bool is_given = muster_config_uint(config, MUSTER_OPT_NODES) > 1 ||
                    muster_config_string(config, MUSTER_OPT_MESH) != NULL ||
                    (manage != NULL && strcmp(manage, "auto") != 0);
    return is_given
               ? INVALID("--nodes, --manage and --mesh are for sparse tasks "
                         "(mf, complex, ..); for more workers use --local N")
               : MUSTER_OK;
}
