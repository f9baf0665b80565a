/*
 * queue.c -- items, their store, and a queue of them.
 */
#include "net/queue.h"

#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

#define HEAD_KEPT_BYTES 4096u // larger heads are not kept in the store

static void item_free(muster_item *item)
{
    muster_mem_free(item->head);
    muster_mem_free(item);
}

void muster_store_fini(muster_store *store)
{
    while (store->items != NULL) {
        muster_item *item = store->items;
        store->items = item->next;
        item_free(item);
    }
    while (store->holds != NULL) {
        muster_hold *hold = store->holds;
        store->holds = hold->next;
        muster_mem_free(hold);
    }
}

static muster_hold *take_hold(muster_store *store)
{
    muster_hold *hold = store->holds;
    if (hold == NULL) {
        return muster_mem_array(1, sizeof(*hold));
    }
    store->holds = hold->next;
    store->hold_count--;
    *hold = (muster_hold){0};
    return hold;
}

/* A cleared item with whatever head the store had for it. */
static muster_item *take_item(muster_store *store)
{
    muster_item *item = store->items;
    if (item == NULL) {
        return muster_mem_array(1, sizeof(*item));
    }
    store->items = item->next;
    store->item_count--;
    *item =
        (muster_item){.head = item->head, .head_capacity = item->head_capacity};
    return item;
}

muster_item *muster_store_take(muster_store *store, size_t header_bytes,
                               bool with_hold)
{
    muster_item *item = take_item(store);
    if (item == NULL) {
        return NULL;
    }
    item->head_bytes = MUSTER_FRAME_BYTES + header_bytes;
    if (item->head_capacity < item->head_bytes) {
        size_t capacity = item->head_bytes < 192 ? 192 : item->head_bytes;
        uint8_t *head = muster_mem_resize(item->head, capacity, 1);
        if (head == NULL) {
            muster_store_give(store, item);
            return NULL;
        }
        item->head = head;
        item->head_capacity = capacity;
    }
    if (with_hold) {
        item->hold = take_hold(store);
        if (item->hold == NULL) {
            muster_store_give(store, item);
            return NULL;
        }
    }
    return item;
}

void muster_store_give_hold(muster_store *store, muster_hold *hold)
{
    if (hold != NULL) {
        muster_blob_unref(hold->payload);
        hold->payload = NULL;
        if (store->hold_count >= MUSTER_STORE_MAX) {
            muster_mem_free(hold);
            return;
        }
        hold->next = store->holds;
        store->holds = hold;
        store->hold_count++;
    }
}

void muster_store_give(muster_store *store, muster_item *item)
{
    muster_blob_unref(item->payload);
    item->payload = NULL;
    muster_store_give_hold(store, item->hold);
    item->hold = NULL;
    if (store->item_count >= MUSTER_STORE_MAX) {
        item_free(item);
        return;
    }
    if (item->head_capacity > HEAD_KEPT_BYTES) {
        muster_mem_free(item->head);
        item->head = NULL;
        item->head_capacity = 0;
    }
    item->next = store->items;
    store->items = item;
    store->item_count++;
}

size_t muster_item_wire_bytes(const muster_item *item)
{
    bool streamed = item->payload != NULL && item->segment == NULL;
    return item->head_bytes + (streamed ? item->payload->bytes : 0);
}

size_t muster_item_queue_bytes(const muster_item *item)
{
    return item->payload ? item->head_bytes + item->payload->bytes : 0;
}

bool muster_item_is_fresh(const muster_item *item)
{
    return item->sent == 0 && !item->descriptor_sent;
}

void muster_queue_push(muster_queue *queue, muster_item *item)
{
    item->next = NULL;
    if (queue->last == NULL) {
        queue->first = item;
    } else {
        queue->last->next = item;
    }
    queue->last = item;
}

muster_item *muster_queue_pop(muster_queue *queue)
{
    return queue->first == NULL ? NULL
                                : muster_queue_remove(queue, &queue->first);
}

void muster_queue_push_ahead(muster_queue *queue, muster_item *item)
{
    muster_item **link = &queue->first;
    while (*link != NULL && !muster_item_is_fresh(*link)) {
        link = &(*link)->next;
    }
    item->next = *link;
    *link = item;
    if (item->next == NULL) {
        queue->last = item;
    }
}

muster_item **muster_queue_find(muster_queue *queue, uint32_t replace_slot)
{
    muster_item **link = &queue->first;
    for (; *link != NULL; link = &(*link)->next) {
        if ((*link)->replace_slot == replace_slot &&
            muster_item_is_fresh(*link)) {
            return link;
        }
    }
    return NULL;
}

muster_item *muster_queue_remove(muster_queue *queue, muster_item **link)
{
    muster_item *item = *link;
    MUSTER_ASSERT(item != NULL);
    *link = item->next;
    if (queue->last == item) {
        // The item before it, if any, is the one whose `next` is the link.
        queue->last =
            queue->first == NULL
                ? NULL
                : (muster_item *)(void *)((char *)link -
                                          offsetof(muster_item, next));
    }
    item->next = NULL;
    return item;
}
