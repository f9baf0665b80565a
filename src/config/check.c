/*
 * check.c -- rules that span options, and values that depend on others.
 *
 * What check() settles keeps the origin DEFAULT, so that a second check, or
 * one after a resumed run's options were read, comes to the same end.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/spec.h"
#include "base/threads.h"
#include "base/topology.h"
#include "config/fault.h"
#include "config/state.h"

#define LOCAL_DEFAULT  "4"
#define EPOCHS_DEFAULT "10"
#define LR_DEFAULT     "0.1"
#define LR_ADAM        "0.001"
#define EDGES_CODE     "hier"
/* Processes that gather for others on one machine. */
#define EDGES_LOCAL_MAX 256u

#define INVALID(...) \
    muster_error_set(error_out, MUSTER_ERR_INVALID, __VA_ARGS__)

static muster_status settle(muster_config *config, muster_option option,
                            const char *text, muster_error *error_out)
{
    const char *name = muster_option_get(option)->name;
    return muster_config_apply(config, option, text,
                               config->values[option].origin, name, error_out);
}

static muster_status require(const muster_config *config, muster_option option,
                             const char *example, muster_error *error_out)
{
    if (muster_config_string(config, option) != NULL) {
        return MUSTER_OK;
    }
    return INVALID("%s: --%s is missing; for example %s",
                   muster_config_verb(config), muster_option_get(option)->name,
                   example);
}

static muster_status check_run(muster_config *config, muster_error *error_out)
{
    const char *run = muster_config_string(config, MUSTER_OPT_RUN);
    const char *resume = muster_config_string(config, MUSTER_OPT_RESUME);
    const char *either =
        muster_config_string(config, MUSTER_OPT_RESUME_OR_START);
    if (either != NULL && strcmp(resume != NULL ? resume : run, either) != 0) {
        return INVALID("--resume-or-start %s stands alone: leave out --run and "
                       "--resume",
                       either);
    }
    if (run == NULL && resume == NULL &&
        muster_config_is_set(config, MUSTER_OPT_CHECKPOINT_EVERY)) {
        return INVALID("--checkpoint-every: needs --run DIR, where checkpoints "
                       "are kept");
    }
    if (resume == NULL) {
        return MUSTER_OK;
    }
    if (config->values[MUSTER_OPT_RUN].origin == MUSTER_ORIGIN_FLAG &&
        strcmp(run, resume) != 0) {
        return INVALID("--resume %s continues in that folder: leave out --run",
                       resume);
    }
    // The folder may have been moved since its config.json was written.
    return settle(config, MUSTER_OPT_RUN, resume, error_out);
}

/* What edges send are sums over workers that differ from step to step: they say
 * nothing about each other. */
static muster_status check_edges_verify(muster_config *config,
                                        muster_error *error_out)
{
    const char *verify = muster_config_string(config, MUSTER_OPT_VERIFY);
    bool asked =
        config->values[MUSTER_OPT_VERIFY].origin == MUSTER_ORIGIN_FLAG &&
        strcmp(verify, "off") != 0;
    if (asked || strcmp(verify, "correct") == 0) {
        return INVALID("--verify %.60s: with --topology answers cannot be "
                       "compared, since edges send sums over different "
                       "workers; leave out --verify",
                       verify);
    }
    return settle(config, MUSTER_OPT_VERIFY, "off", error_out);
}

/* Options that do not go with so many edges and workers. */
static muster_status check_beside_topology(muster_config *config,
                                           uint32_t edges, uint32_t workers,
                                           muster_error *error_out)
{
    const char *text = muster_config_string(config, MUSTER_OPT_TOPOLOGY);
    const char *listen = muster_config_string(config, MUSTER_OPT_LISTEN);
    uint32_t said = muster_config_workers(config);
    if (said != 0 && said != workers) {
        return INVALID("--topology %.60s has %" PRIu32 " workers: leave out "
                       "--local and --workers",
                       text, workers);
    }
    if (listen != NULL && muster_config_uint(config, MUSTER_OPT_LOCAL) > 0) {
        return INVALID("--topology: all edges and workers are started here, or "
                       "with --listen all join: leave out --local");
    }
    if (config->verb == MUSTER_VERB_TRAIN && edges > EDGES_LOCAL_MAX) {
        return INVALID("--topology %.60s: at most %u edges", text,
                       EDGES_LOCAL_MAX);
    }
    if (strcmp(muster_config_string(config, MUSTER_OPT_SHUFFLE), "none") != 0) {
        return INVALID("--shuffle has no meaning with --topology: every step "
                       "has every part");
    }
    return check_edges_verify(config, error_out);
}

