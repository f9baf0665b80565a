/*
 * conn_read.c -- from a socket to the user's on_message.
 *
 * Bytes come through the connection's buffer, from which every whole frame is
 * delivered before more is read. The rest of a long payload is read straight
 * into its blob. Nothing that a peer announces is believed beyond the limits.
 *
 * After every callback the connection may have been ended by the user; each
 * step looks at `state` again before it goes on.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "net/inside.h"
#include "wire/bytes.h"

#define TURN_READS 8
#define TURN_BYTES ((size_t)4 << 20)

static void end_protocol(muster_conn *conn, const char *what)
{
    muster_conn_end(conn, MUSTER_ERR_PROTOCOL, "it sent %s", what);
}

static void end_memory(muster_conn *conn, uint64_t bytes)
{
    muster_conn_end(conn, MUSTER_ERR_PEER_LOST,
                    "no memory for a payload of %llu bytes",
                    (unsigned long long)bytes);
}

void muster_conn_deliver(muster_conn *conn, const muster_frame *frame,
                         const uint8_t *header, muster_blob *payload)
{
    muster_net *net = conn->net;
    muster_net_message message = {header, frame->header_bytes, payload};
    if (conn->stranger) {
        muster_strangers_heard(conn);
    }
    net->counters.messages_received++;
    net->counters.bytes_received += frame->header_bytes + frame->payload_bytes;
    if (net->pace != NULL && muster_pace_has_latency(net->pace)) {
        if (!muster_pace_hold(net->pace, conn, frame, header, payload)) {
            muster_blob_unref(payload);
            end_memory(conn, frame->payload_bytes);
        }
        return;
    }
    if (net->callbacks.on_message != NULL) {
        net->callbacks.on_message(net->context, conn->peer, &message);
    }
    muster_blob_unref(payload);
}

static void deliver(muster_conn *conn, const muster_frame *frame,
                    const uint8_t *header, muster_blob *payload)
{
    conn->in.received = frame->sequence;
    muster_conn_deliver(conn, frame, header, payload);
}

/* Fill the frame's slot with the descriptor that came for it. */
static bool fill_slot(muster_conn *conn, const muster_frame *frame)
{
    if (conn->in.descriptor_count == 0) {
        end_protocol(conn, "a frame without its descriptor");
        return false;
    }
    int fd = conn->in.descriptors[0];
    conn->in.descriptor_count--;
    memmove(conn->in.descriptors, conn->in.descriptors + 1,
            conn->in.descriptor_count * sizeof(fd));
    // A segment's size class is at most a quarter above its payload.
    uint64_t limit = frame->payload_bytes / 4 * 5 + MUSTER_POOL_SHARED_BYTES;
    muster_error error = {0};
    muster_mapping *mapping = NULL;
    muster_status status = muster_mapping_create(fd, limit, &error, &mapping);
    close(fd);
    conn->net->counters.syscalls += 4;
    if (status == MUSTER_ERR_NO_MEMORY) {
        end_memory(conn, frame->payload_bytes);
    } else if (status != MUSTER_OK) {
        end_protocol(conn, error.text);
    } else {
        muster_mapping_unref(conn->in.mappings[frame->slot]);
        conn->in.mappings[frame->slot] = mapping;
    }
    return status == MUSTER_OK;
}

static void take_shared(muster_conn *conn, const muster_frame *frame,
                        const uint8_t *header)
{
    if (++conn->in.shared_ahead > MUSTER_CONN_WINDOW) {
        end_protocol(conn, "more shared payloads than we acknowledged");
        return;
    }
    if ((frame->flags & MUSTER_FRAME_DESCRIPTOR) != 0 &&
        !fill_slot(conn, frame)) {
        return;
    }
    muster_mapping *mapping = conn->in.mappings[frame->slot];
    if (mapping == NULL || frame->payload_bytes > mapping->bytes) {
        end_protocol(conn, "a payload beyond its shared buffer");
        return;
    }
    // Room for the release, so that letting go later cannot fail.
    muster_blob *payload = NULL;
    if (muster_vec_reserve(&conn->out.releases, conn->out.releases.count +
                                                    conn->in.mapped_blobs +
                                                    1)) {
        payload = muster_release_queue_lend(conn->net->release_queue, mapping,
                                            (size_t)frame->payload_bytes,
                                            conn->peer, frame->sequence);
    }
    if (payload == NULL) {
        end_memory(conn, frame->payload_bytes);
        return;
    }
    conn->in.mapped_blobs++;
    if ((frame->flags & MUSTER_FRAME_ACK_NOW) != 0) {
        conn->out.ack_due = true;
        muster_conn_touch(conn);
    }
    deliver(conn, frame, header, payload);
}

