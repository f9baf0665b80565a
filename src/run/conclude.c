/*
 * conclude.c -- the run folder's beginning and end.
 */
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "code/hier.h"
#include "record/checkpoint.h"
#include "role/edge.h"
#include "run/build.h"
#include "run/complete.h"
#include "run/measured_cluster.h"
#include "run/train.h"

/* Has the folder's config.json exactly this text? */
static bool same_config(muster_train_state *train, const char *json)
{
    bool same = true;
    FILE *file =
        fopen(muster_run_folder_path(train->folder, MUSTER_RUN_CONFIG), "r");
    if (file == NULL) {
        return false;
    }
    int byte = fgetc(file);
    for (; same && byte != EOF; json++, byte = fgetc(file)) {
        same = *json != '\0' && (unsigned char)*json == byte;
    }
    (void)fclose(file);
    return same && *json == '\0';
}

/* From the newest checkpoint; lines of later steps are cut off. A run that was
 * killed before its first one starts again. */
static muster_status go_on(muster_train_state *train, muster_error *error_out)
{
    const char *checkpoints =
        muster_run_folder_path(train->folder, MUSTER_RUN_CHECKPOINT);
    const muster_run_counts counts = {train->tally.summary,
                                      train->below.summary};
    if (muster_checkpoint_none(checkpoints)) {
        muster_run_tell_no_checkpoint(checkpoints);
        return muster_run_folder_cut(train->folder, 0, &counts, error_out);
    }
    muster_status status = muster_executor_restore(train->executor, checkpoints,
                                                   error_out, &train->saved);
    if (status < 0) {
        return status;
    }
    muster_executor_info job = muster_executor_describe(train->executor);
    uint64_t step = job.step;
    if (step < job.steps) {
        muster_log(MUSTER_LOG_INFO, "going on from step %" PRIu64, step);
    }
    status = muster_run_folder_cut(train->folder, step, &counts, error_out);
    train->tally.earlier_s = muster_summary_step_s(train->tally.summary);
    return status;
}

/* With other options it is another run: workers that still hold parts of the
 * earlier one must not join. */
static void forget_other_life(muster_train_state *train)
{
    if (train->saved != NULL && !same_config(train, train->config_json)) {
        muster_blob_unref(train->saved);
        train->saved = NULL;
    }
}

/* config.json: the options, and into how many shards the data is cut, so that
 * a resumed run cuts it the same way. */
static muster_status resolve_config(muster_train_state *train,
                                    muster_error *error_out)
{
    char shards[16];
    muster_config *resolved = NULL;
    char *options = muster_config_to_json(train->config);
    (void)snprintf(shards, sizeof(shards), "%" PRIu32, train->job.shards);
    muster_status status =
        options != NULL ? muster_config_from_json(options, error_out, &resolved)
                        : MUSTER_ERR_NO_MEMORY;
    if (status == MUSTER_OK) {
        status = muster_config_set(resolved, "shards", shards, error_out);
    }
    if (status == MUSTER_OK) {
        train->config_json = muster_config_to_json(resolved);
        status = train->config_json != NULL ? MUSTER_OK : MUSTER_ERR_NO_MEMORY;
    }
    muster_config_free(resolved);
    muster_config_text_free(options);
    return status != MUSTER_ERR_NO_MEMORY
               ? status
               : muster_error_set(error_out, status,
                                  "no memory for config.json");
}

muster_status muster_train_claim_folder(muster_train_state *train,
                                        muster_error *error_out)
{
    return train->folder == NULL
               ? MUSTER_OK
               : muster_run_folder_write(train->folder, MUSTER_RUN_CONFIG,
                                         train->config_json, error_out);
}

