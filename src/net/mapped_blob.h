/*
 * net/mapped_blob.h -- payloads that lie in a peer's memory.
 *
 * A mapping is a peer's segment, mapped here for reading. A mapped blob points
 * into one. When its last reference goes, on whatever thread, the blob is put
 * into the release queue. The net thread empties the queue and tells the peers
 * that their segments are free again.
 *
 *   Lifecycle    create; lend and collect on the net thread; close. Mapped
 *                blobs may outlive close(); the last one frees the queue.
 *   Threads      The blobs' release: any. The rest: the net thread.
 */
#ifndef MUSTER_NET_MAPPED_BLOB_H
#define MUSTER_NET_MAPPED_BLOB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/blob.h"
#include "muster/status.h"
#include "net/net.h"

typedef struct muster_mapping {
    void *data;
    size_t bytes;
    unsigned references; // table slots and mapped blobs
} muster_mapping;

/* Map `fd` (which stays the caller's) for reading, with one reference.
 * MUSTER_ERR_PROTOCOL when it is not a memfd that cannot shrink, or empty, or
 * larger than bytes_max: then reading it could kill us. */
MUSTER_CHECKED muster_status
muster_mapping_create(int fd, uint64_t bytes_max, muster_error *error_out,
                      muster_mapping **mapping_out);
void muster_mapping_unref(muster_mapping *mapping);

typedef struct muster_release_queue muster_release_queue;

typedef struct muster_mapped_blob {
    muster_blob blob;
    struct muster_mapped_blob *next;
    muster_release_queue *queue;
    muster_mapping *mapping;
    muster_peer peer;
    uint64_t sequence; // of the frame that brought it
} muster_mapped_blob;

/* wake_fd is an eventfd that a release writes to while the net thread sleeps.
 * NULL when out of memory. */
muster_release_queue *muster_release_queue_create(int wake_fd);
void muster_release_queue_close(muster_release_queue *queue);

/* A blob of the first `bytes` of the mapping; takes a mapping reference. NULL
 * when out of memory. */
muster_blob *muster_release_queue_lend(muster_release_queue *queue,
                                       muster_mapping *mapping, size_t bytes,
                                       muster_peer peer, uint64_t sequence);

/* All mapped blobs that came back, as a list; give each to _recycle(). */
muster_mapped_blob *muster_release_queue_collect(muster_release_queue *queue);
void muster_release_queue_recycle(muster_release_queue *queue,
                                  muster_mapped_blob *mapped);

/* Announce that the net thread is about to sleep; false: it must not, blobs
 * are waiting. The next release wakes it and ends the announcement. */
bool muster_release_queue_sleep(muster_release_queue *queue);
void muster_release_queue_awake(muster_release_queue *queue);

#endif // MUSTER_NET_MAPPED_BLOB_H
