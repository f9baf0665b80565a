/*
 * sparse_checkpoint.c -- see sparse_checkpoint.h.
 */
#define _POSIX_C_SOURCE 200809L
#include "run/sparse_checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "ps/node/inside.h"
#include "record/checkpoint.h"

#define BATCH     512u
#define MOMENT_NS (20 * MUSTER_NS_PER_MS)

/* A table's tensor in a checkpoint: table-N. */
typedef struct table_name {
    char text[sizeof "table-" + 10]; // with any uint32_t
} table_name;

static const char *name_table(uint32_t number, table_name *name)
{
    (void)snprintf(name->text, sizeof(name->text), "table-%" PRIu32, number);
    return name->text;
}

/* Rows of a table with row bias, while no worker is at
 * it as a rule: this does not make it shared. False: they were not read. */
static bool read_row_biased(muster_ps_table *from, uint32_t first,
                            uint32_t count, float *rows)
{
    if (!muster_ps_table_revoked(from) ||
        !muster_ps_table_pause_row_bias(from)) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        memcpy(rows + (size_t)i * from->floats,
               muster_ps_table_row(from, first + i),
               from->floats * sizeof(float));
    }
    muster_ps_table_resume_row_bias(from);
    return true;
}

/* Whole rows first..first+count-1, wherever they are. */
static muster_status pull_rows(muster_ps_worker *worker, uint32_t table,
                               uint32_t first, uint32_t count, float *rows)
{
    muster_ps_table *from = worker->tables[table];
    uint32_t keys[BATCH];
    muster_worker_counts counts = worker->counts; // no access of the work
    muster_ps_call *call = muster_worker_sync_call(worker);
    call->positions.count = 0;
    if (read_row_biased(from, first, count, rows)) {
        return MUSTER_OK;
    }
    for (uint32_t i = 0; i < count; i++) {
        keys[i] = first + i;
        float *row;
        muster_row_access access = muster_row_acquire(
            worker, muster_rowref_make(table, keys[i]), false, &row);
        if (access != MUSTER_ACCESS_REMOTE) {
            memcpy(rows + (size_t)i * from->floats, row,
                   from->floats * sizeof(float));
            muster_row_release(worker, access, &from->words[keys[i]], false);
            if (access == MUSTER_ACCESS_UNLATCHED) {
                muster_bias_state_add(worker->holder, 0 - MUSTER_BIAS_ACCESS);
            }
        } else if (!muster_vec_append(&call->positions, &i, 1)) {
            return MUSTER_ERR_NO_MEMORY;
        }
    }
    worker->counts = counts;
    if (call->positions.count == 0) {
        return MUSTER_OK;
    }
    muster_row_batch job = {MUSTER_ROWOP_PULL_ROW, table, keys, count, rows};
    return muster_ps_call_run(worker, &job, call);
}

muster_status muster_ps_gather(muster_ps_worker *worker, uint32_t tables,
                               float **rows_out)
{
    muster_status status = MUSTER_OK;
    for (uint32_t t = 0; t < tables; t++) {
        rows_out[t] = NULL;
    }
    for (uint32_t t = 0; t < tables && status == MUSTER_OK; t++) {
        const muster_ps_table *table = worker->tables[t];
        rows_out[t] = muster_mem_raw_aligned(
            (size_t)table->keys * table->floats, sizeof(float));
        status = rows_out[t] == NULL ? MUSTER_ERR_NO_MEMORY : MUSTER_OK;
        for (uint32_t key = 0; key < table->keys && status == MUSTER_OK;
             key += BATCH) {
            uint32_t left = table->keys - key;
            status = pull_rows(worker, t, key, left < BATCH ? left : BATCH,
                               rows_out[t] + (size_t)key * table->floats);
        }
    }
    for (uint32_t t = 0; t < tables && status != MUSTER_OK; t++) {
        muster_mem_free(rows_out[t]);
        rows_out[t] = NULL;
    }
    return status;
}

muster_status muster_ps_checkpoint(const muster_ps *ps, uint32_t tables,
                                   float *const *rows, uint64_t epochs,
                                   const char *folder, muster_error *error_out)
{
    muster_tensor tensors[MUSTER_PS_TABLES_MAX];
    table_name names[MUSTER_PS_TABLES_MAX];
    for (uint32_t t = 0; t < tables; t++) {
        const muster_ps_table *table = ps->tables[t];
        tensors[t] = (muster_tensor){.name = name_table(t, &names[t]),
                                     .dtype = MUSTER_DTYPE_F32,
                                     .rank = 2,
                                     .shape = {table->keys, table->floats},
                                     .data = rows[t],
                                     .bytes = (size_t)table->keys *
                                              table->floats * sizeof(float)};
    }
    muster_checkpoint_parts parts = {
        .step = epochs, .tensors = tensors, .tensor_count = tables};
    return muster_checkpoint_write(folder, &parts, error_out);
}

