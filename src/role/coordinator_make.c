/*
 * coordinator_make.c -- create, save, free.
 *
 * Saved: SAVED_MAGIC, run, step, plan number, incarnations given out, workers,
 * parts, shards, then how long the states of shuffle and classes are; then the
 * map (4 bytes a worker), how often each shard came (8 bytes a shard), and
 * those states. The counters are the shards', which another code has too.
 * Where parts are sized by measured speeds, each part's shards follow (4 bytes
 * a part), so that a restart begins with the sizes it had.
 * Incarnations given out after the last save are not known any more: a restart
 * begins a new block of them, so that none is given out twice.
 * A plan that was being made ready is not: a restart asks for it again.
 */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "code/hier.h"
#include "code/numbers.h"
#include "role/coordinator_inside.h"
#include "wire/bytes.h"

#define SAVED_MAGIC 0x3343534du // "MSC3"
#define HEAD_BYTES  48u
#define LIVES_BLOCK 65536u

/* A saved state, taken apart. */
typedef struct saved_state {
    uint64_t run;
    uint32_t plan, lives, workers, parts, shards;
    size_t shuffle_bytes, classes_bytes;
    const uint8_t *map, *received, *shuffle, *classes;
    const uint8_t *sizes; // shards of each part; NULL: not saved
} saved_state;

static bool read_saved(const void *bytes, size_t size, saved_state *saved_out)
{
    const uint8_t *at = bytes;
    if (size < HEAD_BYTES || muster_bytes_get(at, 4) != SAVED_MAGIC) {
        return false;
    }
    saved_state saved = {
        .run = muster_bytes_get(at + 4, 8),
        .plan = (uint32_t)muster_bytes_get(at + 20, 4),
        .lives = (uint32_t)muster_bytes_get(at + 24, 4),
        .workers = (uint32_t)muster_bytes_get(at + 28, 4),
        .parts = (uint32_t)muster_bytes_get(at + 32, 4),
        .shards = (uint32_t)muster_bytes_get(at + 36, 4),
        .shuffle_bytes = (size_t)muster_bytes_get(at + 40, 4),
        .classes_bytes = (size_t)muster_bytes_get(at + 44, 4),
    };
    saved.map = at + HEAD_BYTES;
    size_t left = size - HEAD_BYTES;
    if (left / 4 < saved.workers || saved.run == 0 || saved.plan == 0) {
        return false;
    }
    left -= 4 * (size_t)saved.workers;
    saved.received = saved.map + 4 * (size_t)saved.workers;
    if (left / 8 < saved.shards) {
        return false;
    }
    left -= 8 * (size_t)saved.shards;
    saved.shuffle = saved.received + 8 * (size_t)saved.shards;
    saved.classes = saved.shuffle + saved.shuffle_bytes;
    size_t states = saved.shuffle_bytes + saved.classes_bytes;
    if (left == states + 4 * (size_t)saved.parts) {
        saved.sizes = saved.classes + saved.classes_bytes;
    }
    *saved_out = saved;
    return left == states || saved.sizes != NULL;
}

static bool append(muster_vec *bytes, uint64_t value, size_t width)
{
    uint8_t number[8];
    muster_bytes_put(number, value, width);
    return muster_vec_append(bytes, number, width);
}

static bool append_sizes(const muster_assignment *plan, muster_vec *bytes)
{
    bool ok = true;
    for (uint32_t part = 0; ok && part < plan->info.parts; part++) {
        ok = append(bytes,
                    plan->first_shard[part + 1] - plan->first_shard[part], 4);
    }
    return ok;
}

