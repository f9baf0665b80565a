/*
 * The coordinator's executor: holds the data set, theta and the optimiser.
 * SHARD is one copy, or a listing of it (data/listing.h); UPDATE, EVALUATE and
 * SNAPSHOT have files of their own.
 */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/mem.h"
#include "config/config.h"
#include "job/inside.h"
#include "model/allow.h"

/* The shard's listing. Its bytes are made for their hash alone. */
static muster_status list_shard(coordinator *self, uint32_t shard, size_t bytes)
{
    muster_executor *base = &self->base;
    void *made = muster_mem_raw_aligned(bytes, 1);
    if (made == NULL) {
        return muster_error_set(&base->error, MUSTER_ERR_NO_MEMORY,
                                "out of memory for a shard");
    }
    muster_status status = muster_executor_make_output(
        base, muster_listing_bytes(&self->cut, shard));
    if (status == MUSTER_OK) {
        muster_dataset_shard_write(self->train, &self->cut, shard, made);
        muster_listing_write(&self->cut, shard, made, bytes,
                             base->result.output->data);
    }
    muster_mem_free(made);
    return status;
}

static muster_status shard_begin(coordinator *self)
{
    muster_executor *base = &self->base;
    uint32_t shard = base->job.shard;
    if (shard >= self->cut.shards) {
        return muster_error_set(&base->error, MUSTER_ERR_INVALID,
                                "shard %u of %u does not exist", shard,
                                self->cut.shards);
    }
    size_t bytes = muster_dataset_shard_bytes(self->train, &self->cut, shard);
    if (self->is_listed) {
        return list_shard(self, shard, bytes);
    }
    muster_status status = muster_executor_make_output(base, bytes);
    if (status == MUSTER_OK) {
        muster_dataset_shard_write(self->train, &self->cut, shard,
                                   base->result.output->data);
    }
    return status;
}

static muster_status coordinator_begin(muster_executor *executor)
{
    coordinator *self = (coordinator *)executor;
    switch (executor->job.kind) {
    case MUSTER_JOB_SHARD:
        return shard_begin(self);
    case MUSTER_JOB_UPDATE:
        return self->is_gossip ? muster_job_gossip_begin(self)
                               : muster_job_update_begin(self);
    case MUSTER_JOB_DECODE:
        return muster_job_early_begin(self);
    case MUSTER_JOB_EVALUATE:
        return muster_job_evaluate_begin(&self->evaluation);
    case MUSTER_JOB_VERIFY:
        return muster_job_verify_begin(self);
    case MUSTER_JOB_SNAPSHOT:
        return muster_job_snapshot_begin(self);
    case MUSTER_JOB_PLAN:
        return muster_planner_run(&self->planner, &executor->job,
                                  &executor->error, &executor->result);
    case MUSTER_JOB_SETUP:
    case MUSTER_JOB_ADOPT:
    case MUSTER_JOB_LOAD:
    case MUSTER_JOB_FORGET:
    case MUSTER_JOB_GRADIENT:
    case MUSTER_JOB_COMBINE:
    case MUSTER_JOB_MIX:
        break;
    }
    return muster_error_set(&executor->error, MUSTER_ERR_INVALID,
                            "job %d is not the coordinator's",
                            (int)executor->job.kind);
}

static muster_status coordinator_piece(muster_executor *executor)
{
    coordinator *self = (coordinator *)executor;
    if (executor->job.kind == MUSTER_JOB_VERIFY) {
        return muster_job_verify_piece(self);
    }
    if (executor->job.kind == MUSTER_JOB_SNAPSHOT) {
        return muster_job_snapshot_piece(self);
    }
    if (executor->job.kind == MUSTER_JOB_DECODE) {
        return muster_job_early_piece(self);
    }
    if (executor->job.kind == MUSTER_JOB_UPDATE && self->is_gossip) {
        return muster_job_gossip_piece(self);
    }
    return executor->job.kind == MUSTER_JOB_UPDATE
               ? muster_job_update_piece(self)
               : muster_job_evaluate_piece(&self->evaluation);
}

static bool coordinator_must_finish(const muster_executor *executor)
{
    const coordinator *self = (const coordinator *)executor;
    return executor->job.kind == MUSTER_JOB_UPDATE &&
           self->update.is_optimising;
}

static void coordinator_free(muster_executor *executor)
{
    coordinator *self = (coordinator *)executor;
    muster_job_snapshot_fini(self);
    muster_job_verify_fini(self);
    muster_planner_fini(&self->planner);
    muster_job_early_fini(self);
    muster_vec_fini(&self->update.messages);
    muster_decoder_free(self->update.decoder);
    muster_job_evaluate_fini(&self->evaluation);
    muster_mem_free(self->optim_state);
    muster_blob_unref(self->theta);
    muster_model_free(&self->model);
    muster_dataset_free(self->test);
    muster_dataset_free(self->train);
    muster_cut_fini(&self->cut);
    muster_mem_free(self->optim_spec);
    muster_mem_free(self->spec);
    muster_blob_unref(self->setup);
    muster_mem_free(self);
}

