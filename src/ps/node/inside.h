/*
 * ps/node/inside.h -- what is behind the handles of muster/ps.h: a node, its
 * workers, their calls. Each struct says which thread may touch which field.
 *
 * The driver is the thread that holds the mesh's drive_lock: the network
 * thread, or a worker that waits for a call of its own (drive.c).
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
#include "net/run_key.h"
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

/* What every thread may read and write at any time. */
typedef struct muster_ps_atomics {
    _Atomic uint32_t workers_alive;
    _Atomic uint32_t workers_made;
    _Atomic uint32_t tables_revoked; // the first so many, for several workers
    // Counted by workers up to their last barrier or end:
    _Atomic uint64_t accesses;
    _Atomic uint64_t remote_accesses;
    _Atomic uint64_t replica_accesses;
    _Atomic uint64_t arriving_accesses;
    _Atomic uint64_t spent_accesses;
    _Atomic uint64_t remote_wait_ns;
    _Atomic uint64_t barrier_wait_ns;
    _Atomic uint64_t latch_wait_ns;
    // By worker slot: the call or barrier that its thread waits for, until that
    // has ended; or NULL.
    _Atomic(const void *) waits_for[MUSTER_PS_WORKERS_MAX];
} muster_ps_atomics;

/* The barrier of the node's workers, and their slots. All under `lock`. */
typedef struct muster_worker_barrier {
    pthread_mutex_t lock;
    pthread_cond_t changed; // passed, failed or cancelled
    uint32_t waiting;       // workers
    muster_ps_until until;  // the most that one of them waits for
    uint64_t passed;        // barriers so far
    muster_status status;   // MUSTER_ERR_PEER_LOST: no barrier will be passed
    bool cancelled;
    uint64_t slots[MUSTER_PS_WORKERS_MAX / 64]; // worker slots taken, one bit
} muster_worker_barrier;

struct muster_ps {
    // Fixed once there is a worker or a mesh: every thread may read.
    muster_ps_opts opts;
    char *addresses; // opts.mesh: where nodes listen (mesh_address.h)
    muster_run_key key;
    bool has_key;
    muster_ps_table *tables[MUSTER_PS_TABLES_MAX];
    uint32_t table_count;
    muster_ps_distribution distributions[MUSTER_PS_DISTRIBUTIONS_MAX];
    uint32_t distribution_count;
    muster_keyset replicated; // MUSTER_PS_STATIC
    bool unlatched;           // rows can be open without latches on this system
    muster_mesh *mesh;        // NULL: a single node
    muster_loss_hooks loss;
    // Any thread.
    muster_ps_atomics shared;
    // Under barrier.lock.
    muster_worker_barrier barrier;
    // One record a worker slot: its worker writes, every thread reads (bias.h).
    muster_bias_holders holders;
};

/* Localize requests and intents of a worker on their way to the driver: one
 * writer, one reader at a time. A request is a table, a count and that many
 * keys; an intent has its start and end before the keys, two words each, the
 * lower first. */
enum { MUSTER_LOCALIZE_QUEUE_WORDS = 65536 };
#define MUSTER_LOCALIZE_REPLICA 0x80000000u // beside the table: as a replica
#define MUSTER_LOCALIZE_INTENT  0x40000000u // start and end precede the keys
#define MUSTER_LOCALIZE_SYNC    0x20000000u // synchronise replicas
#define MUSTER_LOCALIZE_KEEP    0x10000000u // replicas are not dropped soon
#define MUSTER_LOCALIZE_URGENT  0x08000000u // synchronise them at once
#define MUSTER_LOCALIZE_FLAGS   0xf8000000u
typedef struct muster_localize_queue {
    // The worker writes, the driver reads.
    _Atomic uint64_t head; // words written so far
    _Atomic uint64_t clock;
    char pad[64 - 2 * sizeof(uint64_t)];
    // The driver writes tail; both change `intended`.
    _Atomic uint64_t tail;     // words read so far
    _Atomic uint64_t intended; // keys of intents taken and not ended
    uint32_t words[MUSTER_LOCALIZE_QUEUE_WORDS]; // by head and tail
} muster_localize_queue;

/* An operation on rows of other nodes, from submit until it is waited for. The
 * driver may touch it from submit until it posts `finished`, its worker at any
 * other time. */
typedef struct muster_ps_call {
    muster_ps_worker *worker;   // fixed at creation
    muster_row_request request; // its context is this call
    muster_vec positions;       // uint32_t: the rows that are not here
    sem_t finished;
    muster_status outcome;
    bool ended;                  // the driver has an outcome, and not posted it
    struct muster_ps_call *next; // in the driver's list of ended calls
    // Only the worker:
    uint32_t generation; // of its handles
    bool started;        // by a _start call, and not yet waited for
} muster_ps_call;

/* One operation on some rows of a table. */
typedef struct muster_row_batch {
    muster_row_op op;
    uint32_t table;
    const uint32_t *keys;
    size_t count;
    float *values;
} muster_row_batch;

