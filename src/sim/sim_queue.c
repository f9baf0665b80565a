/*
 * sim_queue.c -- the events to come, in order of (time, scheduling).
 *
 * The next few are the run, a sorted list. What comes later lies in a radix
 * heap: times are numbers of eleven digits of six bits, and an item lies in the
 * bucket of the highest digit in which its time differs from `base_ns`. When
 * the run has ended, the first bucket is the lowest of the lowest digit that
 * has any. It becomes the next run, with some that follow; where it has many
 * items, `base_ns` is set to its first time instead, and its items go to lower
 * digits. So an item moves at most once a digit, and mostly once or twice,
 * whatever the number of items: taking one costs O(1).
 *
 * The run tells what is taken soon. With many hosts that is in no cache, and an
 * event takes less time than memory does: the processor is told beforehand.
 *
 * Invariants
 *   1. The items of the run are not after `run_end_ns`, those in buckets are,
 *      and none is before `base_ns` or the item taken last.
 *   2. Equal times lie together, in order of scheduling: all in the run, or in
 *      one bucket. When `base_ns` moves on within a bucket, higher digits do
 *      not change, so items in other buckets stay where they belong; the items
 *      of the bucket itself are moved in order, to buckets that are empty.
 *   3. `base_ns` is not after the begin of the first bucket that the run was
 *      made of: what the run gives back has a bucket.
 */
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "sim/sim_inside.h"

#define NOWHERE    UINT32_MAX
#define SLAB_ITEMS 1024u // of the first; each has twice those of the last
#define FREE_AHEAD 4u    // items that will be used are asked for so early

#define BUCKET_SORTED 64u  // a bucket of at most so many is sorted
#define RUN_ENTRIES   128u // a run takes buckets until it has as many
#define RUN_INSERTED  512u // what is put in the midst of so many is too dear

_Static_assert(sizeof(muster_sim_item) == 64, "an item is a line of memory");

void muster_sim_queue_init(muster_sim_queue *queue)
{
    queue->chunks = muster_vec_make_lines(sizeof(muster_sim_chunk));
    queue->slabs = muster_vec_make(sizeof(muster_sim_item *));
    queue->free = muster_vec_make(sizeof(muster_sim_item *));
    queue->run = muster_vec_make(sizeof(muster_sim_entry));
    queue->chunk = NOWHERE;
    queue->run_end_ns = -1;
}

void muster_sim_queue_fini(muster_sim *sim)
{
    muster_sim_item item;
    while (muster_sim_pop(sim, INT64_MAX, &item)) {
        muster_sim_item_fini(sim, &item);
    }
    muster_sim_item **slabs = sim->queue.slabs.data;
    for (size_t i = 0; i < sim->queue.slabs.count; i++) {
        muster_mem_free(slabs[i]);
    }
    muster_vec_fini(&sim->queue.slabs);
    muster_vec_fini(&sim->queue.free);
    muster_vec_fini(&sim->queue.chunks);
    muster_vec_fini(&sim->queue.run);
}

static muster_sim_chunk *chunk_at(const muster_sim_queue *queue, uint32_t index)
{
    return (muster_sim_chunk *)queue->chunks.data + index;
}

static void cut_slab(muster_sim_queue *queue)
{
    size_t count = (size_t)SLAB_ITEMS << queue->slabs.count;
    muster_sim_item *slab = muster_mem_lines(count, sizeof(*slab));
    MUSTER_ASSERT(slab != NULL && muster_vec_append(&queue->slabs, &slab, 1) &&
                  muster_vec_reserve(&queue->free, 2 * count - SLAB_ITEMS));
    muster_sim_item **free = queue->free.data;
    for (size_t i = count; i-- > 0;) {
        free[queue->free.count++] = &slab[i];
    }
}

/* A copy of `item` that stays where it is. */
static muster_sim_item *keep(muster_sim_queue *queue,
                             const muster_sim_item *item)
{
    if (queue->free.count == 0) {
        cut_slab(queue);
    }
    muster_sim_item **free = queue->free.data;
    muster_sim_item *kept = free[--queue->free.count];
    if (queue->free.count >= FREE_AHEAD) {
        __builtin_prefetch(free[queue->free.count - FREE_AHEAD], 1);
    }
    *kept = *item;
    return kept;
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
    chunk->count = 0;
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
    uint64_t differs = at ^ (uint64_t)queue->base_ns;
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
        bucket->count = 0;
    } else if (chunk_at(queue, bucket->last)->count ==
               MUSTER_SIM_CHUNK_ENTRIES) {
        uint32_t fresh = take_chunk(queue);
        chunk_at(queue, bucket->last)->next = fresh;
        bucket->last = fresh;
    }
    muster_sim_chunk *chunk = chunk_at(queue, bucket->last);
    chunk->entries[chunk->count++] = entry;
    bucket->count++;
}

