/*
 * job/job_test.h -- a coordinator's and some workers' executors, driven by
 * hand: what the roles do, without roles, network, threads or clocks.
 */
#ifndef MUSTER_JOB_JOB_TEST_H
#define MUSTER_JOB_JOB_TEST_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "code/numbers.h"
#include "config/config.h"
#include "data/cut.h"
#include "job/executor.h"
#include "muster/code.h"
#include "role/assignment.h"

#define BED_WORKERS_MAX 16u
#define BED_ANSWERS_MAX 64u

typedef struct testbed {
    muster_config *config;
    muster_code *code;
    muster_code_info info;
    uint32_t shards;
    muster_executor *coordinator;
    muster_executor *workers[BED_WORKERS_MAX];
    uint32_t threads; // of every executor
    uint64_t step;
    uint64_t pieces; // done so far, by all
    uint32_t silent; // so many workers, from the first on, never answer
    muster_job_result last;
} testbed;

typedef struct bed_option {
    const char *name;
    const char *value;
} bed_option;

/* Run a job to its end and return its result. */
static inline muster_job_result bed_run(testbed *bed, muster_executor *executor,
                                        muster_job job)
{
    muster_job_result result;
    muster_executor_begin(executor, &job);
    while (muster_executor_piece(executor) == MUSTER_IN_PROGRESS) {
        bed->pieces++;
    }
    muster_executor_end(executor, &result);
    return result;
}

static inline muster_job_result
bed_run_ok(testbed *bed, muster_executor *executor, muster_job job)
{
    muster_job_result result = bed_run(bed, executor, job);
    if (result.status != MUSTER_OK) {
        fail_msg("job %d: %s", (int)result.kind, result.text);
    }
    return result;
}

static inline muster_config *bed_config(const bed_option *options, size_t count)
{
    muster_config *config = NULL;
    muster_error error = {MUSTER_OK, ""};
    assert_int_equal(muster_config_create("train", &config), MUSTER_OK);
    for (size_t i = 0; i < count; i++) {
        if (muster_config_set(config, options[i].name, options[i].value,
                              &error) != MUSTER_OK) {
            fail_msg("%s", error.text);
        }
    }
    if (muster_config_check(config, &error) != MUSTER_OK) {
        fail_msg("%s", error.text);
    }
    return config;
}

static inline muster_assignment bed_assignment(const muster_code *code,
                                               uint32_t shards)
{
    muster_assignment plan;
    assert_int_equal(muster_assignment_init(&plan, code, shards, 1), MUSTER_OK);
    return plan;
}

/* The PLAN payload of a worker. */
static inline muster_blob *bed_terms(const testbed *bed, uint32_t worker)
{
    muster_assignment plan = bed_assignment(bed->code, bed->shards);
    muster_blob *blob = muster_assignment_terms(&plan, worker);
    assert_non_null(blob);
    muster_assignment_fini(&plan);
    return blob;
}

/* Give a worker a shard, as a coordinator would. */
static inline void bed_give(testbed *bed, uint32_t worker, uint32_t shard)
{
    muster_job_result made =
        bed_run_ok(bed, bed->coordinator,
                   (muster_job){.kind = MUSTER_JOB_SHARD, .shard = shard});
    bed_run_ok(bed, bed->workers[worker],
               (muster_job){.kind = MUSTER_JOB_LOAD,
                            .shard = shard,
                            .input = muster_blob_ref(made.output)});
    // Its sender may still write to it; nobody must look at it again.
    memset(made.output->data, 0xff, made.output->bytes);
    muster_blob_unref(made.output);
}

static inline void bed_start_worker(testbed *bed, uint32_t worker,
                                    uint32_t plan)
{
    muster_executor *executor = bed->workers[worker];
    bed_run_ok(
        bed, executor,
        (muster_job){.kind = MUSTER_JOB_SETUP,
                     .input = muster_executor_setup_blob(bed->coordinator)});
    bed_run_ok(bed, executor,
               (muster_job){.kind = MUSTER_JOB_ADOPT,
                            .plan = plan,
                            .stages = bed->info.stages,
                            .input = bed_terms(bed, worker)});
    muster_assignment all = bed_assignment(bed->code, bed->shards);
    muster_shard_walk walk = {0};
    for (uint32_t shard;
         (shard = muster_assignment_shard(&all, worker, &walk)) != UINT32_MAX;
         walk.shard++) {
        bed_give(bed, worker, shard);
    }
    muster_assignment_fini(&all);
}

static inline void bed_start(testbed *bed, const char *code, uint32_t workers)
{
    muster_error error = {MUSTER_OK, ""};
    muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
    opts.name = code;
    opts.workers = workers;
    if (muster_code_create(&opts, &error, &bed->code) != MUSTER_OK) {
        fail_msg("%s", error.text);
    }
    bed->info = *muster_code_numbers(bed->code);
    bed->shards = muster_cut_default(workers, bed->info.parts);
    if (muster_executor_create_coordinator(bed->config, bed->shards,
                                           &muster_executor_heap, &error,
                                           &bed->coordinator) != MUSTER_OK) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(
        muster_executor_use_threads(bed->coordinator, bed->threads), MUSTER_OK);
    for (uint32_t w = 0; w < workers; w++) {
        assert_int_equal(muster_executor_create_worker(&muster_executor_heap,
                                                       &bed->workers[w]),
                         MUSTER_OK);
        assert_int_equal(
            muster_executor_use_threads(bed->workers[w], bed->threads),
            MUSTER_OK);
        bed_start_worker(bed, w, 1);
    }
}

static inline void bed_open(testbed *bed, const char *code, uint32_t workers,
                            const bed_option *options, size_t count)
{
    *bed = (testbed){.config = bed_config(options, count), .threads = 1};
    bed_start(bed, code, workers);
}

