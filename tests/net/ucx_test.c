/*
 * ucx_test.c -- engine ucx: the conformance suite over TCP, and TCP with a run
 * key; messages travel by UCX.
 */
#define _GNU_SOURCE
#include "conformance_tests.h"

#include "net/fabric.h"

static muster_status open_ucx(const muster_net_opts *opts,
                              const muster_net_callbacks *callbacks,
                              void *context, muster_error *error_out,
                              muster_net **net_out)
{
    muster_net_opts own = MUSTER_NET_OPTS_INIT;
    if (opts != NULL) {
        own = *opts;
    }
    own.engine = "ucx";
    return muster_net_open(&own, callbacks, context, error_out, net_out);
}

/* The same with a run key: the entrance is TLS then. */
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
    return open_ucx(&own, callbacks, context, error_out, net_out);
}

int main(void)
{
    const muster_fabric_module *module = NULL;
    muster_error error = {0};
    if (muster_fabric_load("ucx", &error, &module) != MUSTER_OK) {
        printf("SKIP: %s\n", error.text);
        return 77;
    }
    if (getenv("FILTER")) cmocka_set_test_filter(getenv("FILTER")); // TEMP
    alarm(600); // a hang is a failure, too
    muster_net_backend ucx = {
        .name = "ucx",
        .open = open_ucx,
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
    muster_net_backend locked = ucx;
    locked.name = "ucx with a key";
    locked.open = open_with_key;
    return muster_conformance_run(&ucx, "tcp:127.0.0.1:0") +
           muster_conformance_run(&locked, "tcp:127.0.0.1:0");
}
