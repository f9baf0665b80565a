/*
 * localize.c -- muster_ps_localize() and muster_ps_fetch(): a worker asks for
 * rows to be brought to its node.
 */
#include "ps/node/inside.h"

#define HEADER_WORDS  2u
#define REQUEST_KEYS  (1024u - HEADER_WORDS)
#define URGENT_BUDGET 1u // writes left: not the first one, budgets are above

uint32_t muster_ps_nodes(const muster_ps_worker *worker)
{
    return worker != NULL ? worker->ps->opts.nodes : 0;
}

/* Can a row of another node come to this one? */
static bool rows_can_come(const muster_ps_worker *worker)
{
    return worker->ps->mesh != NULL &&
           worker->ps->opts.manage != MUSTER_PS_CLASSIC;
}

/* Must the driver know that a row will be used? If it is absent; and if it is
 * kept and a replica without a change, which might be dropped before. */
static bool concerns_driver(uint64_t word, uint32_t flags)
{
    muster_word_state state = muster_word_state_of(word);
    return state == MUSTER_ROW_ABSENT ||
           (state == MUSTER_ROW_REPLICA && (flags & MUSTER_LOCALIZE_KEEP) &&
            (word & MUSTER_WORD_DIRTY) == 0);
}

/* Queue requests for the keys that concern the driver; false: there was no room
 * for all. */
static bool queue_keys(muster_ps_worker *worker, uint32_t header_table,
                       const muster_ps_table *rows, const uint32_t *keys,
                       size_t count)
{
    uint32_t chosen[REQUEST_KEYS];
    uint32_t found = 0;
    bool kept = true;
    bool any = false;
    for (size_t i = 0; i < count && kept; i++) {
        uint64_t word =
            atomic_load_explicit(&rows->words[keys[i]], memory_order_relaxed);
        if (concerns_driver(word, header_table)) {
            chosen[found++] = keys[i];
            any |= muster_word_state_of(word) == MUSTER_ROW_ABSENT;
        }
        if (found == REQUEST_KEYS || (i + 1 == count && found > 0)) {
            uint32_t header[HEADER_WORDS] = {header_table, found};
            kept = muster_localize_queue_put(worker->queue, header,
                                             HEADER_WORDS, chosen);
            found = 0;
        }
    }
    if (any) {
        muster_mesh_wake(worker->ps->mesh);
    }
    return kept;
}

void muster_worker_ask_sync(muster_ps_worker *worker, muster_rowref ref,
                            uint64_t word)
{
    bool urgent = muster_word_budget(word) <= URGENT_BUDGET;
    uint32_t header[HEADER_WORDS] = {muster_rowref_table(ref) |
                                         MUSTER_LOCALIZE_SYNC |
                                         (urgent ? MUSTER_LOCALIZE_URGENT : 0),
                                     1};
    uint32_t key = muster_rowref_key(ref);
    // No room: the replica is synchronised when it is spent.
    if (muster_localize_queue_put(worker->queue, header, HEADER_WORDS, &key) &&
        urgent) {
        muster_mesh_wake(worker->ps->mesh);
    }
}

muster_status muster_worker_localize(muster_ps_worker *worker, uint32_t table,
                                     const uint32_t *keys, size_t count,
                                     uint32_t flags)
{
    const muster_ps_table *rows =
        muster_worker_check_keys(worker, table, keys, count);
    if (rows == NULL) {
        return MUSTER_ERR_INVALID;
    }
    return !rows_can_come(worker) ||
                   queue_keys(worker, table | flags, rows, keys, count)
               ? MUSTER_OK
               : MUSTER_ERR_AGAIN;
}

static muster_status localize(muster_ps_worker *worker, uint32_t table,
                              const uint32_t *keys, size_t count,
                              uint32_t flags)
{
    muster_status status = muster_worker_localize(worker, table, keys, count,
                                                  flags | MUSTER_LOCALIZE_KEEP);
    if (status == MUSTER_ERR_INVALID) {
        return muster_worker_refuse_keys(worker, table, keys, count);
    }
    return status == MUSTER_OK
               ? MUSTER_OK
               : muster_worker_refuse(
                     worker, status,
                     "the localize queue is full: ask for fewer rows at once");
}

muster_status muster_ps_localize(muster_ps_worker *worker, uint32_t table,
                                 const uint32_t *keys, size_t count)
{
    return localize(worker, table, keys, count, 0);
}

muster_status muster_ps_replicate(muster_ps_worker *worker, uint32_t table,
                                  const uint32_t *keys, size_t count)
{
    return localize(worker, table, keys, count, MUSTER_LOCALIZE_REPLICA);
}

uint64_t muster_ps_late_rows(const muster_ps_worker *worker)
{
    return worker != NULL ? worker->late_rows : 0;
}

muster_status muster_ps_fetch(muster_ps_worker *worker, uint32_t table,
                              const uint32_t *keys, size_t count)
{
    if (worker == NULL || muster_worker_open_rows(worker) > 0) {
        return muster_worker_refuse(worker, MUSTER_ERR_INVALID,
                                    "fetch while a row is open");
    }
    muster_status status =
        muster_worker_localize(worker, table, keys, count, 0);
    if (status == MUSTER_ERR_INVALID) {
        return muster_worker_refuse_keys(worker, table, keys, count);
    }
    if (!rows_can_come(worker)) {
        return MUSTER_OK;
    }
    // A pull waits for the row that it meets on its way; its value is dropped.
    float *unread = worker->copies +
                    (size_t)(MUSTER_PS_OPEN_MAX - 1) * 2 * worker->copy_floats;
    for (size_t i = 0; i < count; i++) {
        if (muster_ps_table_here(worker->tables[table], keys[i])) {
            continue;
        }
        muster_row_batch batch = {.op = MUSTER_ROWOP_PULL,
                                  .table = table,
                                  .keys = &keys[i],
                                  .count = 1,
                                  .values = unread};
        status = muster_ps_call_run_one(worker, &batch);
        if (status != MUSTER_OK) {
            return status;
        }
    }
    return MUSTER_OK;
}
