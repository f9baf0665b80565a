/*
 * coordinator_stages.c -- codes in stages: what is missing, and who is asked.
 *
 * Every worker's own share comes unasked. A part that does not come is asked
 * for from others that hold it: MISSING tells a worker which of its stages are
 * missing. In a quiet step nobody is asked for anything.
 *
 * Workers with processors of their own (eager) compute all their stages at once
 * and keep the results. They are told what is missing when half of the parts
 * have come and a quarter of that time has passed: before the first of them
 * could have ended with a second share. From then on each sends what is missing
 * and leaves the rest. A new model waits for the end of a piece of such work,
 * so workers are told to leave it (calm) when nobody was late in the last eight
 * steps, unless the code says start=now. They are not told what is missing then
 * before half as long again as the median step.
 *
 * Where workers share processors, computing what nobody may need slows down the
 * others. So they are asked, first one holder for each part that is missing:
 *   when all have come that came in time in the last step, and a sixteenth of
 *   that time has passed: whoever was late before is not waited for;
 *   or when half of the parts have come, and nobody else for half as long as
 *   the last one took; after eight steps in which nobody was late, not before
 *   half as long again as the median step, for workers that share processors
 *   come one after the other.
 * A worker that was late three times in a row is not asked for anything: its
 * share is asked for from another at once. Every eighth step it is, to see
 * whether it is quick again.
 * If that does not help, all holders are asked, again and again, each time
 * after twice as long. A part that comes is taken back from those who were
 * asked for it.
 */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "code/numbers.h"
#include "role/coordinator_inside.h"

/* Of the time passed, before anybody is asked. */
#define EAGER_SHARE 4
#define ALL_SHARE   16
#define HALF_SHARE  2
#define AGAIN_MIN   MUSTER_NS_PER_MS

/* Steps in a row after which a late worker is replaced, and how often it is
 * tried all the same. */
#define LATE_STEPS 3u
#define TRY_PERIOD 8u
/* Steps without a late one after which nothing is begun unasked. */
#define CALM_STEPS 8u

static uint64_t bit_of(uint32_t stage)
{
    return UINT64_C(1) << stage;
}

static uint64_t first_of(uint32_t count)
{
    return count >= MUSTER_STAGES_MAX ? UINT64_MAX : bit_of(count) - 1;
}

/* ---- what is made for a code --------------------------------------------- */

static bool starts_eager(const muster_code *code, bool by_default)
{
    muster_code_start_rule rule = muster_code_starts(code);
    return rule == MUSTER_CODE_START_AUTO ? by_default
                                          : rule == MUSTER_CODE_START_NOW;
}

bool muster_staging_is_eager(const muster_coordinator *c,
                             const muster_code *code)
{
    return starts_eager(code, c->opts.eager);
}

static uint32_t parts_of(const muster_code *code, uint32_t answer,
                         const uint32_t **parts_out)
{
    uint32_t count = 0;
    *parts_out = NULL;
    muster_status status =
        muster_code_answer_parts(code, answer, parts_out, &count);
    return status == MUSTER_OK ? count : 0;
}

/* Which answers have a part, part after part. */
static bool list_holders(muster_staging *staging, const muster_code *code)
{
    uint32_t parts = muster_code_numbers(code)->parts;
    uint32_t answers = muster_code_answers(code);
    uint32_t *first =
        muster_mem_array((size_t)parts + 1, sizeof(*staging->first_holder));
    staging->first_holder = first;
    if (first == NULL) {
        return false;
    }
    const uint32_t *list = NULL;
    for (uint32_t a = 0; a < answers; a++) {
        uint32_t count = parts_of(code, a, &list);
        for (uint32_t i = 0; i < count; i++) {
            first[list[i] + 1]++;
        }
    }
    for (uint32_t part = 0; part < parts; part++) {
        first[part + 1] += first[part];
    }
    staging->holders = muster_mem_array(first[parts], sizeof(uint32_t));
    uint32_t *at = muster_mem_array(parts, sizeof(*at));
    bool ok = staging->holders != NULL && at != NULL;
    for (uint32_t a = 0; ok && a < answers; a++) {
        uint32_t count = parts_of(code, a, &list);
        for (uint32_t i = 0; i < count; i++) {
            staging->holders[first[list[i]] + at[list[i]]++] = a;
        }
    }
    muster_mem_free(at);
    return ok;
}

