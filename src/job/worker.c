/*
 * The worker's executor. SETUP makes the model, ADOPT keeps a plan, LOAD and
 * FORGET change the parts held, GRADIENT (gradient.c) computes.
 *
 * Whatever arrives here came over a network: descriptions, plans and parts are
 * checked whole before anything of them is kept.
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/mem.h"
#include "job/inside.h"
#include "wire/terms.h"

static muster_status fail(worker *self, muster_status status, const char *why)
{
    return muster_error_set(&self->base.error, status, "%s", why);
}

held_part *muster_job_held_find(worker *self, uint32_t number)
{
    held_part *held = self->held.data;
    for (size_t i = 0; i < self->held.count; i++) {
        if (held[i].part.number == number) {
            return &held[i];
        }
    }
    return NULL;
}

static void drop_parts(worker *self)
{
    held_part *held = self->held.data;
    for (size_t i = 0; i < self->held.count; i++) {
        muster_blob_unref(held[i].blob);
    }
    muster_vec_clear(&self->held);
}

static void drop_plans(worker *self)
{
    for (uint32_t i = 0; i < WORKER_PLANS; i++) {
        muster_encode_plan_free(self->plans[i].lanes);
        self->plans[i] = (worker_plan){0};
    }
}

static void drop_model(worker *self)
{
    muster_mem_free(self->scratch);
    muster_job_gather_fini(&self->gather);
    muster_mem_free(self->accumulators);
    muster_mem_free(self->wide);
    muster_model_free(&self->model);
    muster_mem_free(self->setup.model);
    self->scratch = NULL;
    self->accumulators = NULL;
    self->wide = NULL;
    self->accumulator_floats = 0;
    self->gather_entries_row = 0;
    self->setup = (job_setup){0};
    self->is_set_up = false;
}

static bool same_setup(const job_setup *a, const job_setup *b)
{
    return strcmp(a->model, b->model) == 0 && a->samples == b->samples &&
           a->nonzeros == b->nonzeros && a->features == b->features &&
           a->classes == b->classes && a->parts == b->parts &&
           a->is_sparse == b->is_sparse;
}

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* Put the file that was allowed in place of the one that the job names. */
static muster_status choose_plugin(worker *self, job_setup *setup)
{
    size_t length = muster_model_plugin_path(setup->model);
    if (length == 0) {
        return MUSTER_OK; // built in
    }
    const char *wanted = file_name(setup->model);
    size_t wanted_length = (size_t)(setup->model + length - wanted);
    if (self->allowed == NULL ||
        strlen(file_name(self->allowed)) != wanted_length ||
        strncmp(file_name(self->allowed), wanted, wanted_length) != 0) {
        return muster_error_set(
            &self->base.error, MUSTER_ERR_INVALID,
            "the run's model is code, %.*s: to run it here, get the file from "
            "whom you trust and join with --allow-model PATH/%.*s",
            (int)length, setup->model, (int)wanted_length, wanted);
    }
    size_t room = strlen(self->allowed) + strlen(setup->model + length) + 1;
    char *spec = muster_mem_array(room, 1);
    if (spec == NULL) {
        return fail(self, MUSTER_ERR_NO_MEMORY, "out of memory for the model");
    }
    (void)snprintf(spec, room, "%s%s", self->allowed, setup->model + length);
    muster_mem_free(setup->model);
    setup->model = spec;
    return MUSTER_OK;
}

/* A worker that reconnects to the same run is set up again and keeps its
 * parts; one that finds another job starts from nothing. */
