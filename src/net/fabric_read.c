/*
 * fabric_read.c -- from a link to the user's on_message.
 *
 * A fabric does not say who sends, so every message leads with the receiver's
 * number of its connection and the token that only its peer was told. Nothing
 * that a peer announces is believed beyond the limits. A long body lands in a
 * blob of ours; the landing outlives its connection until the fabric is done
 * with the blob.
 */
#include <string.h>

#include "base/mem.h"
#include "net/fabric_inside.h"
#include "wire/bytes.h"

#define LANDINGS_MAX (2 * MUSTER_FLIGHTS_MAX)

/* The connection that a message names, NULL: none. */
static muster_conn *conn_of(muster_net *net, const uint8_t *header,
                            size_t bytes)
{
    muster_conn *conn =
        bytes < MUSTER_LEAD_BYTES
            ? NULL
            : muster_conn_find(net, muster_bytes_get(header, 8));
    bool known =
        conn != NULL && conn->fabric.used &&
        (conn->state == MUSTER_CONN_WIRING || conn->state == MUSTER_CONN_UP) &&
        muster_bytes_get(header + 8, 8) == conn->fabric.token;
    return known ? conn : NULL;
}

static void end_protocol(muster_conn *conn, const char *what)
{
    muster_conn_end(conn, MUSTER_ERR_PROTOCOL, "it sent %s", what);
}

/* Read a frame header of at most `bytes`; false: the connection has ended. */
static bool read_frame(muster_conn *conn, const uint8_t *from, size_t bytes,
                       muster_frame *frame)
{
    muster_frame_limits limits = {muster_conn_payload_max(conn), false};
    muster_error error = {.text = "a frame that is cut"};
    if (bytes < MUSTER_FRAME_BYTES ||
        muster_frame_read(from, &limits, &error, frame) != MUSTER_OK) {
        end_protocol(conn, error.text);
        return false;
    }
    if (frame->kind != MUSTER_FRAME_MESSAGE ||
        frame->header_bytes > bytes - MUSTER_FRAME_BYTES) {
        end_protocol(conn, "a malformed frame");
        return false;
    }
    return true;
}

static void hand_over(muster_conn *conn, const muster_frame *frame,
                      const uint8_t *header, muster_blob *payload)
{
    conn->fabric.received++;
    muster_conn_deliver(conn, frame, header, payload);
}

static void take_frames(muster_conn *conn, const uint8_t *at, size_t bytes)
{
    while (bytes > 0 && conn->state == MUSTER_CONN_UP) {
        muster_frame frame;
        muster_blob *payload = NULL;
        if (!read_frame(conn, at, bytes, &frame)) {
            return;
        }
        const uint8_t *header = at + MUSTER_FRAME_BYTES;
        size_t head = MUSTER_FRAME_BYTES + frame.header_bytes;
        if (frame.payload_bytes > bytes - head) {
            end_protocol(conn, "a payload that is cut");
            return;
        }
        if ((frame.flags & MUSTER_FRAME_PAYLOAD) != 0) {
            payload = muster_pool_take(conn->net->pool,
                                       (size_t)frame.payload_bytes, false);
            if (payload == NULL) {
                muster_conn_end(conn, MUSTER_ERR_PEER_LOST,
                                "no memory for a payload");
                return;
            }
            memcpy(payload->data, header + frame.header_bytes, payload->bytes);
        }
        at += head + frame.payload_bytes;
        bytes -= head + (size_t)frame.payload_bytes;
        hand_over(conn, &frame, header, payload);
    }
}

static muster_lead_kind kind_of(const uint8_t *header)
{
    return (muster_lead_kind)muster_bytes_get(header + 16, 8);
}

void muster_fabric_on_message(void *context, const uint8_t *header,
                              size_t header_bytes, const uint8_t *body,
                              size_t body_bytes)
{
    muster_net *net = context;
    muster_conn *conn = conn_of(net, header, header_bytes);
    net->fabric->moved = true;
    if (conn == NULL) {
        return;
    }
    muster_conn_fabric_greeted(conn, kind_of(header) != MUSTER_LEAD_GREETING);
    if (kind_of(header) != MUSTER_LEAD_FRAMES) {
        return;
    }
    if (conn->state == MUSTER_CONN_WIRING) {
        end_protocol(conn, "a message before its address");
    }
    take_frames(conn, body, body_bytes);
}

void muster_landing_free(muster_landing *landing)
{
    muster_blob_unref(landing->body);
    muster_mem_free(landing->header);
    muster_mem_free(landing);
}

