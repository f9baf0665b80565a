/*
 * build.c -- see build.h.
 */
#include "run/build.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/spec.h"
#include "base/threads.h"
#include "cluster/file.h"
#include "code/hier.h"
#include "code/numbers.h"
#include "config/fault.h"
#include "data/cut.h"
#include "linalg/blas_room.h"
#include "model/model.h"

/* Timing only: what a run has where no data says it. */
#define STEPS_DEFAULT       100u
#define MESSAGE_DIM_DEFAULT 100001u

/* A shard has one owner: with more of them, sizes by speed fit better. */
#define PLACED_FINER 8u
#define SHARDS_MAX   (1u << 20)

/* The mean of the speeds becomes 1, as it is without a file. */
static void normalise(double *speeds, uint32_t workers)
{
    double sum = 0;
    for (uint32_t worker = 0; worker < workers; worker++) {
        sum += speeds[worker];
    }
    for (uint32_t worker = 0; worker < workers; worker++) {
        speeds[worker] *= workers / sum;
    }
}

muster_status muster_build_speeds(const muster_config *config, uint32_t workers,
                                  muster_error *error_out, double *speeds_out)
{
    const char *path = muster_config_speeds_file(config);
    if (!muster_config_is_set(config, MUSTER_OPT_SPEEDS)) {
        path = muster_config_string(config, MUSTER_OPT_CLUSTER);
    }
    if (path == NULL) {
        return muster_config_speeds(config, workers, error_out, speeds_out);
    }
    muster_cluster *cluster = NULL;
    muster_status status = muster_cluster_read(path, error_out, &cluster);
    if (status == MUSTER_OK && cluster->worker_count != workers) {
        status = muster_error_set(error_out, MUSTER_ERR_INPUT,
                                  "%s: has %" PRIu32 " workers, the run has "
                                  "%" PRIu32,
                                  path, cluster->worker_count, workers);
    }
    if (status == MUSTER_OK) {
        muster_cluster_speeds(cluster, speeds_out);
        normalise(speeds_out, workers);
    }
    muster_cluster_free(cluster);
    return status;
}

const char *muster_build_first(const muster_config *config, const char *name)
{
    if (!muster_config_is_auto(config, name)) {
        return name;
    }
    return muster_config_edges(config) > 0 ? "hier" : "uncoded";
}

muster_status muster_build_code_opts(const muster_config *config,
                                     const char *name, muster_error *error_out,
                                     muster_build_code *build_out)
{
    uint32_t workers = muster_config_workers(config);
    muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
    name = name != NULL ? name : muster_config_string(config, MUSTER_OPT_CODE);
    if (workers == 0) { // only `muster code` gets here: others were checked
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "code: --workers is missing; for example "
                                "muster code %.60s --workers 12; `muster code "
                                "list` names all codes",
                                name);
    }
    double *speeds = muster_mem_array(workers, sizeof *speeds);
    if (speeds == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "no memory for %" PRIu32 " workers", workers);
    }
    for (uint32_t worker = 0; worker < workers; worker++) {
        speeds[worker] = 1;
    }
    muster_status status =
        muster_build_speeds(config, workers, error_out, speeds);
    if (status < 0) {
        muster_mem_free(speeds);
        return status;
    }
    opts.name = name;
    opts.workers = workers;
    opts.stragglers =
        (uint32_t)muster_config_uint(config, MUSTER_OPT_STRAGGLERS);
    opts.comm = (uint32_t)muster_config_uint(config, MUSTER_OPT_COMM);
    opts.load = (uint32_t)muster_config_uint(config, MUSTER_OPT_LOAD);
    opts.seed = muster_config_uint(config, MUSTER_OPT_SEED);
    opts.topology = muster_config_string(config, MUSTER_OPT_TOPOLOGY);
    // Some codes read speeds as a wish for unequal loads.
    opts.speeds = (muster_config_is_set(config, MUSTER_OPT_SPEEDS) &&
                   !muster_config_speeds_measured(config)) ||
                          muster_config_is_set(config, MUSTER_OPT_CLUSTER)
                      ? speeds
                      : NULL;
    *build_out = (muster_build_code){opts, speeds};
    return MUSTER_OK;
}

