/*
 * endpoint.c -- where connections come from: listen, connect, accept.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/fabric.h"
#include "net/inside.h"

#define ACCEPTS_MAX 64 // a turn of a listener
#define REARM_NS    (100 * MUSTER_NS_PER_MS)

static bool set_int(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof(value)) == 0;
}

/* A dead machine is noticed after 4 s of silence (keepalive), or 5 s after
 * bytes that it did not acknowledge. */
static bool tune_tcp(int fd)
{
    return set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1) &&
           set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1) &&
           set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, 1) &&
           set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1) &&
           set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, 3) &&
           set_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 5000);
}

/* The user that the other end of a Unix socket belongs to; false: unknown. */
static bool peer_user(int fd, uid_t *user_out)
{
    struct ucred peer = {0};
    socklen_t length = sizeof(peer);
    bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0;
    *user_out = peer.uid;
    return known;
}

/* Unix sockets are for processes of one user. */
static muster_status check_user(int fd, muster_error *error)
{
    uid_t user = 0;
    if (!peer_user(fd, &user)) {
        return muster_error_set(error, MUSTER_ERR_REFUSED,
                                "the system does not say whose it is");
    }
    return user == geteuid()
               ? MUSTER_OK
               : muster_error_set(error, MUSTER_ERR_REFUSED,
                                  "it belongs to user %u, and we to user %u",
                                  (unsigned)user, (unsigned)geteuid());
}

static int open_socket(const muster_socket_address *address)
{
    return socket(address->storage.ss_family,
                  SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

/* A path whose owner is gone (killed, so that it could not tidy up) is removed;
 * one that somebody listens at, or that is no socket, stays. */
static bool remove_stale(const muster_socket_address *address)
{
    const struct sockaddr_un *name = (const void *)&address->storage;
    struct stat found;
    if (!muster_socket_address_is_unix(address) || name->sun_path[0] == '\0' ||
        lstat(name->sun_path, &found) != 0 || !S_ISSOCK(found.st_mode)) {
        errno = EADDRINUSE;
        return false;
    }
    int probe = open_socket(address);
    bool stale = probe >= 0 &&
                 connect(probe, (const struct sockaddr *)&address->storage,
                         address->length) != 0 &&
                 errno == ECONNREFUSED;
    if (probe >= 0) {
        close(probe);
    }
    bool removed = stale && unlink(name->sun_path) == 0;
    errno = EADDRINUSE;
    return removed;
}

static bool bind_name(int fd, const muster_socket_address *address)
{
    const struct sockaddr *raw = (const struct sockaddr *)&address->storage;
    return bind(fd, raw, address->length) == 0 ||
           (errno == EADDRINUSE && remove_stale(address) &&
            bind(fd, raw, address->length) == 0);
}

/* Bind and listen; then the address that was really taken. */
static bool bind_socket(int fd, muster_socket_address *address)
{
    struct sockaddr *raw = (struct sockaddr *)&address->storage;
    bool is_unix = muster_socket_address_is_unix(address);
    // A path gets the mode that the socket has when it is bound.
    if ((is_unix ? fchmod(fd, S_IRUSR | S_IWUSR) != 0
                 : !set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1)) ||
        !bind_name(fd, address) || listen(fd, SOMAXCONN) != 0) {
        return false;
    }
    address->length = sizeof(address->storage);
    return getsockname(fd, raw, &address->length) == 0;
}

bool muster_listener_watch(muster_net *net, muster_listener *listener, bool on)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = listener};
    net->counters.syscalls++;
    return epoll_ctl(net->epoll_fd, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL,
                     listener->fd, &event) == 0;
}

static void suggest_engine(const muster_net *net)
{
    char device[64];
    if (net->fabric == NULL &&
        muster_fabric_rdma("/sys", device, sizeof(device))) {
        muster_log(MUSTER_LOG_INFO,
                   "this machine has RDMA (%s): on a trusted network, --engine "
                   "ucx for all processes uses it",
                   device);
    }
}

/* Other machines may come only with a key, or where that was asked for. */
static muster_status check_reach(const muster_net *net,
                                 const muster_socket_address *address,
                                 const char *text, muster_error *error_out)
{
    if (muster_socket_address_is_local(address)) {
        return MUSTER_OK;
    }
    suggest_engine(net);
    if (net->tls != NULL) {
        return MUSTER_OK;
    }
    if (!net->opts.insecure) {
        return muster_error_set(
            error_out, MUSTER_ERR_INVALID,
            "cannot listen at '%s' without a run key, as other machines can "
            "reach it; `muster key > run.key`, then --key-file run.key "
            "everywhere; or --insecure",
            text);
    }
    muster_log(MUSTER_LOG_WARN,
               "insecure: whoever reaches %s can join the run, read its data "
               "and its model and change them; a run key (--key-file) keeps "
               "others out",
               text);
    return MUSTER_OK;
}

/* What to do where the system refuses an address. */
static const char *listen_hint(const muster_socket_address *address, int reason)
{
    if (muster_socket_address_is_unix(address)) {
        return "";
    }
    switch (reason) {
    case EADDRINUSE:
        return "; choose another port, or 0 for a free one";
    case EADDRNOTAVAIL:
        return "; it is no address of this machine";
    case EACCES:
        return "; choose a port above 1023";
    default:
        return "";
    }
}