/* The rows that a sampler asks about. */
typedef struct muster_worker_sampler_context {
    muster_ps_worker *worker;
    uint32_t table;
} muster_worker_sampler_context;

/* Since the last barrier. Accesses without latches are counted in the worker's
 * bias holder instead. */
typedef struct muster_worker_counts {
    uint64_t accesses;
    uint64_t remote_accesses;
    uint64_t replica_accesses;
    uint64_t arriving_accesses; // remote: the row was on its way
    uint64_t spent_accesses;    // remote: the replica's budget was used up
    int64_t remote_wait_ns;
    int64_t latch_wait_ns;
} muster_worker_counts;

/* The first fields are in the order of their use by begin, pull and push. */
struct muster_ps_worker {
    // Fixed at creation: every thread may read.
    muster_ps *ps;
    muster_ps_table *tables[MUSTER_PS_TABLES_MAX]; // the node's
    uint64_t number; // of no other worker of any node: the node is above bit 32
    uint32_t table_count;
    uint32_t slot;              // its number among the workers of the node
    muster_bias_holder *holder; // the slot's record of open rows
    // Only the worker's thread, down to the queue.
    // For each open row: NULL, or the copy of a row of another node, followed
    // by the row as it was pulled.
    float *open_copies[MUSTER_PS_OPEN_MAX];
    muster_sampler *samplers[MUSTER_PS_DISTRIBUTIONS_MAX]; // NULL until used
    muster_worker_sampler_context sampler_contexts[MUSTER_PS_DISTRIBUTIONS_MAX];
    muster_worker_counts counts;
    // In a mesh: one end is the worker's, the other the driver's.
    muster_localize_queue *queue;
    // In a mesh: the driver's, while the worker is in the mesh's inbox.
    muster_intents *intents;
    // Only the worker's thread; the last three in a mesh.
    uint64_t clock;
    uint64_t late_rows; // accesses to rows that were not here yet
    float *copies;      // OPEN_MAX x 2 rows of the widest table
    size_t copy_floats; // of one of them
    muster_ps_call calls[MUSTER_PS_CALLS_MAX + 1]; // the last: synchronous
    muster_error error; // of the last call that failed
};

/* Keep the text for muster_ps_error_text() and return `status`. The worker may
 * be NULL. Never inlined into the short paths. */
__attribute__((cold, noinline, format(printf, 3, 4))) muster_status
muster_worker_refuse(muster_ps_worker *worker, muster_status status,
                     const char *format, ...);

/* The worker's thread waits for `what`; NULL: it works. */
static inline void muster_worker_set_waits(const muster_ps_worker *worker,
                                           const void *what)
{
    atomic_store_explicit(&worker->ps->shared.waits_for[worker->slot], what,
                          memory_order_relaxed);
}

/* `what` has ended: if the worker in this slot waited for it, it now has work,
 * though its thread may not have woken yet. */
static inline void muster_worker_end_wait(muster_ps *ps, uint32_t slot,
                                          const void *what)
{
    (void)atomic_compare_exchange_strong(&ps->shared.waits_for[slot], &what,
                                         NULL);
}

/* The table, or NULL when its number or a key is wrong. */
muster_ps_table *muster_worker_check_keys(const muster_ps_worker *worker,
                                          uint32_t table, const uint32_t *keys,
                                          size_t count);
/* MUSTER_ERR_INVALID, with a text that says what the check above found. */
__attribute__((cold)) muster_status
muster_worker_refuse_keys(muster_ps_worker *worker, uint32_t table,
                          const uint32_t *keys, size_t count);

/* Rows that the worker has open. */
static inline uint32_t muster_worker_open_rows(const muster_ps_worker *worker)
{
    return muster_bias_open_rows(muster_bias_state(worker->holder));
}

/* muster_ps_table_latch() for a worker; a wait for another thread is timed. */
bool muster_worker_latch(muster_ps_worker *worker, muster_ps_table *rows,
                         muster_rowref ref, uint64_t *seen_out);

/* How a row was acquired. */
typedef enum muster_row_access {
    MUSTER_ACCESS_REMOTE, // not at all: it is on another node
    MUSTER_ACCESS_UNLATCHED,
    MUSTER_ACCESS_LATCHED,
} muster_row_access;

/* Ask the driver to synchronise a replica, whose word is `word`, soon. It is
 * woken only when hardly any budget is left: while there are replicas that
 * change, it looks every millisecond. */
__attribute__((cold, noinline)) void
muster_worker_ask_sync(muster_ps_worker *worker, muster_rowref ref,
                       uint64_t word);

/* Count the access to a row, whose word was `word` before it, if it is a
 * replica. */
static inline void muster_worker_count_latched(muster_ps_worker *worker,
                                               muster_rowref ref, uint64_t word,
                                               bool written)
{
    if (muster_word_state_of(word) == MUSTER_ROW_REPLICA) {
        worker->counts.replica_accesses++;
        if (written && muster_word_asks(word)) {
            muster_worker_ask_sync(worker, ref, word);
        }
    }
}

