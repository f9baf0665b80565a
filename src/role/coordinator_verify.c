/*
 * coordinator_verify.c -- answers that are no gradient, or not the right one.
 *
 * Not finite: UPDATE finds such messages while it decodes, VERIFY those that
 * came too late for it. They count as answers that did not come: they are
 * withdrawn, and the step goes on by the code with the others. When all are
 * heard and too few are left, the training has diverged, or those workers are
 * broken: the run ends.
 *
 * Warn: every 16th step, or a later one where checks are dear, asks all workers
 * for their answer, also when it comes late. The answers are kept until all
 * that are ready have given theirs, or 14 steps have passed, or the run ends,
 * and go to a VERIFY job, which compares them by the code's redundant
 * equations. Nothing waits for it. A worker whose answer is wrong is named and
 * counted. Where equations tell only that one of several is wrong, whoever is
 * among the suspects of every such step is the one, once nobody else is.
 *
 * Correct: every step waits for all ready workers, has them checked, and is
 * decoded without those that are wrong; they are lost. Where it cannot be told
 * who is wrong, the run ends.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "role/coordinator_inside.h"

#define CHECK_PERIOD   16u
#define CHECK_PHASE    2u
#define CHECK_WAIT     14u // steps after which missing answers are not awaited
#define COST_STEPS     200 // a check costs 1 % of a step's time at most
#define NOT_FINITE_MAX 3u  // such answers, and the worker is lost
#define TELL_EVERY     16u
#define NAMES_LISTED   6u

muster_status muster_verify_init(muster_coordinator *c)
{
    muster_verifying *v = &c->verifying;
    v->slot_of = muster_mem_array(c->worker_count, sizeof(*v->slot_of));
    v->messages = muster_mem_array(c->worker_count, sizeof(muster_blob *));
    v->workers = muster_mem_array(c->worker_count, sizeof(*v->workers));
    v->suspects = muster_mem_array(c->worker_count, sizeof(*v->suspects));
    return v->slot_of != NULL && v->messages != NULL && v->workers != NULL &&
                   v->suspects != NULL
               ? MUSTER_OK
               : MUSTER_ERR_NO_MEMORY;
}

static void close_check(muster_coordinator *c)
{
    muster_verifying *v = &c->verifying;
    for (uint32_t id = 0; v->messages != NULL && id < c->worker_count; id++) {
        muster_blob_unref(v->messages[id]);
        v->messages[id] = NULL;
    }
    v->answers = 0;
    v->open = false;
}

void muster_verify_fini(muster_coordinator *c)
{
    close_check(c);
    muster_mem_free(c->verifying.slot_of);
    muster_mem_free(c->verifying.messages);
    muster_mem_free(c->verifying.workers);
    muster_mem_free(c->verifying.suspects);
}

/* Can answers of this code say anything about each other? */
static bool has_redundancy(const muster_coordinator *c)
{
    return (c->plan.info.stragglers > 0 || !c->plan.info.exact) &&
           c->plan.info.stages == 1;
}

bool muster_verify_is_asked(const muster_coordinator *c)
{
    return c->verifying.open && c->verifying.step == c->step;
}

/* Hand the messages of `workers`, all of one step, to a VERIFY job. `slot_of`
 * and `code` are those of the step. */
static void start_job(muster_coordinator *c, const uint32_t *slot_of,
                      const muster_code *code, muster_blob *const *messages,
                      muster_actions *actions)
{
    muster_verifying *v = &c->verifying;
    muster_job_list *list = muster_job_list_create(c->worker_count);
    muster_blob *slots = muster_blob_create(c->worker_count * sizeof(uint32_t));
    if (list == NULL || slots == NULL) {
        muster_job_list_unref(list);
        muster_blob_unref(slots);
        return; // nobody waits for a check of which nothing is known
    }
    uint32_t *slot = slots->data;
    for (uint32_t id = 0; id < c->worker_count; id++) {
        v->workers[slot_of[id]] = id;
    }
    v->worker_count = 0;
    for (uint32_t at = 0; at < c->worker_count; at++) {
        uint32_t id = v->workers[at]; // those before are not needed any more
        if (messages[id] != NULL) {
            slot[v->worker_count] = at;
            v->workers[v->worker_count] = id;
            list->blobs[v->worker_count++] = muster_blob_ref(messages[id]);
        }
    }
    slots->bytes = v->worker_count * sizeof(uint32_t);
    v->job = ++c->jobs.ids;
    muster_job *job = muster_act_compute(actions, MUSTER_JOB_VERIFY, v->job);
    job->step = v->job_step;
    job->code = code;
    job->input = slots;
    job->list = list;
    job->messages = list->blobs;
    job->message_count = v->worker_count;
}

