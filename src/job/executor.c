/*
 * The frame around every job: takes the job over, keeps its status, hands the
 * result out, and drops what the job held, whatever way it ended.
 */
#include "job/executor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "job/inside.h"

/* A coordinate of a pass over some messages: 32,768 are worth a waking. */
#define COORDINATE_US 1.25e-3

static muster_blob *heap_make(void *context, size_t bytes)
{
    (void)context;
    return muster_blob_create(bytes);
}

const muster_executor_alloc muster_executor_heap = {heap_make, NULL};

void muster_executor_init(muster_executor *executor, const executor_ops *ops,
                          const muster_executor_alloc *alloc)
{
    executor->ops = ops;
    executor->alloc = *alloc;
}

void muster_executor_free(muster_executor *executor)
{
    if (executor == NULL) {
        return;
    }
    if (executor->is_busy) {
        muster_job_result result;
        muster_executor_end(executor, &result);
        muster_blob_unref(result.output);
    }
    muster_threads *pool = executor->pool;
    executor->ops->free(executor);
    muster_threads_free(pool);
}

muster_status muster_executor_use_threads(muster_executor *executor,
                                          uint32_t threads)
{
    MUSTER_ASSERT(!executor->is_busy && executor->pool == NULL);
    if (threads < 2) {
        return MUSTER_OK;
    }
    return executor->yields
               ? muster_threads_create_yielding(threads, &executor->pool)
               : muster_threads_create(threads, &executor->pool);
}

typedef struct shared_range {
    job_range range;
    void *context;
    size_t begin, count;
    uint32_t parts;
} shared_range;

static void range_part(void *context, uint32_t index)
{
    const shared_range *shared = context;
    size_t from = muster_threads_part(shared->count, shared->parts, index);
    size_t to = muster_threads_part(shared->count, shared->parts, index + 1);
    shared->range(shared->context, index, shared->begin + from,
                  shared->begin + to);
}

uint32_t muster_job_parts(const muster_executor *executor, size_t count)
{
    return muster_threads_parts(executor->pool, (double)count * COORDINATE_US);
}

void muster_job_run(muster_executor *executor, size_t count,
                    muster_threads_task task, void *context)
{
    muster_threads_run_some(executor->pool, muster_job_parts(executor, count),
                            (double)count * COORDINATE_US, task, context);
}

void muster_job_share(muster_executor *executor, size_t begin, size_t end,
                      job_range range, void *context)
{
    shared_range shared = {range, context, begin, end - begin,
                           muster_job_parts(executor, end - begin)};
    muster_job_run(executor, end - begin, range_part, &shared);
}

void muster_executor_begin(muster_executor *executor, muster_job *job)
{
    MUSTER_ASSERT(!executor->is_busy);
    executor->is_busy = true;
    executor->job = *job;
    memset(job, 0, sizeof(*job));
    executor->error = (muster_error){MUSTER_OK, ""};
    executor->result = (muster_job_result){
        .id = executor->job.id,
        .kind = executor->job.kind,
        .step = executor->job.step,
        .shard = executor->job.shard,
        .stage = executor->job.stage,
        .test_loss = NAN,
        .test_accuracy = NAN,
        .test_auc = NAN,
    };
    executor->status = executor->ops->begin(executor);
}

muster_status muster_executor_piece(muster_executor *executor)
{
    MUSTER_ASSERT(executor->is_busy);
    if (executor->status != MUSTER_IN_PROGRESS) {
        return executor->status;
    }
    muster_status status = executor->ops->piece(executor);
    if (status != MUSTER_ERR_AGAIN) {
        executor->status = status;
    }
    return status;
}

void muster_executor_end(muster_executor *executor,
                         muster_job_result *result_out)
{
    MUSTER_ASSERT(executor->is_busy);
    while (executor->status == MUSTER_IN_PROGRESS &&
           executor->ops->must_finish(executor)) {
        executor->status = executor->ops->piece(executor);
    }
    if (executor->status == MUSTER_IN_PROGRESS) {
        executor->status = MUSTER_ERR_CANCELLED;
    }
    muster_job_result *result = &executor->result;
    result->status = executor->status;
    if (executor->status < 0) {
        const char *text = executor->error.text;
        if (text[0] == '\0') {
            text = muster_status_text(executor->status);
        }
        (void)snprintf(result->text, sizeof(result->text), "%.*s",
                       (int)sizeof(result->text) - 1, text);
        muster_blob_unref(result->output);
        result->output = NULL;
    }
    muster_job_fini(&executor->job);
    executor->is_busy = false;
    *result_out = *result;
}

muster_status muster_executor_make_output(muster_executor *executor,
                                          size_t bytes)
{
    MUSTER_ASSERT(executor->result.output == NULL);
    executor->result.output =
        executor->alloc.make(executor->alloc.context, bytes);
    if (executor->result.output == NULL) {
        return muster_error_set(&executor->error, MUSTER_ERR_NO_MEMORY,
                                "out of memory for an output of %zu bytes",
                                bytes);
    }
    MUSTER_ASSERT(executor->result.output->bytes >= bytes);
    return MUSTER_OK;
}
