/*
 * poll.c -- the loop: one epoll, one thread at a time.
 *
 * A poll is: tell what is over, write what waits, sleep, read what came, write
 * what the callbacks queued, tell what is over. Every connection gets a bounded
 * turn; epoll is level-triggered, so what is left comes back next time, after
 * the others.
 *
 * A thread that waits without owning the net sleeps on the same epoll, or
 * aside: on a second epoll (idle_fd) that watches the first one alone. Events
 * are level-triggered, so the kernel would wake the next sleeper of the first
 * epoll for each event that a sleeping owner handles.
 *
 * Invariants
 *  1. The user is called back only inside poll (close: `done` only).
 *  2. Before an on_down, every `done` of that peer was called: ends are told
 *     after the finished items.
 *  3. Ended connections are freed at the end of a poll or in close, so that a
 *     pointer found in an epoll event or in a loop stays valid until then.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "net/inside.h"

#define EVENTS_MAX 64 // a poll

void muster_net_tell_finished(muster_net *net)
{
    muster_queue list = net->finished;
    net->finished = (muster_queue){0};
    for (muster_item *item = muster_queue_pop(&list); item != NULL;
         item = muster_queue_pop(&list)) {
        if (item->done != NULL) {
            item->done(item->argument, item->status);
        }
        muster_store_give(&net->store, item);
    }
}

void muster_net_free_conns(muster_conn *list)
{
    while (list != NULL) {
        muster_conn *conn = list;
        list = conn->next_dead;
        muster_conn_free(conn);
    }
}

/* Call on_down of all connections that have ended. Callbacks may end more;
 * each connection ends once, so the loop ends. */
static void tell_downs(muster_net *net)
{
    muster_net_tell_finished(net);
    while (net->downs != NULL) {
        muster_conn *conn = net->downs;
        net->downs = conn->next_dead;
        if (net->downs == NULL) {
            net->downs_end = &net->downs;
        }
        conn->next_dead = net->dead;
        net->dead = conn;
        if (net->pace != NULL) {
            muster_pace_end(net->pace, conn, conn->down_due);
        }
        if (!conn->down_due) {
            continue;
        }
        muster_conn_unlink(conn);
        // Items that a callback above finished may belong to this peer.
        muster_net_tell_finished(net);
        if (net->callbacks.on_down != NULL) {
            net->callbacks.on_down(net->context, conn->peer, conn->end.status,
                                   conn->end.text);
        }
    }
}

/* Hand payloads that were let go back to the peers that sent them. */
static void return_lent(muster_net *net)
{
    muster_mapped_blob *mapped =
        muster_release_queue_collect(net->release_queue);
    while (mapped != NULL) {
        muster_mapped_blob *next = mapped->next;
        muster_conn *conn = muster_conn_find(net, mapped->peer);
        if (conn != NULL && conn->state == MUSTER_CONN_UP) {
            uint64_t *entry = muster_vec_push(&conn->out.releases);
            MUSTER_ASSERT(entry != NULL); // reserved when it was mapped
            *entry = mapped->sequence;
            conn->in.mapped_blobs--;
            muster_conn_touch(conn);
        }
        muster_release_queue_recycle(net->release_queue, mapped);
        mapped = next;
    }
}

/* Give segments that the pool does not want back to the system. */
static void destroy_victims(muster_net *net)
{
    for (muster_segment *victim = muster_pool_victim(net->pool); victim != NULL;
         victim = muster_pool_victim(net->pool)) {
        muster_conn **conns = net->conns.data;
        for (size_t i = 0; i < net->conns.count; i++) {
            if (conns[i]->state == MUSTER_CONN_UP) {
                muster_conn_forget(conns[i], victim->id);
            }
        }
        muster_segment_destroy(victim);
    }
}

static void flush(muster_net *net)
{
    return_lent(net);
    destroy_victims(net);
    muster_conn *list = net->dirty;
    net->dirty = NULL;
    while (list != NULL) {
        muster_conn *conn = list;
        list = conn->next_dirty;
        conn->dirty = false;
        muster_conn_write(conn);
    }
}

static void connected(muster_conn *conn)
{
    int failed = 0;
    socklen_t length = sizeof(failed);
    conn->net->counters.syscalls++;
    if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &failed, &length) != 0) {
        failed = errno;
    }
    if (failed != 0) {
        muster_conn_end(conn, MUSTER_ERR_PEER_LOST, "cannot connect: %s",
                        strerror(failed));
        return;
    }
    conn->state = MUSTER_CONN_HELLO;
    muster_conn_touch(conn);
}