/* The tensor of a table, or NULL when it is not there or of another shape. */
static const muster_tensor *tensor_of(const muster_checkpoint *from,
                                      const muster_ps_table *table,
                                      uint32_t number)
{
    table_name name;
    const muster_tensor *tensor =
        muster_safetensors_find(from->file, name_table(number, &name));
    bool fits = tensor != NULL && tensor->dtype == MUSTER_DTYPE_F32 &&
                tensor->rank == 2 && tensor->shape[0] == table->keys &&
                tensor->shape[1] == table->floats;
    return fits ? tensor : NULL;
}

/* The rows of a table that are here. */
static muster_status restore_table(muster_ps_table *table, uint32_t number,
                                   const muster_checkpoint *from,
                                   const char *folder, muster_error *error_out)
{
    const muster_tensor *tensor = tensor_of(from, table, number);
    if (tensor == NULL) {
        return muster_error_set(
            error_out, MUSTER_ERR_INPUT,
            "%s: table-%u of the checkpoint is not %u rows of "
            "%u floats: was it another model or other data?",
            folder, number, table->keys, table->floats);
    }
    const float *rows = tensor->data;
    for (uint32_t key = 0; key < table->keys; key++) {
        float *row = muster_ps_table_begin(table, key);
        if (row != NULL) {
            memcpy(row, rows + (size_t)key * table->floats,
                   table->floats * sizeof(float));
            muster_ps_table_end(table, key);
        }
    }
    return MUSTER_OK;
}

muster_status muster_ps_restore(muster_ps *ps, uint32_t tables,
                                const char *folder, muster_error *error_out,
                                uint64_t *epochs_out)
{
    muster_checkpoint from;
    muster_status status = muster_checkpoint_load(folder, error_out, &from);
    if (status != MUSTER_OK) {
        return status;
    }
    for (uint32_t t = 0; t < tables && status == MUSTER_OK; t++) {
        status = restore_table(ps->tables[t], t, &from, folder, error_out);
    }
    *epochs_out = from.step;
    muster_checkpoint_fini(&from);
    return status;
}

/* The checkpoint that lost rows come from; its age is logged, since it is part
 * of what a loss costs. */
static bool load(const char *folder, muster_checkpoint *from)
{
    muster_error error = {.text = ""};
    if (muster_checkpoint_load(folder, &error, from) != MUSTER_OK) {
        muster_log(MUSTER_LOG_WARN, "%s: lost rows begin anew", error.text);
        return false;
    }
    muster_log(MUSTER_LOG_INFO,
               "lost rows come from the checkpoint after epoch %" PRIu64,
               from->step);
    return true;
}

static void *load_apart(void *argument)
{
    muster_last_checkpoint *last = argument;
    last->open = load(last->folder, &last->from);
    (void)sem_post(&last->loaded);
    return NULL;
}

static void end_loader(muster_last_checkpoint *last)
{
    if (last->loading) {
        (void)pthread_join(last->loader, NULL);
        (void)sem_destroy(&last->loaded);
        last->loading = false;
    }
}

bool muster_last_checkpoint_prepare(muster_last_checkpoint *last,
                                    const char *folder)
{
    if (!last->tried && strlen(folder) < sizeof(last->folder)) {
        (void)snprintf(last->folder, sizeof(last->folder), "%s", folder);
        (void)sem_init(&last->loaded, 0, 0);
        last->loading =
            pthread_create(&last->loader, NULL, load_apart, last) == 0;
        last->tried = last->loading;
    }
    if (!last->loading) {
        return true; // or it is loaded where a row is asked for
    }
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += MOMENT_NS;
    until.tv_sec += until.tv_nsec / MUSTER_NS_PER_S;
    until.tv_nsec %= MUSTER_NS_PER_S;
    if (sem_timedwait(&last->loaded, &until) != 0) {
        return false;
    }
    end_loader(last);
    return true;
}

bool muster_last_checkpoint_row(muster_last_checkpoint *last,
                                const char *folder,
                                const muster_ps_table *table, uint32_t number,
                                uint32_t key, float *row)
{
    end_loader(last);
    if (!last->tried) {
        last->tried = true;
        last->open = folder != NULL && load(folder, &last->from);
    }
    const muster_tensor *tensor =
        last->open ? tensor_of(&last->from, table, number) : NULL;
    if (tensor == NULL) {
        return false;
    }
    const float *rows = tensor->data;
    memcpy(row, rows + (size_t)key * table->floats,
           table->floats * sizeof(float));
    return true;
}

void muster_last_checkpoint_close(muster_last_checkpoint *last)
{
    end_loader(last);
    if (last->open) {
        muster_checkpoint_fini(&last->from);
    }
    *last = (muster_last_checkpoint){.tried = false};
}
