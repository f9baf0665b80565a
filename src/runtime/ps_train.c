/*
 * ps_train.c -- see ps_train.h.
 *
 * Epochs are done one after the other; after each the tables are at rest, node
 * 0 gathers a checkpoint when there is a run folder, takes in nodes that replace
 * lost ones, and all nodes go on together. When a node is lost in the middle,
 * the others finish the epoch with its parts (ps_phase.c, ps_survive.c).
 */
#define _GNU_SOURCE
#include "runtime/ps_train.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "config/table.h"
#include "record/json.h"
#include "runtime/ps_checkpoint.h"
#include "runtime/ps_run.h"
#include "runtime/signals.h"

/* The task's own metrics into an object, and as text for people. */
static void describe(const muster_task_run *run, const muster_task_sums *work,
                     const muster_task_sums *evaluation, json_t *into,
                     char *text, size_t size)
{
    const char *names[MUSTER_TASK_METRICS_MAX];
    double values[MUSTER_TASK_METRICS_MAX];
    uint32_t count =
        run->ops->report(run->task, work, evaluation, names, values);
    size_t used = 0;
    for (uint32_t i = 0; i < count; i++) {
        (void)json_object_set_new(into, names[i], muster_json_real(values[i]));
        int length = snprintf(text + used, size - used, "  %s %.4g", names[i],
                              values[i]);
        used += length > 0 && (size_t)length < size - used ? (size_t)length : 0;
    }
}

/* Where this node found its rows in the last epoch. */
static void describe_rows(muster_task_run *run, json_t *into, char *text,
                          size_t size)
{
    muster_ps_counters now = run->counted[1];
    const muster_ps_counters *then = &run->counted[0];
    double accesses = (double)(now.accesses - then->accesses);
    double remote = (double)(now.remote - then->remote);
    double copied = (double)(now.copied - then->copied);
    const struct {
        const char *name;
        double value;
    } all[] = {
        {"local_share", 1 - (remote + copied) / accesses},
        {"replica_share", copied / accesses},
        {"remote_share", remote / accesses},
        {"relocated", (double)(now.relocations - then->relocations)},
        {"replicated", (double)(now.replicas - then->replicas)},
        {"syncs", (double)(now.syncs - then->syncs)},
        {"copies", (double)now.copies},
    };
    size_t used = strlen(text);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        (void)json_object_set_new(into, all[i].name,
                                  muster_json_real(all[i].value));
        int length = snprintf(text + used, size - used, "  %s %.4g",
                              all[i].name, all[i].value);
        used += length > 0 && (size_t)length < size - used ? (size_t)length : 0;
    }
}

static muster_status append_line(muster_task_run *run, const json_t *line,
                                 muster_error *error_out)
{
    if (run->folder == NULL) {
        return MUSTER_OK;
    }
    const char *path = muster_run_folder_path(run->folder, MUSTER_RUN_METRICS);
    char *text = json_dumps(line, JSON_COMPACT);
    FILE *file = text == NULL ? NULL : fopen(path, "ae");
    bool good = file != NULL && fprintf(file, "%s\n", text) > 0;
    good = (file == NULL || fclose(file) == 0) && good;
    free(text); // heap: jansson's
    return good ? MUSTER_OK : muster_record_failed(path, errno, error_out);
}

/* Between epochs: node 0 gathers the tables while all others stand still, and
 * writes them when they go on. */
