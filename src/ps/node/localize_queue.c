/*
 * localize_queue.c -- localize requests and intents, from a worker's queue into
 * the protocol.
 *
 * The words of a request: table and flags, count, (intents: start and end,
 * lower word first,) keys. The driver reads the worker's clock relaxed: it may
 * be a little old. An intent that begins a little late costs a remote access.
 */
#include "ps/node/localize_queue.h"

#include "base/assert.h"
#include "base/clock.h"
#include "ps/node/inside.h"

enum { KEYS_MAX = 1024, INTENT_WORDS = 6 }; // of one request

/* ---- the worker's end ---------------------------------------------------- */

bool muster_localize_queue_put(muster_localize_queue *queue,
                               const uint32_t *header, uint32_t header_words,
                               const uint32_t *keys)
{
    uint32_t count = header[1];
    uint64_t head = atomic_load_explicit(&queue->head, memory_order_relaxed);
    uint64_t tail = atomic_load_explicit(&queue->tail, memory_order_acquire);
    MUSTER_ASSERT(count <= KEYS_MAX &&
                  head - tail <= MUSTER_LOCALIZE_QUEUE_WORDS);
    if (head - tail + count + header_words > MUSTER_LOCALIZE_QUEUE_WORDS) {
        return false;
    }
    for (uint32_t i = 0; i < header_words; i++) {
        queue->words[head++ % MUSTER_LOCALIZE_QUEUE_WORDS] = header[i];
    }
    for (uint32_t i = 0; i < count; i++) {
        queue->words[head++ % MUSTER_LOCALIZE_QUEUE_WORDS] = keys[i];
    }
    // Sequentially consistent with the driver's `asleep` (drive.c, 2).
    atomic_store(&queue->head, head);
    return true;
}

/* One request of an intent, of KEYS_MAX keys at most. */
static bool put_intent(muster_localize_queue *queue,
                       const muster_intent *intent)
{
    uint32_t header[INTENT_WORDS] = {intent->table | MUSTER_LOCALIZE_INTENT,
                                     intent->count,
                                     (uint32_t)intent->start,
                                     (uint32_t)(intent->start >> 32),
                                     (uint32_t)intent->end,
                                     (uint32_t)(intent->end >> 32)};
    uint64_t intended =
        atomic_fetch_add(&queue->intended, intent->count) + intent->count;
    bool kept =
        intended <= MUSTER_PS_INTENT_KEYS_MAX &&
        muster_localize_queue_put(queue, header, INTENT_WORDS, intent->keys);
    if (!kept) {
        atomic_fetch_sub(&queue->intended, intent->count);
    }
    return kept;
}

muster_status muster_ps_intent(muster_ps_worker *worker, uint32_t table,
                               const uint32_t *keys, size_t count,
                               uint64_t start, uint64_t end)
{
    if (muster_worker_check_keys(worker, table, keys, count) == NULL) {
        return muster_worker_refuse_keys(worker, table, keys, count);
    }
    if (end <= start) {
        return muster_worker_refuse(worker, MUSTER_ERR_INVALID,
                                    "the intent must end after it starts");
    }
    if (worker->ps->mesh == NULL) {
        return MUSTER_OK;
    }
    bool kept = true;
    for (size_t done = 0; done < count && kept;) {
        size_t left = count - done;
        muster_intent part = {.table = table,
                              .keys = keys + done,
                              .count =
                                  left < KEYS_MAX ? (uint32_t)left : KEYS_MAX,
                              .start = start,
                              .end = end};
        kept = put_intent(worker->queue, &part);
        done += part.count;
    }
    muster_mesh_wake(worker->ps->mesh);
    return kept ? MUSTER_OK
                : muster_worker_refuse(
                      worker, MUSTER_ERR_AGAIN,
                      "%u keys are intended already, or the queue is full: "
                      "let the clock advance, or intend later",
                      MUSTER_PS_INTENT_KEYS_MAX);
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

/* ---- the driver's end ---------------------------------------------------- */

static void apply_step(const muster_localize_reader *reader,
                       muster_status status)
{
    reader->apply_step(reader->context, status);
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

/* One request, from the tail on. */
static void read_one(const muster_localize_reader *reader,
                     muster_ps_worker *worker, uint64_t *tail)
{
    uint32_t keys[KEYS_MAX];
    muster_localize_queue *queue = worker->queue;
    uint32_t flags = next_word(queue, tail);
    muster_intent intent = {.table = flags & ~MUSTER_LOCALIZE_FLAGS,
                            .count = next_word(queue, tail),
                            .keys = keys};
    MUSTER_ASSERT(intent.count <= KEYS_MAX);
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
    } else if (reader->protocol != NULL && (flags & MUSTER_LOCALIZE_SYNC)) {
        muster_protocol_ask_sync(reader->protocol, muster_clock_ns(),
                                 muster_rowref_make(intent.table, keys[0]),
                                 (flags & MUSTER_LOCALIZE_URGENT) != 0);
    } else if (reader->protocol != NULL) {
        muster_localize_request request = {
            .table = intent.table,
            .keys = keys,
            .count = intent.count,
            .copy = (flags & MUSTER_LOCALIZE_REPLICA) != 0};
        apply_step(reader,
                   muster_protocol_localize(reader->protocol, muster_clock_ns(),
                                            &request, reader->out));
    }
}

bool muster_localize_queue_read(const muster_localize_reader *reader,
                                muster_ps_worker *worker)
{
    muster_localize_queue *queue = worker->queue;
    uint64_t tail = atomic_load_explicit(&queue->tail, memory_order_relaxed);
    uint64_t head = atomic_load_explicit(&queue->head, memory_order_acquire);
    bool any = tail != head;
    while (tail != head) {
        read_one(reader, worker, &tail);
    }
    atomic_store_explicit(&queue->tail, tail, memory_order_release);
    return any;
}

/* Tell the protocol that an intent begins or ends. */
static void step_intent(const muster_localize_reader *reader,
                        const muster_intent *intent, bool begins)
{
    if (reader->protocol != NULL) {
        muster_localize_request request = {.table = intent->table,
                                           .keys = intent->keys,
                                           .count = intent->count};
        apply_step(reader,
                   muster_protocol_intend(reader->protocol, muster_clock_ns(),
                                          &request, begins, reader->out));
    }
}

bool muster_localize_run_intents(const muster_localize_reader *reader,
                                 muster_ps_worker *worker, bool clocks_due)
{
    uint64_t clock =
        atomic_load_explicit(&worker->queue->clock, memory_order_relaxed);
    muster_intent due;
    bool begins;
    if (clocks_due) {
        muster_intents_round(worker->intents, clock);
    }
    while (muster_intents_next(worker->intents, clock, &due, &begins)) {
        step_intent(reader, &due, begins);
        if (!begins) {
            atomic_fetch_sub(&worker->queue->intended, due.count);
        }
    }
    return muster_intents_count(worker->intents) > 0;
}

void muster_localize_end_intents(const muster_localize_reader *reader,
                                 muster_intents *intents)
{
    muster_intent ended;
    while (muster_intents_abandon(intents, &ended)) {
        step_intent(reader, &ended, false);
    }
    muster_intents_free(intents);
}

void muster_localize_set(const muster_localize_reader *reader,
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
            muster_localize_request request = {.table = ranges[i].table,
                                               .keys = keys,
                                               .count = count,
                                               .copy = true};
            apply_step(reader, muster_protocol_localize(reader->protocol,
                                                        muster_clock_ns(),
                                                        &request, reader->out));
        }
    }
}
