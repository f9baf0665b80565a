/*
 * The worker's executor. SETUP makes the model, ADOPT keeps a plan, LOAD and
 * FORGET change the shards held, GRADIENT (gradient.c) computes.
 *
 * Whatever arrives here came over a network: descriptions, plans and shards are
 * checked whole before anything of them is kept.
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/mem.h"
#include "job/inside.h"
#include "model/allow.h"

static muster_status fail(worker *self, muster_status status, const char *why)
{
    return muster_error_set(&self->base.error, status, "%s", why);
}

/* Where the shard is in `held`, or would be. */
static size_t held_at(const worker *self, uint32_t number)
{
    const held_shard *held = self->held.data;
    size_t low = 0;
    size_t high = self->held.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (held[middle].shard.number < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

held_shard *muster_job_held_find(const worker *self, uint32_t number)
{
    held_shard *held = self->held.data;
    size_t at = held_at(self, number);
    return at < self->held.count && held[at].shard.number == number ? &held[at]
                                                                    : NULL;
}

static void drop_shards(worker *self)
{
    held_shard *held = self->held.data;
    for (size_t i = 0; i < self->held.count; i++) {
        muster_blob_unref(held[i].blob);
    }
    muster_vec_clear(&self->held);
}

static void free_plan(worker_plan *plan)
{
    for (uint32_t t = 0; plan->lanes != NULL && t < plan->stages; t++) {
        muster_encode_plan_free(plan->lanes[t]);
    }
    muster_mem_free(plan->lanes);
    muster_mem_free(plan->parts);
    *plan = (worker_plan){0};
}

static void drop_plans(worker *self)
{
    for (uint32_t i = 0; i < MUSTER_WORKER_PLANS; i++) {
        free_plan(&self->plans[i]);
    }
}

static void drop_model(worker *self)
{
    muster_mem_free(self->scratch);
    muster_job_gather_fini(&self->gather);
    muster_mem_free(self->accumulators);
    muster_mem_free(self->wide);
    muster_model_free(&self->model);
    muster_job_setup_fini(&self->setup);
    self->scratch = NULL;
    self->accumulators = NULL;
    self->wide = NULL;
    self->accumulator_floats = 0;
    self->gather_entries_row = 0;
    self->is_set_up = false;
}

static bool same_setup(const job_setup *a, const job_setup *b)
{
    return strcmp(a->model, b->model) == 0 && a->samples == b->samples &&
           a->nonzeros == b->nonzeros && a->features == b->features &&
           a->classes == b->classes && a->shards == b->shards &&
           a->is_sparse == b->is_sparse &&
           memcmp(&a->image, &b->image, sizeof(a->image)) == 0;
}

/* Put the file that was allowed in place of the one that the job names. */
static muster_status choose_plugin(worker *self, job_setup *setup)
{
    char *spec = NULL;
    muster_status status = muster_model_allow(
        setup->model, self->allowed, "the run", &self->base.error, &spec);
    if (status == MUSTER_OK) {
        muster_mem_free(setup->model);
        setup->model = spec;
    }
    return status;
}

/* A worker that reconnects to the same run is set up again and keeps its
 * shards; one that finds another job starts from nothing. */
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
        muster_job_setup_fini(&setup);
        return status;
    }
    if (!self->is_set_up || !same_setup(&self->setup, &setup)) {
        drop_shards(self);
        muster_job_own_fini(&self->own);
    }
    drop_plans(self);
    drop_model(self);
    self->changes++;
    self->setup = setup;
    const muster_model_data data = {setup.features, setup.classes, setup.image};
    status = muster_model_create_for(setup.model, &data, error, &self->model);
    if (status != MUSTER_OK) {
        drop_model(self);
        return status;
    }
    double cells = (double)setup.samples * setup.features;
    double density = setup.is_sparse ? (double)setup.nonzeros / cells : 1;
    uint32_t threads = muster_threads_count(self->base.pool);
    self->block_rows = muster_model_block_rows(&self->model, density, threads);
    self->spare_rows = muster_model_spare_rows(&self->model, density);
    self->scratch = muster_mem_raw_aligned(
        muster_model_pass_bytes(&self->model, self->block_rows, threads) + 1,
        1);
    if (self->scratch == NULL) {
        drop_model(self);
        return fail(self, MUSTER_ERR_NO_MEMORY, "out of memory for the model");
    }
    self->is_set_up = true;
    self->base.result.model_floats = self->model.dim;
    return MUSTER_OK;
}

/* Are all shards of the plan's parts of this run? */
static bool is_whole(const worker *self, const worker_plan *plan)
{
    for (uint32_t i = 0; i < plan->part_count; i++) {
        const muster_terms_part *part = &plan->parts[i];
        if (part->first + part->count > self->setup.shards) {
            return false;
        }
    }
    return true;
}

