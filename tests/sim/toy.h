/*
 * toy.h -- a training job small enough to check by hand, for the simulator.
 *
 * Parameters are integers below 1009, the gradient of a part is an integer
 * function of (part, step, theta), and an update is theta = (3 theta + sum of
 * gradients) mod 1009: everything is exact in float32, and one wrong, missing
 * or doubled message changes every later step. The serial answer is computed
 * beside it and compared after each update. A decoding that is not exact must
 * be as near to the true sum as its residual says (Cauchy and Schwarz, per
 * coordinate); the step is then taken with the true sum, so that later ones
 * can be compared again.
 */
#ifndef MUSTER_TESTS_SIM_TOY_H
#define MUSTER_TESTS_SIM_TOY_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "muster/code.h"
#include "role/coordinator.h"
#include "role/worker.h"
#include "sim/sim.h"
#include "wire/terms.h"

#define TOY_DIM       13u // not a multiple of the block counts in use
#define TOY_PARTS_MAX 64u
#define TOY_HOSTS_MAX 32u
#define TOY_RUN       0x746f79u
#define TOY_PLANS     2u // a worker keeps two, as the real one

typedef struct toy_plan {
    uint32_t number; // 0: none
    muster_terms terms;
} toy_plan;

typedef struct toy_process {
    bool set_up;
    toy_plan plans[TOY_PLANS];
    uint32_t newest; // of plans
    bool held[TOY_PARTS_MAX];
    muster_job job; // under way
} toy_process;

/* What survives a coordinator: its newest snapshot. */
typedef struct toy_disk {
    uint64_t step;
    float theta[TOY_DIM];
    uint8_t role[16384];
    size_t role_bytes;
} toy_disk;

typedef struct toy {
    muster_sim *sim;
    muster_code *code;
    muster_code_info info;
    uint32_t workers;
    uint64_t steps;
    const char *shuffle;
    int64_t deadline_ns;
    bool degrade;
    double slow_ms[TOY_HOSTS_MAX]; // added to each gradient
    muster_rng rng;
    toy_process processes[TOY_HOSTS_MAX];
    float theta[TOY_DIM];  // the coordinator's
    float serial[TOY_DIM]; // what theta must be at serial_step
    uint64_t serial_step;
    toy_disk disk;
    /* how it went */
    bool over;
    muster_status status;
    char reason[256];
    uint64_t ends, late, lost, ready;
    uint32_t stopped_workers;
    muster_status worker_status; // of the last worker that stopped
    char notices[2048];          // all of them, in order
    char lost_reason[128];
    int64_t lost_ns;
    uint32_t lost_worker;
    uint64_t parts_made, snapshots, results;
    uint64_t bytes_up, bytes_down, messages_up, bytes_moved;
    uint64_t kill_at_step; // + 1; with kill_host: SIGKILL when it begins
    uint32_t kill_host;
    uint64_t inexact, degraded;       // steps
    uint64_t forgotten;               // parts
    uint32_t plan;                    // of the last step
    uint64_t received[TOY_PARTS_MAX]; // as reported last
    uint64_t steps_without;           // sum of parts missing over steps
    double off;   // largest distance of a decoded sum from a whole number
    double wrong; // largest distance from the serial answer
    double loose; // largest excess of a decoding's error over its residual
} toy;

static float toy_gradient(uint32_t part, uint64_t step, const float *theta,
                          uint32_t at)
{
    uint64_t mixed =
        part * 31u + step * 17u + at * 7u + (uint64_t)theta[at] * (part + 1u);
    return (float)((int)(mixed % 13u) - 6);
}

static void toy_serial_step(toy *t)
{
    for (uint32_t i = 0; i < TOY_DIM; i++) {
        float sum = 0;
        for (uint32_t part = 0; part < t->info.parts; part++) {
            sum += toy_gradient(part, t->serial_step, t->serial, i);
        }
        t->serial[i] = fmodf(3 * t->serial[i] + sum + 1009 * 16, 1009);
    }
    t->serial_step++;
}

static size_t toy_block(const toy *t)
{
    return muster_code_block_length(t->code, TOY_DIM);
}

static muster_blob *toy_blob(const void *data, size_t bytes)
{
    muster_blob *blob = muster_blob_create(bytes);
    MUSTER_ASSERT(blob != NULL);
    memcpy(blob->data, data, bytes);
    return blob;
}

