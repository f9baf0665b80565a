/*
 * net/pace.h -- a NIC of so many bytes a second, and a latency, for one net.
 *
 * All connections of the net share the NIC, each way. They take turns of half a
 * millisecond's bytes, so that each gets its part of the rate, as streams of
 * TCP do on a real one. A connection whose turn has not come stands in a line:
 * its socket is neither written nor read meanwhile, and what the peer sends
 * waits in the system's buffers and then at the peer. So payloads that would
 * lie in shared memory are streamed instead. The latency is the time that a
 * received message is held before it is delivered.
 *
 *   Promise      No busy polling: the net sleeps until the next turn.
 *   Allocation   With a latency, one block per message that is held.
 *   Threads      The net thread.
 *   Not here     The same model in virtual time: sim/sim_nic.c.
 */
#ifndef MUSTER_NET_PACE_H
#define MUSTER_NET_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/frame.h"
#include "net/net.h"

struct muster_conn;

typedef struct muster_pace muster_pace;

typedef enum muster_pace_way {
    MUSTER_PACE_OUT,
    MUSTER_PACE_IN
} muster_pace_way;

/* What a connection keeps for the pace; zeroed at first. By way. */
typedef struct muster_pace_seat {
    struct muster_conn *next[2]; // in the line
    bool in_line[2];
    bool has_turn[2];
} muster_pace_seat;

/* bytes_per_s 0: no limit. NULL when out of memory. */
muster_pace *muster_pace_create(double bytes_per_s, int64_t latency_ns);
void muster_pace_free(muster_pace *pace);

/* How many bytes the connection may write or read now. 0: it stands in the
 * line, and is touched or read when its turn has come. */
size_t muster_pace_allowance(muster_pace *pace, struct muster_conn *conn,
                             muster_pace_way way);

/* So many bytes were written or read. */
void muster_pace_spend(muster_pace *pace, muster_pace_way way, size_t bytes);

bool muster_pace_has_latency(const muster_pace *pace);

/* Keep a received message until it is due. Takes the payload's reference; false
 * when out of memory, and then it does not. */
bool muster_pace_hold(muster_pace *pace, struct muster_conn *conn,
                      const muster_frame *frame, const uint8_t *header,
                      muster_blob *payload);

/* When there is next something to do; MUSTER_NET_NEVER. */
int64_t muster_pace_next_ns(const muster_pace *pace);

/* Deliver what is due, and let the connections go on whose turn it is. */
void muster_pace_run(muster_pace *pace);

/* The connection has ended: deliver what it still had on its way (tell), or
 * drop it. */
void muster_pace_end(muster_pace *pace, struct muster_conn *conn, bool tell);

#endif // MUSTER_NET_PACE_H
