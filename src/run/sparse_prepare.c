/*
 * sparse_prepare.c -- what a sparse task's run is made of, from the options:
 * run folder, task, signals, the other nodes, the tables, the worker threads;
 * and its end.
 *
 * Invariants
 *  1. What was made is in the run at once, so that muster_task_finish() ends a
 *     run whose preparation failed anywhere.
 *  2. The task's tables come first and are restored before the nodes meet; the
 *     table of sums is the last one and is never in a checkpoint.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/names.h"
#include "base/spec.h"
#include "config/table.h"
#include "linalg/blas_room.h"
#include "proc/signals.h"
#include "ps/node/inside.h"
#include "record/checkpoint.h"
#include "run/complete.h"
#include "run/needs.h"
#include "run/sparse_checkpoint.h"
#include "run/sparse_run.h"

static void set_manage(const char *name, muster_ps_opts *opts)
{
    const char *file;
    (void)muster_spec_name(name, &file);
    opts->manage = (uint32_t)muster_name_index(muster_manage_names, name);
    opts->replicated = *file != '\0' ? file : NULL;
}

/* Go on from the checkpoint, when the run goes on. */
static muster_status restore(muster_task_run *run, muster_error *error_out)
{
    const char *dir = muster_config_string(run->config, MUSTER_OPT_RUN);
    bool resumed = muster_config_string(run->config, MUSTER_OPT_RESUME) != NULL;
    run->tables = 0;
    while (muster_ps_row_floats(run->ps, run->tables) > 0) {
        run->tables++;
    }
    if (!resumed || run->joins) {
        return MUSTER_OK;
    }
    char folder[MUSTER_RECORD_PATH_MAX];
    uint64_t epochs = 0;
    (void)snprintf(folder, sizeof(folder), "%s/%s", dir, MUSTER_RUN_CHECKPOINT);
    if (muster_checkpoint_none(folder)) {
        if (run->node == 0) {
            muster_run_tell_no_checkpoint(folder);
        }
        return MUSTER_OK;
    }
    muster_status status =
        muster_ps_restore(run->ps, run->tables, folder, error_out, &epochs);
    run->next_epoch = (uint32_t)epochs;
    return status == MUSTER_OK ? muster_task_recall(run, dir, error_out)
                               : status;
}

/* Files that a node has open beside its connections. */
#define FILES 20u

/* Node 0: is there room for the checkpoints of all tables? Two are kept while
 * the next is written; then the tables as they are at the end. */
static muster_status check_disk(const muster_task_run *run,
                                muster_error *error_out)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < run->tables; i++) {
        bytes += (uint64_t)run->ps->tables[i]->keys *
                 run->ps->tables[i]->floats * sizeof(float);
    }
    const muster_needs needs = {
        .folder = muster_config_string(run->config, MUSTER_OPT_RUN),
        .file_bytes = bytes,
        .disk_bytes = (run->next_epoch > 0 ? 2 : 4) * bytes};
    return run->node == 0 ? muster_needs_check(&needs, error_out) : MUSTER_OK;
}

static muster_status connect_nodes(muster_task_run *run,
                                   muster_error *error_out)
{
    muster_status status =
        muster_stall_init(&run->stall, run->ps, run->threads);
    if (status != MUSTER_OK) {
        return muster_error_set(error_out, status,
                                "no memory for %" PRIu32 " worker threads",
                                run->threads);
    }
    if (run->nodes > 1) {
        status = muster_ps_connect(run->ps, error_out);
        status = status == MUSTER_ERR_PEER_LOST ? MUSTER_ERR_QUORUM : status;
    }
    if (status == MUSTER_OK && run->joins) {
        muster_task_catch_up(run);
    }
    return status;
}

/* Tables that no checkpoint has: they are not among run->tables. */
static muster_status add_working_tables(muster_task_run *run,
                                        muster_error *error_out)
{
    muster_ps_table_opts sums = MUSTER_PS_TABLE_OPTS_INIT;
    sums.keys = 2 * run->parts * run->nodes + 1; // see sparse_stop.c
    sums.width = MUSTER_TASK_SUM_FLOATS;
    muster_status status =
        muster_ps_table_add(run->ps, &sums, error_out, &run->sums_table);
    return status == MUSTER_OK && run->ops->working_tables != NULL
               ? run->ops->working_tables(run->task, run->ps, error_out)
               : status;
}

