/*
 * toy.h -- a training job small enough to check by hand, for the simulator.
 *
 * Parameters are integers below 1009, the gradient of a part is an integer
 * function of (part, step, theta), and an update is theta = (3 theta + sum of
 * gradients) mod 1009: everything is exact in float32, and one wrong, missing
 * or doubled message changes every later step. The serial answer is computed
 * beside it and compared after each update.
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

typedef struct toy_process {
    bool set_up;
    bool adopted;
    muster_terms terms;
    bool held[TOY_PARTS_MAX];
    muster_job job; // under way
} toy_process;

/* What survives a coordinator: its newest snapshot. */
typedef struct toy_disk {
    uint64_t step;
    float theta[TOY_DIM];
    uint8_t role[64];
    size_t role_bytes;
} toy_disk;

typedef struct toy {
    muster_sim *sim;
    muster_code *code;
    muster_code_info info;
    uint32_t workers;
    uint64_t steps;
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
    double wrong; // largest distance from the serial answer
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

static muster_blob *toy_encode(toy *t, toy_process *process)
{
    size_t block = toy_block(t);
    const float *theta = process->job.input->data;
    muster_blob *blob = muster_blob_create(process->terms.message_blocks *
                                           block * sizeof(float));
    MUSTER_ASSERT(blob != NULL && process->adopted && process->set_up);
    float *message = blob->data;
    memset(message, 0, blob->bytes);
    for (uint32_t i = 0; i < process->terms.count; i++) {
        const muster_code_encode_term *term = &process->terms.terms[i];
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

/* Decode, compare with the serial answer, take the step. */
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
    for (uint32_t i = 0; i < TOY_DIM; i++) {
        float whole = roundf(sum[i]);
        double off = fabsf(sum[i] - whole);
        t->theta[i] = fmodf(3 * t->theta[i] + whole + 1009 * 16, 1009);
        // After a restart steps are repeated; only the newest can be compared.
        double error = t->serial_step == job->step + 1
                           ? fabsf(t->theta[i] - t->serial[i])
                           : 0;
        t->wrong = fmax(t->wrong, fmax(off, error));
    }
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
        ms = 8 + 4 * muster_rng_exponential(&t->rng);
    } else if (job->kind == MUSTER_JOB_SETUP || job->kind == MUSTER_JOB_LOAD) {
        ms = 2;
    }
    return (int64_t)(ms * 1e6);
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
        MUSTER_ASSERT(process->set_up);
        if (process->adopted) {
            muster_terms_fini(&process->terms);
        }
        process->adopted = true;
        result->status = muster_terms_read(job->input->data, job->input->bytes,
                                           NULL, &process->terms);
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
        MUSTER_ASSERT(!"nobody asks for this yet");
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
    if (process->adopted) {
        muster_terms_fini(&process->terms);
    }
    *process = (toy_process){0};
}

static void toy_kill(muster_sim *sim, void *context, uint64_t host)
{
    (void)context;
    muster_sim_kill(sim, (uint32_t)host);
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
    MUSTER_ASSERT(status == MUSTER_OK);
    t->info = muster_code_describe(t->code);
    MUSTER_ASSERT(t->info.parts <= TOY_PARTS_MAX);
    t->workers = opts->workers;
    t->steps = opts->steps;
    t->rng = muster_rng_make(opts->seed, 2);
    muster_sim_opts sim = {.seed = opts->seed,
                           .compute = {t, toy_begin, toy_end, toy_reset},
                           .link = {100000, opts->jitter_ns, 0},
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
