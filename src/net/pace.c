/*
 * pace.c -- see pace.h.
 *
 * Invariants
 *   1. Held messages are all held for the same time, so `held` is a queue.
 *   2. A connection stands in each line at most once, and leaves both before it
 *      is freed.
 *   3. After a turn that was waited for, the next one counts from when that one
 *      was due, not from when the thread woke up: the rate holds though every
 *      sleep ends a little late.
 */
#include "net/pace.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "net/inside.h"

#define PACKET_BYTES 1500u
#define TURN_NS      500000ll // half a millisecond
#define LATE_NS      (5 * MUSTER_NS_PER_MS)

typedef struct held {
    struct held *next;
    muster_conn *conn;
    int64_t due_ns;
    muster_blob *payload; // one reference, or NULL
    size_t header_bytes;
    uint8_t header[];
} held;

typedef struct way {
    int64_t free_ns;   // when the NIC is done with what it was given
    bool waited;       // the turn being taken was waited for
    muster_conn *line; // connections that wait for a turn
    muster_conn *last;
} way;

struct muster_pace {
    double ns_per_byte; // 0: no limit
    size_t turn_bytes;
    int64_t latency_ns;
    way ways[2];
    held *first;
    held *last;
};

muster_pace *muster_pace_create(double bytes_per_s, int64_t latency_ns)
{
    muster_pace *pace = muster_mem_array(1, sizeof(*pace));
    if (pace == NULL) {
        return NULL;
    }
    pace->latency_ns = latency_ns;
    if (bytes_per_s > 0) {
        double turn = bytes_per_s * 1e-9 * (double)TURN_NS;
        pace->ns_per_byte = 1e9 / bytes_per_s;
        pace->turn_bytes = turn > PACKET_BYTES ? (size_t)turn : PACKET_BYTES;
    }
    return pace;
}

void muster_pace_free(muster_pace *pace)
{
    while (pace != NULL && pace->first != NULL) {
        held *message = pace->first;
        pace->first = message->next;
        muster_blob_unref(message->payload);
        muster_mem_free(message);
    }
    muster_mem_free(pace);
}

/* turns ------------------------------------------------------------------- */

static void stand_in_line(way *at, muster_conn *conn, muster_pace_way which)
{
    if (conn->seat.in_line[which]) {
        return;
    }
    conn->seat.in_line[which] = true;
    conn->seat.next[which] = NULL;
    if (at->line == NULL) {
        at->line = conn;
    } else {
        at->last->seat.next[which] = conn;
    }
    at->last = conn;
}

static void leave_line(way *at, muster_conn *conn, muster_pace_way which)
{
    muster_conn *before = NULL;
    for (muster_conn *each = at->line; each != NULL;
         before = each, each = each->seat.next[which]) {
        if (each != conn) {
            continue;
        }
        if (before == NULL) {
            at->line = conn->seat.next[which];
        } else {
            before->seat.next[which] = conn->seat.next[which];
        }
        at->last = at->last == conn ? before : at->last;
        break;
    }
    conn->seat.in_line[which] = false;
}

size_t muster_pace_allowance(muster_pace *pace, muster_conn *conn,
                             muster_pace_way which)
{
    way *at = &pace->ways[which];
    if (pace->ns_per_byte <= 0) {
        return SIZE_MAX;
    }
    bool next = at->line == NULL || conn->seat.has_turn[which];
    if (next && at->free_ns <= muster_clock_ns()) {
        conn->seat.has_turn[which] = false;
        return pace->turn_bytes;
    }
    stand_in_line(at, conn, which);
    return 0;
}

void muster_pace_spend(muster_pace *pace, muster_pace_way which, size_t bytes)
{
    way *at = &pace->ways[which];
    int64_t now_ns = muster_clock_ns();
    int64_t first_ns = at->waited ? now_ns - LATE_NS : now_ns;
    int64_t began_ns = at->free_ns > first_ns ? at->free_ns : first_ns;
    at->waited = false;
    at->free_ns = began_ns + (int64_t)((double)bytes * pace->ns_per_byte);
}

