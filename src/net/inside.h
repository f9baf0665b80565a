/*
 * net/inside.h -- what the files of this room share: the net, a connection.
 *
 * sock.c owns the net, endpoint.c makes its connections, poll.c is its loop.
 * conn.c begins and ends connections, conn_write.c and conn_read.c move their
 * bytes, with a run key over TCP through conn_tls.c. The conn files call back
 * to the user only to deliver messages, on_up and on_bytes; ends are noted
 * (`downs`, `finished`) and told by poll.c when no loop stands on the
 * connection any more.
 *
 *   Invariants   1. A connection is on the list of `conns` until its on_down
 *                   was called or it was dropped; its memory lives until the
 *                   poll that it ended in is over.
 *                2. Of a queue, at most the first item is partly written; an
 *                   item whose descriptor was sent is first, or second after
 *                   a partly written one.
 *                3. `sequence` counts frames of which at least one byte was
 *                   written; `received` those that were read whole.
 */
#ifndef MUSTER_NET_INSIDE_H
#define MUSTER_NET_INSIDE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/vec.h"
#include "net/frame.h"
#include "net/hello.h"
#include "net/mapped_blob.h"
#include "net/net.h"
#include "net/pace.h"
#include "net/pool.h"
#include "net/queue.h"
#include "net/socket_address.h"
#include "net/tls.h"

#define MUSTER_CONN_READ_BYTES  (256u << 10)
#define MUSTER_CONN_DIRECT      (64u << 10)  // larger payloads skip the buffer
#define MUSTER_CONN_DESCRIPTORS 8u           // that came ahead of their frame
#define MUSTER_CONN_LIST        64u          // entries of a list frame
#define MUSTER_CONN_WINDOW      4u           // shared payloads not acknowledged
#define MUSTER_NET_STRANGERS    128u         // callers without a message
#define MUSTER_CONN_FIRST       (256u << 10) // a caller's first payload
#define MUSTER_NET_IOV          1024u
#define MUSTER_NET_NEVER        INT64_MAX

/* What an epoll event belongs to: the first member of everything that epoll
 * watches. */
typedef enum muster_event_source {
    MUSTER_EVENT_SOURCE_WAKE,
    MUSTER_EVENT_SOURCE_LISTENER,
    MUSTER_EVENT_SOURCE_CONN,
    MUSTER_EVENT_SOURCE_FABRIC,
} muster_event_source;

typedef enum muster_conn_state {
    MUSTER_CONN_CONNECTING, // connect() is under way
    MUSTER_CONN_HELLO,      // waiting for the peer's hello
    MUSTER_CONN_WIRING,     // with a fabric: waiting for the peer's greeting
    MUSTER_CONN_UP,
    MUSTER_CONN_DEAD, // no descriptor any more
} muster_conn_state;

/* A segment that the peer has mapped under this slot's number. */
typedef struct muster_slot {
    uint64_t segment_id; // 0: none
    uint64_t used;       // when last, in frames
} muster_slot;

/* What goes out: conn_write.c. */
typedef struct muster_conn_out {
    uint8_t hello[MUSTER_HELLO_BYTES];
    size_t hello_sent;
    bool armed;   // EPOLLOUT is asked for
    bool broken;  // writing failed; what the peer sent is still read
    bool ack_due; // the peer waits for an acknowledgement
    muster_queue queue;
    size_t queue_bytes;    // of the user's items of which nothing is written
    size_t queue_messages; // of the user
    uint64_t sequence;
    muster_slot slots[MUSTER_FRAME_SLOTS];
    muster_hold *holds;
    uint64_t unacked[MUSTER_CONN_WINDOW]; // sequences of shared payloads
    unsigned unacked_count;
    uint64_t acked;
    muster_vec releases; // uint64_t sequences to tell the peer
    uint64_t forgets;    // slots to tell the peer, a bit each
    muster_item control; // the one list that may be in the queue
    bool control_queued;
    uint8_t control_head[MUSTER_FRAME_BYTES + 8 * MUSTER_CONN_LIST];
} muster_conn_out;

/* A large payload that is read into its own memory, past the buffer. */
typedef struct muster_conn_stream {
    muster_frame frame;
    uint8_t *header; // its message header
    size_t header_room;
    muster_blob *payload; // NULL: none is being read
    size_t got;
} muster_conn_stream;

/* What comes in: conn_read.c. */
typedef struct muster_conn_in {
    uint8_t *buffer; // MUSTER_CONN_READ_BYTES; [start, end) is not parsed yet
    size_t start;
    size_t end;
    uint64_t received;
    muster_mapping *mappings[MUSTER_FRAME_SLOTS];
    size_t mapped_blobs;   // whose release is still to be told to the peer
    unsigned shared_ahead; // shared payloads since our last acknowledgement
    int descriptors[MUSTER_CONN_DESCRIPTORS];
    unsigned descriptor_count;
    muster_conn_stream stream;
    int64_t bytes_told_ns; // when on_bytes was called last
    size_t bytes_untold;   // came since then
} muster_conn_in;

