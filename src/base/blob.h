/*
 * base/blob.h -- a reference-counted run of bytes: what roles hand around.
 *
 * A role never looks inside a blob; it keeps one by taking a reference and lets
 * go with unref. Whoever makes a blob decides where its bytes live: on the heap
 * (muster_blob_create), in memory shared with other processes (net), or nowhere
 * at all (the simulator's timing-only mode: data == NULL, bytes > 0).
 *
 *   Ownership    Every holder owns one reference. The last unref calls
 *                `release`, which frees the blob itself too.
 *   Threads      ref and unref may be called from any thread. The bytes are
 *                written by the maker only, before it shares the blob. Of a
 *                message that a net is still receiving the first ones may be
 *                read: muster_blob_here() says how many.
 */
#ifndef MUSTER_BASE_BLOB_H
#define MUSTER_BASE_BLOB_H

#include <stdatomic.h>
#include <stddef.h>

typedef struct muster_blob muster_blob;

struct muster_blob {
    _Atomic unsigned references;
    _Atomic size_t missing;             // at its end: not received yet
    size_t bytes;                       // length, also when data is NULL
    void *data;                         // 64-byte aligned, or NULL
    void (*release)(muster_blob *blob); // frees the bytes and the blob
};

/* A heap blob of uninitialised bytes with one reference; NULL when out of
 * memory. */
muster_blob *muster_blob_create(size_t bytes);

/* A blob that is only a length, for simulations of time alone. */
muster_blob *muster_blob_create_empty(size_t bytes);

/* Prepare a blob embedded in the maker's own struct: one reference. */
void muster_blob_init(muster_blob *blob, void *data, size_t bytes,
                      void (*release)(muster_blob *blob));

/* So many bytes at the end are still to come; 0 at first. For the maker, after
 * it has written those before. */
void muster_blob_set_missing(muster_blob *blob, size_t bytes);

/* How many bytes, from the first on, may be read. From any thread. */
size_t muster_blob_here(const muster_blob *blob);

/* Take one more reference; returns its argument. NULL stays NULL. */
muster_blob *muster_blob_ref(muster_blob *blob);

/* Give one back. NULL does nothing. */
void muster_blob_unref(muster_blob *blob);

#endif // MUSTER_BASE_BLOB_H