void muster_build_code_fini(muster_build_code *build)
{
    muster_mem_free(build->speeds);
    build->speeds = NULL;
}

uint32_t muster_build_shards(const muster_config *config,
                             const muster_code *code)
{
    const muster_code_info *info = muster_code_numbers(code);
    uint64_t wanted = muster_config_uint(config, MUSTER_OPT_SHARDS);
    if (wanted >= info->parts) {
        return (uint32_t)wanted;
    }
    uint32_t shards = muster_cut_default(info->workers, info->parts);
    bool placed = muster_config_string(config, MUSTER_OPT_PLACEMENT) != NULL;
    uint32_t finer =
        muster_config_speeds_measured(config) ? 2 * PLACED_FINER : PLACED_FINER;
    return placed && shards < SHARDS_MAX ? shards * finer : shards;
}

muster_status muster_build_check_shards(const muster_config *config,
                                        const muster_code *code,
                                        uint64_t samples,
                                        muster_error *error_out)
{
    const muster_code_info *info = muster_code_numbers(code);
    uint64_t wanted = muster_config_uint(config, MUSTER_OPT_SHARDS);
    if (wanted == 0 || muster_config_is_from_file(config, MUSTER_OPT_SHARDS)) {
        return MUSTER_OK;
    }
    if (wanted < info->parts) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "--shards %" PRIu64 ": too few for the "
                                "%" PRIu32 " parts of code %.60s; %" PRIu32
                                " is the default",
                                wanted, info->parts, info->name,
                                muster_cut_default(info->workers, info->parts));
    }
    return wanted <= samples
               ? MUSTER_OK
               : muster_error_set(error_out, MUSTER_ERR_INVALID,
                                  "--shards %" PRIu64 ": there are %" PRIu64
                                  " samples for them; give no more shards than "
                                  "samples",
                                  wanted, samples);
}

/* What the job says: steps, lengths, the first model. */
static void take_job(const muster_config *config,
                     const muster_executor *executor,
                     muster_coordinator_opts *opts)
{
    if (executor != NULL) {
        muster_executor_info job = muster_executor_describe(executor);
        opts->first_step = job.step;
        opts->last_step = job.steps;
        opts->message_dim = job.message_dim;
        opts->shards = job.shards;
        opts->message_tail = job.message_tail;
        // With measured speeds each shard has an owner, and parts begin equal.
        opts->balance = muster_config_speeds_measured(config);
        opts->first_shard =
            opts->balance ? NULL : muster_executor_owned(executor);
        opts->setup = muster_executor_setup_blob(executor);
        opts->rows_before = muster_executor_shards(executor);
        opts->model = muster_executor_model_blob(executor);
        return;
    }
    uint64_t steps = muster_config_uint(config, MUSTER_OPT_STEPS);
    opts->last_step = steps > 0 ? steps : STEPS_DEFAULT;
    uint64_t floats = muster_config_uint(config, MUSTER_OPT_MODEL_FLOATS);
    opts->message_dim = floats > 0 ? floats + 1 : MESSAGE_DIM_DEFAULT;
    opts->setup = muster_blob_create_empty(0);
    opts->model =
        muster_blob_create_empty((opts->message_dim - 1) * sizeof(float));
}

/* --until. An accuracy needs test data and classes. */
static muster_status take_target(const muster_config *config,
                                 const muster_executor *executor,
                                 muster_error *error_out,
                                 muster_target *target_out)
{
    static const muster_target_kind kinds[] = {
        [MUSTER_GOAL_NONE] = MUSTER_TARGET_NONE,
        [MUSTER_GOAL_LOSS] = MUSTER_TARGET_LOSS,
        [MUSTER_GOAL_ACCURACY] = MUSTER_TARGET_ACCURACY};
    muster_config_goal goal = MUSTER_GOAL_NONE;
    double value = 0;
    muster_status status =
        muster_config_until(config, error_out, &goal, &value);
    if (status == MUSTER_OK && goal != MUSTER_GOAL_NONE && executor == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "--until: needs --data");
    }
    if (status == MUSTER_OK && goal == MUSTER_GOAL_ACCURACY) {
        muster_executor_info job = muster_executor_describe(executor);
        if (!job.has_test || job.classes == 0) {
            return muster_error_set(error_out, MUSTER_ERR_INPUT,
                                    "--until accuracy: there is no test data "
                                    "with classes; give --test, or use "
                                    "--until loss=..");
        }
    }
    *target_out = (muster_target){kinds[goal], value};
    return status;
}

