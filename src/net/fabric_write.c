/*
 * fabric_write.c -- from a connection's queue to its link.
 *
 * Small messages of one flush travel together, as frames one after the other.
 * A long payload travels alone: its frame is in the header of the fabric's
 * message, and its bytes are read from the blob.
 *
 *   1. At most MUSTER_FLIGHTS_MAX sends and FLIGHT_BYTES_MAX bytes are given to
 *      the fabric at a time. The rest waits in the queue, where it can be
 *      replaced.
 *   2. A flight outlives its connection until the fabric is done with its
 *      memory. Its items do not: their `done` comes when the connection ends.
 */
#include <string.h>

#include "base/mem.h"
#include "net/fabric_inside.h"
#include "wire/bytes.h"

#define FLIGHT_BYTES_MAX ((size_t)4 << 20)
#define BATCH_BYTES      ((size_t)64 << 10)
#define SPARES_MAX       64u
#define SPARE_BYTES      (2 * BATCH_BYTES) // larger buffers are not kept
#define BUFFER_BYTES     ((size_t)4 << 10) // the smallest

static void write_lead(const muster_conn *conn, muster_lead_kind kind,
                       uint8_t *bytes)
{
    muster_bytes_put(bytes, conn->fabric.their_number, 8);
    muster_bytes_put(bytes + 8, conn->fabric.their_token, 8);
    muster_bytes_put(bytes + 16, (uint64_t)kind, 8);
}

/* flights ----------------------------------------------------------------- */

void muster_flight_free(muster_flight *flight)
{
    muster_mem_free(flight->buffer);
    muster_mem_free(flight);
}

/* A flight with room for a buffer of so many bytes; NULL: no memory. */
static muster_flight *flight_take(muster_net_fabric *fabric, size_t bytes)
{
    muster_flight *flight = fabric->spares;
    if (flight != NULL) {
        fabric->spares = flight->next;
        fabric->spare_count--;
        *flight = (muster_flight){.buffer = flight->buffer,
                                  .capacity = flight->capacity};
    } else {
        flight = muster_mem_array(1, sizeof(*flight));
    }
    if (flight != NULL && flight->capacity < bytes) {
        size_t capacity = bytes < BUFFER_BYTES ? BUFFER_BYTES : bytes;
        uint8_t *buffer = muster_mem_resize(flight->buffer, capacity, 1);
        if (buffer == NULL) {
            muster_flight_free(flight);
            return NULL;
        }
        flight->buffer = buffer;
        flight->capacity = capacity;
    }
    return flight;
}

static void flight_give(muster_net_fabric *fabric, muster_flight *flight)
{
    muster_blob_unref(flight->payload);
    flight->payload = NULL;
    if (fabric->spare_count >= SPARES_MAX || flight->capacity > SPARE_BYTES) {
        muster_flight_free(flight);
        return;
    }
    flight->next = fabric->spares;
    fabric->spares = flight;
    fabric->spare_count++;
}

static void unlink_flight(muster_net_fabric *fabric, muster_flight *flight)
{
    muster_conn *conn = flight->conn;
    muster_flight **link =
        conn != NULL ? &conn->fabric.flights : &fabric->flights;
    while (*link != flight) {
        link = &(*link)->next;
    }
    *link = flight->next;
    if (conn != NULL) {
        conn->fabric.flight_count--;
        conn->fabric.flight_bytes -= flight->bytes;
    }
}

/* The fabric is done with a flight of a connection that stands. */
static void flight_over(muster_flight *flight, muster_status status)
{
    muster_conn *conn = flight->conn;
    muster_net *net = conn->net;
    for (muster_item *item = muster_queue_pop(&flight->items); item != NULL;
         item = muster_queue_pop(&flight->items)) {
        conn->out.queue_messages--;
        net->counters.messages_sent++;
        net->counters.bytes_sent += item->head_bytes - MUSTER_FRAME_BYTES;
        net->counters.bytes_sent += item->payload ? item->payload->bytes : 0;
        muster_net_finish(net, item, status);
    }
    unlink_flight(net->fabric, flight);
    flight_give(net->fabric, flight);
    muster_conn_touch(conn);
}

void muster_fabric_on_sent(void *context, muster_fabric_ticket *ticket,
                           muster_status status)
{
    muster_net *net = context;
    muster_flight *flight = (muster_flight *)(void *)ticket;
    if (flight->conn != NULL && status == MUSTER_OK) {
        flight_over(flight, MUSTER_OK);
        return;
    }
    if (flight->conn != NULL) {
        muster_conn_end(flight->conn, MUSTER_ERR_PEER_LOST,
                        "the fabric did not deliver a message");
    }
    unlink_flight(net->fabric, flight);
    flight_give(net->fabric, flight);
}

void muster_fabric_ground(muster_conn *conn, muster_status status)
{
    muster_net_fabric *fabric = conn->net->fabric;
    while (conn->fabric.flights != NULL) {
        muster_flight *flight = conn->fabric.flights;
        conn->fabric.flights = flight->next;
        for (muster_item *item = muster_queue_pop(&flight->items); item != NULL;
             item = muster_queue_pop(&flight->items)) {
            muster_net_finish(conn->net, item, status);
        }
        flight->conn = NULL;
        flight->next = fabric->flights;
        fabric->flights = flight;
    }
}

/* write ------------------------------------------------------------------- */