static bool write_saved(const muster_coordinator *c, muster_vec *bytes)
{
    size_t start = bytes->count;
    const muster_assignment *plan = &c->plan;
    uint32_t parts = plan->info.parts;
    bool ok = append(bytes, SAVED_MAGIC, 4) && append(bytes, c->opts.run, 8) &&
              append(bytes, c->step, 8) && append(bytes, c->plan.number, 4) &&
              append(bytes, c->member.incarnation, 4) &&
              append(bytes, c->worker_count, 4) && append(bytes, parts, 4) &&
              append(bytes, plan->shards, 4) &&
              append(bytes, 0, 8); // the lengths, known below
    for (uint32_t id = 0; ok && id < c->worker_count; id++) {
        ok = append(bytes, c->plan.slot_of[id], 4);
    }
    for (uint32_t part = 0; part < parts; part++) {
        for (uint32_t shard = plan->first_shard[part];
             ok && shard < plan->first_shard[part + 1]; shard++) {
            ok = append(bytes, c->past.parts_received[part], 8);
        }
    }
    size_t before = bytes->count;
    ok = ok && (c->shuffling.policy == NULL ||
                muster_shuffle_save(c->shuffling.policy, bytes));
    size_t middle = bytes->count;
    ok = ok && muster_classes_save(muster_watch_classes(c->watch), bytes);
    if (ok) {
        uint8_t *head = (uint8_t *)bytes->data + start;
        muster_bytes_put(head + 40, middle - before, 4);
        muster_bytes_put(head + 44, bytes->count - middle, 4);
    }
    return ok && (c->balance == NULL || append_sizes(plan, bytes));
}

static muster_status coordinator_save(const void *state, muster_vec *bytes_out)
{
    return write_saved(state, bytes_out) ? MUSTER_OK : MUSTER_ERR_NO_MEMORY;
}

muster_blob *muster_coordinator_saved(const muster_coordinator *c)
{
    muster_vec bytes = muster_vec_make(1);
    muster_blob *blob = NULL;
    if (write_saved(c, &bytes)) {
        blob = muster_blob_create(bytes.count);
    }
    if (blob != NULL) {
        memcpy(blob->data, bytes.data, bytes.count);
    }
    muster_vec_fini(&bytes);
    return blob;
}

static void coordinator_free(void *state)
{
    muster_coordinator *c = state;
    if (c == NULL) {
        return;
    }
    for (uint32_t id = 0; c->workers != NULL && id < c->worker_count; id++) {
        muster_vec_fini(&c->workers[id].held);
        muster_begun_forget(c, id);
    }
    for (uint32_t i = 0; i < MUSTER_SHARD_JOBS; i++) {
        muster_vec_fini(&c->joining.jobs[i].takers);
    }
    muster_mem_free(c->workers);
    muster_job_list_unref(c->open.messages);
    muster_job_list_unref(c->open.begun);
    muster_decoding_unref(c->open.decoding);
    muster_verify_fini(c);
    muster_replan_fini(c);
    muster_reorder_fini(c);
    muster_mem_free(c->shuffling.seen);
    muster_mem_free(c->past.parts_received);
    muster_mem_free(c->past.counted);
    muster_arrivals_fini(&c->past.arrivals);
    muster_shuffle_free(c->shuffling.policy);
    muster_watch_free(c->watch);
    muster_code_progress_free(c->open.progress);
    muster_code_progress_free(c->open.reach);
    muster_staging_fini(&c->staging);
    muster_code_cache_free(c->decodings);
    muster_assignment_fini(&c->plan);
    muster_assignment_fini(&c->next);
    muster_coding_fini(&c->recoding.other);
    muster_balance_free(c->balance);
    muster_async_fini(c);
    muster_gossip_lead_fini(c);
    muster_mem_free(c->recoding.by_shard);
    muster_member_fini(&c->member);
    muster_blob_unref(c->model);
    muster_mem_free(c);
}

static void coordinator_prefetch(const void *state, muster_role_peer peer,
                                 unsigned ahead)
{
    const muster_coordinator *c = state;
    if (ahead > 1) {
        muster_member_prefetch_link(&c->member, peer);
        return;
    }
    uint32_t id = muster_member_number_of(&c->member, peer);
    if (id < c->worker_count) {
        __builtin_prefetch(&c->workers[id], 1);
        muster_watch_prefetch(c->watch, id);
        __builtin_prefetch(&c->plan.slot_of[id]);
        __builtin_prefetch(muster_step_message(c, id, 0), 1);
    }
}