/* Without data there is nothing to compare. */
static muster_verify_mode verify_mode(const muster_config *config,
                                      const muster_executor *executor)
{
    const char *verify = muster_config_string(config, MUSTER_OPT_VERIFY);
    if (executor == NULL || strcmp(verify, "off") == 0) {
        return MUSTER_VERIFY_OFF;
    }
    return strcmp(verify, "correct") == 0 ? MUSTER_VERIFY_CORRECT
                                          : MUSTER_VERIFY_WARN;
}

uint32_t muster_build_processors(const muster_config *config)
{
    uint64_t local = muster_config_uint(config, MUSTER_OPT_LOCAL);
    uint32_t threads = muster_config_threads(config);
    uint32_t here = muster_threads_here() / threads; // for so many workers
    here = here > 0 ? here : 1;
    bool real = strcmp(muster_config_verb(config), "train") == 0;
    return real && local > here ? here : 0;
}

muster_status muster_build_check_code(const muster_config *config,
                                      const muster_code *code,
                                      muster_error *error_out)
{
    const char *verify = muster_config_string(config, MUSTER_OPT_VERIFY);
    if (muster_code_numbers(code)->stages > 1 &&
        strcmp(verify, "correct") == 0) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "--verify correct: code %.60s has no answers "
                                "beyond those that a step needs; use frc or "
                                "another code that sends them",
                                muster_code_numbers(code)->name);
    }
    if (muster_config_edges(config) > 0 && !muster_code_is_hier(code)) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "--topology: code %.60s has no layer for "
                                "edges; use --code hier:se=1,sw=1",
                                muster_code_numbers(code)->name);
    }
    return MUSTER_OK;
}

muster_status muster_build_coordinator(const muster_config *config,
                                       const muster_code *code,
                                       const muster_executor *executor,
                                       muster_error *error_out,
                                       muster_coordinator_opts *opts_out)
{
    const char *on_loss = muster_config_string(config, MUSTER_OPT_ON_LOSS);
    muster_coordinator_opts opts = MUSTER_COORDINATOR_OPTS_INIT;
    muster_status status =
        take_target(config, executor, error_out, &opts.target);
    if (status != MUSTER_OK) {
        return status;
    }
    status = muster_build_check_code(config, code, error_out);
    if (status != MUSTER_OK) {
        return status;
    }
    opts.code = code;
    opts.processors = muster_build_processors(config);
    opts.eager = opts.processors == 0;
    opts.edges = muster_config_edges(config) > 0;
    opts.heartbeat_ns = muster_config_duration_ns(config, MUSTER_OPT_HEARTBEAT);
    opts.patience_ns = muster_config_duration_ns(config, MUSTER_OPT_PATIENCE);
    opts.evaluate_at_end = true;
    opts.deadline_ns = muster_config_deadline_ns(config);
    muster_algorithm algorithm = {.kind = MUSTER_ALGORITHM_SYNC};
    (void)muster_config_algorithm(config, &algorithm); // it was checked
    opts.averages = algorithm.kind != MUSTER_ALGORITHM_SYNC;
    opts.async = algorithm.kind == MUSTER_ALGORITHM_SSP;
    opts.bound = algorithm.bound;
    opts.gossip = algorithm.kind == MUSTER_ALGORITHM_GOSSIP;
    opts.partners = algorithm.partners;
    opts.seed = muster_config_uint(config, MUSTER_OPT_SEED);
    opts.stop_on_loss = strcmp(on_loss, "stop") == 0;
    opts.degrade = !opts.stop_on_loss &&
                   (opts.averages || strcmp(on_loss, "degrade") == 0);
    opts.evaluate_every =
        executor != NULL ? muster_config_eval_every(config) : 0;
    opts.shuffle = muster_config_string(config, MUSTER_OPT_SHUFFLE);
    opts.replan = muster_config_is_auto(config, NULL);
    opts.verify =
        verify_mode(config, executor); // off with edges: config/check.c
    take_job(config, executor, &opts);
    if (opts.setup == NULL || opts.model == NULL) {
        muster_build_coordinator_fini(&opts);
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "no memory for the model");
    }
    *opts_out = opts;
    return MUSTER_OK;
}