static void take_list(muster_conn *conn, const muster_frame *frame,
                      const uint8_t *entries)
{
    conn->in.received = frame->sequence;
    for (uint32_t i = 0; i < frame->header_bytes / 8; i++) {
        uint64_t entry = muster_bytes_get(entries + 8 * (size_t)i, 8);
        bool valid = true;
        if (frame->kind == MUSTER_FRAME_RELEASE) {
            valid = muster_conn_released(conn, entry) == MUSTER_OK;
        } else if (entry < MUSTER_FRAME_SLOTS) {
            muster_mapping_unref(conn->in.mappings[entry]);
            conn->in.mappings[entry] = NULL;
        } else {
            valid = false;
        }
        if (!valid) {
            end_protocol(conn, "a list with numbers that we never gave it");
            return;
        }
    }
}

/* A payload that lies whole in the buffer. */
static void take_inline(muster_conn *conn, const muster_frame *frame,
                        const uint8_t *header)
{
    muster_blob *payload = NULL;
    if ((frame->flags & MUSTER_FRAME_PAYLOAD) != 0) {
        payload = muster_pool_take(conn->net->pool,
                                   (size_t)frame->payload_bytes, false);
        if (payload == NULL) {
            end_memory(conn, frame->payload_bytes);
            return;
        }
        memcpy(payload->data, header + frame->header_bytes, payload->bytes);
    }
    deliver(conn, frame, header, payload);
}

/* More of the payload that is read directly is here. */
static void stream_add(muster_conn *conn, size_t bytes)
{
    muster_conn_stream *stream = &conn->in.stream;
    stream->got += bytes;
    muster_blob_set_missing(stream->payload,
                            stream->payload->bytes - stream->got);
}

static void stream_tell(const muster_conn *conn)
{
    const muster_net *net = conn->net;
    const muster_conn_stream *stream = &conn->in.stream;
    if (stream->payload != NULL && net->callbacks.on_begun != NULL &&
        stream->payload->bytes >= MUSTER_NET_BEGUN_BYTES) {
        const muster_net_message message = {
            stream->header, stream->frame.header_bytes, stream->payload};
        net->callbacks.on_begun(net->context, conn->peer, &message);
    }
}

/* Deliver the payload that was read directly, once it is whole. */
static bool stream_finish(muster_conn *conn)
{
    muster_blob *payload = conn->in.stream.payload;
    if (conn->in.stream.got < payload->bytes) {
        return false;
    }
    conn->in.stream.payload = NULL;
    deliver(conn, &conn->in.stream.frame, conn->in.stream.header, payload);
    return true;
}

/* Begin to read a long payload directly, with the bytes that are here. Returns
 * how many of them it took. */
static size_t stream_begin(muster_conn *conn, const muster_frame *frame,
                           const uint8_t *header, size_t bytes_here)
{
    if (conn->in.stream.header_room < frame->header_bytes) {
        uint8_t *room =
            muster_mem_resize(conn->in.stream.header, frame->header_bytes, 1);
        if (room == NULL) {
            end_memory(conn, frame->payload_bytes);
            return 0;
        }
        conn->in.stream.header = room;
        conn->in.stream.header_room = frame->header_bytes;
    }
    muster_blob *payload =
        muster_pool_take(conn->net->pool, (size_t)frame->payload_bytes, false);
    if (payload == NULL) {
        end_memory(conn, frame->payload_bytes);
        return 0;
    }
    if (frame->header_bytes > 0) {
        memcpy(conn->in.stream.header, header, frame->header_bytes);
    }
    size_t take = bytes_here < payload->bytes ? bytes_here : payload->bytes;
    memcpy(payload->data, header + frame->header_bytes, take);
    conn->in.stream.frame = *frame;
    conn->in.stream.payload = payload;
    conn->in.stream.got = 0;
    stream_add(conn, take);
    return take;
}

