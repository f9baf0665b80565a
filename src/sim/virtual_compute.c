/*
 * virtual_compute.c -- the jobs of a virtual run: how long they take, and what
 * they give.
 */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "sim/virtual.h"
#include "wire/terms.h"

/* Without data: what moving a part costs, whichever. */
#define PART_BYTES   (1u << 20)
#define SMALL_JOB_NS MUSTER_NS_PER_MS
/* Copying PART_BYTES took .14 ms. Real steps in which 36 workers were each sent
 * as much took .44 ms a worker, all of a step included. Of more parts than
 * PARTS_TIMED each is smaller. */
#define PART_NS       (MUSTER_NS_PER_MS / 4)
#define PARTS_TIMED   1000u
#define FLOATS_PER_NS 4.0

static uint32_t shards_of_run(const muster_virtual *run)
{
    uint32_t shards = run->opts.coordinator.shards;
    return shards != 0 ? shards : run->info.parts;
}

static uint32_t shards_of_part(const muster_terms *terms, uint32_t part)
{
    for (uint32_t i = 0; i < terms->part_count; i++) {
        if (terms->parts[i].part == part) {
            return terms->parts[i].count;
        }
    }
    return 0;
}

/* The shards of each stage's parts. */
static uint32_t *shards_by_stage(const muster_terms *terms, uint32_t stages)
{
    uint32_t blocks = terms->message_blocks / stages;
    uint32_t *shards = muster_mem_array(stages, sizeof(*shards));
    MUSTER_ASSERT(shards != NULL);
    for (uint32_t t = 0; t < stages; t++) {
        uint32_t last = UINT32_MAX; // terms ascend by part
        for (uint32_t i = 0; i < terms->count; i++) {
            const muster_code_encode_term *term = &terms->terms[i];
            if (term->message_block / blocks == t && term->part != last) {
                shards[t] += shards_of_part(terms, term->part);
                last = term->part;
            }
        }
    }
    return shards;
}

/* What the worker computes and answers under a plan. */
static void note_plan(const muster_virtual *run, muster_virtual_host *at,
                      const muster_job *job)
{
    muster_terms terms;
    muster_status status =
        muster_terms_read(job->input->data, job->input->bytes, NULL, &terms);
    MUSTER_ASSERT(status == MUSTER_OK);
    uint32_t stages = job->stages > 0 ? job->stages : 1;
    uint32_t shards = 0;
    for (uint32_t i = 0; i < terms.part_count; i++) {
        shards += terms.parts[i].count;
    }
    size_t blocks = terms.gradient_blocks;
    size_t block = (run->opts.coordinator.message_dim + blocks - 1) / blocks;
    muster_mem_free(at->plans[MUSTER_WORKER_PLANS - 1].by_stage);
    memmove(at->plans + 1, at->plans,
            (MUSTER_WORKER_PLANS - 1) * sizeof(at->plans[0]));
    at->plans[0] = (muster_virtual_plan){
        .number = job->plan,
        .shards = shards,
        .by_stage = stages > 1 ? shards_by_stage(&terms, stages) : NULL,
        .message_bytes =
            block * (terms.message_blocks / stages) * sizeof(float)};
    muster_terms_fini(&terms);
}

static const muster_virtual_plan *plan_of(const muster_virtual_host *at,
                                          const muster_job *job)
{
    uint32_t age = 0;
    while (at->plans[age].number != job->plan) {
        age++;
        MUSTER_ASSERT(age < MUSTER_WORKER_PLANS);
    }
    return &at->plans[age];
}

/* Computing, and then what the worker sleeps. */
static int64_t gradient_ns(muster_virtual *run, uint32_t worker,
                           const muster_job *job, int64_t *sleep_ns_out)
{
    const muster_virtual_plan *plan =
        plan_of(&run->hosts[muster_virtual_worker_host(run, worker)], job);
    double dim_bytes =
        (double)(run->opts.coordinator.message_dim * sizeof(float));
    uint32_t shards =
        plan->by_stage != NULL ? plan->by_stage[job->stage] : plan->shards;
    double share = (double)shards / shards_of_run(run);
    double ns = (double)run->opts.compute_ns * share * run->info.workers /
                run->opts.speeds[worker];
    muster_delay_work work = {.share = share,
                              .message =
                                  (double)plan->message_bytes / dim_bytes,
                              .follows = job->follows,
                              .compute_ns = (int64_t)ns,
                              .bytes = dim_bytes};
    *sleep_ns_out =
        muster_slowness_ns(&run->opts.slowness[worker], job->step, &work);
    return work.compute_ns + *sleep_ns_out;
}