void muster_build_coordinator_fini(muster_coordinator_opts *opts)
{
    muster_blob_unref(opts->setup);
    muster_blob_unref(opts->model);
    opts->setup = NULL;
    opts->model = NULL;
}

muster_status muster_build_code_of(const muster_config *config,
                                   muster_error *error_out,
                                   muster_code **code_out)
{
    muster_build_code build = {.speeds = NULL};
    muster_status status = muster_build_code_opts(
        config, muster_build_first(config, NULL), error_out, &build);
    if (status == MUSTER_OK) {
        status = muster_code_create(&build.opts, error_out, code_out);
        muster_build_code_fini(&build);
    }
    return status;
}

muster_edge_opts muster_build_edge(const muster_config *config)
{
    muster_edge_opts opts = MUSTER_EDGE_OPTS_INIT;
    if (muster_config_is_set(config, MUSTER_OPT_WORKER)) {
        opts.id = (uint32_t)muster_config_uint(config, MUSTER_OPT_WORKER);
    }
    opts.patience_ns = muster_config_duration_ns(config, MUSTER_OPT_PATIENCE);
    return opts;
}

const char *muster_build_model_path(const muster_config *config)
{
    const char *model = muster_config_string(config, MUSTER_OPT_MODEL);
    const char *allowed = muster_config_string(config, MUSTER_OPT_ALLOW_MODEL);
    return muster_config_is_from_file(config, MUSTER_OPT_MODEL) &&
                   allowed != NULL && muster_model_plugin_path(model) > 0
               ? allowed
               : model;
}

muster_status muster_build_threads(const muster_config *config,
                                   muster_executor *executor,
                                   muster_error *error_out)
{
    uint32_t threads = muster_config_threads(config);
    muster_status status = muster_blas_room_take(threads, error_out);
    if (status != MUSTER_OK) {
        return status;
    }
    status = muster_executor_use_threads(executor, threads);
    return status == MUSTER_OK
               ? MUSTER_OK
               : muster_error_set(error_out, status,
                                  "--threads: the system does not give %" PRIu32
                                  "; try fewer",
                                  threads);
}

muster_worker_opts muster_build_worker(const muster_config *config)
{
    muster_worker_opts opts = MUSTER_WORKER_OPTS_INIT;
    if (muster_config_is_set(config, MUSTER_OPT_WORKER)) {
        opts.id = (uint32_t)muster_config_uint(config, MUSTER_OPT_WORKER);
    }
    opts.patience_ns = muster_config_duration_ns(config, MUSTER_OPT_PATIENCE);
    return opts;
}

/* --delay, behind the cluster file of a simulation; NULL: there is none. */
static muster_status delay_spec(const muster_config *config,
                                muster_error *error_out, char **spec_out)
{
    const char *spec = muster_config_string(config, MUSTER_OPT_DELAY);
    const char *file = muster_config_string(config, MUSTER_OPT_CLUSTER);
    char joined[2 * MUSTER_SPEC_VALUE_MAX];
    int length = 0;
    *spec_out = NULL;
    if (spec == NULL && file == NULL) {
        return MUSTER_OK;
    }
    if (file != NULL) {
        length = snprintf(joined, sizeof(joined), "cluster:file=%s%s%s", file,
                          spec != NULL ? "+" : "", spec != NULL ? spec : "");
        spec = joined;
    }
    if (length < 0 || (size_t)length >= sizeof(joined)) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "--cluster: the path is too long");
    }
    *spec_out = muster_config_edges(config) > 0 ? muster_delay_under_edges(spec)
                                                : muster_mem_string(spec);
    return *spec_out != NULL ? MUSTER_OK
                             : muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                                "--delay: no memory");
}

