/*
 * sparse_nodes.c -- see sparse_nodes.h.
 */
#include "run/sparse_nodes.h"

#include <signal.h>
#include <stdio.h>

#include "base/clock.h"
#include "proc/signals.h"

/* How long nodes get to end by themselves: they free their tables. */
#define LEAVE_NS (2 * MUSTER_NS_PER_S)

/* The options without which a node would do another task. */
static void add_task(const muster_config *config, muster_arguments *arguments)
{
    static const struct {
        muster_option option;
        const char *name;
    } same[] = {
        {MUSTER_OPT_MODEL, "model"},
        {MUSTER_OPT_DATA, "data"},
        {MUSTER_OPT_TEST, "test"},
        {MUSTER_OPT_EPOCHS, "epochs"},
        {MUSTER_OPT_OPTIMIZER, "optimizer"},
        {MUSTER_OPT_LR, "lr"},
        {MUSTER_OPT_L2, "l2"},
        {MUSTER_OPT_SEED, "seed"},
        {MUSTER_OPT_THREADS, "threads"},
        {MUSTER_OPT_NODES, "nodes"},
        {MUSTER_OPT_MANAGE, "manage"},
        {MUSTER_OPT_STALENESS, "staleness"},
        {MUSTER_OPT_HOT_FACTOR, "hot-factor"},
        {MUSTER_OPT_HEARTBEAT, "heartbeat"},
        {MUSTER_OPT_ON_LOSS, "on-loss"},
        {MUSTER_OPT_KEY_FILE, "key-file"},
        {MUSTER_OPT_ENGINE, "engine"},
    };
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        char flag[32];
        if (muster_config_is_set(config, same[i].option)) {
            (void)snprintf(flag, sizeof(flag), "--%s", same[i].name);
            muster_arguments_add_option(
                arguments, flag, muster_config_get(config, same[i].name));
        }
    }
}

static muster_status spawn(muster_local_nodes *nodes,
                           const muster_config *config, uint32_t node,
                           bool replace, muster_error *error_out)
{
    const char *run = muster_config_string(config, MUSTER_OPT_RUN);
    const char *mesh = muster_config_string(config, MUSTER_OPT_MESH);
    bool resumed = muster_config_string(config, MUSTER_OPT_RESUME) != NULL;
    muster_arguments arguments = muster_arguments_make();
    muster_arguments_add(&arguments, "train");
    add_task(config, &arguments);
    muster_arguments_add(&arguments, "--quiet");
    if (run != NULL) {
        muster_arguments_add_option(
            &arguments, resumed && !replace ? "--resume" : "--run", run);
    }
    if (replace) {
        muster_arguments_add(&arguments, "--replace");
    }
    if (muster_config_bool(config, MUSTER_OPT_INSECURE)) {
        muster_arguments_add(&arguments, "--insecure");
    }
    muster_arguments_add_option(&arguments, "--mesh",
                                mesh != NULL ? mesh : nodes->dir.folder);
    muster_arguments_add_number(&arguments, "--node", node);
    muster_status status =
        muster_process_group_spawn(nodes->group, node, &arguments, error_out);
    muster_arguments_fini(&arguments);
    return status;
}

muster_status muster_local_nodes_start(const muster_config *config,
                                       const char *program,
                                       muster_error *error_out,
                                       muster_local_nodes *nodes_out)
{
    muster_local_nodes *nodes = nodes_out;
    *nodes = (muster_local_nodes){
        .count = (uint32_t)muster_config_uint(config, MUSTER_OPT_NODES)};
    muster_process_group_opts opts = {.program = program,
                                      .noun = "node",
                                      .count = nodes->count,
                                      .leave_ns = LEAVE_NS};
    muster_status status = muster_socket_dir_open(error_out, &nodes->dir);
    if (status == MUSTER_OK) {
        muster_signals_remove_at_exit(&nodes->dir);
        status = muster_process_group_create(&opts, error_out, &nodes->group);
    }
    for (uint32_t i = 1; i < nodes->count && status == MUSTER_OK; i++) {
        status = spawn(nodes, config, i, false, error_out);
    }
    return status;
}

bool muster_local_nodes_ended(muster_local_nodes *nodes, uint32_t node)
{
    muster_process_group_reap(nodes->group);
    return !muster_process_group_is_running(nodes->group, node);
}

uint32_t muster_local_nodes_first_ended(muster_local_nodes *nodes)
{
    if (nodes->group == NULL) {
        return 0;
    }
    muster_process_group_reap(nodes->group);
    for (uint32_t i = 1; i < nodes->count; i++) {
        if (!muster_process_group_is_running(nodes->group, i)) {
            return i;
        }
    }
    return 0;
}

muster_status muster_local_nodes_replace(muster_local_nodes *nodes,
                                         const muster_config *config,
                                         uint32_t node, muster_error *error_out)
{
    return spawn(nodes, config, node, true, error_out);
}

void muster_local_nodes_stop(muster_local_nodes *nodes, uint64_t lost)
{
    // A lost node may stand still, and would wake too late.
    for (uint32_t i = 1; nodes->group != NULL && i < nodes->count; i++) {
        if ((lost >> i & 1) != 0) {
            muster_process_group_signal(nodes->group, i, SIGKILL);
        }
    }
    muster_process_group_end(nodes->group);
    muster_process_group_free(nodes->group);
    nodes->group = NULL;
    muster_signals_remove_at_exit(NULL);
    muster_socket_dir_close(&nodes->dir);
}
