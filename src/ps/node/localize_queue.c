/*
 * localize_queue.c -- queue and intents from a worker's ring into the protocol.
 *
 * The ring's words: table and flags, count, (intents: start and end, lower word
 * first,) keys. The worker's clock is read relaxed: it may be a little old, and
 * an intent that begins a little late costs a remote access.
 */
#include "ps/node/localize_queue.h"

#include "base/clock.h"
#include "ps/node/inside.h"

enum { KEYS_MAX = 1024, INTENT_WORDS = 6 };

/* ---- the worker's end ---------------------------------------------------- */

bool muster_localize_queue_put(muster_localize_queue *queue,
                               const uint32_t *head_words, uint32_t heads,
                               const uint32_t *keys)
{
    uint32_t count = head_words[1];
    uint64_t head = atomic_load_explicit(&queue->head, memory_order_relaxed);
    uint64_t tail = atomic_load_explicit(&queue->tail, memory_order_acquire);
    if (head - tail + count + heads > MUSTER_LOCALIZE_QUEUE_WORDS) {
        return false;
    }
    for (uint32_t i = 0; i < heads; i++) {
        queue->words[head++ % MUSTER_LOCALIZE_QUEUE_WORDS] = head_words[i];
    }
    for (uint32_t i = 0; i < count; i++) {
        queue->words[head++ % MUSTER_LOCALIZE_QUEUE_WORDS] = keys[i];
    }
    // Sequentially consistent with the announced sleep of who drives the mesh.
    atomic_store(&queue->head, head);
    return true;
}

muster_status muster_ps_intent(muster_ps_worker *worker, uint32_t table,
                               const uint32_t *keys, size_t count,
                               uint64_t start, uint64_t end)
{
    if (muster_worker_check_keys(worker, table, keys, count) == NULL ||
        end <= start) {
        return MUSTER_ERR_INVALID;
    }
    if (worker->ps->mesh == NULL) {
        return MUSTER_OK;
    }
    muster_localize_queue *queue = worker->queue;
    bool kept = true;
    for (size_t done = 0; done < count && kept;) {
        size_t left = count - done;
        uint32_t some = left < KEYS_MAX ? (uint32_t)left : KEYS_MAX;
        uint32_t head[INTENT_WORDS] = {table | MUSTER_LOCALIZE_INTENT,
                                       some,
                                       (uint32_t)start,
                                       (uint32_t)(start >> 32),
                                       (uint32_t)end,
                                       (uint32_t)(end >> 32)};
        uint64_t intended = atomic_fetch_add(&queue->intended, some) + some;
        kept =
            intended <= MUSTER_PS_INTENT_KEYS_MAX &&
            muster_localize_queue_put(queue, head, INTENT_WORDS, keys + done);
        if (!kept) {
            atomic_fetch_sub(&queue->intended, some);
        }
        done += some;
    }
    muster_mesh_wake(worker->ps->mesh);
    return kept ? MUSTER_OK : MUSTER_ERR_AGAIN;
}

void muster_ps_clock_advance(muster_ps_worker *worker)
{
    if (worker == NULL) {
        return;
    }
    worker->clock++;
    if (worker->queue != NULL) {
        atomic_store_explicit(&worker->queue->clock, worker->clock,
                              memory_order_relaxed);
    }
}

uint64_t muster_ps_clock(const muster_ps_worker *worker)
{
    return worker != NULL ? worker->clock : 0;
}

/* ---- the mesh's end ------------------------------------------------------ */

static void step(const muster_localize_reader *host, muster_status status)
{
    host->stepped(host->context, status);
}

static uint32_t next_word(const muster_localize_queue *queue, uint64_t *tail)
{
    return queue->words[(*tail)++ % MUSTER_LOCALIZE_QUEUE_WORDS];
}

static uint64_t next_clock(const muster_localize_queue *queue, uint64_t *tail)
{
    uint64_t low = next_word(queue, tail);
    return low | (uint64_t)next_word(queue, tail) << 32;
}