muster_status muster_staging_init(muster_staging *staging,
                                  const muster_code *code, bool eager)
{
    const muster_code_info *info = muster_code_numbers(code);
    uint32_t answers = muster_code_answers(code);
    uint32_t n = info->workers;
    *staging = (muster_staging){
        .stages = info->stages,
        .own = info->own_stages,
        .answers = answers,
        .eager = starts_eager(code, eager),
        .adapts = muster_code_starts(code) == MUSTER_CODE_START_AUTO,
        .messages = muster_mem_array(answers, sizeof(muster_blob *)),
        .responders = muster_mem_array(answers, sizeof(*staging->responders))};
    bool ok = staging->messages != NULL && staging->responders != NULL;
    if (ok && info->stages > 1) {
        staging->come = muster_mem_array(info->parts, sizeof(*staging->come));
        staging->told = muster_mem_array(n, sizeof(*staging->told));
        staging->asks = muster_mem_array(n, sizeof(*staging->asks));
        staging->late = muster_mem_array(n, sizeof(*staging->late));
        staging->awaited = muster_mem_array(n, sizeof(*staging->awaited));
        ok = staging->come != NULL && staging->told != NULL &&
             staging->asks != NULL && staging->late != NULL &&
             staging->awaited != NULL && list_holders(staging, code);
    }
    return ok ? MUSTER_OK : MUSTER_ERR_NO_MEMORY; // fini takes what there is
}

void muster_staging_fini(muster_staging *staging)
{
    for (uint32_t a = 0; staging->messages != NULL && a < staging->answers;
         a++) {
        muster_blob_unref(staging->messages[a]);
    }
    muster_mem_free(staging->messages);
    muster_mem_free(staging->responders);
    muster_mem_free(staging->first_holder);
    muster_mem_free(staging->holders);
    muster_mem_free(staging->come);
    muster_mem_free(staging->told);
    muster_mem_free(staging->asks);
    muster_mem_free(staging->late);
    muster_mem_free(staging->awaited);
    *staging = (muster_staging){0};
}

void muster_staging_add_all(const muster_staging *staging,
                            muster_code_progress *progress, uint32_t slot)
{
    for (uint32_t t = 0; t < staging->stages; t++) {
        muster_code_progress_add(progress, slot * staging->stages + t);
    }
}

/* ---- a step -------------------------------------------------------------- */

static bool takes_part(const muster_coordinator *c, uint32_t id)
{
    return c->workers[id].stage == MUSTER_STAGE_READY && !c->workers[id].behind;
}

static void set_timer(muster_coordinator *c, int64_t at_ns,
                      muster_actions *actions)
{
    c->staging.timer_set = at_ns >= 0;
    muster_act_timer(actions, MUSTER_TIMER_MISSING, at_ns);
}

void muster_staging_stop(muster_coordinator *c, muster_actions *actions)
{
    if (c->staging.timer_set) {
        set_timer(c, -1, actions);
    }
}

static void take_answer(muster_coordinator *c, uint32_t answer)
{
    const uint32_t *parts = NULL;
    uint32_t count = muster_assignment_answer(&c->plan, answer, &parts);
    for (uint32_t i = 0; i < count; i++) {
        c->staging.missing -= !c->staging.come[parts[i]];
        c->staging.come[parts[i]] = true;
    }
}

void muster_staging_take(muster_coordinator *c, uint32_t id, uint32_t stage)
{
    if (c->staging.stages > 1) {
        take_answer(c, c->plan.slot_of[id] * c->staging.stages + stage);
    }
}

void muster_staging_recount(muster_coordinator *c)
{
    muster_staging *s = &c->staging;
    if (s->stages == 1) {
        return;
    }
    memset(s->come, 0, c->plan.info.parts * sizeof(*s->come));
    s->missing = c->plan.info.parts;
    for (uint32_t id = 0; id < c->worker_count; id++) {
        for (uint32_t t = 0; t < s->stages; t++) {
            if (s->messages[(size_t)id * s->stages + t] != NULL) {
                take_answer(c, c->plan.slot_of[id] * s->stages + t);
            }
        }
    }
}

/* ---- asking -------------------------------------------------------------- */

static void tell(muster_coordinator *c, uint32_t id, muster_actions *actions)
{
    muster_member_mail mail = {
        .message = {.kind = MUSTER_MSG_MISSING,
                    .plan = c->plan.number,
                    .step = c->step,
                    .as.missing = {.number = ++c->staging.words,
                                   .stages = c->staging.told[id]}}};
    c->traffic.bytes_down += muster_message_bytes(&mail.message);
    muster_member_send(&c->member, id, &mail, actions);
}

/* A part came with the answer of `id`: whoever else takes it for missing need
 * not compute it. */