static muster_status setup_job(worker *self)
{
    job_setup setup = {0};
    muster_error *error = &self->base.error;
    muster_status status =
        muster_job_setup_read(self->base.job.input, error, &setup);
    if (status != MUSTER_OK) {
        return status;
    }
    status = choose_plugin(self, &setup);
    if (status != MUSTER_OK) {
        muster_mem_free(setup.model);
        return status;
    }
    if (!self->is_set_up || !same_setup(&self->setup, &setup)) {
        drop_parts(self);
    }
    drop_plans(self);
    drop_model(self);
    self->setup = setup;
    status = muster_model_create(setup.model, setup.features, setup.classes,
                                 error, &self->model);
    if (status != MUSTER_OK) {
        drop_model(self);
        return status;
    }
    double cells = (double)setup.samples * setup.features;
    double density = setup.is_sparse ? (double)setup.nonzeros / cells : 1;
    self->block_rows = muster_model_block_rows(&self->model, density);
    self->scratch = muster_mem_raw_aligned(
        self->model.ops->scratch_bytes(self->model.self, self->block_rows) + 1,
        1);
    if (self->scratch == NULL) {
        drop_model(self);
        return fail(self, MUSTER_ERR_NO_MEMORY, "out of memory for the model");
    }
    self->is_set_up = true;
    return MUSTER_OK;
}

static muster_status adopt_job(worker *self)
{
    const muster_blob *input = self->base.job.input;
    muster_terms terms = {0};
    muster_encode_plan *lanes = NULL;
    if (!self->is_set_up || input == NULL || input->data == NULL) {
        return fail(self, MUSTER_ERR_PROTOCOL, "a plan came before its job");
    }
    muster_status status =
        muster_terms_read(input->data, input->bytes, &self->base.error, &terms);
    if (status != MUSTER_OK) {
        return status;
    }
    status = muster_encode_plan_create(terms.terms, terms.count,
                                       terms.gradient_blocks,
                                       terms.message_blocks, &lanes);
    muster_terms_fini(&terms);
    if (status != MUSTER_OK) {
        return status;
    }
    for (uint32_t i = 0; i < lanes->part_count; i++) {
        if (lanes->parts[i].part >= self->setup.parts) {
            muster_encode_plan_free(lanes);
            return fail(self, MUSTER_ERR_PROTOCOL,
                        "a plan asks for a part that does not exist");
        }
    }
    uint32_t number = self->base.job.plan;
    worker_plan *newest = &self->plans[self->newest];
    if (newest->lanes != NULL && newest->number != number) {
        self->newest = (self->newest + 1) % WORKER_PLANS;
        newest = &self->plans[self->newest];
    }
    muster_encode_plan_free(newest->lanes);
    *newest = (worker_plan){number, lanes};
    return MUSTER_OK;
}

static uint64_t longest_row(const muster_rows *rows)
{
    uint64_t longest = 0;
    for (uint32_t r = 0; rows->offsets != NULL && r < rows->count; r++) {
        uint64_t entries = rows->offsets[r + 1] - rows->offsets[r];
        longest = entries > longest ? entries : longest;
    }
    return longest;
}

static muster_status check_part(worker *self, const muster_part *part)
{
    const muster_rows *rows = &part->rows;
    if (part->number != self->base.job.part) {
        return fail(self, MUSTER_ERR_PROTOCOL, "a part has another number");
    }
    if (part->number >= self->setup.parts ||
        rows->features != self->setup.features || rows->labels == NULL ||
        (rows->dense == NULL) != self->setup.is_sparse ||
        (rows->count > 0 &&
         part->sample_ids[rows->count - 1] >= self->setup.samples)) {
        return fail(self, MUSTER_ERR_PROTOCOL,
                    "a part is not of this run's data");
    }
    return MUSTER_OK;
}

/* Takes over the reference to `own`, which nobody else can write to. */
static muster_status keep_part(worker *self, muster_blob *own)
{
    muster_part part;
    muster_status status =
        muster_part_open(own->data, own->bytes, &self->base.error, &part);
    if (status == MUSTER_OK) {
        status = check_part(self, &part);
    }
    held_part *held = NULL;
    if (status == MUSTER_OK) {
        held = muster_job_held_find(self, part.number);
        held = held != NULL ? held : muster_vec_push(&self->held);
        if (held == NULL) {
            status =
                fail(self, MUSTER_ERR_NO_MEMORY, "out of memory for a part");
        }
    }
    if (held == NULL) {
        muster_blob_unref(own);
        return status;
    }
    muster_blob_unref(held->blob);
    *held = (held_part){own, part, longest_row(&part.rows)};
    return MUSTER_OK;
}

