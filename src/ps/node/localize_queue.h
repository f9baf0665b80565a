/*
 * ps/node/localize_queue.h -- the mesh's end of what workers wish for and
 * intend to use.
 *
 * A worker writes queue into a ring of its own; whoever drives the mesh reads
 * them and steps the node. Intents are kept until they are due by the worker's
 * clock, which is looked at once a round.
 *
 *   Threads      The one that drives the mesh, while the worker is held in
 *                place.
 */
#ifndef MUSTER_PS_NODE_LOCALIZE_QUEUE_H
#define MUSTER_PS_NODE_LOCALIZE_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "muster/ps.h"
#include "ps/protocol/protocol.h"
#include "ps/store/intent.h"
#include "ps/store/keyset.h"

/* Whom queue are read for. */
typedef struct muster_localize_reader {
    muster_protocol *node; // NULL: queue are only read away
    muster_protocol_out *out;
    void (*stepped)(void *context, muster_status status); // take `out`
    void *context;
} muster_localize_reader;

/* Read all queue of a worker; true when there were some. */
bool muster_localize_queue_read(const muster_localize_reader *host,
                                muster_ps_worker *worker);

/* Begin and end what is due of a worker's intents; `round`: another round of
 * the mesh has passed. True: some have not ended. */
bool muster_localize_run_intents(const muster_localize_reader *host,
                                 muster_ps_worker *worker, bool round);

/* End all intents of a worker that is gone, and free them. */
void muster_localize_end_intents(const muster_localize_reader *host,
                                 muster_intents *intents);

/* Wish for a copy of every row of a set. */
void muster_localize_set(const muster_localize_reader *host,
                         const muster_keyset *set);

#endif // MUSTER_PS_NODE_LOCALIZE_QUEUE_H