/* The lanes of one stage: of the terms with its message blocks. `own` has room
 * for all terms. */
static muster_status read_stage(const muster_terms *terms, uint32_t stages,
                                uint32_t stage, muster_code_encode_term *own,
                                muster_encode_plan **lanes_out)
{
    uint32_t blocks = terms->message_blocks / stages;
    uint32_t count = 0;
    for (uint32_t i = 0; i < terms->count; i++) {
        if (terms->terms[i].message_block / blocks == stage) {
            own[count] = terms->terms[i];
            own[count++].message_block %= blocks;
        }
    }
    return muster_encode_plan_create(own, count, terms->gradient_blocks, blocks,
                                     lanes_out);
}

static muster_status read_stages(const muster_terms *terms, worker_plan *plan)
{
    muster_code_encode_term *own = muster_mem_array(terms->count, sizeof(*own));
    uint32_t *numbers = muster_mem_array(terms->part_count, sizeof(*numbers));
    muster_status status = MUSTER_OK;
    if (own == NULL || numbers == NULL) {
        status = MUSTER_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; numbers != NULL && i < terms->part_count; i++) {
        numbers[i] = terms->parts[i].part;
    }
    for (uint32_t t = 0; status == MUSTER_OK && t < plan->stages; t++) {
        status = read_stage(terms, plan->stages, t, own, &plan->lanes[t]);
        if (status == MUSTER_OK) {
            status = muster_encode_plan_spread(plan->lanes[t], numbers,
                                               terms->part_count);
        }
    }
    muster_mem_free(numbers);
    muster_mem_free(own);
    return status;
}

static muster_status read_plan(worker *self, worker_plan *plan)
{
    const muster_job *job = &self->base.job;
    uint32_t stages = job->stages > 0 ? job->stages : 1;
    muster_terms terms = {0};
    muster_status status = muster_terms_read(
        job->input->data, job->input->bytes, &self->base.error, &terms);
    if (status != MUSTER_OK) {
        return status;
    }
    *plan = (worker_plan){
        .number = job->plan,
        .stages = stages,
        .lanes = muster_mem_array(stages, sizeof(muster_encode_plan *)),
        .part_count = terms.part_count};
    if (plan->lanes == NULL) {
        status = MUSTER_ERR_NO_MEMORY;
    } else if (terms.message_blocks % stages != 0) {
        status = fail(self, MUSTER_ERR_PROTOCOL,
                      "a plan's messages are not one a stage");
    } else {
        status = read_stages(&terms, plan);
    }
    plan->parts = terms.parts;
    terms.parts = NULL;
    muster_terms_fini(&terms);
    if (status == MUSTER_OK && !is_whole(self, plan)) {
        status = fail(self, MUSTER_ERR_PROTOCOL,
                      "a plan asks for a shard that does not exist");
    }
    if (status != MUSTER_OK) {
        free_plan(plan);
    }
    return status;
}