static void take_back(muster_coordinator *c, uint32_t id, uint32_t part,
                      muster_actions *actions)
{
    muster_staging *s = &c->staging;
    for (uint32_t i = s->first_holder[part]; i < s->first_holder[part + 1];
         i++) {
        uint32_t other = c->plan.worker_of[s->holders[i] / s->stages];
        uint64_t bit = bit_of(s->holders[i] % s->stages);
        if (other != id && (s->told[other] & bit) != 0) {
            s->told[other] &= ~bit;
            if (takes_part(c, other)) {
                tell(c, other, actions);
            }
        }
    }
}

/* All that are expected soon have come, or most. */
static void see_whether_to_ask(muster_coordinator *c, int64_t now_ns,
                               muster_actions *actions)
{
    muster_staging *s = &c->staging;
    int64_t passed_ns = now_ns - c->open.begin_ns;
    bool half = 2 * s->missing <= c->plan.info.parts;
    if (s->round > 0 || s->missing == 0) {
        return;
    }
    if (s->eager && half && !s->timer_set) {
        int64_t after_ns = passed_ns + passed_ns / EAGER_SHARE;
        after_ns = after_ns > s->usual_ns ? after_ns : s->usual_ns;
        set_timer(c, c->open.begin_ns + after_ns, actions);
    } else if (!s->eager && s->awaited_count == 0) {
        set_timer(c, now_ns + passed_ns / ALL_SHARE, actions);
    } else if (!s->eager && half) {
        int64_t after_ns = passed_ns + passed_ns / HALF_SHARE;
        after_ns = after_ns > s->usual_ns ? after_ns : s->usual_ns;
        set_timer(c, c->open.begin_ns + after_ns, actions);
    }
}

static void stop_awaiting(muster_staging *s, uint32_t id)
{
    s->awaited_count -= s->awaited[id];
    s->awaited[id] = false;
}

void muster_staging_answered(muster_coordinator *c, uint32_t id, uint32_t stage,
                             bool whole, const muster_event *event,
                             muster_actions *actions)
{
    muster_staging *s = &c->staging;
    if (s->stages == 1 || c->phase != MUSTER_PHASE_COLLECT) {
        return;
    }
    if (s->round > 0 || !s->eager) {
        const uint32_t *parts = NULL;
        uint32_t count = muster_assignment_answer(
            &c->plan, c->plan.slot_of[id] * s->stages + stage, &parts);
        for (uint32_t i = 0; i < count; i++) {
            take_back(c, id, parts[i], actions);
        }
    }
    if (whole) {
        stop_awaiting(s, id);
    }
    see_whether_to_ask(c, event->now_ns, actions);
}

void muster_staging_lost(muster_coordinator *c, uint32_t id,
                         const muster_event *event, muster_actions *actions)
{
    if (c->staging.stages == 1 || c->phase != MUSTER_PHASE_COLLECT) {
        return;
    }
    stop_awaiting(&c->staging, id);
    see_whether_to_ask(c, event->now_ns, actions);
}

/* How gladly a worker is asked for more; 0: not at all. */
static uint32_t readiness(const muster_coordinator *c, uint32_t id)
{
    if (!takes_part(c, id)) {
        return 0;
    }
    return muster_step_has_answered(c, id) ? 3
           : c->staging.late[id] > 0       ? 1
                                           : 2;
}

static uint32_t load_of(const muster_staging *s, uint32_t id)
{
    return (uint32_t)__builtin_popcountll(s->asks[id]);
}

/* Ask the readiest holder of a part, of several the one asked for least. */
static void ask_one(muster_coordinator *c, uint32_t part)
{
    muster_staging *s = &c->staging;
    uint32_t best = 0;
    uint32_t best_readiness = 0;
    uint64_t best_bit = 0;
    for (uint32_t i = s->first_holder[part]; i < s->first_holder[part + 1];
         i++) {
        uint32_t id = c->plan.worker_of[s->holders[i] / s->stages];
        uint32_t stage = s->holders[i] % s->stages;
        uint32_t ready = stage < s->own ? 0 : readiness(c, id);
        if (ready > 1 && (s->asks[id] & bit_of(stage)) != 0) {
            return; // it was asked before
        }
        if (ready > best_readiness || (ready > 0 && ready == best_readiness &&
                                       load_of(s, id) < load_of(s, best))) {
            best = id;
            best_readiness = ready;
            best_bit = bit_of(stage);
        }
    }
    s->asks[best] |= best_bit;
}

static void ask_all(muster_coordinator *c, uint32_t part)
{
    muster_staging *s = &c->staging;
    for (uint32_t i = s->first_holder[part]; i < s->first_holder[part + 1];
         i++) {
        s->asks[c->plan.worker_of[s->holders[i] / s->stages]] |=
            bit_of(s->holders[i] % s->stages);
    }
}

/* Tell those who are asked for something else than before; `again`: all that
 * are asked for anything. */
