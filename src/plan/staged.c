/*
 * staged.c -- see staged.h.
 *
 * Three things happen: a stage is done, a message has passed the NIC, all are
 * asked. The heap has an entry for each stage begun; that of a stage which was
 * left is stale, for its worker's end is another then.
 */
#include "plan/staged.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

#define NONE UINT32_MAX
/* Of the time passed, before all are asked: as the coordinator has it. */
#define ASK_SHARE 4

static uint64_t bit_of(uint32_t stage)
{
    return UINT64_C(1) << stage;
}

/* ---- what is made for a code --------------------------------------------- */

static uint32_t part_at(const muster_code *code, uint32_t answer)
{
    const uint32_t *parts = NULL;
    uint32_t count = 0;
    muster_status status =
        muster_code_answer_parts(code, answer, &parts, &count);
    return status == MUSTER_OK && count > 0 ? parts[0] : NONE;
}

/* Which answers have a part, part after part. */
static void list_holders(muster_staged *s)
{
    uint32_t answers = s->workers * s->stages;
    uint32_t *first = s->first_holder;
    for (uint32_t a = 0; a < answers; a++) {
        if (s->part_of[a] != NONE) {
            first[s->part_of[a] + 1]++;
        }
    }
    for (uint32_t part = 0; part < s->parts; part++) {
        first[part + 1] += first[part];
    }
    uint32_t all = first[s->parts];
    for (uint32_t a = answers; a-- > 0;) { // first[part + 1] is its end
        if (s->part_of[a] != NONE) {
            s->holders[--first[s->part_of[a] + 1]] = a;
        }
    }
    // Each end has become its own beginning: move them down.
    memmove(first, first + 1, s->parts * sizeof(*first));
    first[s->parts] = all;
}

static bool allocate(muster_staged *s)
{
    size_t n = s->workers;
    size_t answers = n * s->stages;
    s->part_of = muster_mem_array(answers, sizeof(uint32_t));
    s->first_holder = muster_mem_array((size_t)s->parts + 1, sizeof(uint32_t));
    s->holders = muster_mem_array(answers, sizeof(uint32_t));
    s->heap = muster_mem_array(answers, sizeof(*s->heap));
    s->ends = muster_mem_array(n, sizeof(float));
    s->running = muster_mem_array(n, sizeof(uint32_t));
    s->done = muster_mem_array(n, sizeof(uint64_t));
    s->kept = muster_mem_array(n, sizeof(uint64_t));
    s->come = muster_mem_array(s->parts, sizeof(bool));
    s->message_part = muster_mem_array(answers, sizeof(uint32_t));
    s->message_end = muster_mem_array(answers, sizeof(double));
    return s->part_of != NULL && s->first_holder != NULL &&
           s->holders != NULL && s->heap != NULL && s->ends != NULL &&
           s->running != NULL && s->done != NULL && s->kept != NULL &&
           s->come != NULL && s->message_part != NULL && s->message_end != NULL;
}

bool muster_staged_init(muster_staged *s, const muster_code *code)
{
    muster_code_info info = MUSTER_CODE_INFO_INIT;
    muster_status status = muster_code_describe(code, &info);
    MUSTER_ASSERT(status == MUSTER_OK && info.stages <= 64);
    *s = (muster_staged){.workers = info.workers,
                         .parts = info.parts,
                         .stages = info.stages,
                         .own = info.own_stages};
    if (!allocate(s)) {
        return false;
    }
    for (uint32_t a = 0; a < s->workers * s->stages; a++) {
        s->part_of[a] = part_at(code, a);
    }
    list_holders(s);
    return true;
}

void muster_staged_fini(muster_staged *s)
{
    muster_mem_free(s->part_of);
    muster_mem_free(s->first_holder);
    muster_mem_free(s->holders);
    muster_mem_free(s->heap);
    muster_mem_free(s->ends);
    muster_mem_free(s->running);
    muster_mem_free(s->done);
    muster_mem_free(s->kept);
    muster_mem_free(s->come);
    muster_mem_free(s->message_part);
    muster_mem_free(s->message_end);
    *s = (muster_staged){0};
}

double muster_staged_storage(const muster_staged *s, uint32_t worker)
{
    uint32_t held = 0;
    for (uint32_t t = 0; t < s->stages; t++) {
        held += s->part_of[worker * s->stages + t] != NONE;
    }
    return (double)held / s->parts;
}

/* ---- the stages under way ------------------------------------------------ */

static void push(muster_staged *s, muster_staged_end end)
{
    uint32_t at = s->heap_count++;
    for (; at > 0 && s->heap[(at - 1) / 2].time > end.time; at = (at - 1) / 2) {
        s->heap[at] = s->heap[(at - 1) / 2];
    }
    s->heap[at] = end;
}

static void pop(muster_staged *s)
{
    muster_staged_end last = s->heap[--s->heap_count];
    uint32_t at = 0;
    for (uint32_t child = 1; child < s->heap_count; child = 2 * at + 1) {
        if (child + 1 < s->heap_count &&
            s->heap[child + 1].time < s->heap[child].time) {
            child++;
        }
        if (last.time <= s->heap[child].time) {
            break;
        }
        s->heap[at] = s->heap[child];
        at = child;
    }
    s->heap[at] = last;
}

