/*
 * ucx_test.c -- engine ucx: the conformance suite over TCP, or with the
 * argument `key` over TCP with a run key; messages travel by UCX.
 */
#define _GNU_SOURCE
#include "conformance_tests.h"

#include "net/fabric.h"

static const muster_run_key the_key = {{1, 2, 3}};
MUSTER_NET_OPENER(open_plain, "ucx", NULL)
MUSTER_NET_OPENER(open_locked, "ucx", &the_key)

int main(int argc, char **argv)
{
    static const muster_net_backend plain =
        MUSTER_NET_BACKEND("ucx", open_plain);
    static const muster_net_backend locked =
        MUSTER_NET_BACKEND("ucx with a key", open_locked);
    const muster_fabric_module *module = NULL;
    muster_error error = {0};
    if (muster_fabric_load("ucx", &error, &module) != MUSTER_OK) {
        printf("SKIP: %s\n", error.text);
        return 77;
    }
    alarm(600); // a hang is a failure, too
    bool with_key = argc > 1 && strcmp(argv[1], "key") == 0;
    return muster_conformance_run(with_key ? &locked : &plain,
                                  "tcp:127.0.0.1:0");
}