static const muster_role_ops coordinator_ops = {
    .name = "coordinator",
    .step = muster_coordinator_step,
    .save = coordinator_save,
    .free = coordinator_free,
    .prefetch = coordinator_prefetch,
};

static uint32_t shards_of(const muster_coordinator_opts *opts)
{
    return opts->shards != 0 ? opts->shards
                             : muster_code_numbers(opts->code)->parts;
}

static const char *wrong_with_saved(const muster_coordinator_opts *opts)
{
    saved_state saved;
    muster_code_info info = *muster_code_numbers(opts->code);
    if (!read_saved(opts->saved, opts->saved_bytes, &saved)) {
        return "the saved state is damaged";
    }
    if (opts->run != 0 && saved.run != opts->run) {
        return "the saved state is not of this run";
    }
    if (saved.workers != info.workers ||
        (saved.parts != info.parts && opts->change_code == NULL &&
         !opts->replan)) {
        return "the saved state is of another code";
    }
    if (saved.shards != shards_of(opts)) {
        return "the saved state is of data cut into other shards";
    }
    return NULL;
}

static muster_status check_opts(const muster_coordinator_opts *opts,
                                muster_error *error)
{
    const char *wrong = NULL;
    if (opts->struct_size != sizeof(*opts) || opts->code == NULL ||
        opts->model == NULL || opts->message_dim == 0) {
        wrong = "code, model and message_dim must be set";
    } else if (opts->run == 0 && opts->saved == NULL) {
        wrong = "run 0 means none";
    } else if (opts->heartbeat_ns < MUSTER_NS_PER_MS || opts->stall_ns <= 0 ||
               opts->grace_ns < 0 || opts->patience_ns <= 0 ||
               opts->deadline_ns < 0) {
        wrong = "times must be positive";
    } else if (opts->change_code != NULL &&
               muster_code_numbers(opts->change_code)->workers !=
                   muster_code_numbers(opts->code)->workers) {
        wrong = "the code to change to must have as many workers";
    } else if (opts->saved != NULL) {
        wrong = wrong_with_saved(opts);
    }
    if (wrong != NULL) {
        return muster_error_set(error, MUSTER_ERR_INVALID, "coordinator: %s",
                                wrong);
    }
    return MUSTER_OK;
}

/* False when out of memory. */
static bool restore_counts(muster_coordinator *c, const saved_state *saved)
{
    uint64_t *by_shard = muster_mem_array(saved->shards, sizeof(*by_shard));
    if (by_shard == NULL) {
        return false;
    }
    for (uint32_t shard = 0; shard < saved->shards; shard++) {
        by_shard[shard] =
            muster_bytes_get(saved->received + 8 * (size_t)shard, 8);
    }
    muster_coding_counts_to_parts(&c->plan, by_shard, c->past.parts_received);
    muster_mem_free(by_shard);
    return true;
}

/* The sizes that speeds had led to; false: they are none. */
static bool restore_sizes(muster_coordinator *c, const saved_state *saved)
{
    uint32_t *first_shard = c->plan.first_shard;
    if (c->balance == NULL || saved->sizes == NULL ||
        saved->parts != c->plan.info.parts) {
        return true;
    }
    uint64_t end = 0;
    for (uint32_t part = 0; part < saved->parts; part++) {
        uint64_t size = muster_bytes_get(saved->sizes + 4 * (size_t)part, 4);
        end += size;
        if (size == 0 || end > saved->shards) {
            return false;
        }
        first_shard[part + 1] = (uint32_t)end;
    }
    muster_balance_resume(c->balance);
    return end == saved->shards;
}

/* The map and the counters as they were; false: not a map. */
static bool restore(muster_coordinator *c, const saved_state *saved)
{
    muster_assignment *plan = &c->plan;
    memset(plan->worker_of, 0xff, c->worker_count * sizeof(*plan->worker_of));
    for (uint32_t id = 0; id < c->worker_count; id++) {
        uint64_t slot = muster_bytes_get(saved->map + 4 * (size_t)id, 4);
        if (slot >= c->worker_count || plan->worker_of[slot] != UINT32_MAX) {
            return false;
        }
        plan->slot_of[id] = (uint32_t)slot;
        plan->worker_of[slot] = id;
    }
    if (!restore_sizes(c, saved) || !restore_counts(c, saved)) {
        return false;
    }
    // States of another policy or code start afresh.
    if (c->shuffling.policy != NULL && saved->shuffle_bytes > 0 &&
        saved->parts == plan->info.parts &&
        muster_shuffle_load(c->shuffling.policy, saved->shuffle,
                            saved->shuffle_bytes) != MUSTER_OK) {
        return false;
    }
    return muster_classes_load(muster_watch_classes(c->watch), saved->classes,
                               saved->classes_bytes) == MUSTER_OK;
}

