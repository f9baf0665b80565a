/*
 * ps_train.c -- see ps_train.h.
 *
 * The calling thread only watches: it starts one thread a worker for each epoch
 * and each evaluation, tells how it goes, and asks them to stop when a signal
 * came. Threads end before the next phase begins, so that between phases the
 * tables are at rest.
 *
 * With several nodes every process runs this same program. A thread ends its
 * phase by putting its sums into a row of one more table and meeting all others
 * at a barrier; node 0 then adds the rows up. Two sets of rows take turns, so
 * that a fast node cannot overwrite what node 0 has not read yet.
 */
#define _GNU_SOURCE
#include "runtime/ps_train.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/net.h"
#include "runtime/progress.h"
#include "runtime/ps_crew.h"
#include "runtime/signals.h"

#define WATCH_NS (200 * MUSTER_NS_PER_MS)

/* A double as two floats, so that it keeps 48 bits in a row. */
enum { SUM_FLOATS = 2 * MUSTER_TASK_METRICS_MAX };

typedef struct task_run task_run;

/* One worker thread. */
typedef struct seat {
    task_run *run;
    uint32_t part;
    pthread_t thread;
    muster_ps_worker *worker;
    bool evaluate;
    bool final;
    bool leave; // only wait for the others
    uint32_t epoch;
    muster_status status;
    muster_task_sums sums;
} seat;

struct task_run {
    const muster_config *config;
    const char *program;
    const muster_task_ops *ops;
    void *task;
    muster_ps *ps;
    muster_net *net; // owns the signals' wake-up
    muster_run_folder *folder;
    uint32_t threads; // of this node
    uint32_t node;
    uint32_t nodes;
    uint32_t parts; // threads of all nodes
    uint32_t sums_table;
    uint32_t phases; // so far
    muster_nodes others;
    uint32_t epochs;
    seat *seats;
    _Atomic uint64_t done; // units of this phase
    _Atomic uint32_t stop;
    _Atomic uint32_t running;
    int64_t start_ns;
    double train_s; // in work, without evaluations
    uint64_t units; // done in all epochs
    json_t *last;   // the newest metrics
};

static uint32_t sums_row(const task_run *run, uint32_t part)
{
    return part + run->phases % 2 * run->parts;
}

/* Put a thread's sums where node 0 finds them, and wait for all others. */
static muster_status share_sums(seat *s)
{
    float row[SUM_FLOATS];
    uint32_t key = sums_row(s->run, s->part);
    for (uint32_t i = 0; i < MUSTER_TASK_METRICS_MAX; i++) {
        row[2 * i] = (float)s->sums.value[i];
        row[2 * i + 1] = (float)(s->sums.value[i] - (double)row[2 * i]);
    }
    muster_status status =
        muster_ps_set(s->worker, s->run->sums_table, &key, 1, row);
    return status == MUSTER_OK ? muster_ps_barrier(s->worker) : status;
}

static muster_status gather_sums(task_run *run, muster_task_sums *sums_out)
{
    for (uint32_t part = 0; part < run->parts; part++) {
        float row[SUM_FLOATS];
        uint32_t key = sums_row(run, part);
        muster_status status =
            muster_ps_pull(run->seats[0].worker, run->sums_table, &key, 1, row);
        if (status != MUSTER_OK) {
            return status;
        }
        for (uint32_t i = 0; i < MUSTER_TASK_METRICS_MAX; i++) {
            sums_out->value[i] += (double)row[2 * i] + (double)row[2 * i + 1];
        }
    }
    return MUSTER_OK;
}

static void *sit(void *argument)
{
    seat *s = argument;
    muster_task_share share = {.part = s->part,
                               .parts = s->run->parts,
                               .epoch = s->epoch,
                               .final = s->final,
                               .done = s->evaluate ? NULL : &s->run->done,
                               .stop = &s->run->stop};
    if (s->leave) {
        s->status = muster_ps_barrier(s->worker);
        atomic_fetch_sub(&s->run->running, 1);
        return NULL;
    }
    s->status = (s->evaluate ? s->run->ops->evaluate : s->run->ops->work)(
        s->run->task, s->worker, &share, &s->sums);
    if (s->status == MUSTER_OK) {
        s->status = share_sums(s);
    }
    if (s->status < 0) {
        atomic_store(&s->run->stop, 1);
    }
    atomic_fetch_sub(&s->run->running, 1);
    return NULL;
}

