/*
 * train.c -- `muster train`: from options to a trained model.
 *
 * Everything that can be wrong is looked at before the first process starts:
 * code, data, run folder, address. From then on every way out passes through
 * finish(), which leaves nothing running and nothing behind in /tmp.
 */
#define _GNU_SOURCE
#include "run/train.h"
#include "run/record_delays.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "code/hier.h"
#include "code/numbers.h"
#include "config/fault.h"
#include "model/allow.h"
#include "muster/run.h"
#include "net/socket_address.h"
#include "proc/signals.h"
#include "proc/user_address.h"
#include "run/build.h"
#include "run/complete.h"
#include "run/needs.h"
#include "run/network.h"
#include "run/placed.h"
#include "run/sparse_train.h"

/* Files that a coordinator has open beside its workers' connections. */
#define FILES 24u

static muster_status make_code(muster_train_state *train,
                               muster_error *error_out)
{
    muster_status status =
        muster_build_code_of(train->config, error_out, &train->code);
    if (status == MUSTER_OK) {
        train->in_force = train->code;
        train->code_info = *muster_code_numbers(train->code);
        train->edges = muster_config_edges(train->config);
        train->led = train->edges > 0 ? train->edges : train->code_info.workers;
        status = muster_build_check_code(train->config, train->code, error_out);
    }
    return status;
}

/* Evaluations on the way have a thread: no update waits for one. */
static muster_status make_evaluator(muster_train_state *train,
                                    muster_error *error_out)
{
    if (muster_config_eval_every(train->config) == 0) {
        return MUSTER_OK;
    }
    muster_status status =
        muster_executor_create_evaluator(train->executor, &train->evaluator);
    if (status != MUSTER_OK) {
        return muster_error_set(error_out, status, "no memory for evaluations");
    }
    return muster_build_threads(train->config, train->evaluator, error_out);
}

/* The coordinator's end of the work: data, model, optimiser. */
static muster_status make_executor(muster_train_state *train,
                                   muster_error *error_out)
{
    muster_host_opts opts = {.on_report = muster_train_on_report,
                             .on_turn = muster_train_on_turn,
                             .context = train};
    muster_run_key key;
    muster_status status =
        muster_network_opts(train->config, error_out, &key, &opts.net);
    if (status == MUSTER_OK) {
        status = muster_host_open(&opts, error_out, &train->host);
    }
    if (status < 0) {
        return status;
    }
    muster_executor_alloc alloc = muster_host_alloc(train->host);
    status = muster_executor_create_coordinator(
        train->config, muster_build_shards(train->config, train->code), &alloc,
        error_out, &train->executor);
    if (status == MUSTER_OK) {
        status = muster_build_check_shards(
            train->config, train->code,
            muster_executor_describe(train->executor).samples, error_out);
    }
    if (status == MUSTER_OK) {
        status =
            muster_build_threads(train->config, train->executor, error_out);
    }
    if (status == MUSTER_OK) {
        status = make_evaluator(train, error_out);
    }
    if (status == MUSTER_OK) {
        train->job = muster_executor_describe(train->executor);
        status = muster_placed_make(train->config, train->code, train->executor,
                                    error_out);
    }
    return status;
}

static muster_status make_counts(muster_train_state *train,
                                 muster_error *error_out)
{
    uint32_t workers = train->led;
    muster_status status = muster_tally_init(workers, &train->tally);
    if (status == MUSTER_OK) {
        status = muster_progress_init(workers, &train->progress);
    }
    if (status == MUSTER_OK && train->edges > 0) {
        status = muster_below_init(train->code, &train->below);
    }
    if (status == MUSTER_OK && muster_config_is_auto(train->config, NULL)) {
        status =
            muster_summary_create(train->code_info.workers, &train->per_load);
    }
    if (status < 0) {
        return muster_error_set(error_out, status, "no memory for the counts");
    }
    const char *trace = muster_config_string(train->config, MUSTER_OPT_TRACE);
    if (trace != NULL) {
        status =
            muster_tracing_open(trace, train->edges, train->code_info.workers,
                                error_out, &train->tracing);
    }
    if (status == MUSTER_OK) {
        status =
            muster_record_delays_open(train->config, train->code_info.workers,
                                      error_out, &train->recorder);
    }
    return status < 0
               ? status
               : muster_faults_read(train->config, error_out, &train->faults);
}

