/*
 * conn.c -- how a connection begins and ends.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "net/inside.h"

#define DRAIN_READS 1024 // of 4 KiB, before close()

static void fill_hello(muster_conn *conn)
{
    const muster_hello hello = {.version = conn->net->opts.protocol_version,
                                .fabric = conn->fabric.used};
    muster_hello_write(&hello, conn->out.hello);
}

/* With a run key, every TCP connection is locked. */
static bool add_tls(muster_conn *conn, bool accepts)
{
    if (conn->net->tls == NULL || conn->shares) {
        return true;
    }
    conn->tls = muster_tls_create(conn->net->tls, accepts);
    return conn->tls != NULL;
}

static bool watch(muster_conn *conn)
{
    conn->out.armed = conn->state == MUSTER_CONN_CONNECTING;
    struct epoll_event event = {
        .events = EPOLLIN | (conn->out.armed ? EPOLLOUT : 0u),
        .data.ptr = conn,
    };
    conn->net->counters.syscalls++;
    return epoll_ctl(conn->net->epoll_fd, EPOLL_CTL_ADD, conn->fd, &event) == 0;
}

muster_conn *muster_conn_create(muster_net *net, int fd,
                                const muster_socket_address *address,
                                muster_conn_state state, bool incoming,
                                muster_error *error_out)
{
    muster_conn *conn = muster_mem_array(1, sizeof(*conn));
    if (conn == NULL) {
        goto out_memory;
    }
    conn->out.releases = muster_vec_make(sizeof(uint64_t));
    conn->out.control.head = conn->out.control_head;
    conn->source = MUSTER_EVENT_SOURCE_CONN;
    conn->net = net;
    conn->fd = fd;
    conn->state = state;
    conn->shares = muster_socket_address_is_unix(address);
    conn->fabric.used = net->fabric != NULL && !conn->shares;
    conn->down_due = true;
    conn->incoming = incoming;
    conn->stranger = incoming;
    conn->deadline = muster_clock_ns() + net->opts.hello_timeout_ns;
    muster_socket_address_format(address, conn->name);
    conn->in.buffer = muster_mem_raw_aligned(MUSTER_CONN_READ_BYTES, 1);
    if (conn->in.buffer == NULL || !add_tls(conn, incoming) ||
        !muster_vec_reserve(&net->conns, net->conns.count + 1)) {
        goto out_memory;
    }
    fill_hello(conn);
    if (!watch(conn)) {
        muster_error_set(error_out, MUSTER_ERR_SYSTEM, "%s: %s", conn->name,
                         strerror(errno));
        goto out;
    }
    conn->peer = ++net->last_peer;
    *(muster_conn **)muster_vec_push(&net->conns) = conn;
    net->waiting++;
    net->strangers += incoming;
    muster_conn_touch(conn);
    return conn;

out_memory:
    muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                     "no memory for another connection");
out:
    if (conn != NULL) {
        muster_tls_free(conn->tls);
        muster_mem_free(conn->in.buffer);
        muster_mem_free(conn);
    }
    close(fd);
    return NULL;
}