static void tell(const task_run *run, uint32_t epoch, int64_t since_ns)
{
    double all = (double)run->ops->units(run->task);
    double done = (double)atomic_load(&run->done) * run->nodes;
    double s = (double)(muster_clock_ns() - since_ns) / 1e9;
    double rate = done / (s > 0 ? s : 1);
    double left = all * run->epochs - all * epoch - done;
    char eta[32];
    muster_progress_duration(rate > 0 ? left / rate : NAN, eta, sizeof(eta));
    muster_log(MUSTER_LOG_PROGRESS,
               "epoch %" PRIu32 "/%" PRIu32 "  %3.0f%%  %.3g %s/s  ETA %s",
               epoch + 1, run->epochs, 100 * done / all, rate, run->ops->unit,
               eta);
}

/* Wait for the threads of a phase; a signal makes them stop. */
static void watch(task_run *run, uint32_t epoch, bool telling)
{
    int64_t since = muster_clock_ns();
    const struct timespec nap = {.tv_nsec = MUSTER_NS_PER_MS};
    int64_t told = since;
    while (atomic_load(&run->running) > 0) {
        (void)nanosleep(&nap, NULL);
        if (muster_signals_stop_asked()) {
            atomic_store(&run->stop, 1);
        }
        int64_t now = muster_clock_ns();
        if (telling && now - told >= WATCH_NS) {
            tell(run, epoch, since);
            told = now;
        }
    }
}

static muster_status start_seats(task_run *run, const seat *pattern,
                                 muster_error *error_out)
{
    for (uint32_t i = 0; i < run->threads; i++) {
        seat *s = &run->seats[i];
        s->evaluate = pattern->evaluate;
        s->final = pattern->final;
        s->leave = pattern->leave;
        s->epoch = pattern->epoch;
        s->status = MUSTER_OK;
        s->sums = (muster_task_sums){{0}};
        atomic_fetch_add(&run->running, 1);
        int failed = pthread_create(&s->thread, NULL, sit, s);
        if (failed != 0) {
            atomic_fetch_sub(&run->running, 1);
            atomic_store(&run->stop, 1);
            for (uint32_t j = 0; j < i; j++) {
                (void)pthread_join(run->seats[j].thread, NULL);
            }
            return muster_error_set(error_out, MUSTER_ERR_SYSTEM,
                                    "cannot start a thread: %s",
                                    strerror(failed));
        }
    }
    return MUSTER_OK;
}

/* One epoch or evaluation by all threads; their sums together. */
static muster_status phase(task_run *run, const seat *pattern,
                           muster_error *error_out, muster_task_sums *sums_out)
{
    *sums_out = (muster_task_sums){{0}};
    atomic_store(&run->done, 0);
    muster_status status = start_seats(run, pattern, error_out);
    if (status != MUSTER_OK) {
        return status;
    }
    watch(run, pattern->epoch, !pattern->evaluate);
    for (uint32_t i = 0; i < run->threads; i++) {
        (void)pthread_join(run->seats[i].thread, NULL);
        muster_status one = run->seats[i].status;
        if (one < 0 &&
            (status == MUSTER_OK || status == MUSTER_ERR_CANCELLED)) {
            status = one;
        }
    }
    if (status == MUSTER_OK && run->node == 0 && !pattern->leave) {
        status = gather_sums(run, sums_out);
    }
    run->phases++;
    if (status == MUSTER_OK) {
        return MUSTER_OK;
    }
    if (status == MUSTER_ERR_CANCELLED) {
        return muster_error_set(error_out, MUSTER_ERR_INTERRUPTED,
                                "interrupted in epoch %" PRIu32,
                                pattern->epoch + 1);
    }
    if (status == MUSTER_ERR_PEER_LOST) {
        return muster_error_set(error_out, MUSTER_ERR_QUORUM,
                                "a node was lost in epoch %" PRIu32
                                ", and rows with it",
                                pattern->epoch + 1);
    }
    return muster_error_set(error_out, status, "%s: %s", run->ops->name,
                            muster_status_text(status));
}