/* The connection whose turn has come, or NULL. */
static muster_conn *next_turn(muster_pace *pace, muster_pace_way which)
{
    way *at = &pace->ways[which];
    muster_conn *conn = at->line;
    if (conn == NULL || at->free_ns > muster_clock_ns()) {
        return NULL;
    }
    at->line = conn->seat.next[which];
    conn->seat.in_line[which] = false;
    conn->seat.has_turn[which] = true;
    at->waited = true;
    return conn;
}

/* latency ----------------------------------------------------------------- */

bool muster_pace_has_latency(const muster_pace *pace)
{
    return pace->latency_ns > 0;
}

bool muster_pace_hold(muster_pace *pace, muster_conn *conn,
                      const muster_frame *frame, const uint8_t *header,
                      muster_blob *payload)
{
    held *message = muster_mem_array(1, sizeof(*message) + frame->header_bytes);
    if (message == NULL) {
        return false;
    }
    message->conn = conn;
    message->due_ns = muster_clock_ns() + pace->latency_ns;
    message->payload = payload;
    message->header_bytes = frame->header_bytes;
    if (frame->header_bytes > 0) {
        memcpy(message->header, header, frame->header_bytes);
    }
    if (pace->first == NULL) {
        pace->first = message;
    } else {
        pace->last->next = message;
    }
    pace->last = message;
    return true;
}

/* What a dropped connection sent is not delivered. */
static void deliver(held *message, bool tell)
{
    const muster_conn *conn = message->conn;
    const muster_net *net = conn->net;
    muster_net_message whole = {message->header, message->header_bytes,
                                message->payload};
    bool dropped = conn->state == MUSTER_CONN_DEAD && !conn->down_due;
    if (tell && !dropped && net->callbacks.on_message != NULL) {
        net->callbacks.on_message(net->context, conn->peer, &whole);
    }
    muster_blob_unref(message->payload);
    muster_mem_free(message);
}

static void deliver_due(muster_pace *pace)
{
    int64_t now_ns = muster_clock_ns();
    while (pace->first != NULL && pace->first->due_ns <= now_ns) {
        held *message = pace->first;
        pace->first = message->next;
        deliver(message, true);
    }
}

/* both -------------------------------------------------------------------- */

int64_t muster_pace_next_ns(const muster_pace *pace)
{
    int64_t next_ns =
        pace->first != NULL ? pace->first->due_ns : MUSTER_NET_NEVER;
    for (unsigned i = 0; i < 2; i++) {
        const way *at = &pace->ways[i];
        if (at->line != NULL && at->free_ns < next_ns) {
            next_ns = at->free_ns;
        }
    }
    return next_ns;
}

void muster_pace_run(muster_pace *pace)
{
    deliver_due(pace);
    for (muster_conn *conn = next_turn(pace, MUSTER_PACE_IN); conn != NULL;
         conn = next_turn(pace, MUSTER_PACE_IN)) {
        if (conn->state != MUSTER_CONN_DEAD) {
            muster_conn_read(conn);
        }
    }
    // What it writes is known after the flush that follows.
    muster_conn *conn = next_turn(pace, MUSTER_PACE_OUT);
    if (conn != NULL) {
        muster_conn_touch(conn);
    }
}

void muster_pace_end(muster_pace *pace, muster_conn *conn, bool tell)
{
    leave_line(&pace->ways[MUSTER_PACE_OUT], conn, MUSTER_PACE_OUT);
    leave_line(&pace->ways[MUSTER_PACE_IN], conn, MUSTER_PACE_IN);
    held **link = &pace->first;
    pace->last = NULL;
    while (*link != NULL) {
        held *message = *link;
        if (message->conn == conn) {
            *link = message->next;
            deliver(message, tell);
        } else {
            pace->last = message;
            link = &message->next;
        }
    }
}