/* A run's number, drawn anew: messages of another run are known by it. */
static muster_status draw_run(muster_error *error_out, uint64_t *run_out)
{
    uint64_t run = 0;
    while (run == 0) {
        if (getrandom(&run, sizeof run, 0) != (ssize_t)sizeof run) {
            return muster_error_set(error_out, MUSTER_ERR_SYSTEM,
                                    "the system gives no random numbers");
        }
    }
    *run_out = run;
    return MUSTER_OK;
}

static muster_status make_role(muster_train_state *train,
                               muster_error *error_out)
{
    muster_coordinator_opts opts;
    muster_status status = muster_build_coordinator(
        train->config, train->code, train->executor, error_out, &opts);
    if (status < 0) {
        return status;
    }
    if (train->folder != NULL) {
        opts.checkpoint_every =
            muster_config_uint(train->config, MUSTER_OPT_CHECKPOINT_EVERY);
    }
    if (train->saved != NULL) { // it has the run's number
        opts.saved = train->saved->data;
        opts.saved_bytes = train->saved->bytes;
    } else {
        status = draw_run(error_out, &opts.run);
    }
    if (status == MUSTER_OK) {
        status = muster_coordinator_create(&opts, error_out, &train->role);
    }
    muster_build_coordinator_fini(&opts);
    return status;
}

const char *muster_train_noun(const muster_train_state *train)
{
    return train->edges > 0 ? "edge" : "worker";
}

bool muster_train_is_gossip(const muster_train_state *train)
{
    return muster_config_algorithm_kind(train->config) ==
           MUSTER_ALGORITHM_GOSSIP;
}

static muster_status listen_for_joiners(muster_train_state *train,
                                        muster_error *error_out)
{
    char wanted[MUSTER_NET_ADDRESS_MAX], address[MUSTER_NET_ADDRESS_MAX];
    const char *text = muster_config_string(train->config, MUSTER_OPT_LISTEN);
    muster_status status =
        muster_user_address_expand(text, "--listen", error_out, wanted);
    if (status < 0) {
        return status;
    }
    status = muster_net_listen(muster_host_net(train->host), wanted, error_out,
                               address);
    if (status < 0) {
        return status;
    }
    muster_net_reachable(address, train->joined_at);
    muster_log(MUSTER_LOG_INFO, "waiting for %" PRIu32 " %ss: muster join %s%s",
               train->led, muster_train_noun(train), train->joined_at,
               train->edges > 0                ? " --as edge --listen ADDRESS"
               : muster_train_is_gossip(train) ? " --listen ADDRESS"
                                               : "");
    return MUSTER_OK;
}

/* What the code goes on without. */
static void say_tolerance(const muster_train_state *train, char *text,
                          size_t room)
{
    if (train->edges > 0) {
        muster_hier_numbers hier = muster_hier_numbers_of(train->code);
        (void)snprintf(text, room,
                       "goes on without any %" PRIu32 " of %" PRIu32
                       " edges and any %" PRIu32 " workers under each other",
                       hier.edge_stragglers, hier.edges,
                       hier.worker_stragglers);
    } else if (train->code_info.stragglers > 0) {
        (void)snprintf(text, room, "goes on without any %" PRIu32,
                       train->code_info.stragglers);
    } else {
        (void)snprintf(text, room, "waits for all");
    }
}

static void tell_plan(const muster_train_state *train)
{
    const muster_code_info *code = &train->code_info;
    const muster_executor_info *job = &train->job;
    muster_log(MUSTER_LOG_INFO,
               "%s on %" PRIu64 " samples of %" PRIu32
               " features, %zu parameters, %" PRIu64 " steps of %" PRIu64
               " samples",
               muster_config_string(train->config, MUSTER_OPT_MODEL),
               job->samples, job->features, job->dim, job->steps, job->batch);
    uint32_t local = muster_config_local_steps(train->config);
    if (local > 0) {
        muster_log(MUSTER_LOG_INFO,
                   "a step is the mean of the workers' models, after %" PRIu32
                   " steps of each on its own samples",
                   local);
    }
    char waits[96];
    say_tolerance(train, waits, sizeof(waits));
    muster_log(MUSTER_LOG_INFO,
               "code %s: %" PRIu32 " workers, %" PRIu32 " parts, %" PRIu32
               " each, %s",
               code->name, code->workers, code->parts, code->load, waits);
    if (code->exact && muster_config_deadline_ns(train->config) == 0 &&
        muster_config_is_set(train->config, MUSTER_OPT_DEADLINE)) {
        muster_log(MUSTER_LOG_WARN,
                   "--deadline auto changes nothing: %s is exact and waits "
                   "for as many workers as it needs; --stragglers says how "
                   "many it goes on without, --deadline TIME how long",
                   code->name);
    }
    if (code->warning != NULL) {
        muster_log(MUSTER_LOG_WARN, "code %s: %s", code->name, code->warning);
    }
}

