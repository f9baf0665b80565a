/*
 * sim_queue.c -- the events to come, in order of (time, scheduling).
 *
 * A radix heap: times are numbers of eleven digits of six bits, and an item
 * lies in the bucket of the highest digit in which its time differs from
 * `last_ns`, the time of the item taken last. The first item of all is in the
 * lowest bucket of the lowest digit that has any. Where that is not the lowest
 * digit, `last_ns` is set to the begin of the bucket, and its items go to lower
 * digits. So an item moves at most once a digit, whatever the number of items,
 * and mostly two or three times: taking one costs O(1).
 *
 * Invariants
 *   1. No time is before `last_ns`: nothing is scheduled in the past.
 *   2. Equal times lie in one bucket, in order of scheduling. When `last_ns`
 *      moves on within a bucket, higher digits do not change, so items in
 *      other buckets stay where they belong; the items of the bucket itself are
 *      moved in order, to buckets that are empty.
 */
#include "base/assert.h"
#include "sim/sim_inside.h"

#define NOWHERE UINT32_MAX

void muster_sim_queue_init(muster_sim_queue *queue)
{
    queue->nodes = muster_vec_make(sizeof(muster_sim_node));
    queue->items = muster_vec_make(sizeof(muster_sim_item));
    queue->free = NOWHERE;
}

void muster_sim_queue_fini(muster_sim *sim)
{
    muster_sim_item item;
    while (muster_sim_pop(sim, INT64_MAX, &item)) {
        muster_sim_item_fini(sim, &item);
    }
    muster_vec_fini(&sim->queue.nodes);
    muster_vec_fini(&sim->queue.items);
}

static uint32_t take_place(muster_sim_queue *queue)
{
    uint32_t place = queue->free;
    if (place != NOWHERE) {
        const muster_sim_node *nodes = queue->nodes.data;
        queue->free = nodes[place].next;
        return place;
    }
    place = (uint32_t)queue->items.count;
    MUSTER_ASSERT(place < NOWHERE && muster_vec_push(&queue->nodes) != NULL &&
                  muster_vec_push(&queue->items) != NULL);
    return place;
}

/* Put the item at `place` behind those of its bucket. */
static void append(muster_sim_queue *queue, uint32_t place)
{
    muster_sim_node *nodes = queue->nodes.data;
    uint64_t at = (uint64_t)nodes[place].at_ns;
    uint64_t differs = at ^ (uint64_t)queue->last_ns;
    // The lowest digit is also that of a time that does not differ.
    uint32_t highest = 63u - (uint32_t)__builtin_clzll(differs | 1u);
    uint32_t level = highest / MUSTER_SIM_DIGIT_BITS;
    uint32_t digit =
        (uint32_t)(at >> level * MUSTER_SIM_DIGIT_BITS) % MUSTER_SIM_BUCKETS;
    muster_sim_bucket *bucket = &queue->buckets[level][digit];
    nodes[place].next = NOWHERE;
    if ((queue->used[level] >> digit & 1u) != 0) {
        nodes[bucket->last].next = place;
    } else {
        queue->used[level] |= UINT64_C(1) << digit;
        queue->levels |= 1u << level;
        bucket->first = place;
    }
    bucket->last = place;
}

void muster_sim_push(muster_sim *sim, const muster_sim_item *item)
{
    muster_sim_queue *queue = &sim->queue;
    uint32_t place = take_place(queue);
    MUSTER_ASSERT(item->at_ns >= queue->last_ns);
    ((muster_sim_item *)queue->items.data)[place] = *item;
    ((muster_sim_node *)queue->nodes.data)[place].at_ns = item->at_ns;
    append(queue, place);
}

static void clear_bucket(muster_sim_queue *queue, uint32_t level,
                         uint32_t digit)
{
    queue->used[level] &= ~(UINT64_C(1) << digit);
    if (queue->used[level] == 0) {
        queue->levels &= ~(1u << level);
    }
}

