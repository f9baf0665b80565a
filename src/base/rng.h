/*
 * base/rng.h -- random numbers that are a function of where they are used.
 *
 * Philox 4x32-10 (Salmon et al., SC 2011): a key and a counter give the bits,
 * there is no state to carry. Two machines that know (seed, stream, index) draw
 * the same number, a resumed run draws what the uninterrupted one would have,
 * and threads need no lock. muster_rng is a cursor over such a sequence for
 * code that just wants the next number.
 *
 *   Determinism  The integers are the same on every machine, for ever. Normals
 *                and exponentials go through libm and may differ in the last
 *                bit between machines.
 *   Threads      muster_rng_at is pure; a muster_rng belongs to one thread.
 */
#ifndef MUSTER_BASE_RNG_H
#define MUSTER_BASE_RNG_H

#include <stdint.h>

/* 64 random bits for (seed, stream, index). */
uint64_t muster_rng_at(uint64_t seed, uint64_t stream, uint64_t index);

typedef struct muster_rng {
    uint64_t seed;
    uint64_t stream;
    uint64_t index; // of the next draw
} muster_rng;

/* A cursor at index 0. Streams of one seed are independent. */
muster_rng muster_rng_make(uint64_t seed, uint64_t stream);

uint64_t muster_rng_next(muster_rng *rng);

/* Uniform in [0, 1), 53 bits. */
double muster_rng_uniform(muster_rng *rng);

/* Uniform in 0..bound-1, without modulo bias; bound > 0. */
uint64_t muster_rng_below(muster_rng *rng, uint64_t bound);

/* Standard normal (Box-Muller, two draws). */
double muster_rng_normal(muster_rng *rng);

/* Exponential with mean 1. */
double muster_rng_exponential(muster_rng *rng);

#endif // MUSTER_BASE_RNG_H
