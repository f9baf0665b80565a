/*
 * LOAD of a shard that the coordinator lists and does not send
 * (--data-at workers): this worker reads the data itself, cuts the shard out
 * and compares its hash.
 *
 * The file is read by a thread of its own, so that pieces stay short. Once the
 * shards of a plan are here and a GRADIENT begins, the rest of the data is let
 * go. A later plan may ask for more shards: then the file is read a second
 * time, and its rows are kept from then on.
 *
 * A coordinator may name any file of this machine. What it can learn of it is
 * whether it has the hash that the coordinator knows already: nothing is
 * computed from rows of any other.
 */
#include <inttypes.h>

#include "base/error.h"
#include "base/mem.h"
#include "job/inside.h"

#define WAIT_MS   5u // of a piece
#define READS_MAX 2u // the rows of the second are kept

void muster_job_own_release(own_data *own)
{
    if (own->reads < READS_MAX && !own->reader.is_running) {
        muster_dataset_free(own->rows);
        own->rows = NULL;
    }
}

void muster_job_own_fini(own_data *own)
{
    (void)muster_background_wait(&own->reader, UINT32_MAX);
    muster_dataset_free(own->rows);
    muster_job_setup_fini(&own->from);
    muster_blob_unref(own->asked);
    own->rows = NULL;
    own->asked = NULL;
    own->reads = 0;
}

static bool is_same_shape(const muster_dataset_info *here,
                          const job_setup *setup)
{
    return here->samples == setup->samples &&
           here->features == setup->features &&
           here->classes == setup->classes && here->sparse == setup->is_sparse;
}

/* On the reader's thread. */
static muster_status read_rows(own_data *own)
{
    const job_setup *from = &own->from;
    muster_status status =
        muster_dataset_load(from->data, from->label, &own->error, &own->rows);
    if (status == MUSTER_OK) {
        status =
            muster_dataset_take_target(own->rows, from->target, &own->error);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    if (from->classes == 0) {
        muster_dataset_use_targets(own->rows);
    }
    muster_dataset_info here = muster_dataset_describe(own->rows);
    return is_same_shape(&here, from)
               ? MUSTER_OK
               : muster_error_set(
                     &own->error, MUSTER_ERR_INPUT,
                     "%.80s: %" PRIu64 " samples with %u features and %u "
                     "classes, the coordinator's has %" PRIu64 ", %u and %u",
                     from->data, here.samples, here.features, here.classes,
                     from->samples, from->features, from->classes);
}

static void read_task(void *context)
{
    own_data *own = context;
    own->status = read_rows(own);
    if (own->status != MUSTER_OK) {
        muster_dataset_free(own->rows);
        own->rows = NULL;
    }
}

/* What the reader needs, in copies: SETUP may come again meanwhile. */
static bool copy_setup(const job_setup *setup, own_data *own)
{
    const char *path = own->path != NULL ? own->path : setup->data;
    muster_job_setup_fini(&own->from);
    own->from = *setup;
    own->from.model = NULL;
    own->from.data = muster_mem_string(path);
    own->from.label =
        setup->label != NULL ? muster_mem_string(setup->label) : NULL;
    own->from.target =
        setup->target != NULL ? muster_mem_string(setup->target) : NULL;
    return own->from.data != NULL &&
           (own->from.label != NULL || setup->label == NULL) &&
           (own->from.target != NULL || setup->target == NULL);
}

static muster_status start_reading(worker *self)
{
    own_data *own = &self->own;
    muster_error *error = &self->base.error;
    if (!copy_setup(&self->setup, own)) {
        return muster_error_set(error, MUSTER_ERR_NO_MEMORY,
                                "out of memory to read the data");
    }
    own->error = (muster_error){MUSTER_OK, ""};
    own->reads++;
    return muster_background_start(&own->reader, read_task, own)
               ? MUSTER_IN_PROGRESS
               : muster_error_set(error, MUSTER_ERR_SYSTEM,
                                  "no thread to read the data");
}

/* Say what to do where the data cannot be read. */
static muster_status tell_unread(worker *self)
{
    const own_data *own = &self->own;
    return muster_error_set(&self->base.error, own->status,
                            "%.150s (--data-at workers: every machine needs "
                            "the data; join --data PATH says where it is)",
                            own->error.text);
}

static muster_status cut_out(worker *self)
{
    own_data *own = &self->own;
    muster_error *error = &self->base.error;
    size_t bytes = muster_listing_shard_bytes(&own->listing, own->rows);
    muster_blob *shard = muster_blob_create(bytes);
    if (shard == NULL) {
        return muster_error_set(error, MUSTER_ERR_NO_MEMORY,
                                "out of memory for a shard");
    }
    muster_listing_shard_write(&own->listing, own->rows, shard->data);
    if (!muster_listing_matches(&own->listing, shard->data, bytes)) {
        muster_blob_unref(shard);
        return muster_error_set(error, MUSTER_ERR_INPUT,
                                "%.120s: shard %u has another hash than the "
                                "coordinator's: is it the same file?",
                                own->from.data, own->listing.number);
    }
    return muster_job_keep_shard(self, shard);
}

muster_status muster_job_own_begin(worker *self)
{
    own_data *own = &self->own;
    muster_error *error = &self->base.error;
    if (self->setup.data == NULL) {
        return muster_error_set(error, MUSTER_ERR_PROTOCOL,
                                "a shard is listed, and no data named");
    }
    muster_status status =
        muster_listing_open(own->asked->data, own->asked->bytes,
                            self->setup.samples, error, &own->listing);
    if (status != MUSTER_OK) {
        return status;
    }
    if (own->reader.is_running) { // of a LOAD that was cut off; rows are its
        return MUSTER_IN_PROGRESS;
    }
    return own->rows == NULL ? start_reading(self) : cut_out(self);
}

muster_status muster_job_own_piece(worker *self)
{
    own_data *own = &self->own;
    if (!muster_background_wait(&own->reader, WAIT_MS)) {
        return MUSTER_IN_PROGRESS;
    }
    return own->status == MUSTER_OK ? cut_out(self) : tell_unread(self);
}