static void tell_changed(muster_coordinator *c, bool again,
                         muster_actions *actions)
{
    muster_staging *s = &c->staging;
    for (uint32_t id = 0; id < c->worker_count; id++) {
        bool asked = again && s->asks[id] != 0;
        if (takes_part(c, id) && (s->asks[id] != s->told[id] || asked)) {
            s->told[id] = s->asks[id];
            tell(c, id, actions);
        }
    }
}

void muster_staging_ask(muster_coordinator *c, const muster_event *event,
                        muster_actions *actions)
{
    muster_staging *s = &c->staging;
    s->timer_set = false;
    if (s->stages == 1 || c->phase != MUSTER_PHASE_COLLECT || s->missing == 0 ||
        c->end.begun) {
        return;
    }
    s->round++;
    bool one = s->round == 1 && !s->eager;
    for (uint32_t id = 0; id < c->worker_count; id++) {
        s->asks[id] = one ? s->told[id] : 0;
    }
    for (uint32_t part = 0; part < c->plan.info.parts; part++) {
        if (!s->come[part] && one) {
            ask_one(c, part);
        } else if (!s->come[part]) {
            ask_all(c, part);
        }
    }
    tell_changed(c, s->round > 2, actions);
    int64_t passed_ns = event->now_ns - c->open.begin_ns;
    set_timer(c,
              event->now_ns + (passed_ns > AGAIN_MIN ? passed_ns : AGAIN_MIN),
              actions);
}

/* Ask others for the shares of workers that are late again and again. */
static void replace_late(muster_coordinator *c, muster_actions *actions)
{
    muster_staging *s = &c->staging;
    bool any = false;
    for (uint32_t id = 0; id < c->worker_count; id++) {
        bool late = takes_part(c, id) && s->late[id] >= LATE_STEPS;
        s->asks[id] = late ? 0 : s->told[id];
        any = any || late;
    }
    for (uint32_t id = 0; any && id < c->worker_count; id++) {
        uint32_t first = c->plan.slot_of[id] * s->stages;
        for (uint32_t t = 0; s->asks[id] == 0 && t < s->own; t++) {
            const uint32_t *parts = NULL;
            uint32_t count =
                muster_assignment_answer(&c->plan, first + t, &parts);
            for (uint32_t i = 0; i < count; i++) {
                ask_one(c, parts[i]);
            }
        }
    }
    if (any) {
        tell_changed(c, false, actions);
    }
}

void muster_staging_begin(muster_coordinator *c, muster_actions *actions)
{
    muster_staging *s = &c->staging;
    if (s->stages == 1) {
        return;
    }
    memset(s->come, 0, c->plan.info.parts * sizeof(*s->come));
    s->missing = c->plan.info.parts;
    s->round = 0;
    s->awaited_count = 0;
    bool quiet = s->quiet_steps >= CALM_STEPS;
    s->calm = s->eager && s->adapts && quiet;
    s->usual_ns =
        quiet && (!s->eager || s->calm) ? muster_wait_median_ns(c) : 0;
    s->usual_ns += s->usual_ns / HALF_SHARE;
    for (uint32_t id = 0; id < c->worker_count; id++) {
        s->told[id] = first_of(s->eager && !s->calm ? s->stages : s->own);
        s->awaited[id] = takes_part(c, id) && s->late[id] == 0;
        s->awaited_count += s->awaited[id];
    }
    muster_staging_stop(c, actions);
    if (!s->eager && c->step % TRY_PERIOD != 0) {
        replace_late(c, actions);
    }
}

/* ---- afterwards ---------------------------------------------------------- */

void muster_staging_decoded(muster_coordinator *c, muster_actions *actions)
{
    muster_staging *s = &c->staging;
    muster_staging_stop(c, actions);
    if (s->stages == 1) {
        return;
    }
    bool quiet = true;
    for (uint32_t id = 0; id < c->worker_count; id++) {
        bool late = takes_part(c, id) && !muster_step_has_answered(c, id);
        s->late[id] = late ? s->late[id] + 1 : 0;
        quiet = quiet && !late;
    }
    s->quiet_steps = quiet ? s->quiet_steps + 1 : 0;
}

bool muster_staging_all_heard(const muster_coordinator *c)
{
    const muster_staging *s = &c->staging;
    for (uint32_t part = 0; part < c->plan.info.parts; part++) {
        for (uint32_t i = s->first_holder[part];
             !s->come[part] && i < s->first_holder[part + 1]; i++) {
            uint32_t id = c->plan.worker_of[s->holders[i] / s->stages];
            if (c->workers[id].stage == MUSTER_STAGE_READY &&
                !muster_step_is_withdrawn(c, id)) {
                return false;
            }
        }
    }
    return s->missing < c->plan.info.parts;
}