/* Keep the frame of a long payload; false: the connection has ended. */
static bool keep_frame(muster_landing *landing, const uint8_t *header,
                       size_t header_bytes, size_t body_bytes)
{
    muster_conn *conn = landing->conn;
    if (!read_frame(conn, header + MUSTER_LEAD_BYTES,
                    header_bytes - MUSTER_LEAD_BYTES, &landing->frame)) {
        return false;
    }
    if (landing->frame.payload_bytes != body_bytes) {
        end_protocol(conn, "a payload of another length than it said");
        return false;
    }
    landing->header = muster_mem_array(landing->frame.header_bytes + 1u, 1);
    if (landing->header != NULL) {
        memcpy(landing->header, header + MUSTER_LEAD_BYTES + MUSTER_FRAME_BYTES,
               landing->frame.header_bytes);
    }
    return landing->header != NULL;
}

/* May so long a body come on this connection? */
static bool is_wanted(muster_conn *conn, muster_lead_kind kind,
                      size_t body_bytes)
{
    size_t frames_max = (size_t)muster_conn_payload_max(conn) +
                        MUSTER_NET_HEADER_MAX + MUSTER_FRAME_BYTES;
    if (conn->fabric.landing_count >= LANDINGS_MAX ||
        (kind != MUSTER_LEAD_LONG && kind != MUSTER_LEAD_FRAMES) ||
        body_bytes > frames_max) {
        end_protocol(conn, "more than we take");
        return false;
    }
    return true;
}

void *muster_fabric_on_offer(void *context, const uint8_t *header,
                             size_t header_bytes, size_t body_bytes,
                             muster_fabric_ticket **ticket_out)
{
    muster_net *net = context;
    muster_conn *conn = conn_of(net, header, header_bytes);
    net->fabric->moved = true;
    if (conn == NULL || !is_wanted(conn, kind_of(header), body_bytes)) {
        return NULL;
    }
    muster_conn_fabric_greeted(conn, true);
    muster_landing *landing = muster_mem_array(1, sizeof(*landing));
    if (landing == NULL || conn->state != MUSTER_CONN_UP) {
        goto out;
    }
    landing->conn = conn;
    landing->is_payload = kind_of(header) == MUSTER_LEAD_LONG;
    if (landing->is_payload &&
        !keep_frame(landing, header, header_bytes, body_bytes)) {
        goto out;
    }
    landing->body = muster_pool_take(net->pool, body_bytes, false);
    if (landing->body == NULL) {
        goto out;
    }
    landing->next = conn->fabric.landings;
    conn->fabric.landings = landing;
    conn->fabric.landing_count++;
    *ticket_out = &landing->ticket;
    return landing->body->data;

out:
    muster_conn_end(conn, MUSTER_ERR_PEER_LOST, "no memory for a payload");
    if (landing != NULL) {
        muster_landing_free(landing);
    }
    return NULL;
}

static void unlink_landing(muster_net_fabric *fabric, muster_landing *landing)
{
    muster_conn *conn = landing->conn;
    muster_landing **link =
        conn != NULL ? &conn->fabric.landings : &fabric->landings;
    while (*link != landing) {
        link = &(*link)->next;
    }
    *link = landing->next;
    if (conn != NULL) {
        conn->fabric.landing_count--;
    }
}

void muster_fabric_on_landed(void *context, muster_fabric_ticket *ticket,
                             muster_status status)
{
    muster_net *net = context;
    muster_landing *landing = (muster_landing *)(void *)ticket;
    muster_conn *conn = landing->conn;
    net->fabric->moved = true;
    unlink_landing(net->fabric, landing);
    if (conn == NULL) {
        // Its connection has ended.
    } else if (status != MUSTER_OK) {
        muster_conn_end(conn, MUSTER_ERR_PEER_LOST,
                        "the fabric lost a message");
    } else if (landing->is_payload) {
        hand_over(conn, &landing->frame, landing->header,
                  muster_blob_ref(landing->body));
    } else {
        take_frames(conn, landing->body->data, landing->body->bytes);
    }
    muster_landing_free(landing);
}

void muster_fabric_abandon(muster_conn *conn)
{
    muster_net_fabric *fabric = conn->net->fabric;
    while (conn->fabric.landings != NULL) {
        muster_landing *landing = conn->fabric.landings;
        conn->fabric.landings = landing->next;
        landing->conn = NULL;
        landing->next = fabric->landings;
        fabric->landings = landing;
    }
}