muster_status muster_train_open_folder(muster_train_state *train,
                                       muster_error *error_out)
{
    const muster_config *config = train->config;
    const char *dir = muster_config_string(config, MUSTER_OPT_RUN);
    bool resume = muster_config_string(config, MUSTER_OPT_RESUME) != NULL;
    if (dir == NULL) {
        return MUSTER_OK;
    }
    muster_status status =
        muster_run_folder_open(dir, resume, error_out, &train->folder);
    if (status == MUSTER_OK && resume) {
        status = go_on(train, error_out);
    }
    if (status == MUSTER_OK) {
        status = muster_executor_snapshot_to(
            train->executor,
            muster_run_folder_path(train->folder, MUSTER_RUN_CHECKPOINT));
    }
    if (status < 0) {
        return status;
    }
    status = resolve_config(train, error_out);
    if (status < 0) {
        return status;
    }
    forget_other_life(train);
    return MUSTER_OK;
}

/* What the end of a run needs per worker, in one allocation each. */
typedef struct ending {
    muster_summary_end end;
    muster_worker_class *classes;
    const char **names;
    double *probabilities, *behind_ms;
    muster_summary_straggling straggling;
} ending;

static void ending_fini(ending *last)
{
    muster_mem_free(last->classes);
    muster_mem_free(last->names);
    muster_mem_free(last->probabilities);
    muster_mem_free(last->behind_ms);
}

static void fill_lists(const muster_train_state *train, ending *last)
{
    muster_tally_classes(&train->tally, last->classes);
    for (uint32_t w = 0; w < train->led; w++) {
        last->names[w] = muster_worker_class_name(last->classes[w]);
        last->probabilities[w] =
            muster_tally_class(&train->tally, w).probability;
        last->behind_ms[w] =
            muster_stragglers_cost(train->tally.costs, w).behind_ms;
    }
}

static bool ending_init(const muster_train_state *train, ending *last_out)
{
    const muster_code_info *code = &train->code_info;
    const muster_tally *tally = &train->tally;
    uint32_t led = train->led;
    ending last = {
        .classes = muster_mem_array(led, sizeof *last.classes),
        .names = muster_mem_array(led, sizeof *last.names),
        .probabilities = muster_mem_array(led, sizeof *last.probabilities),
        .behind_ms = muster_mem_array(led, sizeof *last.behind_ms),
    };
    if (last.classes == NULL || last.names == NULL ||
        last.probabilities == NULL || last.behind_ms == NULL) {
        ending_fini(&last);
        return false;
    }
    fill_lists(train, &last);
    bool known = tally->has_result;
    last.end = (muster_summary_end){
        .wall_s = tally->earlier_s +
                  (double)(train->last_step_ns - train->first_step_ns) * 1e-9,
        .loss = known ? tally->result_loss : (double)NAN,
        .test_loss = known ? tally->test_loss : (double)NAN,
        .test_accuracy = known ? tally->test_accuracy : (double)NAN,
        .test_auc = known ? tally->test_auc : (double)NAN,
        .theta_norm = known ? tally->theta_norm : (double)NAN,
        .code = code->name,
        .n = code->workers,
        .s = code->stragglers,
        .m = code->comm,
        .d = code->load,
        .parts_received = tally->parts_received,
        .part_count =
            train->edges > 0 ? muster_edge_parts(train->in_force) : code->parts,
        .classes = last.names,
        .slow_probability = last.probabilities,
        .behind_ms = last.behind_ms,
        .straggler_wait_ms = muster_stragglers_waited_ms(tally->costs),
        .evaluations = tally->evaluations.data,
        .evaluation_count = tally->evaluations.count,
    };
    *last_out = last;
    return true;
}

