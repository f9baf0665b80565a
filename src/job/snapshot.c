/*
 * What outlives the process: checkpoints (theta, optimiser, step, the role's
 * state) and the trained model. Both are safetensors files; a checkpoint holds
 * flat arrays, a model its named tensors.
 *
 * A checkpoint is written by a thread of its own, from theta, which no step
 * changes, and a copy of the optimiser's state, so that the next step waits for
 * that copy alone.
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

#define COPY_FLOATS ((size_t)1 << 20) // of a piece
#define WAIT_MS     5u                // of a piece, for the writer

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
    (void)muster_background_wait(&self->snapshot.writer, UINT32_MAX);
    muster_mem_free(self->snapshot.folder);
    self->snapshot.folder = copy;
    return MUSTER_OK;
}

/* --- writing -------------------------------------------------------------- */

static void drop_copies(snapshot_state *snapshot)
{
    muster_blob_unref(snapshot->theta);
    muster_blob_unref(snapshot->role);
    muster_mem_free(snapshot->optim_state);
    snapshot->theta = NULL;
    snapshot->role = NULL;
    snapshot->optim_state = NULL;
}

void muster_job_snapshot_tidy(coordinator *self)
{
    if (muster_background_wait(&self->snapshot.writer, 0)) {
        drop_copies(&self->snapshot);
    }
}

void muster_job_snapshot_fini(coordinator *self)
{
    (void)muster_background_wait(&self->snapshot.writer, UINT32_MAX);
    drop_copies(&self->snapshot);
    muster_mem_free(self->snapshot.folder);
    self->snapshot.folder = NULL;
}

/* What became of the last one that was written. */
static muster_status tell_last(coordinator *self)
{
    snapshot_state *snapshot = &self->snapshot;
    muster_status status = snapshot->status;
    if (status != MUSTER_OK) {
        self->base.error = snapshot->error;
    }
    snapshot->status = MUSTER_OK;
    return status;
}

static void write_file(void *context)
{
    snapshot_state *snapshot = context;
    snapshot->status = muster_checkpoint_write(
        snapshot->folder, &snapshot->parts, &snapshot->error);
}

/* Name what is stored. */
static void list_parts(coordinator *self)
{
    static const char *const slots[] = {"optimizer.0", "optimizer.1"};
    snapshot_state *snapshot = &self->snapshot;
    size_t dim = self->model.dim;
    const muster_blob *role = snapshot->role;
    size_t count = 0;
    describe_job(self, &snapshot->notes);
    snapshot->tensors[count++] = muster_tensor_row("theta", MUSTER_DTYPE_F32,
                                                   snapshot->theta->data, dim);
    MUSTER_ASSERT(self->optim.slots <= MUSTER_OPTIM_SLOTS_MAX);
    for (uint32_t s = 0; s < self->optim.slots; s++) {
        snapshot->tensors[count++] = muster_tensor_row(
            slots[s], MUSTER_DTYPE_F32, snapshot->optim_state + s * dim, dim);
    }
    if (role != NULL && role->data != NULL && role->bytes > 0) {
        snapshot->tensors[count++] =
            muster_tensor_row("role", MUSTER_DTYPE_U8, role->data, role->bytes);
    }
    snapshot->parts =
        (muster_checkpoint_parts){self->step, snapshot->tensors, count,
                                  snapshot->notes.list, SNAPSHOT_NOTES};
}

/* The copies stand. Without a thread to spare the file is written here. */
static void start_writing(coordinator *self)
{
    snapshot_state *snapshot = &self->snapshot;
    list_parts(self);
    snapshot->phase = SNAPSHOT_WRITE;
    if (!muster_background_start(&snapshot->writer, write_file, snapshot)) {
        write_file(snapshot);
    }
}

/* The writer of the one before has ended. */
static muster_status begin_copying(coordinator *self)
{
    snapshot_state *snapshot = &self->snapshot;
    muster_status status = tell_last(self);
    if (status != MUSTER_OK) {
        return status;
    }
    drop_copies(snapshot);
    snapshot->optim_state = muster_mem_raw_aligned(
        self->model.dim * self->optim.slots + 1, sizeof(float));
    if (snapshot->optim_state == NULL) {
        return muster_error_set(&self->base.error, MUSTER_ERR_NO_MEMORY,
                                "out of memory for a checkpoint");
    }
    snapshot->theta = muster_blob_ref(self->theta); // never changes
    snapshot->role = muster_blob_ref(self->base.job.input);
    snapshot->phase = SNAPSHOT_COPY;
    snapshot->at = 0;
    return MUSTER_IN_PROGRESS;
}

muster_status muster_job_snapshot_begin(coordinator *self)
{
    snapshot_state *snapshot = &self->snapshot;
    snapshot->phase = SNAPSHOT_WAIT;
    if (snapshot->folder == NULL) {
        return MUSTER_OK;
    }
    if (muster_background_wait(&snapshot->writer, 0)) {
        return begin_copying(self);
    }
    return self->base.job.is_last ? MUSTER_IN_PROGRESS : MUSTER_OK;
}

static void copy_range(void *context, uint32_t part, size_t begin, size_t end)
{
    const coordinator *self = context;
    (void)part;
    memcpy(self->snapshot.optim_state + begin, self->optim_state + begin,
           (end - begin) * sizeof(float));
}

/* Some of the copy; at its end the writing begins. */
static muster_status copy_piece(coordinator *self)
{
    snapshot_state *snapshot = &self->snapshot;
    size_t all = self->model.dim * self->optim.slots;
    size_t some = COPY_FLOATS * muster_threads_count(self->base.pool);
    size_t end = all - snapshot->at < some ? all : snapshot->at + some;
    muster_job_share(&self->base, snapshot->at, end, copy_range, self);
    snapshot->at = end;
    if (end < all) {
        return MUSTER_IN_PROGRESS;
    }
    start_writing(self);
    return self->base.job.is_last ? MUSTER_IN_PROGRESS : MUSTER_OK;
}

muster_status muster_job_snapshot_piece(coordinator *self)
{
    snapshot_state *snapshot = &self->snapshot;
    if (snapshot->phase == SNAPSHOT_COPY) {
        return copy_piece(self);
    }
    if (!muster_background_wait(&snapshot->writer, WAIT_MS)) {
        return MUSTER_IN_PROGRESS;
    }
    if (snapshot->phase == SNAPSHOT_WAIT) {
        return begin_copying(self);
    }
    drop_copies(snapshot);
    return tell_last(self);
}

/* --- going on ------------------------------------------------------------- */

static muster_status check_job(const coordinator *self, const char *folder,
                               const muster_safetensors *file,
                               muster_error *error_out)
{
    job_notes notes;
    describe_job(self, &notes);
    for (size_t i = 0; i < SNAPSHOT_NOTES; i++) {
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
