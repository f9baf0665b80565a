/*
 * conn_tls.c -- a connection's bytes through TLS: as recv() and send() do
 * without it.
 *
 * Invariants
 *  1. What was encrypted counts as written: whoever queued it is told, and it
 *     is not encrypted again. `out` of tls.c is bounded and goes first.
 *  2. Before the peer has proved the key, nothing it sends leaves this file.
 *  3. After a turn of reading, nothing that came is left undecrypted, unless
 *     the connection waits for its turn in a pace: epoll would not tell of it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/error.h"
#include "net/inside.h"

/* A TLS alert, handshake_failure: to a peer that does not speak TLS, so that
 * one of ours without a key knows why it is refused. */
static const uint8_t plain_alert[] = {MUSTER_TLS_ALERT_BYTE, 3, 3, 0, 2, 2, 40};

bool muster_conn_tls_flush(muster_conn *conn)
{
    size_t bytes = 0;
    const uint8_t *out = muster_tls_out(conn->tls, &bytes);
    if (bytes == 0) {
        return true;
    }
    conn->net->counters.syscalls++;
    ssize_t sent = send(conn->fd, out, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
        muster_tls_out_taken(conn->tls, (size_t)sent);
        errno = EAGAIN;
    }
    return sent == (ssize_t)bytes;
}

/* What is next to be encrypted: up to a full record of the bytes after `skip`.
 * Small pieces are put together in `staged`. */
static const void *next_piece(const struct iovec *iov, size_t count,
                              size_t skip, uint8_t *staged, size_t *bytes_out)
{
    size_t i = 0;
    while (i < count && skip >= iov[i].iov_len) {
        skip -= iov[i++].iov_len;
    }
    *bytes_out = 0;
    if (i < count && iov[i].iov_len - skip >= MUSTER_TLS_PIECE_BYTES) {
        *bytes_out = MUSTER_TLS_PIECE_BYTES;
        return (const char *)iov[i].iov_base + skip;
    }
    for (; i < count && *bytes_out < MUSTER_TLS_PIECE_BYTES; i++) {
        size_t room = MUSTER_TLS_PIECE_BYTES - *bytes_out;
        size_t left = iov[i].iov_len - skip;
        size_t take = left < room ? left : room;
        memcpy(staged + *bytes_out, (const char *)iov[i].iov_base + skip, take);
        *bytes_out += take;
        skip = 0;
    }
    return staged;
}

ssize_t muster_conn_tls_send(muster_conn *conn, const struct iovec *iov,
                             size_t count)
{
    uint8_t *staged = conn->net->staged;
    size_t taken = 0;
    bool flushed = muster_conn_tls_flush(conn);
    while (flushed) {
        size_t before = taken;
        while (muster_tls_can_write(conn->tls)) {
            size_t bytes = 0;
            const void *piece = next_piece(iov, count, taken, staged, &bytes);
            if (bytes == 0) {
                break;
            }
            if (!muster_tls_write(conn->tls, piece, bytes)) {
                errno = EPIPE;
                return -1;
            }
            taken += bytes;
        }
        if (taken == before) {
            return (ssize_t)taken;
        }
        flushed = muster_conn_tls_flush(conn);
    }
    bool full = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    return full && taken > 0 ? (ssize_t)taken : -1;
}

/* The peer's first byte is none of a TLS record. */
static void end_plain(muster_conn *conn, uint8_t first)
{
    if (conn->incoming) {
        conn->net->counters.syscalls++;
        ssize_t sent = send(conn->fd, plain_alert, sizeof(plain_alert),
                            MSG_NOSIGNAL | MSG_DONTWAIT);
        (void)sent; // it is only told
    }
    if (first == 'M') {
        muster_conn_end(conn, MUSTER_ERR_REFUSED,
                        "it has no run key, and we have one; give both sides "
                        "the same key file (--key-file)");
    } else {
        muster_conn_end(conn, MUSTER_ERR_PROTOCOL,
                        "its first bytes are not TLS");
    }
}

/* Go on with the handshake, with the bytes that have come. */
static void shake_hands(muster_conn *conn)
{
    muster_error error = {.text = ""};
    muster_status status = muster_tls_step(conn->tls, &error);
    if (status < 0) {
        (void)muster_conn_tls_flush(conn); // OpenSSL's alert
        muster_conn_end(conn, status, "%s", error.text);
        return;
    }
    muster_conn_touch(conn); // our part, and the hello after it
}

void muster_conn_tls_begin(muster_conn *conn)
{
    size_t bytes = 0;
    (void)muster_tls_out(conn->tls, &bytes);
    if (!conn->incoming && bytes == 0 && !muster_tls_is_ready(conn->tls)) {
        muster_error error = {.text = ""};
        muster_status status = muster_tls_step(conn->tls, &error);
        if (status < 0) {
            muster_conn_end(conn, status, "%s", error.text);
        }
    }
}

/* Decrypt what is here. */
static ssize_t decrypt(muster_conn *conn, const struct iovec *iov, size_t count)
{
    muster_error error = {.text = ""};
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t at = 0; at < iov[i].iov_len;) {
            size_t got = 0;
            if (muster_tls_read(conn->tls, (char *)iov[i].iov_base + at,
                                iov[i].iov_len - at, &error,
                                &got) != MUSTER_OK) {
                muster_conn_end(conn, error.status, "%s", error.text);
                errno = EAGAIN;
                return -1;
            }
            if (got == 0) {
                errno = EAGAIN;
                return total > 0 ? (ssize_t)total : -1;
            }
            at += got;
            total += got;
        }
    }
    return (ssize_t)total;
}

ssize_t muster_conn_tls_recv(muster_conn *conn, const struct iovec *iov,
                             size_t count)
{
    if (!muster_tls_has_more(conn->tls)) {
        size_t room = 0;
        uint8_t *in = muster_tls_in_room(conn->tls, &room);
        conn->net->counters.syscalls++;
        ssize_t came = recv(conn->fd, in, room, MSG_DONTWAIT);
        if (came <= 0) {
            return came;
        }
        uint8_t first = in[0];
        bool begins = !conn->tls_begun;
        conn->tls_begun = true;
        muster_tls_in_added(conn->tls, (size_t)came);
        if (begins && first != MUSTER_TLS_FIRST_BYTE &&
            first != MUSTER_TLS_ALERT_BYTE) {
            end_plain(conn, first);
        } else if (!muster_tls_is_ready(conn->tls)) {
            shake_hands(conn);
        }
    }
    if (conn->state == MUSTER_CONN_DEAD || !muster_tls_has_more(conn->tls)) {
        errno = EAGAIN;
        return -1;
    }
    return decrypt(conn, iov, count);
}
