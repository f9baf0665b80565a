/*
 * conn_fabric.c -- connections whose messages travel by a fabric (fabric.h).
 *
 * Design. A connection begins as any other: TCP, TLS where there is a key,
 * hello. Then both sides tell each other, in an ADDRESS frame on the socket,
 * their worker address, the number of the connection and a token. Each greets
 * the other on a link to that address, the caller first. Every message on a
 * link leads with the receiver's number and token, by which it finds its
 * connection: a fabric does not say who sends.
 *
 *      socket:  hello, ADDRESS  ------------------------------- LAST, end
 *      link:                     GREETING, HEARD, HEARD, messages
 *      state:   HELLO | WIRING              | UP
 *
 * A side is up once its greeting was heard, and it has heard the peer's.
 *
 *   1. The socket stays open, and its end is the connection's. Messages sent
 *      before may still be on their way, so a side that ends a connection says
 *      first how many it has sent (LAST), and the other waits for them, for
 *      DRAIN_NS at most.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/fabric_inside.h"
#include "wire/bytes.h"

#define DRAIN_NS (2 * MUSTER_NS_PER_S)
#define GRACE_NS (300 * MUSTER_NS_PER_MS) // for peers to read, at close

/* In an ADDRESS frame, after number, token, worker and length. */
#define ADDRESS_AT 32u

/* notes on the socket ----------------------------------------------------- */

/* The rest of an ADDRESS or LAST frame; false: the socket takes no more. */
static bool write_note(muster_conn *conn)
{
    muster_conn_fabric *own = &conn->fabric;
    while (own->note_sent < own->note_bytes) {
        ssize_t sent = muster_conn_send_bytes(conn, own->note + own->note_sent,
                                              own->note_bytes - own->note_sent);
        if (sent <= 0) {
            return false;
        }
        own->note_sent += (size_t)sent;
    }
    return true;
}

void muster_conn_fabric_write(muster_conn *conn)
{
    if (!write_note(conn)) {
        muster_conn_arm(conn, true);
        return;
    }
    muster_conn_arm(conn, muster_conn_has_unsent(conn));
    muster_fabric_launch(conn);
}

/* wiring ------------------------------------------------------------------ */

/* Room for a frame whose header is a list of so many bytes; false: no memory.
 */
static bool make_note(muster_conn *conn, muster_frame_kind kind, size_t bytes)
{
    muster_conn_fabric *own = &conn->fabric;
    uint8_t *note = muster_mem_resize(own->note, MUSTER_FRAME_BYTES + bytes, 1);
    if (note == NULL) {
        return false;
    }
    const muster_frame frame = {.kind = kind,
                                .header_bytes = (uint32_t)bytes,
                                .sequence = ++own->notes};
    muster_frame_write(&frame, note);
    memset(note + MUSTER_FRAME_BYTES, 0, bytes);
    own->note = note;
    own->note_bytes = MUSTER_FRAME_BYTES + bytes;
    own->note_sent = 0;
    return true;
}

void muster_conn_fabric_wire(muster_conn *conn)
{
    muster_net_fabric *fabric = conn->net->fabric;
    size_t bytes = 0;
    const void *address = fabric->module->address(fabric->handle, &bytes);
    conn->state = MUSTER_CONN_WIRING;
    if (getrandom(&conn->fabric.token, sizeof(conn->fabric.token), 0) !=
            (ssize_t)sizeof(conn->fabric.token) ||
        !make_note(conn, MUSTER_FRAME_ADDRESS,
                   ADDRESS_AT + (bytes + 7) / 8 * 8)) {
        muster_conn_end(conn, MUSTER_ERR_PEER_LOST, "no memory to connect");
        return;
    }
    uint8_t *entries = conn->fabric.note + MUSTER_FRAME_BYTES;
    muster_bytes_put(entries, conn->peer, 8);
    muster_bytes_put(entries + 8, conn->fabric.token, 8);
    muster_bytes_put(entries + 16, fabric->worker, 8);
    muster_bytes_put(entries + 24, bytes, 8);
    memcpy(entries + ADDRESS_AT, address, bytes);
    muster_conn_touch(conn);
}

/* Make the link and greet the peer on it. */
static void greet(muster_conn *conn)
{
    muster_error error = {0};
    if (muster_route_join(conn, conn->fabric.their_worker,
                          conn->fabric.their_address, &error) != MUSTER_OK) {
        muster_conn_end(conn, MUSTER_ERR_PEER_LOST, "%s", error.text);
        return;
    }
    muster_fabric_greet(conn, conn->fabric.heard ? MUSTER_LEAD_HEARD
                                                 : MUSTER_LEAD_GREETING);
}

