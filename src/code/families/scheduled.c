/*
 * scheduled.c -- parts one by one, each sent when it is done (Amiri and Gunduz,
 * arXiv 1810.09992).
 *
 * The data is cut into a share for each worker. A worker computes its own share
 * first and then those of s others, in an order in which all first shares are
 * different; each result is an answer by itself. Decoding is a plain sum of
 * distinct parts, exact as soon as every part has come from somebody, so that
 * any s workers may be silent and whatever a slow one has done still counts.
 *
 *   order=cyclic     worker i has the shares i, i + 1, ..
 *   order=staircase  workers of even number go up, those of odd number down;
 *                    needs an even n, or shares near the end have too few
 *                    holders
 *   order=speeds     each copy of a share goes to the worker that would end
 *                    with it first; shares of slow workers are dealt out first
 *
 * A share may be cut into pieces, each with a message. Who helps out goes
 * through the pieces from the other end than its owner.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "code/families/families.h"
#include "code/speeds.h"

/* The stages of a worker that are missing travel as bits of a word. */
#define STAGES_MAX 64u

typedef enum share_order { CYCLIC, STAIRCASE, BY_SPEED } share_order;

/* Which shares a worker has, in its order. */
typedef struct schedule {
    uint32_t workers;
    uint32_t copies; // s + 1
    uint32_t pieces;
    uint32_t room;    // of a worker: shares
    uint32_t *shares; // [worker][room]
    uint32_t *counts; // by worker
} schedule;

static void schedule_fini(schedule *plan)
{
    muster_mem_free(plan->shares);
    muster_mem_free(plan->counts);
}

static void give(const schedule *plan, uint32_t worker, uint32_t share)
{
    plan->shares[(size_t)worker * plan->room + plan->counts[worker]++] = share;
}

static void deal_staircase(const schedule *plan, bool up_only)
{
    uint32_t n = plan->workers;
    for (uint32_t worker = 0; worker < n; worker++) {
        for (uint32_t t = 0; t < plan->copies; t++) {
            bool up = up_only || worker % 2 == 0;
            give(plan, worker, (up ? worker + t : worker + n - t) % n);
        }
    }
}

/* ---- by speed ------------------------------------------------------------ */

typedef struct paced_worker {
    double speed;
    uint32_t worker;
} paced_worker;

static int slowest_first(const void *one, const void *two)
{
    const paced_worker *a = one;
    const paced_worker *b = two;
    if (a->speed != b->speed) {
        return a->speed < b->speed ? -1 : 1;
    }
    return (a->worker > b->worker) - (a->worker < b->worker);
}

static bool has_share(const schedule *plan, uint32_t worker, uint32_t share)
{
    const uint32_t *shares = plan->shares + (size_t)worker * plan->room;
    bool has = false;
    for (uint32_t i = 0; i < plan->counts[worker]; i++) {
        has = has || shares[i] == share;
    }
    return has;
}

/* Who would end first with another copy of `share`: the first after its owner
 * of those that are equally fast. plan->workers: nobody has room. */
static uint32_t quickest(const schedule *plan, const double *speeds,
                         uint32_t share)
{
    uint32_t n = plan->workers;
    uint32_t best = n;
    double best_time = INFINITY;
    for (uint32_t i = 1; i < n; i++) {
        uint32_t worker = (share + i) % n;
        double speed = speeds != NULL ? speeds[worker] : 1.0;
        double time = (plan->counts[worker] + 1.0) / speed;
        bool is_first = best == n || time < best_time;
        if (plan->counts[worker] < plan->room && is_first &&
            !has_share(plan, worker, share)) {
            best = worker;
            best_time = time;
        }
    }
    return best;
}

static muster_status deal_by_speed(const schedule *plan, const double *speeds)
{
    uint32_t n = plan->workers;
    paced_worker *order = muster_mem_array(n, sizeof(*order));
    if (order == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < n; i++) {
        order[i] = (paced_worker){speeds != NULL ? speeds[i] : 1.0, i};
        give(plan, i, i);
    }
    qsort(order, n, sizeof(*order), slowest_first);
    muster_status status = MUSTER_OK;
    for (uint32_t t = 1; t < plan->copies; t++) {
        for (uint32_t i = 0; status == MUSTER_OK && i < n; i++) {
            uint32_t worker = quickest(plan, speeds, order[i].worker);
            if (worker == n) {
                status = MUSTER_ERR_UNSUPPORTED;
            } else {
                give(plan, worker, order[i].worker);
            }
        }
    }
    muster_mem_free(order);
    return status;
}

