/*
 * conformance.h -- what every back end of net.h must do, as tests.
 *
 * A back end is a table of the functions of net.h. A back end's test program
 * includes conformance_tests.h, names its table and the addresses it can listen
 * at, and calls muster_conformance_run() for each. Two or more nets live in one
 * process and are polled in turn; where a process must die or stop, it is
 * forked. No test waits for time to pass: each drives its nets until what it
 * expects has come, a bounded number of times.
 */
#ifndef MUSTER_TESTS_NET_CONFORMANCE_H
#define MUSTER_TESTS_NET_CONFORMANCE_H

#include "net/net.h"

typedef struct muster_net_backend {
    const char *name;
    muster_status (*open)(const muster_net_opts *opts,
                          const muster_net_callbacks *callbacks, void *context,
                          muster_error *error_out, muster_net **net_out);
    void (*close)(muster_net *net);
    muster_status (*listen)(muster_net *net, const char *address,
                            muster_error *error_out, char *address_out);
    muster_status (*connect)(muster_net *net, const char *address,
                             muster_error *error_out, muster_peer *peer_out);
    muster_status (*send)(muster_net *net, muster_peer peer,
                          const muster_net_send_opts *send_opts);
    void (*drop)(muster_net *net, muster_peer peer);
    muster_blob *(*blob)(muster_net *net, size_t bytes);
    muster_status (*poll)(muster_net *net, int64_t timeout_ns);
    int64_t (*settle)(muster_net *net, int64_t timeout_ns);
    muster_status (*wait)(muster_net *net, int64_t timeout_ns, int aside);
    void (*wake)(muster_net *net);
    const char *(*peer_name)(const muster_net *net, muster_peer peer);
    muster_net_counters (*count)(const muster_net *net);
} muster_net_backend;

/* The functions of net.h. Engines and keys differ in how a net is opened. */
#define MUSTER_NET_BACKEND(label, opener)                             \
    {                                                                 \
        .name = (label), .open = (opener), .close = muster_net_close, \
        .listen = muster_net_listen, .connect = muster_net_connect,   \
        .send = muster_net_send, .drop = muster_net_drop,             \
        .blob = muster_net_blob, .poll = muster_net_poll,             \
        .settle = muster_net_settle, .wait = muster_net_wait,         \
        .wake = muster_net_wake, .peer_name = muster_net_peer_name,   \
        .count = muster_net_count                                     \
    }

/* An opener of nets with this engine, and with a run key where `key` is one. */
#define MUSTER_NET_OPENER(name, wanted_engine, wanted_key)                    \
    static muster_status name(                                                \
        const muster_net_opts *opts, const muster_net_callbacks *callbacks,   \
        void *context, muster_error *error_out, muster_net **net_out)         \
    {                                                                         \
        muster_net_opts own = MUSTER_NET_OPTS_INIT;                           \
        own = opts != NULL ? *opts : own;                                     \
        own.engine = (wanted_engine);                                         \
        own.key = (wanted_key);                                               \
        return muster_net_open(&own, callbacks, context, error_out, net_out); \
    }

/* Run all tests with nets that listen at `address`; "%d" in it becomes a
 * number that is new each time. Returns the number of failures. */
int muster_conformance_run(const muster_net_backend *backend,
                           const char *address);

#endif // MUSTER_TESTS_NET_CONFORMANCE_H
