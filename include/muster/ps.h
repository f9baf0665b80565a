/*
 * muster/ps.h -- a parameter server: tables of rows, used where they lie.
 *
 * A table holds rows of `width` float32 weights under keys 0..keys-1, each with
 * the state of the table's optimiser beside it. Worker threads pull (copy out),
 * push (add, or apply a gradient) and set rows, or work on a row in place
 * between begin and end. A row that is here is touched under a latch word of
 * its own: no copy, no allocation, no lock shared with another row.
 *
 *     muster_ps *ps;
 *     muster_ps_opts opts = MUSTER_PS_OPTS_INIT;
 *     muster_ps_create(&opts, &error, &ps);
 *     muster_ps_table_opts rows = MUSTER_PS_TABLE_OPTS_INIT;
 *     rows.keys = 100000;
 *     rows.width = 32;
 *     muster_ps_table_add(ps, &rows, &error, &table);
 *     muster_ps_worker_create(ps, &worker);        // one per thread
 *     muster_ps_begin(worker, table, key, &row);
 *     row[0] += 1;
 *     muster_ps_end(worker, table, key);
 *
 *   Promise      Every push that was acknowledged (a synchronous call returned
 *                MUSTER_OK, or wait did) counts exactly once. Operations on one
 *                row are atomic against each other. A wrong table, key, handle
 *                or size is MUSTER_ERR_INVALID and changes nothing: keys are
 *                checked before the first row is touched.
 *   Lifecycle    create; add tables and distributions; create workers; free
 *                the workers; free. Tables cannot be added while there are
 *                workers.
 *   Ownership    The caller owns every buffer. A row pointer is lent between
 *                begin and end. Buffers of a _start call belong to the call
 *                until it is waited for.
 *   Threads      A worker belongs to one thread at a time. Everything else may
 *                be called from any thread.
 *   Allocation   Pulls, pushes, in-place access and sampling allocate nothing
 *                for rows that are here.
 *   Determinism  Rows start as a function of (seed, table, key) alone.
 *   Not here     Several nodes, and rows that come here (muster/ps_mesh.h);
 *                calls waited for later, and intents (muster/ps_async.h): both
 *                are part of this. Random rows (muster/ps_sample.h). What the
 *                rows mean: tasks are loops over these calls.
 *
 * For users: docs/parameter-server.md. Inside: docs/design/ps.md.
 */
#ifndef MUSTER_PS_H
#define MUSTER_PS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "muster/export.h"
#include "muster/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MUSTER_PS_KEYS_MAX    0x7ffffffeu
#define MUSTER_PS_WIDTH_MAX   65536u
#define MUSTER_PS_TABLES_MAX  16u
#define MUSTER_PS_WORKERS_MAX 256u
#define MUSTER_PS_NODES_MAX   64u
/* Rows that one worker may hold open at once. */
#define MUSTER_PS_OPEN_MAX 4u

typedef struct muster_ps muster_ps;               // a node
typedef struct muster_ps_worker muster_ps_worker; // a thread's view of it

/* Values are stored in checkpoints: append, never renumber. */
typedef enum muster_ps_optimizer {
    MUSTER_PS_NONE = 0, // gradients are refused
    MUSTER_PS_SGD = 1,
    MUSTER_PS_ADAGRAD = 2, // row: width weights, width sums of squares
    MUSTER_PS_ADAM = 3,    // row: weights, first and second moments, steps
} muster_ps_optimizer;

typedef enum muster_ps_init {
    MUSTER_PS_ZERO = 0,
    MUSTER_PS_UNIFORM = 1, // in [-scale, scale)
    MUSTER_PS_NORMAL = 2,  // mean 0, deviation scale
} muster_ps_init;

/* How rows that are not here come to be here. */
typedef enum muster_ps_manage {
    MUSTER_PS_AUTO = 0,      // they move; where several nodes want one, copies
    MUSTER_PS_RELOCATE = 1,  // they always move
    MUSTER_PS_REPLICATE = 2, // copies only
    MUSTER_PS_CLASSIC = 3,   // neither: every access goes to the row's home
    MUSTER_PS_STATIC = 4,    // copies of the rows in a file; the others move
} muster_ps_manage;

