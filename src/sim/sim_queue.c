/*
 * sim_queue.c -- the events to come: a heap of four children a node, ordered
 * by (time, sequence), over a pool of items, so that equal times keep the order
 * of scheduling.
 */
#include "base/assert.h"
#include "sim/sim_inside.h"

#define CHILDREN 4u

static uint32_t place_of(const muster_sim_slot *slot)
{
    return (uint32_t)slot->order & ((1u << MUSTER_SIM_PLACE_BITS) - 1);
}

void muster_sim_queue_init(muster_sim_queue *queue)
{
    queue->heap = muster_vec_make(sizeof(muster_sim_slot));
    queue->items = muster_vec_make(sizeof(muster_sim_item));
    queue->free = muster_vec_make(sizeof(uint32_t));
}

void muster_sim_queue_fini(muster_sim *sim)
{
    muster_sim_queue *queue = &sim->queue;
    const muster_sim_slot *heap = queue->heap.data;
    muster_sim_item *items = queue->items.data;
    for (size_t i = 0; i < queue->heap.count; i++) {
        muster_sim_item_fini(sim, &items[place_of(&heap[i])]);
    }
    muster_vec_fini(&queue->heap);
    muster_vec_fini(&queue->items);
    muster_vec_fini(&queue->free);
}

static bool before(muster_sim_slot a, muster_sim_slot b)
{
    // Without branches: which child comes first cannot be predicted.
    unsigned same = a.at_ns == b.at_ns;
    return ((a.at_ns < b.at_ns) | (same & (a.order < b.order))) != 0;
}

static uint32_t take_place(muster_sim_queue *queue)
{
    if (queue->free.count > 0) {
        const uint32_t *free = queue->free.data;
        return free[--queue->free.count];
    }
    MUSTER_ASSERT(muster_vec_push(&queue->items) != NULL);
    MUSTER_ASSERT(queue->items.count <= (size_t)1 << MUSTER_SIM_PLACE_BITS);
    return (uint32_t)(queue->items.count - 1);
}

void muster_sim_push(muster_sim *sim, const muster_sim_item *item)
{
    muster_sim_queue *queue = &sim->queue;
    uint32_t place = take_place(queue);
    ((muster_sim_item *)queue->items.data)[place] = *item;
    muster_sim_slot slot = {item->at_ns,
                            queue->sequence++ << MUSTER_SIM_PLACE_BITS | place};
    MUSTER_ASSERT(muster_vec_push(&queue->heap) != NULL);
    muster_sim_slot *heap = queue->heap.data;
    size_t i = queue->heap.count - 1;
    while (i > 0 && before(slot, heap[(i - 1) / CHILDREN])) {
        heap[i] = heap[(i - 1) / CHILDREN];
        i = (i - 1) / CHILDREN;
    }
    heap[i] = slot;
}

/* The top is free, and `slot` without a place: find it one. */
static void sift_down(muster_sim_slot *heap, size_t count, muster_sim_slot slot)
{
    size_t i = 0;
    for (size_t child = 1; child < count; child = CHILDREN * i + 1) {
        size_t end = child + CHILDREN < count ? child + CHILDREN : count;
        size_t first = child;
        for (size_t each = child + 1; each < end; each++) {
            first = before(heap[each], heap[first]) ? each : first;
        }
        if (!before(heap[first], slot)) {
            break;
        }
        heap[i] = heap[first];
        i = first;
    }
    heap[i] = slot;
}

bool muster_sim_pop(muster_sim *sim, int64_t until_ns,
                    muster_sim_item *item_out)
{
    muster_sim_queue *queue = &sim->queue;
    muster_sim_slot *heap = queue->heap.data;
    if (queue->heap.count == 0 || heap[0].at_ns > until_ns) {
        return false;
    }
    uint32_t place = place_of(&heap[0]);
    *item_out = ((muster_sim_item *)queue->items.data)[place];
    MUSTER_ASSERT(muster_vec_append(&queue->free, &place, 1));
    queue->heap.count--;
    if (queue->heap.count > 0) {
        sift_down(heap, queue->heap.count, heap[queue->heap.count]);
    }
    return true;
}