/* Has every ready worker answered the step that is checked? */
static bool all_answered(const muster_coordinator *c)
{
    for (uint32_t id = 0; id < c->worker_count; id++) {
        if (c->workers[id].stage == MUSTER_STAGE_READY &&
            c->verifying.messages[id] == NULL) {
            return false;
        }
    }
    return true;
}

/* Start the check when no more answers come. */
static void try_check(muster_coordinator *c, muster_actions *actions)
{
    const muster_verifying *v = &c->verifying;
    if (c->step >= v->step + CHECK_WAIT || all_answered(c)) {
        muster_verify_now(c, actions);
    }
}

void muster_verify_now(muster_coordinator *c, muster_actions *actions)
{
    muster_verifying *v = &c->verifying;
    if (!v->open || v->job != 0) {
        return;
    }
    if (v->answers > 1) {
        v->job_step = v->step;
        start_job(c, v->slot_of, v->code, v->messages, actions);
    }
    close_check(c);
}

void muster_verify_begin(muster_coordinator *c, muster_actions *actions)
{
    muster_verifying *v = &c->verifying;
    try_check(c, actions);
    if (c->opts.verify != MUSTER_VERIFY_WARN || !has_redundancy(c) ||
        c->step % CHECK_PERIOD != CHECK_PHASE || c->step < v->not_before ||
        v->open || v->job != 0) {
        return;
    }
    v->open = true;
    v->step = c->step;
    v->code = c->plan.code;
    memcpy(v->slot_of, c->plan.slot_of, c->worker_count * sizeof(uint32_t));
}

void muster_verify_answer(muster_coordinator *c, uint32_t id,
                          const muster_event *event, muster_actions *actions)
{
    muster_verifying *v = &c->verifying;
    if (!v->open || event->as.message.message->step != v->step ||
        v->messages[id] != NULL || event->as.message.payload == NULL ||
        event->as.message.payload->bytes != c->answer_bytes) {
        return;
    }
    v->messages[id] = muster_blob_ref(event->as.message.payload);
    v->answers++;
    try_check(c, actions);
}

bool muster_verify_holds(muster_coordinator *c, muster_actions *actions)
{
    muster_verifying *v = &c->verifying;
    if (c->opts.verify != MUSTER_VERIFY_CORRECT || !has_redundancy(c) ||
        c->open.verified) {
        return false;
    }
    if (!muster_wait_all_heard(c) && !c->open.deadline_over) {
        return true;
    }
    // `messages` serves as the list, lent for this call.
    for (uint32_t id = 0; id < c->worker_count; id++) {
        v->messages[id] = c->staging.messages[id];
    }
    v->job_step = c->step;
    v->job = 0;
    start_job(c, c->plan.slot_of, c->plan.code, v->messages, actions);
    memset(v->messages, 0, c->worker_count * sizeof(muster_blob *));
    c->open.verified = true;
    if (v->job == 0) {
        return false;
    }
    c->jobs.update = v->job; // an end waits for it
    c->phase = MUSTER_PHASE_UPDATE;
    return true;
}

/* "3, 5": those with a mark (without marks: all), in the order of the job. */
static uint32_t list_marked(const muster_coordinator *c, const uint8_t *marks,
                            muster_job_mark mark, char *text, size_t room)
{
    uint32_t count = 0;
    size_t used = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < c->verifying.worker_count; i++) {
        if ((marks != NULL && marks[i] != mark) || count++ >= NAMES_LISTED ||
            used >= room) {
            continue;
        }
        int wrote = snprintf(text + used, room - used, "%s%u",
                             count > 1 ? ", " : "", c->verifying.workers[i]);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
    return count;
}

static void tell_wrong(muster_coordinator *c, uint32_t id,
                       const muster_event *event, muster_actions *actions)
{
    uint32_t count = ++c->workers[id].wrong;
    muster_act_notice(
        actions, event->now_ns,
        count % TELL_EVERY == 1 ? MUSTER_LOG_WARN : MUSTER_LOG_DEBUG,
        "worker %u sent a wrong answer to step %llu: it does not agree with "
        "those of the others (%u so far)%s",
        id, (unsigned long long)c->verifying.job_step, count,
        c->opts.verify == MUSTER_VERIFY_CORRECT
            ? ""
            : "; --verify correct would go on without it");
}

static void tell_suspects(muster_coordinator *c, const uint8_t *marks,
                          const muster_event *event, muster_actions *actions)
{
    char names[128];
    list_marked(c, marks, MUSTER_MARK_SUSPECT, names, sizeof(names));
    muster_act_notice(actions, event->now_ns,
                      c->verifying.has_suspects ? MUSTER_LOG_DEBUG
                                                : MUSTER_LOG_WARN,
                      "the answers to step %llu do not agree: one of workers "
                      "%s is wrong",
                      (unsigned long long)c->verifying.job_step, names);
}