static muster_status rest(muster_task_run *run, uint32_t epochs,
                          muster_error *error_out)
{
    float *rows[MUSTER_PS_TABLES_MAX] = {NULL};
    bool keep = run->folder != NULL;
    muster_status status = MUSTER_OK;
    if (keep) {
        status = muster_ps_gather(run->seats[0].worker, run->tables, rows);
        if (status != MUSTER_OK) {
            return muster_error_set(
                error_out,
                status == MUSTER_ERR_PEER_LOST ? MUSTER_ERR_QUORUM : status,
                "checkpoint: %s", muster_status_text(status));
        }
    }
    if (run->nodes > 1) {
        muster_task_sums none;
        muster_task_seat pattern = {
            .leave = true, .evaluate = true, .epoch = epochs};
        if (run->node == 0) {
            muster_task_admit(run, epochs);
        }
        status = muster_task_phase(run, &pattern, error_out, &none);
    }
    if (keep && status == MUSTER_OK) {
        status = muster_ps_checkpoint(
            run->ps, run->tables, rows, epochs,
            muster_run_folder_path(run->folder, MUSTER_RUN_CHECKPOINT),
            error_out);
        if (status == MUSTER_OK) {
            atomic_store(&run->since, 0);
        }
    }
    if (run->node > 0 &&
        muster_config_string(run->config, MUSTER_OPT_RUN) != NULL) {
        // Node 0 may still write, and rows come from the file before it.
        run->unsure = atomic_load(&run->since);
    }
    for (uint32_t i = 0; i < run->tables; i++) {
        muster_mem_free(rows[i]);
    }
    return status;
}

/* Train one epoch, evaluate, write and tell. */
static muster_status one_epoch(muster_task_run *run, uint32_t epoch,
                               muster_error *error_out)
{
    muster_task_sums work;
    muster_task_sums evaluation;
    muster_task_seat pattern = {.epoch = epoch};
    int64_t start = muster_clock_ns();
    run->counted[0] = muster_ps_count(run->ps);
    muster_status status = muster_task_phase(run, &pattern, error_out, &work);
    if (status != MUSTER_OK) {
        return status;
    }
    run->counted[1] = muster_ps_count(run->ps);
    double s = (double)(muster_clock_ns() - start) / 1e9;
    uint64_t units = run->ops->units(run->task);
    run->train_s += s;
    run->units += units;
    pattern.evaluate = true;
    pattern.final = epoch + 1 == run->epochs;
    status = muster_task_phase(run, &pattern, error_out, &evaluation);
    if (status != MUSTER_OK) {
        return status;
    }
    status = rest(run, epoch + 1, error_out);
    if (status != MUSTER_OK || run->node > 0) {
        return status;
    }
    char text[512] = "";
    json_t *line = json_object();
    (void)json_object_set_new(line, "epoch", json_integer(epoch + 1));
    (void)json_object_set_new(line, "epoch_s", muster_json_real(s));
    (void)json_object_set_new(line, "units_per_s",
                              muster_json_real((double)units / s));
    describe(run, &work, &evaluation, line, text, sizeof(text));
    if (run->nodes > 1) {
        describe_rows(run, line, text, sizeof(text));
    }
    muster_log(MUSTER_LOG_INFO, "epoch %" PRIu32 "  %.2f s  %.3g %s/s%s",
               epoch + 1, s, (double)units / s, run->ops->unit, text);
    status = append_line(run, line, error_out);
    json_decref(run->last);
    run->last = line;
    if (status == MUSTER_OK && json_is_null(json_object_get(line, "loss"))) {
        status = muster_error_set(error_out, MUSTER_ERR_INVALID,
                                  "epoch %" PRIu32 ": the loss is not finite; "
                                  "the training diverged: try a smaller --lr, "
                                  "or --manage relocate with several nodes",
                                  epoch + 1);
    }
    return status;
}

static void set_manage(const char *name, muster_ps_opts *opts)
{
    static const char *const ways[] = {"auto", "relocate", "replicate",
                                       "classic"};
    for (uint32_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        opts->manage = strcmp(ways[i], name) == 0 ? i : opts->manage;
    }
    if (strncmp(name, "static:", 7) == 0) {
        opts->manage = MUSTER_PS_STATIC;
        opts->replicated = name + 7;
    }
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
    muster_status status =
        muster_ps_restore(run->ps, run->tables, folder, error_out, &epochs);
    run->next_epoch = (uint32_t)epochs;
    return status;
}

