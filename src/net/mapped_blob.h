/*
 * net/mapped_blob.h -- payloads that lie in a peer's memory, and how they go back.
 *
 * A mapping is a peer's segment, mapped here for reading. A lent blob points
 * into one. When its last reference goes, on whatever thread, it is put into
 * the mailbox; the net thread empties that and tells the peers that sent them.
 *
 *   Lifecycle    create; lend and collect on the net thread; close. Lent blobs
 *                may outlive close(); the last one takes the mailbox with it.
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
    unsigned references; // table slots and lent blobs
} muster_mapping;

/* Map `fd` (which stays the caller's) for reading, with one reference.
 * MUSTER_ERR_PROTOCOL when it is not a memfd that cannot shrink, or empty, or
 * larger than bytes_max: then reading it could kill us. */
MUSTER_CHECKED muster_status
muster_mapping_create(int fd, uint64_t bytes_max, muster_error *error_out,
                      muster_mapping **mapping_out);
void muster_mapping_unref(muster_mapping *mapping);

typedef struct muster_mailbox muster_mailbox;

typedef struct muster_lent {
    muster_blob blob;
    struct muster_lent *next;
    muster_mailbox *mailbox;
    muster_mapping *mapping;
    muster_peer peer;
    uint64_t sequence; // of the frame that brought it
} muster_lent;

/* wake_fd is an eventfd that a release writes to while the net thread sleeps.
 * NULL when out of memory. */
muster_mailbox *muster_mailbox_create(int wake_fd);
void muster_mailbox_close(muster_mailbox *mailbox);

/* A blob of the first `bytes` of the mapping; takes a mapping reference. NULL
 * when out of memory. */
muster_blob *muster_mailbox_lend(muster_mailbox *mailbox,
                                 muster_mapping *mapping, size_t bytes,
                                 muster_peer peer, uint64_t sequence);

/* All lent blobs that came back, as a list; give each to _recycle(). */
muster_lent *muster_mailbox_collect(muster_mailbox *mailbox);
void muster_mailbox_recycle(muster_mailbox *mailbox, muster_lent *lent);

/* Announce that the net thread is about to sleep; false: it must not, blobs
 * are waiting. The next release wakes it and ends the announcement. */
bool muster_mailbox_sleep(muster_mailbox *mailbox);
void muster_mailbox_awake(muster_mailbox *mailbox);

#endif // MUSTER_NET_MAPPED_BLOB_H
