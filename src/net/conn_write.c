/*
 * conn_write.c -- from a peer's queue to its socket.
 *
 * One turn gathers the queue's items into one sendmsg(), a few times over. A
 * frame header is filled in whenever its item is gathered and counts only once
 * a byte of it is written, so that items which the socket did not take stay
 * replaceable.
 *
 * A segment that the peer does not know yet needs its descriptor sent along.
 * Descriptors belong to the first byte of a sendmsg(), and the peer hands them
 * to frames in order; so such an item is gathered only when no fresh item is
 * before it, and nothing is gathered after it.
 *
 * A shared payload is a few bytes on the socket, so the socket's own bound does
 * not keep a stopped peer from pinning segment after segment. The window does:
 * at most MUSTER_CONN_WINDOW shared payloads that the peer has not read yet.
 * Acknowledgements ride on every frame; half-way through the window the peer is
 * asked for one at once.
 *
 * Of our own lists (releases, forgets, acknowledgements) at most one is in the
 * queue, and it needs no memory: what comes meanwhile waits where it is noted,
 * so that a peer which does not read cannot make us queue without end.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "net/inside.h"
#include "wire/bytes.h"

#define TURN_WRITES 4
#define WRITE_BYTES ((size_t)1 << 20) // gathered at a time, about

_Static_assert(MUSTER_FRAME_SLOTS <= 64, "`forgets` has a bit for each slot");
_Static_assert(MUSTER_CONN_LIST >= MUSTER_FRAME_SLOTS, "all can be forgotten");

typedef struct gathering {
    int iov_count;
    size_t bytes;
    unsigned fresh;         // items of which nothing was written before
    unsigned shared;        // of these, with a shared payload
    muster_item *described; // the one whose descriptor goes along, or NULL
} gathering;

static int slot_of(const muster_conn *conn, uint64_t segment_id)
{
    for (unsigned i = 0; i < MUSTER_FRAME_SLOTS; i++) {
        if (conn->out.slots[i].segment_id == segment_id) {
            return (int)i;
        }
    }
    return -1;
}

static uint16_t oldest_slot(const muster_conn *conn)
{
    unsigned best = 0;
    for (unsigned i = 0; i < MUSTER_FRAME_SLOTS; i++) {
        if (conn->out.slots[i].segment_id == 0) {
            return (uint16_t)i;
        }
        if (conn->out.slots[i].used < conn->out.slots[best].used) {
            best = i;
        }
    }
    return (uint16_t)best;
}

/* Choose the slot of a shared payload; false: not in this gathering. */
static bool place(const muster_conn *conn, gathering *gather, muster_item *item,
                  muster_frame *frame)
{
    unsigned ahead = conn->out.unacked_count + gather->shared;
    if (ahead >= MUSTER_CONN_WINDOW) {
        return false;
    }
    frame->flags |= MUSTER_FRAME_SHARED;
    if (ahead + 1 >= MUSTER_CONN_WINDOW / 2) {
        frame->flags |= MUSTER_FRAME_ACK_NOW;
    }
    int known = slot_of(conn, item->segment->id);
    if (item->descriptor_sent) {
        frame->flags |= MUSTER_FRAME_DESCRIPTOR;
    } else if (known >= 0) {
        item->slot = (uint16_t)known;
    } else if (gather->fresh > 0) {
        return false;
    } else {
        item->slot = oldest_slot(conn);
        frame->flags |= MUSTER_FRAME_DESCRIPTOR;
        gather->described = item;
    }
    frame->slot = item->slot;
    gather->shared++;
    return true;
}

/* Fill in the frame header of an item of which nothing was written. */
static bool prepare(const muster_conn *conn, gathering *gather,
                    muster_item *item)
{
    muster_frame frame = {
        .kind = item->kind,
        .header_bytes = (uint32_t)(item->head_bytes - MUSTER_FRAME_BYTES),
        .sequence = conn->out.sequence + gather->fresh + 1,
        .ack = conn->in.received,
    };
    if (item->payload != NULL) {
        frame.flags = MUSTER_FRAME_PAYLOAD;
        frame.payload_bytes = item->payload->bytes;
    }
    if (item->segment != NULL && !place(conn, gather, item, &frame)) {
        return false;
    }
    muster_frame_write(&frame, item->head);
    gather->fresh++;
    return true;
}