static const executor_ops coordinator_ops = {
    coordinator_begin,
    coordinator_piece,
    coordinator_must_finish,
    coordinator_free,
};

/* The model that is asked for. Whether it takes classes or targets shows only
 * when it is made; regression then gets the values of the data's files. */
static muster_status create_model(coordinator *self, const char *spec,
                                  muster_error *error_out)
{
    self->info = muster_dataset_describe(self->train);
    muster_model_data data = {self->info.features, self->info.classes,
                              self->info.image};
    muster_status status =
        muster_model_create_for(spec, &data, error_out, &self->model);
    if (status != MUSTER_OK || self->info.classes == 0 ||
        self->model.kind != MUSTER_MODEL_REGRESSION) {
        return status;
    }
    muster_model_free(&self->model);
    self->model = (muster_model){0};
    muster_dataset_use_targets(self->train);
    self->info = muster_dataset_describe(self->train);
    data.classes = 0;
    return muster_model_create_for(spec, &data, error_out, &self->model);
}

/* A run folder may name code as the model; only the command line may have it
 * run. */
static muster_status make_model(coordinator *self, const muster_config *config,
                                muster_error *error_out)
{
    const char *spec = muster_config_string(config, MUSTER_OPT_MODEL);
    const char *run = muster_config_string(config, MUSTER_OPT_RUN);
    if (!muster_config_is_from_file(config, MUSTER_OPT_MODEL)) {
        return create_model(self, spec, error_out);
    }
    char *chosen = NULL;
    muster_status status = muster_model_allow(
        spec, muster_config_string(config, MUSTER_OPT_ALLOW_MODEL),
        run != NULL ? run : "the run", error_out, &chosen);
    if (status == MUSTER_OK) {
        status = create_model(self, chosen, error_out);
    }
    muster_mem_free(chosen);
    return status;
}

static muster_status load_train(coordinator *self, const muster_config *config,
                                const char *data, muster_error *error_out)
{
    const char *label = muster_config_string(config, MUSTER_OPT_LABEL);
    const char *target = muster_config_string(config, MUSTER_OPT_TARGET);
    muster_status status =
        muster_dataset_load(data, label, error_out, &self->train);
    return status == MUSTER_OK
               ? muster_dataset_take_target(self->train, target, error_out)
               : status;
}

static muster_status load_data(coordinator *self, const muster_config *config,
                               muster_error *error_out)
{
    const char *data = muster_config_string(config, MUSTER_OPT_DATA);
    const char *test = muster_config_string(config, MUSTER_OPT_TEST);
    if (data == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "--data: name a file, a folder or synthetic:");
    }
    muster_status status = load_train(self, config, data, error_out);
    if (status == MUSTER_OK) {
        status = make_model(self, config, error_out);
        // Also where the model cannot take such labels: the column may be why.
        muster_dataset_tell_label(self->train);
    }
    if (status == MUSTER_OK) {
        status = muster_dataset_load_test(test, data, self->train, error_out,
                                          &self->test);
    }
    return status;
}

/* Names that can be wrong whatever the data is: reading it may take minutes. */
static muster_status read_names(coordinator *self, const muster_config *config,
                                muster_error *error_out)
{
    muster_status status = muster_model_check_name(
        muster_config_string(config, MUSTER_OPT_MODEL), error_out);
    if (status == MUSTER_OK) {
        status = muster_optim_parse(
            muster_config_string(config, MUSTER_OPT_OPTIMIZER), error_out,
            &self->optim);
    }
    if (status == MUSTER_OK) {
        status = muster_schedule_parse(
            muster_config_string(config, MUSTER_OPT_SCHEDULE), 0, error_out,
            &self->schedule);
    }
    return status;
}

static void read_options(coordinator *self, const muster_config *config)
{
    self->batch = muster_job_batch(config, self->info.samples);
    self->steps = muster_job_steps(config, &self->batch);
    self->schedule.steps = self->steps;
    self->lr = muster_config_double(config, MUSTER_OPT_LR);
    self->l2 = muster_config_double(config, MUSTER_OPT_L2);
    self->clip = muster_config_double(config, MUSTER_OPT_CLIP);
    self->is_local = muster_config_local_steps(config) > 0;
    muster_algorithm_kind algorithm = muster_config_algorithm_kind(config);
    self->is_async = algorithm == MUSTER_ALGORITHM_SSP;
    self->is_gossip = algorithm == MUSTER_ALGORITHM_GOSSIP;
    self->is_listed = muster_config_data_at_workers(config);
    self->workers = muster_config_workers(config);
    if (self->is_local ||
        self->is_gossip) { // workers do the rest: their mean way is gone
        self->optim = (muster_optim){.kind = MUSTER_OPTIM_SGD};
        self->schedule = (muster_schedule){.kind = MUSTER_SCHEDULE_CONSTANT};
        self->lr = 1;
        self->clip = 0;
    }
}