/* --topology says how many workers there are, and asks for a code of two
 * layers. */
static muster_status check_topology(muster_config *config,
                                    muster_error *error_out)
{
    const char *text = muster_config_string(config, MUSTER_OPT_TOPOLOGY);
    const char *listen = muster_config_string(config, MUSTER_OPT_LISTEN);
    bool started_here = config->verb == MUSTER_VERB_TRAIN && listen == NULL;
    muster_topology topology = {0};
    char workers[16];
    if (text == NULL) {
        return MUSTER_OK;
    }
    muster_status status =
        muster_topology_parse("--topology", text, error_out, &topology);
    if (status == MUSTER_OK) {
        status = check_beside_topology(config, topology.edges, topology.workers,
                                       error_out);
    }
    (void)snprintf(workers, sizeof(workers), "%" PRIu32, topology.workers);
    muster_topology_fini(&topology);
    if (status == MUSTER_OK && !muster_config_is_set(config, MUSTER_OPT_CODE)) {
        status = settle(config, MUSTER_OPT_CODE, EDGES_CODE, error_out);
    }
    return status == MUSTER_OK
               ? settle(config,
                        started_here ? MUSTER_OPT_LOCAL : MUSTER_OPT_WORKERS,
                        workers, error_out)
               : status;
}

static muster_status check_workers(muster_config *config,
                                   muster_error *error_out)
{
    uint64_t local = muster_config_uint(config, MUSTER_OPT_LOCAL);
    uint64_t workers = muster_config_uint(config, MUSTER_OPT_WORKERS);
    const char *listen = muster_config_string(config, MUSTER_OPT_LISTEN);
    bool is_train = config->verb == MUSTER_VERB_TRAIN;
    if (listen != NULL && workers == 0 && local == 0) {
        return INVALID("--listen: needs --workers N, how many will join, or "
                       "--local N, to be started here");
    }
    if (is_train && listen == NULL && workers > 0 && workers != local) {
        return INVALID("--workers %" PRIu64 ": needs --listen ADDRESS; for "
                       "workers on this machine use --local %" PRIu64,
                       workers, workers);
    }
    if (workers > 0 && local > 0 && workers != local) {
        return INVALID("--workers %" PRIu64 " and --local %" PRIu64
                       " disagree: use one of them",
                       workers, local);
    }
    if (workers == 0 && local == 0) {
        return settle(config, MUSTER_OPT_LOCAL, LOCAL_DEFAULT, error_out);
    }
    return MUSTER_OK;
}

static muster_status check_training(muster_config *config,
                                    muster_error *error_out)
{
    muster_status status = MUSTER_OK;
    if (muster_config_uint(config, MUSTER_OPT_STEPS) == 0 &&
        muster_config_uint(config, MUSTER_OPT_EPOCHS) == 0) {
        status = settle(config, MUSTER_OPT_EPOCHS, EPOCHS_DEFAULT, error_out);
    }
    if (status == MUSTER_OK &&
        muster_config_double(config, MUSTER_OPT_LR) <= 0) {
        const char *optimizer =
            muster_config_string(config, MUSTER_OPT_OPTIMIZER);
        bool is_adam = strncmp(optimizer, "adam", 4) == 0;
        status = settle(config, MUSTER_OPT_LR, is_adam ? LR_ADAM : LR_DEFAULT,
                        error_out);
    }
    return status;
}

static muster_status check_on_loss(const muster_config *config,
                                   muster_error *error_out)
{
    const char *on_loss = muster_config_string(config, MUSTER_OPT_ON_LOSS);
    if (strcmp(on_loss, "wait") != 0 && strcmp(on_loss, "degrade") != 0 &&
        strcmp(on_loss, "stop") != 0) {
        return INVALID("--on-loss %.60s: expected wait, degrade or stop",
                       on_loss);
    }
    return MUSTER_OK;
}

