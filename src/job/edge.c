/*
 * The edge's executor. SETUP makes the run's code, ADOPT that of a plan.
 * COMBINE decodes the messages of a step to the edge's own, which has a bound
 * on its rounding behind it as every message has.
 */
#include <math.h>

#include "base/error.h"
#include "base/mem.h"
#include "config/config.h"
#include "job/inside.h"

#define COMBINE_FLOATS ((size_t)8 << 20) // read by a piece
#define COMBINE_MIN    ((size_t)4096)    // coordinates of a piece
#define TERMS_AT_FIRST 64u

typedef struct edge {
    muster_executor base;
    muster_executor_code make_code;
    muster_code *code;      // of SETUP
    muster_planner planner; // codes of ADOPT
    muster_decoder *decoder;
    muster_vec messages; // const float *: of the step, by slot
    size_t floats;       // of the output, without its bound
    size_t at;           // next of them
} edge;

static muster_status setup_job(edge *self)
{
    muster_config *config = NULL;
    muster_error *error = &self->base.error;
    muster_status status =
        muster_job_setup_config(self->base.job.input, error, &config);
    if (status != MUSTER_OK) {
        return status;
    }
    muster_code *code = NULL;
    status = self->make_code(config, error, &code);
    muster_config_free(config);
    if (status != MUSTER_OK) {
        return status;
    }
    muster_code_free(self->code);
    self->code = code;
    self->base.result.code = code;
    return MUSTER_OK;
}

static muster_status combine_begin(edge *self)
{
    const muster_job *job = &self->base.job;
    if (job->decoding == NULL || job->block == 0) {
        return muster_error_set(&self->base.error, MUSTER_ERR_INVALID,
                                "there is nothing to combine with");
    }
    self->at = 0;
    self->floats = job->block * job->decoding->gradient_blocks;
    const job_messages_shape shape = {.block = job->block,
                                      .measured = self->floats};
    muster_status status = muster_job_messages_begin(
        &self->base, &shape, &self->messages, self->decoder);
    if (status == MUSTER_OK) {
        status = muster_executor_make_output(&self->base, (self->floats + 1) *
                                                              sizeof(float));
    }
    return status == MUSTER_OK ? MUSTER_IN_PROGRESS : status;
}

/* The bound on the message's rounding: what the workers' own come to, and what
 * decoding added. Whoever adds up messages takes so many deviations of it. */
static float bound_of(const edge *self)
{
    const muster_job *job = &self->base.job;
    size_t tail = job->block * job->decoding->message_blocks;
    double squares =
        muster_job_messages_squares(job->decoding, self->messages.data, tail);
    double decoded =
        2 * MUSTER_JOB_ROUNDING * muster_decoder_mass(self->decoder);
    return (float)(sqrt(squares) + decoded / MUSTER_JOB_DEVIATIONS);
}

static muster_status combine_piece(edge *self)
{
    size_t terms = muster_decoder_terms_at(self->decoder, self->at);
    size_t some = COMBINE_FLOATS / (terms + 1);
    some = some > COMBINE_MIN ? some : COMBINE_MIN;
    size_t left = self->floats - self->at;
    size_t end = self->at + (left < some ? left : some);
    float *message = self->base.result.output->data;
    muster_decoder_range(self->decoder, self->at, end, message);
    self->at = end;
    if (end < self->floats) {
        return MUSTER_IN_PROGRESS;
    }
    message[end] = bound_of(self);
    self->base.result.share = 1;
    self->base.result.message = 1;
    return MUSTER_OK;
}

static muster_status edge_begin(muster_executor *executor)
{
    edge *self = (edge *)executor;
    if (executor->job.kind == MUSTER_JOB_SETUP) {
        return setup_job(self);
    }
    if (executor->job.kind == MUSTER_JOB_ADOPT) {
        return muster_planner_adopt(&self->planner, &executor->job, self->code,
                                    &executor->error, &executor->result);
    }
    if (executor->job.kind == MUSTER_JOB_COMBINE) {
        return combine_begin(self);
    }
    return muster_error_set(&executor->error, MUSTER_ERR_INVALID,
                            "job %d is not an edge's", (int)executor->job.kind);
}

static muster_status edge_piece(muster_executor *executor)
{
    return combine_piece((edge *)executor);
}

static bool edge_must_finish(const muster_executor *executor)
{
    (void)executor;
    return false;
}

static void edge_free(muster_executor *executor)
{
    edge *self = (edge *)executor;
    muster_vec_fini(&self->messages);
    muster_decoder_free(self->decoder);
    muster_code_free(self->code);
    muster_planner_fini(&self->planner);
    muster_mem_free(self);
}

static const executor_ops edge_ops = {
    edge_begin,
    edge_piece,
    edge_must_finish,
    edge_free,
};

muster_status muster_executor_create_edge(muster_executor_code code,
                                          const muster_executor_alloc *alloc,
                                          muster_executor **executor_out)
{
    edge *self = muster_mem_array(1, sizeof(*self));
    if (self == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    muster_executor_init(&self->base, &edge_ops, alloc);
    self->make_code = code;
    self->planner = muster_planner_make();
    self->messages = muster_vec_make(sizeof(const float *));
    muster_status status =
        muster_decoder_create(TERMS_AT_FIRST, &self->decoder);
    if (status != MUSTER_OK) {
        muster_mem_free(self);
        return status;
    }
    *executor_out = &self->base;
    return MUSTER_OK;
}
