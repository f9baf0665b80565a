/*
 * sparse_save.c -- trained tables as files that other tools read: safetensors,
 * npy and, for word vectors, the two formats of word2vec.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "record/atomic.h"
#include "record/checksum.h"
#include "record/npy.h"
#include "record/safetensors.h"
#include "run/sparse_train.h"

#define BATCH 512u

typedef struct saving {
    const muster_task_ops *ops;
    const void *task;
    muster_run_folder *folder;
    muster_error *error;
    muster_task_output outputs[MUSTER_TASK_OUTPUTS_MAX];
    float *values[MUSTER_TASK_OUTPUTS_MAX];
    uint32_t count;
} saving;

/* Many rows at a time: those of other nodes then share their way. */
static muster_status pull_output(saving *s, muster_ps_worker *worker,
                                 uint32_t index)
{
    const muster_task_output *out = &s->outputs[index];
    uint32_t keys[BATCH];
    for (uint32_t row = 0; row < out->rows; row += BATCH) {
        uint32_t count = out->rows - row < BATCH ? out->rows - row : BATCH;
        for (uint32_t i = 0; i < count; i++) {
            keys[i] = out->first + row + i;
        }
        muster_status status =
            muster_ps_pull(worker, out->table, keys, count,
                           s->values[index] + (size_t)row * out->width);
        if (status != MUSTER_OK) {
            return muster_error_set(
                s->error, status, "rows %u to %u of table %u: %s", keys[0],
                keys[count - 1], out->table, muster_status_text(status));
        }
    }
    return MUSTER_OK;
}

/* Some tasks keep the last float of a row in a measure of their own. */
static void change_last(const muster_task_output *out, float *rows)
{
    for (uint32_t row = 0; out->last[1] != 0 && row < out->rows; row++) {
        float *last = rows + (size_t)(row + 1) * out->width - 1;
        *last = out->last[0] + out->last[1] * *last;
    }
}

static muster_status pull_all(saving *s, muster_ps_worker *worker)
{
    s->count = s->ops->outputs(s->task, s->outputs);
    for (uint32_t i = 0; i < s->count; i++) {
        const muster_task_output *out = &s->outputs[i];
        s->values[i] = muster_mem_raw_aligned((size_t)out->rows * out->width,
                                              sizeof(float));
        if (s->values[i] == NULL) {
            return muster_error_set(s->error, MUSTER_ERR_NO_MEMORY,
                                    "no memory for the tables' copy");
        }
        muster_status status = pull_output(s, worker, i);
        if (status != MUSTER_OK) {
            return status;
        }
        change_last(out, s->values[i]);
    }
    return MUSTER_OK;
}

static muster_status save_safetensors(saving *s)
{
    muster_tensor tensors[MUSTER_TASK_OUTPUTS_MAX];
    muster_note note = {"model", s->ops->name};
    for (uint32_t i = 0; i < s->count; i++) {
        const muster_task_output *out = &s->outputs[i];
        tensors[i] = (muster_tensor){.name = out->name,
                                     .dtype = MUSTER_DTYPE_F32,
                                     .rank = 2,
                                     .shape = {out->rows, out->width},
                                     .data = s->values[i],
                                     .bytes = (size_t)out->rows * out->width *
                                              sizeof(float)};
    }
    return muster_checksum_save(
        muster_run_folder_path(s->folder, MUSTER_RUN_MODEL), tensors, s->count,
        &note, 1, s->error);
}

static muster_status save_npy(saving *s, uint32_t index)
{
    const muster_task_output *out = &s->outputs[index];
    char name[64], shape[64];
    (void)snprintf(name, sizeof(name), "%s.npy", out->name);
    (void)snprintf(shape, sizeof(shape), "%u, %u", out->rows, out->width);
    return muster_npy_save(
        muster_run_folder_path(s->folder, name), "<f4", shape, s->values[index],
        (size_t)out->rows * out->width * sizeof(float), s->error);
}

/* Blanks end a word in these formats: '_' stands for those of a name. */
static muster_status write_word(saving *s, muster_atomic *file,
                                const char *word)
{
    while (*word != '\0') {
        size_t length = strcspn(word, " \t");
        muster_status status =
            muster_atomic_write(file, word, length, s->error);
        word += length;
        if (status == MUSTER_OK && *word != '\0') {
            status = muster_atomic_write(file, "_", 1, s->error);
            word++;
        }
        if (status != MUSTER_OK) {
            return status;
        }
    }
    return MUSTER_OK;
}

/* A row of word2vec: the word, then its floats as text or bytes. */
static muster_status write_vector(saving *s, muster_atomic *file, uint32_t row,
                                  bool binary)
{
    uint32_t width = s->outputs[0].width;
    const char *word = s->ops->label(s->task, row);
    const float *values = s->values[0] + (size_t)row * width;
    muster_status status = write_word(s, file, word);
    if (status == MUSTER_OK && binary) {
        status = muster_atomic_write(file, " ", 1, s->error);
        if (status == MUSTER_OK) {
            status = muster_atomic_write(file, values, width * sizeof(float),
                                         s->error);
        }
    }
    for (uint32_t i = 0; i < width && status == MUSTER_OK && !binary; i++) {
        char number[32];
        int length =
            snprintf(number, sizeof(number), " %.6g", (double)values[i]);
        status = muster_atomic_write(file, number, (size_t)length, s->error);
    }
    return status == MUSTER_OK ? muster_atomic_write(file, "\n", 1, s->error)
                               : status;
}

static muster_status save_vectors(saving *s, const char *name, bool binary)
{
    char head[64];
    muster_atomic file;
    muster_status status = muster_atomic_begin(
        &file, muster_run_folder_path(s->folder, name), s->error);
    if (status != MUSTER_OK) {
        return status;
    }
    int length = snprintf(head, sizeof(head), "%u %u\n", s->outputs[0].rows,
                          s->outputs[0].width);
    status = muster_atomic_write(&file, head, (size_t)length, s->error);
    for (uint32_t row = 0; row < s->outputs[0].rows && status == MUSTER_OK;
         row++) {
        status = write_vector(s, &file, row, binary);
    }
    return status == MUSTER_OK ? muster_atomic_commit(&file, s->error) : status;
}

muster_status muster_task_save(const muster_task_ops *ops, const void *task,
                               muster_ps_worker *worker,
                               muster_run_folder *folder,
                               muster_error *error_out)
{
    saving s = {.ops = ops, .task = task, .folder = folder, .error = error_out};
    muster_status status = pull_all(&s, worker);
    if (status == MUSTER_OK) {
        status = save_safetensors(&s);
    }
    for (uint32_t i = 0; i < s.count && status == MUSTER_OK; i++) {
        status = save_npy(&s, i);
    }
    // Rows with names: entities and words.
    if (status == MUSTER_OK && ops->label(task, 0) != NULL) {
        status = save_vectors(&s, "vectors.txt", false);
        if (status == MUSTER_OK) {
            status = save_vectors(&s, "vectors.bin", true);
        }
    }
    for (uint32_t i = 0; i < s.count; i++) {
        muster_mem_free(s.values[i]);
    }
    return status;
}