/* ---- building ------------------------------------------------------------ */

static muster_status read_word(const muster_code_spec *spec, const char *key,
                               const char *const *words, muster_error *error,
                               uint32_t *index_out)
{
    const char *value = muster_code_spec_option_get(spec, key);
    for (uint32_t i = 0; value != NULL && words[i] != NULL; i++) {
        if (strcmp(value, words[i]) == 0) {
            *index_out = i;
            return MUSTER_OK;
        }
    }
    if (value == NULL) {
        return MUSTER_OK;
    }
    bool three = words[2] != NULL;
    return muster_error_set(error, MUSTER_ERR_INVALID,
                            "scheduled: %s=%s; it is %s%s%s%s%s", key, value,
                            words[0], three ? ", " : " or ", words[1],
                            three ? " or " : "", three ? words[2] : "");
}

static muster_status read_options(muster_code *code,
                                  const muster_code_spec *spec,
                                  muster_error *error, share_order *order_out,
                                  schedule *plan)
{
    static const char *const orders[] = {"cyclic", "staircase", "speeds", NULL};
    static const char *const starts[] = {"now", "asked", NULL};
    uint32_t order = muster_code_speeds_differ(spec) ? BY_SPEED : CYCLIC;
    uint32_t start = UINT32_MAX;
    plan->workers = spec->workers;
    plan->copies = spec->stragglers + 1;
    plan->pieces = 1;
    muster_status status = read_word(spec, "order", orders, error, &order);
    if (status == MUSTER_OK) {
        status = read_word(spec, "start", starts, error, &start);
    }
    if (status == MUSTER_OK) {
        status = muster_code_spec_option_number(spec, "pieces", 1, STAGES_MAX,
                                                error, &plan->pieces);
    }
    code->start = start == 0   ? MUSTER_CODE_START_NOW
                  : start == 1 ? MUSTER_CODE_START_ASKED
                               : MUSTER_CODE_START_AUTO;
    *order_out = (share_order)order;
    if (order == BY_SPEED) {
        code->order = muster_code_speeds_differ(spec)
                          ? MUSTER_CODE_ORDER_SPEEDS
                          : MUSTER_CODE_ORDER_LEARNT;
    }
    return status;
}

static muster_status check(const muster_code_spec *spec, share_order order,
                           const schedule *plan, muster_error *error)
{
    if (plan->copies * plan->pieces > STAGES_MAX) {
        return muster_error_set(
            error, MUSTER_ERR_UNSUPPORTED,
            "scheduled: (s + 1) pieces = %u messages of a worker; %u at most",
            plan->copies * plan->pieces, STAGES_MAX);
    }
    if (order == STAIRCASE && spec->workers % 2 != 0 && plan->copies > 1) {
        return muster_error_set(error, MUSTER_ERR_UNSUPPORTED,
                                "scheduled: order=staircase needs an even "
                                "number of workers, not %u; use order=cyclic",
                                spec->workers);
    }
    if (order == BY_SPEED && spec->workers > MUSTER_CODE_WORKERS_DENSE_MAX) {
        return muster_error_set(error, MUSTER_ERR_UNSUPPORTED,
                                "scheduled: order=speeds goes up to %u "
                                "workers; use order=cyclic",
                                MUSTER_CODE_WORKERS_DENSE_MAX);
    }
    return order == BY_SPEED ? muster_code_check_speeds(spec, 1, error)
                             : MUSTER_OK;
}

