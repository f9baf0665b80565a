/*
 * strangers.c -- callers that are not let in: counted, and named in the log, at
 * most one a second, since they may come in floods; and which of them makes
 * room for the next.
 */
#include <inttypes.h>

#include "base/clock.h"
#include "base/log.h"
#include "net/inside.h"

/* A caller gets this long before it can be made to give way: a handshake takes
 * two trips, on machines that are busy. */
#define STAY_NS (100 * MUSTER_NS_PER_MS)

void muster_strangers_refused(muster_net *net, const char *name,
                              const char *reason)
{
    int64_t now_ns = muster_clock_ns();
    net->counters.strangers++;
    if (net->strangers_told_ns != 0 &&
        now_ns - net->strangers_told_ns < MUSTER_NS_PER_S) {
        net->strangers_untold++;
        return;
    }
    if (net->strangers_untold > 0) {
        muster_log(MUSTER_LOG_WARN,
                   "refused %s: %s (and %" PRIu64 " others since the last)",
                   name, reason, net->strangers_untold);
    } else {
        muster_log(MUSTER_LOG_WARN, "refused %s: %s", name, reason);
    }
    net->strangers_told_ns = now_ns;
    net->strangers_untold = 0;
}

void muster_strangers_heard(muster_conn *conn)
{
    conn->stranger = false;
    conn->net->strangers--;
    if (!conn->out.broken) {
        conn->deadline = MUSTER_NET_NEVER;
        conn->net->waiting--;
    }
}

void muster_strangers_ended(muster_conn *conn, muster_status status,
                            const char *reason)
{
    conn->stranger = false;
    conn->net->strangers--;
    // Who only looked whether a Unix socket is there, or went again before it
    // asked for anything, is not worth a line.
    bool quiet = status == MUSTER_ERR_PEER_LOST &&
                 (conn->shares || conn->state == MUSTER_CONN_UP);
    if (conn->down_due && !quiet) {
        muster_strangers_refused(conn->net, conn->name, reason);
    }
}

void muster_strangers_close(muster_net *net)
{
    if (net->strangers_untold > 0) {
        muster_log(MUSTER_LOG_WARN, "refused %" PRIu64 " more callers",
                   net->strangers_untold);
    }
}

bool muster_strangers_give_way(muster_net *net)
{
    muster_conn **conns = net->conns.data; // the oldest first
    for (size_t i = 0; i < net->conns.count; i++) {
        muster_conn *conn = conns[i];
        if (!conn->stranger) {
            continue;
        }
        int64_t since_ns = conn->deadline - net->opts.hello_timeout_ns;
        if (muster_clock_ns() - since_ns < STAY_NS) {
            return false;
        }
        muster_conn_end(conn, MUSTER_ERR_TIMED_OUT,
                        "it said nothing for too long while others waited");
        return true;
    }
    return false;
}