static muster_status allocate(coordinator *self, const muster_config *config)
{
    const muster_model *model = &self->model;
    const muster_dataset_info *info = &self->info;
    double density =
        (double)info->nonzeros / ((double)info->samples * info->features);
    self->block_rows = muster_model_block_rows(model, density, 1);
    self->spec =
        muster_mem_string(muster_config_string(config, MUSTER_OPT_MODEL));
    self->optim_spec =
        muster_mem_string(muster_config_string(config, MUSTER_OPT_OPTIMIZER));
    self->setup = muster_job_setup_write(config, info, self->cut.shards);
    self->theta = self->base.alloc.make(self->base.alloc.context,
                                        model->dim * sizeof(float));
    self->optim_state =
        muster_mem_array(model->dim * self->optim.slots, sizeof(float));
    if (self->spec == NULL || self->optim_spec == NULL || self->setup == NULL ||
        self->theta == NULL || self->optim_state == NULL ||
        muster_decoder_create(self->cut.shards, &self->update.decoder) !=
            MUSTER_OK) {
        return MUSTER_ERR_NO_MEMORY;
    }
    model->ops->init(model->self, self->batch.seed, self->theta->data);
    return MUSTER_OK;
}

muster_status
muster_executor_create_coordinator(const muster_config *config, uint32_t shards,
                                   const muster_executor_alloc *alloc,
                                   muster_error *error_out,
                                   muster_executor **executor_out)
{
    coordinator *self = muster_mem_array(1, sizeof(*self));
    if (self == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "out of memory for the coordinator");
    }
    MUSTER_ASSERT(shards > 0);
    muster_executor_init(&self->base, &coordinator_ops, alloc);
    self->evaluation.of = self;
    self->evaluation.frame = &self->base;
    self->update.messages = muster_vec_make(sizeof(const float *));
    self->update.early.messages = muster_vec_make(sizeof(muster_blob *));
    self->planner = muster_planner_make();
    muster_status status = read_names(self, config, error_out);
    if (status == MUSTER_OK) {
        status = load_data(self, config, error_out);
    }
    if (status == MUSTER_OK) {
        read_options(self, config);
        status = muster_cut_even(self->info.samples, shards, &self->cut);
        if (status == MUSTER_OK) {
            status = allocate(self, config);
        }
        if (status != MUSTER_OK) {
            (void)muster_error_set(error_out, status,
                                   "out of memory for a model of %zu "
                                   "parameters",
                                   self->model.dim);
        }
    }
    if (status != MUSTER_OK) {
        coordinator_free(&self->base);
        return status;
    }
    *executor_out = &self->base;
    return MUSTER_OK;
}

coordinator *muster_job_coordinator(muster_executor *executor)
{
    MUSTER_ASSERT(executor->ops == &coordinator_ops);
    return (coordinator *)executor;
}

const coordinator *muster_job_coordinator_const(const muster_executor *executor)
{
    MUSTER_ASSERT(executor->ops == &coordinator_ops);
    return (const coordinator *)executor;
}

muster_status muster_executor_place(muster_executor *executor,
                                    const uint32_t *owner_of, uint32_t owners,
                                    muster_error *error_out)
{
    coordinator *self = muster_job_coordinator(executor);
    muster_cut cut;
    muster_status status =
        muster_cut_placed(owner_of, self->info.samples, owners,
                          self->cut.shards, error_out, &cut);
    if (status == MUSTER_OK) {
        muster_cut_fini(&self->cut);
        self->cut = cut;
    }
    return status;
}

const muster_dataset *muster_executor_data(const muster_executor *executor)
{
    return muster_job_coordinator_const(executor)->train;
}

const uint64_t *muster_executor_shards(const muster_executor *executor)
{
    return muster_job_coordinator_const(executor)->cut.first;
}

const uint32_t *muster_executor_owned(const muster_executor *executor)
{
    return muster_job_coordinator_const(executor)->cut.owned;
}

muster_executor_info muster_executor_describe(const muster_executor *executor)
{
    const coordinator *self = muster_job_coordinator_const(executor);
    return (muster_executor_info){
        .dim = self->model.dim,
        .message_dim = self->model.dim + 1,
        .message_tail = sizeof(float),
        .samples = self->info.samples,
        .features = self->info.features,
        .classes = self->info.classes,
        .batch = self->batch.size,
        .shards = self->cut.shards,
        .steps = self->steps,
        .step = self->step,
        .has_test = self->test != NULL,
        .test_samples = self->test != NULL
                            ? muster_dataset_describe(self->test).samples
                            : 0,
    };
}

muster_blob *muster_executor_setup_blob(const muster_executor *executor)
{
    return muster_blob_ref(muster_job_coordinator_const(executor)->setup);
}

muster_blob *muster_executor_model_blob(const muster_executor *executor)
{
    return muster_blob_ref(muster_job_coordinator_const(executor)->theta);
}
