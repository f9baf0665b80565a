/*
 * sock.c -- net.h over Unix sockets and TCP: the net itself, and sending.
 *
 * endpoint.c listens, connects and accepts; poll.c is the loop; the conn files
 * are the connections. inside.h says how they share the net.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "muster/version.h"
#include "net/inside.h"

#define QUEUE_BYTES_DEFAULT    ((size_t)256 << 20)
#define QUEUE_MESSAGES_DEFAULT ((size_t)4096)
#define PAYLOAD_BYTES_DEFAULT  ((size_t)4 << 30)
#define HELLO_TIMEOUT_DEFAULT  (5 * MUSTER_NS_PER_S)

/* open and close ---------------------------------------------------------- */

static muster_status take_opts(const muster_net_opts *opts, muster_error *error,
                               muster_net_opts *out)
{
    muster_net_opts own = MUSTER_NET_OPTS_INIT;
    if (opts != NULL) {
        own = *opts;
    }
    if (own.struct_size != sizeof(own)) {
        return muster_error_set(error, MUSTER_ERR_INVALID,
                                "muster_net_opts: struct_size is %u, not %zu",
                                own.struct_size, sizeof(own));
    }
    if (own.queue_bytes_max == 0) {
        own.queue_bytes_max = QUEUE_BYTES_DEFAULT;
    }
    if (own.queue_messages_max == 0) {
        own.queue_messages_max = QUEUE_MESSAGES_DEFAULT;
    }
    if (own.payload_bytes_max == 0) {
        own.payload_bytes_max = PAYLOAD_BYTES_DEFAULT;
    }
    if (own.payload_bytes_max > SIZE_MAX / 8) {
        own.payload_bytes_max = SIZE_MAX / 8;
    }
    if (own.protocol_version == 0) {
        own.protocol_version = MUSTER_PROTOCOL_VERSION;
    }
    if (own.hello_timeout_ns <= 0) {
        own.hello_timeout_ns = HELLO_TIMEOUT_DEFAULT;
    }
    *out = own;
    return MUSTER_OK;
}

static muster_status add_key(muster_net *net, muster_error *error)
{
    if (net->opts.key == NULL) {
        return MUSTER_OK;
    }
    muster_status status =
        muster_tls_context_create(net->opts.key, error, &net->tls);
    net->opts.key = NULL; // lent for the call
    net->staged = muster_mem_raw_aligned(MUSTER_TLS_PIECE_BYTES, 1);
    return status == MUSTER_OK && net->staged == NULL
               ? muster_error_set(error, MUSTER_ERR_NO_MEMORY,
                                  "no memory for a network")
               : status;
}

static muster_status add_engine(muster_net *net, muster_error *error)
{
    const char *engine = net->opts.engine;
    if (engine == NULL || strcmp(engine, "sock") == 0) {
        return MUSTER_OK;
    }
    if (strcmp(engine, "ucx") != 0) {
        return muster_error_set(error, MUSTER_ERR_INVALID,
                                "there is no engine '%s'; sock, ucx", engine);
    }
    if (net->pace != NULL) {
        return muster_error_set(error, MUSTER_ERR_INVALID,
                                "--bandwidth and --latency are pretended with "
                                "--engine sock only");
    }
    return muster_net_fabric_open(net, error);
}

static bool open_descriptors(muster_net *net)
{
    net->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    net->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    net->idle_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = net};
    struct epoll_event none = {.events = 0};
    return net->epoll_fd >= 0 && net->wake_fd >= 0 && net->idle_fd >= 0 &&
           epoll_ctl(net->epoll_fd, EPOLL_CTL_ADD, net->wake_fd, &event) == 0 &&
           epoll_ctl(net->idle_fd, EPOLL_CTL_ADD, net->epoll_fd, &none) == 0;
}

