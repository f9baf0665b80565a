/*
 * scale_rows.c -- the calls of muster/ps.h that tasks make, on plain arrays.
 *
 * This program has the tasks, but not the server: rows lie in tables of
 * ps/store, and a call is a pointer or a copy. There are no latches, no nodes
 * and no checks; threads that write the same row do not care for each other. So
 * a task's own loop is the plain loop that its rate is compared to.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "muster/ps.h"
#include "muster/ps_sample.h"
#include "ps/store/distribution.h"
#include "ps/store/store.h"
#include "task/kernel.h"

#include "scale.h"

enum { TABLES_MAX = 4, DISTRIBUTIONS_MAX = 4, HANDLES = 64 };

struct muster_ps {
    muster_ps_table *tables[TABLES_MAX];
    uint32_t table_count;
    muster_key_distribution *targets[DISTRIBUTIONS_MAX];
    uint32_t target_count;
    uint64_t seed;
};

/* Samples that were prepared: what they will be drawn with. */
typedef struct draws_of {
    muster_draws draws;
    uint32_t target;
} draws_of;

struct muster_ps_worker {
    _Alignas(MUSTER_MEM_APART) const muster_ps *ps;
    muster_draws draws;
    draws_of handles[HANDLES];
    uint64_t next_handle;
};

static void *must(void *block)
{
    if (block == NULL) {
        fprintf(stderr, "muster-bench-scale: out of memory\n");
        exit(1);
    }
    return block;
}

muster_ps *scale_rows_make(uint64_t seed)
{
    muster_ps *ps = must(muster_mem_array(1, sizeof(*ps)));
    ps->seed = seed;
    return ps;
}

void scale_rows_free(muster_ps *ps)
{
    for (uint32_t i = 0; i < ps->table_count; i++) {
        muster_ps_table_free(ps->tables[i]);
    }
    for (uint32_t i = 0; i < ps->target_count; i++) {
        muster_key_distribution_free(ps->targets[i]);
    }
    muster_mem_free(ps);
}

muster_ps_worker *scale_rows_worker(const muster_ps *ps)
{
    muster_ps_worker *worker = must(muster_mem_raw_aligned(1, sizeof(*worker)));
    memset(worker, 0, sizeof(*worker));
    worker->ps = ps;
    return worker;
}

/* ---- tables and distributions -------------------------------------------- */

muster_status muster_ps_table_add(muster_ps *ps,
                                  const muster_ps_table_opts *opts,
                                  muster_error *error_out, uint32_t *table_out)
{
    (void)error_out;
    const muster_ps_table_share share = {
        .nodes = 1, .number = ps->table_count, .seed = ps->seed};
    *table_out = ps->table_count++;
    return muster_ps_table_create(opts, &share, &ps->tables[*table_out]);
}

muster_status
muster_ps_distribution_add(muster_ps *ps,
                           const muster_ps_distribution_opts *opts,
                           muster_error *error_out, uint32_t *distribution_out)
{
    (void)error_out;
    uint32_t keys = ps->tables[opts->table]->keys;
    *distribution_out = ps->target_count++;
    return muster_key_distribution_create(
        opts->target, opts->first,
        opts->count > 0 ? opts->count : keys - opts->first, opts->weights,
        &ps->targets[*distribution_out]);
}

/* ---- rows ---------------------------------------------------------------- */

static inline float *row_of(const muster_ps_worker *worker, uint32_t table,
                            uint32_t key)
{
    return muster_ps_table_row(worker->ps->tables[table], key);
}

muster_status muster_ps_begin(muster_ps_worker *worker, uint32_t table,
                              uint32_t key, float **row_out)
{
    *row_out = row_of(worker, table, key);
    return MUSTER_OK;
}

muster_status muster_ps_end(muster_ps_worker *worker, uint32_t table,
                            uint32_t key)
{
    (void)worker;
    (void)table;
    (void)key;
    return MUSTER_OK;
}

muster_status muster_ps_pull(muster_ps_worker *worker, uint32_t table,
                             const uint32_t *keys, size_t count,
                             float *values_out)
{
    size_t width = worker->ps->tables[table]->width;
    for (size_t i = 0; i < count; i++) {
        memcpy(values_out + i * width, row_of(worker, table, keys[i]),
               width * sizeof(float));
    }
    return MUSTER_OK;
}