muster_status muster_build_delay(const muster_config *config, uint32_t workers,
                                 muster_error *error_out,
                                 muster_delay **delay_out)
{
    char *spec = NULL;
    *delay_out = NULL;
    muster_status status = delay_spec(config, error_out, &spec);
    if (status == MUSTER_OK && spec != NULL) {
        status = muster_delay_create(
            spec, workers, muster_config_uint(config, MUSTER_OPT_SEED),
            error_out, delay_out);
    }
    muster_mem_free(spec);
    return status;
}

/* What a value of --slow changes, and when. */
static muster_slowness_change change_of(const muster_fault *fault)
{
    muster_slowness_change change = {.step = fault->step, .sleep_ns = -1};
    if (fault->kind == MUSTER_FAULT_SLOW_TIMES) {
        change.factor = fault->factor;
    } else {
        change.sleep_ns = fault->delay_ns;
        change.factor = fault->delay_ns == 0 ? 1 : 0; // 0 ends both
    }
    return change;
}

/* By step; of one step, in the order given. */
static muster_status add_change(const muster_fault *fault,
                                muster_error *error_out, muster_vec *changes)
{
    muster_slowness_change *slot = muster_vec_push(changes);
    if (slot == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "no memory for --slow");
    }
    muster_slowness_change *all = changes->data;
    size_t at = changes->count - 1;
    for (; at > 0 && all[at - 1].step > fault->step; at--) {
        all[at] = all[at - 1];
    }
    all[at] = change_of(fault);
    return MUSTER_OK;
}

/* Of worker or edge `number`. */
static muster_status read_changes(const muster_config *config, uint32_t number,
                                  bool edge, muster_error *error_out,
                                  muster_vec *changes)
{
    size_t count = muster_config_list_count(config, MUSTER_OPT_SLOW);
    for (size_t i = 0; i < count; i++) {
        muster_fault fault;
        muster_status status = muster_fault_parse(
            MUSTER_OPT_SLOW, muster_config_list_at(config, MUSTER_OPT_SLOW, i),
            error_out, &fault);
        if (status == MUSTER_OK && fault.worker == number &&
            fault.edge == edge) {
            status = add_change(&fault, error_out, changes);
        }
        if (status < 0) {
            return status;
        }
    }
    return MUSTER_OK;
}

static muster_status slowness_of(const muster_config *config, uint32_t number,
                                 bool edge, muster_error *error_out,
                                 muster_slowness *slowness)
{
    muster_vec changes = muster_vec_make(sizeof(muster_slowness_change));
    muster_status status =
        read_changes(config, number, edge, error_out, &changes);
    if (status < 0) {
        muster_vec_fini(&changes);
        return status;
    }
    slowness->changes = changes.data; // the vector's array is handed over
    slowness->change_count = (uint32_t)changes.count;
    return MUSTER_OK;
}

muster_status muster_build_slowness(const muster_config *config,
                                    uint32_t worker, muster_delay *delay,
                                    muster_error *error_out,
                                    muster_slowness *slowness_out)
{
    muster_slowness slowness = MUSTER_SLOWNESS_NONE;
    muster_status status =
        slowness_of(config, worker, false, error_out, &slowness);
    if (status == MUSTER_OK) {
        slowness.delay = delay;
        slowness.worker = worker;
        *slowness_out = slowness;
    }
    return status;
}

muster_status muster_build_edge_slowness(const muster_config *config,
                                         uint32_t edge, muster_delay *delay,
                                         muster_error *error_out,
                                         muster_slowness *slowness_out)
{
    muster_slowness slowness = MUSTER_SLOWNESS_NONE;
    muster_status status =
        slowness_of(config, edge, true, error_out, &slowness);
    if (status == MUSTER_OK) {
        slowness.delay = delay;
        slowness.worker = edge;
        slowness.edge = true;
        *slowness_out = slowness;
    }
    return status;
}
