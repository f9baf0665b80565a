/*
 * net/hello.h -- the first eighty bytes that each side sends.
 *
 * Magic, protocol version, length, a fresh nonce, and a proof. The layout
 * stays the same for every protocol version, so that two versions can tell
 * each other that they do not match. The proof is where a keyed code of the
 * nonces goes: prove() and check() are the only places that know about keys.
 *
 *   Threads      Pure functions.
 */
#ifndef MUSTER_NET_HELLO_H
#define MUSTER_NET_HELLO_H

#include <stddef.h>
#include <stdint.h>

#include "muster/status.h"

#define MUSTER_HELLO_BYTES       80u
#define MUSTER_HELLO_NONCE_BYTES 32u
#define MUSTER_HELLO_PROOF_BYTES 32u

typedef struct muster_hello {
    uint32_t version;
    uint8_t nonce[MUSTER_HELLO_NONCE_BYTES];
    uint8_t proof[MUSTER_HELLO_PROOF_BYTES]; // zeros without a key
} muster_hello;

/* `bytes` has room for MUSTER_HELLO_BYTES. */
void muster_hello_write(const muster_hello *hello, uint8_t *bytes);

/* Read the first `size` bytes of a connection. MUSTER_IN_PROGRESS: so far they
 * can be a hello, more are needed (nothing written). MUSTER_ERR_PROTOCOL:
 * whatever follows, they are not. */
MUSTER_CHECKED muster_status muster_hello_read(const uint8_t *bytes,
                                               size_t size,
                                               muster_error *error_out,
                                               muster_hello *hello_out);

/* Fill in our proof; without a key it is zeros. */
void muster_hello_prove(const uint8_t *key, muster_hello *hello);

/* MUSTER_ERR_REFUSED and why, naming both versions, when `theirs` may not
 * talk to us: another version, or no proof where our key asks for one. */
MUSTER_CHECKED muster_status muster_hello_check(const uint8_t *key,
                                                uint32_t our_version,
                                                const muster_hello *theirs,
                                                muster_error *error_out);

#endif // MUSTER_NET_HELLO_H
