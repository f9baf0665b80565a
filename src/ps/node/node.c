/*
 * node.c -- nodes, tables and workers of the parameter server: made and
 * ended here, outside any hot path.
 */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "ps/node/inside.h"
#include "ps/node/mesh_address.h"
#include "ps/node/replicated_file.h"

#define PATIENCE_NS      MUSTER_NS_PER_S // with rows kept open
#define HEARTBEAT_MS_MIN 10u

static const char *opts_fault(const muster_ps_opts *opts)
{
    if (opts == NULL || opts->struct_size != sizeof(*opts)) {
        return "start the options from MUSTER_PS_OPTS_INIT";
    }
    if (opts->nodes < 1 || opts->nodes > MUSTER_PS_NODES_MAX ||
        opts->node >= opts->nodes) {
        return "nodes must be in 1..64 and node below it";
    }
    if (opts->manage > MUSTER_PS_STATIC || opts->staleness_ms < 2) {
        return "no such manage, or staleness_ms below 2";
    }
    if (opts->survive > 1 || opts->heartbeat_ms < HEARTBEAT_MS_MIN) {
        return "survive must be 0 or 1, and heartbeat_ms at least 10";
    }
    if ((opts->manage == MUSTER_PS_STATIC) != (opts->replicated != NULL)) {
        return "a file of rows to copy belongs to MUSTER_PS_STATIC";
    }
    return opts->nodes > 1 && opts->mesh == NULL
               ? "several nodes need a mesh: the place where they meet"
               : NULL;
}

/* What is read once: the text of the mesh, and the file of STATIC. */
static muster_status read_opts(const muster_ps_opts *opts,
                               muster_error *error_out,
                               muster_keyset *replicated_out)
{
    muster_status status =
        opts->nodes > 1
            ? muster_mesh_addresses_check(opts->mesh, opts->nodes, error_out)
            : MUSTER_OK;
    return status == MUSTER_OK && opts->replicated != NULL
               ? muster_replicated_file_load(opts->replicated, error_out,
                                             replicated_out)
               : status;
}

muster_status muster_ps_create(const muster_ps_opts *opts,
                               muster_error *error_out, muster_ps **ps_out)
{
    const char *fault = opts_fault(opts);
    if (fault != NULL || ps_out == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "parameter server: %s",
                                fault != NULL ? fault : "NULL argument");
    }
    muster_keyset replicated = {{0}};
    muster_status status = read_opts(opts, error_out, &replicated);
    if (status != MUSTER_OK) {
        return status;
    }
    muster_ps *ps = muster_mem_lines(1, sizeof(*ps));
    char *places = muster_mem_string(opts->nodes > 1 ? opts->mesh : "");
    if (ps == NULL || places == NULL) {
        muster_mem_free(ps);
        muster_mem_free(places);
        muster_keyset_fini(&replicated);
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "parameter server: out of memory");
    }
    ps->opts = *opts;
    ps->opts.replicated = NULL; // was read
    ps->replicated = replicated;
    ps->loss.restore = opts->restore;
    ps->loss.context = opts->context;
    ps->places = places;
    ps->opts.mesh = places;
    ps->unlatched = muster_bias_possible();
    (void)pthread_mutex_init(&ps->barrier_lock, NULL);
    (void)pthread_cond_init(&ps->barrier_cond, NULL);
    *ps_out = ps;
    return MUSTER_OK;
}

void muster_ps_free(muster_ps *ps)
{
    if (ps == NULL) {
        return;
    }
    muster_mesh_free(ps->mesh);
    muster_keyset_fini(&ps->replicated);
    (void)pthread_mutex_destroy(&ps->barrier_lock);
    (void)pthread_cond_destroy(&ps->barrier_cond);
    for (uint32_t i = 0; i < ps->distribution_count; i++) {
        muster_key_distribution_free(ps->distributions[i].target);
    }
    for (uint32_t i = 0; i < ps->table_count; i++) {
        muster_ps_table_free(ps->tables[i]);
    }
    muster_mem_free(ps->places);
    muster_mem_free(ps);
}

