/*
 * net/net.h -- active messages between processes: the only door to the wire.
 *
 * A muster_net belongs to one thread at a time, mostly the network thread of
 * its process. It listens, connects, sends and calls back; it never blocks
 * except in muster_net_poll(). Any process may connect to any address: a star
 * is a usage, not a limit. A message is a short header (at most
 * MUSTER_NET_HEADER_MAX bytes, copied) and an optional payload, a blob sent by
 * reference.
 *
 *   Promise      Messages arrive whole, at most once per connection, in no
 *                promised order. `done` is called exactly once for every send
 *                that returned MUSTER_OK, also when the peer is lost. Nothing
 *                is called for a peer after its on_down. A full queue answers
 *                MUSTER_ERR_AGAIN and takes nothing. A slow reader delays
 *                nobody else. No CPU is used when nothing happens. Callers
 *                that have sent no message are strangers: at most 128 are
 *                kept, each for hello_timeout_ns at most, and the oldest makes
 *                room; they are counted, and logged once a second.
 *   Lifecycle    open; listen and connect as wanted; poll in a loop; close
 *                (calls every outstanding `done`, no other callback).
 *   Ownership    send takes its own reference to the payload until `done`. A
 *                received payload is lent for the callback; keep it with
 *                muster_blob_ref(), and only read it: its pages may belong to
 *                the peer. It may change under you: where a check must hold,
 *                copy before you check. What is kept pins a buffer of the
 *                peer. Blobs may outlive the connection and the net, and be
 *                unref'd on any thread.
 *   Threads      All functions: the thread that owns the net, except
 *                muster_net_wake() (also from signal handlers),
 *                muster_net_wait(), muster_net_blob() and muster_blob_unref()
 *                of its blobs, which any thread may call. A net may change
 *                hands under a lock of the caller's.
 *   Allocation   Buffers come from pools; steady traffic allocates nothing.
 *   Not here     What messages mean (wire), who is alive (role/member).
 *
 * With the engine "ucx", messages of TCP connections travel by UCX (fabric.h):
 * RDMA where there is any. Connections are made, proved and given up as ever,
 * but what UCX carries is not encrypted: it is for trusted networks. Both sides
 * need the same engine. Unix sockets stay as they are.
 *
 * Payloads made by muster_net_blob() can travel without a copy: between
 * processes of one host they lie in shared memory (a sealed memfd), and only a
 * descriptor passes through the socket.
 *
 * With a run key, every TCP connection is TLS 1.3 that proves the key on both
 * sides before anything else is read. Unix sockets are for processes of one
 * user: a peer of another user is refused. Then peers say hello: magic and
 * protocol version. on_up comes after the hello was accepted.
 */
#ifndef MUSTER_NET_NET_H
#define MUSTER_NET_NET_H

#include <stddef.h>
#include <stdint.h>

#include "base/blob.h"
#include "muster/status.h"
#include "net/run_key.h"

#define MUSTER_NET_HEADER_MAX  65536u
#define MUSTER_NET_ADDRESS_MAX 128u
#define MUSTER_NET_BYTES_NS    10000000
#define MUSTER_NET_BYTES_MIN   1024u
#define MUSTER_NET_BEGUN_BYTES ((size_t)4 << 20)

typedef struct muster_net muster_net;

/* A connection of this process. Numbers are never reused within a muster_net.
 * 0 is no peer. */
typedef uint64_t muster_peer;

typedef struct muster_net_message {
    const uint8_t *header; // lent for the callback
    size_t header_bytes;
    muster_blob *payload; // NULL when there is none; lent for the callback
} muster_net_message;

/* Called from muster_net_poll() only, never from inside another call. They may
 * call anything here but poll and close. NULL ones are left out. */
typedef struct muster_net_callbacks {
    /* The connection stands and the hello was accepted. `incoming` tells a
     * connection we accepted from one we made. */
    void (*on_up)(void *context, muster_peer peer, int incoming);
    void (*on_message)(void *context, muster_peer peer,
                       const muster_net_message *message);
    /* The connection is over, or never came to be: also for connect, and for
     * a caller that we accepted and that never said hello. Once per peer.
     * `reason` says why, for a person; `status` is MUSTER_ERR_PEER_LOST,
     * _PROTOCOL, _REFUSED (another version, key or user) or _TIMED_OUT. */
    void (*on_down)(void *context, muster_peer peer, muster_status status,
                    const char *reason);
    /* Bytes came of a message that is not whole yet: the peer lives, though
     * its other words wait behind this one. At most every
     * MUSTER_NET_BYTES_NS per peer, and for every MUSTER_NET_BYTES_MIN bytes:
     * a peer that trickles is silent. Never for what comes whole. */
    void (*on_bytes)(void *context, muster_peer peer);
    /* A message with a payload of MUSTER_NET_BEGUN_BYTES or more has begun to
     * come, as a stream: muster_blob_here() of its payload says how far it is,
     * and after every on_bytes there is more. on_message follows with the same
     * blob, or on_down, or neither after muster_net_drop(): a reference that
     * was kept is then to a part. */
    void (*on_begun)(void *context, muster_peer peer,
                     const muster_net_message *message);
} muster_net_callbacks;

typedef struct muster_net_opts {
    uint32_t struct_size;
    size_t queue_bytes_max;    // of payloads that wait; default 256 MiB
    size_t queue_messages_max; // unsent messages per peer; default 4096
    size_t payload_bytes_max;  // a larger payload is refused; default 4 GiB
    uint32_t protocol_version; // default MUSTER_PROTOCOL_VERSION; tests differ
    int64_t hello_timeout_ns;  // for a hello, and a caller's first message;
                               // default 5 s
    const muster_run_key *key; // of TCP connections; copied; NULL: none
    int insecure;              // listen beyond this machine without a key
    double bytes_per_s; // of the NIC to pretend, each way; 0: none (pace.h)
    int64_t latency_ns; // of every message that is received
    const char *engine; // "sock" (NULL), or "ucx": what TCP connections use
} muster_net_opts;

