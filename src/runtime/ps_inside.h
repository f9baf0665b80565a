/*
 * runtime/ps_inside.h -- what is behind the handles of muster/ps.h.
 */
#ifndef MUSTER_RUNTIME_PS_INSIDE_H
#define MUSTER_RUNTIME_PS_INSIDE_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "muster/ps.h"
#include "muster/sample.h"
#include "ps/scheme.h"
#include "ps/store.h"
#include "ps/target.h"
#include "role/psnode.h"
#include "runtime/ps_mesh.h"

typedef struct muster_ps_distribution {
    muster_target *target;
    uint32_t table;
    muster_sampler_opts sampler; // without the worker's stream
} muster_ps_distribution;

struct muster_ps {
    muster_ps_opts opts;
    char folder[96]; // opts.mesh
    muster_pstable *tables[MUSTER_PS_TABLES_MAX];
    uint32_t table_count;
    muster_ps_distribution distributions[MUSTER_PS_DISTRIBUTIONS_MAX];
    uint32_t distribution_count;
    _Atomic uint32_t workers_alive;
    _Atomic uint32_t workers_made;
    _Atomic uint64_t accesses; // of workers that are gone
    _Atomic uint64_t remote;
    muster_psmesh *mesh; // NULL: a single node
    // Barriers of this node's workers.
    pthread_mutex_t barrier_lock;
    pthread_cond_t barrier_cond;
    uint32_t barrier_waiting;
    uint64_t barrier_passed;
    muster_status barrier_status;
    bool barrier_cancelled;
};

/* An open row: its place in the order of (table, key), and where it is. */
typedef struct muster_ps_open {
    uint64_t place;
    float *copy; // of a row that is elsewhere, followed by how it was; or NULL
} muster_ps_open;

/* Wishes of a worker on their way to the network thread: one writer, one
 * reader. A wish is a table, a count and that many keys. */
enum { MUSTER_PS_WISHES = 65536 };
#define MUSTER_PS_WISH_COPY 0x80000000u // beside the table: a copy will do
typedef struct muster_ps_wishes {
    _Atomic uint64_t head; // written so far
    char pad[64 - sizeof(uint64_t)];
    _Atomic uint64_t tail; // read so far
    uint32_t words[MUSTER_PS_WISHES];
} muster_ps_wishes;

/* Whose rows a sampler asks about. */
typedef struct muster_ps_bringer {
    muster_ps_worker *worker;
    uint32_t table;
} muster_ps_bringer;

struct muster_ps_worker {
    muster_ps *ps;
    muster_pstable *const *tables;
    uint32_t table_count;
    uint32_t number;
    uint32_t open_count;
    muster_ps_open open[MUSTER_PS_OPEN_MAX];
    muster_sampler *samplers[MUSTER_PS_DISTRIBUTIONS_MAX]; // NULL until used
    muster_ps_bringer bringers[MUSTER_PS_DISTRIBUTIONS_MAX];
    bool notes; // some sampler repurposes direct accesses
    uint64_t accesses;
    uint64_t remote;
    // Only in a mesh:
    muster_ps_wishes *wishes;
    float *copies;        // OPEN_MAX x 2 rows of the widest table
    size_t copy_floats;   // of one of them
    muster_vec positions; // uint32_t: rows of an operation that are not here
    muster_psreq request;
    sem_t finished;
    muster_status outcome; // of the request
};

/* The table, or NULL when the number or a key is wrong. */
muster_pstable *muster_ps_check(const muster_ps_worker *worker, uint32_t table,
                                const uint32_t *keys, size_t count);

/* Tell the repurposing samplers of a table about a direct access. */
void muster_ps_note(muster_ps_worker *worker, uint32_t table, uint32_t key);

/* Free every sampler of a worker. */
void muster_ps_samplers_fini(muster_ps_worker *worker);

/* muster_ps_localize(), with MUSTER_PS_WISH_COPY or 0. */
MUSTER_CHECKED muster_status muster_ps_wish(muster_ps_worker *worker,
                                            uint32_t table,
                                            const uint32_t *keys, size_t count,
                                            uint32_t copy);

/* Do an operation on the rows in worker->positions wherever they are. */
MUSTER_CHECKED muster_status muster_ps_remote(muster_ps_worker *worker,
                                              muster_rowmsg_op op,
                                              uint32_t table,
                                              const uint32_t *keys,
                                              float *values);

/* Let nobody wait at a barrier from now on: those who do, and those who come,
 * get MUSTER_ERR_CANCELLED. For a node that ends before its time. */
void muster_ps_barrier_cancel(muster_ps *ps);

/* Prepare a worker for a mesh, and undo it. */
MUSTER_CHECKED muster_status muster_ps_worker_join(muster_ps_worker *worker);
void muster_ps_worker_leave(muster_ps_worker *worker);

#endif // MUSTER_RUNTIME_PS_INSIDE_H
