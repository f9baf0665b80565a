/*
 * muster/ps.h -- a parameter server: tables of rows, used where they lie.
 *
 * A table holds rows of `width` float32 weights under keys 0..keys-1, each with
 * the state of the table's optimiser beside it. Worker threads pull (copy out),
 * push (add, or apply a gradient) and set rows, or work on a row in place
 * between begin and end. A row that is on this node is touched under a latch
 * word of its own: no copy, no allocation, no lock shared with another row.
 *
 *     muster_ps *ps;
 *     muster_ps_opts opts = MUSTER_PS_OPTS_INIT;
 *     muster_ps_create(&opts, &error, &ps);
 *     muster_ps_table_opts rows = MUSTER_PS_TABLE_OPTS_INIT;
 *     rows.keys = 100000;
 *     rows.width = 32;
 *     muster_ps_table_add(ps, &rows, &error, &table);
 *     muster_ps_worker_create(ps, &error, &worker);    // one per thread
 *     muster_ps_begin(worker, table, key, &row);
 *     row[0] += 1;
 *     muster_ps_end(worker, table, key);
 *
 *   Promise      Every push that was acknowledged (a synchronous call returned
 *                MUSTER_OK, or wait did) counts exactly once. Operations on one
 *                row are atomic against each other. A wrong table, key, handle
 *                or size is MUSTER_ERR_INVALID and changes nothing: keys are
 *                checked before the first row is touched. Pull and read write
 *                nothing, wherever the row is.
 *   Lifecycle    create; add tables and distributions; create workers; free
 *                the workers; free. Tables cannot be added while there are
 *                workers.
 *   Ownership    The caller owns every buffer. A row pointer is lent between
 *                begin and end. Buffers of a _start call belong to the call
 *                until it is waited for.
 *   Threads      A worker belongs to one thread at a time. Everything else may
 *                be called from any thread.
 *   Allocation   Pulls, pushes, in-place access and sampling allocate nothing
 *                for rows that are on this node.
 *   Determinism  Rows start as a function of (seed, table, key) alone.
 *   Errors       A call with error_out writes its text there. A worker's call
 *                leaves it for muster_ps_error_text(). In both cases the text
 *                is written only when the call fails.
 *   Not here     Several nodes, and rows that come to this one (muster/
 *                ps_mesh.h); calls waited for later, and intents (muster/
 *                ps_async.h): both are part of this. Random rows (muster/
 *                ps_sample.h). What the rows mean: tasks are loops over these
 *                calls.
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

/* How changes that several nodes make at the same time to a replicated row
 * become one row. */
typedef enum muster_ps_merge {
    MUSTER_PS_MERGE_SUM = 0, // their exact sum. A replica may be written only
                             // so often before it is synchronised: workers
                             // wait for it
    MUSTER_PS_MERGE_DAMPED = 1, // for weights that are trained: less than the
                                // sum where the nodes together go too far.
                                // Nobody waits
} muster_ps_merge;

/* How the rows of other nodes come to the node that uses them. */
typedef enum muster_ps_manage {
    MUSTER_PS_AUTO = 0,      // relocate; replicate what several nodes want
    MUSTER_PS_RELOCATE = 1,  // rows always move
    MUSTER_PS_REPLICATE = 2, // replicas only
    MUSTER_PS_CLASSIC = 3,   // neither: every access goes to the row's home
    MUSTER_PS_STATIC = 4,    // replicate the rows in a file, relocate the rest
} muster_ps_manage;

typedef struct muster_ps_opts {
    uint32_t struct_size;
    uint32_t nodes;         // of the mesh, 1..MUSTER_PS_NODES_MAX; default 1
    uint64_t seed;          // of initial rows and of samples; default 1
    uint32_t node;          // number of this one, 0..nodes-1; default 0
    uint32_t manage;        // a muster_ps_manage; default auto
    uint32_t staleness_ms;  // age of a replica, about, at most; default 100
    uint32_t patience_ms;   // for the other nodes to connect; default 10000
    const char *mesh;       // addresses, the same text for all nodes: a folder,
                            // tcp:HOST:PORT (node i at PORT + i) or one address
                            // a node, tcp:HOST:PORT,HOST:PORT,..; read during
                            // create; only with nodes > 1
    const char *replicated; // STATIC: file of the rows to replicate, one a
                            // line: TABLE KEY or TABLE FIRST-LAST; read during
                            // create
    bool survive;           // go on when other nodes are lost; default false
    uint32_t heartbeat_ms;  // silence that counts as loss; default 2000
    /* survive: fill a row of a lost node that has no replica, of muster_ps_row_
     * floats() floats. False, or NULL: the row starts as at first. Called by
     * one thread at a time; must not call the node. */
    bool (*restore)(void *context, uint32_t table, uint32_t key, float *row);
    void *context;        // of restore
    const char *key_file; // the run key of a tcp: mesh (`muster key`); NULL:
                          // the file that MUSTER_KEY_FILE names, or none; read
                          // during create
    bool insecure;        // listen to other machines without a key
    const char *engine;   // of a tcp: mesh: "sock" (NULL), or "ucx" for trusted
                          // networks; lent until free
    uint32_t hot_factor;  // auto: a row that is asked for so many times as
                          // often as the mean is replicated; default 100
} muster_ps_opts;

#define MUSTER_PS_OPTS_INIT                                                   \
    {                                                                         \
        (uint32_t)sizeof(muster_ps_opts), 1u, 1u, 0u, 0u, 100u, 10000u, NULL, \
            NULL, false, 2000u, NULL, NULL, NULL, false, NULL, 100u           \
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
    bool in_turns;      // nodes use a row one after the other: AUTO relocates
                        // its rows and never replicates them; default false
    uint32_t merge;     // a muster_ps_merge; the same at all nodes; default sum
} muster_ps_table_opts;