static void conn_event(muster_conn *conn, uint32_t events)
{
    if (conn->state == MUSTER_CONN_CONNECTING) {
        connected(conn);
        return;
    }
    conn->gone |= (events & (EPOLLHUP | EPOLLERR)) != 0;
    if (conn->state != MUSTER_CONN_DEAD && (events & ~(uint32_t)EPOLLOUT)) {
        muster_conn_read(conn);
    }
    if (conn->state != MUSTER_CONN_DEAD && (events & EPOLLOUT)) {
        muster_conn_touch(conn);
    }
}

static void clear_wake(muster_net *net)
{
    uint64_t count;
    ssize_t got = read(net->wake_fd, &count, sizeof(count));
    (void)got; // nothing to read: somebody else's wake was cleared with ours
    net->counters.syscalls++;
}

static const char *late_reason(const muster_conn *conn)
{
    if (conn->fabric.eof) {
        return "it closed the connection, and messages are missing";
    }
    if (conn->out.broken) {
        return "it does not read any more";
    }
    return conn->state == MUSTER_CONN_UP ? "it sent no message in time"
                                         : "it did not say hello in time";
}

/* End what waited too long, let listeners try again; when to look next. */
static int64_t check_deadlines(muster_net *net, int64_t now)
{
    int64_t next = MUSTER_NET_NEVER;
    muster_conn **conns = net->conns.data;
    for (size_t i = 0; net->waiting > 0 && i < net->conns.count; i++) {
        muster_conn *conn = conns[i];
        if (conn->deadline <= now) {
            muster_conn_end(conn,
                            conn->out.broken || conn->fabric.eof
                                ? MUSTER_ERR_PEER_LOST
                                : MUSTER_ERR_TIMED_OUT,
                            "%s", late_reason(conn));
        } else if (conn->deadline < next) {
            next = conn->deadline;
        }
    }
    muster_listener **listeners = net->listeners.data;
    for (size_t i = 0; net->waiting > 0 && i < net->listeners.count; i++) {
        muster_listener *listener = listeners[i];
        if (listener->rearm_at <= now &&
            muster_listener_watch(net, listener, true)) {
            listener->rearm_at = MUSTER_NET_NEVER;
            net->waiting--;
        } else if (listener->rearm_at < next) {
            next = listener->rearm_at;
        }
    }
    return next;
}

/* Sleep on an epoll; `ms_only` is noted where the kernel has no finer wait. */
static int wait_events(int epoll_fd, struct epoll_event *events, int events_max,
                       int64_t timeout_ns, bool *ms_only)
{
    if (!*ms_only) {
        struct timespec wait = {timeout_ns / MUSTER_NS_PER_S,
                                timeout_ns % MUSTER_NS_PER_S};
        int count = epoll_pwait2(epoll_fd, events, events_max,
                                 timeout_ns < 0 ? NULL : &wait, NULL);
        if (count >= 0 || (errno != ENOSYS && errno != EPERM)) {
            return count;
        }
        *ms_only = true;
    }
    int64_t ms = (timeout_ns + MUSTER_NS_PER_MS - 1) / MUSTER_NS_PER_MS;
    int clamped = ms > INT32_MAX ? INT32_MAX : (int)ms;
    return epoll_wait(epoll_fd, events, events_max,
                      timeout_ns < 0 ? -1 : clamped);
}

/* Should an event end a wait aside? Not while the owner sleeps in a poll. The
 * kernel looks at once at events that are there already. */
static void set_idle_watch(muster_net *net, bool on)
{
    struct epoll_event event = {.events = on ? EPOLLIN : 0};
    if (net->idle_watches != on &&
        epoll_ctl(net->idle_fd, EPOLL_CTL_MOD, net->epoll_fd, &event) == 0) {
        net->idle_watches = on;
        net->counters.syscalls++;
    }
}

/* The timeout, or less when something of the pace is due before. */
static int64_t pace_time(const muster_pace *pace, int64_t timeout_ns)
{
    int64_t next_ns = muster_pace_next_ns(pace);
    if (next_ns == MUSTER_NET_NEVER) {
        return timeout_ns;
    }
    int64_t left_ns = next_ns - muster_clock_ns();
    left_ns = left_ns > 0 ? left_ns : 0;
    return timeout_ns < 0 || left_ns < timeout_ns ? left_ns : timeout_ns;
}

