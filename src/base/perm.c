#include "base/perm.h"

#include "base/assert.h"
#include "base/rng.h"

#define PERM_ROUNDS    6
#define TABLE_BITS_MAX 11                  // 4 KiB of hashes
#define PERM_STREAM    0x7065726d75746501u // apart from other uses of a seed

muster_perm muster_perm_make(uint64_t seed, uint64_t epoch, uint64_t count)
{
    MUSTER_ASSERT(count >= 1);
    muster_perm perm = {.count = count, .half_bits = 1};
    while (perm.half_bits < 31 && (count - 1) >> (2 * perm.half_bits) != 0) {
        perm.half_bits++;
    }
    MUSTER_ASSERT((count - 1) >> (2 * perm.half_bits) == 0);
    for (unsigned i = 0; i < PERM_ROUNDS; i++) {
        perm.keys[i] = muster_rng_at(seed, PERM_STREAM + i, epoch);
    }
    return perm;
}

// A full-width integer hash (the finaliser of splitmix64).
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t feistel(const muster_perm *perm, uint64_t x)
{
    uint64_t mask = ((uint64_t)1 << perm->half_bits) - 1;
    uint64_t left = x >> perm->half_bits;
    uint64_t right = x & mask;
    for (unsigned i = 0; i < PERM_ROUNDS; i++) {
        uint64_t next = left ^ (mix(right + perm->keys[i]) & mask);
        left = right;
        right = next;
    }
    return left << perm->half_bits | right;
}

/* A round hashes the right half alone, which has few values: with more
 * positions than that, look the hashes up. Round by round, so that one table is
 * on the stack. */
static void feistel_run(const muster_perm *perm, uint64_t first, uint64_t count,
                        uint32_t *out)
{
    uint16_t hashes[1u << TABLE_BITS_MAX];
    unsigned bits = perm->half_bits;
    uint32_t mask = ((uint32_t)1 << bits) - 1;
    for (uint64_t p = 0; p < count; p++) {
        out[p] = (uint32_t)(first + p);
    }
    for (unsigned i = 0; i < PERM_ROUNDS; i++) {
        for (uint32_t right = 0; right <= mask; right++) {
            hashes[right] = (uint16_t)(mix(right + perm->keys[i]) & mask);
        }
        for (uint64_t p = 0; p < count; p++) {
            uint32_t right = out[p] & mask;
            out[p] = right << bits | (out[p] >> bits ^ hashes[right]);
        }
    }
}

void muster_perm_run(const muster_perm *perm, uint64_t first, uint64_t count,
                     uint32_t *elements_out)
{
    MUSTER_ASSERT(first <= perm->count && count <= perm->count - first);
    if (perm->half_bits > TABLE_BITS_MAX || count >> perm->half_bits < 2) {
        for (uint64_t p = 0; p < count; p++) {
            elements_out[p] = (uint32_t)muster_perm_at(perm, first + p);
        }
        return;
    }
    feistel_run(perm, first, count, elements_out);
    for (uint64_t p = 0; p < count; p++) {
        if (elements_out[p] >= perm->count) { // walk on
            uint64_t x = feistel(perm, elements_out[p]);
            while (x >= perm->count) {
                x = feistel(perm, x);
            }
            elements_out[p] = (uint32_t)x;
        }
    }
}

uint64_t muster_perm_at(const muster_perm *perm, uint64_t position)
{
    MUSTER_ASSERT(position < perm->count);
    // The domain is at most four times count, so the walk is short.
    uint64_t x = position;
    do {
        x = feistel(perm, x);
    } while (x >= perm->count);
    return x;
}