static muster_status check_waiting(const muster_config *config,
                                   muster_error *error_out)
{
    const char *deadline = muster_config_string(config, MUSTER_OPT_DEADLINE);
    if (strcmp(deadline, "auto") != 0 &&
        muster_config_deadline_ns(config) <= 0) {
        return INVALID("--deadline %.60s: expected a time such as 50ms, or "
                       "auto",
                       deadline);
    }
    const char *verify = muster_config_string(config, MUSTER_OPT_VERIFY);
    if (strcmp(verify, "warn") != 0 && strcmp(verify, "correct") != 0 &&
        strcmp(verify, "off") != 0) {
        return INVALID("--verify %.60s: expected warn, correct or off", verify);
    }
    return check_on_loss(config, error_out);
}

static muster_status check_placement(const muster_config *config,
                                     muster_error *error_out)
{
    const char *shuffle = muster_config_string(config, MUSTER_OPT_SHUFFLE);
    const char *method = muster_config_string(config, MUSTER_OPT_PLACEMENT);
    bool measured = muster_config_speeds_measured(config);
    if (measured && (method == NULL || strncmp(method, "equal", 5) == 0 ||
                     strstr(method, ".npy") != NULL)) {
        return INVALID("--speeds measure: needs a --placement that sizes parts "
                       "by speed, such as proportional-stratified");
    }
    bool compares = method != NULL && muster_spec_is(method, "submodular");
    if (muster_config_is_set(config, MUSTER_OPT_FEATURES) && !compares) {
        return INVALID("--features: needs --placement submodular, which "
                       "compares samples by them");
    }
    if (method == NULL) {
        return MUSTER_OK;
    }
    if (muster_config_string(config, MUSTER_OPT_DATA) == NULL) {
        return INVALID("--placement: needs --data");
    }
    return shuffle == NULL || strcmp(shuffle, "none") == 0
               ? MUSTER_OK
               : INVALID("--placement gives each worker samples of its own, "
                         "--shuffle moves them: use one of them");
}

static muster_status check_threads(const muster_config *config,
                                   muster_error *error_out)
{
    uint64_t threads = muster_config_uint(config, MUSTER_OPT_THREADS);
    return threads <= MUSTER_THREADS_MAX
               ? MUSTER_OK
               : INVALID("--threads: %" PRIu64 " is outside 1 to %u", threads,
                         MUSTER_THREADS_MAX);
}

static muster_status check_stragglers(const muster_config *config,
                                      muster_error *error_out)
{
    uint64_t stragglers = muster_config_uint(config, MUSTER_OPT_STRAGGLERS);
    uint32_t workers = muster_config_workers(config);
    return stragglers < workers
               ? MUSTER_OK
               : INVALID("--stragglers %" PRIu64 ": of %" PRIu32
                         " workers at most %" PRIu32 " may be left out",
                         stragglers, workers, workers - 1);
}

/* What is trained, and how its steps go on. */
static muster_status check_steps(muster_config *config, muster_error *error_out)
{
    muster_config_goal goal;
    double value = 0;
    muster_status status = check_training(config, error_out);
    if (status == MUSTER_OK) {
        status = muster_config_speeds(config, muster_config_workers(config),
                                      error_out, NULL);
    }
    if (status == MUSTER_OK) {
        status = check_waiting(config, error_out);
    }
    if (status == MUSTER_OK) {
        status = muster_config_check_auto(config, error_out);
    }
    if (status == MUSTER_OK) {
        status = check_placement(config, error_out);
    }
    if (status == MUSTER_OK) {
        status = muster_config_check_algorithm(config, error_out);
    }
    if (status == MUSTER_OK) {
        status = muster_config_until(config, error_out, &goal, &value);
    }
    return status == MUSTER_OK ? check_stragglers(config, error_out) : status;
}

static muster_status check_task_run(muster_config *config,
                                    muster_error *error_out)
{
    muster_status status = muster_config_check_task(config, error_out);
    if (status == MUSTER_OK) {
        status = check_on_loss(config, error_out);
    }
    return status == MUSTER_OK ? check_run(config, error_out) : status;
}