/* The position of the first connection with a number >= peer. */
static size_t position(const muster_net *net, muster_peer peer)
{
    muster_conn *const *conns = net->conns.data;
    size_t low = 0;
    size_t high = net->conns.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (conns[middle]->peer < peer) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

muster_conn *muster_conn_find(const muster_net *net, muster_peer peer)
{
    muster_conn *const *conns = net->conns.data;
    size_t at = position(net, peer);
    return at < net->conns.count && conns[at]->peer == peer ? conns[at] : NULL;
}

void muster_conn_unlink(muster_conn *conn)
{
    muster_net *net = conn->net;
    muster_conn **conns = net->conns.data;
    size_t at = position(net, conn->peer);
    MUSTER_ASSERT(at < net->conns.count && conns[at] == conn);
    net->conns.count--;
    memmove(conns + at, conns + at + 1,
            (net->conns.count - at) * net->conns.element_bytes);
}

void muster_net_finish(muster_net *net, muster_item *item, muster_status status)
{
    // The payload goes at once: its buffer may be wanted before the next poll.
    muster_blob_unref(item->payload);
    item->payload = NULL;
    item->status = status;
    muster_queue_push(&net->finished, item);
}

/* Over TCP, closing with unread bytes resets the connection and takes along
 * what we wrote last. Read, within bounds, what is already here. */
static void close_gently(muster_conn *conn)
{
    muster_net *net = conn->net;
    bool unread = conn->state == MUSTER_CONN_UP && !conn->shares;
    for (int i = 0; unread && i < DRAIN_READS; i++) {
        char unwanted[4096]; // the connection's own buffer may be in use
        net->counters.syscalls++;
        unread = recv(conn->fd, unwanted, sizeof(unwanted), MSG_DONTWAIT) > 0;
    }
    // A forked child may keep the socket open, so epoll must be told.
    epoll_ctl(net->epoll_fd, EPOLL_CTL_DEL, conn->fd, NULL);
    close(conn->fd);
    net->counters.syscalls += 2;
    conn->fd = -1;
}

/* The peer may go on reading what it holds: such segments are not lent again.
 */
static void abandon_holds(muster_conn *conn)
{
    while (conn->out.holds != NULL) {
        muster_hold *hold = conn->out.holds;
        conn->out.holds = hold->next;
        muster_pool_retire(muster_pool_segment(conn->net->pool, hold->payload));
        muster_store_give_hold(&conn->net->store, hold);
    }
}

void muster_conn_end(muster_conn *conn, muster_status status,
                     const char *format, ...)
{
    muster_net *net = conn->net;
    if (conn->state == MUSTER_CONN_DEAD) {
        return;
    }
    muster_status end =
        conn->down_due ? MUSTER_ERR_PEER_LOST : MUSTER_ERR_CANCELLED;
    char reason[256];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof(reason), format, args);
    va_end(args);
    muster_error_set(&conn->end, status, "%s: %s", conn->name, reason);
    if (conn->fabric.used) {
        muster_conn_fabric_end(conn, end);
    }
    close_gently(conn);
    if (conn->stranger) {
        muster_strangers_ended(conn, status, reason);
    }
    conn->state = MUSTER_CONN_DEAD;
    net->waiting -= conn->deadline != MUSTER_NET_NEVER;
    conn->deadline = MUSTER_NET_NEVER;
    for (muster_item *item = muster_queue_pop(&conn->out.queue); item != NULL;
         item = muster_queue_pop(&conn->out.queue)) {
        if (item == &conn->out.control) {
            continue;
        }
        if (item->descriptor_sent) {
            muster_pool_retire(item->segment);
        }
        muster_net_finish(net, item, end);
    }
    abandon_holds(conn);
    conn->next_dead = NULL;
    *net->downs_end = conn;
    net->downs_end = &conn->next_dead;
}

void muster_conn_free(muster_conn *conn)
{
    MUSTER_ASSERT(conn->state == MUSTER_CONN_DEAD && !conn->dirty);
    for (unsigned i = 0; i < MUSTER_FRAME_SLOTS; i++) {
        muster_mapping_unref(conn->in.mappings[i]);
    }
    for (unsigned i = 0; i < conn->in.descriptor_count; i++) {
        close(conn->in.descriptors[i]);
    }
    muster_blob_unref(conn->in.stream.payload);
    muster_mem_free(conn->in.stream.header);
    muster_mem_free(conn->in.buffer);
    muster_vec_fini(&conn->out.releases);
    muster_tls_free(conn->tls);
    muster_conn_fabric_free(conn);
    muster_mem_free(conn);
}

void muster_conn_touch(muster_conn *conn)
{
    if (!conn->dirty) {
        conn->dirty = true;
        conn->next_dirty = conn->net->dirty;
        conn->net->dirty = conn;
    }
}

/* false: the connection has ended. */
static bool ask_events(muster_conn *conn, bool armed, bool paused)
{
    struct epoll_event event = {
        .events = (paused ? 0u : EPOLLIN) | (armed ? EPOLLOUT : 0u),
        .data.ptr = conn,
    };
    conn->net->counters.syscalls++;
    if (epoll_ctl(conn->net->epoll_fd, EPOLL_CTL_MOD, conn->fd, &event) != 0) {
        muster_conn_end(conn, MUSTER_ERR_PEER_LOST, "%s", strerror(errno));
        return false;
    }
    return true;
}

void muster_conn_arm(muster_conn *conn, bool armed)
{
    if (conn->out.armed == armed) {
        return;
    }
    if (ask_events(conn, armed, conn->paused)) {
        conn->out.armed = armed;
    }
}

void muster_conn_pause(muster_conn *conn, bool paused)
{
    if (conn->paused != paused && ask_events(conn, conn->out.armed, paused)) {
        conn->paused = paused;
    }
}