static json_t *real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* The task's own metrics into an object, and as text for people. */
static void describe(const task_run *run, const muster_task_sums *work,
                     const muster_task_sums *evaluation, json_t *into,
                     char *text, size_t size)
{
    const char *names[MUSTER_TASK_METRICS_MAX];
    double values[MUSTER_TASK_METRICS_MAX];
    uint32_t count =
        run->ops->report(run->task, work, evaluation, names, values);
    size_t used = 0;
    for (uint32_t i = 0; i < count; i++) {
        (void)json_object_set_new(into, names[i], real(values[i]));
        int length = snprintf(text + used, size - used, "  %s %.4g", names[i],
                              values[i]);
        used += length > 0 && (size_t)length < size - used ? (size_t)length : 0;
    }
}

static muster_status append_line(task_run *run, const json_t *line,
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

/* Train one epoch, evaluate, write and tell. */
static muster_status one_epoch(task_run *run, uint32_t epoch,
                               muster_error *error_out)
{
    muster_task_sums work;
    muster_task_sums evaluation;
    seat pattern = {.epoch = epoch};
    int64_t start = muster_clock_ns();
    muster_status status = phase(run, &pattern, error_out, &work);
    if (status != MUSTER_OK) {
        return status;
    }
    double s = (double)(muster_clock_ns() - start) / 1e9;
    uint64_t units = run->ops->units(run->task);
    run->train_s += s;
    run->units += units;
    pattern.evaluate = true;
    pattern.final = epoch + 1 == run->epochs;
    status = phase(run, &pattern, error_out, &evaluation);
    if (status != MUSTER_OK) {
        return status;
    }
    if (run->node > 0) {
        return MUSTER_OK;
    }
    char text[512] = "";
    json_t *line = json_object();
    (void)json_object_set_new(line, "epoch", json_integer(epoch + 1));
    (void)json_object_set_new(line, "epoch_s", real(s));
    (void)json_object_set_new(line, "units_per_s", real((double)units / s));
    describe(run, &work, &evaluation, line, text, sizeof(text));
    muster_log(MUSTER_LOG_INFO, "epoch %" PRIu32 "  %.2f s  %.3g %s/s%s",
               epoch + 1, s, (double)units / s, run->ops->unit, text);
    status = append_line(run, line, error_out);
    json_decref(run->last);
    run->last = line;
    return status;
}

static uint32_t manage_of(const char *name)
{
    static const char *const ways[] = {"auto", "relocate", "replicate",
                                       "classic"};
    uint32_t found = MUSTER_PS_AUTO;
    for (uint32_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        found = strcmp(ways[i], name) == 0 ? i : found;
    }
    return found;
}

static muster_status make_tables(task_run *run, uint64_t seed,
                                 muster_error *error_out)
{
    const char *mesh = muster_config_string(run->config, MUSTER_OPT_MESH);
    muster_ps_opts opts = MUSTER_PS_OPTS_INIT;
    opts.seed = seed;
    opts.nodes = run->nodes;
    opts.node = run->node;
    opts.mesh = mesh != NULL ? mesh : run->others.folder;
    opts.patience_ms = 60000;
    opts.manage =
        manage_of(muster_config_string(run->config, MUSTER_OPT_MANAGE));
    muster_status status = muster_ps_create(&opts, error_out, &run->ps);
    if (status == MUSTER_OK) {
        status = run->ops->tables(run->task, run->ps, error_out);
    }
    if (status == MUSTER_OK) {
        muster_ps_table_opts sums = MUSTER_PS_TABLE_OPTS_INIT;
        sums.keys = 2 * run->parts;
        sums.width = SUM_FLOATS;
        status =
            muster_ps_table_add(run->ps, &sums, error_out, &run->sums_table);
    }
    return status == MUSTER_OK && run->nodes > 1
               ? muster_ps_connect(run->ps, error_out)
               : status;
}

static muster_status make_task(task_run *run, muster_error *error_out)
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
    muster_status status = run->ops->create(&opts, error_out, &run->task);
    if (status != MUSTER_OK) {
        return status;
    }
    return make_tables(run, opts.seed, error_out);
}