/* The worker whose stage ends next; NONE: all are idle. */
static uint32_t next_done(muster_staged *s)
{
    while (s->heap_count > 0 && s->heap[0].time != s->ends[s->heap[0].worker]) {
        pop(s);
    }
    return s->heap_count > 0 ? s->heap[0].worker : NONE;
}

/* Begin with the worker's next stage, if it has one to compute. */
static void begin_next(muster_staged *s, uint32_t worker, float now)
{
    const uint32_t *parts = s->part_of + (size_t)worker * s->stages;
    s->ends[worker] = INFINITY;
    s->running[worker] = NONE;
    uint64_t all = UINT64_MAX >> (64 - s->stages);
    for (uint64_t left = all & ~s->done[worker]; left != 0; left &= left - 1) {
        uint32_t t = (uint32_t)__builtin_ctzll(left);
        if (parts[t] != NONE && (!s->asked || !s->come[parts[t]])) {
            s->running[worker] = t;
            s->ends[worker] = now + s->paces[worker].each;
            push(s, (muster_staged_end){s->ends[worker], worker});
            return;
        }
    }
}

static void leave_stage(muster_staged *s, uint32_t worker, float now)
{
    s->done[worker] |= bit_of(s->running[worker]);
    begin_next(s, worker, now);
}

/* ---- messages ------------------------------------------------------------ */

/* A part has come: whoever computes it leaves it. */
static void arrive(muster_staged *s, uint32_t part, double now)
{
    if (s->come[part]) {
        return;
    }
    s->come[part] = true;
    s->missing--;
    if (!s->asked && isinf(s->ask_at) && 2 * s->missing <= s->parts) {
        s->ask_at = now + now / ASK_SHARE;
    }
    for (uint32_t i = s->first_holder[part];
         s->asked && i < s->first_holder[part + 1]; i++) {
        uint32_t worker = s->holders[i] / s->stages;
        if (s->running[worker] == s->holders[i] % s->stages) {
            leave_stage(s, worker, (float)now);
        }
    }
}

static double next_passed(const muster_staged *s)
{
    uint32_t passing = s->next_message - s->first_message;
    return passing > 0
               ? s->nic_now +
                     (s->message_end[s->first_message] - s->served) * passing
               : (double)INFINITY;
}

static void send(muster_staged *s, uint32_t part, double now)
{
    if (s->alone <= 0) {
        arrive(s, part, now);
        return;
    }
    uint32_t passing = s->next_message - s->first_message;
    s->served += passing > 0 ? (now - s->nic_now) / passing : 0;
    s->nic_now = now;
    s->message_part[s->next_message] = part;
    s->message_end[s->next_message++] = s->served + s->alone;
}

static void pass_message(muster_staged *s, double now)
{
    s->served = s->message_end[s->first_message];
    s->nic_now = now;
    arrive(s, s->message_part[s->first_message++], now);
}

/* ---- a step -------------------------------------------------------------- */

static void end_stage(muster_staged *s, uint32_t worker, double now)
{
    uint32_t stage = s->running[worker];
    uint32_t part = s->part_of[worker * s->stages + stage];
    s->done[worker] |= bit_of(stage);
    if (s->asked || stage < s->own) {
        s->running[worker] = NONE; // it is not left when its part comes
        send(s, part, now);
    } else {
        s->kept[worker] |= bit_of(stage);
    }
    begin_next(s, worker, (float)now);
}

static void ask(muster_staged *s, double now)
{
    s->asked = true;
    s->ask_at = INFINITY;
    for (uint32_t worker = 0; worker < s->workers; worker++) {
        const uint32_t *parts = s->part_of + (size_t)worker * s->stages;
        for (uint64_t kept = s->kept[worker]; kept != 0; kept &= kept - 1) {
            uint32_t part = parts[__builtin_ctzll(kept)];
            if (!s->come[part]) {
                send(s, part, now);
            }
        }
        if (s->running[worker] != NONE && s->come[parts[s->running[worker]]]) {
            leave_stage(s, worker, (float)now);
        }
    }
}

static void begin_step(muster_staged *s, const muster_staged_pace *paces,
                       double alone_s)
{
    memset(s->come, 0, s->parts * sizeof(*s->come));
    memset(s->done, 0, s->workers * sizeof(*s->done));
    memset(s->kept, 0, s->workers * sizeof(*s->kept));
    s->paces = paces;
    s->heap_count = 0;
    s->missing = s->parts;
    s->asked = false;
    s->ask_at = INFINITY;
    s->alone = alone_s;
    s->nic_now = 0;
    s->served = 0;
    s->first_message = 0;
    s->next_message = 0;
    for (uint32_t worker = 0; worker < s->workers; worker++) {
        begin_next(s, worker, paces[worker].begin);
    }
}

double muster_staged_step_s(muster_staged *s, const muster_staged_pace *paces,
                            double alone_s)
{
    double now = 0;
    begin_step(s, paces, alone_s);
    while (s->missing > 0) {
        uint32_t worker = next_done(s);
        double done = worker != NONE ? (double)s->heap[0].time : INFINITY;
        double passed = next_passed(s);
        now = fmin(fmin(done, passed), s->ask_at);
        MUSTER_ASSERT(isfinite(now));
        if (passed <= now) {
            pass_message(s, now);
        } else if (s->ask_at <= now) {
            ask(s, now);
        } else {
            end_stage(s, worker, now);
        }
    }
    return now;
}
