/*
 * sample.c -- muster/ps_sample.h over ps/store/sampler.h. A worker's sampler of
 * a distribution is made when it is first used. A handle is the distribution's
 * number in the upper word, the sampler's own handle in the lower.
 */
#include "base/error.h"
#include "ps/node/inside.h"

#define STREAM_SHIFT 8

static const char *distribution_fault(const muster_ps *ps,
                                      const muster_ps_distribution_opts *opts)
{
    if (ps == NULL || opts == NULL || opts->struct_size != sizeof(*opts)) {
        return "start the options from MUSTER_PS_DISTRIBUTION_OPTS_INIT";
    }
    if (opts->table >= ps->table_count) {
        return "no such table";
    }
    uint32_t keys = ps->tables[opts->table]->keys;
    if (opts->first >= keys || opts->count > keys - opts->first) {
        return "first and count go beyond the table";
    }
    if (ps->distribution_count == MUSTER_PS_DISTRIBUTIONS_MAX) {
        return "at most 16 distributions";
    }
    if (atomic_load(&ps->shared.workers_alive) > 0) {
        return "distributions must be added before workers are created";
    }
    if (opts->target > MUSTER_PS_TARGET_LOG_UNIFORM) {
        return "no such target";
    }
    if (opts->scheme < MUSTER_PS_INDEPENDENT ||
        opts->scheme > MUSTER_PS_REPURPOSE || opts->reuse < 1 ||
        opts->reuse > 1024 || opts->group < 1 || opts->group > 16384) {
        return "no such scheme, or reuse not in 1..1024, or group not in "
               "1..16384";
    }
    return NULL;
}

muster_status
muster_ps_distribution_add(muster_ps *ps,
                           const muster_ps_distribution_opts *opts,
                           muster_error *error_out, uint32_t *distribution_out)
{
    const char *fault = distribution_fault(ps, opts);
    if (fault == NULL && distribution_out == NULL) {
        fault = "NULL argument";
    }
    if (fault != NULL) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "parameter server: distribution: %s", fault);
    }
    uint32_t count = opts->count > 0
                         ? opts->count
                         : ps->tables[opts->table]->keys - opts->first;
    muster_ps_distribution *added = &ps->distributions[ps->distribution_count];
    muster_status status = muster_key_distribution_create(
        opts->target, opts->first, count, opts->weights, &added->target);
    if (status != MUSTER_OK) {
        return muster_error_set(error_out, status,
                                "parameter server: distribution: %s",
                                status == MUSTER_ERR_NO_MEMORY
                                    ? "no memory for the weights"
                                    : "weights must be finite, not negative, "
                                      "with a sum above 0");
    }
    added->table = opts->table;
    added->sampler = (muster_sampler_opts){.scheme = opts->scheme,
                                           .reuse = opts->reuse,
                                           .group = opts->group,
                                           .seed = ps->opts.seed};
    *distribution_out = ps->distribution_count++;
    return MUSTER_OK;
}

static bool row_here(void *context, uint32_t key)
{
    const muster_worker_sampler_context *of = context;
    return muster_ps_table_here(of->worker->tables[of->table], key);
}

static void bring_rows(void *context, const uint32_t *keys, size_t count)
{
    const muster_worker_sampler_context *of = context;
    // Only a hint: samples are right on whichever node their rows are.
    (void)!muster_worker_localize(of->worker, of->table, keys, count,
                                  MUSTER_LOCALIZE_REPLICA);
}

static muster_status sampler_of(muster_ps_worker *worker, uint32_t distribution,
                                muster_sampler **sampler_out)
{
    if (worker == NULL || distribution >= worker->ps->distribution_count) {
        return muster_worker_refuse(worker, MUSTER_ERR_INVALID,
                                    "there is no distribution %u",
                                    distribution);
    }
    muster_sampler **kept = &worker->samplers[distribution];
    if (*kept == NULL) {
        const muster_ps_distribution *from =
            &worker->ps->distributions[distribution];
        muster_sampler_opts opts = from->sampler;
        opts.stream = worker->number << STREAM_SHIFT | distribution;
        muster_worker_sampler_context *sampler_context =
            &worker->sampler_contexts[distribution];
        *sampler_context = (muster_worker_sampler_context){worker, from->table};
        muster_nearby nearby = {
            .here = row_here, .bring = bring_rows, .context = sampler_context};
        muster_status status =
            muster_sampler_create(from->target, &opts, &nearby, kept);
        if (status != MUSTER_OK) {
            return muster_worker_refuse(
                worker, status, "samples of distribution %u: %s", distribution,
                muster_status_text(status));
        }
        if (opts.scheme == MUSTER_PS_REPURPOSE &&
            !muster_worker_reports_accesses(worker)) {
            muster_bias_state_add(worker->holder, MUSTER_BIAS_NOTES);
        }
    }
    *sampler_out = *kept;
    return MUSTER_OK;
}

