/*
 * A key by Philox for each sample and layer, then SplitMix64 (Steele et al.,
 * 2014) along the units: 16 bits each, four a draw. Philox for every draw would
 * take as long as a narrow layer's products.
 */
#include "model/dropout.h"

#include "base/assert.h"
#include "base/rng.h"

#define STREAM 0x64726f70u // of the seed: apart from batches and starts
#define FIELDS 4u

muster_dropout muster_dropout_make(double p, uint64_t seed, uint64_t step)
{
    uint32_t threshold = (uint32_t)(p * 65536 + 0.5);
    threshold = threshold < 65535 ? threshold : 65535;
    return (muster_dropout){
        .threshold = threshold,
        .scale = 65536.0f / (float)(65536 - threshold),
        .key = muster_rng_at(seed, STREAM, step),
    };
}

static inline uint64_t split_mix(uint64_t key, uint64_t index)
{
    uint64_t z = key + (index + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void muster_dropout_apply(const muster_dropout *dropout, uint32_t sample,
                          uint32_t layer, float *x, size_t begin, size_t count)
{
    MUSTER_ASSERT(begin % FIELDS == 0);
    const uint64_t key = muster_rng_at(dropout->key, layer, sample);
    for (size_t i = 0; i < count; i += FIELDS) {
        uint64_t bits = split_mix(key, (begin + i) / FIELDS);
        size_t some = count - i < FIELDS ? count - i : FIELDS;
        for (size_t f = 0; f < some; f++) {
            uint32_t drawn = (uint32_t)(bits >> (16 * f)) & 0xffff;
            x[i + f] *= drawn < dropout->threshold ? 0 : dropout->scale;
        }
    }
}