/* How long epoll may sleep. */
static int64_t sleep_time(muster_net *net, int64_t timeout_ns)
{
    if (net->waiting > 0) {
        int64_t now = muster_clock_ns();
        int64_t next = check_deadlines(net, now);
        int64_t left = next - now < 0 ? 0 : next - now;
        if (next != MUSTER_NET_NEVER && (timeout_ns < 0 || left < timeout_ns)) {
            timeout_ns = left;
        }
    }
    if (net->pace != NULL) {
        timeout_ns = pace_time(net->pace, timeout_ns);
    }
    // Items without a `done` need no poll.
    while (net->finished.first != NULL && net->finished.first->done == NULL) {
        muster_store_give(&net->store, muster_queue_pop(&net->finished));
    }
    bool due =
        net->finished.first != NULL || net->downs != NULL || net->dirty != NULL;
    if (due || timeout_ns == 0 ||
        (net->fabric != NULL && !muster_net_fabric_rests(net))) {
        return 0;
    }
    net->sleep_announced = true;
    return muster_release_queue_sleep(net->release_queue) ? timeout_ns : 0;
}

int64_t muster_net_settle(muster_net *net, int64_t timeout_ns)
{
    MUSTER_ASSERT(!net->polling);
    flush(net);
    int64_t sleep_ns = sleep_time(net, timeout_ns);
    set_idle_watch(net, true);
    return sleep_ns;
}

muster_status muster_net_wait(muster_net *net, int64_t timeout_ns, int aside)
{
    struct epoll_event event; // level-triggered: it comes again
    int count = wait_events(aside ? net->idle_fd : net->epoll_fd, &event, 1,
                            timeout_ns, &net->wait_ms_only);
    return count >= 0 || errno == EINTR ? MUSTER_OK : MUSTER_ERR_SYSTEM;
}

int muster_net_waits_in_ms(const muster_net *net)
{
    return net->wait_ms_only;
}

static void handle_events(muster_net *net, const struct epoll_event *events,
                          int count)
{
    for (int i = 0; i < count; i++) {
        muster_event_source *source = events[i].data.ptr;
        switch (*source) {
        case MUSTER_EVENT_SOURCE_WAKE:
            clear_wake(net);
            break;
        case MUSTER_EVENT_SOURCE_LISTENER:
            muster_listener_accept(net, (muster_listener *)(void *)source);
            break;
        case MUSTER_EVENT_SOURCE_CONN:
            conn_event((muster_conn *)(void *)source, events[i].events);
            break;
        case MUSTER_EVENT_SOURCE_FABRIC:
            break; // progress follows
        }
    }
}

muster_status muster_net_poll(muster_net *net, int64_t timeout_ns)
{
    struct epoll_event events[EVENTS_MAX];
    MUSTER_ASSERT(!net->polling);
    net->polling = true;
    // After a callback the caller may want another timeout: then do not sleep.
    bool telling = net->finished.first != NULL || net->downs != NULL;
    tell_downs(net);
    flush(net);
    if (net->fabric != NULL) {
        telling |= muster_net_fabric_progress(net);
    }
    int64_t sleep_ns = sleep_time(net, telling ? 0 : timeout_ns);
    if (sleep_ns != 0) {
        set_idle_watch(net, false);
    }
    net->counters.syscalls++;
    int count =
        wait_events(net->epoll_fd, events, EVENTS_MAX, sleep_ns, &net->ms_only);
    int failed = count < 0 && errno != EINTR ? errno : 0;
    if (net->sleep_announced) {
        muster_release_queue_awake(net->release_queue);
        net->sleep_announced = false;
    }
    handle_events(net, events, count);
    if (net->fabric != NULL) {
        (void)muster_net_fabric_progress(net);
    }
    if (net->pace != NULL) {
        muster_pace_run(net->pace);
    }
    if (net->waiting > 0) {
        check_deadlines(net, muster_clock_ns());
    }
    flush(net);
    tell_downs(net);
    // Writing may have touched a connection that then ended.
    for (muster_conn **link = &net->dirty; *link != NULL;) {
        muster_conn *conn = *link;
        if (conn->state == MUSTER_CONN_DEAD) {
            conn->dirty = false;
            *link = conn->next_dirty;
        } else {
            link = &conn->next_dirty;
        }
    }
    muster_net_free_conns(net->dead);
    net->dead = NULL;
    net->polling = false;
    return failed == 0 ? MUSTER_OK : MUSTER_ERR_SYSTEM;
}