typedef struct muster_ps_opts {
    uint32_t struct_size;
    uint32_t nodes;         // of the mesh, 1..MUSTER_PS_NODES_MAX; default 1
    uint64_t seed;          // of initial rows and of samples; default 1
    uint32_t node;          // which one this is, 0..nodes-1; default 0
    uint32_t manage;        // a muster_ps_manage; default auto
    uint32_t staleness_ms;  // copies are at most about so old; default 100
    uint32_t patience_ms;   // for the others to come; default 10000
    const char *mesh;       // where they meet, the same for all: a folder,
                            // tcp:HOST:PORT (node i at PORT + i) or one place
                            // a node, tcp:HOST:PORT,HOST:PORT,..; read during
                            // create; only with nodes > 1
    const char *replicated; // STATIC: file of the rows to copy, one a line:
                            // TABLE KEY or TABLE FIRST-LAST; read during create
    uint32_t survive;       // 1: go on when other nodes are lost; default 0
    uint32_t heartbeat_ms;  // silence that counts as loss; default 2000
    /* survive: a row of a lost node of which no copy is left, muster_ps_row_
     * floats() floats. False, or NULL: it begins anew. Called by one thread at
     * a time; may not call the node. */
    bool (*restore)(void *context, uint32_t table, uint32_t key, float *row);
    void *context; // of restore
} muster_ps_opts;

#define MUSTER_PS_OPTS_INIT                                                   \
    {                                                                         \
        (uint32_t)sizeof(muster_ps_opts), 1u, 1u, 0u, 0u, 100u, 10000u, NULL, \
            NULL, 0u, 2000u, NULL, NULL                                       \
    }

typedef struct muster_ps_table_opts {
    uint32_t struct_size;
    uint32_t keys;      // 1..MUSTER_PS_KEYS_MAX; no default
    uint32_t width;     // 1..MUSTER_PS_WIDTH_MAX; no default
    uint32_t optimizer; // a muster_ps_optimizer; default none
    float rate;         // learning rate of gradients; default 0.01
    float epsilon;      // adagrad, adam; > 0; default 1e-8
    float beta1;        // adam; default 0.9
    float beta2;        // adam; default 0.999
    uint32_t init;      // a muster_ps_init; default zero
    float scale;        // of init; default 0
    uint32_t in_turns;  // 1: nodes use a row one after the other, so that AUTO
                        // lets rows move and makes no copies; default 0
} muster_ps_table_opts;

#define MUSTER_PS_TABLE_OPTS_INIT                                         \
    {                                                                     \
        (uint32_t)sizeof(muster_ps_table_opts), 0u, 0u, 0u, 0.01f, 1e-8f, \
            0.9f, 0.999f, 0u, 0.0f, 0u                                    \
    }

/*
 * Make a node. MUSTER_ERR_INVALID (a field), MUSTER_ERR_INPUT (a line of the
 * file of STATIC), MUSTER_ERR_NO_MEMORY.
 */
MUSTER_API MUSTER_CHECKED muster_status muster_ps_create(
    const muster_ps_opts *opts, muster_error *error_out, muster_ps **ps_out);
/* Every worker must be freed before. NULL does nothing. */
MUSTER_API void muster_ps_free(muster_ps *ps);

/*
 * Add a table; tables are numbered 0, 1, .. in the order they are added.
 * MUSTER_ERR_INVALID (a field out of range, too many tables, or workers are
 * there), MUSTER_ERR_NO_MEMORY. O(keys).
 */
MUSTER_API MUSTER_CHECKED muster_status
muster_ps_table_add(muster_ps *ps, const muster_ps_table_opts *opts,
                    muster_error *error_out, uint32_t *table_out);

/* Floats of a row as begin lends it: weights and state. 0: no such table. */
MUSTER_API uint32_t muster_ps_row_floats(const muster_ps *ps, uint32_t table);

/* Change the learning rate; gradients applied from now on use it. */
MUSTER_API MUSTER_CHECKED muster_status muster_ps_set_rate(muster_ps *ps,
                                                           uint32_t table,
                                                           float rate);

/* Bytes of memory that the tables have claimed: rows in use and words. */
MUSTER_API uint64_t muster_ps_bytes(const muster_ps *ps);

