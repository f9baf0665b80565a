/*
 * hash.c -- see hash.h. Every step is a bijection of the lane for a given word
 * and of the word for a given lane, so that two inputs which differ in one word
 * never meet before the final mix.
 */
#include "record/hash.h"

#include <string.h>

#define PRIME_A 0x9e3779b97f4a7c15u
#define PRIME_B 0xc2b2ae3d27d4eb4fu
#define PRIME_C 0x165667b19e3779f9u

static uint64_t rotate(uint64_t value, unsigned bits)
{
    return value << bits | value >> (64 - bits);
}

static uint64_t absorb(uint64_t lane, uint64_t word)
{
    return rotate(lane ^ (word * PRIME_A), 29) * PRIME_B;
}

static uint64_t word_at(const unsigned char *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof(word));
    return word;
}

static uint64_t finish(uint64_t hash)
{
    hash ^= hash >> 33;
    hash *= PRIME_B;
    hash ^= hash >> 29;
    hash *= PRIME_C;
    return hash ^ hash >> 32;
}

uint64_t muster_hash64(const void *bytes, size_t size, uint64_t seed)
{
    const unsigned char *next = bytes;
    size_t left = size;
    uint64_t lanes[4] = {seed, seed + PRIME_A, seed ^ PRIME_B, seed - PRIME_C};
    for (; left >= 32; left -= 32, next += 32) {
        for (size_t i = 0; i < 4; i++) {
            lanes[i] = absorb(lanes[i], word_at(next + 8 * i));
        }
    }
    uint64_t hash = size;
    for (size_t i = 0; i < 4; i++) {
        hash = absorb(hash, lanes[i]);
    }
    for (; left >= 8; left -= 8, next += 8) {
        hash = absorb(hash, word_at(next));
    }
    for (; left > 0; left--, next++) {
        hash = absorb(hash, *next);
    }
    return finish(hash);
}
