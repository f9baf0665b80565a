/*
 * run/sparse_checkpoint.h -- all tables of a parameter server in a file, and
 * back, on any number of nodes.
 *
 * A checkpoint (record/checkpoint.h) holds a tensor `table-T` of keys x floats
 * for each table, optimiser state included, and the number of epochs done. It
 * is gathered by one node while all workers of all nodes stand still.
 */
#ifndef MUSTER_RUN_SPARSE_CHECKPOINT_H
#define MUSTER_RUN_SPARSE_CHECKPOINT_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>

#include "muster/ps.h"
#include "muster/status.h"
#include "ps/store/store.h"
#include "record/checkpoint.h"

/* Gather the first `tables` tables. *rows_out: one array each, the caller's
 * for muster_mem_free(). MUSTER_ERR_NO_MEMORY, MUSTER_ERR_PEER_LOST. */
MUSTER_CHECKED muster_status muster_ps_gather(muster_ps_worker *worker,
                                              uint32_t tables,
                                              float **rows_out);

/* Write what was gathered, after `epochs` epochs. */
MUSTER_CHECKED muster_status muster_ps_checkpoint(
    const muster_ps *ps, uint32_t tables, float *const *rows, uint64_t epochs,
    const char *folder, muster_error *error_out);

/* Put the newest checkpoint into the rows that this node owns: on every node,
 * before the workers start. MUSTER_ERR_INPUT: none, or of other tables. */
MUSTER_CHECKED muster_status muster_ps_restore(muster_ps *ps, uint32_t tables,
                                               const char *folder,
                                               muster_error *error_out,
                                               uint64_t *epochs_out);

/* The newest checkpoint, to take single rows from; zeroed at first. */
typedef struct muster_last_checkpoint {
    muster_checkpoint from;
    bool tried; // `open` says how it went, once `loader` has ended
    bool open;
    bool loading; // `loader` is to be joined
    pthread_t loader;
    sem_t loaded;
    char folder[MUSTER_RECORD_PATH_MAX];
} muster_last_checkpoint;

/* Load the checkpoint in `folder` on a thread of its own, whose end is waited
 * for a moment at each call. True: it has been tried, rows come at once. */
bool muster_last_checkpoint_prepare(muster_last_checkpoint *last,
                                    const char *folder);

/* A row as the checkpoint in `folder` (NULL: there is none) has it; loads it
 * when it is not open yet. False: it has no such row. */
bool muster_last_checkpoint_row(muster_last_checkpoint *last,
                                const char *folder,
                                const muster_ps_table *table, uint32_t number,
                                uint32_t key, float *row);
void muster_last_checkpoint_close(muster_last_checkpoint *last);

#endif // MUSTER_RUN_SPARSE_CHECKPOINT_H
