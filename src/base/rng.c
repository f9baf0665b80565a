#include "base/rng.h"

#include <Random123/philox.h>
#include <math.h>

#include "base/assert.h"

uint64_t muster_rng_at(uint64_t seed, uint64_t stream, uint64_t index)
{
    philox4x32_ctr_t counter = {{(uint32_t)index, (uint32_t)(index >> 32),
                                 (uint32_t)stream, (uint32_t)(stream >> 32)}};
    philox4x32_key_t key = {{(uint32_t)seed, (uint32_t)(seed >> 32)}};
    philox4x32_ctr_t bits = philox4x32(counter, key);
    return (uint64_t)bits.v[1] << 32 | bits.v[0];
}

muster_rng muster_rng_make(uint64_t seed, uint64_t stream)
{
    return (muster_rng){.seed = seed, .stream = stream, .index = 0};
}

uint64_t muster_rng_next(muster_rng *rng)
{
    return muster_rng_at(rng->seed, rng->stream, rng->index++);
}

double muster_rng_uniform(muster_rng *rng)
{
    return (double)(muster_rng_next(rng) >> 11) * 0x1p-53;
}

uint64_t muster_rng_below(muster_rng *rng, uint64_t bound)
{
    MUSTER_ASSERT(bound > 0);
    // Draws below 2^64 mod bound would make small results likelier.
    uint64_t reject_below = (0 - bound) % bound;
    uint64_t draw;
    do {
        draw = muster_rng_next(rng);
    } while (draw < reject_below);
    return draw % bound;
}

double muster_rng_normal(muster_rng *rng)
{
    double radius = sqrt(2.0 * muster_rng_exponential(rng));
    double angle = 6.283185307179586477 * muster_rng_uniform(rng);
    return radius * cos(angle);
}

double muster_rng_exponential(muster_rng *rng)
{
    return -log1p(-muster_rng_uniform(rng));
}
