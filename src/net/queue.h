/*
 * net/queue.h -- messages that wait to be written to one peer.
 *
 * An item is one frame: its frame header and message header lie together in
 * `head`, its payload is a reference. Items are recycled through a store, so
 * that steady traffic allocates nothing. When an item is over, it goes to a
 * list of finished ones, and its `done` is called from there.
 *
 *   Threads      The net thread.
 */
#ifndef MUSTER_NET_QUEUE_H
#define MUSTER_NET_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/frame.h"
#include "net/net.h"
#include "net/pool.h"

/* A shared payload that the peer has been told of and has not let go. */
typedef struct muster_hold {
    struct muster_hold *next;
    muster_blob *payload; // one reference
    uint64_t sequence;
} muster_hold;

typedef struct muster_item {
    struct muster_item *next;
    muster_frame_kind kind;
    uint8_t *head; // MUSTER_FRAME_BYTES, then the message header
    size_t head_bytes;
    size_t head_capacity;
    muster_blob *payload;    // one reference, or NULL
    muster_segment *segment; // the payload travels by descriptor; else NULL
    muster_hold *hold;       // ready for it, with segment only
    size_t sent;             // bytes written so far
    uint16_t slot;           // of the segment, once the descriptor was sent
    bool descriptor_sent;
    uint32_t replace_slot;
    void (*done)(void *argument, muster_status status);
    void *argument;
    muster_status status; // for `done`
} muster_item;

/* First in, first out. */
typedef struct muster_queue {
    muster_item *first;
    muster_item *last;
} muster_queue;

/* Spares kept; more go back to the heap, so that one crowded moment does not
 * cost memory for good. */
#define MUSTER_STORE_MAX 4096u

/* Spare items and holds. Zeroed is empty. */
typedef struct muster_store {
    muster_item *items;
    muster_hold *holds;
    unsigned item_count, hold_count; // at most MUSTER_STORE_MAX each
} muster_store;

void muster_store_fini(muster_store *store);

/* An item with room for a message header of header_bytes, and a hold if
 * asked; NULL when out of memory. */
muster_item *muster_store_take(muster_store *store, size_t header_bytes,
                               bool with_hold);

/* Drops the payload's reference and the hold, if they are still there. */
void muster_store_give(muster_store *store, muster_item *item);
void muster_store_give_hold(muster_store *store, muster_hold *hold);

/* Bytes that this item puts into the stream. */
size_t muster_item_wire_bytes(const muster_item *item);

/* Bytes that it counts for in the limits: also what travels by descriptor, and
 * nothing for a message without a payload. */
size_t muster_item_queue_bytes(const muster_item *item);

/* Nothing of it was written yet: it may still be replaced. */
bool muster_item_is_fresh(const muster_item *item);

void muster_queue_push(muster_queue *queue, muster_item *item);
muster_item *muster_queue_pop(muster_queue *queue);

/* Before every fresh item. */
void muster_queue_push_ahead(muster_queue *queue, muster_item *item);

/* The fresh item with this slot, and the link that points to it; or NULL. */
muster_item **muster_queue_find(muster_queue *queue, uint32_t replace_slot);

/* Unlink *link; returns what it pointed to. */
muster_item *muster_queue_remove(muster_queue *queue, muster_item **link);

#endif // MUSTER_NET_QUEUE_H
