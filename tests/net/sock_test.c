/*
 * sock_test.c -- the socket back end: the conformance suite over abstract and
 * named Unix sockets and TCP.
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

int main(void)
{
    alarm(600); // a hang is a failure, too
    char folder[] = "/tmp/muster-net-XXXXXX";
    char named[MUSTER_NET_ADDRESS_MAX];
    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    snprintf(named, sizeof(named), "unix:%s/%%d.sock", folder);
    int failed = muster_conformance_run(&sock, "unix:@muster-test-%d") +
                 muster_conformance_run(&sock, named) +
                 muster_conformance_run(&sock, "tcp:127.0.0.1:0");
    // Every socket's path is gone, or the folder could not be removed.
    return rmdir(folder) != 0 || failed != 0;
}
