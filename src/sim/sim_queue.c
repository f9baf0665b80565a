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
 * A bucket is a list of chunks of entries, so that its items are moved in the
 * order of memory; the items themselves stay where they are.
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
    queue->chunks = muster_vec_make(sizeof(muster_sim_chunk));
    queue->items = muster_vec_make(sizeof(muster_sim_item));
    queue->free = muster_vec_make(sizeof(uint32_t));
    queue->chunk = NOWHERE;
}

void muster_sim_queue_fini(muster_sim *sim)
{
    muster_sim_item item;
    while (muster_sim_pop(sim, INT64_MAX, &item)) {
        muster_sim_item_fini(sim, &item);
    }
    muster_vec_fini(&sim->queue.chunks);
    muster_vec_fini(&sim->queue.items);
    muster_vec_fini(&sim->queue.free);
}

static muster_sim_chunk *chunk_at(const muster_sim_queue *queue, uint32_t index)
{
    return (muster_sim_chunk *)queue->chunks.data + index;
}

static uint32_t take_place(muster_sim_queue *queue)
{
    if (queue->free.count > 0) {
        const uint32_t *free = queue->free.data;
        return free[--queue->free.count];
    }
    MUSTER_ASSERT(queue->items.count < NOWHERE &&
                  muster_vec_push(&queue->items) != NULL);
    return (uint32_t)(queue->items.count - 1);
}

static uint32_t take_chunk(muster_sim_queue *queue)
{
    uint32_t index = queue->chunk;
    if (index == NOWHERE) {
        index = (uint32_t)queue->chunks.count;
        MUSTER_ASSERT(muster_vec_push(&queue->chunks) != NULL);
    } else {
        queue->chunk = chunk_at(queue, index)->next;
    }
    muster_sim_chunk *chunk = chunk_at(queue, index);
    chunk->next = NOWHERE;
    chunk->begin = chunk->end = 0;
    return index;
}

/* Returns the one after it. */
static uint32_t give_chunk(muster_sim_queue *queue, uint32_t index)
{
    muster_sim_chunk *chunk = chunk_at(queue, index);
    uint32_t next = chunk->next;
    chunk->next = queue->chunk;
    queue->chunk = index;
    return next;
}

/* Put an entry behind those of its bucket. */
static void append(muster_sim_queue *queue, muster_sim_entry entry)
{
    uint64_t at = (uint64_t)entry.at_ns;
    uint64_t differs = at ^ (uint64_t)queue->last_ns;
    // The lowest digit is also that of a time that does not differ.
    uint32_t highest = 63u - (uint32_t)__builtin_clzll(differs | 1u);
    uint32_t level = highest / MUSTER_SIM_DIGIT_BITS;
    uint32_t digit =
        (uint32_t)(at >> level * MUSTER_SIM_DIGIT_BITS) % MUSTER_SIM_BUCKETS;
    muster_sim_bucket *bucket = &queue->buckets[level][digit];
    if ((queue->used[level] >> digit & 1u) == 0) {
        queue->used[level] |= UINT64_C(1) << digit;
        queue->levels |= 1u << level;
        bucket->first = bucket->last = take_chunk(queue);
    } else if (chunk_at(queue, bucket->last)->end == MUSTER_SIM_CHUNK_ENTRIES) {
        uint32_t fresh = take_chunk(queue);
        chunk_at(queue, bucket->last)->next = fresh;
        bucket->last = fresh;
    }
    muster_sim_chunk *chunk = chunk_at(queue, bucket->last);
    chunk->entries[chunk->end++] = entry;
}

void muster_sim_push(muster_sim *sim, const muster_sim_item *item)
{
    muster_sim_queue *queue = &sim->queue;
    uint32_t place = take_place(queue);
    MUSTER_ASSERT(item->at_ns >= queue->last_ns);
    ((muster_sim_item *)queue->items.data)[place] = *item;
    append(queue, (muster_sim_entry){item->at_ns, place});
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
    int64_t min = INT64_MAX;
    for (uint32_t at = bucket->first; at != NOWHERE;) {
        const muster_sim_chunk *chunk = chunk_at(queue, at);
        for (uint32_t i = chunk->begin; i < chunk->end; i++) {
            int64_t at_ns = chunk->entries[i].at_ns;
            min = at_ns < min ? at_ns : min;
        }
        at = chunk->next;
    }
    return min;
}

/* Tell the processor what the next items will touch: with many hosts it is in
 * no cache, and one event takes less time than memory does. */
static void look_ahead(const muster_sim *sim, uint32_t index, uint32_t digit)
{
    const muster_sim_queue *queue = &sim->queue;
    const muster_sim_item *items = queue->items.data;
    const muster_sim_chunk *chunk = chunk_at(queue, index);
    uint32_t at = chunk->begin;
    for (unsigned ahead = 1; ahead <= MUSTER_SIM_AHEAD; ahead++) {
        if (++at == chunk->end) {
            index = chunk->next;
            uint64_t later = queue->used[0] & ~UINT64_C(0) << digit << 1;
            if (index == NOWHERE && later != 0) {
                digit = (uint32_t)__builtin_ctzll(later);
                index = queue->buckets[0][digit].first;
            }
            if (index == NOWHERE) {
                return;
            }
            chunk = chunk_at(queue, index);
            at = chunk->begin;
        }
        muster_sim_prefetch(sim, &items[chunk->entries[at].place], ahead);
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
    const muster_sim_item *items = queue->items.data;
    for (uint32_t at = bucket.first; at != NOWHERE;) {
        muster_sim_chunk chunk = *chunk_at(queue, at);
        at = give_chunk(queue, at);
        for (uint32_t i = chunk.begin; i < chunk.end; i++) {
            if (((uint64_t)chunk.entries[i].at_ns ^ begin) <
                MUSTER_SIM_BUCKETS) { // it comes soon
                __builtin_prefetch(&items[chunk.entries[i].place]);
            }
            append(queue, chunk.entries[i]);
        }
    }
    return true;
}

/* Take the first item of a bucket of the lowest digit. */
static void take_first(muster_sim *sim, uint32_t digit,
                       muster_sim_item *item_out)
{
    muster_sim_queue *queue = &sim->queue;
    muster_sim_bucket *bucket = &queue->buckets[0][digit];
    muster_sim_chunk *chunk = chunk_at(queue, bucket->first);
    look_ahead(sim, bucket->first, digit);
    uint32_t place = chunk->entries[chunk->begin++].place;
    *item_out = ((muster_sim_item *)queue->items.data)[place];
    queue->last_ns = item_out->at_ns;
    MUSTER_ASSERT(muster_vec_append(&queue->free, &place, 1));
    if (chunk->begin == chunk->end) {
        bucket->first = give_chunk(queue, bucket->first);
        if (bucket->first == NOWHERE) {
            clear_bucket(queue, 0, digit);
        }
    }
}

bool muster_sim_pop(muster_sim *sim, int64_t until_ns,
                    muster_sim_item *item_out)
{
    muster_sim_queue *queue = &sim->queue;
    while (queue->levels != 0) {
        uint32_t level = (uint32_t)__builtin_ctz(queue->levels);
        uint32_t digit = (uint32_t)__builtin_ctzll(queue->used[level]);
        if (level == 0) {
            const muster_sim_chunk *chunk =
                chunk_at(queue, queue->buckets[0][digit].first);
            if (chunk->entries[chunk->begin].at_ns > until_ns) {
                return false;
            }
            take_first(sim, digit, item_out);
            return true;
        }
        if (!spread(queue, level, digit, until_ns)) {
            return false;
        }
    }
    return false;
}