static bool parse_hello(muster_conn *conn)
{
    muster_net *net = conn->net;
    muster_error error = {0};
    muster_hello hello;
    muster_status status =
        muster_hello_read(conn->in.buffer + conn->in.start,
                          conn->in.end - conn->in.start, &error, &hello);
    if (status == MUSTER_IN_PROGRESS) {
        return false;
    }
    if (status == MUSTER_OK) {
        const muster_hello ours = {net->opts.protocol_version,
                                   conn->fabric.used};
        status = muster_hello_check(&ours, &hello, &error);
    }
    if (status != MUSTER_OK) {
        muster_conn_write(conn); // our hello, so that the peer knows why, too
        muster_conn_end(conn, status, "%s", error.text);
        return false;
    }
    conn->in.start += MUSTER_HELLO_BYTES;
    if (conn->fabric.used) {
        muster_conn_fabric_wire(conn);
    } else {
        muster_conn_up(conn);
    }
    return conn->state != MUSTER_CONN_DEAD;
}

void muster_conn_up(muster_conn *conn)
{
    muster_net *net = conn->net;
    conn->state = MUSTER_CONN_UP;
    // A caller still has to send a message in time. If writing our hello
    // failed, the deadline is now that of write_broke().
    if (!conn->stranger && !conn->out.broken) {
        conn->deadline = MUSTER_NET_NEVER;
        net->waiting--;
    }
    muster_conn_touch(conn);
    if (net->callbacks.on_up != NULL) {
        net->callbacks.on_up(net->context, conn->peer, conn->incoming);
    }
}

uint64_t muster_conn_payload_max(const muster_conn *conn)
{
    uint64_t limit = conn->incoming ? conn->net->caller_bytes_max
                                    : conn->net->opts.payload_bytes_max;
    return conn->stranger && limit > MUSTER_CONN_FIRST ? MUSTER_CONN_FIRST
                                                       : limit;
}

/* The next frame header, checked; false: not here yet, or the end. */
static bool parse_header(muster_conn *conn, muster_frame *frame)
{
    if (conn->in.end - conn->in.start < MUSTER_FRAME_BYTES) {
        return false;
    }
    muster_frame_limits limits = {muster_conn_payload_max(conn), conn->shares};
    muster_error error = {0};
    if (muster_frame_read(conn->in.buffer + conn->in.start, &limits, &error,
                          frame) != MUSTER_OK) {
        end_protocol(conn, error.text);
        return false;
    }
    if (frame->sequence != conn->in.received + 1) {
        end_protocol(conn, "a frame out of sequence");
        return false;
    }
    if (muster_conn_acked(conn, frame->ack) != MUSTER_OK) {
        end_protocol(conn, "an acknowledgement of what we never sent");
        return false;
    }
    return true;
}

/* With a fabric the socket carries notes only. */
static void take_note(muster_conn *conn, const muster_frame *frame,
                      const uint8_t *entries)
{
    conn->in.received = frame->sequence;
    const char *wrong = muster_conn_fabric_note(conn, frame, entries);
    if (wrong != NULL) {
        end_protocol(conn, wrong);
    }
}