static muster_status make_seats(task_run *run, muster_error *error_out)
{
    run->seats = muster_mem_array(run->threads, sizeof(*run->seats));
    muster_status status =
        run->seats == NULL ? MUSTER_ERR_NO_MEMORY : MUSTER_OK;
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

static muster_status open_folder(task_run *run, muster_error *error_out)
{
    const char *dir = muster_config_string(run->config, MUSTER_OPT_RUN);
    if (dir == NULL || run->node > 0) {
        return MUSTER_OK;
    }
    muster_status status =
        muster_run_folder_open(dir, false, error_out, &run->folder);
    if (status != MUSTER_OK) {
        return status;
    }
    char *text = muster_config_to_json(run->config);
    if (text == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "no memory for the options");
    }
    status = muster_run_folder_write(run->folder, MUSTER_RUN_CONFIG, text,
                                     error_out);
    muster_config_text_free(text);
    return status;
}

static muster_status prepare(task_run *run, muster_error *error_out)
{
    static const muster_net_callbacks deaf = {NULL, NULL, NULL};
    const muster_net_opts opts = MUSTER_NET_OPTS_INIT;
    muster_status status = open_folder(run, error_out);
    bool alone = muster_config_string(run->config, MUSTER_OPT_MESH) == NULL;
    if (status == MUSTER_OK && run->nodes > 1 && alone) {
        status = muster_nodes_start(run->config, run->program, error_out,
                                    &run->others);
    }
    if (status == MUSTER_OK) {
        status = make_task(run, error_out);
    }
    if (status == MUSTER_OK) {
        status = make_seats(run, error_out);
    }
    if (status == MUSTER_OK) {
        status = muster_net_open(&opts, &deaf, NULL, error_out, &run->net);
    }
    return status;
}

static char *summary_text(const task_run *run)
{
    json_t *all = json_object();
    double wall = (double)(muster_clock_ns() - run->start_ns) / 1e9;
    (void)json_object_set_new(
        all, "model",
        json_string(muster_config_string(run->config, MUSTER_OPT_MODEL)));
    (void)json_object_set_new(all, "steps",
                              json_integer((json_int_t)run->units));
    (void)json_object_set_new(all, "wall_s", real(wall));
    (void)json_object_set_new(all, "train_s", real(run->train_s));
    (void)json_object_set_new(
        all, "units_per_s",
        real(run->train_s > 0 ? (double)run->units / run->train_s : NAN));
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

static muster_status conclude(task_run *run, muster_error *error_out,
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

static void finish(task_run *run)
{
    for (uint32_t i = 0; run->seats != NULL && i < run->threads; i++) {
        muster_ps_worker_free(run->seats[i].worker);
    }
    muster_mem_free(run->seats);
    muster_ps_free(run->ps);
    muster_nodes_stop(&run->others);
    if (run->task != NULL) {
        run->ops->free(run->task);
    }
    muster_run_folder_close(run->folder);
    muster_net_close(run->net);
    json_decref(run->last);
}

muster_status muster_train_task(const muster_config *config,
                                const char *program, muster_error *error_out,
                                char **json_out)
{
    task_run run = {
        .config = config,
        .program = program,
        .nodes = (uint32_t)muster_config_uint(config, MUSTER_OPT_NODES),
        .node = (uint32_t)muster_config_uint(config, MUSTER_OPT_NODE),
        .threads = (uint32_t)muster_config_uint(config, MUSTER_OPT_THREADS),
        .start_ns = muster_clock_ns(),
        .last = json_object()};
    run.parts = run.nodes * run.threads;
    muster_status status = prepare(&run, error_out);
    if (status == MUSTER_OK) {
        status = muster_signals_start(run.net, error_out);
    }
    if (status == MUSTER_OK) {
        muster_log(MUSTER_LOG_INFO,
                   "%s: %" PRIu64 " %s, %" PRIu32 " epochs, %" PRIu32
                   " node(s) of %" PRIu32 " thread(s), %.1f MB of tables here",
                   run.ops->name, run.ops->units(run.task), run.ops->unit,
                   run.epochs, run.nodes, run.threads,
                   (double)muster_ps_bytes(run.ps) / 1e6);
        for (uint32_t e = 0; e < run.epochs && status == MUSTER_OK; e++) {
            status = one_epoch(&run, e, error_out);
        }
        if (status == MUSTER_OK && run.node == 0) {
            status = conclude(&run, error_out, json_out);
        }
        // The rows of a node go with it: all stay until node 0 has read them.
        if (status == MUSTER_OK && run.nodes > 1) {
            muster_task_sums none;
            seat pattern = {.leave = true, .evaluate = true};
            status = phase(&run, &pattern, error_out, &none);
        }
        muster_signals_stop();
    }
    finish(&run);
    return status;
}