#define MUSTER_PS_TABLE_OPTS_INIT                                         \
    {                                                                     \
        (uint32_t)sizeof(muster_ps_table_opts), 0u, 0u, 0u, 0.01f, 1e-8f, \
            0.9f, 0.999f, 0u, 0.0f, false, 0u                             \
    }

/*
 * Make a node. The caller frees it.
 * MUSTER_ERR_INVALID    a field is out of range, or struct_size is unknown
 * MUSTER_ERR_INPUT      STATIC: the file cannot be read, or a line is wrong;
 *                       or the key file is no key, or others can open it
 * MUSTER_ERR_NO_MEMORY
 */
MUSTER_API MUSTER_CHECKED muster_status muster_ps_create(
    const muster_ps_opts *opts, muster_error *error_out, muster_ps **ps_out);
/* Every worker must be freed before. NULL does nothing. */
MUSTER_API void muster_ps_free(muster_ps *ps);

/*
 * Add a table; tables are numbered 0, 1, .. in the order they are added.
 * MUSTER_ERR_INVALID    a field is out of range, TABLES_MAX are there, or there
 *                       are workers or connections already
 * MUSTER_ERR_NO_MEMORY  for O(keys) bytes
 */
MUSTER_API MUSTER_CHECKED muster_status
muster_ps_table_add(muster_ps *ps, const muster_ps_table_opts *opts,
                    muster_error *error_out, uint32_t *table_out);

/* Floats of a row as begin lends it: weights and state. 0: no such table. */
MUSTER_API uint32_t muster_ps_row_floats(const muster_ps *ps, uint32_t table);

/* Change the learning rate; gradients applied from now on use it.
 * MUSTER_ERR_INVALID: no such table, or the rate is not finite. */
MUSTER_API MUSTER_CHECKED muster_status muster_ps_set_rate(muster_ps *ps,
                                                           uint32_t table,
                                                           float rate);

/* Bytes that the tables have claimed: rows in use and latch words. */
MUSTER_API uint64_t muster_ps_bytes(const muster_ps *ps);

/*
 * A worker, numbered from 0. The only worker of a node works without latches;
 * creating a second one waits until the first has no row open.
 * MUSTER_ERR_INVALID    WORKERS_MAX are there, or nodes > 1 before connect
 * MUSTER_ERR_AGAIN      the only worker so far kept a row open for a second
 * MUSTER_ERR_NO_MEMORY
 * MUSTER_ERR_SYSTEM     a semaphore was refused
 */
MUSTER_API MUSTER_CHECKED muster_status muster_ps_worker_create(
    muster_ps *ps, muster_error *error_out, muster_ps_worker **worker_out);
/* Closes rows left open as muster_ps_end() does, waits for calls under way and
 * gives back samples. NULL does nothing. */
MUSTER_API void muster_ps_worker_free(muster_ps_worker *worker);

/* Why the worker's last failed call failed, in one line; "" when none has.
 * Lent until the worker's next call. */
MUSTER_API const char *muster_ps_error_text(const muster_ps_worker *worker);

/*
 * Copy rows. values: count x width floats, row after row. A key may occur more
 * than once. push adds; push_gradient lets the table's optimiser apply each
 * gradient; set overwrites the weights and leaves the state alone.
 * MUSTER_ERR_INVALID    a wrong table, key or NULL; a row is open; a gradient
 *                       for a table without optimiser
 * MUSTER_ERR_NO_MEMORY  for a list of rows on other nodes; nothing was done
 * MUSTER_ERR_PEER_LOST  a node is lost; rows of this node were done
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
 * Work on a row in place: it is lent from begin to end, to this worker alone.
 * Hold it for microseconds, never across a blocking call. A row of another node
 * is lent as a copy, and end pushes what changed. Rows held in place must be
 * opened in the order of (table, key), so that workers cannot deadlock; copies
 * do not count in the order.
 * MUSTER_ERR_INVALID    begin: a wrong table, key or NULL; OPEN_MAX rows are
 *                       open; the order. end: the worker does not hold it
 * MUSTER_ERR_AGAIN      the row is on another node, and rows are held in place:
 *                       end those first (and fetch this one)
 * MUSTER_ERR_NO_MEMORY, MUSTER_ERR_PEER_LOST  as pull; end: the change is lost
 */
MUSTER_API MUSTER_CHECKED muster_status muster_ps_begin(
    muster_ps_worker *worker, uint32_t table, uint32_t key, float **row_out);
MUSTER_API MUSTER_CHECKED muster_status muster_ps_end(muster_ps_worker *worker,
                                                      uint32_t table,
                                                      uint32_t key);

/*
 * The same with a callback, one row after the other; the rows that follow are
 * prefetched meanwhile. `i` is the key's index in `keys`, `floats` is
 * muster_ps_row_floats(). read only reads: a row of another node costs one
 * pull, a replica stays clean. Wrong keys are found before the first row is
 * begun. Statuses as begin and end, of the first row that fails: the rows
 * before it are done; update may have done the failing row too.
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

/* Hint that a row will be begun soon: brings its word and bytes into the
 * cache. Keys out of range are ignored. */
MUSTER_API void muster_ps_prefetch(const muster_ps_worker *worker,
                                   uint32_t table, uint32_t key);

#ifdef __cplusplus
}
#endif

#include "muster/ps_async.h"
#include "muster/ps_mesh.h"

#endif // MUSTER_PS_H