/* The bytes that arrived may lie in their sender's memory: what was checked
 * could change under us, and keeping them would pin a buffer of the sender for
 * the whole run. So they are copied, once. */
static muster_status load_job(worker *self)
{
    const muster_blob *input = self->base.job.input;
    if (!self->is_set_up || input == NULL || input->data == NULL) {
        return fail(self, MUSTER_ERR_PROTOCOL, "a part came before its job");
    }
    muster_blob *own = muster_blob_create(input->bytes);
    if (own == NULL) {
        return fail(self, MUSTER_ERR_NO_MEMORY, "out of memory for a part");
    }
    memcpy(own->data, input->data, input->bytes);
    return keep_part(self, own);
}

static muster_status forget_job(worker *self)
{
    held_part *held = muster_job_held_find(self, self->base.job.part);
    if (held != NULL) {
        muster_blob_unref(held->blob);
        held_part *last = (held_part *)self->held.data + self->held.count - 1;
        *held = *last;
        self->held.count--;
    }
    return MUSTER_OK;
}

static muster_status worker_begin(muster_executor *executor)
{
    worker *self = (worker *)executor;
    switch (executor->job.kind) {
    case MUSTER_JOB_SETUP:
        return setup_job(self);
    case MUSTER_JOB_ADOPT:
        return adopt_job(self);
    case MUSTER_JOB_LOAD:
        return load_job(self);
    case MUSTER_JOB_FORGET:
        return forget_job(self);
    case MUSTER_JOB_GRADIENT:
        return muster_job_gradient_begin(self);
    case MUSTER_JOB_PART:
    case MUSTER_JOB_UPDATE:
    case MUSTER_JOB_EVALUATE:
    case MUSTER_JOB_SNAPSHOT:
        break;
    }
    return muster_error_set(&executor->error, MUSTER_ERR_INVALID,
                            "job %d is not a worker's",
                            (int)executor->job.kind);
}

static muster_status worker_piece(muster_executor *executor)
{
    return muster_job_gradient_piece((worker *)executor);
}

static bool worker_must_finish(const muster_executor *executor)
{
    (void)executor;
    return false;
}

static void worker_free(muster_executor *executor)
{
    worker *self = (worker *)executor;
    drop_parts(self);
    drop_plans(self);
    drop_model(self);
    muster_mem_free(self->allowed);
    muster_vec_fini(&self->held);
    muster_vec_fini(&self->slots);
    muster_vec_fini(&self->members);
    muster_vec_fini(&self->lanes);
    muster_mem_free(self);
}

static const executor_ops worker_ops = {
    worker_begin,
    worker_piece,
    worker_must_finish,
    worker_free,
};

muster_status muster_executor_create_worker(const muster_executor_alloc *alloc,
                                            muster_executor **executor_out)
{
    worker *self = muster_mem_array(1, sizeof(*self));
    if (self == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    muster_executor_init(&self->base, &worker_ops, alloc);
    self->held = muster_vec_make(sizeof(held_part));
    self->slots = muster_vec_make(sizeof(const muster_part *));
    self->members = muster_vec_make(sizeof(batch_member));
    self->lanes = muster_vec_make(sizeof(float *));
    *executor_out = &self->base;
    return MUSTER_OK;
}

muster_status muster_executor_allow_model(muster_executor *executor,
                                          const char *spec)
{
    MUSTER_ASSERT(executor->ops == &worker_ops);
    worker *self = (worker *)executor;
    size_t length = muster_model_plugin_path(spec);
    char *allowed = muster_mem_array(length + 1, 1);
    if (allowed == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    memcpy(allowed, spec, length);
    muster_mem_free(self->allowed);
    self->allowed = allowed;
    return MUSTER_OK;
}
