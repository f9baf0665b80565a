/*
 * cache.c -- decodings of known responder sets.
 *
 * A hash table with chains through a fixed array of entries, and a list of the
 * same entries by last use. A hit costs the hash and one comparison of the set;
 * nothing is allocated. A miss solves first and takes an entry only when all
 * memory is there, so that a failure changes nothing.
 */
#include "code/cache.h"

#include <string.h>

#include "base/mem.h"
#include "base/sized.h"
#include "code/family.h"

#define NOTHING UINT32_MAX

typedef struct cache_entry {
    uint64_t hash;
    uint32_t next_in_chain;
    uint32_t newer;
    uint32_t older;
    uint32_t count; // responders
    uint32_t *responders;
    muster_decoding *decoding;
} cache_entry;

struct muster_code_cache {
    const muster_code *code;
    uint32_t capacity;
    uint32_t used; // entries that hold a set: the first ones
    uint32_t newest;
    uint32_t oldest;
    uint32_t chain_mask;
    uint32_t *chains; // first entry of each
    cache_entry *entries;
    muster_code_decode_term *terms; // scratch of a solve
    uint64_t solved;
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
    cache->terms = muster_mem_array(muster_code_decode_terms_max(code),
                                    sizeof(muster_code_decode_term));
    if (cache->chains == NULL || cache->entries == NULL ||
        cache->terms == NULL) {
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
    for (uint32_t i = 0; cache->entries != NULL && i < cache->used; i++) {
        muster_mem_free(cache->entries[i].responders);
        muster_decoding_unref(cache->entries[i].decoding);
    }
    muster_mem_free(cache->chains);
    muster_mem_free(cache->entries);
    muster_mem_free(cache->terms);
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
            (count == 0 || memcmp(entry->responders, responders,
                                  count * sizeof(uint32_t)) == 0)) {
            return index;
        }
        index = entry->next_in_chain;
    }
    return NOTHING;
}

/* An entry that is in no list: a fresh one, or the one used longest ago. */
static uint32_t take_entry(muster_code_cache *cache)
{
    if (cache->used < cache->capacity) {
        return cache->used++;
    }
    uint32_t index = cache->oldest;
    unlink_chain(cache, index);
    unlink_age(cache, index);
    muster_mem_free(cache->entries[index].responders);
    muster_decoding_unref(cache->entries[index].decoding);
    return index;
}

/* The decoding of a set that is not known; NULL: *status_out says why. */
static muster_decoding *solve(muster_code_cache *cache,
                              const uint32_t *responders, uint32_t count,
                              muster_status *status_out)
{
    muster_code_query query = {
        .responders = responders, .count = count, .terms = cache->terms};
    *status_out = muster_code_solve(cache->code, &query);
    if (*status_out < 0) {
        return NULL;
    }
    muster_decoding *decoding = muster_decoding_create(
        cache->code, *status_out, query.terms, query.term_count, &query.fit);
    if (decoding == NULL) {
        *status_out = MUSTER_ERR_NO_MEMORY;
    }
    return decoding;
}

/* Solve for a set that is not known, and keep it. */
static muster_status learn(muster_code_cache *cache, uint64_t hash,
                           const uint32_t *responders, uint32_t count,
                           uint32_t *index_out)
{
    muster_status status = MUSTER_ERR_NO_MEMORY;
    uint32_t *own = muster_mem_array(count, sizeof(*own));
    muster_decoding *decoding =
        own != NULL ? solve(cache, responders, count, &status) : NULL;
    if (decoding == NULL) {
        muster_mem_free(own);
        return status;
    }
    if (count > 0) {
        memcpy(own, responders, count * sizeof(*own));
    }
    uint32_t index = take_entry(cache);
    uint32_t *chain = &cache->chains[hash & cache->chain_mask];
    cache->entries[index] = (cache_entry){.hash = hash,
                                          .next_in_chain = *chain,
                                          .count = count,
                                          .responders = own,
                                          .decoding = decoding};
    *chain = index;
    make_newest(cache, index);
    cache->solved++;
    *index_out = index;
    return status;
}

muster_status muster_code_cache_get(muster_code_cache *cache,
                                    const uint32_t *responders, uint32_t count,
                                    muster_decoding **decoding_out)
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
    *decoding_out = cache->entries[index].decoding;
    return (*decoding_out)->status;
}

uint64_t muster_code_cache_solved(const muster_code_cache *cache)
{
    return cache->solved;
}

muster_status
muster_code_cache_weights(muster_code_cache *cache, const uint32_t *responders,
                          uint32_t count,
                          const muster_code_decode_term **terms_out,
                          size_t *term_count_out, muster_code_fit *fit_out)
{
    if (!muster_code_fit_is_legal(fit_out)) {
        return MUSTER_ERR_INVALID;
    }
    muster_decoding *decoding = NULL;
    muster_status status =
        muster_code_cache_get(cache, responders, count, &decoding);
    if (status >= 0) {
        *terms_out = decoding->terms;
        *term_count_out = decoding->term_count;
        muster_sized_fill(fit_out, &decoding->fit, sizeof(decoding->fit));
    }
    return status;
}