static muster_status make_tables(muster_task_run *run, uint64_t seed,
                                 muster_error *error_out)
{
    const char *mesh = muster_config_string(run->config, MUSTER_OPT_MESH);
    muster_ps_opts opts = MUSTER_PS_OPTS_INIT;
    opts.seed = seed;
    opts.nodes = run->nodes;
    opts.node = run->node;
    opts.mesh = mesh != NULL ? mesh : run->others.folder;
    opts.patience_ms = 60000;
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
        muster_ps_table_opts sums = MUSTER_PS_TABLE_OPTS_INIT;
        sums.keys = 2 * run->parts * run->nodes;
        sums.width = MUSTER_TASK_SUM_FLOATS;
        status =
            muster_ps_table_add(run->ps, &sums, error_out, &run->sums_table);
    }
    if (status == MUSTER_OK && run->nodes > 1) {
        status = muster_ps_connect(run->ps, error_out);
        status = status == MUSTER_ERR_PEER_LOST ? MUSTER_ERR_QUORUM : status;
    }
    if (status == MUSTER_OK && run->joins) {
        muster_task_catch_up(run);
    }
    return status;
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
        .seed = muster_config_uint(config, MUSTER_OPT_SEED),
    };
    run->ops = muster_task_find(opts.model);
    run->epochs = opts.epochs > 0 ? opts.epochs : run->ops->epochs();
    opts.epochs = run->epochs;
    return run->ops->create(&opts, error_out, &run->task);
}

static muster_status make_seats(muster_task_run *run, muster_error *error_out)
{
    run->seats = muster_mem_array(run->threads, sizeof(*run->seats));
    run->todo = muster_mem_array(run->parts, sizeof(*run->todo));
    run->doer = muster_mem_array(run->parts, sizeof(*run->doer));
    run->members = UINT64_MAX;
    muster_status status =
        run->seats == NULL || run->todo == NULL || run->doer == NULL
            ? MUSTER_ERR_NO_MEMORY
            : MUSTER_OK;
    for (uint32_t i = 0; i < run->threads && status == MUSTER_OK; i++) {
        run->seats[i].run = run;
        run->seats[i].part = run->node * run->threads + i;
        status = muster_ps_worker_create(run->ps, &run->seats[i].worker);
    }
    return status == MUSTER_OK
               ? MUSTER_OK
               : muster_error_set(error_out, status,
                                  "no memory for %" PRIu32 " worker threads",
                                  run->threads);
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

/* The other nodes, the tables, the workers. */
static muster_status meet(muster_task_run *run, muster_error *error_out)
{
    bool alone = muster_config_string(run->config, MUSTER_OPT_MESH) == NULL;
    muster_status status = MUSTER_OK;
    atomic_store(&run->stop, 0);
    run->phases = 0;
    if (run->nodes > 1 && alone) {
        status = muster_nodes_start(run->config, run->program, error_out,
                                    &run->others);
    }
    if (status == MUSTER_OK) {
        status = make_tables(
            run, muster_config_uint(run->config, MUSTER_OPT_SEED), error_out);
    }
    return status == MUSTER_OK ? make_seats(run, error_out) : status;
}

static void part(muster_task_run *run)
{
    for (uint32_t i = 0; run->seats != NULL && i < run->threads; i++) {
        muster_ps_worker_free(run->seats[i].worker);
    }
    uint64_t lost = run->ps == NULL ? 0 : muster_ps_lost(run->ps);
    muster_mem_free(run->seats);
    muster_mem_free(run->todo);
    muster_mem_free(run->doer);
    muster_ps_free(run->ps);
    muster_pslast_close(&run->saved);
    muster_nodes_stop(&run->others, lost);
}

static muster_status prepare(muster_task_run *run, muster_error *error_out)
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

static char *summary_text(const muster_task_run *run)
{
    json_t *all = json_object();
    double wall = (double)(muster_clock_ns() - run->start_ns) / 1e9;
    (void)json_object_set_new(
        all, "model",
        json_string(muster_config_string(run->config, MUSTER_OPT_MODEL)));
    (void)json_object_set_new(all, "steps",
                              json_integer((json_int_t)run->units));
    (void)json_object_set_new(all, "wall_s", muster_json_real(wall));
    (void)json_object_set_new(all, "train_s", muster_json_real(run->train_s));
    (void)json_object_set_new(
        all, "units_per_s",
        muster_json_real(run->train_s > 0 ? (double)run->units / run->train_s
                                          : NAN));
    (void)json_object_set_new(all, "threads", json_integer(run->threads));
    (void)json_object_set_new(all, "nodes", json_integer(run->nodes));
    (void)json_object_set_new(
        all, "table_bytes", json_integer((json_int_t)muster_ps_bytes(run->ps)));
    (void)json_object_update_missing(all, run->last);
    char *text = json_dumps(all, JSON_COMPACT);
    char *copy = text == NULL ? NULL : muster_mem_string(text);
    free(text); // heap: jansson's
    json_decref(all);
    return copy;
}

static muster_status conclude(muster_task_run *run, muster_error *error_out,
                              char **json_out)
{
    char *text = summary_text(run);
    if (text == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "no memory for the summary");
    }
    muster_status status = MUSTER_OK;
    if (run->folder != NULL) {
        status = muster_run_folder_write(run->folder, MUSTER_RUN_SUMMARY, text,
                                         error_out);
    }
    if (status == MUSTER_OK && run->folder != NULL) {
        status = muster_task_save(run->ops, run->task, run->seats[0].worker,
                                  run->folder, error_out);
    }
    *json_out = text;
    return status;
}