/* Of a connection whose messages travel by a fabric: conn_fabric.c. */
typedef struct muster_conn_fabric {
    bool used;
    bool heard;    // the peer has greeted us on its link
    bool is_heard; // the peer has heard our greeting
    bool eof;      // the socket has ended
    bool last_known;
    struct muster_fabric_route *route; // NULL: none yet
    uint64_t token;                    // that the peer's messages carry
    uint64_t their_number, their_token, their_worker;
    uint8_t *their_address;  // of a caller that has not greeted us yet
    uint64_t sent, received; // messages
    uint64_t last;           // messages that the peer has sent in all
    uint8_t *note;           // the frame that the socket takes next
    size_t note_bytes, note_sent;
    uint64_t notes;
    struct muster_flight *flights;
    unsigned flight_count;
    size_t flight_bytes;
    struct muster_landing *landings;
    unsigned landing_count;
} muster_conn_fabric;

typedef struct muster_net_fabric muster_net_fabric;

typedef struct muster_conn {
    muster_event_source source;
    muster_conn_state state;
    struct muster_net *net;
    muster_peer peer;
    int fd;
    bool incoming;
    bool stranger;   // a caller that has sent no message yet
    bool shares;     // descriptors can pass: a Unix socket
    bool down_due;   // call on_down (not dropped by the user)
    bool dirty;      // on the net's dirty list
    bool gone;       // the peer has hung up: what it sent is read unpaced
    bool paused;     // EPOLLIN is not asked for: it waits for its turn
    bool tls_begun;  // the peer's first byte has come
    muster_tls *tls; // NULL: the bytes travel as they are
    muster_pace_seat seat;
    int64_t deadline; // of the hello, a caller's first message, a broken end
    struct muster_conn *next_dirty;
    struct muster_conn *next_dead;
    char name[MUSTER_NET_ADDRESS_MAX];
    muster_error end; // why it ended
    muster_conn_out out;
    muster_conn_in in;
    muster_conn_fabric fabric;
} muster_conn;

typedef struct muster_listener {
    muster_event_source source;
    int fd;
    muster_socket_address address;
    int64_t rearm_at; // out of epoll until then; MUSTER_NET_NEVER: in it
} muster_listener;

struct muster_net {
    muster_event_source source; // of the wake descriptor
    int epoll_fd;
    int wake_fd;
    int idle_fd; // an epoll that watches epoll_fd alone: for waits aside
    muster_net_callbacks callbacks;
    void *context;
    muster_net_opts opts;
    muster_vec conns;     // muster_conn *, ascending peer
    muster_vec listeners; // muster_listener *
    muster_peer last_peer;
    size_t waiting;            // connections and listeners with a deadline
    size_t strangers;          // callers that have sent no message yet
    uint64_t caller_bytes_max; // of a payload that a caller sends
    muster_conn *dirty;
    muster_conn *downs; // ended, to be told in order
    muster_conn **downs_end;
    muster_conn *dead; // told, to be freed
    muster_queue finished;
    muster_store store;
    muster_pool *pool;
    muster_release_queue *release_queue;
    muster_pace *pace;         // NULL: as fast as it goes
    muster_net_fabric *fabric; // NULL: sockets carry all
    muster_net_counters counters;
    bool polling;
    bool idle_watches;         // idle_fd is armed: an event ends a wait aside
    bool sleep_announced;      // the release queue was told that nobody polls
    bool ms_only;              // the kernel waits in milliseconds only
    bool wait_ms_only;         // the same, of the thread in muster_net_wait()
    muster_tls_context *tls;   // NULL: there is no run key
    uint8_t *staged;           // a record's plain text; with a run key
    int64_t strangers_told_ns; // when one was last named in the log
    uint64_t strangers_untold; // refused since then
    struct iovec iov[MUSTER_NET_IOV];
};

/* conn.c ------------------------------------------------------------------ */

/* Take over a socket that is connecting or connected, also on failure (NULL,
 * with the reason). */
muster_conn *muster_conn_create(struct muster_net *net, int fd,
                                const muster_socket_address *address,
                                muster_conn_state state, bool incoming,
                                muster_error *error_out);

/* NULL when there is none. */
muster_conn *muster_conn_find(const struct muster_net *net, muster_peer peer);

/* The connection is over: close it, finish its items, note that on_down is
 * due. Once ended, a connection stays as it is. */
