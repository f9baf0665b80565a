/*
 * cache.c -- decodings of known responder sets.
 *
 * A hash table with chains through a fixed array of entries, and a list of the
 * same entries by last use. A hit costs the hash and one comparison of the set;
 * nothing is allocated. An entry's memory is kept when it is reused.
 */
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"
#include "code/family.h"

#define NOTHING UINT32_MAX

typedef struct cache_entry {
    uint64_t hash;
    uint32_t next_in_chain;
    uint32_t newer;
    uint32_t older;
    bool is_used;
    uint32_t count; // responders
    uint32_t *responders;
    muster_code_decode_term *terms;
    size_t term_count;
    muster_code_fit fit;
    muster_status status;
} cache_entry;

struct muster_code_cache {
    const muster_code *code;
    uint32_t capacity;
    uint32_t used; // entries that hold a set
    uint32_t newest;
    uint32_t oldest;
    uint32_t chain_mask;
    uint32_t *chains; // first entry of each
    cache_entry *entries;
};

muster_status muster_code_cache_create(const muster_code *code,
                                       uint32_t capacity,
                                       muster_code_cache **cache_out)
{
    if (capacity == 0 || capacity > 1u << 20) {
        return MUSTER_ERR_INVALID;
    }
    uint32_t chains = 1;
    while (chains < 2 * capacity) {
        chains *= 2;
    }
    muster_code_cache *cache = muster_mem_array(1, sizeof(*cache));
    if (cache == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    cache->code = code;
    cache->capacity = capacity;
    cache->newest = NOTHING;
    cache->oldest = NOTHING;
    cache->chain_mask = chains - 1;
    cache->chains = muster_mem_array(chains, sizeof(uint32_t));
    cache->entries = muster_mem_array(capacity, sizeof(cache_entry));
    if (cache->chains == NULL || cache->entries == NULL) {
        muster_code_cache_free(cache);
        return MUSTER_ERR_NO_MEMORY;
    }
    memset(cache->chains, 0xff, chains * sizeof(uint32_t));
    *cache_out = cache;
    return MUSTER_OK;
}

void muster_code_cache_free(muster_code_cache *cache)
{
    if (cache == NULL) {
        return;
    }
    for (uint32_t i = 0; cache->entries != NULL && i < cache->capacity; i++) {
        muster_mem_free(cache->entries[i].responders);
        muster_mem_free(cache->entries[i].terms);
    }
    muster_mem_free(cache->chains);
    muster_mem_free(cache->entries);
    muster_mem_free(cache);
}

/* Four independent streams, so that the multiplications overlap. */
static uint64_t hash_set(const uint32_t *responders, uint32_t count)
{
    const uint64_t factor = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t h[4] = {count, 1, 2, 3};
    uint32_t i = 0;
    for (; i + 4 <= count; i += 4) {
        for (int j = 0; j < 4; j++) {
            h[j] = (h[j] ^ responders[i + (uint32_t)j]) * factor;
        }
    }
    for (; i < count; i++) {
        h[0] = (h[0] ^ responders[i]) * factor;
    }
    uint64_t all = h[0] ^ (h[1] << 16 | h[1] >> 48) ^ (h[2] << 32 | h[2] >> 32);
    all = (all ^ (h[3] << 48 | h[3] >> 16)) * factor;
    return all ^ all >> 29;
}

static void unlink_age(muster_code_cache *cache, uint32_t index)
{
    cache_entry *entry = &cache->entries[index];
    if (entry->newer != NOTHING) {
        cache->entries[entry->newer].older = entry->older;
    } else {
        cache->newest = entry->older;
    }
    if (entry->older != NOTHING) {
        cache->entries[entry->older].newer = entry->newer;
    } else {
        cache->oldest = entry->newer;
    }
}

static void make_newest(muster_code_cache *cache, uint32_t index)
{
    cache_entry *entry = &cache->entries[index];
    entry->newer = NOTHING;
    entry->older = cache->newest;
    if (cache->newest != NOTHING) {
        cache->entries[cache->newest].newer = index;
    } else {
        cache->oldest = index;
    }
    cache->newest = index;
}

static void unlink_chain(muster_code_cache *cache, uint32_t index)
{
    uint32_t *at =
        &cache->chains[cache->entries[index].hash & cache->chain_mask];
    while (*at != index) {
        at = &cache->entries[*at].next_in_chain;
    }
    *at = cache->entries[index].next_in_chain;
}

static uint32_t find(const muster_code_cache *cache, uint64_t hash,
                     const uint32_t *responders, uint32_t count)
{
    uint32_t index = cache->chains[hash & cache->chain_mask];
    while (index != NOTHING) {
        const cache_entry *entry = &cache->entries[index];
        if (entry->hash == hash && entry->count == count &&
            memcmp(entry->responders, responders, count * sizeof(uint32_t)) ==
                0) {
            return index;
        }
        index = entry->next_in_chain;
    }
    return NOTHING;
}

/* An entry with memory for any set, in no list: a fresh one, or the one used
 * longest ago. NOTHING when out of memory. */
static uint32_t take_entry(muster_code_cache *cache)
{
    if (cache->used == cache->capacity) {
        uint32_t index = cache->oldest;
        unlink_chain(cache, index);
        unlink_age(cache, index);
        cache->entries[index].is_used = false;
        cache->used--;
        return index;
    }
    // A free one is at `used`, or, after a failure, before it.
    cache_entry *entry = &cache->entries[cache->used];
    while (entry->is_used) {
        entry =
            entry == cache->entries ? entry + cache->capacity - 1 : entry - 1;
    }
    size_t terms = muster_code_decode_terms_max(cache->code);
    if (entry->responders == NULL) {
        entry->responders =
            muster_mem_array(cache->code->info.workers, sizeof(uint32_t));
    }
    if (entry->terms == NULL) {
        entry->terms = muster_mem_array(terms, sizeof(muster_code_decode_term));
    }
    return entry->responders != NULL && entry->terms != NULL
               ? (uint32_t)(entry - cache->entries)
               : NOTHING;
}

/* Solve for a set that is not known, and keep it. */
static muster_status learn(muster_code_cache *cache, uint64_t hash,
                           const uint32_t *responders, uint32_t count,
                           uint32_t *index_out)
{
    uint32_t index = take_entry(cache);
    if (index == NOTHING) {
        return MUSTER_ERR_NO_MEMORY;
    }
    cache_entry *entry = &cache->entries[index];
    muster_status status =
        muster_code_weights(cache->code, responders, count, entry->terms,
                            &entry->term_count, &entry->fit);
    if (status < 0) {
        return status;
    }
    entry->is_used = true;
    entry->status = status;
    entry->hash = hash;
    entry->count = count;
    memcpy(entry->responders, responders, count * sizeof(uint32_t));
    entry->next_in_chain = cache->chains[hash & cache->chain_mask];
    cache->chains[hash & cache->chain_mask] = index;
    make_newest(cache, index);
    cache->used++;
    *index_out = index;
    return status;
}

muster_status
muster_code_cache_weights(muster_code_cache *cache, const uint32_t *responders,
                          uint32_t count,
                          const muster_code_decode_term **terms_out,
                          size_t *term_count_out, muster_code_fit *fit_out)
{
    uint64_t hash = hash_set(responders, count);
    uint32_t index = find(cache, hash, responders, count);
    if (index != NOTHING) {
        unlink_age(cache, index);
        make_newest(cache, index);
    } else {
        muster_status status = learn(cache, hash, responders, count, &index);
        if (status < 0) {
            return status;
        }
    }
    const cache_entry *entry = &cache->entries[index];
    *terms_out = entry->terms;
    *term_count_out = entry->term_count;
    *fit_out = entry->fit;
    return entry->status;
}
