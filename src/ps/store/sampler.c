/*
 * sampler.c -- the sampling schemes.
 *
 * A handle owns a run of positions in one ring of keys. INDEPENDENT, REUSE and
 * POSTPONE fill their positions at prepare, so that rows can travel meanwhile.
 * LOCAL and REPURPOSE only reserve positions, and choose keys at pull, when
 * they see which rows are here.
 *
 * Invariants
 *  1. head - tail <= MUSTER_PS_SAMPLES_MAX; positions of live handles do not
 *     overlap; tail is the first position of the oldest live handle.
 *  2. POSTPONE moves a key at most once: it swaps the key that is pulled with
 *     the last key of the handle that was not postponed yet.
 */
#include "ps/store/sampler.h"

#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

#define RING          MUSTER_PS_SAMPLES_MAX
#define HANDLES       MUSTER_PS_SAMPLE_HANDLES_MAX
#define LOCAL_REDRAWS 16u
#define LOCAL_WALK    4096u
#define NOTED         256u
#define GROUP_MAX     16384u
#define REUSE_MAX     1024u

typedef struct run {
    uint32_t id;    // 0: free
    uint64_t next;  // first position not pulled
    uint64_t fresh; // POSTPONE: keys from this position on were postponed
    uint64_t end;
} run;

struct muster_sampler {
    const muster_key_distribution *target;
    muster_nearby nearby;
    uint32_t scheme;
    uint32_t reuse;
    uint32_t group;
    muster_draws draws;
    run runs[HANDLES];
    uint32_t last_id;
    uint64_t head; // next free position
    uint64_t tail; // oldest position in use
    uint32_t *ring;
    uint32_t *pool;     // REUSE: the group
    uint32_t pool_used; // samples given from this pool, of group * reuse
    uint32_t noted[NOTED];
    uint64_t noted_count;
};

static bool fills_ring(uint32_t scheme)
{
    return scheme <= MUSTER_PS_POSTPONE;
}