/* Whoever was a suspect each time, once there is only one. */
static void follow_suspects(muster_coordinator *c, const uint8_t *marks,
                            const muster_event *event, muster_actions *actions)
{
    muster_verifying *v = &c->verifying;
    uint32_t left = 0;
    uint32_t last = 0;
    tell_suspects(c, marks, event, actions);
    for (uint32_t id = 0; id < c->worker_count && !v->has_suspects; id++) {
        v->suspects[id] = true;
    }
    v->has_suspects = true;
    for (uint32_t id = 0; id < c->worker_count; id++) {
        bool now = false;
        for (uint32_t i = 0; i < v->worker_count; i++) {
            now =
                now || (v->workers[i] == id && marks[i] == MUSTER_MARK_SUSPECT);
        }
        v->suspects[id] = v->suspects[id] && now;
        left += v->suspects[id];
        last = v->suspects[id] ? id : last;
    }
    if (left == 1) {
        tell_wrong(c, last, event, actions);
    }
    v->has_suspects = left > 1; // else begin anew
}

static bool has_mark(const muster_coordinator *c, const uint8_t *marks,
                     muster_job_mark mark)
{
    return memchr(marks, (int)mark, c->verifying.worker_count) != NULL;
}

/* The answer was not finite: as if it had not come. Both UPDATE and VERIFY may
 * find that. */
static void count_not_finite(muster_coordinator *c, uint32_t id, uint64_t step,
                             const muster_event *event, muster_actions *actions)
{
    if (c->workers[id].not_finite_steps == step + 1) {
        return;
    }
    c->workers[id].not_finite_steps = step + 1;
    uint32_t count = ++c->workers[id].not_finite;
    c->workers[id].unusable++;
    muster_act_notice(actions, event->now_ns, MUSTER_LOG_WARN,
                      "worker %u sent an answer to step %llu that is not "
                      "finite; it counts as none (%u so far)",
                      id, (unsigned long long)step, count);
    if (count >= NOT_FINITE_MAX && c->workers[id].stage != 0) {
        muster_step_reject(c, id, "three answers that are not finite", event,
                           actions);
    }
}

static void name_workers(muster_coordinator *c, const uint8_t *marks,
                         const muster_event *event, muster_actions *actions)
{
    for (uint32_t i = 0; i < c->verifying.worker_count; i++) {
        if (marks[i] == MUSTER_MARK_WRONG) {
            tell_wrong(c, c->verifying.workers[i], event, actions);
        } else if (marks[i] == MUSTER_MARK_NOT_FINITE && !c->end.begun) {
            count_not_finite(c, c->verifying.workers[i], c->verifying.job_step,
                             event, actions);
        }
    }
    if (has_mark(c, marks, MUSTER_MARK_SUSPECT)) {
        follow_suspects(c, marks, event, actions);
    }
}

/* Without it the step would use answers of which one is wrong. */
static void end_undecided(muster_coordinator *c, const uint8_t *marks,
                          const muster_event *event, muster_actions *actions)
{
    char names[128];
    char reason[256];
    list_marked(c, marks, MUSTER_MARK_SUSPECT, names, sizeof(names));
    snprintf(reason, sizeof(reason),
             "step %llu: one of workers %.48s sent a wrong answer, and %.30s "
             "(s = %u) cannot tell which; --stragglers 2 or more can",
             (unsigned long long)c->step, names, c->plan.info.name,
             c->plan.info.stragglers);
    muster_coordinator_end(c, MUSTER_ERR_QUORUM, reason, event, actions);
}

/* Decode the step without the answers that are not right. */
static void correct(muster_coordinator *c, const uint8_t *marks,
                    const muster_event *event, muster_actions *actions)
{
    muster_verifying *v = &c->verifying;
    for (uint32_t i = 0; i < v->worker_count; i++) {
        uint32_t id = v->workers[i];
        if (marks[i] == MUSTER_MARK_WRONG ||
            marks[i] == MUSTER_MARK_NOT_FINITE) {
            muster_step_withdraw(c, id);
        }
        if (marks[i] == MUSTER_MARK_NOT_FINITE) {
            count_not_finite(c, id, c->step, event, actions);
        } else if (marks[i] == MUSTER_MARK_WRONG) {
            tell_wrong(c, id, event, actions);
            muster_step_reject(c, id, "a wrong answer", event, actions);
        }
    }
    if (has_mark(c, marks, MUSTER_MARK_SUSPECT)) {
        end_undecided(c, marks, event, actions);
    } else if (!has_mark(c, marks, MUSTER_MARK_AGREES) && !v->told_unchecked) {
        v->told_unchecked = true;
        muster_act_notice(actions, event->now_ns, MUSTER_LOG_WARN,
                          "step %llu could not be checked: the answers of %u "
                          "workers say nothing about each other",
                          (unsigned long long)c->step, v->worker_count);
    }
}

