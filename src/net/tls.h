/*
 * net/tls.h -- TLS 1.3 with a run key, between two byte buffers.
 *
 * No socket is touched here: what comes from the peer is put into a buffer,
 * what is to be sent is taken from another one. conn_tls.c moves both to and
 * from a socket. There are no certificates. Both sides prove that they have the
 * run key (a pre-shared key with an ephemeral key exchange, X25519), and the
 * connection's own keys are fresh.
 *
 *   socket -> in_room, in_added -> read -> plain text
 *   plain text -> write -> out, out_taken -> socket
 *
 *   Promise      Before `step` has said MUSTER_OK, which it does only when the
 *                peer has proved the key, no plain text comes out. At most
 *                MUSTER_TLS_BEFORE_BYTES are taken from a peer until then. A
 *                handshake without the key fails at both ends, also where the
 *                other one shows a certificate. Sending keys are changed every
 *                MUSTER_TLS_KEY_RECORDS records.
 *   Ownership    A muster_tls_context outlives its connections.
 *   Threads      One at a time; it may change.
 *   Allocation   create; OpenSSL has a heap of its own.
 *   Not here     Cryptography: OpenSSL's.
 */
#ifndef MUSTER_NET_TLS_H
#define MUSTER_NET_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "muster/status.h"
#include "net/run_key.h"

#define MUSTER_TLS_PIECE_BYTES  16384u // of plain text, at most, in a record
#define MUSTER_TLS_BEFORE_BYTES 16384u
#define MUSTER_TLS_KEY_RECORDS  (1u << 22) // 64 GiB of full ones

/* The first byte of a TLS record that a handshake may begin with. */
#define MUSTER_TLS_FIRST_BYTE 0x16u
#define MUSTER_TLS_ALERT_BYTE 0x15u

typedef struct muster_tls_context muster_tls_context; // a run key, for a net
typedef struct muster_tls muster_tls;                 // one connection

/* MUSTER_ERR_SYSTEM: OpenSSL refuses, with its reason; _NO_MEMORY. */
MUSTER_CHECKED muster_status
muster_tls_context_create(const muster_run_key *key, muster_error *error_out,
                          muster_tls_context **context_out);
void muster_tls_context_free(muster_tls_context *context);

/* NULL when out of memory. `accepts`: the peer has connected to us. */
muster_tls *muster_tls_create(muster_tls_context *context, bool accepts);
void muster_tls_free(muster_tls *tls);

/* Go on with the handshake. MUSTER_IN_PROGRESS: bytes of the peer are needed.
 * MUSTER_OK: the peer has proved the key, now or before. MUSTER_ERR_REFUSED: it
 * has another key or none, or says so of us. MUSTER_ERR_PROTOCOL: its bytes are
 * no such handshake. */
MUSTER_CHECKED muster_status muster_tls_step(muster_tls *tls,
                                             muster_error *error_out);
bool muster_tls_is_ready(const muster_tls *tls);

/* Where bytes of the peer go, and how many at most; in_added says how many. */
uint8_t *muster_tls_in_room(muster_tls *tls, size_t *room_out);
void muster_tls_in_added(muster_tls *tls, size_t bytes);

/* Decrypt, at most `room` bytes; *got_out 0: bytes of the peer are needed.
 * MUSTER_ERR_PROTOCOL: what came is damaged or forged. */
MUSTER_CHECKED muster_status muster_tls_read(muster_tls *tls, void *plain,
                                             size_t room,
                                             muster_error *error_out,
                                             size_t *got_out);
/* Can muster_tls_read() give something without more bytes of the peer? */
bool muster_tls_has_more(const muster_tls *tls);

/* Is there room for one more piece? */
bool muster_tls_can_write(const muster_tls *tls);
/* Encrypt 1..MUSTER_TLS_PIECE_BYTES, all of them, where there is room; false:
 * the connection is of no use any more. */
bool muster_tls_write(muster_tls *tls, const void *plain, size_t bytes);

/* What is to be sent; out_taken says how much of it was. */
const uint8_t *muster_tls_out(const muster_tls *tls, size_t *bytes_out);
void muster_tls_out_taken(muster_tls *tls, size_t bytes);

#endif // MUSTER_NET_TLS_H
