/*
 * toy_job.h -- a training job small enough to check by hand, and how its jobs
 * are computed; toy.h makes runs of it.
 *
 * Parameters are integers below 1009, the gradient of a shard is an integer
 * function of (shard, step, theta), that of a part is the sum of its shards',
 * and an update is theta = (3 theta + sum of
 * gradients) mod 1009: everything is exact in float32, and one wrong, missing
 * or doubled message changes every later step. The serial answer is computed
 * beside it and compared after each update, and with each model that a worker
 * computes with. A decoding that is not exact must
 * be as near to the true sum as its residual says (Cauchy and Schwarz, per
 * coordinate); the step is then taken with the true sum, so that later ones
 * can be compared again.
 */
#ifndef MUSTER_TESTS_SIM_TOY_JOB_H
#define MUSTER_TESTS_SIM_TOY_JOB_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "code/hier.h"
#include "code/numbers.h"
#include "job/planner.h"
#include "muster/code.h"
#include "role/job.h"
#include "role/report.h"
#include "sim/sim.h"
#include "toy_early.h"
#include "wire/edge_terms.h"
#include "wire/terms.h"

#define TOY_DIM        13u // not a multiple of the block counts in use
#define TOY_PARTS_MAX  64u
#define TOY_SHARDS_MAX 224u
#define TOY_HOSTS_MAX  32u
#define TOY_RUN        0x746f79u
#define TOY_PLAN_CODES 12u
#define TOY_PAST       256u // steps whose answer is remembered

typedef struct toy_plan {
    uint32_t number; // 0: none
    uint32_t stages;
    muster_terms terms;
} toy_plan;

typedef struct toy_process {
    bool set_up;
    toy_plan plans[MUSTER_WORKER_PLANS]; // as the real one
    uint32_t newest;                     // of plans
    bool held[TOY_SHARDS_MAX];
    muster_job job;  // under way
    int64_t busy_ns; // that it takes
} toy_process;

/* What survives a coordinator: its newest snapshot. */
typedef struct toy_disk {
    uint64_t step;
    float theta[TOY_DIM];
    uint8_t role[16384];
    size_t role_bytes;
    uint64_t received[TOY_PARTS_MAX];
} toy_disk;