#define MUSTER_NET_OPTS_INIT                                                  \
    {                                                                         \
        (uint32_t)sizeof(muster_net_opts), 0, 0, 0, 0, 0, NULL, 0, 0, 0, NULL \
    }

/* One send. `replace_slot` != 0: an unsent earlier message to the same peer
 * with the same slot is dropped in favour of this one (its done comes with
 * MUSTER_ERR_CANCELLED), so a slow peer gets the newest model, not all. */
typedef struct muster_net_send_opts {
    const void *header;
    size_t header_bytes;
    muster_blob *payload;
    uint32_t replace_slot;
    /* NULL is allowed. Called from poll or close. Status: MUSTER_OK when the
     * message was handed over, _CANCELLED when replaced or ended by our own
     * drop or close, _PEER_LOST. */
    void (*done)(void *argument, muster_status status);
    void *argument;
} muster_net_send_opts;

typedef struct muster_net_counters {
    uint64_t messages_sent, messages_received;
    uint64_t bytes_sent, bytes_received; // headers and payloads, also shared
    uint64_t strangers; // callers refused before their first message
    uint64_t syscalls;
} muster_net_counters;

MUSTER_CHECKED muster_status muster_net_open(
    const muster_net_opts *opts, const muster_net_callbacks *callbacks,
    void *context, muster_error *error_out, muster_net **net_out);
void muster_net_close(muster_net *net);

/* Listen at "unix:/path", "unix:@name" (abstract) or "tcp:HOST:PORT" (port 0:
 * any free one). address_out (MUSTER_NET_ADDRESS_MAX, or NULL) gets what to
 * connect to. A path is removed again by close, and must not exist yet.
 * MUSTER_ERR_INVALID: the address is wrong, or other machines can reach it and
 * there is no key, unless `insecure` is set, which is logged. */
MUSTER_CHECKED muster_status muster_net_listen(muster_net *net,
                                               const char *address,
                                               muster_error *error_out,
                                               char *address_out);

/* From now on, callers (who connected to us) send payloads of at most so many
 * bytes; a larger one ends the connection. At first payload_bytes_max. A
 * caller's first payload has at most 256 KiB. */
void muster_net_expect(muster_net *net, size_t payload_bytes_max);

/* Start connecting; on_up or on_down follows from poll, also when nobody
 * listens there. MUSTER_ERR_INVALID or _INPUT: what is wrong with the address.
 * A host name, unlike a number, is looked up before this returns. */
MUSTER_CHECKED muster_status muster_net_connect(muster_net *net,
                                                const char *address,
                                                muster_error *error_out,
                                                muster_peer *peer_out);

/* MUSTER_OK: taken, `done` will come; before on_up, too. MUSTER_ERR_AGAIN:
 * queue full, nothing taken. What has begun to be written does not count as
 * waiting. A message without a payload, or with a slot, is refused for the
 * number of messages only; the only one that waits may be of any size.
 * MUSTER_ERR_PEER_LOST: no such peer any more. MUSTER_ERR_INVALID: header or
 * payload too long. MUSTER_ERR_NO_MEMORY: nothing taken. */
MUSTER_CHECKED muster_status muster_net_send(
    muster_net *net, muster_peer peer, const muster_net_send_opts *send_opts);

/* End a connection: queued messages are dropped (their `done` comes), on_down
 * is not called. Unknown peers are fine. */
void muster_net_drop(muster_net *net, muster_peer peer);

/* A payload buffer of this net: cheap to send. Write it before it is sent, not
 * after. NULL when out of memory. */
muster_blob *muster_net_blob(muster_net *net, size_t bytes);

/* Wait up to timeout_ns (-1: for ever) and call back. Returns at once after
 * muster_net_wake(), and after any event, so call it in a loop. Writes are
 * batched and flushed here, before the wait and after the callbacks. */
MUSTER_CHECKED muster_status muster_net_poll(muster_net *net,
                                             int64_t timeout_ns);

/* For the owner, before it hands the net to another thread: write the queued
 * messages. Returns for how long, at most timeout_ns (-1: for ever), a poll
 * would have nothing to do unless something arrives; 0: poll now. No callback
 * is called. */
int64_t muster_net_settle(muster_net *net, int64_t timeout_ns);

/* For one thread that does not own the net, after a settle: return when there
 * is something for a poll, or after timeout_ns (-1: never). Nothing is read:
 * the next poll finds it. While an owner sleeps in a poll, an event wakes both
 * the owner and this thread, and the owner may have handled it by then. With
 * `aside` only the owner is woken, until the next settle; this wait then ends a
 * little later. MUSTER_ERR_SYSTEM. */
MUSTER_CHECKED muster_status muster_net_wait(muster_net *net,
                                             int64_t timeout_ns, int aside);

/* For the same thread: 1 where the kernel has no finer wait than milliseconds,
 * so that a wait may end up to one of them too late; 0 where it has. */
int muster_net_waits_in_ms(const muster_net *net);

/* From any thread: make the current or next poll or wait return. */
void muster_net_wake(muster_net *net);

/* The connection's address as a person knows it, "unix", "tcp:1.2.3.4:567". */
const char *muster_net_peer_name(const muster_net *net, muster_peer peer);

muster_net_counters muster_net_count(const muster_net *net);

#endif // MUSTER_NET_NET_H