void muster_conn_fabric_greeted(muster_conn *conn, bool is_heard)
{
    muster_conn_fabric *own = &conn->fabric;
    bool first = !own->heard;
    own->heard = true;
    own->is_heard = own->is_heard || is_heard;
    if (first && own->route != NULL) {
        muster_fabric_greet(conn, MUSTER_LEAD_HEARD);
    } else if (first && own->their_address != NULL) {
        greet(conn);
    }
    if (conn->state == MUSTER_CONN_WIRING && own->route != NULL &&
        own->is_heard) {
        muster_conn_up(conn);
    }
}

/* The side that connected greets first: endpoints that are made on both sides
 * at once are two connections of UCX. */
static const char *take_address(muster_conn *conn, const uint8_t *entries,
                                size_t bytes)
{
    muster_conn_fabric *own = &conn->fabric;
    if (conn->state != MUSTER_CONN_WIRING || own->their_address != NULL) {
        return "a worker address out of turn";
    }
    if (bytes < ADDRESS_AT + 8 ||
        muster_bytes_get(entries + 24, 8) > bytes - ADDRESS_AT) {
        return "a malformed worker address";
    }
    own->their_number = muster_bytes_get(entries, 8);
    own->their_token = muster_bytes_get(entries + 8, 8);
    own->their_worker = muster_bytes_get(entries + 16, 8);
    own->their_address = muster_mem_array(bytes - ADDRESS_AT, 1);
    if (own->their_address == NULL) {
        muster_conn_end(conn, MUSTER_ERR_PEER_LOST, "no memory to connect");
        return NULL;
    }
    memcpy(own->their_address, entries + ADDRESS_AT, bytes - ADDRESS_AT);
    if (!conn->incoming || own->heard) {
        greet(conn);
    }
    return NULL;
}

const char *muster_conn_fabric_note(muster_conn *conn,
                                    const muster_frame *frame,
                                    const uint8_t *entries)
{
    if (frame->kind == MUSTER_FRAME_ADDRESS) {
        return take_address(conn, entries, frame->header_bytes);
    }
    if (frame->kind != MUSTER_FRAME_LAST || frame->header_bytes != 8) {
        return "a message beside the fabric";
    }
    conn->fabric.last_known = true;
    conn->fabric.last = muster_bytes_get(entries, 8);
    return NULL;
}

/* ends -------------------------------------------------------------------- */

/* Tell the other side how many messages it is to wait for. */
static void say_last(muster_conn *conn)
{
    if (conn->state == MUSTER_CONN_UP && write_note(conn) &&
        make_note(conn, MUSTER_FRAME_LAST, 8)) {
        muster_bytes_put(conn->fabric.note + MUSTER_FRAME_BYTES,
                         conn->fabric.sent, 8);
        (void)write_note(conn); // the peer of a full socket does not read
    }
}

void muster_conn_fabric_end(muster_conn *conn, muster_status status)
{
    muster_net_fabric *fabric = conn->net->fabric;
    bool lost = conn->down_due && conn->state == MUSTER_CONN_UP &&
                !conn->fabric.last_known;
    if (!conn->down_due && !conn->fabric.eof) {
        say_last(conn);
    }
    fabric->drain -= conn->fabric.eof;
    muster_fabric_ground(conn, status);
    muster_fabric_abandon(conn);
    if (conn->fabric.route != NULL) {
        muster_route_leave(conn, lost);
    }
}

void muster_conn_fabric_free(muster_conn *conn)
{
    muster_mem_free(conn->fabric.note);
    muster_mem_free(conn->fabric.their_address);
}

bool muster_conn_fabric_eof(muster_conn *conn)
{
    if (!conn->fabric.used || conn->state != MUSTER_CONN_UP) {
        return false;
    }
    if (!conn->fabric.eof) {
        conn->fabric.eof = true;
        conn->net->fabric->drain++;
        epoll_ctl(conn->net->epoll_fd, EPOLL_CTL_DEL, conn->fd, NULL);
        conn->net->counters.syscalls++;
        if (conn->deadline == MUSTER_NET_NEVER) {
            conn->deadline = muster_clock_ns() + DRAIN_NS;
            conn->net->waiting++;
        }
    }
    return true;
}