static muster_status write_files(muster_train_state *train, const char *json,
                                 muster_error *error_out)
{
    muster_run_folder *folder = train->folder;
    muster_measured measured = {.code = train->in_force,
                                .workers = train->tally.summary,
                                .first_shard = train->tally.first_shard};
    if (train->edges > 0) {
        measured = (muster_measured){.code = train->in_force,
                                     .workers = train->below.summary,
                                     .edges = train->tally.summary};
    }
    if (train->per_load != NULL) {
        measured.workers = train->per_load;
        measured.per_load = true;
    }
    measured.processors = muster_build_processors(train->config);
    char *cluster = muster_measured_cluster(&measured);
    if (cluster == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "no memory for cluster.yaml");
    }
    muster_status status = muster_run_folder_flush(folder, error_out);
    if (status == MUSTER_OK) {
        status = muster_run_folder_write(folder, MUSTER_RUN_SUMMARY, json,
                                         error_out);
    }
    if (status == MUSTER_OK) {
        status = muster_run_folder_write(folder, MUSTER_RUN_CLUSTER, cluster,
                                         error_out);
    }
    muster_mem_free(cluster);
    if (status == MUSTER_OK) {
        status = muster_executor_save_model(
            train->executor, muster_run_folder_path(folder, MUSTER_RUN_MODEL),
            error_out);
    }
    return status;
}

/* Two lines for people. */
static void tell(const muster_train_state *train, const ending *last)
{
    const muster_tally *tally = &train->tally;
    char who[MUSTER_PROGRESS_TEXT_MAX] = "", test[64] = "";
    muster_progress_add_class(last->classes, tally->worker_count,
                              MUSTER_CLASS_SLOW, who);
    muster_progress_add_class(last->classes, tally->worker_count,
                              MUSTER_CLASS_LOST, who);
    if (!isnan(last->end.test_accuracy)) {
        (void)snprintf(test, sizeof test, ", test accuracy %.4f",
                       last->end.test_accuracy);
    }
    muster_log(MUSTER_LOG_INFO, "%" PRIu64 " steps in %.2f s, loss %.6g%s",
               muster_summary_steps(tally->summary), last->end.wall_s,
               tally->has_result ? last->end.loss : tally->loss, test);
    muster_log(MUSTER_LOG_INFO,
               "step time: median %.2f ms, 90%% %.2f ms, 99%% %.2f ms%s%s",
               muster_summary_step_ms(tally->summary, 0.5),
               muster_summary_step_ms(tally->summary, 0.9),
               muster_summary_step_ms(tally->summary, 0.99),
               who[0] != '\0' ? ";" : "", who);
    uint64_t degraded = muster_summary_degraded(tally->summary);
    bool is_sync =
        muster_config_algorithm_kind(train->config) == MUSTER_ALGORITHM_SYNC;
    if (degraded > 0 && !is_sync) {
        muster_log(MUSTER_LOG_WARN,
                   "%" PRIu64 " of these steps went on without some worker",
                   degraded);
    } else if (degraded > 0) {
        muster_log(MUSTER_LOG_WARN,
                   "%" PRIu64 " of these steps were approximate, for too few "
                   "workers were there; grad_err in metrics.jsonl says how far "
                   "off, at most %.2g",
                   degraded, muster_summary_grad_err(tally->summary));
    }
    muster_train_tell_stragglers(train, last->classes);
    muster_below_tell(&train->below);
}

muster_status muster_train_conclude(muster_train_state *train,
                                    muster_error *error_out, char **json_out)
{
    ending last;
    if (train->tally.steps == 0 && !train->tally.has_result) {
        return MUSTER_OK; // it ended before there was anything to tell
    }
    if (!ending_init(train, &last)) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "no memory for the summary");
    }
    tell(train, &last);
    last.straggling = muster_tally_straggling(&train->tally);
    last.end.straggling = &last.straggling;
    muster_below_end(&train->below, &last.end);
    muster_status status = MUSTER_OK;
    char *json = muster_summary_json(train->tally.summary, &last.end);
    if (json == NULL) {
        status = muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                  "no memory for the summary");
    } else if (train->folder != NULL) {
        status = write_files(train, json, error_out);
    }
    ending_fini(&last);
    *json_out = json;
    return status;
}
