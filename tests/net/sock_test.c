/*
 * sock_test.c -- engine sock: the conformance suite over abstract and named
 * Unix sockets, TCP, and TCP with a run key.
 */
#define _GNU_SOURCE
#include "conformance_tests.h"

static const muster_run_key the_key = {{1, 2, 3}};
MUSTER_NET_OPENER(open_locked, "sock", &the_key)

int main(void)
{
    static const muster_net_backend sock =
        MUSTER_NET_BACKEND("sock", muster_net_open);
    static const muster_net_backend locked =
        MUSTER_NET_BACKEND("sock with a key", open_locked);
    char folder[] = "/tmp/muster-net-XXXXXX";
    char named[MUSTER_NET_ADDRESS_MAX];
    alarm(600); // a hang is a failure, too
    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    snprintf(named, sizeof(named), "unix:%s/%%d.sock", folder);
    int failed = muster_conformance_run(&sock, "unix:@muster-test-%d") +
                 muster_conformance_run(&sock, named) +
                 muster_conformance_run(&sock, "tcp:127.0.0.1:0") +
                 muster_conformance_run(&locked, "tcp:127.0.0.1:0");
    // Every socket's path is gone, or the folder could not be removed.
    return rmdir(folder) != 0 || failed != 0;
}