static int64_t first_time(const muster_sim_queue *queue,
                          const muster_sim_bucket *bucket)
{
    const muster_sim_node *nodes = queue->nodes.data;
    int64_t min = nodes[bucket->first].at_ns;
    for (uint32_t at = bucket->first; at != NOWHERE; at = nodes[at].next) {
        min = nodes[at].at_ns < min ? nodes[at].at_ns : min;
    }
    return min;
}

/* The item that is taken after the one at `place`, of the same time or one
 * shortly after; NOWHERE: not known. */
static uint32_t after(const muster_sim_queue *queue, uint32_t place)
{
    const muster_sim_node *nodes = queue->nodes.data;
    if (nodes[place].next != NOWHERE) {
        return nodes[place].next;
    }
    uint32_t digit = (uint32_t)nodes[place].at_ns % MUSTER_SIM_BUCKETS;
    uint64_t later = queue->used[0] & ~UINT64_C(0) << digit << 1;
    return later != 0
               ? queue->buckets[0][(uint32_t)__builtin_ctzll(later)].first
               : NOWHERE;
}

/* Tell the processor what the next items will touch: with many hosts it is in
 * no cache, and one event takes less time than memory does. */
static void look_ahead(const muster_sim *sim, uint32_t place)
{
    const muster_sim_item *items = sim->queue.items.data;
    for (unsigned ahead = 1; ahead <= MUSTER_SIM_AHEAD; ahead++) {
        place = after(&sim->queue, place);
        if (place == NOWHERE) {
            return;
        }
        muster_sim_prefetch(sim, &items[place], ahead);
    }
}

/* Move the items of a bucket to lower digits. False when all of them are after
 * until_ns: then nothing moves, for something may yet be scheduled before. */
static bool spread(muster_sim_queue *queue, uint32_t level, uint32_t digit,
                   int64_t until_ns)
{
    const muster_sim_bucket bucket = queue->buckets[level][digit];
    uint32_t shift = level * MUSTER_SIM_DIGIT_BITS;
    uint64_t higher = shift + MUSTER_SIM_DIGIT_BITS < 64
                          ? (uint64_t)queue->last_ns >> shift >>
                                MUSTER_SIM_DIGIT_BITS << shift
                                                      << MUSTER_SIM_DIGIT_BITS
                          : 0;
    uint64_t begin = higher | (uint64_t)digit << shift;
    uint64_t end = begin | ((UINT64_C(1) << shift) - 1);
    if (end > (uint64_t)until_ns && first_time(queue, &bucket) > until_ns) {
        return false;
    }
    queue->last_ns = (int64_t)begin;
    clear_bucket(queue, level, digit);
    const muster_sim_node *nodes = queue->nodes.data;
    for (uint32_t at = bucket.first; at != NOWHERE;) {
        uint32_t next = nodes[at].next;
        if (((uint64_t)nodes[at].at_ns ^ begin) < MUSTER_SIM_BUCKETS) {
            __builtin_prefetch((muster_sim_item *)queue->items.data + at);
        }
        append(queue, at);
        at = next;
    }
    return true;
}

bool muster_sim_pop(muster_sim *sim, int64_t until_ns,
                    muster_sim_item *item_out)
{
    muster_sim_queue *queue = &sim->queue;
    while (queue->levels != 0) {
        uint32_t level = (uint32_t)__builtin_ctz(queue->levels);
        uint32_t digit = (uint32_t)__builtin_ctzll(queue->used[level]);
        if (level > 0) {
            if (!spread(queue, level, digit, until_ns)) {
                return false;
            }
            continue;
        }
        muster_sim_node *nodes = queue->nodes.data;
        muster_sim_bucket *bucket = &queue->buckets[0][digit];
        uint32_t place = bucket->first;
        if (nodes[place].at_ns > until_ns) {
            return false;
        }
        look_ahead(sim, place);
        *item_out = ((muster_sim_item *)queue->items.data)[place];
        queue->last_ns = item_out->at_ns;
        bucket->first = nodes[place].next;
        if (bucket->first == NOWHERE) {
            clear_bucket(queue, 0, digit);
        }
        nodes[place].next = queue->free;
        queue->free = place;
        return true;
    }
    return false;
}