/* true: something was consumed, there may be more. */
static bool parse_frame(muster_conn *conn)
{
    muster_frame frame;
    if (!parse_header(conn, &frame)) {
        return false;
    }
    const uint8_t *header =
        conn->in.buffer + conn->in.start + MUSTER_FRAME_BYTES;
    size_t here = conn->in.end - conn->in.start - MUSTER_FRAME_BYTES;
    bool shared = (frame.flags & MUSTER_FRAME_SHARED) != 0;
    bool direct = !shared && frame.payload_bytes > MUSTER_CONN_DIRECT;
    size_t need = frame.header_bytes +
                  (shared || direct ? 0 : (size_t)frame.payload_bytes);
    if (here < need) {
        return false;
    }
    conn->in.start += MUSTER_FRAME_BYTES + need;
    if (conn->fabric.used) {
        take_note(conn, &frame, header);
    } else if (direct) {
        conn->in.start +=
            stream_begin(conn, &frame, header, here - frame.header_bytes);
        stream_tell(conn);
    } else if (shared) {
        take_shared(conn, &frame, header);
    } else if (frame.kind > MUSTER_FRAME_FORGET) {
        end_protocol(conn, "a note of a fabric that we do not use");
    } else if (frame.kind != MUSTER_FRAME_MESSAGE) {
        take_list(conn, &frame, header);
    } else {
        take_inline(conn, &frame, header);
    }
    return true;
}

static void parse(muster_conn *conn)
{
    bool more = true;
    while (more && conn->state != MUSTER_CONN_DEAD) {
        if (conn->state == MUSTER_CONN_HELLO) {
            more = parse_hello(conn);
        } else if (conn->in.stream.payload != NULL) {
            more = stream_finish(conn);
        } else {
            more = parse_frame(conn);
        }
    }
    size_t left = conn->in.end - conn->in.start;
    if (conn->in.start > 0 && left > 0) {
        memmove(conn->in.buffer, conn->in.buffer + conn->in.start, left);
    }
    conn->in.start = 0;
    conn->in.end = left;
}

/* Keep the descriptors that came with some bytes; false: the end. */
static bool keep_descriptors(muster_conn *conn, struct msghdr *message)
{
    bool fits = true;
    size_t came = 0;
    for (struct cmsghdr *each = CMSG_FIRSTHDR(message); each != NULL;
         each = CMSG_NXTHDR(message, each)) {
        if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        size_t count = (each->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        came += count;
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(each) + i * sizeof(fd), sizeof(fd));
            if (conn->in.descriptor_count < MUSTER_CONN_DESCRIPTORS) {
                conn->in.descriptors[conn->in.descriptor_count++] = fd;
            } else {
                close(fd);
                fits = false;
            }
        }
    }
    bool cut = (message->msg_flags & MSG_CTRUNC) != 0;
    if (cut && came < MUSTER_CONN_DESCRIPTORS) {
        // There was room for more: the system had none to give us.
        muster_conn_end(conn, MUSTER_ERR_PEER_LOST,
                        "we are out of descriptors; raise the limit on open "
                        "files");
    } else if (cut || !fits) {
        end_protocol(conn, "too many descriptors");
    }
    return fits && !cut;
}

/* Where the next bytes go: the rest of the payload that is read directly,
 * then the buffer. Returns how many bytes there is room for. */
static size_t make_room(muster_conn *conn, struct iovec *iov, size_t *count_out)
{
    size_t count = 0;
    size_t room = 0;
    if (conn->in.stream.payload != NULL) {
        size_t left = conn->in.stream.payload->bytes - conn->in.stream.got;
        room = left < TURN_BYTES ? left : TURN_BYTES;
        iov[count++] = (struct iovec){
            (char *)conn->in.stream.payload->data + conn->in.stream.got, room};
        if (room < left) {
            *count_out = count;
            return room;
        }
    }
    size_t space = MUSTER_CONN_READ_BYTES - conn->in.end;
    iov[count++] = (struct iovec){conn->in.buffer + conn->in.end, space};
    *count_out = count;
    return room + space;
}

/* At most so many bytes into these pieces; returns how many that are. */
static size_t cut_room(struct iovec *iov, size_t count, size_t allowed)
{
    size_t room = 0;
    for (size_t i = 0; i < count; i++) {
        size_t left = allowed - room;
        iov[i].iov_len = iov[i].iov_len < left ? iov[i].iov_len : left;
        room += iov[i].iov_len;
    }
    return room;
}

