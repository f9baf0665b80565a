/*
 * sim_queue.c -- the events to come: a binary heap ordered by (time, sequence)
 * over a pool of items, so that equal times keep the order of scheduling.
 */
#include "base/assert.h"
#include "sim/sim_inside.h"

void muster_sim_queue_init(muster_sim_queue *queue)
{
    queue->heap = muster_vec_make(sizeof(muster_sim_slot));
    queue->items = muster_vec_make(sizeof(muster_sim_item));
    queue->free = muster_vec_make(sizeof(uint32_t));
}

void muster_sim_queue_fini(muster_sim_queue *queue)
{
    const muster_sim_slot *heap = queue->heap.data;
    muster_sim_item *items = queue->items.data;
    for (size_t i = 0; i < queue->heap.count; i++) {
        muster_sim_item_fini(&items[heap[i].item]);
    }
    muster_vec_fini(&queue->heap);
    muster_vec_fini(&queue->items);
    muster_vec_fini(&queue->free);
}

static bool before(const muster_sim_slot *a, const muster_sim_slot *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns
                                : a->sequence < b->sequence;
}

static void swap(muster_sim_slot *a, muster_sim_slot *b)
{
    muster_sim_slot c = *a;
    *a = *b;
    *b = c;
}

static uint32_t take_place(muster_sim_queue *queue)
{
    if (queue->free.count > 0) {
        const uint32_t *free = queue->free.data;
        return free[--queue->free.count];
    }
    MUSTER_ASSERT(muster_vec_push(&queue->items) != NULL);
    return (uint32_t)(queue->items.count - 1);
}

void muster_sim_push(muster_sim *sim, const muster_sim_item *item)
{
    muster_sim_queue *queue = &sim->queue;
    uint32_t place = take_place(queue);
    ((muster_sim_item *)queue->items.data)[place] = *item;
    muster_sim_slot *slot = muster_vec_push(&queue->heap);
    MUSTER_ASSERT(slot != NULL);
    *slot = (muster_sim_slot){item->at_ns, queue->sequence++, place};
    muster_sim_slot *heap = queue->heap.data;
    for (size_t i = queue->heap.count - 1; i > 0;) {
        size_t parent = (i - 1) / 2;
        if (!before(&heap[i], &heap[parent])) {
            break;
        }
        swap(&heap[i], &heap[parent]);
        i = parent;
    }
}

static void sift_down(muster_sim_slot *heap, size_t count)
{
    for (size_t i = 0;;) {
        size_t first = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2; child++) {
            if (child < count && before(&heap[child], &heap[first])) {
                first = child;
            }
        }
        if (first == i) {
            return;
        }
        swap(&heap[i], &heap[first]);
        i = first;
    }
}

bool muster_sim_pop(muster_sim *sim, int64_t until_ns,
                    muster_sim_item *item_out)
{
    muster_sim_queue *queue = &sim->queue;
    muster_sim_slot *heap = queue->heap.data;
    if (queue->heap.count == 0 || heap[0].at_ns > until_ns) {
        return false;
    }
    uint32_t place = heap[0].item;
    *item_out = ((muster_sim_item *)queue->items.data)[place];
    MUSTER_ASSERT(muster_vec_append(&queue->free, &place, 1));
    heap[0] = heap[--queue->heap.count];
    sift_down(heap, queue->heap.count);
    return true;
}