static void finish(muster_task_run *run)
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
    json_decref(run->last);
}

static void tell_plan(const muster_task_run *run)
{
    muster_log(MUSTER_LOG_INFO,
               "%s: %" PRIu64 " %s, %" PRIu32 " epochs, %" PRIu32
               " node(s) of %" PRIu32 " thread(s), %.1f MB of tables here",
               run->ops->name, run->ops->units(run->task), run->ops->unit,
               run->epochs, run->nodes, run->threads,
               (double)muster_ps_bytes(run->ps) / 1e6);
}

/* All epochs that are left, then the files, then the farewell. */
static muster_status go_through(muster_task_run *run, muster_error *error_out,
                                char **json_out)
{
    muster_status status = MUSTER_OK;
    if (run->joins) {
        // The others stand between two epochs and wait for us as well.
        muster_task_sums none;
        muster_task_seat pattern = {.leave = true, .evaluate = true};
        status = muster_task_phase(run, &pattern, error_out, &none);
    } else if (run->next_epoch == 0) {
        // A run that ends in its first epoch can be resumed as well.
        status = rest(run, 0, error_out);
    }
    for (; run->next_epoch < run->epochs && status == MUSTER_OK;
         run->next_epoch += status == MUSTER_OK) {
        status = one_epoch(run, run->next_epoch, error_out);
    }
    if (status == MUSTER_OK && run->node == 0) {
        status = conclude(run, error_out, json_out);
    }
    // The rows of a node go with it: all stay until node 0 has read them.
    if (status == MUSTER_OK && run->nodes > 1) {
        muster_task_sums none;
        muster_task_seat pattern = {.leave = true, .evaluate = true};
        status = muster_task_phase(run, &pattern, error_out, &none);
    }
    return status;
}

muster_status muster_train_task(const muster_config *config,
                                const char *program, muster_error *error_out,
                                char **json_out)
{
    muster_task_run run = {
        .config = config,
        .program = program,
        .nodes = (uint32_t)muster_config_uint(config, MUSTER_OPT_NODES),
        .node = (uint32_t)muster_config_uint(config, MUSTER_OPT_NODE),
        .threads = (uint32_t)muster_config_uint(config, MUSTER_OPT_THREADS),
        .joins = muster_config_bool(config, MUSTER_OPT_REPLACE),
        .start_ns = muster_clock_ns(),
        .last = json_object()};
    run.parts = run.nodes * run.threads;
    muster_status status = prepare(&run, error_out);
    if (status == MUSTER_OK) {
        tell_plan(&run);
        status = go_through(&run, error_out, json_out);
    }
    if (status != MUSTER_OK && run.ps != NULL) {
        muster_ps_abandon(run.ps);
    }
    finish(&run);
    return status;
}