muster_status muster_net_listen(muster_net *net, const char *address,
                                muster_error *error_out, char *address_out)
{
    muster_socket_address parsed;
    muster_status status =
        muster_socket_address_parse(address, error_out, &parsed);
    if (status == MUSTER_OK) {
        status = check_reach(net, &parsed, address, error_out);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    muster_listener *listener = muster_mem_array(1, sizeof(*listener));
    if (listener == NULL ||
        !muster_vec_reserve(&net->listeners, net->listeners.count + 1)) {
        muster_mem_free(listener);
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "no memory to listen at '%s'", address);
    }
    listener->source = MUSTER_EVENT_SOURCE_LISTENER;
    listener->rearm_at = MUSTER_NET_NEVER;
    listener->fd = open_socket(&parsed);
    if (listener->fd < 0 || !bind_socket(listener->fd, &parsed) ||
        !muster_listener_watch(net, listener, true)) {
        int reason = errno;
        status = muster_error_set(
            error_out, MUSTER_ERR_SYSTEM, "cannot listen at '%s': %s%s",
            address, strerror(reason), listen_hint(&parsed, reason));
        if (listener->fd >= 0) {
            close(listener->fd);
        }
        muster_mem_free(listener);
        return status;
    }
    listener->address = parsed;
    *(muster_listener **)muster_vec_push(&net->listeners) = listener;
    if (address_out != NULL) {
        muster_socket_address_format(&parsed, address_out);
    }
    return MUSTER_OK;
}

muster_status muster_net_connect(muster_net *net, const char *address,
                                 muster_error *error_out, muster_peer *peer_out)
{
    muster_socket_address parsed;
    muster_status status =
        muster_socket_address_parse(address, error_out, &parsed);
    if (status != MUSTER_OK) {
        return status;
    }
    muster_error error = {0};
    int fd = open_socket(&parsed);
    if (fd < 0 || (!muster_socket_address_is_unix(&parsed) && !tune_tcp(fd))) {
        status = muster_error_set(error_out, MUSTER_ERR_SYSTEM,
                                  "cannot connect to '%s': %s", address,
                                  strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        return status;
    }
    net->counters.syscalls++;
    int failed = connect(fd, (const struct sockaddr *)&parsed.storage,
                         parsed.length) == 0
                     ? 0
                     : errno;
    bool at_it = failed == EINPROGRESS || failed == EINTR;
    muster_conn *conn = muster_conn_create(
        net, fd, &parsed, at_it ? MUSTER_CONN_CONNECTING : MUSTER_CONN_HELLO,
        false, &error);
    if (conn == NULL) {
        return muster_error_set(error_out, error.status, "%s", error.text);
    }
    *peer_out = conn->peer;
    if (failed != 0 && !at_it) {
        muster_conn_end(conn, MUSTER_ERR_PEER_LOST, "cannot connect: %s",
                        strerror(failed));
    } else if (conn->shares && check_user(fd, &error) != MUSTER_OK) {
        muster_conn_end(conn, error.status, "%s", error.text);
    }
    return MUSTER_OK;
}

/* Leave the callers in line where they are and look again in a while; epoll
 * would report them without end. */
static void rest(muster_net *net, muster_listener *listener)
{
    if (muster_listener_watch(net, listener, false)) {
        listener->rearm_at = muster_clock_ns() + REARM_NS;
        net->waiting++;
    }
}

/* Is a caller let in as far as its hello? */
static bool prepare_caller(muster_net *net, int fd,
                           const muster_socket_address *from)
{
    muster_error error = {.text = ""};
    if (!muster_socket_address_is_unix(from)) {
        return tune_tcp(fd);
    }
    if (check_user(fd, &error) != MUSTER_OK) {
        muster_strangers_refused(net, "unix", error.text);
        return false;
    }
    return true;
}

void muster_listener_accept(muster_net *net, muster_listener *listener)
{
    for (int i = 0; i < ACCEPTS_MAX; i++) {
        muster_socket_address from = {.length = sizeof(from.storage)};
        if (net->strangers >= MUSTER_NET_STRANGERS &&
            !muster_strangers_give_way(net)) {
            rest(net, listener);
            return;
        }
        net->counters.syscalls++;
        int fd = accept4(listener->fd, (struct sockaddr *)&from.storage,
                         &from.length, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
                errno == ENOMEM) {
                (void)muster_strangers_give_way(net);
                rest(net, listener);
            }
            return;
        }
        if (prepare_caller(net, fd, &from)) {
            (void)muster_conn_create(net, fd, &from, MUSTER_CONN_HELLO, true,
                                     NULL);
        } else {
            close(fd);
        }
    }
}

void muster_listener_free(muster_listener *listener)
{
    const char *path = muster_socket_address_path(&listener->address);
    if (path[0] != '\0') {
        unlink(path);
    }
    close(listener->fd);
    muster_mem_free(listener);
}