static ssize_t receive(const muster_conn *conn, struct msghdr *message)
{
    conn->net->counters.syscalls++;
    return recvmsg(conn->fd, message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
}

/* For the end of a sentence that says how the connection ended. */
static const char *midway_text(const muster_conn *conn)
{
    bool midway = conn->in.end > 0 || conn->in.stream.payload != NULL;
    return midway ? " in the middle of a message" : "";
}

/* One system call; 0: nothing more for this turn. */
static size_t read_some(muster_conn *conn, size_t allowed, size_t *room_out)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * MUSTER_CONN_DESCRIPTORS)];
        struct cmsghdr align;
    } control;
    struct iovec iov[2];
    struct msghdr message = {.msg_iov = iov};
    *room_out = make_room(conn, iov, &message.msg_iovlen);
    if (allowed < *room_out) {
        *room_out = cut_room(iov, message.msg_iovlen, allowed);
    }
    if (conn->shares) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof(control.bytes);
    }
    ssize_t got = conn->tls != NULL
                      ? muster_conn_tls_recv(conn, iov, message.msg_iovlen)
                      : receive(conn, &message);
    if (got < 0) {
        if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR &&
            !muster_conn_fabric_eof(conn)) {
            muster_conn_end(conn, MUSTER_ERR_PEER_LOST, "%s%s", strerror(errno),
                            midway_text(conn));
        }
        return 0;
    }
    if (conn->shares && !keep_descriptors(conn, &message)) {
        return 0;
    }
    if (got == 0 && !muster_conn_fabric_eof(conn)) {
        muster_conn_end(conn, MUSTER_ERR_PEER_LOST,
                        "it closed the connection%s", midway_text(conn));
    }
    return (size_t)got;
}

/* With a pace: how many bytes it is the connection's turn to read. Those of a
 * peer that has hung up wait for no turn. */
static size_t paced_bytes(muster_conn *conn)
{
    muster_pace *pace = conn->net->pace;
    size_t allowed = SIZE_MAX;
    if (!conn->gone) {
        allowed = muster_pace_allowance(pace, conn, MUSTER_PACE_IN);
        muster_conn_pause(conn, allowed == 0);
    }
    return conn->state == MUSTER_CONN_DEAD ? 0 : allowed;
}

/* Has come and is not decrypted yet: epoll will not tell of it. */
static bool has_more(const muster_conn *conn)
{
    return conn->tls != NULL && muster_tls_has_more(conn->tls);
}

/* Returns how many bytes came. */
static size_t read_turn(muster_conn *conn)
{
    muster_pace *pace = conn->net->pace;
    size_t total = 0;
    for (int i = 0; (i < TURN_READS && total < TURN_BYTES) || has_more(conn);
         i++) {
        size_t room = 0;
        size_t allowed = pace != NULL ? paced_bytes(conn) : SIZE_MAX;
        size_t got = allowed > 0 ? read_some(conn, allowed, &room) : 0;
        if (got > 0 && pace != NULL) {
            muster_pace_spend(pace, MUSTER_PACE_IN, got);
        }
        if (got == 0) {
            break;
        }
        total += got;
        size_t direct = 0;
        if (conn->in.stream.payload != NULL) {
            size_t left = conn->in.stream.payload->bytes - conn->in.stream.got;
            direct = got < left ? got : left;
            stream_add(conn, direct);
        }
        conn->in.end += got - direct;
        parse(conn);
        if (conn->state == MUSTER_CONN_DEAD ||
            (got < room && !has_more(conn))) {
            break;
        }
    }
    return total;
}

void muster_conn_read(muster_conn *conn)
{
    const muster_net *net = conn->net;
    size_t came = read_turn(conn);
    bool midway = conn->in.end > 0 || conn->in.stream.payload != NULL;
    conn->in.bytes_untold = midway ? conn->in.bytes_untold + came : 0;
    if (came == 0 || !midway || conn->state != MUSTER_CONN_UP ||
        conn->in.bytes_untold < MUSTER_NET_BYTES_MIN ||
        net->callbacks.on_bytes == NULL) {
        return;
    }
    int64_t now_ns = muster_clock_ns();
    if (now_ns - conn->in.bytes_told_ns >= MUSTER_NET_BYTES_NS) {
        conn->in.bytes_told_ns = now_ns;
        conn->in.bytes_untold = 0;
        net->callbacks.on_bytes(net->context, conn->peer);
    }
}