static inline void bed_close(testbed *bed)
{
    for (uint32_t w = 0; w < bed->info.workers; w++) {
        muster_executor_free(bed->workers[w]);
    }
    muster_executor_free(bed->coordinator);
    muster_code_free(bed->code);
    muster_config_free(bed->config);
}

static inline muster_decoding *
bed_decoding(testbed *bed, const uint32_t *responders, uint32_t count)
{
    muster_code_decode_term *terms = muster_mem_array(
        muster_code_decode_terms_max(bed->code), sizeof(*terms));
    muster_code_fit fit = MUSTER_CODE_FIT_INIT;
    size_t found = 0;
    assert_int_equal(
        muster_code_weights(bed->code, responders, count, terms, &found, &fit),
        MUSTER_OK);
    muster_decoding *decoding =
        muster_decoding_create(bed->code, MUSTER_OK, terms, found, &fit);
    assert_non_null(decoding);
    muster_mem_free(terms);
    return decoding;
}

/* What a worker answers; NULL: it has no such stage. */
static inline muster_blob *bed_answer(testbed *bed, uint32_t answer)
{
    const uint32_t *parts = NULL;
    uint32_t count = 0;
    uint32_t stages = bed->info.stages;
    assert_int_equal(
        muster_code_answer_parts(bed->code, answer, &parts, &count), MUSTER_OK);
    if (count == 0) {
        return NULL;
    }
    const muster_job job = {.kind = MUSTER_JOB_GRADIENT,
                            .plan = 1,
                            .step = bed->step,
                            .stage = answer % stages,
                            .input =
                                muster_executor_model_blob(bed->coordinator)};
    return bed_run_ok(bed, bed->workers[answer / stages], job).output;
}

/* The UPDATE job of one step, without worker `missing` (UINT32_MAX: none). */
static inline muster_job bed_update_job(testbed *bed, uint32_t missing)
{
    uint32_t responders[BED_ANSWERS_MAX] = {0};
    muster_blob *heard[BED_ANSWERS_MAX] = {NULL};
    uint32_t stages = bed->info.stages;
    uint32_t answers = bed->info.workers * stages;
    uint32_t count = 0;
    muster_job job = {.kind = MUSTER_JOB_UPDATE, .step = bed->step};
    assert_in_range(answers, 1, BED_ANSWERS_MAX);
    for (uint32_t a = 0; a < answers; a++) {
        bool is_there = a / stages != missing && a / stages >= bed->silent;
        heard[a] = is_there ? bed_answer(bed, a) : NULL;
        if (heard[a] != NULL) {
            responders[count++] = a;
        }
    }
    job.decoding = bed_decoding(bed, responders, count);
    job.list = muster_job_list_create(answers);
    job.messages = job.list->blobs;
    for (uint32_t i = 0; i < job.decoding->used_count; i++) {
        job.messages[job.message_count++] =
            muster_blob_ref(heard[job.decoding->used[i]]);
    }
    for (uint32_t a = 0; a < answers; a++) {
        muster_blob_unref(heard[a]);
    }
    return job;
}

static inline void bed_step(testbed *bed, uint32_t missing)
{
    muster_blob_unref(bed->last.output);
    bed->last = bed_run_ok(bed, bed->coordinator, bed_update_job(bed, missing));
    muster_blob_unref(bed->last.output);
    bed->last.output = NULL;
    bed->step++;
}

/* The gradient of worker 0, of more than four pieces: cut off after every
 * `stride` of them and done again, it has the same bits. */
static inline void bed_check_cutting_off(testbed *bed, uint64_t stride)
{
    muster_executor *worker = bed->workers[0];
    muster_blob *model = muster_executor_model_blob(bed->coordinator);
    muster_job job = {.kind = MUSTER_JOB_GRADIENT, .plan = 1, .step = 1};
    job.input = muster_blob_ref(model);
    uint64_t before = bed->pieces;
    muster_job_result whole = bed_run_ok(bed, worker, job);
    uint64_t pieces = bed->pieces - before;
    assert_true(pieces > 4);
    for (uint64_t stop = 0; stop < pieces; stop += stride) {
        muster_job_result result;
        muster_job again = job;
        again.input = muster_blob_ref(model);
        muster_executor_begin(worker, &again);
        for (uint64_t i = 0; i < stop; i++) {
            assert_int_equal(muster_executor_piece(worker), MUSTER_IN_PROGRESS);
        }
        muster_executor_end(worker, &result);
        assert_int_equal(result.status, MUSTER_ERR_CANCELLED);
        assert_null(result.output);
        again = job;
        again.input = muster_blob_ref(model);
        result = bed_run_ok(bed, worker, again);
        assert_memory_equal(result.output->data, whole.output->data,
                            whole.output->bytes);
        muster_blob_unref(result.output);
    }
    muster_blob_unref(whole.output);
    muster_blob_unref(model);
}

/* How far two models are apart, of the norm of the first. */
static inline double bed_distance(const muster_blob *a, const muster_blob *b)
{
    const float *x = a->data;
    const float *y = b->data;
    double apart = 0;
    double norm = 0;
    assert_int_equal(a->bytes, b->bytes);
    for (size_t i = 0; i < a->bytes / sizeof(float); i++) {
        apart += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
        norm += (double)x[i] * (double)x[i];
    }
    return sqrt(apart / norm);
}

static inline muster_job_result bed_evaluate(testbed *bed)
{
    return bed_run_ok(bed, bed->coordinator,
                      (muster_job){.kind = MUSTER_JOB_EVALUATE});
}

#endif // MUSTER_JOB_JOB_TEST_H
