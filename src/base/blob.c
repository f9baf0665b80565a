#include "base/blob.h"

#include "base/assert.h"
#include "base/mem.h"

static void release_heap(muster_blob *blob)
{
    muster_mem_free(blob->data);
    muster_mem_free(blob);
}

void muster_blob_init(muster_blob *blob, void *data, size_t bytes,
                      void (*release)(muster_blob *blob))
{
    atomic_init(&blob->references, 1);
    atomic_init(&blob->missing, 0);
    blob->bytes = bytes;
    blob->data = data;
    blob->release = release;
}

muster_blob *muster_blob_create_empty(size_t bytes)
{
    muster_blob *blob = muster_mem_array(1, sizeof(*blob));
    if (blob != NULL) {
        muster_blob_init(blob, NULL, bytes, release_heap);
    }
    return blob;
}

muster_blob *muster_blob_create(size_t bytes)
{
    muster_blob *blob = muster_blob_create_empty(bytes);
    if (blob == NULL) {
        return NULL;
    }
    blob->data = muster_mem_raw_aligned(bytes, 1);
    if (blob->data == NULL) {
        muster_mem_free(blob);
        return NULL;
    }
    return blob;
}

void muster_blob_set_missing(muster_blob *blob, size_t bytes)
{
    // Who reads the number reads the bytes that were written before it.
    atomic_store_explicit(&blob->missing, bytes, memory_order_release);
}

size_t muster_blob_here(const muster_blob *blob)
{
    return blob->bytes -
           atomic_load_explicit(&blob->missing, memory_order_acquire);
}

muster_blob *muster_blob_ref(muster_blob *blob)
{
    if (blob != NULL) {
        atomic_fetch_add_explicit(&blob->references, 1, memory_order_relaxed);
    }
    return blob;
}

void muster_blob_unref(muster_blob *blob)
{
    if (blob == NULL) {
        return;
    }
    // Release our writes; the last one acquires everybody's before freeing.
    unsigned before =
        atomic_fetch_sub_explicit(&blob->references, 1, memory_order_acq_rel);
    MUSTER_ASSERT(before > 0);
    if (before == 1) {
        blob->release(blob);
    }
}