static muster_status deal(const muster_code_spec *spec, share_order order,
                          schedule *plan, muster_error *error)
{
    uint32_t max = STAGES_MAX / plan->pieces;
    max = max < plan->workers ? max : plan->workers;
    plan->room = order == BY_SPEED ? max : plan->copies;
    plan->shares =
        muster_mem_array(plan->workers, plan->room * sizeof(uint32_t));
    plan->counts = muster_mem_array(plan->workers, sizeof(uint32_t));
    if (plan->shares == NULL || plan->counts == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    if (order != BY_SPEED) {
        deal_staircase(plan, order == CYCLIC);
        return MUSTER_OK;
    }
    muster_status status = deal_by_speed(plan, spec->speeds);
    return status != MUSTER_ERR_UNSUPPORTED
               ? status
               : muster_error_set(error, status,
                                  "scheduled: %u copies of %u shares are more "
                                  "than %u messages a worker; use fewer "
                                  "pieces or a smaller s",
                                  plan->copies, plan->workers, STAGES_MAX);
}

/* The part of a worker's stage; false: it has fewer stages. */
static bool part_at(const schedule *plan, uint32_t worker, uint32_t stage,
                    uint32_t *part_out)
{
    uint32_t pieces = plan->pieces;
    uint32_t t = stage / pieces;
    uint32_t i = stage % pieces;
    if (t >= plan->counts[worker]) {
        return false;
    }
    if (t > 0) { // from the end, each helper from a place of its own
        uint32_t turn = (t - 1) * pieces / (plan->copies - 1) % pieces;
        i = (2 * pieces - 1 - i - turn) % pieces;
    }
    uint32_t share = plan->shares[(size_t)worker * plan->room + t];
    *part_out = share * pieces + i;
    return true;
}

static bool add_terms(muster_code *code, const schedule *plan)
{
    uint32_t stages = code->info.stages;
    uint32_t answers = muster_code_answers(code);
    if (!muster_code_reserve(code, answers)) {
        return false;
    }
    for (uint32_t answer = 0; answer < answers; answer++) {
        uint32_t part = 0;
        muster_code_open_worker(code, answer);
        if (part_at(plan, answer / stages, answer % stages, &part) &&
            !muster_code_add_term(
                code, (muster_code_encode_term){.part = part, .coef = 1})) {
            return false;
        }
        if (!muster_code_close_worker(code, answer)) {
            return false;
        }
    }
    return true;
}

static muster_status build(muster_code *code, const muster_code_spec *given,
                           muster_error *error)
{
    muster_code_spec spec = *given;
    schedule plan = {0};
    share_order order = CYCLIC;
    muster_status status =
        muster_code_spec_settle(&spec, "order,pieces,start", error);
    if (status == MUSTER_OK) {
        status = read_options(code, &spec, error, &order, &plan);
    }
    if (status == MUSTER_OK) {
        status = check(&spec, order, &plan, error);
    }
    if (status == MUSTER_OK) {
        status = deal(&spec, order, &plan, error);
    }
    if (status == MUSTER_OK) {
        uint32_t shares = 1;
        for (uint32_t w = 0; w < plan.workers; w++) {
            shares = plan.counts[w] > shares ? plan.counts[w] : shares;
        }
        code->info.stragglers = spec.stragglers;
        code->info.parts = plan.workers * plan.pieces;
        code->info.stages = shares * plan.pieces;
        code->info.own_stages = plan.pieces;
        status = add_terms(code, &plan) ? MUSTER_OK : MUSTER_ERR_NO_MEMORY;
    }
    schedule_fini(&plan);
    return status;
}

static void free_state(void *state)
{
    (void)state;
}

/* ---- decoding ------------------------------------------------------------ */

/* The part of an answer; false: it has none. */
static bool answer_part(const muster_code *code, uint32_t answer,
                        uint32_t *part_out)
{
    muster_code_span span = code->part_spans[answer];
    if (span.count > 0) {
        *part_out = ((const uint32_t *)code->parts.data)[span.first];
    }
    return span.count > 0;
}

static muster_status weights(const muster_code *code, muster_code_query *query)
{
    uint8_t *has = muster_mem_array(code->info.parts, 1);
    if (has == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    query->term_count = 0;
    for (uint32_t r = 0; r < query->count; r++) {
        uint32_t part = 0;
        if (answer_part(code, query->responders[r], &part) && !has[part]) {
            has[part] = 1;
            query->terms[query->term_count++] =
                (muster_code_decode_term){0, query->responders[r], 0, 1.0};
        }
    }
    muster_mem_free(has);
    return muster_code_measure(code, query);
}

typedef struct scheduled_progress {
    uint32_t missing;
    uint8_t has[]; // by part
} scheduled_progress;

static size_t progress_bytes(const muster_code *code)
{
    return sizeof(scheduled_progress) + code->info.parts;
}

static void progress_reset(const muster_code *code, void *memory)
{
    scheduled_progress *progress = memory;
    progress->missing = code->info.parts;
    memset(progress->has, 0, code->info.parts);
}

static bool progress_add(const muster_code *code, void *memory, uint32_t answer)
{
    scheduled_progress *progress = memory;
    uint32_t part = 0;
    if (answer_part(code, answer, &part) && !progress->has[part]) {
        progress->has[part] = 1;
        progress->missing--;
    }
    return progress->missing == 0;
}

const muster_code_ops muster_code_scheduled = {
    .name = "scheduled",
    .build = build,
    .weights = weights,
    .free_state = free_state,
    .progress_bytes = progress_bytes,
    .progress_reset = progress_reset,
    .progress_add = progress_add,
    .needs = "order=cyclic, staircase or speeds; pieces=; m = 1",
    .limits = "always",
};