static uint32_t worker_of(const muster_virtual *run, uint32_t host)
{
    return host - muster_virtual_worker_host(run, 0);
}

/* An edge's, with its slowness. */
static int64_t combine_ns(muster_virtual *run, uint32_t host,
                          const muster_job *job, int64_t ns)
{
    double dim = (double)run->opts.coordinator.message_dim;
    double floats = (double)(job->block * job->decoding->gradient_blocks);
    muster_delay_work work = {.share = 1,
                              .message = floats / dim,
                              .compute_ns = ns,
                              .bytes = dim * sizeof(float)};
    return ns + muster_slowness_ns(&run->opts.edge_slowness[host - 1],
                                   job->step, &work);
}

/* A part takes as long to move in one shard as in several. */
static bool is_of_a_shard(const muster_job *job)
{
    return job->kind == MUSTER_JOB_SHARD || job->kind == MUSTER_JOB_LOAD ||
           job->kind == MUSTER_JOB_FORGET;
}

static int64_t duration_ns(muster_virtual *run, uint32_t host,
                           const muster_job *job, int64_t *sleep_ns_out)
{
    *sleep_ns_out = 0;
    if (job->kind == MUSTER_JOB_GRADIENT) {
        return gradient_ns(run, worker_of(run, host), job, sleep_ns_out);
    }
    if (job->kind == MUSTER_JOB_UPDATE || job->kind == MUSTER_JOB_COMBINE ||
        job->kind == MUSTER_JOB_MIX) {
        double floats = (double)run->opts.coordinator.message_dim *
                        (job->message_count + 1.0);
        int64_t ns = (int64_t)(floats / FLOATS_PER_NS);
        return job->kind == MUSTER_JOB_COMBINE ? combine_ns(run, host, job, ns)
                                               : ns;
    }
    if (is_of_a_shard(job)) {
        uint32_t parts =
            run->info.parts < PARTS_TIMED ? run->info.parts : PARTS_TIMED;
        return PART_NS * parts / shards_of_run(run);
    }
    return SMALL_JOB_NS;
}

static int64_t begin(void *context, uint32_t host, muster_job *job)
{
    muster_virtual *run = context;
    muster_virtual_host *at = &run->hosts[host];
    if (job->kind == MUSTER_JOB_ADOPT && host > run->edges) {
        note_plan(run, at, job);
    }
    at->busy_ns = duration_ns(run, host, job, &at->sleep_ns);
    if (run->opts.recorder != NULL && job->kind == MUSTER_JOB_GRADIENT &&
        !job->follows) {
        muster_delay_recorder_time(run->opts.recorder, job->step,
                                   worker_of(run, host),
                                   (double)at->busy_ns * 1e-9);
    }
    run->longest_job_ns =
        at->busy_ns > run->longest_job_ns ? at->busy_ns : run->longest_job_ns;
    at->kind = job->kind;
    if (run->opts.executor != NULL) {
        muster_executor_begin(at->executor, job);
    } else if (job->kind == MUSTER_JOB_GRADIENT) {
        // Its end needs no more of it: most jobs are of this kind.
        at->message_bytes = plan_of(at, job)->message_bytes;
        muster_job_fini(job);
    } else {
        at->job = *job;
    }
    return at->busy_ns;
}

static int64_t sleeps(void *context, uint32_t host)
{
    const muster_virtual *run = context;
    return run->hosts[host].sleep_ns;
}

static muster_blob *length_only(size_t bytes)
{
    muster_blob *blob = muster_blob_create_empty(bytes);
    MUSTER_ASSERT(blob != NULL);
    return blob;
}