/*
 * A worker, numbered from 0. The only worker of a node works without latches;
 * creating a second one waits until the first has no row open.
 * MUSTER_ERR_INVALID  beyond WORKERS_MAX, or before connect
 * MUSTER_ERR_AGAIN    the only worker so far kept a row open for a second
 */
MUSTER_API MUSTER_CHECKED muster_status
muster_ps_worker_create(muster_ps *ps, muster_ps_worker **worker_out);
/* Closes rows left open as muster_ps_end() does, waits for calls under way and
 * gives back samples. NULL does nothing. */
MUSTER_API void muster_ps_worker_free(muster_ps_worker *worker);

/*
 * Copies. values: count x width floats, row after row. A key may occur more
 * than once. push adds; push_gradient lets the table's optimiser apply each
 * gradient (MUSTER_ERR_INVALID for a table without one); set overwrites the
 * weights and leaves the state alone.
 */
MUSTER_API MUSTER_CHECKED muster_status muster_ps_pull(muster_ps_worker *worker,
                                                       uint32_t table,
                                                       const uint32_t *keys,
                                                       size_t count,
                                                       float *values_out);
MUSTER_API MUSTER_CHECKED muster_status muster_ps_push(muster_ps_worker *worker,
                                                       uint32_t table,
                                                       const uint32_t *keys,
                                                       size_t count,
                                                       const float *deltas);
MUSTER_API MUSTER_CHECKED muster_status muster_ps_push_gradient(
    muster_ps_worker *worker, uint32_t table, const uint32_t *keys,
    size_t count, const float *gradients);
MUSTER_API MUSTER_CHECKED muster_status muster_ps_set(muster_ps_worker *worker,
                                                      uint32_t table,
                                                      const uint32_t *keys,
                                                      size_t count,
                                                      const float *values);

/*
 * Work on a row in place: lent from begin to end, to this worker alone. To
 * keep threads from waiting for each other in a circle, a worker that holds
 * rows may only open one that comes after them in the order of (table, key),
 * and OPEN_MAX at most; else MUSTER_ERR_INVALID. Hold a row for microseconds,
 * never across a blocking call. A row that is not here is fetched as a copy,
 * whose change is pushed by end (copies do not count in the order); but not
 * while others are held in place:
 * MUSTER_ERR_AGAIN, end those first and fetch this one. Calls that reach for
 * another node end with MUSTER_ERR_PEER_LOST when one is gone.
 */
MUSTER_API MUSTER_CHECKED muster_status muster_ps_begin(
    muster_ps_worker *worker, uint32_t table, uint32_t key, float **row_out);
/* MUSTER_ERR_INVALID: this worker does not hold that row. MUSTER_ERR_AGAIN: it
 * is a copy, and others are held in place; end those first. */
MUSTER_API MUSTER_CHECKED muster_status muster_ps_end(muster_ps_worker *worker,
                                                      uint32_t table,
                                                      uint32_t key);

/*
 * The same with a callback, for one row after the other: each is begun, handed
 * over and ended before the next, and those that follow are brought closer
 * meanwhile. `i` is the key's place among `keys`, `floats` is
 * muster_ps_row_floats(). Wrong keys are found before the first row is begun.
 * Else it ends at the first row that cannot be begun or ended, as those say;
 * those before it are done, and a row that was handed over and could not be
 * ended perhaps.
 */
typedef void (*muster_ps_reader)(void *context, size_t i, const float *row,
                                 uint32_t floats);
typedef void (*muster_ps_updater)(void *context, size_t i, float *row,
                                  uint32_t floats);
MUSTER_API MUSTER_CHECKED muster_status
muster_ps_read(muster_ps_worker *worker, uint32_t table, const uint32_t *keys,
               size_t count, muster_ps_reader reader, void *context);
MUSTER_API MUSTER_CHECKED muster_status
muster_ps_update(muster_ps_worker *worker, uint32_t table, const uint32_t *keys,
                 size_t count, muster_ps_updater updater, void *context);

/* Hint that a row will be begun soon: brings its word and bytes closer. Keys
 * out of range are ignored. */
MUSTER_API void muster_ps_prefetch(const muster_ps_worker *worker,
                                   uint32_t table, uint32_t key);

#ifdef __cplusplus
}
#endif

#include "muster/ps_async.h"
#include "muster/ps_mesh.h"

#endif // MUSTER_PS_H