/* Were all steps done in earlier lives? */
static bool is_complete(const muster_train_state *train)
{
    return train->folder != NULL && train->job.step > 0 &&
           train->job.step >= train->job.steps;
}

static bool starts_workers(const muster_train_state *train)
{
    return muster_config_uint(train->config, MUSTER_OPT_LOCAL) > 0;
}

/* Give the workers a way to join, and start those that are ours. */
static muster_status call_workers(muster_train_state *train,
                                  muster_error *error_out)
{
    if (is_complete(train)) {
        return MUSTER_OK; // nobody is needed for the files of the end
    }
    tell_plan(train);
    muster_model_tell_code(muster_build_model_path(train->config));
    muster_status status = MUSTER_OK;
    if (muster_config_string(train->config, MUSTER_OPT_LISTEN) != NULL) {
        status = listen_for_joiners(train, error_out);
    }
    return status == MUSTER_OK && starts_workers(train)
               ? muster_train_start_workers(train, error_out)
               : status;
}

static muster_status run(muster_train_state *train, muster_error *error_out)
{
    muster_status status =
        muster_signals_start(muster_host_net(train->host), error_out);
    if (status < 0) {
        return status;
    }
    status = call_workers(train, error_out);
    if (status == MUSTER_OK) {
        status = muster_train_claim_folder(train, error_out);
    }
    if (status == MUSTER_OK) {
        const muster_code_info *code = &train->code_info;
        bool any = muster_config_is_auto(train->config, NULL);
        uint64_t shards = (uint64_t)code->workers *
                          (any ? code->parts : code->load) *
                          (train->job.shards / code->parts + 1);
        muster_host_work work = {
            .role = train->role,
            .engine = muster_compute_engine_of(train->executor),
            .evaluator = muster_compute_engine_of(train->evaluator),
            .slowness = MUSTER_SLOWNESS_NONE,
            // With a new plan every worker may have to drop all its shards.
            .queue_max = (uint32_t)(shards < 60000 ? shards : 60000) + 64,
        };
        status = muster_host_run(train->host, &work, error_out);
    }
    muster_process_group_end(train->workers);
    muster_signals_stop();
    return status;
}

/* Is --delay a model that the workers will understand? */
static muster_status check_delay(const muster_train_state *train,
                                 muster_error *error_out)
{
    muster_delay *delay = NULL;
    muster_status status = muster_build_delay(
        train->config, train->code_info.workers, error_out, &delay);
    muster_delay_free(delay);
    return status;
}

/* Connections over Unix sockets carry large messages as open files. */
static bool uses_unix_sockets(const muster_train_state *train)
{
    const char *listen = muster_config_string(train->config, MUSTER_OPT_LISTEN);
    return listen == NULL || strncmp(listen, "unix:", 5) == 0;
}

static muster_status check_needs(const muster_train_state *train,
                                 muster_error *error_out)
{
    uint64_t started =
        starts_workers(train) ? train->edges + train->code_info.workers : 0;
    uint64_t model_bytes = train->job.dim * sizeof(float);
    const muster_needs needs = {
        .files = FILES + train->led * (uses_unix_sockets(train) ? 2ull : 1ull),
        .processes =
            1 + started * (muster_config_threads(train->config) + 1ull),
        .folder = muster_config_string(train->config, MUSTER_OPT_RUN),
        .file_bytes = model_bytes,
        // Two checkpoints are kept while the next is written; then the model.
        .disk_bytes = (train->job.step > 0 ? 2 : 4) * model_bytes};
    return is_complete(train) ? MUSTER_OK
                              : muster_needs_check(&needs, error_out);
}

/* Can --listen be read, and its host be found? */
static muster_status check_address(const muster_train_state *train,
                                   muster_error *error_out)
{
    const char *text = muster_config_string(train->config, MUSTER_OPT_LISTEN);
    char address[MUSTER_NET_ADDRESS_MAX];
    return text == NULL
               ? MUSTER_OK
               : muster_user_address_read(text, "--listen", error_out, address);
}

static muster_status prepare(muster_train_state *train, muster_error *error_out)
{
    muster_status status = check_address(train, error_out);
    if (status == MUSTER_OK) {
        status = make_code(train, error_out);
    }
    if (status == MUSTER_OK) {
        status = check_delay(train, error_out);
    }
    if (status == MUSTER_OK) {
        status = make_executor(train, error_out);
    }
    if (status == MUSTER_OK) {
        status = make_counts(train, error_out);
    }
    if (status == MUSTER_OK) {
        status = muster_train_open_folder(train, error_out);
    }
    if (status == MUSTER_OK) {
        train->job = muster_executor_describe(train->executor);
        status = check_needs(train, error_out);
    }
    if (status == MUSTER_OK) {
        status = make_role(train, error_out);
    }
    return status;
}