/* Workers of one code answer alike: one blob serves them all. */
static muster_blob *gradient_length(muster_virtual *run, size_t bytes)
{
    if (run->gradient == NULL || run->gradient->bytes != bytes) {
        muster_blob_unref(run->gradient);
        run->gradient = length_only(bytes);
    }
    return muster_blob_ref(run->gradient);
}

/* Timing only: outputs are lengths. */
static void pretend(muster_virtual *run, uint32_t host,
                    muster_job_result *result)
{
    const muster_virtual_host *at = &run->hosts[host];
    const muster_job *job = &at->job;
    result->loss = NAN;
    result->theta_norm = NAN;
    result->test_loss = NAN;
    result->test_accuracy = NAN;
    result->test_auc = NAN;
    if (at->kind == MUSTER_JOB_GRADIENT) {
        result->output = gradient_length(run, at->message_bytes);
    } else if (job->kind == MUSTER_JOB_MIX) {
        result->output = muster_blob_ref(job->messages[0]);
    } else if (job->kind == MUSTER_JOB_COMBINE) {
        result->output = gradient_length(
            run, job->block * job->decoding->gradient_blocks * sizeof(float));
    } else if (job->kind == MUSTER_JOB_SETUP && run->edges > 0) {
        result->code = run->opts.coordinator.code;
    } else if (job->kind == MUSTER_JOB_ADOPT && host <= run->edges) {
        result->status = muster_planner_adopt(
            &run->planner, job, run->opts.coordinator.code, NULL, result);
    } else if (job->kind == MUSTER_JOB_UPDATE) {
        result->grad_err = job->decoding->fit.residual;
        result->output = length_only((run->opts.coordinator.message_dim - 1) *
                                     sizeof(float));
    } else if (job->kind == MUSTER_JOB_SHARD) {
        result->output = length_only((size_t)PART_BYTES * run->info.parts /
                                     shards_of_run(run));
    } else if (job->kind == MUSTER_JOB_PLAN) {
        result->status = muster_planner_run(&run->planner, job, NULL, result);
    }
}

static void end(void *context, uint32_t host, bool cancelled,
                muster_job_result *result)
{
    muster_virtual *run = context;
    muster_virtual_host *at = &run->hosts[host];
    if (run->opts.executor != NULL) {
        while (!cancelled &&
               muster_executor_piece(at->executor) == MUSTER_IN_PROGRESS) {
        }
        muster_executor_end(at->executor, result);
    } else {
        result->status = cancelled ? MUSTER_ERR_CANCELLED : MUSTER_OK;
        if (!cancelled) {
            pretend(run, host, result);
        }
        if (at->kind != MUSTER_JOB_GRADIENT) {
            muster_job_fini(&at->job);
        }
    }
    result->busy_ns = at->busy_ns;
}

/* A worker starts with an empty memory; the coordinator keeps its executor. */
static void reset(void *context, uint32_t host)
{
    muster_virtual *run = context;
    if (run->opts.executor == NULL || host == 0) {
        return;
    }
    muster_virtual_host *at = &run->hosts[host];
    muster_executor_free(at->executor);
    at->executor = NULL;
    muster_status status =
        host <= run->edges
            ? muster_executor_create_edge(run->opts.make_code,
                                          &muster_executor_heap, &at->executor)
            : muster_executor_create_worker(&muster_executor_heap,
                                            &at->executor);
    MUSTER_ASSERT(status == MUSTER_OK);
    if (host <= run->edges) {
        return;
    }
    // It is this process that was asked to train it.
    status = muster_executor_allow_model(at->executor, run->opts.model);
    MUSTER_ASSERT(status == MUSTER_OK);
}

static void prefetch(void *context, uint32_t host, bool begins)
{
    const muster_virtual *run = context;
    __builtin_prefetch(&run->hosts[host]);
    if (begins && host > run->edges) {
        const muster_slowness *slowness =
            &run->opts.slowness[worker_of(run, host)];
        __builtin_prefetch(slowness); // two lines, perhaps
        __builtin_prefetch((const char *)(slowness + 1) - 1);
        __builtin_prefetch(&run->opts.speeds[worker_of(run, host)]);
    }
}

muster_sim_compute muster_virtual_compute(muster_virtual *run)
{
    return (muster_sim_compute){run, begin, end, reset, sleeps, prefetch};
}