static muster_status make_tables(muster_task_run *run, uint64_t seed,
                                 muster_error *error_out)
{
    const char *mesh = muster_config_string(run->config, MUSTER_OPT_MESH);
    muster_ps_opts opts = MUSTER_PS_OPTS_INIT;
    opts.seed = seed;
    opts.nodes = run->nodes;
    opts.node = run->node;
    opts.mesh = mesh != NULL ? mesh : run->others.dir.folder;
    opts.key_file = muster_config_string(run->config, MUSTER_OPT_KEY_FILE);
    opts.insecure = muster_config_bool(run->config, MUSTER_OPT_INSECURE);
    opts.engine = muster_config_string(run->config, MUSTER_OPT_ENGINE);
    opts.patience_ms = 60000;
    opts.survive = strcmp(muster_config_string(run->config, MUSTER_OPT_ON_LOSS),
                          "stop") != 0;
    opts.heartbeat_ms = (uint32_t)(muster_config_duration_ns(
                                       run->config, MUSTER_OPT_HEARTBEAT) /
                                   MUSTER_NS_PER_MS);
    opts.staleness_ms = (uint32_t)(muster_config_duration_ns(
                                       run->config, MUSTER_OPT_STALENESS) /
                                   MUSTER_NS_PER_MS);
    opts.hot_factor =
        (uint32_t)muster_config_uint(run->config, MUSTER_OPT_HOT_FACTOR);
    set_manage(muster_config_string(run->config, MUSTER_OPT_MANAGE), &opts);
    muster_status status = muster_ps_create(&opts, error_out, &run->ps);
    if (status == MUSTER_OK) {
        muster_task_on_loss(run);
        status = run->ops->tables(run->task, run->ps, error_out);
    }
    if (status == MUSTER_OK) {
        status = restore(run, error_out);
    }
    if (status == MUSTER_OK) {
        status = check_disk(run, error_out);
    }
    if (status == MUSTER_OK) {
        status = add_working_tables(run, error_out);
    }
    return status == MUSTER_OK ? connect_nodes(run, error_out) : status;
}

static muster_status make_task(muster_task_run *run, muster_error *error_out)
{
    const muster_config *config = run->config;
    muster_task_opts opts = {
        .model = muster_config_string(config, MUSTER_OPT_MODEL),
        .data = muster_config_string(config, MUSTER_OPT_DATA),
        .test = muster_config_string(config, MUSTER_OPT_TEST),
        .optimizer = muster_config_is_set(config, MUSTER_OPT_OPTIMIZER)
                         ? muster_config_string(config, MUSTER_OPT_OPTIMIZER)
                         : NULL,
        .rate = muster_config_double(config, MUSTER_OPT_LR),
        .l2 = muster_config_is_set(config, MUSTER_OPT_L2)
                  ? muster_config_double(config, MUSTER_OPT_L2)
                  : -1,
        .epochs = (uint32_t)muster_config_uint(config, MUSTER_OPT_EPOCHS),
        .parts_max = run->parts,
        .threads = run->threads,
        .seed = muster_config_uint(config, MUSTER_OPT_SEED),
    };
    run->ops = muster_task_find(opts.model);
    run->epochs = opts.epochs > 0 ? opts.epochs : run->ops->epochs();
    opts.open_ended = opts.epochs == 0;
    opts.epochs = run->epochs;
    muster_status status = MUSTER_OK;
    if (run->ops->uses_blas) {
        status = muster_blas_room_take(run->threads, error_out);
    }
    if (status == MUSTER_OK) {
        status = run->ops->create(&opts, error_out, &run->task);
    }
    if (status == MUSTER_OK) {
        muster_task_watch_init(run);
    }
    return status;
}

static muster_status make_workers(muster_task_run *run, muster_error *error_out)
{
    run->workers = muster_mem_array(run->threads, sizeof(*run->workers));
    run->phase.todo = muster_mem_array(run->parts, sizeof(*run->phase.todo));
    run->phase.done_by =
        muster_mem_array(run->parts, sizeof(*run->phase.done_by));
    run->phase.members = UINT64_MAX;
    muster_status status = MUSTER_OK;
    if (run->workers == NULL || run->phase.todo == NULL ||
        run->phase.done_by == NULL) {
        (void)muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                               "no memory for %" PRIu32 " worker threads",
                               run->threads);
        return MUSTER_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < run->threads && status == MUSTER_OK; i++) {
        run->workers[i].run = run;
        run->workers[i].part = run->node * run->threads + i;
        status = muster_ps_worker_create(run->ps, error_out,
                                         &run->workers[i].worker);
    }
    return status;
}