static const char *table_fault(const muster_ps_table_opts *opts)
{
    if (opts == NULL || opts->struct_size != sizeof(*opts)) {
        return "start the options from MUSTER_PS_TABLE_OPTS_INIT";
    }
    if (opts->keys < 1 || opts->keys > MUSTER_PS_KEYS_MAX) {
        return "keys must be in 1..2147483646";
    }
    if (opts->width < 1 || opts->width > MUSTER_PS_WIDTH_MAX) {
        return "width must be in 1..65536";
    }
    if (opts->optimizer > MUSTER_PS_ADAM || opts->init > MUSTER_PS_NORMAL) {
        return "no such optimizer or init";
    }
    if (opts->in_turns > 1) {
        return "in_turns must be 0 or 1";
    }
    // With an epsilon of 0 a gradient of 0 would be divided by 0.
    if (!isfinite(opts->rate) || !isfinite(opts->scale) ||
        !isfinite(opts->epsilon) || !(opts->epsilon > 0) ||
        !(opts->beta1 >= 0 && opts->beta1 < 1) ||
        !(opts->beta2 >= 0 && opts->beta2 < 1)) {
        return "rate, scale and epsilon must be finite, epsilon > 0, betas in "
               "[0, 1)";
    }
    return NULL;
}

muster_status muster_ps_table_add(muster_ps *ps,
                                  const muster_ps_table_opts *opts,
                                  muster_error *error_out, uint32_t *table_out)
{
    const char *fault = table_fault(opts);
    if (fault == NULL && (ps == NULL || table_out == NULL)) {
        fault = "NULL argument";
    } else if (fault == NULL && ps->table_count == MUSTER_PS_TABLES_MAX) {
        fault = "at most 16 tables";
    } else if (fault == NULL &&
               (atomic_load(&ps->workers_alive) > 0 || ps->mesh != NULL)) {
        fault = "tables must be added before workers and connections are made";
    }
    if (fault != NULL) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "parameter server: table: %s", fault);
    }
    muster_ps_table_share share = {
        // Who takes the place of a lost node begins without rows.
        .node = ps->loss.joins ? UINT32_MAX : ps->opts.node,
        .nodes = ps->opts.nodes,
        .number = ps->table_count,
        .seed = muster_rng_at(ps->opts.seed, ps->table_count, 0)};
    muster_status status =
        muster_ps_table_create(opts, &share, &ps->tables[ps->table_count]);
    if (status != MUSTER_OK) {
        return muster_error_set(error_out, status,
                                "parameter server: no memory for a table of %u "
                                "rows of %u floats",
                                opts->keys, opts->width);
    }
    if (ps->unlatched) {
        muster_ps_table_allow_bias(ps->tables[ps->table_count], &ps->holders);
    }
    *table_out = ps->table_count++;
    return MUSTER_OK;
}

muster_status muster_ps_connect(muster_ps *ps, muster_error *error_out)
{
    if (ps == NULL || ps->opts.nodes == 1 || ps->mesh != NULL ||
        ps->table_count == 0) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "parameter server: connect once, with several "
                                "nodes, after the tables");
    }
    muster_status status =
        muster_replicated_file_check(&ps->replicated, ps, error_out);
    if (status != MUSTER_OK) {
        return status;
    }
    return muster_mesh_create(ps, error_out, &ps->mesh);
}

void muster_worker_flush_counts(muster_ps_worker *worker)
{
    muster_ps *ps = worker->ps;
    atomic_fetch_add(&ps->accesses,
                     worker->accesses + muster_bias_take_count(worker->holder));
    atomic_fetch_add(&ps->remote, worker->remote);
    atomic_fetch_add(&ps->copied, worker->copied);
    worker->accesses = 0;
    worker->remote = 0;
    worker->copied = 0;
}

muster_ps_counters muster_ps_count(muster_ps *ps)
{
    if (ps == NULL) {
        return (muster_ps_counters){0};
    }
    muster_ps_counters all = {.accesses = atomic_load(&ps->accesses),
                              .remote = atomic_load(&ps->remote),
                              .copied = atomic_load(&ps->copied)};
    if (ps->mesh != NULL) {
        muster_protocol_counters node = muster_mesh_count(ps->mesh);
        all.relocations = node.relocations;
        all.replicas = node.replicas;
        all.syncs = node.syncs;
        all.copies = node.copies;
    }
    return all;
}

uint32_t muster_ps_row_floats(const muster_ps *ps, uint32_t table)
{
    return ps != NULL && table < ps->table_count ? ps->tables[table]->floats
                                                 : 0;
}