static muster_status adopt_job(worker *self)
{
    const muster_blob *input = self->base.job.input;
    if (!self->is_set_up || input == NULL || input->data == NULL) {
        return fail(self, MUSTER_ERR_PROTOCOL, "a plan came before its job");
    }
    worker_plan plan = {0};
    muster_status status = read_plan(self, &plan);
    if (status != MUSTER_OK) {
        return status;
    }
    worker_plan *newest = &self->plans[self->newest];
    if (newest->stages > 0 && newest->number != plan.number) {
        self->newest = (self->newest + 1) % MUSTER_WORKER_PLANS;
        newest = &self->plans[self->newest];
    }
    free_plan(newest);
    *newest = plan;
    self->changes++;
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

static muster_status check_shard(worker *self, const muster_shard *shard)
{
    const muster_rows *rows = &shard->rows;
    if (shard->number != self->base.job.shard) {
        return fail(self, MUSTER_ERR_PROTOCOL, "a shard has another number");
    }
    if (shard->number >= self->setup.shards ||
        rows->features != self->setup.features || rows->labels == NULL ||
        (rows->dense == NULL) != self->setup.is_sparse ||
        (rows->count > 0 &&
         shard->sample_ids[rows->count - 1] >= self->setup.samples)) {
        return fail(self, MUSTER_ERR_PROTOCOL,
                    "a shard is not of this run's data");
    }
    return MUSTER_OK;
}

/* Room for a shard in `held`, in its place; NULL when out of memory. */
static held_shard *hold(worker *self, uint32_t number)
{
    held_shard *found = muster_job_held_find(self, number);
    if (found != NULL) {
        return found;
    }
    size_t at = held_at(self, number);
    size_t after = self->held.count - at;
    if (muster_vec_push(&self->held) == NULL) {
        return NULL;
    }
    held_shard *place = (held_shard *)self->held.data + at;
    memmove(place + 1, place, after * sizeof(*place));
    *place = (held_shard){0};
    return place;
}

muster_status muster_job_keep_shard(worker *self, muster_blob *own)
{
    muster_shard shard;
    muster_status status =
        muster_shard_open(own->data, own->bytes, &self->base.error, &shard);
    if (status == MUSTER_OK) {
        status = check_shard(self, &shard);
    }
    held_shard *held = status == MUSTER_OK ? hold(self, shard.number) : NULL;
    if (status == MUSTER_OK && held == NULL) {
        status = fail(self, MUSTER_ERR_NO_MEMORY, "out of memory for a shard");
    }
    if (held == NULL) {
        muster_blob_unref(own);
        return status;
    }
    muster_blob_unref(held->blob);
    *held = (held_shard){own, shard, longest_row(&shard.rows)};
    self->changes++;
    return MUSTER_OK;
}

/* The bytes that arrived may lie in their sender's memory: what was checked
 * could change under us, and keeping them would pin a buffer of the sender for
 * the whole run. So they are copied, once. */
static muster_status load_job(worker *self)
{
    const muster_blob *input = self->base.job.input;
    if (!self->is_set_up || input == NULL || input->data == NULL) {
        return fail(self, MUSTER_ERR_PROTOCOL, "a shard came before its job");
    }
    muster_blob *own = muster_blob_create(input->bytes);
    if (own == NULL) {
        return fail(self, MUSTER_ERR_NO_MEMORY, "out of memory for a shard");
    }
    memcpy(own->data, input->data, input->bytes);
    if (muster_listing_is(own->data, own->bytes)) {
        muster_blob_unref(self->own.asked);
        self->own.asked = own;
        return muster_job_own_begin(self);
    }
    return muster_job_keep_shard(self, own);
}

static muster_status forget_job(worker *self)
{
    held_shard *held = muster_job_held_find(self, self->base.job.shard);
    if (held != NULL) {
        held_shard *end = (held_shard *)self->held.data + self->held.count;
        muster_blob_unref(held->blob);
        memmove(held, held + 1, (size_t)(end - held - 1) * sizeof(*held));
        self->held.count--;
        self->changes++;
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
        muster_job_own_release(&self->own);
        return muster_job_gradient_begin(self);
    case MUSTER_JOB_MIX:
        return muster_job_mix_begin(self);
    case MUSTER_JOB_SHARD:
    case MUSTER_JOB_UPDATE:
    case MUSTER_JOB_DECODE:
    case MUSTER_JOB_EVALUATE:
    case MUSTER_JOB_SNAPSHOT:
    case MUSTER_JOB_COMBINE:
    case MUSTER_JOB_VERIFY:
    case MUSTER_JOB_PLAN:
        break;
    }
    return muster_error_set(&executor->error, MUSTER_ERR_INVALID,
                            "job %d is not a worker's",
                            (int)executor->job.kind);
}

static muster_status worker_piece(muster_executor *executor)
{
    worker *self = (worker *)executor;
    if (executor->job.kind == MUSTER_JOB_LOAD) {
        return muster_job_own_piece(self);
    }
    return executor->job.kind == MUSTER_JOB_MIX
               ? muster_job_mix_piece(self)
               : muster_job_gradient_piece(self);
}

static bool worker_must_finish(const muster_executor *executor)
{
    (void)executor;
    return false;
}

static void worker_free(muster_executor *executor)
{
    worker *self = (worker *)executor;
    drop_shards(self);
    drop_plans(self);
    drop_model(self);
    muster_job_own_fini(&self->own);
    muster_mem_free(self->own.path);
    muster_mem_free(self->allowed);
    muster_vec_fini(&self->held);
    muster_vec_fini(&self->slots.list);
    muster_vec_fini(&self->slots.here);
    muster_vec_fini(&self->slots.where);
    muster_job_local_fini(&self->local);
    muster_vec_fini(&self->members);
    muster_vec_fini(&self->mix.models);
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
    self->held = muster_vec_make(sizeof(held_shard));
    self->changes = 1;
    self->slots.list = muster_vec_make(sizeof(plan_slot));
    self->slots.here = muster_vec_make(sizeof(uint64_t));
    self->slots.where = muster_vec_make(sizeof(batch_member));
    self->members = muster_vec_make(sizeof(batch_member));
    self->mix.models = muster_vec_make(sizeof(const float *));
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

muster_status muster_executor_read_from(muster_executor *executor,
                                        const char *path)
{
    worker *self = (worker *)executor;
    MUSTER_ASSERT(executor->ops == &worker_ops);
    muster_mem_free(self->own.path);
    self->own.path = muster_mem_string(path);
    return self->own.path != NULL ? MUSTER_OK : MUSTER_ERR_NO_MEMORY;
}