static const muster_terms *toy_terms(const toy_process *process, uint32_t plan)
{
    for (uint32_t i = 0; i < TOY_PLANS; i++) {
        if (process->plans[i].number == plan) {
            return &process->plans[i].terms;
        }
    }
    MUSTER_ASSERT(!"a model under a plan that the worker does not have");
    return NULL;
}

static muster_blob *toy_encode(toy *t, toy_process *process)
{
    size_t block = toy_block(t);
    const float *theta = process->job.input->data;
    const muster_terms *terms = toy_terms(process, process->job.plan);
    muster_blob *blob =
        muster_blob_create(terms->message_blocks * block * sizeof(float));
    MUSTER_ASSERT(blob != NULL && process->set_up);
    float *message = blob->data;
    memset(message, 0, blob->bytes);
    for (uint32_t i = 0; i < terms->count; i++) {
        const muster_code_encode_term *term = &terms->terms[i];
        MUSTER_ASSERT(process->held[term->part]);
        for (size_t j = 0; j < block; j++) {
            size_t at = term->gradient_block * block + j;
            if (at < TOY_DIM) {
                message[term->message_block * block + j] +=
                    (float)term->coef * toy_gradient(term->part,
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
    uint32_t block = (uint32_t)toy_block(t);
    double squares = 0;
    float sum = 0;
    for (uint32_t part = 0; part < t->info.parts; part++) {
        for (uint32_t i = at % block; i < TOY_DIM; i += block) {
            float g = toy_gradient(part, job->step, t->theta, i);
            squares += (double)g * (double)g;
            sum += i == at ? g : 0;
        }
    }
    *true_out = sum;
    return job->decoding->fit.residual *
           sqrt((double)t->info.parts * blocks * squares);
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
        // After a restart steps are repeated; only the newest can be compared.
        double error = t->serial_step == job->step + 1
                           ? fabsf(new_theta[i] - t->serial[i])
                           : 0;
        t->wrong = fmax(t->wrong, error);
    }
    memcpy(t->theta, new_theta, sizeof(new_theta));
}

static void toy_update(toy *t, const muster_job *job)
{
    size_t block = toy_block(t);
    float sum[TOY_DIM + 64] = {0};
    for (uint32_t i = 0; i < job->decoding->term_count; i++) {
        const muster_code_decode_term *term = &job->decoding->terms[i];
        MUSTER_ASSERT(term->worker < job->message_count);
        const float *message = job->messages[term->worker]->data;
        for (size_t j = 0; j < block; j++) {
            sum[term->output_block * block + j] +=
                (float)term->weight * message[term->message_block * block + j];
        }
    }
    while (t->serial_step <= job->step) {
        toy_serial_step(t);
    }
    toy_take_step(t, job, sum);
}

static void toy_snapshot(toy *t, const muster_job *job)
{
    MUSTER_ASSERT(job->input != NULL &&
                  job->input->bytes <= sizeof(t->disk.role));
    memcpy(t->disk.role, job->input->data, job->input->bytes);
    t->disk.role_bytes = job->input->bytes;
    t->disk.step = job->step;
    memcpy(t->disk.theta, t->theta, sizeof(t->theta));
}

static int64_t toy_begin(void *context, uint32_t host, muster_job *job)
{
    toy *t = context;
    t->processes[host].job = *job;
    double ms = 0.1;
    if (job->kind == MUSTER_JOB_GRADIENT) {
        ms = 8 + 4 * muster_rng_exponential(&t->rng) + t->slow_ms[host];
    } else if (job->kind == MUSTER_JOB_SETUP || job->kind == MUSTER_JOB_LOAD) {
        ms = 2;
    }
    return (int64_t)(ms * 1e6);
}

static muster_status toy_adopt(toy_process *process, const muster_job *job)
{
    MUSTER_ASSERT(process->set_up && job->plan != 0);
    if (process->plans[process->newest].number != job->plan) {
        process->newest = (process->newest + 1) % TOY_PLANS;
    }
    toy_plan *plan = &process->plans[process->newest];
    if (plan->number != 0) {
        muster_terms_fini(&plan->terms);
    }
    plan->number = job->plan;
    return muster_terms_read(job->input->data, job->input->bytes, NULL,
                             &plan->terms);
}

static void toy_do(toy *t, uint32_t host, muster_job_result *result)
{
    toy_process *process = &t->processes[host];
    muster_job *job = &process->job;
    switch (job->kind) {
    case MUSTER_JOB_SETUP:
        process->set_up = true;
        break;
    case MUSTER_JOB_ADOPT:
        result->status = toy_adopt(process, job);
        break;
    case MUSTER_JOB_LOAD:
        MUSTER_ASSERT(*(const uint32_t *)job->input->data == job->part);
        process->held[job->part] = true;
        break;
    case MUSTER_JOB_GRADIENT:
        result->output = toy_encode(t, process);
        break;
    case MUSTER_JOB_PART:
        t->parts_made++;
        result->output = toy_blob(&job->part, sizeof(job->part));
        break;
    case MUSTER_JOB_UPDATE:
        toy_update(t, job);
        result->grad_err = job->decoding->fit.residual;
        result->output = toy_blob(t->theta, sizeof(t->theta));
        break;
    case MUSTER_JOB_SNAPSHOT:
        t->snapshots++;
        toy_snapshot(t, job);
        break;
    case MUSTER_JOB_EVALUATE:
        result->loss = t->theta[0];
        break;
    case MUSTER_JOB_FORGET:
        process->held[job->part] = false;
        t->forgotten++;
        break;
    }
}

static void toy_end(void *context, uint32_t host, bool cancelled,
                    muster_job_result *result)
{
    toy *t = context;
    result->status = cancelled ? MUSTER_ERR_CANCELLED : MUSTER_OK;
    if (!cancelled) {
        toy_do(t, host, result);
    }
    muster_job_fini(&t->processes[host].job);
}

static void toy_reset(void *context, uint32_t host)
{
    toy *t = context;
    toy_process *process = &t->processes[host];
    for (uint32_t i = 0; i < TOY_PLANS; i++) {
        if (process->plans[i].number != 0) {
            muster_terms_fini(&process->plans[i].terms);
        }
    }
    *process = (toy_process){0};
}

static void toy_kill(muster_sim *sim, void *context, uint64_t host)
{
    (void)context;
    muster_sim_kill(sim, (uint32_t)host);
}

/* grad_err, the parts missing and the flag must tell the same story. */
static void toy_step_end(toy *t, const muster_report *report)
{
    double err = report->as.end.grad_err;
    double least =
        sqrt((double)report->as.end.parts_missing / (double)t->info.parts);
    bool inexact = err > 1e-6;
    MUSTER_ASSERT(err > least - 1e-9);
    MUSTER_ASSERT(!t->info.exact || err < 1 + 1e-6); // least squares
    MUSTER_ASSERT(report->as.end.degraded == (inexact && t->info.exact));
    MUSTER_ASSERT(!report->as.end.degraded || t->degrade);
    t->degraded += report->as.end.degraded ? 1 : 0;
    t->plan = report->as.end.plan;
    t->steps_without += report->as.end.parts_missing;
    MUSTER_ASSERT(report->as.end.part_count == t->info.parts);
    memcpy(t->received, report->as.end.parts_received,
           t->info.parts * sizeof(t->received[0]));
}

static void toy_report(void *context, uint32_t host,
                       const muster_report *report)
{
    toy *t = context;
    if (host != 0) {
        return;
    }
    switch (report->kind) {
    case MUSTER_REPORT_STEP_BEGIN:
        if (t->kill_at_step == report->step + 1) {
            muster_sim_at(t->sim, report->now_ns, toy_kill, t, t->kill_host);
            t->kill_at_step = 0;
        }
        break;
    case MUSTER_REPORT_STEP_END:
        t->ends++;
        t->bytes_up += report->as.end.bytes_up;
        t->bytes_down += report->as.end.bytes_down;
        t->messages_up += report->as.end.messages_up;
        t->bytes_moved += report->as.end.bytes_moved;
        toy_step_end(t, report);
        break;
    case MUSTER_REPORT_ANSWER:
        t->late += report->as.answer.late;
        break;
    case MUSTER_REPORT_WORKER:
        t->ready += report->as.worker.change == MUSTER_WORKER_READY;
        if (report->as.worker.change == MUSTER_WORKER_LOST) {
            t->lost++;
            t->lost_worker = report->as.worker.worker;
            t->lost_ns = report->now_ns;
            memcpy(t->lost_reason, report->as.worker.reason,
                   sizeof(t->lost_reason));
        }
        break;
    case MUSTER_REPORT_RESULT:
        t->results++;
        break;
    case MUSTER_REPORT_NOTICE: {
        size_t used = strlen(t->notices);
        snprintf(t->notices + used, sizeof(t->notices) - used, "%s\n",
                 report->as.notice.text);
        break;
    }
    }
}

static void toy_stopped(void *context, uint32_t host, muster_status status,
                        const char *reason)
{
    toy *t = context;
    if (host != 0) {
        t->stopped_workers++;
        t->worker_status = status;
        return;
    }
    t->over = true;
    t->status = status;
    snprintf(t->reason, sizeof(t->reason), "%s", reason);
    muster_sim_halt(t->sim);
}

/* Start, or restart from the newest snapshot, the coordinator on host 0. */
static void toy_start_coordinator(toy *t)
{
    muster_coordinator_opts opts = MUSTER_COORDINATOR_OPTS_INIT;
    opts.code = t->code;
    opts.run = TOY_RUN;
    opts.first_step = t->disk.step;
    opts.last_step = t->steps;
    opts.message_dim = TOY_DIM;
    memcpy(t->theta, t->disk.theta, sizeof(t->theta));
    opts.model = toy_blob(t->theta, sizeof(t->theta));
    opts.setup = toy_blob("setup", 5);
    opts.patience_ns = 20 * MUSTER_NS_PER_S;
    opts.grace_ns = 3 * MUSTER_NS_PER_S;
    opts.checkpoint_every = 4;
    opts.evaluate_at_end = true;
    opts.shuffle = t->shuffle;
    opts.deadline_ns = t->deadline_ns;
    opts.degrade = t->degrade;
    opts.saved = t->disk.role_bytes > 0 ? t->disk.role : NULL;
    opts.saved_bytes = t->disk.role_bytes;
    muster_role role;
    muster_error error;
    muster_status status = muster_coordinator_create(&opts, &error, &role);
    MUSTER_ASSERT(status == MUSTER_OK);
    muster_blob_unref(opts.model);
    muster_blob_unref(opts.setup);
    muster_sim_start(t->sim, 0, role);
}

static void toy_start_worker(toy *t, uint32_t host, uint32_t wish)
{
    muster_worker_opts opts = MUSTER_WORKER_OPTS_INIT;
    snprintf(opts.address, sizeof(opts.address), "sim:0");
    opts.id = wish;
    opts.pid = host;
    opts.patience_ns = 20 * MUSTER_NS_PER_S;
    muster_role role;
    muster_error error;
    muster_status status = muster_worker_create(&opts, &error, &role);
    MUSTER_ASSERT(status == MUSTER_OK);
    muster_sim_start(t->sim, host, role);
}

typedef struct toy_opts {
    uint64_t seed;
    const char *code;
    uint32_t workers;
    uint64_t steps;
    double duplicate;
    int64_t jitter_ns;
    double bytes_per_s; // 0: no limit
    const char *shuffle;
    int64_t deadline_ns;
    bool degrade;
    void (*on_trace)(void *context, const char *line);
} toy_opts;

/* Everybody up, nothing has happened yet. Hosts: 0 coordinator, 1.. workers. */
static void toy_init(toy *t, const toy_opts *opts)
{
    memset(t, 0, sizeof(*t));
    muster_code_opts code = MUSTER_CODE_OPTS_INIT;
    code.name = opts->code;
    code.workers = opts->workers;
    muster_error error;
    muster_status status = muster_code_create(&code, &error, &t->code);
    if (status != MUSTER_OK) {
        fprintf(stderr, "%s: %s\n", opts->code, error.text);
    }
    MUSTER_ASSERT(status == MUSTER_OK);
    t->info = muster_code_describe(t->code);
    MUSTER_ASSERT(t->info.parts <= TOY_PARTS_MAX);
    t->workers = opts->workers;
    t->steps = opts->steps;
    t->shuffle = opts->shuffle;
    t->deadline_ns = opts->deadline_ns;
    t->degrade = opts->degrade;
    t->rng = muster_rng_make(opts->seed, 2);
    muster_sim_opts sim = {.seed = opts->seed,
                           .compute = {t, toy_begin, toy_end, toy_reset},
                           .link = {100000, opts->jitter_ns, opts->bytes_per_s},
                           .duplicate = opts->duplicate,
                           .context = t,
                           .on_report = toy_report,
                           .on_stop = toy_stopped,
                           .on_trace = opts->on_trace};
    status = muster_sim_create(&sim, opts->workers + 1, &t->sim);
    MUSTER_ASSERT(status == MUSTER_OK);
    toy_start_coordinator(t);
    for (uint32_t host = 1; host <= opts->workers; host++) {
        toy_start_worker(t, host, host - 1);
    }
}

static void toy_fini(toy *t)
{
    muster_sim_free(t->sim);
    for (uint32_t host = 0; host < TOY_HOSTS_MAX; host++) {
        toy_reset(t, host);
    }
    muster_code_free(t->code);
}

#endif // MUSTER_TESTS_SIM_TOY_H
