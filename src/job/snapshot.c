/*
 * What outlives the process: checkpoints (theta, optimiser, step, the role's
 * state) and the trained model. Both are safetensors files; a checkpoint holds
 * flat arrays, a model its named tensors.
 *
 * The notes of a checkpoint say which job it belongs to. Restoring compares
 * them all before it changes anything.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/mem.h"
#include "job/inside.h"
#include "job/saved.h"
#include "record/checkpoint.h"

#define NOTES 7u

/* The notes of a job, and the room for their numbers. */
typedef struct job_notes {
    char samples[24];
    char features[24];
    char classes[24];
    char batch[24];
    char seed[24];
    muster_note list[NOTES];
} job_notes;

static void number_note(char text[24], uint64_t number)
{
    (void)snprintf(text, 24, "%" PRIu64, number);
}

static void describe_job(const coordinator *self, job_notes *notes)
{
    number_note(notes->samples, self->info.samples);
    number_note(notes->features, self->info.features);
    number_note(notes->classes, self->info.classes);
    number_note(notes->batch, self->batch.size);
    number_note(notes->seed, self->batch.seed);
    notes->list[0] = (muster_note){"model", self->spec};
    notes->list[1] = (muster_note){"optimizer", self->optim_spec};
    notes->list[2] = (muster_note){"samples", notes->samples};
    notes->list[3] = (muster_note){"features", notes->features};
    notes->list[4] = (muster_note){"classes", notes->classes};
    notes->list[5] = (muster_note){"batch", notes->batch};
    notes->list[6] = (muster_note){"seed", notes->seed};
}

muster_status muster_executor_snapshot_to(muster_executor *executor,
                                          const char *folder)
{
    coordinator *self = muster_job_coordinator(executor);
    char *copy = folder != NULL ? muster_mem_string(folder) : NULL;
    if (folder != NULL && copy == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    muster_mem_free(self->snapshot_folder);
    self->snapshot_folder = copy;
    return MUSTER_OK;
}

muster_status muster_job_snapshot(coordinator *self)
{
    if (self->snapshot_folder == NULL) {
        return MUSTER_OK;
    }
    size_t dim = self->model.dim;
    const muster_blob *role = self->base.job.input;
    muster_tensor tensors[2 + MUSTER_OPTIM_SLOTS_MAX];
    size_t count = 0;
    job_notes notes;
    describe_job(self, &notes);
    tensors[count++] =
        muster_tensor_row("theta", MUSTER_DTYPE_F32, self->theta->data, dim);
    static const char *const slots[] = {"optimizer.0", "optimizer.1"};
    MUSTER_ASSERT(self->optim.slots <= MUSTER_OPTIM_SLOTS_MAX);
    for (uint32_t s = 0; s < self->optim.slots; s++) {
        tensors[count++] = muster_tensor_row(slots[s], MUSTER_DTYPE_F32,
                                             self->optim_state + s * dim, dim);
    }
    if (role != NULL && role->data != NULL && role->bytes > 0) {
        tensors[count++] =
            muster_tensor_row("role", MUSTER_DTYPE_U8, role->data, role->bytes);
    }
    const muster_checkpoint_parts parts = {self->step, tensors, count,
                                           notes.list, NOTES};
    return muster_checkpoint_write(self->snapshot_folder, &parts,
                                   &self->base.error);
}

static muster_status check_job(const coordinator *self, const char *folder,
                               const muster_safetensors *file,
                               muster_error *error_out)
{
    job_notes notes;
    describe_job(self, &notes);
    for (size_t i = 0; i < NOTES; i++) {
        const char *key = notes.list[i].key;
        const char *found = muster_safetensors_note(file, key);
        if (found == NULL || strcmp(found, notes.list[i].value) != 0) {
            return muster_error_set(error_out, MUSTER_ERR_INPUT,
                                    "%s: the checkpoint is of another job: "
                                    "%s is %s there and %s here",
                                    folder, key,
                                    found != NULL ? found : "unknown",
                                    notes.list[i].value);
        }
    }
    return MUSTER_OK;
}

static const muster_tensor *find_floats(const muster_safetensors *file,
                                        const char *name, size_t count)
{
    const muster_tensor *tensor = muster_safetensors_find(file, name);
    return tensor != NULL && tensor->dtype == MUSTER_DTYPE_F32 &&
                   tensor->bytes == count * sizeof(float)
               ? tensor
               : NULL;
}

/* A blob with a copy of the tensor's bytes. */
static muster_blob *copy_tensor(const coordinator *self,
                                const muster_tensor *tensor)
{
    muster_blob *blob =
        self->base.alloc.make(self->base.alloc.context, tensor->bytes);
    if (blob != NULL) {
        memcpy(blob->data, tensor->data, tensor->bytes);
    }
    return blob;
}

static muster_status take_checkpoint(coordinator *self, const char *folder,
                                     const muster_checkpoint *checkpoint,
                                     muster_error *error_out,
                                     muster_blob **role_out)
{
    const muster_safetensors *file = checkpoint->file;
    size_t dim = self->model.dim;
    const muster_tensor *theta = find_floats(file, "theta", dim);
    const muster_tensor *slots[] = {find_floats(file, "optimizer.0", dim),
                                    find_floats(file, "optimizer.1", dim)};
    const muster_tensor *role = muster_safetensors_find(file, "role");
    if (theta == NULL || (self->optim.slots > 0 && slots[0] == NULL) ||
        (self->optim.slots > 1 && slots[1] == NULL)) {
        return muster_error_set(error_out, MUSTER_ERR_INPUT,
                                "%s: the checkpoint lacks a part of the state",
                                folder);
    }
    muster_blob *blob = copy_tensor(self, theta);
    muster_blob *state = role != NULL ? copy_tensor(self, role) : NULL;
    if (blob == NULL || (role != NULL && state == NULL)) {
        muster_blob_unref(blob);
        muster_blob_unref(state);
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "%s: out of memory for the checkpoint", folder);
    }
    muster_blob_unref(self->theta);
    self->theta = blob;
    MUSTER_ASSERT(self->optim.slots <= MUSTER_OPTIM_SLOTS_MAX);
    for (uint32_t s = 0; s < self->optim.slots; s++) {
        memcpy(self->optim_state + s * dim, slots[s]->data,
               dim * sizeof(float));
    }
    self->step = checkpoint->step;
    *role_out = state;
    return MUSTER_OK;
}

