/*
 * `muster predict`: a trained model applied to a data set, some rows at a time.
 * One line per row goes to --out (`-` is stdout): the prediction, as the
 * training files wrote their labels, then the model's scores.
 */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/vec.h"
#include "config/config.h"
#include "data/dataset.h"
#include "job/saved.h"
#include "linalg/blas_room.h"
#include "model/allow.h"
#include "model/loss.h"
#include "muster/run.h"
#include "record/atomic.h"
#include "record/json.h"
#include "record/safetensors.h"
#include "task/task.h"

#define PATH_BYTES 4096u
#define ROWS_MAX   256u
#define NUMBER_MAX 20u // characters of a float and its comma

typedef struct prediction {
    muster_saved saved;
    muster_dataset *data;
    muster_dataset_info info;
    bool is_labelled;
    void *scratch;
    float *scores; // ROWS_MAX x outputs
    muster_vec text;
    muster_atomic file;
    bool is_writing; // the file; else stdout where `to_stdout`
    bool to_stdout;
    muster_model_tally tally;
} prediction;

/* The file itself, or model.safetensors of a run folder: a new string. */
static char *model_path(const char *from)
{
    struct stat facts;
    if (stat(from, &facts) != 0 || !S_ISDIR(facts.st_mode)) {
        return muster_mem_string(from);
    }
    size_t size = strlen(from) + sizeof("/model.safetensors");
    char *path = muster_mem_array(size, 1);
    if (path != NULL) {
        (void)snprintf(path, size, "%s/model.safetensors", from);
    }
    return path;
}

/* The sparse task whose tables a file holds; NULL: none. */
static const muster_task_ops *task_of(const char *path)
{
    muster_safetensors *file = NULL;
    const muster_task_ops *task = NULL;
    if (muster_safetensors_open(path, NULL, &file) == MUSTER_OK) {
        const char *model = muster_safetensors_note(file, "model");
        task = model != NULL ? muster_task_find(model) : NULL;
        muster_safetensors_close(file);
    }
    return task;
}

/* Read the model. A run that has none, or tables of rows in place of one, is
 * told as what it is, with what can be done about it. */
static muster_status read_model(const char *from, const char *path,
                                const char *allowed, muster_error *error_out,
                                muster_saved *saved)
{
    char config[PATH_BYTES];
    (void)snprintf(config, sizeof(config), "%s/config.json", from);
    if (access(path, F_OK) != 0 && access(config, F_OK) == 0) {
        return muster_error_set(error_out, MUSTER_ERR_INPUT,
                                "%s: a run that has not ended, without a "
                                "model; `muster train --resume %s` continues "
                                "it",
                                from, from);
    }
    muster_status status = muster_saved_read(path, allowed, error_out, saved);
    const muster_task_ops *task =
        status == MUSTER_ERR_INPUT ? task_of(path) : NULL;
    if (task == NULL) {
        return status;
    }
    return muster_error_set(
        error_out, MUSTER_ERR_INPUT,
        "%s: holds the rows of the sparse task %s, which predict cannot apply "
        "to data; %s",
        path, task->name,
        strcmp(task->name, "mf") == 0
            ? "rows.npy and cols.npy beside it are its factors"
            : "`muster neighbors RUN NAME` finds the rows near to one");
}