/* Put back what is behind the first RUN_ENTRIES of the run, and whatever is as
 * late: nothing is in a bucket before or among them. */
static void shorten_run(muster_sim_queue *queue)
{
    const muster_sim_entry *run = queue->run.data;
    size_t kept = queue->run_next + RUN_ENTRIES;
    int64_t cut_ns = run[kept].at_ns;
    while (kept > queue->run_next && run[kept - 1].at_ns == cut_ns) {
        kept--;
    }
    for (size_t i = kept; i < queue->run.count; i++) {
        append(queue, run[i]);
    }
    queue->run.count = kept;
    queue->run_end_ns = cut_ns - 1;
}

/* Where an entry of this time belongs in the run: behind its like. */
static size_t place_in_run(const muster_sim_queue *queue, int64_t at_ns)
{
    const muster_sim_entry *run = queue->run.data;
    size_t low = queue->run_next;
    size_t high = queue->run.count;
    if (low == high || run[high - 1].at_ns <= at_ns) {
        return high;
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (run[middle].at_ns <= at_ns) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Forget what was taken, when it is most of the run. */
static void forget_taken(muster_sim_queue *queue)
{
    size_t left = queue->run.count - queue->run_next;
    if (queue->run_next > RUN_INSERTED && queue->run_next > left) {
        muster_sim_entry *run = queue->run.data;
        memmove(run, run + queue->run_next, left * sizeof(*run));
        queue->run_next = 0;
        queue->run.count = left;
    }
}

static void insert(muster_sim_queue *queue, muster_sim_entry entry)
{
    forget_taken(queue);
    size_t at = place_in_run(queue, entry.at_ns);
    if (at < queue->run.count &&
        queue->run.count - queue->run_next > RUN_INSERTED) {
        shorten_run(queue);
        at = place_in_run(queue, entry.at_ns);
    }
    if (entry.at_ns > queue->run_end_ns) {
        append(queue, entry);
        return;
    }
    MUSTER_ASSERT(muster_vec_reserve(&queue->run, queue->run.count + 1));
    muster_sim_entry *run = queue->run.data;
    memmove(run + at + 1, run + at, (queue->run.count - at) * sizeof(*run));
    run[at] = entry;
    queue->run.count++;
}

void muster_sim_push(muster_sim *sim, const muster_sim_item *item)
{
    muster_sim_queue *queue = &sim->queue;
    MUSTER_ASSERT(item->at_ns >= queue->base_ns);
    muster_sim_entry entry = {item->at_ns, keep(queue, item)};
    if (entry.at_ns > queue->run_end_ns) {
        append(queue, entry);
    } else {
        insert(queue, entry);
    }
}

/* Empty a bucket; the caller has its chunks. */
static muster_sim_bucket take_bucket(muster_sim_queue *queue, uint32_t level,
                                     uint32_t digit)
{
    queue->used[level] &= ~(UINT64_C(1) << digit);
    if (queue->used[level] == 0) {
        queue->levels &= ~(1u << level);
    }
    return queue->buckets[level][digit];
}

static int64_t first_time(const muster_sim_queue *queue,
                          const muster_sim_bucket *bucket)
{
    int64_t min = INT64_MAX;
    for (uint32_t at = bucket->first; at != NOWHERE;) {
        const muster_sim_chunk *chunk = chunk_at(queue, at);
        for (uint32_t i = 0; i < chunk->count; i++) {
            int64_t at_ns = chunk->entries[i].at_ns;
            min = at_ns < min ? at_ns : min;
        }
        at = chunk->next;
    }
    return min;
}

/* The begin of a bucket's times. */
static uint64_t begin_of(const muster_sim_queue *queue, uint32_t level,
                         uint32_t digit)
{
    uint32_t shift = level * MUSTER_SIM_DIGIT_BITS;
    uint64_t higher = shift + MUSTER_SIM_DIGIT_BITS < 64
                          ? (uint64_t)queue->base_ns >> shift >>
                                MUSTER_SIM_DIGIT_BITS << shift
                                                      << MUSTER_SIM_DIGIT_BITS
                          : 0;
    return higher | (uint64_t)digit << shift;
}

static uint64_t end_of(uint64_t begin, uint32_t level)
{
    return begin | ((UINT64_C(1) << level * MUSTER_SIM_DIGIT_BITS) - 1);
}

/* Move the items of a bucket to lower digits. */
static void spread(muster_sim_queue *queue, uint32_t level, uint32_t digit)
{
    // From its first time on, not from its begin: digits in which all of its
    // items agree are passed over at once.
    queue->base_ns = first_time(queue, &queue->buckets[level][digit]);
    muster_sim_bucket bucket = take_bucket(queue, level, digit);
    for (uint32_t at = bucket.first; at != NOWHERE;) {
        muster_sim_chunk chunk = *chunk_at(queue, at);
        at = give_chunk(queue, at);
        for (uint32_t i = 0; i < chunk.count; i++) {
            append(queue, chunk.entries[i]);
        }
    }
}

/* Put an entry of a bucket in its place among those of the run from `begin`
 * on: they are few, or all of one time. */
static void sort_in(muster_sim_queue *queue, size_t begin,
                    muster_sim_entry entry)
{
    muster_sim_entry *run = queue->run.data;
    size_t at = queue->run.count++;
    while (at > begin && run[at - 1].at_ns > entry.at_ns) {
        run[at] = run[at - 1];
        at--;
    }
    run[at] = entry;
}

static void add_to_run(muster_sim_queue *queue, uint32_t level, uint32_t digit)
{
    muster_sim_bucket bucket = take_bucket(queue, level, digit);
    size_t begin = queue->run.count;
    MUSTER_ASSERT(muster_vec_reserve(&queue->run, begin + bucket.count));
    for (uint32_t at = bucket.first; at != NOWHERE;) {
        const muster_sim_chunk *chunk = chunk_at(queue, at);
        for (uint32_t i = 0; i < chunk->count; i++) {
            sort_in(queue, begin, chunk->entries[i]);
        }
        at = give_chunk(queue, at);
    }
    queue->run_end_ns = (int64_t)end_of(begin_of(queue, level, digit), level);
}

static bool may_be_sorted(const muster_sim_queue *queue, uint32_t level,
                          uint32_t digit)
{
    return level == 0 || queue->buckets[level][digit].count <= BUCKET_SORTED;
}

/* The run has ended: make another of the first buckets. False when all items
 * are after until_ns: then nothing moves, for something may yet be scheduled
 * before. */
static bool next_run(muster_sim_queue *queue, int64_t until_ns)
{
    while (queue->levels != 0) {
        uint32_t level = (uint32_t)__builtin_ctz(queue->levels);
        uint32_t digit = (uint32_t)__builtin_ctzll(queue->used[level]);
        uint64_t begin = begin_of(queue, level, digit);
        if (end_of(begin, level) > (uint64_t)until_ns &&
            first_time(queue, &queue->buckets[level][digit]) > until_ns) {
            return false;
        }
        if (!may_be_sorted(queue, level, digit)) {
            spread(queue, level, digit);
            continue;
        }
        queue->base_ns = (int64_t)begin;
        queue->run.count = queue->run_next = 0;
        do {
            add_to_run(queue, level, digit);
            uint64_t later = queue->used[level];
            digit = later != 0 ? (uint32_t)__builtin_ctzll(later)
                               : MUSTER_SIM_BUCKETS;
        } while (digit < MUSTER_SIM_BUCKETS && queue->run.count < RUN_ENTRIES &&
                 may_be_sorted(queue, level, digit));
        return true;
    }
    return false;
}

/* How far ahead of an item its memory is asked for, stage by stage; the item
 * itself is before all of them. */
static const unsigned ahead_of_stage[MUSTER_SIM_STAGES] = {2, 4, 6, 9};
#define ITEM_AHEAD 13u

/* What is taken soon is told beforehand. */
static void look_ahead(const muster_sim *sim)
{
    const muster_sim_queue *queue = &sim->queue;
    const muster_sim_entry *next =
        (const muster_sim_entry *)queue->run.data + queue->run_next;
    size_t left = queue->run.count - queue->run_next;
    if (left > ITEM_AHEAD) {
        __builtin_prefetch(next[ITEM_AHEAD].item);
    }
    for (unsigned stage = 0; stage < MUSTER_SIM_STAGES; stage++) {
        if (left > ahead_of_stage[stage]) {
            muster_sim_prefetch(sim, next[ahead_of_stage[stage]].item, stage);
        }
    }
}

/* The first items of a run: those that look_ahead() does not come to. */
static void look_at_begin(const muster_sim *sim)
{
    const muster_sim_entry *run = sim->queue.run.data;
    size_t count = sim->queue.run.count;
    for (size_t i = 0; i < count && i < ITEM_AHEAD; i++) {
        __builtin_prefetch(run[i].item);
    }
    for (unsigned stage = MUSTER_SIM_STAGES; stage-- > 0;) {
        for (size_t i = 0; i < count && i < ahead_of_stage[stage]; i++) {
            muster_sim_prefetch(sim, run[i].item, stage);
        }
    }
}

bool muster_sim_pop(muster_sim *sim, int64_t until_ns,
                    muster_sim_item *item_out)
{
    muster_sim_queue *queue = &sim->queue;
    if (queue->run_next == queue->run.count) {
        if (!next_run(queue, until_ns)) {
            return false;
        }
        look_at_begin(sim);
    }
    const muster_sim_entry *first =
        (const muster_sim_entry *)queue->run.data + queue->run_next;
    if (first->at_ns > until_ns) {
        return false;
    }
    look_ahead(sim);
    *item_out = *first->item;
    ((muster_sim_item **)queue->free.data)[queue->free.count++] = first->item;
    queue->run_next++;
    return true;
}