muster_status muster_executor_restore(muster_executor *executor,
                                      const char *folder,
                                      muster_error *error_out,
                                      muster_blob **role_out)
{
    coordinator *self = muster_job_coordinator(executor);
    muster_checkpoint checkpoint;
    MUSTER_ASSERT(!executor->is_busy);
    muster_status status =
        muster_checkpoint_load(folder, error_out, &checkpoint);
    if (status != MUSTER_OK) {
        return status;
    }
    status = check_job(self, folder, checkpoint.file, error_out);
    if (status == MUSTER_OK) {
        status =
            take_checkpoint(self, folder, &checkpoint, error_out, role_out);
    }
    muster_checkpoint_fini(&checkpoint);
    return status;
}

muster_status muster_executor_save_model(const muster_executor *executor,
                                         const char *path,
                                         muster_error *error_out)
{
    const coordinator *self = muster_job_coordinator_const(executor);
    const muster_label_column label = muster_dataset_label(self->train);
    float *values = muster_mem_array(self->info.classes, sizeof(float));
    char *label_name =
        label.name != NULL ? muster_mem_string(label.name) : NULL;
    if (values == NULL || (label.name != NULL && label_name == NULL)) {
        muster_mem_free(values);
        muster_mem_free(label_name);
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "%s: out of memory", path);
    }
    for (uint32_t c = 0; c < self->info.classes; c++) {
        values[c] = muster_dataset_class_value(self->train, c);
    }
    const muster_saved saved = {self->model, self->theta->data, values,
                                label_name, label.number};
    muster_status status =
        muster_saved_write(path, self->spec, &saved, error_out);
    muster_mem_free(values);
    muster_mem_free(label_name);
    return status;
}