typedef struct toy {
    muster_sim *sim;
    muster_code *code;
    bool code_lent;
    muster_code_info info;    // of the last step's plan
    muster_code *change_code; // or NULL
    uint64_t change_step;
    muster_code *plan_codes[TOY_PLAN_CODES]; // that PLAN jobs give in turn
    uint32_t plan_code_count;                // 0: the code is not chosen
    uint64_t planned;                        // such jobs so far
    muster_planner planner;                  // of other orders
    bool resumed; // with two codes, and no step has ended since
    uint32_t shards;
    uint32_t workers; // that the coordinator leads; edges where there are any
    uint32_t edges;   // 0: workers join the coordinator themselves
    uint64_t steps;
    const char *shuffle;
    int64_t deadline_ns;
    bool degrade;
    double slow_ms[TOY_HOSTS_MAX]; // added to each gradient
    double pace;                   // a gradient takes so many times longer
    muster_rng rng;
    toy_process processes[TOY_HOSTS_MAX];
    float theta[TOY_DIM];            // the coordinator's
    float serial[TOY_PAST][TOY_DIM]; // what theta must be, by step, modulo
    uint64_t serial_step;            // the newest there
    toy_early early;
    toy_disk disk;
    /* who is there, by worker number, as the reports said */
    uint32_t host_of[TOY_HOSTS_MAX]; // that had the number last; 0: none
    uint32_t id_of[TOY_HOSTS_MAX];   // the number that the host had last
    uint32_t incarnation_of[TOY_HOSTS_MAX];
    uint64_t life_of[TOY_HOSTS_MAX]; // of the process that has the number
    uint64_t lives[TOY_HOSTS_MAX];   // processes so far, by host
    bool here[TOY_HOSTS_MAX], is_ready[TOY_HOSTS_MAX];
    uint64_t next_step;                   // that must begin
    uint64_t heard_steps[TOY_HOSTS_MAX];  // step + 1 of the newest answer
    uint64_t heard_stages[TOY_HOSTS_MAX]; // of that step
    bool answered[TOY_HOSTS_MAX];         // the step that is open
    /* when the coordinator gives up, before anybody is told */
    void (*on_gave_up)(struct toy *t);
    void (*on_step_end)(struct toy *t);
    /* how it went */
    bool over;
    muster_status status;
    char reason[256];
    uint64_t ends, late, lost, ready;
    uint32_t stopped_workers;
    muster_status worker_status; // of the last worker that stopped
    char notices[2048];          // all of them, in order
    char lost_reason[200];
    int64_t lost_ns;
    uint32_t lost_worker;
    uint64_t shards_made, snapshots, results;
    uint64_t bytes_up, bytes_down, messages_up, bytes_moved;
    uint64_t kill_at_step; // + 1; with kill_host: SIGKILL when it begins
    uint32_t kill_host;
    uint64_t inexact, degraded;       // steps
    uint64_t loaded, forgotten;       // shards
    uint32_t plan;                    // of the last step
    uint64_t received[TOY_PARTS_MAX]; // as reported last
    uint64_t steps_without;           // sum of parts missing over steps
    uint64_t gave_up;                 // 1 when it did
    uint64_t rejected;                // answers of workers, as not honest
    uint64_t twice;                   // answers that came again
    uint64_t strays;                  // messages of other lives or runs
    double load_ms;                   // of a LOAD; 0: 2
    uint64_t offences;  // workers lost for messages of another run or life
    uint64_t echoes;    // messages that came again, spoiled
    bool disorder;      // steps that do not follow each other
    bool premature;     // a model under a plan not adopted there
    bool miscounted;    // an answer counts twice, or not
    double off;         // largest distance of a decoded sum from a whole number
    double wrong;       // largest distance from the serial answer
    double wrong_model; // likewise, of what a worker computes with
    double loose; // largest excess of a decoding's error over its residual
} toy;

static float toy_gradient(uint32_t shard, uint64_t step, const float *theta,
                          uint32_t at)
{
    uint64_t mixed =
        shard * 31u + step * 17u + at * 7u + (uint64_t)theta[at] * (shard + 1u);
    return (float)((int)(mixed % 13u) - 6);
}

/* Of shards first .. first + count - 1. */
static float toy_sum(uint32_t first, uint32_t count, uint64_t step,
                     const float *theta, uint32_t at)
{
    float sum = 0;
    for (uint32_t shard = first; shard < first + count; shard++) {
        sum += toy_gradient(shard, step, theta, at);
    }
    return sum;
}

static void toy_serial_step(toy *t)
{
    const float *theta = t->serial[t->serial_step % TOY_PAST];
    float *next = t->serial[(t->serial_step + 1) % TOY_PAST];
    for (uint32_t i = 0; i < TOY_DIM; i++) {
        float sum = toy_sum(0, t->shards, t->serial_step, theta, i);
        next[i] = fmodf(3 * theta[i] + sum + 1009 * 16, 1009);
    }
    t->serial_step++;
}

/* How far `theta` is from what it must be when `step` begins. */
static double toy_error(const toy *t, uint64_t step, const float *theta)
{
    double error = 0;
    // A restart repeats a few steps; none of these runs repeats many.
    MUSTER_ASSERT(step <= t->serial_step && step + TOY_PAST > t->serial_step);
    for (uint32_t i = 0; i < TOY_DIM; i++) {
        double off = fabsf(theta[i] - t->serial[step % TOY_PAST][i]);
        error = fmax(error, off);
    }
    return error;
}

