/*
 * ps/node/inside.h -- what is behind the handles of muster/ps.h.
 */
#ifndef MUSTER_PS_NODE_INSIDE_H
#define MUSTER_PS_NODE_INSIDE_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "muster/ps.h"
#include "muster/ps_sample.h"
#include "ps/node/loss.h"
#include "ps/node/mesh.h"
#include "ps/protocol/protocol.h"
#include "ps/store/bias.h"
#include "ps/store/distribution.h"
#include "ps/store/intent.h"
#include "ps/store/keyset.h"
#include "ps/store/sampler.h"
#include "ps/store/store.h"

typedef struct muster_ps_distribution {
    muster_key_distribution *target;
    uint32_t table;
    muster_sampler_opts sampler; // without the worker's stream
} muster_ps_distribution;

struct muster_ps {
    muster_ps_opts opts;
    char *places; // opts.mesh: where nodes meet (mesh_address.h)
    muster_ps_table *tables[MUSTER_PS_TABLES_MAX];
    uint32_t table_count;
    muster_ps_distribution distributions[MUSTER_PS_DISTRIBUTIONS_MAX];
    uint32_t distribution_count;
    muster_keyset replicated; // MUSTER_PS_STATIC
    bool unlatched;           // rows can be open without latches on this system
    _Atomic uint32_t tables_left; // by their only worker: so many, the first
    muster_bias_holders holders;
    uint64_t
        seats[MUSTER_PS_WORKERS_MAX / 64]; // taken, under the barrier's lock
    _Atomic uint32_t workers_alive;
    _Atomic uint32_t workers_made;
    _Atomic uint64_t accesses; // of workers that are gone
    _Atomic uint64_t remote;
    _Atomic uint64_t copied;
    muster_mesh *mesh; // NULL: a single node
    muster_loss_hooks loss;
    // Barriers of this node's workers.
    pthread_mutex_t barrier_lock;
    pthread_cond_t barrier_cond;
    uint32_t barrier_waiting;
    uint64_t barrier_passed;
    muster_status barrier_status;
    bool barrier_cancelled;
};

/* Wishes of a worker on their way to who drives the mesh: one writer, one
 * reader at a time. A wish is a table, a count and that many keys; an intent
 * has its start and end before them, two words each, the lower first. */
enum { MUSTER_LOCALIZE_QUEUE_WORDS = 65536 };
#define MUSTER_LOCALIZE_REPLICA 0x80000000u // beside the table: a copy will do
#define MUSTER_LOCALIZE_INTENT  0x40000000u // start and end precede the keys
typedef struct muster_localize_queue {
    _Atomic uint64_t head; // written so far
    _Atomic uint64_t clock;
    char pad[64 - 2 * sizeof(uint64_t)];
    _Atomic uint64_t tail;     // read so far
    _Atomic uint64_t intended; // keys of intents taken and not ended
    uint32_t words[MUSTER_LOCALIZE_QUEUE_WORDS];
} muster_localize_queue;

/* An operation on rows that are elsewhere, from submit until it is waited for.
 * Beside the mesh, which has it until `finished` is posted, only its worker
 * touches it. */
typedef struct muster_ps_call {
    muster_row_request request; // its context is this call
    muster_vec positions;       // uint32_t: the rows that are not here
    sem_t finished;
    muster_status outcome;
    bool ended;                  // only who drives the mesh may look
    struct muster_ps_call *next; // of those that ended and are to be told
    uint32_t generation;         // of its handles
    bool started;                // by a _start call, and not yet waited for
} muster_ps_call;

/* Rows of a table that an operation is about. */
typedef struct muster_row_batch {
    muster_row_op op;
    uint32_t table;
    const uint32_t *keys;
    size_t count;
    float *values;
} muster_row_batch;

/* Whose rows a sampler asks about. */
typedef struct muster_worker_sampler_context {
    muster_ps_worker *worker;
    uint32_t table;
} muster_worker_sampler_context;

struct muster_ps_worker {
    muster_ps *ps;
    muster_ps_table *tables[MUSTER_PS_TABLES_MAX]; // the node's
    uint64_t number; // of no other worker of any node: the node is above bit 32
    uint32_t table_count;
    uint32_t seat;              // its number among the workers of the node
    muster_bias_holder *holder; // what it is at
    // Of open rows that are elsewhere: the row, followed by how it was; else
    // NULL.
    float *open_copies[MUSTER_PS_OPEN_MAX];
    muster_sampler *samplers[MUSTER_PS_DISTRIBUTIONS_MAX]; // NULL until used
    muster_worker_sampler_context sampler_contexts[MUSTER_PS_DISTRIBUTIONS_MAX];
    uint64_t accesses;
    uint64_t remote;
    uint64_t copied;
    // Only in a mesh:
    muster_localize_queue *queue;
    muster_intents
        *intents; // of who drives the mesh, while the worker is there
    uint64_t clock;
    float *copies;      // OPEN_MAX x 2 rows of the widest table
    size_t copy_floats; // of one of them
    muster_ps_call calls[MUSTER_PS_CALLS_MAX + 1]; // the last: synchronous
};