muster_status muster_sampler_create(const muster_key_distribution *target,
                                    const muster_sampler_opts *opts,
                                    const muster_nearby *nearby,
                                    muster_sampler **sampler_out)
{
    if (opts->scheme < MUSTER_PS_INDEPENDENT ||
        opts->scheme > MUSTER_PS_REPURPOSE || opts->reuse < 1 ||
        opts->reuse > REUSE_MAX || opts->group < 1 || opts->group > GROUP_MAX) {
        return MUSTER_ERR_INVALID;
    }
    muster_sampler *sampler = muster_mem_array(1, sizeof(*sampler));
    if (sampler == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    sampler->target = target;
    sampler->nearby = *nearby;
    sampler->scheme = opts->scheme;
    sampler->reuse = opts->reuse;
    sampler->group = opts->group;
    sampler->pool_used = opts->group * opts->reuse;
    sampler->draws = muster_draws_make(opts->seed, opts->stream);
    sampler->ring = muster_mem_array(RING, sizeof(*sampler->ring));
    sampler->pool = muster_mem_array(opts->group, sizeof(*sampler->pool));
    if (sampler->ring == NULL || sampler->pool == NULL) {
        muster_sampler_free(sampler);
        return MUSTER_ERR_NO_MEMORY;
    }
    *sampler_out = sampler;
    return MUSTER_OK;
}

void muster_sampler_free(muster_sampler *sampler)
{
    if (sampler == NULL) {
        return;
    }
    muster_mem_free(sampler->ring);
    muster_mem_free(sampler->pool);
    muster_mem_free(sampler);
}

void muster_sampler_seek(muster_sampler *sampler, muster_draws draws)
{
    sampler->draws = draws;
}

static run *find_run(muster_sampler *sampler, uint32_t id)
{
    for (uint32_t i = 0; id != 0 && i < HANDLES; i++) {
        if (sampler->runs[i].id == id) {
            return &sampler->runs[i];
        }
    }
    return NULL;
}

static run *free_run(muster_sampler *sampler)
{
    for (uint32_t i = 0; i < HANDLES; i++) {
        if (sampler->runs[i].id == 0) {
            return &sampler->runs[i];
        }
    }
    return NULL;
}

static void shuffle(muster_draws *draws, uint32_t *keys, uint32_t count)
{
    for (uint32_t i = count; i > 1; i--) {
        uint32_t j = muster_draws_below(draws, i);
        uint32_t kept = keys[i - 1];
        keys[i - 1] = keys[j];
        keys[j] = kept;
    }
}

/* The next sample of the pool; the rows of a new group are requested at once.
 */
static uint32_t reuse_next(muster_sampler *sampler)
{
    uint32_t at = sampler->pool_used % sampler->group;
    if (sampler->pool_used == sampler->group * sampler->reuse) {
        for (uint32_t i = 0; i < sampler->group; i++) {
            sampler->pool[i] =
                muster_key_distribution_draw(sampler->target, &sampler->draws);
        }
        sampler->nearby.bring(sampler->nearby.context, sampler->pool,
                              sampler->group);
        sampler->pool_used = 0;
    } else if (at == 0) {
        shuffle(&sampler->draws, sampler->pool, sampler->group);
    }
    sampler->pool_used++;
    return sampler->pool[at];
}

/* Draw into the ring and request the rows, one contiguous piece at a time. */
static void fill_independent(muster_sampler *sampler, uint64_t from,
                             uint64_t end)
{
    while (from < end) {
        uint64_t start = from % RING;
        uint64_t piece = end - from < RING - start ? end - from : RING - start;
        muster_key_distribution_draw_many(sampler->target, &sampler->draws,
                                          &sampler->ring[start], piece);
        sampler->nearby.bring(sampler->nearby.context, &sampler->ring[start],
                              piece);
        from += piece;
    }
}

muster_status muster_sampler_prepare(muster_sampler *sampler, size_t count,
                                     uint32_t *handle_out)
{
    run *into = free_run(sampler);
    if (count == 0) {
        return MUSTER_ERR_INVALID;
    }
    if (into == NULL || count > RING ||
        sampler->head - sampler->tail > RING - count) {
        return MUSTER_ERR_AGAIN;
    }
    uint64_t end = sampler->head + count;
    if (sampler->scheme == MUSTER_PS_INDEPENDENT) {
        fill_independent(sampler, sampler->head, end);
    } else if (fills_ring(sampler->scheme)) {
        for (uint64_t i = sampler->head; i < end; i++) {
            sampler->ring[i % RING] = reuse_next(sampler);
        }
    }
    sampler->last_id =
        sampler->last_id == UINT32_MAX ? 1 : sampler->last_id + 1;
    *into = (run){.id = sampler->last_id,
                  .next = sampler->head,
                  .fresh = end,
                  .end = end};
    sampler->head = end;
    *handle_out = into->id;
    return MUSTER_OK;
}

static bool here(const muster_sampler *sampler, uint32_t key)
{
    return sampler->nearby.here(sampler->nearby.context, key);
}

/* POSTPONE: when the row of the next key is not here, swap the key with a later
 * one. A postponed key is not swapped again. */
static uint32_t postpone_next(muster_sampler *sampler, run *from)
{
    uint32_t *key = &sampler->ring[from->next % RING];
    if (from->next < from->fresh && from->next + 1 < from->fresh &&
        !here(sampler, *key)) {
        uint32_t *later = &sampler->ring[--from->fresh % RING];
        uint32_t kept = *key;
        *key = *later;
        *later = kept;
    }
    return sampler->ring[from->next++ % RING];
}

static uint32_t local_next(muster_sampler *sampler)
{
    uint32_t key = 0;
    for (uint32_t i = 0; i < LOCAL_REDRAWS; i++) {
        key = muster_key_distribution_draw(sampler->target, &sampler->draws);
        if (here(sampler, key)) {
            return key;
        }
    }
    // Few rows are here: take the next higher key that has its row here and can
    // be drawn. To search a large range would cost more than a remote row.
    uint32_t first = muster_key_distribution_first(sampler->target);
    uint32_t count = muster_key_distribution_count(sampler->target);
    for (uint32_t i = 1; i < count && i <= LOCAL_WALK; i++) {
        uint32_t next =
            first + (uint32_t)(((uint64_t)(key - first) + i) % count);
        if (muster_key_distribution_possible(sampler->target, next) &&
            here(sampler, next)) {
            return next;
        }
    }
    return key;
}

static uint32_t repurpose_next(muster_sampler *sampler)
{
    uint64_t have = sampler->noted_count < NOTED ? sampler->noted_count : NOTED;
    for (uint32_t i = 0; have > 0 && i < LOCAL_REDRAWS; i++) {
        uint32_t key =
            sampler->noted[muster_draws_below(&sampler->draws, (uint32_t)have)];
        if (here(sampler, key)) {
            return key;
        }
    }
    return local_next(sampler);
}

static void release_positions(muster_sampler *sampler)
{
    uint64_t tail = sampler->head;
    for (uint32_t i = 0; i < HANDLES; i++) {
        const run *one = &sampler->runs[i];
        if (one->id != 0 && one->next < tail) {
            tail = one->next;
        }
    }
    MUSTER_ASSERT(tail >= sampler->tail && sampler->head - tail <= RING);
    sampler->tail = tail;
}

static uint32_t next_key(muster_sampler *sampler, run *from)
{
    switch (sampler->scheme) {
    case MUSTER_PS_POSTPONE:
        return postpone_next(sampler, from);
    case MUSTER_PS_LOCAL:
        from->next++;
        return local_next(sampler);
    case MUSTER_PS_REPURPOSE:
        from->next++;
        return repurpose_next(sampler);
    default:
        return sampler->ring[from->next++ % RING];
    }
}

/* The next keys of the ring as they are. */
static void copy_keys(const muster_sampler *sampler, run *from, size_t count,
                      uint32_t *keys_out)
{
    size_t start = from->next % RING;
    size_t piece = count < RING - start ? count : RING - start;
    memcpy(keys_out, &sampler->ring[start], piece * sizeof(*keys_out));
    memcpy(keys_out + piece, sampler->ring,
           (count - piece) * sizeof(*keys_out));
    from->next += count;
}

muster_status muster_sampler_pull(muster_sampler *sampler, uint32_t handle,
                                  size_t count, uint32_t *keys_out)
{
    run *from = find_run(sampler, handle);
    if (from == NULL || count > from->end - from->next) {
        return MUSTER_ERR_INVALID;
    }
    if (sampler->scheme == MUSTER_PS_INDEPENDENT) {
        copy_keys(sampler, from, count, keys_out);
    } else {
        for (size_t i = 0; i < count; i++) {
            keys_out[i] = next_key(sampler, from);
        }
    }
    if (from->next == from->end) {
        from->id = 0;
    }
    release_positions(sampler);
    return MUSTER_OK;
}

muster_status muster_sampler_finish(muster_sampler *sampler, uint32_t handle)
{
    run *ended = find_run(sampler, handle);
    if (ended == NULL) {
        return MUSTER_ERR_INVALID;
    }
    ended->id = 0;
    release_positions(sampler);
    return MUSTER_OK;
}

void muster_sampler_note(muster_sampler *sampler, uint32_t key)
{
    if (sampler->scheme != MUSTER_PS_REPURPOSE) {
        return;
    }
    uint32_t first = muster_key_distribution_first(sampler->target);
    if (key >= first &&
        key - first < muster_key_distribution_count(sampler->target)) {
        sampler->noted[sampler->noted_count++ % NOTED] = key;
    }
}
