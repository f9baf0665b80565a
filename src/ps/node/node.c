/*
 * node.c -- nodes of the parameter server and their tables: made and ended
 * here, outside any hot path.
 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "ps/node/inside.h"
#include "ps/node/mesh_address.h"
#include "ps/node/replicated_file.h"

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
    if (opts->manage > MUSTER_PS_STATIC || opts->staleness_ms < 2 ||
        opts->hot_factor < 1) {
        return "no such manage, or staleness_ms below 2, or hot_factor 0";
    }
    if (opts->heartbeat_ms < HEARTBEAT_MS_MIN) {
        return "heartbeat_ms must be at least 10";
    }
    if ((opts->manage == MUSTER_PS_STATIC) != (opts->replicated != NULL)) {
        return "a file of rows to replicate belongs to MUSTER_PS_STATIC";
    }
    return opts->nodes > 1 && opts->mesh == NULL
               ? "several nodes need a mesh: their addresses"
               : NULL;
}

/* What is read once: the addresses of the mesh, and the file of STATIC. */
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
    muster_run_key key = {{0}};
    bool has_key = false;
    muster_status status =
        opts->nodes > 1
            ? muster_run_key_find(opts->key_file, error_out, &key, &has_key)
            : MUSTER_OK;
    if (status == MUSTER_OK) {
        status = read_opts(opts, error_out, &replicated);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    muster_ps *ps = muster_mem_lines(1, sizeof(*ps));
    char *addresses = muster_mem_string(opts->nodes > 1 ? opts->mesh : "");
    if (ps == NULL || addresses == NULL) {
        muster_mem_free(ps);
        muster_mem_free(addresses);
        muster_keyset_fini(&replicated);
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "parameter server: out of memory");
    }
    ps->opts = *opts;
    ps->opts.replicated = NULL; // was read
    ps->opts.key_file = NULL;
    ps->key = key;
    ps->has_key = has_key;
    ps->replicated = replicated;
    ps->loss.restore = opts->restore;
    ps->loss.context = opts->context;
    ps->addresses = addresses;
    ps->opts.mesh = addresses;
    ps->unlatched = muster_bias_possible();
    (void)pthread_mutex_init(&ps->barrier.lock, NULL);
    (void)pthread_cond_init(&ps->barrier.changed, NULL);
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
    (void)pthread_mutex_destroy(&ps->barrier.lock);
    (void)pthread_cond_destroy(&ps->barrier.changed);
    for (uint32_t i = 0; i < ps->distribution_count; i++) {
        muster_key_distribution_free(ps->distributions[i].target);
    }
    for (uint32_t i = 0; i < ps->table_count; i++) {
        muster_ps_table_free(ps->tables[i]);
    }
    muster_mem_free(ps->addresses);
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
    if (opts->optimizer > MUSTER_PS_ADAM || opts->init > MUSTER_PS_NORMAL ||
        opts->merge > MUSTER_PS_MERGE_DAMPED) {
        return "no such optimizer, init or merge";
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
    } else if (fault == NULL && (atomic_load(&ps->shared.workers_alive) > 0 ||
                                 ps->mesh != NULL)) {
        fault = "tables must be added before workers and connections are made";
    }
    if (fault != NULL) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "parameter server: table: %s", fault);
    }
    muster_ps_table_share share = {
        // A node that takes the place of a lost one begins without rows.
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

muster_status muster_ps_count(muster_ps *ps, muster_ps_counters *counters_out)
{
    if (ps == NULL || counters_out == NULL ||
        counters_out->struct_size != sizeof(*counters_out)) {
        return MUSTER_ERR_INVALID;
    }
    muster_ps_counters all = MUSTER_PS_COUNTERS_INIT;
    all.accesses = atomic_load(&ps->shared.accesses);
    all.remote_accesses = atomic_load(&ps->shared.remote_accesses);
    all.replica_accesses = atomic_load(&ps->shared.replica_accesses);
    all.arriving_accesses = atomic_load(&ps->shared.arriving_accesses);
    all.spent_accesses = atomic_load(&ps->shared.spent_accesses);
    all.remote_wait_ns = atomic_load(&ps->shared.remote_wait_ns);
    all.barrier_wait_ns = atomic_load(&ps->shared.barrier_wait_ns);
    all.latch_wait_ns = atomic_load(&ps->shared.latch_wait_ns);
    if (ps->mesh != NULL) {
        muster_mesh_counters mesh = muster_mesh_count(ps->mesh);
        muster_protocol_counters protocol = mesh.protocol;
        all.sync_bytes = protocol.sync_bytes;
        all.sent_bytes = mesh.sent_bytes;
        all.network_ns = mesh.network_ns;
        all.relocations = protocol.relocations;
        all.replications = protocol.replicas;
        all.syncs = protocol.syncs;
        all.replicas_held = protocol.copies;
    }
    *counters_out = all;
    return MUSTER_OK;
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
