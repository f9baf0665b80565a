/*
 * record/hash.h -- a 64-bit checksum of stored bytes.
 *
 * Four lanes of multiply, rotate and xor over 8-byte words, then a finishing
 * mix: about memory speed, and any flipped bit changes the result. It finds
 * damage; it does not stop someone who wants to forge.
 *
 *   Determinism  The same on every little-endian machine, for ever: it is
 *                stored in checkpoints.
 */
#ifndef MUSTER_RECORD_HASH_H
#define MUSTER_RECORD_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Hash `size` bytes; the hash of several pieces is chained through `seed`. */
uint64_t muster_hash64(const void *bytes, size_t size, uint64_t seed);

#endif // MUSTER_RECORD_HASH_H
