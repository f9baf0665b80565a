/*
 * ps/node/localize_queue.h -- the driver's end of the workers' localize queues.
 *
 * A worker writes localize requests and intents into a queue of its own. The
 * driver of the mesh reads them and steps the protocol. Intents are kept until
 * they are due by the worker's clock, which the driver looks at now and then.
 *
 *   Threads      The driver, with inbox_lock held: no worker ends meanwhile.
 */
#ifndef MUSTER_PS_NODE_LOCALIZE_QUEUE_H
#define MUSTER_PS_NODE_LOCALIZE_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "muster/ps.h"
#include "ps/protocol/protocol.h"
#include "ps/store/intent.h"
#include "ps/store/keyset.h"

/* What the driver does with a request. */
typedef struct muster_localize_reader {
    muster_protocol *protocol; // NULL: requests are read and dropped
    muster_protocol_out *out;
    void (*apply_step)(void *context, muster_status status); // empties `out`
    void *context;
} muster_localize_reader;

/* Read the queue of a worker to its end; true: there was something. */
bool muster_localize_queue_read(const muster_localize_reader *reader,
                                muster_ps_worker *worker);

/* Begin and end the intents of a worker that are due; `clocks_due`: estimate
 * anew how fast its clock goes. True: some have not ended. */
bool muster_localize_run_intents(const muster_localize_reader *reader,
                                 muster_ps_worker *worker, bool clocks_due);

/* End all intents of a worker that has ended, and free them. */
void muster_localize_end_intents(const muster_localize_reader *reader,
                                 muster_intents *intents);

/* Ask for a replica of every row of a set. */
void muster_localize_set(const muster_localize_reader *reader,
                         const muster_keyset *set);

#endif // MUSTER_PS_NODE_LOCALIZE_QUEUE_H