muster_status muster_net_open(const muster_net_opts *opts,
                              const muster_net_callbacks *callbacks,
                              void *context, muster_error *error_out,
                              muster_net **net_out)
{
    muster_net_opts own = MUSTER_NET_OPTS_INIT;
    muster_status status = take_opts(opts, error_out, &own);
    if (status != MUSTER_OK) {
        return status;
    }
    muster_net *net = muster_mem_array(1, sizeof(*net));
    if (net == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "no memory for a network");
    }
    net->source = MUSTER_EVENT_SOURCE_WAKE;
    net->callbacks = *callbacks;
    net->context = context;
    net->opts = own;
    net->caller_bytes_max = own.payload_bytes_max;
    net->conns = muster_vec_make(sizeof(muster_conn *));
    net->listeners = muster_vec_make(sizeof(muster_listener *));
    net->downs_end = &net->downs;
    net->epoll_fd = net->wake_fd = net->idle_fd = -1;
    if (!open_descriptors(net)) {
        status = muster_error_set(error_out, MUSTER_ERR_SYSTEM,
                                  "cannot open an epoll: %s", strerror(errno));
    } else {
        net->pool = muster_pool_create(net->wake_fd);
        net->release_queue = muster_release_queue_create(net->wake_fd);
        bool paced = own.bytes_per_s > 0 || own.latency_ns > 0;
        net->pace =
            paced ? muster_pace_create(own.bytes_per_s, own.latency_ns) : NULL;
        if (net->pool == NULL || net->release_queue == NULL ||
            (paced && net->pace == NULL)) {
            status = muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                      "no memory for a network");
        }
    }
    if (status == MUSTER_OK) {
        status = add_key(net, error_out);
    }
    if (status == MUSTER_OK) {
        status = add_engine(net, error_out);
    }
    net->opts.engine = NULL; // lent for the call
    if (status != MUSTER_OK) {
        muster_net_close(net);
        return status;
    }
    *net_out = net;
    return MUSTER_OK;
}

void muster_net_close(muster_net *net)
{
    if (net == NULL) {
        return;
    }
    MUSTER_ASSERT(!net->polling);
    muster_conn **conns = net->conns.data;
    muster_net_fabric_look(net);
    for (size_t i = 0; i < net->conns.count; i++) {
        conns[i]->down_due = false;
        conns[i]->dirty = false;
        muster_conn_end(conns[i], MUSTER_ERR_CANCELLED, "closed");
    }
    while (net->finished.first != NULL) {
        muster_net_tell_finished(net);
    }
    muster_net_fabric_close(net);
    // Dropped connections are on `downs` as well, though not in `conns`.
    for (muster_conn *conn = net->downs; conn != NULL; conn = conn->next_dead) {
        conn->dirty = false;
    }
    muster_pace_free(net->pace); // holds blobs of the release queue
    muster_net_free_conns(net->downs);
    muster_listener **listeners = net->listeners.data;
    for (size_t i = 0; i < net->listeners.count; i++) {
        muster_listener_free(listeners[i]);
    }
    muster_release_queue_close(net->release_queue);
    muster_pool_close(net->pool);
    muster_strangers_close(net);
    muster_tls_context_free(net->tls);
    muster_mem_free(net->staged);
    muster_store_fini(&net->store);
    muster_vec_fini(&net->conns);
    muster_vec_fini(&net->listeners);
    if (net->idle_fd >= 0) {
        close(net->idle_fd);
    }
    if (net->wake_fd >= 0) {
        close(net->wake_fd);
    }
    if (net->epoll_fd >= 0) {
        close(net->epoll_fd);
    }
    muster_mem_free(net);
}

/* send, drop -------------------------------------------------------------- */

/* Whether the queue takes the item, when `replaced` leaves it. Only payloads
 * that wait count against the bytes, so that no small message, a sign of life
 * say, is refused because of a large one. */
static bool has_room(const muster_conn *conn, const muster_item *item,
                     const muster_item *replaced)
{
    const muster_net_opts *opts = &conn->net->opts;
    size_t bytes = conn->out.queue_bytes;
    if (replaced != NULL) {
        bytes -= muster_item_queue_bytes(replaced);
    } else if (conn->out.queue_messages >= opts->queue_messages_max) {
        return false;
    }
    // Without others waiting, any size is taken: it could never go else.
    return item->payload == NULL || item->replace_slot != 0 || bytes == 0 ||
           (bytes < opts->queue_bytes_max &&
            muster_item_queue_bytes(item) <= opts->queue_bytes_max - bytes);
}