/* Everything that was made, in reverse. */
static void finish(muster_train_state *train)
{
    muster_process_group_free(train->workers);
    muster_socket_dir_close(&train->socket_dir);
    if (train->role.state != NULL) {
        train->role.ops->free(train->role.state);
    }
    muster_run_folder_close(train->folder);
    if (muster_tracing_close(train->tracing, NULL) < 0) {
        muster_log(MUSTER_LOG_DEBUG, "the trace is not whole");
    }
    if (muster_delay_recorder_close(train->recorder, NULL) < 0) {
        muster_log(MUSTER_LOG_DEBUG, "the recorded times are not whole");
    }
    muster_config_text_free(train->config_json);
    muster_blob_unref(train->saved);
    muster_vec_fini(&train->faults);
    muster_progress_fini(&train->progress);
    muster_below_fini(&train->below);
    muster_summary_free(train->per_load);
    muster_tally_fini(&train->tally);
    muster_executor_free(train->evaluator);
    muster_executor_free(train->executor);
    muster_host_close(train->host);
    muster_code_free(train->code);
}

/* A run that ended early left a checkpoint: say how to go on from it. */
static void tell_resume(const muster_train_state *train, muster_status status)
{
    if (train->folder != NULL && train->tally.steps > 0 &&
        (status == MUSTER_ERR_QUORUM || status == MUSTER_ERR_INTERRUPTED)) {
        muster_log(MUSTER_LOG_INFO,
                   "saved before step %" PRIu64 ": muster train --resume %s "
                   "goes on from there",
                   muster_executor_describe(train->executor).step,
                   muster_config_string(train->config, MUSTER_OPT_RUN));
    }
}

/* No step was done: the network that the options describe may be why. */
static void explain_quorum(const muster_train_state *train,
                           muster_error *error_out)
{
    char why[200];
    muster_network_explain(train->config, why, sizeof(why));
    if (error_out != NULL && train->tally.steps == 0 && why[0] != '\0') {
        muster_error plain = *error_out;
        (void)muster_error_set(error_out, plain.status, "%s%s", plain.text,
                               why);
    }
}

/* Train, and write down how it went. How the run ended decides the exit code,
 * not a file after it. */
static muster_status run_to_end(muster_train_state *train,
                                muster_error *error_out, char **json_out)
{
    muster_status status = run(train, error_out);
    muster_error late = {.text = ""};
    muster_status written = muster_train_conclude(train, &late, json_out);
    if (written >= 0) {
        written = muster_tracing_close(train->tracing, &late);
        train->tracing = NULL;
    }
    if (written >= 0) {
        written =
            muster_record_delays_close(train->config, train->recorder, &late);
        train->recorder = NULL;
    }
    tell_resume(train, status);
    if (status == MUSTER_ERR_QUORUM) {
        explain_quorum(train, error_out);
    }
    if (status >= 0 && written < 0) {
        status = written;
        *error_out = late;
    } else if (written < 0) {
        muster_log(MUSTER_LOG_ERROR, "%s", late.text);
    }
    return status;
}

muster_status muster_train(const muster_config *config, const char *program,
                           muster_error *error_out, char **json_out)
{
    muster_error unheard;
    muster_train_state train = {
        .config = config,
        .program = program,
        .faults = muster_vec_make(sizeof(muster_fault)),
    };
    if (error_out == NULL) {
        error_out = &unheard;
    }
    *json_out = NULL;
    if (muster_config_is_task(config)) {
        return muster_train_task(config, program, error_out, json_out);
    }
    muster_status status = muster_model_allow_check(
        muster_config_string(config, MUSTER_OPT_ALLOW_MODEL), error_out);
    if (status == MUSTER_OK) {
        status = prepare(&train, error_out);
    }
    if (status == MUSTER_OK && is_complete(&train)) {
        bool by_epochs = muster_config_uint(config, MUSTER_OPT_EPOCHS) > 0;
        muster_run_tell_complete(train.job.step, train.job.steps, "steps",
                                 by_epochs ? "epochs" : "steps");
        *json_out = muster_run_summary_text(train.folder);
    }
    if (status == MUSTER_OK && *json_out == NULL) {
        status = run_to_end(&train, error_out, json_out);
    }
    finish(&train);
    return status;
}