/* End the connections whose socket has ended and whose messages are here. */
static void end_drained(muster_net *net)
{
    muster_conn **conns = net->conns.data;
    for (size_t i = 0; net->fabric->drain > 0 && i < net->conns.count; i++) {
        muster_conn *conn = conns[i];
        const muster_conn_fabric *own = &conn->fabric;
        if (own->eof && conn->state == MUSTER_CONN_UP &&
            (!own->last_known || own->received >= own->last)) {
            muster_conn_end(conn, MUSTER_ERR_PEER_LOST,
                            "it closed the connection");
        }
    }
}

/* the net's fabric -------------------------------------------------------- */

muster_status muster_net_fabric_open(muster_net *net, muster_error *error_out)
{
    static const muster_fabric_callbacks callbacks = {
        .on_message = muster_fabric_on_message,
        .on_offer = muster_fabric_on_offer,
        .on_landed = muster_fabric_on_landed,
        .on_sent = muster_fabric_on_sent,
        .on_broken = muster_fabric_on_broken,
    };
    muster_net_fabric *fabric = muster_mem_array(1, sizeof(*fabric));
    if (fabric == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "no memory for a network");
    }
    net->fabric = fabric;
    fabric->source = MUSTER_EVENT_SOURCE_FABRIC;
    muster_status status =
        muster_fabric_load(net->opts.engine, error_out, &fabric->module);
    if (status == MUSTER_OK) {
        status =
            fabric->module->open(&callbacks, net, error_out, &fabric->handle);
    }
    if (status == MUSTER_OK &&
        getrandom(&fabric->worker, sizeof(fabric->worker), 0) !=
            (ssize_t)sizeof(fabric->worker)) {
        status = muster_error_set(error_out, MUSTER_ERR_SYSTEM,
                                  "no random number: %s", strerror(errno));
    }
    if (status != MUSTER_OK) {
        return status;
    }
    muster_log(MUSTER_LOG_WARN,
               "engine %s: messages travel unencrypted, and whoever reaches "
               "its ports can disturb the run, with a run key, too; use it on "
               "a trusted network only",
               net->opts.engine);
    fabric->header_bytes_max = fabric->module->header_bytes_max(fabric->handle);
    fabric->busy = true;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = fabric};
    return epoll_ctl(net->epoll_fd, EPOLL_CTL_ADD,
                     fabric->module->descriptor(fabric->handle), &event) == 0
               ? MUSTER_OK
               : muster_error_set(error_out, MUSTER_ERR_SYSTEM, "engine %s: %s",
                                  net->opts.engine, strerror(errno));
}

/* Has the peer hung up while UCX was connecting to it? */
static bool died_while_wiring(const muster_conn *conn)
{
    struct pollfd socket = {.fd = conn->fd, .events = POLLRDHUP};
    return conn->fabric.used && conn->state == MUSTER_CONN_WIRING &&
           poll(&socket, 1, 0) > 0 &&
           (socket.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

void muster_net_fabric_look(muster_net *net)
{
    muster_conn **conns = net->conns.data;
    for (size_t i = 0; net->fabric != NULL && i < net->conns.count; i++) {
        net->fabric->forsaken =
            net->fabric->forsaken || died_while_wiring(conns[i]);
    }
}

void muster_net_fabric_close(muster_net *net)
{
    muster_net_fabric *fabric = net->fabric;
    if (fabric == NULL) {
        return;
    }
    if (fabric->handle != NULL) {
        muster_routes_close(net);
        if (fabric->forsaken ||
            !fabric->module->close(fabric->handle, GRACE_NS)) {
            net->fabric = NULL; // with what it still uses
            return;
        }
    }
    while (fabric->flights != NULL) {
        muster_flight *flight = fabric->flights;
        fabric->flights = flight->next;
        muster_flight_free(flight);
    }
    while (fabric->spares != NULL) {
        muster_flight *flight = fabric->spares;
        fabric->spares = flight->next;
        muster_flight_free(flight);
    }
    while (fabric->landings != NULL) {
        muster_landing *landing = fabric->landings;
        fabric->landings = landing->next;
        muster_landing_free(landing);
    }
    muster_mem_free(fabric);
    net->fabric = NULL;
}

bool muster_net_fabric_progress(muster_net *net)
{
    muster_net_fabric *fabric = net->fabric;
    fabric->moved = false;
    fabric->busy = false;
    fabric->busy = fabric->module->progress(fabric->handle) || fabric->busy;
    if (!fabric->busy) {
        end_drained(net);
    }
    return fabric->moved;
}

bool muster_net_fabric_rests(muster_net *net)
{
    muster_net_fabric *fabric = net->fabric;
    return !fabric->busy && fabric->module->arm(fabric->handle);
}