static muster_status build_tables(muster_coordinator *c)
{
    c->workers = muster_mem_lines(c->worker_count, sizeof(*c->workers));
    c->shuffling.seen =
        muster_mem_array(c->worker_count, sizeof(*c->shuffling.seen));
    c->joining.first = c->joining.last = MUSTER_ID_ANY;
    for (uint32_t i = 0; i < MUSTER_SHARD_JOBS; i++) {
        c->joining.jobs[i].shard = MUSTER_ID_ANY;
        c->joining.jobs[i].takers = muster_vec_make(sizeof(uint32_t));
    }
    for (uint32_t id = 0; c->workers != NULL && id < c->worker_count; id++) {
        c->workers[id].held = muster_vec_make(sizeof(uint32_t));
    }
    if (c->workers == NULL || c->shuffling.seen == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    muster_status status =
        muster_arrivals_init(&c->past.arrivals, c->worker_count);
    return status == MUSTER_OK ? muster_watch_create(c->worker_count, &c->watch)
                               : status;
}

/* The last incarnation that an earlier life may have given out. A run that is
 * restarted 65,000 times begins again from the first. */
static uint32_t last_incarnation(const saved_state *saved)
{
    bool fresh = saved->lives > UINT32_MAX - LIVES_BLOCK;
    return fresh ? 0 : (saved->lives / LIVES_BLOCK + 1) * LIVES_BLOCK;
}

/* The shards of each part as a placement says. */
static void take_parts(muster_assignment *plan, const uint32_t *first_shard)
{
    if (plan->first_shard != NULL && first_shard != NULL) {
        memcpy(plan->first_shard, first_shard,
               ((size_t)plan->info.parts + 1) * sizeof(*first_shard));
    }
}

/* What is needed to size parts anew. */
static muster_status build_balance(muster_coordinator *c, muster_coding *coding)
{
    muster_status status = muster_assignment_init(&coding->next, c->opts.code,
                                                  shards_of(&c->opts), 0);
    return status == MUSTER_OK
               ? muster_balance_create(c->worker_count, shards_of(&c->opts),
                                       &c->balance)
               : status;
}

/* Whatever is made for the code, and for the one to change to. */
static muster_status build_coding(muster_coordinator *c,
                                  const saved_state *saved, muster_error *error)
{
    muster_coding coding;
    muster_status status = muster_coding_init(
        &coding, &c->layer, shards_of(&c->opts), &c->opts, error);
    if (status == MUSTER_OK && c->opts.balance) {
        status = build_balance(c, &coding);
    }
    if (status == MUSTER_OK) {
        take_parts(&coding.plan, c->opts.first_shard);
        take_parts(&coding.next, c->opts.first_shard);
        muster_coding_use(c, &coding);
        c->plan.number = saved->plan;
        status = muster_recode_init(c, error);
    }
    if (status == MUSTER_OK) {
        status = muster_replan_init(c);
    }
    if (status == MUSTER_OK) {
        status = muster_reorder_init(c);
    }
    if (status == MUSTER_OK) {
        status = muster_async_init(c);
    }
    if (status == MUSTER_OK) {
        status = muster_gossip_lead_init(c);
    }
    muster_coding_fini(&coding); // nothing, or what could be made
    return status;
}

static muster_status build(muster_coordinator *c, const saved_state *saved,
                           const muster_coordinator_place *place,
                           muster_error *error)
{
    const muster_coordinator_opts *opts = &c->opts;
    muster_member_opts member = {
        .leads = true,
        .mesh = opts->gossip,
        .apart = opts->gossip,
        .kind = opts->edges ? MUSTER_MEMBER_EDGE : MUSTER_MEMBER_WORKER,
        .stall_ns = opts->stall_ns,
        .size = c->worker_count,
        .first = place->first,
        .total = place->total,
        .run = opts->run,
        .heartbeat_ns = opts->heartbeat_ns,
        .setup = opts->setup,
        .incarnations =
            saved->map != NULL ? last_incarnation(saved) : place->lives};
    muster_status status = build_tables(c);
    if (status == MUSTER_OK) {
        status = muster_verify_init(c);
    }
    if (status == MUSTER_OK) {
        status = build_coding(c, saved, error);
    }
    if (status == MUSTER_OK) {
        status = muster_member_init(&c->member, &member);
    }
    if (status == MUSTER_OK && saved->map != NULL && !restore(c, saved)) {
        status = muster_error_set(error, MUSTER_ERR_INVALID,
                                  "the saved state is damaged");
    }
    return status;
}

/* A zeroed one with its options and its place. */
static muster_coordinator *start(const muster_coordinator_opts *opts,
                                 const muster_coordinator_place *place)
{
    muster_coordinator *c = muster_mem_array(1, sizeof(*c));
    if (c == NULL) {
        return NULL;
    }
    c->opts = *opts;
    c->layer = place->layer;
    c->edge = place->edge;
    c->jobs.ids = place->jobs;
    c->worker_count = muster_code_numbers(place->layer.code)->workers;
    c->model = muster_blob_ref(opts->model);
    c->step = opts->first_step;
    c->plan_first_step = c->step;
    return c;
}

/* `opts->code` is that of the layer. */
static muster_status create(const muster_coordinator_opts *opts,
                            const muster_coordinator_place *place,
                            muster_error *error_out, muster_role *role_out)
{
    saved_state saved = {.plan = 1};
    muster_status status = check_opts(opts, error_out);
    if (status != MUSTER_OK) {
        return status;
    }
    muster_coordinator *c = start(opts, place);
    if (c == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "no memory for the coordinator");
    }
    if (opts->saved != NULL &&
        read_saved(opts->saved, opts->saved_bytes, &saved)) {
        c->opts.run = saved.run;
    }
    muster_error why = {.status = MUSTER_OK};
    status = build(c, &saved, place, &why);
    if (status != MUSTER_OK) {
        coordinator_free(c);
        return muster_error_set(
            error_out, status, "%s",
            why.status == status ? why.text : muster_status_text(status));
    }
    c->opts.saved = NULL; // lent for create only, like the policy's name
    c->opts.shuffle = NULL;
    c->opts.first_shard = NULL;
    c->opts.rows_before = NULL;
    *role_out = (muster_role){&coordinator_ops, c};
    return MUSTER_OK;
}

muster_status muster_coordinator_create(const muster_coordinator_opts *opts,
                                        muster_error *error_out,
                                        muster_role *role_out)
{
    muster_coordinator_opts own = *opts;
    muster_coordinator_place place = {0};
    bool hier = opts->code != NULL && muster_code_is_hier(opts->code);
    if (opts->edges && (!hier || opts->change_code != NULL)) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "coordinator: edges need a hier code, which "
                                "only a plan changes");
    }
    if (opts->edges) {
        own.code = muster_hier_outer(opts->code);
        own.shards = opts->shards != 0 ? opts->shards
                                       : muster_code_numbers(opts->code)->parts;
    }
    place.layer = (muster_layer){.code = own.code,
                                 .terms = own.code,
                                 .hier = opts->edges ? opts->code : NULL};
    return create(&own, &place, error_out, role_out);
}

muster_status
muster_coordinator_create_below(const muster_coordinator_opts *opts,
                                const muster_coordinator_place *place,
                                muster_error *error_out, muster_role *role_out)
{
    muster_status status = create(opts, place, error_out, role_out);
    if (status == MUSTER_OK) {
        muster_coordinator *c = role_out->state;
        c->end.saved = true; // there is nothing to save
    }
    return status;
}