muster_status muster_ps_sample_seek(muster_ps_worker *worker,
                                    uint32_t distribution, uint64_t position)
{
    muster_sampler *sampler = NULL;
    muster_status status = sampler_of(worker, distribution, &sampler);
    if (status == MUSTER_OK) {
        muster_sampler_seek(sampler, muster_draws_at(worker->ps->opts.seed,
                                                     distribution, position));
    }
    return status;
}

muster_status muster_ps_sample_prepare(muster_ps_worker *worker,
                                       uint32_t distribution, size_t count,
                                       uint64_t *handle_out)
{
    muster_sampler *sampler = NULL;
    uint32_t handle;
    muster_status status = sampler_of(worker, distribution, &sampler);
    if (status != MUSTER_OK) {
        return status;
    }
    if (handle_out == NULL || count == 0) {
        return muster_worker_refuse(worker, MUSTER_ERR_INVALID,
                                    "prepare: NULL, or no samples");
    }
    status = muster_sampler_prepare(sampler, count, &handle);
    if (status != MUSTER_OK) {
        return muster_worker_refuse(worker, status,
                                    "prepare: %u samples or %u handles would "
                                    "be passed: pull some first",
                                    MUSTER_PS_SAMPLES_MAX,
                                    MUSTER_PS_SAMPLE_HANDLES_MAX);
    }
    *handle_out = (uint64_t)(distribution + 1) << 32 | handle;
    return MUSTER_OK;
}

/* The sampler that a handle was made by, or NULL. */
static muster_sampler *handle_sampler(const muster_ps_worker *worker,
                                      uint64_t handle)
{
    uint64_t number = handle >> 32;
    return worker == NULL || number == 0 || number > MUSTER_PS_DISTRIBUTIONS_MAX
               ? NULL
               : worker->samplers[number - 1];
}

static muster_status refuse_handle(muster_ps_worker *worker)
{
    return muster_worker_refuse(worker, MUSTER_ERR_INVALID,
                                "no such handle of samples, or fewer were "
                                "prepared");
}

muster_status muster_ps_sample_pull(muster_ps_worker *worker, uint64_t handle,
                                    size_t count, uint32_t *keys_out,
                                    float *values_out)
{
    muster_sampler *sampler = handle_sampler(worker, handle);
    if (sampler == NULL || keys_out == NULL) {
        return refuse_handle(worker);
    }
    if (muster_worker_open_rows(worker) > 0) {
        return muster_worker_refuse(worker, MUSTER_ERR_INVALID,
                                    "samples while a row is open: end it "
                                    "first");
    }
    muster_status status =
        muster_sampler_pull(sampler, (uint32_t)handle, count, keys_out);
    if (status != MUSTER_OK) {
        return refuse_handle(worker);
    }
    if (values_out == NULL) {
        return MUSTER_OK;
    }
    uint32_t table = worker->ps->distributions[(handle >> 32) - 1].table;
    return muster_ps_pull(worker, table, keys_out, count, values_out);
}

muster_status muster_ps_sample_finish(muster_ps_worker *worker, uint64_t handle)
{
    muster_sampler *sampler = handle_sampler(worker, handle);
    return sampler == NULL ||
                   muster_sampler_finish(sampler, (uint32_t)handle) != MUSTER_OK
               ? refuse_handle(worker)
               : MUSTER_OK;
}

void muster_worker_report_access(muster_ps_worker *worker, uint32_t table,
                                 uint32_t key)
{
    for (uint32_t i = 0; i < worker->ps->distribution_count; i++) {
        if (worker->samplers[i] != NULL &&
            worker->ps->distributions[i].table == table) {
            muster_sampler_note(worker->samplers[i], key);
        }
    }
}

void muster_worker_samplers_fini(muster_ps_worker *worker)
{
    for (uint32_t i = 0; i < MUSTER_PS_DISTRIBUTIONS_MAX; i++) {
        muster_sampler_free(worker->samplers[i]);
    }
}