void muster_conn_end(muster_conn *conn, muster_status status,
                     const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Take it off the list of connections. */
void muster_conn_unlink(muster_conn *conn);

/* For ended connections. */
void muster_conn_free(muster_conn *conn);

/* Have it looked at by the next flush. */
void muster_conn_touch(muster_conn *conn);

/* Ask epoll for EPOLLOUT, or not. */
void muster_conn_arm(muster_conn *conn, bool armed);

/* Do not ask epoll for EPOLLIN, or do. */
void muster_conn_pause(muster_conn *conn, bool paused);

/* Move an item to the finished ones. */
void muster_net_finish(struct muster_net *net, muster_item *item,
                       muster_status status);

/* conn_write.c ------------------------------------------------------------ */

/* Write what the socket takes, within the bounds of one turn. */
void muster_conn_write(muster_conn *conn);

/* The peer has received all frames up to `ack`; MUSTER_ERR_PROTOCOL if they
 * were never sent. */
MUSTER_CHECKED muster_status muster_conn_acked(muster_conn *conn, uint64_t ack);

/* The peer let go of the payload of frame `sequence`; MUSTER_ERR_PROTOCOL if
 * it does not hold any. */
MUSTER_CHECKED muster_status muster_conn_released(muster_conn *conn,
                                                  uint64_t sequence);

/* Nobody will be sent this segment again: peers need not keep it mapped. */
void muster_conn_forget(muster_conn *conn, uint64_t segment_id);

/* As send() on the socket, through TLS where there is any. */
ssize_t muster_conn_send_bytes(muster_conn *conn, uint8_t *bytes, size_t count);

/* Was something encrypted that the socket did not take? */
bool muster_conn_has_unsent(const muster_conn *conn);

/* conn_read.c ------------------------------------------------------------- */

/* The connection stands: call on_up. */
void muster_conn_up(muster_conn *conn);

/* Hand over a whole message. Takes the caller's reference to the payload. */
void muster_conn_deliver(muster_conn *conn, const muster_frame *frame,
                         const uint8_t *header, muster_blob *payload);

/* What the peer may send at once: a stranger little, a caller what its role
 * sends. */
uint64_t muster_conn_payload_max(const muster_conn *conn);

/* Read and deliver what has come, within the bounds of one turn. */
void muster_conn_read(muster_conn *conn);

/* conn_tls.c: of connections with `tls` ------------------------------------ */

/* As recvmsg() and sendmsg() without a descriptor. -1 with EAGAIN also when the
 * connection has ended here. */
ssize_t muster_conn_tls_recv(muster_conn *conn, const struct iovec *iov,
                             size_t count);
ssize_t muster_conn_tls_send(muster_conn *conn, const struct iovec *iov,
                             size_t count);

/* Send what is encrypted; false: some is left, errno says why. */
bool muster_conn_tls_flush(muster_conn *conn);

/* The side that connects speaks first. */
void muster_conn_tls_begin(muster_conn *conn);

/* conn_fabric.c: of connections with `fabric.used` ------------------------- */

/* The hello was accepted: tell the peer our worker address. */
void muster_conn_fabric_wire(muster_conn *conn);

/* Write the note that waits, and what the link takes. */
void muster_conn_fabric_write(muster_conn *conn);

/* A frame came on the socket. Returns what was wrong with it, else NULL. */
const char *muster_conn_fabric_note(muster_conn *conn,
                                    const muster_frame *frame,
                                    const uint8_t *entries);

/* The peer has greeted us; is_heard: and has heard our greeting. */
void muster_conn_fabric_greeted(muster_conn *conn, bool is_heard);

/* The socket has ended; true: messages may still be on their way, and the
 * connection ends when they are here. */
bool muster_conn_fabric_eof(muster_conn *conn);

/* The connection ends; before its socket is closed. */
void muster_conn_fabric_end(muster_conn *conn, muster_status status);
void muster_conn_fabric_free(muster_conn *conn);

/* Load and open the engine of net->opts. */
MUSTER_CHECKED muster_status muster_net_fabric_open(struct muster_net *net,
                                                    muster_error *error_out);
/* After all connections have ended. */
/* Before connections end for a close: is there one whose end UCX cannot bear?
 * UCX 1.13 asserts when a peer dies to which its own reply has not left. */
void muster_net_fabric_look(struct muster_net *net);
void muster_net_fabric_close(struct muster_net *net);

/* Progress; true: something came. */
bool muster_net_fabric_progress(struct muster_net *net);

/* Nothing to progress, and epoll will tell when there is. */
bool muster_net_fabric_rests(struct muster_net *net);

/* endpoint.c -------------------------------------------------------------- */

/* Take the callers in line, within the bounds of one turn. */
void muster_listener_accept(struct muster_net *net, muster_listener *listener);

/* In or out of epoll; false when the system refuses. */
bool muster_listener_watch(struct muster_net *net, muster_listener *listener,
                           bool on);

/* Also removes the path of a Unix socket. */
void muster_listener_free(muster_listener *listener);

/* strangers.c ------------------------------------------------------------- */

/* Count a caller that is not let in, and name it in the log if none was named
 * within the last second. */
void muster_strangers_refused(struct muster_net *net, const char *name,
                              const char *reason);

/* Log how many were not named. */
void muster_strangers_close(struct muster_net *net);

/* End the oldest caller that has sent no message; false: it is too young. */
bool muster_strangers_give_way(struct muster_net *net);

/* A caller's first message has come: it is no stranger any more. */
void muster_strangers_heard(muster_conn *conn);

/* The connection of a stranger ends. */
void muster_strangers_ended(muster_conn *conn, muster_status status,
                            const char *reason);

/* poll.c ------------------------------------------------------------------ */

/* Call `done` of all that was finished when we were called. */
void muster_net_tell_finished(struct muster_net *net);

/* Free a list of ended connections. */
void muster_net_free_conns(muster_conn *list);

#endif // MUSTER_NET_INSIDE_H