/* Count an unlatched row if it is a replica, and mark the replica dirty if it
 * will be written. */
static inline void
muster_worker_count_unlatched(muster_ps_worker *worker,
                              const muster_ps_table *rows, uint32_t key,
                              const muster_unlatched_row *lent, bool written)
{
    if (muster_unlatched_is_replica(lent)) {
        worker->counts.replica_accesses++;
        if (written) {
            muster_ps_table_mark_written(rows, key, lent);
            if (muster_word_asks(lent->word)) {
                muster_worker_ask_sync(
                    worker, muster_rowref_make(rows->number, key), lent->word);
            }
        }
    }
}

/* Acquire a row for a moment, while none is open, and release it. Whether it
 * will be written is known from the start. */
muster_row_access muster_row_acquire(muster_ps_worker *worker,
                                     muster_rowref ref, bool written,
                                     float **row_out);
static inline void muster_row_release(muster_ps_worker *worker,
                                      muster_row_access access,
                                      muster_word *word, bool written)
{
    if (access == MUSTER_ACCESS_UNLATCHED) {
        muster_bias_leave(worker->holder, muster_bias_state(worker->holder));
    } else {
        muster_latch_release(word, written);
    }
}

/* begin and end for a row of a mesh that is only read: nothing is pushed, a
 * replica stays clean. */
MUSTER_CHECKED muster_status muster_row_begin_read(muster_ps_worker *worker,
                                                   muster_rowref ref,
                                                   const float **row_out);
MUSTER_CHECKED muster_status muster_row_end_read(muster_ps_worker *worker,
                                                 muster_rowref ref);

/* Must the worker report its accesses to samplers? */
static inline bool
muster_worker_reports_accesses(const muster_ps_worker *worker)
{
    return (muster_bias_state(worker->holder) & MUSTER_BIAS_NOTES) != 0;
}

/* Report an access to the REPURPOSE samplers of a table. */
void muster_worker_report_access(muster_ps_worker *worker, uint32_t table,
                                 uint32_t key);

/* True while the worker has some row open in place, not as a copy. The driver
 * may wait for such a row, so the worker must not wait for the driver. */
bool muster_worker_holds_rows(const muster_ps_worker *worker);

/* Add what a worker has counted to its node's counters. */
void muster_worker_flush_counts(muster_ps_worker *worker);

/* Free every sampler of a worker. */
void muster_worker_samplers_fini(muster_ps_worker *worker);

/* Put one request into the queue; `header` are the words before the keys, the
 * second of them the count of keys. False: there is no room. */
bool muster_localize_queue_put(muster_localize_queue *queue,
                               const uint32_t *header, uint32_t header_words,
                               const uint32_t *keys);

/* muster_ps_localize() with MUSTER_LOCALIZE_REPLICA or 0, and without a text on
 * failure. */
MUSTER_CHECKED muster_status muster_worker_localize(muster_ps_worker *worker,
                                                    uint32_t table,
                                                    const uint32_t *keys,
                                                    size_t count,
                                                    uint32_t flags);

/* The call that synchronous operations use. */
static inline muster_ps_call *muster_worker_sync_call(muster_ps_worker *worker)
{
    return &worker->calls[MUSTER_PS_CALLS_MAX];
}

/* Hand call->positions of a batch to the mesh. */
void muster_ps_call_submit(muster_ps_worker *worker,
                           const muster_row_batch *batch, muster_ps_call *call);
/* Wait for a call that was submitted. */
MUSTER_CHECKED muster_status muster_ps_call_wait(muster_ps_worker *worker,
                                                 muster_ps_call *call);
/* Submit and wait. */
MUSTER_CHECKED muster_status muster_ps_call_run(muster_ps_worker *worker,
                                                const muster_row_batch *batch,
                                                muster_ps_call *call);
/* Submit a batch of one row that is not here, and wait. */
MUSTER_CHECKED muster_status
muster_ps_call_run_one(muster_ps_worker *worker, const muster_row_batch *batch);

/* A call that has no handle, or NULL; and the handle of one. */
muster_ps_call *muster_ps_call_find_free(muster_ps_worker *worker);
uint64_t muster_ps_call_handle(const muster_ps_worker *worker,
                               const muster_ps_call *call);

/* Make the calls of a worker, and end them: calls under way are waited for. */
MUSTER_CHECKED muster_status muster_worker_calls_init(muster_ps_worker *worker);
void muster_worker_calls_fini(muster_ps_worker *worker);

/* The barrier was passed: its workers have work again. Under barrier.lock. */
void muster_barrier_end_waits(muster_ps *ps);

/* A worker has ended: workers that waited only for it pass the barrier. */
void muster_barrier_worker_left(muster_ps *ps);

/* From now on no worker waits at a barrier: every call ends with
 * MUSTER_ERR_CANCELLED. For a node that ends before its time. */
void muster_ps_barrier_cancel(muster_ps *ps);

#endif // MUSTER_PS_NODE_INSIDE_H
