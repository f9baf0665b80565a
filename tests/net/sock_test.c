/*
 * sock_test.c -- the socket back end: the conformance suite over abstract and
 * named Unix sockets, TCP, and TCP with a run key.
 */
#define _GNU_SOURCE
#include "conformance_tests.h"

static const muster_net_backend sock = {
    .name = "sock",
    .open = muster_net_open,
    .close = muster_net_close,
    .listen = muster_net_listen,
    .connect = muster_net_connect,
    .send = muster_net_send,
    .drop = muster_net_drop,
    .blob = muster_net_blob,
    .poll = muster_net_poll,
    .settle = muster_net_settle,
    .wait = muster_net_wait,
    .wake = muster_net_wake,
    .peer_name = muster_net_peer_name,
    .count = muster_net_count,
};

/* The same with a run key: TCP is TLS then. */
static muster_status open_with_key(const muster_net_opts *opts,
                                   const muster_net_callbacks *callbacks,
                                   void *context, muster_error *error_out,
                                   muster_net **net_out)
{
    static const muster_run_key key = {{1, 2, 3}};
    muster_net_opts own = MUSTER_NET_OPTS_INIT;
    if (opts != NULL) {
        own = *opts;
    }
    own.key = &key;
    return muster_net_open(&own, callbacks, context, error_out, net_out);
}

int main(void)
{
    alarm(600); // a hang is a failure, too
    char folder[] = "/tmp/muster-net-XXXXXX";
    char named[MUSTER_NET_ADDRESS_MAX];
    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    snprintf(named, sizeof(named), "unix:%s/%%d.sock", folder);
    muster_net_backend locked = sock;
    locked.name = "sock with a key";
    locked.open = open_with_key;
    int failed = muster_conformance_run(&sock, "unix:@muster-test-%d") +
                 muster_conformance_run(&sock, named) +
                 muster_conformance_run(&sock, "tcp:127.0.0.1:0") +
                 muster_conformance_run(&locked, "tcp:127.0.0.1:0");
    // Every socket's path is gone, or the folder could not be removed.
    return rmdir(folder) != 0 || failed != 0;
}