static void enqueue(muster_conn *conn, muster_item *item,
                    muster_item **replaced)
{
    if (replaced != NULL) {
        muster_item *old = muster_queue_remove(&conn->out.queue, replaced);
        conn->out.queue_messages--;
        conn->out.queue_bytes -= muster_item_queue_bytes(old);
        muster_net_finish(conn->net, old, MUSTER_ERR_CANCELLED);
    }
    muster_blob_ref(item->payload);
    conn->out.queue_messages++;
    conn->out.queue_bytes += muster_item_queue_bytes(item);
    muster_queue_push(&conn->out.queue, item);
    if (!conn->out.armed) {
        muster_conn_touch(conn);
    }
}

muster_status muster_net_send(muster_net *net, muster_peer peer,
                              const muster_net_send_opts *send_opts)
{
    muster_blob *payload = send_opts->payload;
    if (send_opts->header_bytes > MUSTER_NET_HEADER_MAX ||
        (payload != NULL && (payload->data == NULL ||
                             payload->bytes > net->opts.payload_bytes_max))) {
        return MUSTER_ERR_INVALID;
    }
    muster_conn *conn = muster_conn_find(net, peer);
    if (conn == NULL || conn->state == MUSTER_CONN_DEAD) {
        return MUSTER_ERR_PEER_LOST;
    }
    // With a bandwidth the payload itself has to travel.
    muster_segment *segment = conn->shares && net->opts.bytes_per_s <= 0
                                  ? muster_pool_segment(net->pool, payload)
                                  : NULL;
    muster_item *item = muster_store_take(&net->store, send_opts->header_bytes,
                                          segment != NULL);
    if (item == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    item->kind = MUSTER_FRAME_MESSAGE;
    item->payload = payload;
    item->segment = segment;
    item->replace_slot = send_opts->replace_slot;
    item->done = send_opts->done;
    item->argument = send_opts->argument;
    if (send_opts->header_bytes > 0) {
        memcpy(item->head + MUSTER_FRAME_BYTES, send_opts->header,
               send_opts->header_bytes);
    }
    muster_item **replaced =
        send_opts->replace_slot == 0
            ? NULL
            : muster_queue_find(&conn->out.queue, send_opts->replace_slot);
    if (!has_room(conn, item, replaced ? *replaced : NULL)) {
        item->payload = NULL; // its reference was not taken yet
        muster_store_give(&net->store, item);
        return MUSTER_ERR_AGAIN;
    }
    enqueue(conn, item, replaced);
    return MUSTER_OK;
}

void muster_net_drop(muster_net *net, muster_peer peer)
{
    muster_conn *conn = muster_conn_find(net, peer);
    if (conn == NULL) {
        return;
    }
    conn->down_due = false;
    muster_conn_end(conn, MUSTER_ERR_CANCELLED, "dropped");
    muster_conn_unlink(conn);
}

/* the rest ---------------------------------------------------------------- */

muster_blob *muster_net_blob(muster_net *net, size_t bytes)
{
    return muster_pool_take(net->pool, bytes,
                            bytes >= MUSTER_POOL_SHARED_BYTES);
}

void muster_net_expect(muster_net *net, size_t payload_bytes_max)
{
    net->caller_bytes_max = payload_bytes_max < net->opts.payload_bytes_max
                                ? payload_bytes_max
                                : net->opts.payload_bytes_max;
}

void muster_net_wake(muster_net *net)
{
    int saved = errno; // a signal handler must leave it alone
    uint64_t one = 1;
    ssize_t written = write(net->wake_fd, &one, sizeof(one));
    (void)written; // a full counter wakes just as well
    errno = saved;
}

const char *muster_net_peer_name(const muster_net *net, muster_peer peer)
{
    const muster_conn *conn = muster_conn_find(net, peer);
    return conn == NULL ? "unknown peer" : conn->name;
}

muster_net_counters muster_net_count(const muster_net *net)
{
    return net->counters;
}