static muster_status check_training_run(muster_config *config,
                                        muster_error *error_out)
{
    muster_status status = muster_config_check_data(config, error_out);
    if (status == MUSTER_OK && config->verb == MUSTER_VERB_TRAIN) {
        status = require(config, MUSTER_OPT_DATA,
                         "--data synthetic:samples=10000", error_out);
    }
    if (status == MUSTER_OK && muster_config_is_task(config)) {
        return check_task_run(config, error_out);
    }
    if (status == MUSTER_OK) {
        status = muster_config_check_dense(config, error_out);
    }
    if (status == MUSTER_OK) {
        status = check_threads(config, error_out);
    }
    if (status == MUSTER_OK) {
        status = check_run(config, error_out);
    }
    if (status == MUSTER_OK) {
        status = check_topology(config, error_out);
    }
    if (status == MUSTER_OK) {
        status = check_workers(config, error_out);
    }
    if (status == MUSTER_OK && config->verb == MUSTER_VERB_TRAIN) {
        status = muster_config_check_engine(config, MUSTER_OPT_LISTEN,
                                            "--listen HOST:PORT", error_out);
    }
    if (status == MUSTER_OK) {
        status = check_steps(config, error_out);
    }
    return status == MUSTER_OK ? muster_config_check_faults(config, error_out)
                               : status;
}

static muster_status check_join(const muster_config *config,
                                muster_error *error_out)
{
    muster_status status = require(config, MUSTER_OPT_CONNECT,
                                   "muster join 10.0.0.1:7700", error_out);
    bool numbered = muster_config_is_set(config, MUSTER_OPT_WORKER) &&
                    muster_config_is_set(config, MUSTER_OPT_WORKERS);
    if (status == MUSTER_OK && !numbered &&
        muster_config_string(config, MUSTER_OPT_DELAY) != NULL) {
        status = INVALID("--delay: say with --worker W --workers N which of "
                         "how many workers this one is to be");
    }
    if (status == MUSTER_OK) {
        status = muster_config_check_engine(config, MUSTER_OPT_CONNECT,
                                            "join HOST:PORT", error_out);
    }
    const char *as = muster_config_string(config, MUSTER_OPT_AS);
    bool edge = strcmp(as, "edge") == 0;
    bool listens = muster_config_string(config, MUSTER_OPT_LISTEN) != NULL;
    if (status == MUSTER_OK && !edge && strcmp(as, "worker") != 0) {
        status = INVALID("--as %.60s: expected worker or edge", as);
    }
    if (status == MUSTER_OK && edge && !listens) {
        status = INVALID("--as edge needs --listen ADDRESS: an edge says where "
                         "its workers join it");
    }
    muster_vec faults = muster_vec_make(sizeof(muster_fault));
    if (status == MUSTER_OK) {
        status = muster_faults_read(config, error_out, &faults);
    }
    muster_vec_fini(&faults);
    return status;
}

static muster_status check_predict(const muster_config *config,
                                   muster_error *error_out)
{
    muster_status status =
        require(config, MUSTER_OPT_FROM,
                "muster predict runs/first --data PATH", error_out);
    return status != MUSTER_OK
               ? status
               : require(config, MUSTER_OPT_DATA,
                         "muster predict runs/first --data PATH", error_out);
}

static muster_status check_partition(const muster_config *config,
                                     muster_error *error_out)
{
    static const char example[] =
        "muster partition --data synthetic: --workers 4 --speeds 1,2,3,4";
    muster_status status = require(config, MUSTER_OPT_DATA, example, error_out);
    uint32_t workers = muster_config_workers(config);
    if (status == MUSTER_OK && workers == 0) {
        status =
            INVALID("partition: --workers is missing; for example %s", example);
    }
    if (status == MUSTER_OK) {
        status = muster_config_speeds(config, workers, error_out, NULL);
    }
    return status == MUSTER_OK ? muster_config_check_target(config, error_out)
                               : status;
}

muster_status muster_config_check(muster_config *config,
                                  muster_error *error_out)
{
    muster_status status = MUSTER_OK;
    if (muster_config_bool(config, MUSTER_OPT_QUIET) &&
        muster_config_bool(config, MUSTER_OPT_VERBOSE)) {
        return INVALID("--quiet and --verbose: use one of them");
    }
    switch (config->verb) {
    case MUSTER_VERB_TRAIN:
    case MUSTER_VERB_SIMULATE:
        return check_training_run(config, error_out);
    case MUSTER_VERB_JOIN:
        status = check_threads(config, error_out);
        return status != MUSTER_OK ? status : check_join(config, error_out);
    case MUSTER_VERB_PREDICT:
        return check_predict(config, error_out);
    case MUSTER_VERB_PLAN:
        return require(config, MUSTER_OPT_CLUSTER,
                       "muster plan --cluster cluster.yaml", error_out);
    case MUSTER_VERB_PARTITION:
        return check_partition(config, error_out);
    case MUSTER_VERB_CODE:
    case MUSTER_VERB_COUNT:
        break;
    }
    return MUSTER_OK;
}