static size_t toy_block(uint32_t gradient_blocks)
{
    return (TOY_DIM + gradient_blocks - 1) / gradient_blocks;
}

static muster_blob *toy_blob(const void *data, size_t bytes)
{
    muster_blob *blob = muster_blob_create(bytes);
    MUSTER_ASSERT(blob != NULL);
    memcpy(blob->data, data, bytes);
    return blob;
}

/* The newest first, as the real one; NULL: it is not kept. */
static const toy_plan *toy_plan_of(const toy_process *process, uint32_t plan)
{
    for (uint32_t age = 0; age < MUSTER_WORKER_PLANS; age++) {
        const toy_plan *kept =
            &process->plans[(process->newest + MUSTER_WORKER_PLANS - age) %
                            MUSTER_WORKER_PLANS];
        if (kept->number == plan) {
            return kept;
        }
    }
    return NULL;
}

static bool toy_holds(const toy_process *process, const muster_terms_part *part)
{
    bool all = true;
    for (uint32_t i = 0; i < part->count; i++) {
        all = all && process->held[part->first + i];
    }
    return all;
}

static muster_blob *toy_encode(toy *t, toy_process *process)
{
    const float *theta = process->job.input->data;
    t->wrong_model =
        fmax(t->wrong_model, toy_error(t, process->job.step, theta));
    const toy_plan *plan = toy_plan_of(process, process->job.plan);
    MUSTER_ASSERT(plan != NULL); // else the worker does not have it
    const muster_terms *terms = &plan->terms;
    const muster_terms_part *part = terms->parts;
    size_t block = toy_block(terms->gradient_blocks);
    uint32_t blocks = terms->message_blocks / plan->stages; // of a stage
    muster_blob *blob = muster_blob_create(blocks * block * sizeof(float));
    MUSTER_ASSERT(blob != NULL && process->set_up);
    MUSTER_ASSERT(process->job.stage < plan->stages);
    float *message = blob->data;
    memset(message, 0, blob->bytes);
    for (uint32_t i = 0; i < terms->count; i++) {
        const muster_code_encode_term *term = &terms->terms[i];
        part += part->part != term->part ? 1 : 0;
        if (term->message_block / blocks != process->job.stage) {
            continue;
        }
        MUSTER_ASSERT(toy_holds(process, part));
        for (size_t j = 0; j < block; j++) {
            size_t at = term->gradient_block * block + j;
            if (at < TOY_DIM) {
                message[term->message_block % blocks * block + j] +=
                    (float)term->coef * toy_sum(part->first, part->count,
                                                process->job.step, theta,
                                                (uint32_t)at);
            }
        }
    }
    return blob;
}

/* How far the decoded coordinate may be from the true one, and the true one.
 * Blocks are decoded from all blocks, so those at the same place count too. */
static double toy_bound(const toy *t, const muster_job *job, uint32_t at,
                        float *true_out)
{
    uint32_t blocks = t->info.gradient_blocks;
    uint32_t block = (uint32_t)toy_block(blocks);
    double squares = 0;
    float sum = 0;
    uint32_t parts = t->info.parts;
    for (uint32_t part = 0; part < parts; part++) {
        uint32_t first = part * t->shards / parts;
        uint32_t count = (part + 1) * t->shards / parts - first;
        for (uint32_t i = at % block; i < TOY_DIM; i += block) {
            float g = toy_sum(first, count, job->step, t->theta, i);
            squares += (double)g * (double)g;
            sum += i == at ? g : 0;
        }
    }
    *true_out = sum;
    return job->decoding->fit.residual * sqrt((double)parts * blocks * squares);
}

