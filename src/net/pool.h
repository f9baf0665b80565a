/*
 * net/pool.h -- where payload buffers come from.
 *
 * Two kinds of buffers, in four size classes an octave: plain memory, and
 * segments, which are sealed memfds mapped here, so that their descriptor can
 * be passed to another process of this host instead of their bytes. A buffer
 * comes back when its blob's last reference goes and is lent again, warm and
 * with its pages in place, last in first out.
 *
 * A segment may be lent again only when nobody else can still be reading it.
 * While a peer holds one, the connection holds a reference; when a connection
 * ends before its peer let go, the segment is retired: never written again,
 * given to the system when the last reference here goes.
 *
 *   Promise      At most MUSTER_POOL_FREE_BYTES lie unused, or twice the
 *                largest buffer if that is more; at most MUSTER_POOL_SEGMENTS
 *                descriptors are open: beyond that, or when the system gives
 *                no memfd, take() gives plain memory.
 *   Lifecycle    create, take, close. Buffers may outlive close(); the last
 *                one takes the pool with it.
 *   Threads      take() and the blobs' release: any. The rest: the net thread.
 */
#ifndef MUSTER_NET_POOL_H
#define MUSTER_NET_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/blob.h"

#define MUSTER_POOL_SHARED_BYTES (64u << 10) // smaller ones are copied anyway
#define MUSTER_POOL_FREE_BYTES   (256u << 20)
#define MUSTER_POOL_SEGMENTS     256u

typedef struct muster_pool muster_pool;

typedef struct muster_segment {
    muster_blob blob;
    muster_pool *pool;
    struct muster_segment *next;
    uint64_t id; // never reused; 0 for plain memory
    size_t capacity;
    unsigned size_class;
    int fd; // of the memfd, -1 for plain memory
    bool retired;
} muster_segment;

/* wake_fd is an eventfd that is written to when there is a victim. NULL when
 * out of memory. */
muster_pool *muster_pool_create(int wake_fd);
void muster_pool_close(muster_pool *pool);

/* A buffer of `bytes` uninitialised bytes with one reference; `shareable` asks
 * for a segment. NULL when out of memory. */
muster_blob *muster_pool_take(muster_pool *pool, size_t bytes, bool shareable);

/* The segment of a blob that came from this pool as one, else NULL. */
muster_segment *muster_pool_segment(const muster_pool *pool, muster_blob *blob);

/* Never lend this segment again. */
void muster_pool_retire(muster_segment *segment);

/* Take one segment that the pool wants to be rid of, or NULL. The caller tells
 * the peers that know it, then gives it to muster_segment_destroy(). */
muster_segment *muster_pool_victim(muster_pool *pool);
void muster_segment_destroy(muster_segment *segment);

#endif // MUSTER_NET_POOL_H