static muster_status open_inputs(prediction *self, const muster_config *config,
                                 muster_error *error_out)
{
    const char *from = muster_config_string(config, MUSTER_OPT_FROM);
    const char *data = muster_config_string(config, MUSTER_OPT_DATA);
    if (from == NULL || data == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "predict: needs --from (a run folder or a "
                                "model.safetensors) and --data");
    }
    const char *allowed = muster_config_string(config, MUSTER_OPT_ALLOW_MODEL);
    muster_status status = muster_model_allow_check(allowed, error_out);
    if (status != MUSTER_OK) {
        return status;
    }
    char *path = model_path(from);
    if (path == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "%s: out of memory", from);
    }
    status = read_model(from, path, allowed, error_out, &self->saved);
    muster_mem_free(path);
    if (status != MUSTER_OK) {
        return status;
    }
    const muster_model *model = &self->saved.model;
    muster_model_tell_code(model->library != NULL ? allowed : NULL);
    const char *label = muster_config_string(config, MUSTER_OPT_LABEL);
    const muster_label_column trained = {.name = self->saved.label_name,
                                         .number = self->saved.label_column};
    const muster_dataset_form form = {
        model->features, model->classes, self->saved.class_values,
        label != NULL ? muster_label_column_parse(label) : trained};
    status = muster_dataset_load_as(data, &form, error_out, &self->data);
    if (status == MUSTER_OK && self->data == NULL) {
        status = muster_error_set(error_out, MUSTER_ERR_INPUT,
                                  "%s: has no samples", data);
    }
    if (status == MUSTER_OK) {
        self->info = muster_dataset_describe(self->data);
        self->is_labelled =
            muster_dataset_rows(self->data, 0, 1).labels != NULL;
        muster_dataset_tell_label(self->data);
    }
    return status;
}

static muster_status allocate(prediction *self, muster_error *error_out)
{
    const muster_model *model = &self->saved.model;
    muster_status status = muster_blas_room_take(1, error_out);
    if (status != MUSTER_OK) {
        return status;
    }
    self->scratch = muster_mem_raw_aligned(
        muster_model_evaluate_bytes(model, ROWS_MAX) + 1, 1);
    self->scores = muster_mem_raw_aligned((size_t)ROWS_MAX * model->outputs,
                                          sizeof(float));
    if (self->scratch == NULL || self->scores == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "predict: out of memory for a model of %zu "
                                "parameters",
                                model->dim);
    }
    return MUSTER_OK;
}

/* What the model says of a row, in the words of its training data. */
static float predicted(const muster_saved *saved, const float *scores)
{
    const muster_model *model = &saved->model;
    if (model->kind == MUSTER_MODEL_REGRESSION) {
        return scores[0];
    }
    uint32_t number = muster_loss_class(model->kind, model->outputs, scores);
    return number < model->classes ? saved->class_values[number]
                                   : (float)number;
}

static muster_status write_stdout(const char *text, size_t bytes,
                                  muster_error *error_out)
{
    return fwrite(text, 1, bytes, stdout) == bytes && fflush(stdout) == 0
               ? MUSTER_OK
               : muster_error_set(error_out, MUSTER_ERR_SYSTEM,
                                  "--out -: stdout: %m");
}

static muster_status write_rows(prediction *self, uint32_t count,
                                muster_error *error_out)
{
    uint32_t outputs = self->saved.model.outputs;
    muster_vec_clear(&self->text);
    if (!muster_vec_reserve(&self->text,
                            (size_t)count * (outputs + 1) * NUMBER_MAX)) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "predict: out of memory for the output");
    }
    char *text = self->text.data;
    size_t room = self->text.capacity;
    size_t used = 0;
    for (uint32_t r = 0; r < count; r++) {
        const float *scores = self->scores + (size_t)r * outputs;
        used += (size_t)snprintf(text + used, room - used, "%.9g",
                                 (double)predicted(&self->saved, scores));
        for (uint32_t o = 0; o < outputs; o++) {
            used += (size_t)snprintf(text + used, room - used, ",%.9g",
                                     (double)scores[o]);
        }
        text[used++] = '\n';
    }
    return self->to_stdout
               ? write_stdout(text, used, error_out)
               : muster_atomic_write(&self->file, text, used, error_out);
}

static muster_status run_rows(prediction *self, uint64_t first, uint32_t count,
                              muster_error *error_out)
{
    muster_rows rows = muster_dataset_rows(self->data, first, count);
    muster_status status =
        muster_model_evaluate(&self->saved.model, self->saved.theta, &rows,
                              self->scratch, self->scores, &self->tally);
    if (status != MUSTER_OK) {
        return muster_error_set(error_out, MUSTER_ERR_INPUT,
                                "predict: the model cannot take rows "
                                "%" PRIu64 " to %" PRIu64,
                                first, first + count - 1);
    }
    return self->is_writing || self->to_stdout
               ? write_rows(self, count, error_out)
               : MUSTER_OK;
}