/* Is there an answer, or a worker that may still give one? */
static bool anybody_can_answer(const muster_coordinator *c)
{
    bool any = c->open.answers > 0;
    for (uint32_t id = 0; id < c->worker_count && !any; id++) {
        any = c->workers[id].stage == MUSTER_STAGE_READY &&
              !muster_step_is_withdrawn(c, id);
    }
    return any;
}

/* Go on with what is left of the step's answers. False: they are too few, and
 * those that could still come are. */
static bool go_on(muster_coordinator *c, const muster_event *event,
                  muster_actions *actions)
{
    if (c->phase != MUSTER_PHASE_COLLECT) {
        return true; // a worker was lost, and what is left was enough
    }
    if (c->end.begun) {
        muster_coordinator_close(c, event, actions);
        return true;
    }
    muster_step_try(c, event, actions);
    if (c->phase != MUSTER_PHASE_COLLECT || c->end.begun) {
        return true;
    }
    if (!muster_step_reachable(c) &&
        (!c->opts.degrade || !anybody_can_answer(c))) {
        return false;
    }
    muster_coordinator_review(c, event, actions);
    return true;
}

/* Those whose answers are not finite are needed. */
static void end_not_finite(muster_coordinator *c, const char *names,
                           const muster_event *event, muster_actions *actions)
{
    char reason[256];
    snprintf(
        reason, sizeof(reason),
        "step %llu: the answers of workers %.48s are not finite, and %.30s "
        "needs them: the training diverged (try a smaller --lr), or they "
        "are broken",
        (unsigned long long)c->step, names, c->plan.info.name);
    muster_coordinator_end(c, MUSTER_ERR_INVALID, reason, event, actions);
}

void muster_verify_not_finite(muster_coordinator *c, const muster_event *event,
                              muster_actions *actions)
{
    muster_verifying *v = &c->verifying;
    const muster_decoding *decoding = c->open.decoding;
    const uint8_t *marks = event->as.computed.output->data;
    char names[128];
    v->worker_count = 0;
    for (uint32_t i = 0; i < decoding->used_count; i++) {
        uint32_t id = c->plan.worker_of[decoding->used[i] / c->staging.stages];
        // A worker's answers stand together.
        bool known =
            v->worker_count > 0 && v->workers[v->worker_count - 1] == id;
        if (marks[i] == MUSTER_MARK_NOT_FINITE && !known) {
            v->workers[v->worker_count++] = id;
            muster_step_withdraw(c, id);
        }
    }
    list_marked(c, NULL, MUSTER_MARK_NOT_FINITE, names, sizeof(names));
    c->phase = MUSTER_PHASE_COLLECT;
    for (uint32_t i = 0; i < v->worker_count && !c->end.begun; i++) {
        count_not_finite(c, v->workers[i], c->step, event, actions);
    }
    if (!go_on(c, event, actions)) {
        end_not_finite(c, names, event, actions);
    }
}

/* The next check comes when 100 times what this one cost has passed: its own
 * time, and as much again for answers that were not needed. */
static void space_checks(muster_coordinator *c, int64_t busy_ns)
{
    muster_verifying *v = &c->verifying;
    int64_t step_ns = muster_wait_median_ns(c);
    if (step_ns > 0 && busy_ns > 0) {
        v->not_before =
            v->job_step + (uint64_t)(COST_STEPS * busy_ns / step_ns);
    }
}

void muster_verify_done(muster_coordinator *c, const muster_event *event,
                        muster_actions *actions)
{
    muster_verifying *v = &c->verifying;
    const muster_job_result *result = &event->as.computed;
    bool is_step = c->jobs.update != 0 && c->jobs.update == result->id;
    bool has_marks = result->status >= 0 && result->output != NULL &&
                     result->output->data != NULL;
    v->job = 0;
    if (!is_step) {
        space_checks(c, result->busy_ns);
        if (has_marks) {
            name_workers(c, result->output->data, event, actions);
        }
        return;
    }
    c->jobs.update = 0;
    c->phase = MUSTER_PHASE_COLLECT;
    if (has_marks && !c->end.begun) {
        correct(c, result->output->data, event, actions);
    } else if (!c->end.begun) {
        muster_coordinator_end(c, result->status, result->text, event, actions);
    }
    if (!go_on(c, event, actions)) {
        muster_coordinator_review(c, event, actions); // it pauses
    }
}