muster_status muster_ps_set_rate(muster_ps *ps, uint32_t table, float rate)
{
    if (ps == NULL || table >= ps->table_count || !isfinite(rate)) {
        return MUSTER_ERR_INVALID;
    }
    atomic_store_explicit(&ps->tables[table]->rate, rate, memory_order_relaxed);
    return MUSTER_OK;
}

uint64_t muster_ps_bytes(const muster_ps *ps)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; ps != NULL && i < ps->table_count; i++) {
        bytes += muster_ps_table_bytes(ps->tables[i]);
    }
    return bytes;
}

/* Another worker comes: nobody is alone any more. Once the tables are left,
 * workers may have rows of their own open, which concern no newcomer. */
static muster_status bar_all(muster_ps *ps)
{
    uint32_t tables = ps->table_count;
    if (!ps->unlatched || atomic_load(&ps->tables_left) == tables) {
        return MUSTER_OK;
    }
    for (uint32_t i = 0; i < tables; i++) {
        muster_ps_table_revoke_for_workers(ps->tables[i]);
    }
    muster_bias_fence();
    if (!muster_bias_wait_all(&ps->holders, PATIENCE_NS)) {
        return MUSTER_ERR_AGAIN;
    }
    atomic_store(&ps->tables_left, tables);
    return MUSTER_OK;
}

/* The lowest number that no worker has. */
static uint32_t take_seat(muster_ps *ps)
{
    uint32_t seat = 0;
    (void)pthread_mutex_lock(&ps->barrier_lock);
    while (ps->seats[seat / 64] >> seat % 64 & 1) {
        seat++;
    }
    ps->seats[seat / 64] |= 1ull << seat % 64;
    (void)pthread_mutex_unlock(&ps->barrier_lock);
    atomic_store(&ps->holders.all[seat].state, 0);
    return seat;
}

static void give_seat(muster_ps *ps, uint32_t seat)
{
    (void)pthread_mutex_lock(&ps->barrier_lock);
    ps->seats[seat / 64] &= ~(1ull << seat % 64);
    (void)pthread_mutex_unlock(&ps->barrier_lock);
}

muster_status muster_ps_worker_create(muster_ps *ps,
                                      muster_ps_worker **worker_out)
{
    if (ps == NULL || worker_out == NULL ||
        (ps->opts.nodes > 1 && ps->mesh == NULL)) {
        return MUSTER_ERR_INVALID;
    }
    muster_ps_worker *worker = muster_mem_lines(1, sizeof(*worker));
    if (worker == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    uint32_t others = atomic_fetch_add(&ps->workers_alive, 1);
    muster_status first = others >= MUSTER_PS_WORKERS_MAX ? MUSTER_ERR_INVALID
                          : others > 0                    ? bar_all(ps)
                                                          : MUSTER_OK;
    if (first != MUSTER_OK) {
        muster_barrier_worker_left(ps);
        muster_mem_free(worker);
        return first;
    }
    worker->ps = ps;
    worker->seat = take_seat(ps);
    worker->holder = &ps->holders.all[worker->seat];
    memcpy(worker->tables, ps->tables, sizeof(worker->tables));
    worker->table_count = ps->table_count;
    worker->number =
        (uint64_t)ps->opts.node << 32 | atomic_fetch_add(&ps->workers_made, 1);
    if (ps->mesh != NULL) {
        muster_status status = muster_worker_join_mesh(worker);
        if (status != MUSTER_OK) {
            muster_ps_worker_free(worker);
            return status;
        }
    }
    *worker_out = worker;
    return MUSTER_OK;
}

static void close_rows(muster_ps_worker *worker, bool copies)
{
    for (uint32_t i = muster_worker_open_rows(worker); i > 0; i--) {
        muster_rowref ref = muster_bias_listed(worker->holder, i - 1);
        if ((worker->open_copies[i - 1] != NULL) == copies) {
            (void)!muster_ps_end(worker, muster_rowref_table(ref),
                                 muster_rowref_key(ref));
        }
    }
}

void muster_ps_worker_free(muster_ps_worker *worker)
{
    if (worker == NULL) {
        return;
    }
    close_rows(worker, false);
    close_rows(worker, true); // these may have to wait, so nothing is held then
    if (worker->ps->mesh != NULL) {
        muster_worker_leave_mesh(worker);
    }
    muster_worker_samplers_fini(worker);
    muster_worker_flush_counts(worker);
    give_seat(worker->ps, worker->seat);
    muster_barrier_worker_left(worker->ps);
    muster_mem_free(worker);
}
