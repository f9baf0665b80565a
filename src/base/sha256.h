/*
 * base/sha256.h -- SHA-256 (FIPS 180-4), so that a file can be named by its
 * contents in a line that `sha256sum FILE` lets anyone check.
 *
 *   Threads      Pure.
 */
#ifndef MUSTER_BASE_SHA256_H
#define MUSTER_BASE_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MUSTER_SHA256_TEXT 65u // 64 hexadecimal digits and the end

typedef struct muster_sha256 {
    uint32_t state[8];
    uint64_t bytes;
    unsigned char block[64];
} muster_sha256;

muster_sha256 muster_sha256_make(void);
void muster_sha256_add(muster_sha256 *hash, const void *bytes, size_t size);
/* The digest in hexadecimal; `hash` has ended. */
void muster_sha256_text(muster_sha256 *hash, char text_out[MUSTER_SHA256_TEXT]);

/* The digest of a file. False: it is no regular file, or cannot be read. */
bool muster_sha256_file(const char *path, char text_out[MUSTER_SHA256_TEXT]);

#endif // MUSTER_BASE_SHA256_H