/* The table, or NULL when the number or a key is wrong. */
muster_ps_table *muster_worker_check_keys(const muster_ps_worker *worker,
                                          uint32_t table, const uint32_t *keys,
                                          size_t count);

/* Rows that the worker has open. */
static inline uint32_t muster_worker_open_rows(const muster_ps_worker *worker)
{
    return muster_bias_open_rows(muster_bias_state(worker->holder));
}

/* How a row was taken. */
typedef enum muster_row_access {
    MUSTER_ACCESS_REMOTE, // it was not
    MUSTER_ACCESS_UNLATCHED,
    MUSTER_ACCESS_LATCHED,
} muster_row_access;

/* Count a row that was lent unlatched, and mark it if it is a copy to be
 * written. */
static inline void
muster_worker_count_unlatched(muster_ps_worker *worker,
                              const muster_ps_table *rows, uint32_t key,
                              const muster_unlatched_row *lent, bool written)
{
    if (muster_unlatched_is_replica(lent)) {
        worker->copied++;
        if (written) {
            muster_ps_table_mark_written(rows, key, lent);
        }
    }
}

/* Take a row for a moment, while none is open, and give it back. Whether it
 * will be written is known from the start. */
muster_row_access muster_row_acquire(muster_ps_worker *worker,
                                     muster_rowref ref, bool written,
                                     float **row_out);
static inline void muster_row_release(muster_ps_worker *worker,
                                      muster_row_access taken,
                                      muster_word *word, bool written)
{
    if (taken == MUSTER_ACCESS_UNLATCHED) {
        muster_bias_leave(worker->holder, muster_bias_state(worker->holder));
    } else {
        muster_latch_release(word, written);
    }
}

/* Is the worker to tell samplers of its accesses? */
static inline bool
muster_worker_reports_accesses(const muster_ps_worker *worker)
{
    return (muster_bias_state(worker->holder) & MUSTER_BIAS_NOTES) != 0;
}

/* True while the worker has some row that is not a copy. */
bool muster_worker_holds_rows(const muster_ps_worker *worker);

/* Add what a worker has counted to its node's counters. */
void muster_worker_flush_counts(muster_ps_worker *worker);

/* Tell the repurposing samplers of a table about a direct access. */
void muster_worker_report_access(muster_ps_worker *worker, uint32_t table,
                                 uint32_t key);

/* Free every sampler of a worker. */
void muster_worker_samplers_fini(muster_ps_worker *worker);

/* Put one wish into the ring; `head` are the words before the keys, of which
 * the second is their count. False: there is no room. */
bool muster_localize_queue_put(muster_localize_queue *queue,
                               const uint32_t *head, uint32_t heads,
                               const uint32_t *keys);

/* muster_ps_localize(), with MUSTER_LOCALIZE_REPLICA or 0. */
MUSTER_CHECKED muster_status muster_worker_localize(muster_ps_worker *worker,
                                                    uint32_t table,
                                                    const uint32_t *keys,
                                                    size_t count,
                                                    uint32_t copy);

/* The call that synchronous operations use. */
static inline muster_ps_call *muster_worker_sync_call(muster_ps_worker *worker)
{
    return &worker->calls[MUSTER_PS_CALLS_MAX];
}

/* Hand call->positions of a job to the mesh. */
void muster_ps_call_submit(muster_ps_worker *worker,
                           const muster_row_batch *job, muster_ps_call *call);
/* Wait for a call that was submitted. */
MUSTER_CHECKED muster_status muster_ps_call_wait(muster_ps_worker *worker,
                                                 muster_ps_call *call);
/* Both. */
MUSTER_CHECKED muster_status muster_ps_call_run(muster_ps_worker *worker,
                                                const muster_row_batch *job,
                                                muster_ps_call *call);
/* Do a job on one row that is elsewhere, and wait. */
MUSTER_CHECKED muster_status
muster_ps_call_run_one(muster_ps_worker *worker, const muster_row_batch *job);

/* A call that has no handle, or NULL; and the handle of one. */
muster_ps_call *muster_ps_call_find_free(muster_ps_worker *worker);
uint64_t muster_ps_call_handle(const muster_ps_worker *worker,
                               const muster_ps_call *call);

/* Make the calls of a worker, and end them: those under way are waited for. */
MUSTER_CHECKED muster_status muster_worker_calls_init(muster_ps_worker *worker);
void muster_worker_calls_fini(muster_ps_worker *worker);

/* A worker is there no more: those who waited for it alone pass. */
void muster_barrier_worker_left(muster_ps *ps);

/* Let nobody wait at a barrier from now on: those who do, and those who come,
 * get MUSTER_ERR_CANCELLED. For a node that ends before its time. */
void muster_ps_barrier_cancel(muster_ps *ps);

/* Prepare a worker for a mesh, and undo it. */
MUSTER_CHECKED muster_status muster_worker_join_mesh(muster_ps_worker *worker);
void muster_worker_leave_mesh(muster_ps_worker *worker);

#endif // MUSTER_PS_NODE_INSIDE_H