/* Compare with the serial answer and take the step. */
static void toy_take_step(toy *t, const muster_job *job, const float *sum)
{
    bool inexact = job->decoding->fit.residual > 1e-6;
    float new_theta[TOY_DIM];
    t->inexact += inexact ? 1 : 0;
    for (uint32_t i = 0; i < TOY_DIM; i++) {
        float whole = roundf(sum[i]);
        float right = 0;
        double bound = toy_bound(t, job, i, &right);
        if (inexact) {
            t->loose = fmax(t->loose, fabsf(sum[i] - right) - bound);
            whole = right;
        } else {
            t->off = fmax(t->off, fabsf(sum[i] - whole));
        }
        new_theta[i] = fmodf(3 * t->theta[i] + whole + 1009 * 16, 1009);
    }
    t->wrong = fmax(t->wrong, toy_error(t, job->step + 1, new_theta));
    memcpy(t->theta, new_theta, sizeof(new_theta));
}

/* Add up messages by the job's decoding. */
static void toy_decode(const muster_job *job, float *sum)
{
    for (uint32_t i = 0; i < job->message_count; i++) {
        toy_add_message(job, i, sum);
    }
}

static void toy_update(toy *t, const muster_job *job)
{
    float sum[TOY_DIM + 64] = {0};
    toy_early_update(&t->early, job, sum);
    while (t->serial_step <= job->step) {
        toy_serial_step(t);
    }
    toy_take_step(t, job, sum);
}

static muster_blob *toy_combine(const muster_job *job)
{
    float sum[TOY_DIM + 64] = {0};
    size_t floats = job->block * job->decoding->gradient_blocks;
    MUSTER_ASSERT(floats <= TOY_DIM + 64 && job->decoding->status == MUSTER_OK);
    toy_decode(job, sum);
    return toy_blob(sum, floats * sizeof(float));
}

static void toy_snapshot(toy *t, const muster_job *job)
{
    MUSTER_ASSERT(job->input != NULL &&
                  job->input->bytes <= sizeof(t->disk.role));
    memcpy(t->disk.role, job->input->data, job->input->bytes);
    t->disk.role_bytes = job->input->bytes;
    t->disk.step = job->step;
    memcpy(t->disk.received, t->received, sizeof(t->received));
    memcpy(t->disk.theta, t->theta, sizeof(t->theta));
}

static int64_t toy_begin(void *context, uint32_t host, muster_job *job)
{
    toy *t = context;
    t->processes[host].job = *job;
    double ms = 0.1;
    if (job->kind == MUSTER_JOB_GRADIENT) {
        ms = 8 + 4 * muster_rng_exponential(&t->rng) + t->slow_ms[host];
        ms *= t->pace;
    } else if (job->kind == MUSTER_JOB_DECODE) {
        ms = 40 * muster_rng_uniform(&t->rng);
    } else if (job->kind == MUSTER_JOB_COMBINE) {
        ms = 0.2 + t->slow_ms[host];
    } else if (job->kind == MUSTER_JOB_SETUP || job->kind == MUSTER_JOB_LOAD) {
        ms = 2;
    }
    if (job->kind == MUSTER_JOB_LOAD && t->load_ms > 0) {
        ms = t->load_ms;
    }
    t->processes[host].busy_ns = (int64_t)(ms * 1e6);
    return t->processes[host].busy_ns;
}

static muster_status toy_adopt(toy_process *process, const muster_job *job)
{
    MUSTER_ASSERT(process->set_up && job->plan != 0);
    if (process->plans[process->newest].number != job->plan) {
        process->newest = (process->newest + 1) % MUSTER_WORKER_PLANS;
    }
    toy_plan *plan = &process->plans[process->newest];
    if (plan->number != 0) {
        muster_terms_fini(&plan->terms);
    }
    plan->number = job->plan;
    plan->stages = job->stages > 0 ? job->stages : 1;
    return muster_terms_read(job->input->data, job->input->bytes, NULL,
                             &plan->terms);
}

