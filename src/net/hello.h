/*
 * net/hello.h -- the first eighty bytes that each side sends.
 *
 * Magic, protocol version, length, engine (0 sock, 1 ucx), and zeros for later
 * versions. The layout
 * stays the same for every protocol version, so that two versions can tell each
 * other that they do not match. With a run key the hello is the first thing
 * that travels inside TLS (tls.h).
 *
 *   Threads      Pure functions.
 */
#ifndef MUSTER_NET_HELLO_H
#define MUSTER_NET_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "muster/status.h"

#define MUSTER_HELLO_BYTES    80u
#define MUSTER_HELLO_RESERVED 64u

typedef struct muster_hello {
    uint32_t version;
    bool fabric; // messages are to travel by UCX
} muster_hello;

/* `bytes` has room for MUSTER_HELLO_BYTES. */
void muster_hello_write(const muster_hello *hello, uint8_t *bytes);

/* Read the first `size` bytes of a connection. MUSTER_IN_PROGRESS: so far they
 * can be a hello, more are needed (nothing written). MUSTER_ERR_REFUSED: they
 * are of TLS, so the other side has a run key. MUSTER_ERR_PROTOCOL: whatever
 * follows, they are no hello. */
MUSTER_CHECKED muster_status muster_hello_read(const uint8_t *bytes,
                                               size_t size,
                                               muster_error *error_out,
                                               muster_hello *hello_out);

/* MUSTER_ERR_REFUSED and why, naming both versions or engines, when `theirs`
 * may not talk to us. */
MUSTER_CHECKED muster_status muster_hello_check(const muster_hello *ours,
                                                const muster_hello *theirs,
                                                muster_error *error_out);

#endif // MUSTER_NET_HELLO_H