/* What this run was told, without the defaults: a resumed run must not take a
 * default for a wish. */
static char *told_options(const muster_task_run *run)
{
    char *all = muster_config_to_json(run->config);
    json_t *object = all == NULL ? NULL : json_loads(all, 0, NULL);
    muster_config_text_free(all);
    for (int i = 0; object != NULL && i < MUSTER_OPT_COUNT; i++) {
        if (!muster_config_is_set(run->config, (muster_option)i)) {
            (void)json_object_del(object,
                                  muster_option_get((muster_option)i)->name);
        }
    }
    char *text = object == NULL ? NULL : json_dumps(object, JSON_INDENT(2));
    char *copy = text == NULL ? NULL : muster_mem_string(text);
    free(text); // heap: jansson's
    json_decref(object);
    return copy;
}

static muster_status open_folder(muster_task_run *run, muster_error *error_out)
{
    const char *dir = muster_config_string(run->config, MUSTER_OPT_RUN);
    bool resumed = muster_config_string(run->config, MUSTER_OPT_RESUME) != NULL;
    if (dir == NULL || run->node > 0) {
        return MUSTER_OK;
    }
    muster_status status =
        muster_run_folder_open(dir, resumed, error_out, &run->folder);
    if (status != MUSTER_OK) {
        return status;
    }
    char *text = told_options(run);
    if (text == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "no memory for the options");
    }
    status = muster_run_folder_write(run->folder, MUSTER_RUN_CONFIG, text,
                                     error_out);
    muster_mem_free(text);
    return status;
}

static muster_status check_processes(const muster_task_run *run, bool alone,
                                     muster_error *error_out)
{
    uint64_t started = alone ? run->nodes - 1 : 0;
    const muster_needs needs = {
        .files = FILES + 2ull * run->nodes,
        // Each node has a thread for the run and one for the network.
        .processes = run->threads + 1ull + started * (run->threads + 2ull)};
    return muster_needs_check(&needs, error_out);
}

/* The other nodes, the tables, the workers. */
static muster_status meet(muster_task_run *run, muster_error *error_out)
{
    bool alone = !muster_config_is_set(run->config, MUSTER_OPT_NODE);
    muster_status status = MUSTER_OK;
    atomic_store(&run->phase.stop, 0);
    run->phase.count = 0;
    if (run->nodes > 1) {
        status = check_processes(run, alone, error_out);
    }
    if (status == MUSTER_OK && run->nodes > 1 && alone) {
        status = muster_local_nodes_start(run->config, run->program, error_out,
                                          &run->others);
    }
    if (status == MUSTER_OK) {
        status = make_tables(
            run, muster_config_uint(run->config, MUSTER_OPT_SEED), error_out);
    }
    return status == MUSTER_OK ? make_workers(run, error_out) : status;
}

muster_status muster_task_prepare(muster_task_run *run, muster_error *error_out)
{
    static const muster_net_callbacks deaf = {0};
    const muster_net_opts opts = MUSTER_NET_OPTS_INIT;
    muster_status status = open_folder(run, error_out);
    if (status == MUSTER_OK) {
        status = make_task(run, error_out);
    }
    if (status == MUSTER_OK) {
        status = muster_net_open(&opts, &deaf, NULL, error_out, &run->net);
    }
    if (status == MUSTER_OK) {
        status = muster_signals_start(run->net, error_out);
        run->signals = status == MUSTER_OK;
    }
    return status == MUSTER_OK ? meet(run, error_out) : status;
}

static void part(muster_task_run *run)
{
    for (uint32_t i = 0; run->workers != NULL && i < run->threads; i++) {
        muster_ps_worker_free(run->workers[i].worker);
    }
    uint64_t lost = run->ps == NULL ? 0 : muster_ps_lost_nodes(run->ps);
    muster_mem_free(run->workers);
    muster_mem_free(run->phase.todo);
    muster_mem_free(run->phase.done_by);
    muster_ps_free(run->ps);
    muster_stall_fini(&run->stall);
    muster_last_checkpoint_close(&run->loss.checkpoint);
    muster_local_nodes_stop(&run->others, lost);
}

void muster_task_finish(muster_task_run *run)
{
    part(run);
    if (run->signals) {
        muster_signals_stop();
    }
    if (run->task != NULL) {
        run->ops->free(run->task);
    }
    muster_run_folder_close(run->folder);
    muster_net_close(run->net);
    json_decref(run->results.last);
}
