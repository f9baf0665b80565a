/*
 * ucx_test.c -- engine ucx: the conformance suite over TCP; messages travel by
 * UCX. With MUSTER_UCX_KEY in the environment, with a run key instead
 * (tools/check-all).
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
    if (getenv("MUSTER_UCX_KEY") != NULL) {
        ucx.name = "ucx with a key";
        ucx.open = open_with_key;
    }
    return muster_conformance_run(&ucx, "tcp:127.0.0.1:0");
}