static void launch(muster_conn *conn, muster_flight *flight,
                   const muster_fabric_send *message)
{
    muster_net_fabric *fabric = conn->net->fabric;
    flight->conn = conn;
    flight->next = conn->fabric.flights;
    conn->fabric.flights = flight;
    conn->fabric.flight_count++;
    conn->fabric.flight_bytes += flight->bytes;
    conn->net->counters.syscalls++;
    fabric->busy = true;
    muster_status status = fabric->module->send(conn->fabric.route->link,
                                                message, &flight->ticket);
    if (status == MUSTER_OK) {
        flight_over(flight, MUSTER_OK);
    } else if (status != MUSTER_IN_PROGRESS) {
        muster_conn_end(conn, MUSTER_ERR_PEER_LOST,
                        "the fabric did not take a message");
        unlink_flight(fabric, flight);
        flight_give(fabric, flight);
    }
}

void muster_fabric_greet(muster_conn *conn, muster_lead_kind kind)
{
    muster_flight *flight = flight_take(conn->net->fabric, MUSTER_LEAD_BYTES);
    if (flight == NULL) {
        muster_conn_end(conn, MUSTER_ERR_PEER_LOST, "no memory for a greeting");
        return;
    }
    write_lead(conn, kind, flight->buffer);
    const muster_fabric_send message = {.header = flight->buffer,
                                        .header_bytes = MUSTER_LEAD_BYTES};
    launch(conn, flight, &message);
}

static muster_frame frame_of(muster_conn *conn, const muster_item *item)
{
    muster_frame frame = {
        .kind = MUSTER_FRAME_MESSAGE,
        .header_bytes = (uint32_t)(item->head_bytes - MUSTER_FRAME_BYTES),
        .sequence = ++conn->fabric.sent,
    };
    if (item->payload != NULL) {
        frame.flags = MUSTER_FRAME_PAYLOAD;
        frame.payload_bytes = item->payload->bytes;
    }
    return frame;
}

/* The next item of the queue leaves it, its frame header filled in. */
static muster_item *begin_item(muster_conn *conn)
{
    muster_item *item = muster_queue_pop(&conn->out.queue);
    muster_frame frame = frame_of(conn, item);
    muster_frame_write(&frame, item->head);
    conn->out.queue_bytes -= muster_item_queue_bytes(item);
    return item;
}

static bool is_long(const muster_conn *conn, const muster_item *item)
{
    return item->payload != NULL && item->payload->bytes > MUSTER_CONN_DIRECT &&
           MUSTER_LEAD_BYTES + item->head_bytes <=
               conn->net->fabric->header_bytes_max;
}

/* false: nothing was sent. */
static bool send_long(muster_conn *conn)
{
    size_t bytes = MUSTER_LEAD_BYTES + conn->out.queue.first->head_bytes;
    muster_flight *flight = flight_take(conn->net->fabric, bytes);
    if (flight == NULL) {
        return false;
    }
    muster_item *item = begin_item(conn);
    write_lead(conn, MUSTER_LEAD_LONG, flight->buffer);
    memcpy(flight->buffer + MUSTER_LEAD_BYTES, item->head, item->head_bytes);
    flight->payload = muster_blob_ref(item->payload);
    flight->bytes = item->payload->bytes;
    muster_queue_push(&flight->items, item);
    const muster_fabric_send message = {
        .header = flight->buffer,
        .header_bytes = bytes,
        .body = flight->payload->data,
        .body_bytes = flight->payload->bytes,
        .offer = true,
    };
    launch(conn, flight, &message);
    return true;
}

/* How many bytes of frames leave together: one item at least. */
static size_t measure_batch(const muster_conn *conn)
{
    size_t bytes = 0;
    for (const muster_item *item = conn->out.queue.first;
         item != NULL && !is_long(conn, item); item = item->next) {
        size_t more = muster_item_wire_bytes(item);
        if (bytes > 0 && bytes + more > BATCH_BYTES) {
            break;
        }
        bytes += more;
    }
    return bytes;
}

/* false: nothing was sent. */
static bool send_batch(muster_conn *conn)
{
    size_t bytes = measure_batch(conn);
    muster_flight *flight =
        flight_take(conn->net->fabric, MUSTER_LEAD_BYTES + bytes);
    if (flight == NULL) {
        return false;
    }
    write_lead(conn, MUSTER_LEAD_FRAMES, flight->buffer);
    uint8_t *at = flight->buffer + MUSTER_LEAD_BYTES;
    const uint8_t *end = at + bytes;
    while (at < end) {
        muster_item *item = begin_item(conn);
        memcpy(at, item->head, item->head_bytes);
        at += item->head_bytes;
        if (item->payload != NULL && item->payload->bytes > 0) {
            memcpy(at, item->payload->data, item->payload->bytes);
            at += item->payload->bytes;
        }
        muster_queue_push(&flight->items, item);
    }
    flight->bytes = bytes;
    const muster_fabric_send message = {
        .header = flight->buffer,
        .header_bytes = MUSTER_LEAD_BYTES,
        .body = flight->buffer + MUSTER_LEAD_BYTES,
        .body_bytes = bytes,
        .offer = bytes > 2 * BATCH_BYTES,
    };
    launch(conn, flight, &message);
    return true;
}

void muster_fabric_launch(muster_conn *conn)
{
    bool more = true;
    while (more && conn->state == MUSTER_CONN_UP &&
           conn->out.queue.first != NULL &&
           conn->fabric.flight_count < MUSTER_FLIGHTS_MAX &&
           conn->fabric.flight_bytes < FLIGHT_BYTES_MAX) {
        more = is_long(conn, conn->out.queue.first) ? send_long(conn)
                                                    : send_batch(conn);
        if (!more) {
            muster_conn_end(conn, MUSTER_ERR_PEER_LOST,
                            "no memory for a message");
        }
    }
}