static void add_bytes(muster_net *net, gathering *gather, void *bytes,
                      size_t count)
{
    if (count > 0) {
        net->iov[gather->iov_count] = (struct iovec){bytes, count};
        gather->iov_count++;
        gather->bytes += count;
    }
}

static void add_item(muster_net *net, gathering *gather, muster_item *item,
                     size_t limit)
{
    size_t sent = item->sent;
    if (sent < item->head_bytes) {
        add_bytes(net, gather, item->head + sent, item->head_bytes - sent);
        sent = item->head_bytes;
    }
    size_t left = muster_item_wire_bytes(item) - sent;
    if (left > 0) {
        // At most a turn's worth of one payload, so that others get theirs.
        size_t at = sent - item->head_bytes;
        size_t take = left < limit ? left : limit;
        add_bytes(net, gather, (char *)item->payload->data + at, take);
    }
}

static gathering gather_items(muster_conn *conn, size_t limit)
{
    gathering gather = {0};
    for (muster_item *item = conn->out.queue.first; item != NULL;
         item = item->next) {
        if (gather.iov_count + 2 > (int)MUSTER_NET_IOV ||
            gather.bytes >= limit || gather.described != NULL ||
            (item->sent == 0 && !prepare(conn, &gather, item))) {
            break;
        }
        add_item(conn->net, &gather, item, limit);
    }
    return gather;
}

/* The frame's first byte is out. */
static void item_begun(muster_conn *conn, muster_item *item)
{
    conn->out.sequence++;
    conn->in.shared_ahead = 0; // the frame acknowledges all that was received
    if (item != &conn->out.control) {
        conn->out.queue_bytes -= muster_item_queue_bytes(item);
    }
    if (item->segment == NULL) {
        return;
    }
    MUSTER_ASSERT(conn->out.unacked_count < MUSTER_CONN_WINDOW);
    conn->out.unacked[conn->out.unacked_count++] = conn->out.sequence;
    item->hold->sequence = conn->out.sequence;
    conn->out.slots[item->slot].used = conn->out.sequence;
}

/* The frame is out. */
static void item_over(muster_conn *conn, muster_item *item)
{
    muster_net *net = conn->net;
    if (item == &conn->out.control) {
        conn->out.control_queued = false;
        return;
    }
    conn->out.queue_messages--;
    net->counters.messages_sent++;
    net->counters.bytes_sent += item->head_bytes - MUSTER_FRAME_BYTES;
    net->counters.bytes_sent += item->payload ? item->payload->bytes : 0;
    if (item->segment != NULL) {
        muster_hold *hold = item->hold;
        hold->payload = item->payload;
        hold->next = conn->out.holds;
        conn->out.holds = hold;
        item->payload = NULL;
        item->hold = NULL;
    }
    muster_net_finish(net, item, MUSTER_OK);
}

static void account(muster_conn *conn, const gathering *gather, size_t written)
{
    if (gather->described != NULL) {
        muster_item *item = gather->described;
        item->descriptor_sent = true;
        conn->out.slots[item->slot] =
            (muster_slot){item->segment->id, conn->out.sequence};
        // What was there is forgotten with this; a later list must not say so.
        conn->out.forgets &= ~((uint64_t)1 << item->slot);
    }
    while (written > 0) {
        muster_item *item = conn->out.queue.first;
        MUSTER_ASSERT(item != NULL);
        if (item->sent == 0) {
            item_begun(conn, item);
        }
        size_t left = muster_item_wire_bytes(item) - item->sent;
        size_t take = written < left ? written : left;
        item->sent += take;
        written -= take;
        if (take == left) {
            item_over(conn, muster_queue_pop(&conn->out.queue));
        }
    }
}

