/*
 * sha256.c -- see sha256.h. The names of the standard are kept in the rounds.
 */
#define _POSIX_C_SOURCE 200809L
#include "base/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
    0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotated(uint32_t word, unsigned bits)
{
    return word >> bits | word << (32 - bits);
}

static void schedule(const unsigned char block[64], uint32_t w[64])
{
    for (size_t i = 0; i < 16; i++) {
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    }
    for (size_t i = 16; i < 64; i++) {
        uint32_t s0 =
            rotated(w[i - 15], 7) ^ rotated(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t s1 =
            rotated(w[i - 2], 17) ^ rotated(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
}

static void mix_block(uint32_t state[8], const unsigned char block[64])
{
    uint32_t w[64];
    uint32_t v[8];
    schedule(block, w);
    memcpy(v, state, sizeof(v));
    for (unsigned i = 0; i < 64; i++) {
        uint32_t s1 = rotated(v[4], 6) ^ rotated(v[4], 11) ^ rotated(v[4], 25);
        uint32_t ch = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint32_t t1 = v[7] + s1 + ch + constants[i] + w[i];
        uint32_t s0 = rotated(v[0], 2) ^ rotated(v[0], 13) ^ rotated(v[0], 22);
        uint32_t maj = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        memmove(v + 1, v, 7 * sizeof(v[0]));
        v[4] += t1;
        v[0] = t1 + s0 + maj;
    }
    for (unsigned i = 0; i < 8; i++) {
        state[i] += v[i];
    }
}

muster_sha256 muster_sha256_make(void)
{
    return (muster_sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372,
                                     0xa54ff53a, 0x510e527f, 0x9b05688c,
                                     0x1f83d9ab, 0x5be0cd19}};
}

void muster_sha256_add(muster_sha256 *hash, const void *bytes, size_t size)
{
    const unsigned char *next = bytes;
    while (size > 0) {
        size_t at = hash->bytes % sizeof(hash->block);
        size_t room = sizeof(hash->block) - at;
        size_t part = size < room ? size : room;
        memcpy(hash->block + at, next, part);
        hash->bytes += part;
        next += part;
        size -= part;
        if (part == room) {
            mix_block(hash->state, hash->block);
        }
    }
}

void muster_sha256_text(muster_sha256 *hash, char text_out[MUSTER_SHA256_TEXT])
{
    static const unsigned char padding[64] = {0x80};
    uint64_t bits = hash->bytes * 8;
    size_t at = hash->bytes % 64;
    unsigned char length[8];
    for (unsigned i = 0; i < 8; i++) {
        length[i] = (unsigned char)(bits >> (56 - 8 * i));
    }
    muster_sha256_add(hash, padding, (at < 56 ? 56 : 120) - at);
    muster_sha256_add(hash, length, sizeof(length));
    for (unsigned i = 0; i < 8; i++) {
        (void)snprintf(text_out + (size_t)8 * i, 9, "%08x", hash->state[i]);
    }
}

/* A path that is somebody else's word may be a pipe, which would be waited
 * for, or a device without an end. */
static int open_regular(const char *path)
{
    struct stat facts;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0 && (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode))) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

bool muster_sha256_file(const char *path, char text_out[MUSTER_SHA256_TEXT])
{
    char bytes[16384];
    muster_sha256 hash = muster_sha256_make();
    int fd = open_regular(path);
    ssize_t count = fd >= 0 ? 1 : -1;
    while (count > 0) {
        do {
            count = read(fd, bytes, sizeof(bytes));
        } while (count < 0 && errno == EINTR);
        muster_sha256_add(&hash, bytes, count > 0 ? (size_t)count : 0);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    muster_sha256_text(&hash, text_out);
    return count == 0;
}