/* The code that a plan names to an edge. */
static const muster_code *toy_code_of(const toy *t, const muster_blob *plan)
{
    muster_edge_terms terms;
    MUSTER_ASSERT(muster_edge_terms_read(plan->data, plan->bytes, &terms) ==
                  MUSTER_OK);
    for (uint32_t i = 0; i < t->plan_code_count; i++) {
        muster_hier_numbers numbers = muster_hier_numbers_of(t->plan_codes[i]);
        if (numbers.edge_stragglers == terms.edge_stragglers &&
            numbers.worker_stragglers == terms.worker_stragglers &&
            numbers.edge_comm == terms.edge_comm &&
            numbers.worker_comm == terms.worker_comm) {
            return t->plan_codes[i];
        }
    }
    MUSTER_ASSERT(false);
    return NULL;
}

static void toy_do(toy *t, uint32_t host, muster_job_result *result)
{
    toy_process *process = &t->processes[host];
    muster_job *job = &process->job;
    switch (job->kind) {
    case MUSTER_JOB_SETUP:
        process->set_up = true;
        result->code = t->code; // an edge's
        break;
    case MUSTER_JOB_ADOPT:
        if (host <= t->edges) {
            result->code = toy_code_of(t, job->input);
        } else {
            result->status = toy_adopt(process, job);
        }
        break;
    case MUSTER_JOB_LOAD:
        MUSTER_ASSERT(*(const uint32_t *)job->input->data == job->shard);
        process->held[job->shard] = true;
        t->loaded++;
        break;
    case MUSTER_JOB_GRADIENT:
        result->output = toy_encode(t, process);
        result->busy_ns = process->busy_ns;
        break;
    case MUSTER_JOB_VERIFY: // not asked for here
        break;
    case MUSTER_JOB_PLAN:              // any other code is much better
        if (t->plan_code_count == 0) { // or another order of this one
            result->status = muster_planner_run(&t->planner, job, NULL, result);
            break;
        }
        result->code = t->plan_codes[t->planned++ % t->plan_code_count];
        result->expected_ms = 1;
        result->in_force_ms = 9;
        break;
    case MUSTER_JOB_SHARD:
        t->shards_made++;
        result->output = toy_blob(&job->shard, sizeof(job->shard));
        break;
    case MUSTER_JOB_UPDATE:
        toy_update(t, job);
        result->grad_err = job->decoding->fit.residual;
        result->output = toy_blob(t->theta, sizeof(t->theta));
        break;
    case MUSTER_JOB_DECODE: // by toy_end()
    case MUSTER_JOB_MIX:    // there is no gossip here
        break;
    case MUSTER_JOB_COMBINE:
        result->output = toy_combine(job);
        break;
    case MUSTER_JOB_SNAPSHOT:
        t->snapshots++;
        toy_snapshot(t, job);
        break;
    case MUSTER_JOB_EVALUATE:
        result->loss = t->theta[0];
        break;
    case MUSTER_JOB_FORGET:
        process->held[job->shard] = false;
        t->forgotten++;
        break;
    }
}

static void toy_end(void *context, uint32_t host, bool cancelled,
                    muster_job_result *result)
{
    toy *t = context;
    result->status = cancelled ? MUSTER_ERR_CANCELLED : MUSTER_OK;
    if (t->processes[host].job.kind == MUSTER_JOB_DECODE) {
        toy_early_decode(&t->early, &t->processes[host].job);
    }
    if (!cancelled) {
        toy_do(t, host, result);
    }
    muster_job_fini(&t->processes[host].job);
}

static void toy_reset(void *context, uint32_t host)
{
    toy *t = context;
    toy_process *process = &t->processes[host];
    t->lives[host]++;
    if (host == 0) {
        toy_early_drop(&t->early);
    }
    for (uint32_t i = 0; i < MUSTER_WORKER_PLANS; i++) {
        if (process->plans[i].number != 0) {
            muster_terms_fini(&process->plans[i].terms);
        }
    }
    *process = (toy_process){0};
}

#endif // MUSTER_TESTS_SIM_TOY_JOB_H