static ssize_t send_gathered(muster_conn *conn, const gathering *gather)
{
    if (conn->tls != NULL) {
        return muster_conn_tls_send(conn, conn->net->iov,
                                    (size_t)gather->iov_count);
    }
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct msghdr message = {.msg_iov = conn->net->iov,
                             .msg_iovlen = (size_t)gather->iov_count};
    if (gather->described != NULL) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof(control.bytes);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        *header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)),
                                   .cmsg_level = SOL_SOCKET,
                                   .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(header), &gather->described->segment->fd, sizeof(int));
    }
    conn->net->counters.syscalls++;
    return sendmsg(conn->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Writing failed for good. What the peer sent before it went may still say
 * why, so reading ends the connection; the deadline is for a peer that stays
 * and only refuses to read. */
static void write_broke(muster_conn *conn)
{
    conn->out.broken = true;
    if (conn->deadline == MUSTER_NET_NEVER) {
        conn->deadline = muster_clock_ns() + conn->net->opts.hello_timeout_ns;
        conn->net->waiting++;
    }
    muster_conn_arm(conn, false);
}

static bool is_lasting(int error)
{
    return error != EAGAIN && error != EWOULDBLOCK && error != EINTR;
}

bool muster_conn_has_unsent(const muster_conn *conn)
{
    size_t bytes = 0;
    if (conn->tls != NULL) {
        (void)muster_tls_out(conn->tls, &bytes);
    }
    return bytes > 0;
}

/* true: all was written and more may be tried. */
static bool write_some(muster_conn *conn)
{
    muster_pace *pace = conn->net->pace;
    size_t limit = WRITE_BYTES;
    if (pace != NULL) {
        size_t allowed = muster_pace_allowance(pace, conn, MUSTER_PACE_OUT);
        limit = allowed < limit ? allowed : limit;
    }
    gathering gather = limit > 0 ? gather_items(conn, limit) : (gathering){0};
    if (gather.iov_count == 0) {
        muster_conn_arm(conn, false);
        return false;
    }
    ssize_t written = send_gathered(conn, &gather);
    if (written < 0 && is_lasting(errno)) {
        // Passing a descriptor fails for reasons that are not the peer's.
        if (errno == ETOOMANYREFS || errno == ENOMEM || errno == ENOBUFS) {
            muster_conn_end(conn, MUSTER_ERR_PEER_LOST, "%s", strerror(errno));
        } else {
            write_broke(conn);
        }
        return false;
    }
    if (written > 0) {
        account(conn, &gather, (size_t)written);
    }
    if (written > 0 && pace != NULL) {
        muster_pace_spend(pace, MUSTER_PACE_OUT, (size_t)written);
    }
    if (written < (ssize_t)gather.bytes || muster_conn_has_unsent(conn)) {
        muster_conn_arm(conn, true);
        return false;
    }
    return true;
}

/* Fill the control item with the slots to forget; returns their number. */
static size_t list_forgets(muster_conn *conn, uint8_t *entries)
{
    size_t count = 0;
    for (uint64_t slot = 0; slot < MUSTER_FRAME_SLOTS; slot++) {
        if ((conn->out.forgets >> slot & 1) != 0) {
            muster_bytes_put(entries + 8 * count++, slot, 8);
        }
    }
    conn->out.forgets = 0;
    return count;
}

static size_t list_releases(muster_conn *conn, uint8_t *entries)
{
    muster_vec *list = &conn->out.releases;
    uint64_t *sequences = list->data;
    size_t count =
        list->count < MUSTER_CONN_LIST ? list->count : MUSTER_CONN_LIST;
    for (size_t i = 0; i < count; i++) {
        muster_bytes_put(entries + 8 * i, sequences[i], 8);
    }
    list->count -= count;
    if (list->count > 0) {
        memmove(sequences, sequences + count,
                list->count * sizeof(sequences[0]));
    }
    return count;
}

/* Put a list frame, if one is due, ahead of the fresh items. Any frame carries
 * an acknowledgement, but a queued message may itself wait for one from the
 * peer; a list, even an empty one, never waits. */
static void queue_control(muster_conn *conn)
{
    bool forget = conn->out.forgets != 0;
    if (conn->out.control_queued ||
        (!forget && conn->out.releases.count == 0 && !conn->out.ack_due)) {
        return;
    }
    muster_item *item = &conn->out.control;
    uint8_t *entries = item->head + MUSTER_FRAME_BYTES;
    size_t count =
        forget ? list_forgets(conn, entries) : list_releases(conn, entries);
    item->kind = forget ? MUSTER_FRAME_FORGET : MUSTER_FRAME_RELEASE;
    item->head_bytes = MUSTER_FRAME_BYTES + 8 * count;
    item->sent = 0;
    conn->out.ack_due = false;
    conn->out.control_queued = true;
    muster_queue_push_ahead(&conn->out.queue, item);
}

ssize_t muster_conn_send_bytes(muster_conn *conn, uint8_t *bytes, size_t count)
{
    if (conn->tls != NULL) {
        struct iovec iov = {bytes, count};
        return muster_conn_tls_send(conn, &iov, 1);
    }
    conn->net->counters.syscalls++;
    return send(conn->fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static bool send_hello(muster_conn *conn)
{
    if (conn->out.hello_sent == MUSTER_HELLO_BYTES) {
        return true;
    }
    ssize_t sent =
        muster_conn_send_bytes(conn, conn->out.hello + conn->out.hello_sent,
                               MUSTER_HELLO_BYTES - conn->out.hello_sent);
    if (sent < 0 && is_lasting(errno)) {
        write_broke(conn);
        return false;
    }
    conn->out.hello_sent += sent > 0 ? (size_t)sent : 0;
    bool complete = conn->out.hello_sent == MUSTER_HELLO_BYTES;
    muster_conn_arm(conn, !complete || muster_conn_has_unsent(conn));
    return complete;
}

/* What TLS has to say goes first: the handshake, and what is encrypted. False:
 * nothing else can be written now. */
static bool send_encrypted(muster_conn *conn)
{
    muster_conn_tls_begin(conn);
    if (conn->state == MUSTER_CONN_DEAD) {
        return false;
    }
    if (!muster_conn_tls_flush(conn)) {
        if (is_lasting(errno)) {
            write_broke(conn);
        } else {
            muster_conn_arm(conn, true);
        }
        return false;
    }
    if (!muster_tls_is_ready(conn->tls)) {
        muster_conn_arm(conn, false);
        return false;
    }
    return true;
}

void muster_conn_write(muster_conn *conn)
{
    if (conn->state < MUSTER_CONN_HELLO || conn->state > MUSTER_CONN_UP ||
        conn->out.broken || (conn->tls != NULL && !send_encrypted(conn)) ||
        !send_hello(conn)) {
        return;
    }
    if (conn->fabric.used && conn->state > MUSTER_CONN_HELLO) {
        muster_conn_fabric_write(conn);
        return;
    }
    if (conn->state != MUSTER_CONN_UP) {
        return;
    }
    for (int i = 0; i < TURN_WRITES; i++) {
        queue_control(conn);
        if (conn->out.queue.first == NULL) {
            muster_conn_arm(conn, false);
            return;
        }
        if (!write_some(conn)) {
            return;
        }
    }
    muster_conn_arm(conn, true); // the turn is over, the queue is not
}

muster_status muster_conn_acked(muster_conn *conn, uint64_t ack)
{
    if (ack > conn->out.sequence || ack < conn->out.acked) {
        return MUSTER_ERR_PROTOCOL;
    }
    conn->out.acked = ack;
    unsigned gone = 0;
    while (gone < conn->out.unacked_count && conn->out.unacked[gone] <= ack) {
        gone++;
    }
    if (gone > 0) {
        conn->out.unacked_count -= gone;
        memmove(conn->out.unacked, conn->out.unacked + gone,
                conn->out.unacked_count * sizeof(conn->out.unacked[0]));
        muster_conn_touch(conn);
    }
    return MUSTER_OK;
}

muster_status muster_conn_released(muster_conn *conn, uint64_t sequence)
{
    for (muster_hold **link = &conn->out.holds; *link != NULL;
         link = &(*link)->next) {
        muster_hold *hold = *link;
        if (hold->sequence == sequence) {
            *link = hold->next;
            muster_store_give_hold(&conn->net->store, hold);
            return MUSTER_OK;
        }
    }
    return MUSTER_ERR_PROTOCOL;
}

void muster_conn_forget(muster_conn *conn, uint64_t segment_id)
{
    int slot = slot_of(conn, segment_id);
    if (slot >= 0) {
        conn->out.forgets |= (uint64_t)1 << slot;
        conn->out.slots[slot].segment_id = 0;
        muster_conn_touch(conn);
    }
}