muster_status muster_ps_push(muster_ps_worker *worker, uint32_t table,
                             const uint32_t *keys, size_t count,
                             const float *deltas)
{
    uint32_t width = worker->ps->tables[table]->width;
    for (size_t i = 0; i < count; i++) {
        muster_kernel_axpy(1, deltas + i * width,
                           row_of(worker, table, keys[i]), width);
    }
    return MUSTER_OK;
}

muster_status muster_ps_set(muster_ps_worker *worker, uint32_t table,
                            const uint32_t *keys, size_t count,
                            const float *values)
{
    size_t width = worker->ps->tables[table]->width;
    for (size_t i = 0; i < count; i++) {
        memcpy(row_of(worker, table, keys[i]), values + i * width,
               width * sizeof(float));
    }
    return MUSTER_OK;
}

/* Calls have ended when they return. */
muster_status muster_ps_pull_start(muster_ps_worker *worker, uint32_t table,
                                   const uint32_t *keys, size_t count,
                                   float *values_out, uint64_t *handle_out)
{
    *handle_out = MUSTER_PS_DONE;
    return muster_ps_pull(worker, table, keys, count, values_out);
}

muster_status muster_ps_wait(muster_ps_worker *worker, uint64_t handle)
{
    (void)worker;
    (void)handle;
    return MUSTER_OK;
}

muster_status muster_ps_test(muster_ps_worker *worker, uint64_t handle,
                             bool *done_out)
{
    *done_out = true;
    return muster_ps_wait(worker, handle);
}

void muster_ps_prefetch(const muster_ps_worker *worker, uint32_t table,
                        uint32_t key)
{
    muster_ps_table_prefetch_row(worker->ps->tables[table], key);
}

void muster_ps_prefetch_ahead(const muster_ps_worker *worker, uint32_t table,
                              uint32_t key, uint32_t later)
{
    (void)later;
    muster_ps_prefetch(worker, table, key);
}

/* ---- one node: rows need not come ---------------------------------------- */

uint32_t muster_ps_nodes(const muster_ps_worker *worker)
{
    (void)worker;
    return 1;
}

uint64_t muster_ps_late_rows(const muster_ps_worker *worker)
{
    (void)worker;
    return 0;
}

static muster_status here(const muster_ps_worker *worker, uint32_t table,
                          const uint32_t *keys, size_t count)
{
    (void)worker;
    (void)table;
    (void)keys;
    (void)count;
    return MUSTER_OK;
}

muster_status muster_ps_localize(muster_ps_worker *worker, uint32_t table,
                                 const uint32_t *keys, size_t count)
{
    return here(worker, table, keys, count);
}

muster_status muster_ps_replicate(muster_ps_worker *worker, uint32_t table,
                                  const uint32_t *keys, size_t count)
{
    return here(worker, table, keys, count);
}

muster_status muster_ps_fetch(muster_ps_worker *worker, uint32_t table,
                              const uint32_t *keys, size_t count)
{
    return here(worker, table, keys, count);
}

/* ---- samples, all independent -------------------------------------------- */

muster_status muster_ps_sample_seek(muster_ps_worker *worker,
                                    uint32_t distribution, uint64_t position)
{
    worker->draws = muster_draws_at(worker->ps->seed, distribution, position);
    return MUSTER_OK;
}

muster_status muster_ps_sample_prepare(muster_ps_worker *worker,
                                       uint32_t distribution, size_t count,
                                       uint64_t *handle_out)
{
    (void)count;
    *handle_out = ++worker->next_handle;
    worker->handles[*handle_out % HANDLES] = (draws_of){
        .draws = {muster_draws_next(&worker->draws)}, .target = distribution};
    return MUSTER_OK;
}

muster_status muster_ps_sample_pull(muster_ps_worker *worker, uint64_t handle,
                                    size_t count, uint32_t *keys_out,
                                    float *values_out)
{
    (void)values_out;
    draws_of *of = &worker->handles[handle % HANDLES];
    const muster_key_distribution *target = worker->ps->targets[of->target];
    for (size_t i = 0; i < count; i++) {
        keys_out[i] = muster_key_distribution_draw(target, &of->draws);
    }
    return MUSTER_OK;
}

muster_status muster_ps_sample_finish(muster_ps_worker *worker, uint64_t handle)
{
    (void)worker;
    (void)handle;
    return MUSTER_OK;
}