static muster_status run_all(prediction *self, const char *out,
                             muster_error *error_out)
{
    muster_status status = MUSTER_OK;
    if (out != NULL && !self->to_stdout) {
        status = muster_atomic_begin(&self->file, out, error_out);
        self->is_writing = status == MUSTER_OK;
    }
    for (uint64_t at = 0; status == MUSTER_OK && at < self->info.samples;) {
        uint64_t left = self->info.samples - at;
        uint32_t count = left < ROWS_MAX ? (uint32_t)left : ROWS_MAX;
        status = run_rows(self, at, count, error_out);
        at += count;
    }
    if (self->is_writing && status == MUSTER_OK) {
        status = muster_atomic_commit(&self->file, error_out);
    } else if (self->is_writing) {
        muster_atomic_abort(&self->file);
    }
    return status;
}

static char *describe(const prediction *self, const char *out)
{
    double samples = (double)self->info.samples;
    bool is_classed =
        self->is_labelled && self->saved.model.kind != MUSTER_MODEL_REGRESSION;
    json_t *object = json_pack(
        "{s:I, s:o, s:o, s:s?}", "samples", (json_int_t)self->info.samples,
        "accuracy",
        is_classed ? muster_json_real((double)self->tally.right / samples)
                   : json_null(),
        "loss",
        self->is_labelled ? muster_json_real(self->tally.loss / samples)
                          : json_null(),
        "output", out);
    char *text = object != NULL ? json_dumps(object, JSON_INDENT(2)) : NULL;
    char *copy = text != NULL ? muster_mem_string(text) : NULL;
    free(text); // heap: jansson's
    json_decref(object);
    return copy;
}

static void tell(const prediction *self, const char *out)
{
    double samples = (double)self->info.samples;
    if (!self->is_labelled) {
        muster_log(MUSTER_LOG_INFO,
                   "%" PRIu64 " samples without labels of the model's "
                   "classes, so there is no accuracy",
                   self->info.samples);
    } else if (self->saved.model.kind == MUSTER_MODEL_REGRESSION) {
        muster_log(MUSTER_LOG_INFO, "%" PRIu64 " samples: loss %.6g",
                   self->info.samples, self->tally.loss / samples);
    } else {
        muster_log(MUSTER_LOG_INFO,
                   "%" PRIu64 " samples: accuracy %.4f, loss %.6g",
                   self->info.samples, (double)self->tally.right / samples,
                   self->tally.loss / samples);
    }
    if (self->is_writing) {
        muster_log(MUSTER_LOG_INFO, "predictions are in %s", out);
    }
}

muster_status muster_predict(const muster_config *config,
                             muster_error *error_out, char **json_out)
{
    prediction self = {.text = muster_vec_make(1)};
    const char *out = muster_config_string(config, MUSTER_OPT_OUT);
    *json_out = NULL;
    self.to_stdout = out != NULL && strcmp(out, "-") == 0;
    if (self.to_stdout && muster_config_bool(config, MUSTER_OPT_JSON)) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "--out - and --json both write to stdout: "
                                "give a file to --out");
    }
    muster_status status = open_inputs(&self, config, error_out);
    if (status == MUSTER_OK) {
        status = allocate(&self, error_out);
    }
    if (status == MUSTER_OK) {
        status = run_all(&self, out, error_out);
    }
    if (status == MUSTER_OK) {
        tell(&self, out);
        *json_out = describe(&self, out);
        if (*json_out == NULL) {
            status = muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                      "predict: out of memory");
        }
    }
    muster_vec_fini(&self.text);
    muster_mem_free(self.scores);
    muster_mem_free(self.scratch);
    muster_dataset_free(self.data);
    muster_saved_fini(&self.saved);
    return status;
}