/* One wish, from the tail on. */
static void read_one(const muster_localize_reader *host,
                     muster_ps_worker *worker, uint64_t *tail)
{
    uint32_t keys[KEYS_MAX];
    muster_localize_queue *queue = worker->queue;
    uint32_t flags = next_word(queue, tail);
    muster_intent intent = {
        .table = flags & ~(MUSTER_LOCALIZE_REPLICA | MUSTER_LOCALIZE_INTENT),
        .count = next_word(queue, tail),
        .keys = keys};
    if (flags & MUSTER_LOCALIZE_INTENT) {
        intent.start = next_clock(queue, tail);
        intent.end = next_clock(queue, tail);
    }
    for (uint32_t i = 0; i < intent.count; i++) {
        keys[i] = next_word(queue, tail);
    }
    if (flags & MUSTER_LOCALIZE_INTENT) {
        if (muster_intents_add(worker->intents, &intent) != MUSTER_OK) {
            atomic_fetch_sub(&queue->intended, intent.count); // only a hint
        }
    } else if (host->node != NULL) {
        muster_localize_request wish = {
            .table = intent.table,
            .keys = keys,
            .count = intent.count,
            .copy = (flags & MUSTER_LOCALIZE_REPLICA) != 0};
        step(host, muster_protocol_localize(host->node, muster_clock_ns(),
                                            &wish, host->out));
    }
}

bool muster_localize_queue_read(const muster_localize_reader *host,
                                muster_ps_worker *worker)
{
    muster_localize_queue *queue = worker->queue;
    uint64_t tail = atomic_load_explicit(&queue->tail, memory_order_relaxed);
    uint64_t head = atomic_load_explicit(&queue->head, memory_order_acquire);
    bool any = tail != head;
    while (tail != head) {
        read_one(host, worker, &tail);
    }
    atomic_store_explicit(&queue->tail, tail, memory_order_release);
    return any;
}

static void change(const muster_localize_reader *host,
                   const muster_intent *intent, bool begins)
{
    if (host->node != NULL) {
        muster_localize_request wish = {.table = intent->table,
                                        .keys = intent->keys,
                                        .count = intent->count};
        step(host, muster_protocol_intend(host->node, muster_clock_ns(), &wish,
                                          begins, host->out));
    }
}

bool muster_localize_run_intents(const muster_localize_reader *host,
                                 muster_ps_worker *worker, bool round)
{
    uint64_t clock =
        atomic_load_explicit(&worker->queue->clock, memory_order_relaxed);
    muster_intent due;
    bool begins;
    if (round) {
        muster_intents_round(worker->intents, clock);
    }
    while (muster_intents_next(worker->intents, clock, &due, &begins)) {
        change(host, &due, begins);
        if (!begins) {
            atomic_fetch_sub(&worker->queue->intended, due.count);
        }
    }
    return muster_intents_count(worker->intents) > 0;
}

void muster_localize_end_intents(const muster_localize_reader *host,
                                 muster_intents *intents)
{
    muster_intent ended;
    while (muster_intents_abandon(intents, &ended)) {
        change(host, &ended, false);
    }
    muster_intents_free(intents);
}

void muster_localize_set(const muster_localize_reader *host,
                         const muster_keyset *set)
{
    const muster_keyrange *ranges = set->ranges.data;
    uint32_t keys[KEYS_MAX];
    for (size_t i = 0; i < set->ranges.count; i++) {
        for (uint64_t key = ranges[i].first; key <= ranges[i].last;) {
            uint32_t count = 0;
            while (count < KEYS_MAX && key <= ranges[i].last) {
                keys[count++] = (uint32_t)key++;
            }
            muster_localize_request wish = {.table = ranges[i].table,
                                            .keys = keys,
                                            .count = count,
                                            .copy = true};
            step(host, muster_protocol_localize(host->node, muster_clock_ns(),
                                                &wish, host->out));
        }
    }
}
