/*
 * coordinator_workers.c -- workers from JOINED to READY: setup, plan, parts;
 * and the parts of the next plan for workers that are ready.
 *
 * Each stage ends with a HAVE of the worker, so no message of a later stage can
 * overtake one of an earlier. A worker has at most one part under way, and the
 * coordinator at most PART_JOBS_MAX in the making, so joining costs bounded
 * memory and never keeps an UPDATE waiting for long. A part that several
 * workers wait for is made once.
 *
 * `held` is what the worker surely has: a part enters it by the HAVE that says
 * back the stamp it was sent with (or is announced by a worker that returns,
 * with stamp 0, before it is ready), and leaves it when FORGET is sent.
 */
#include <stdio.h>

#include "base/mem.h"
#include "role/coordinator_inside.h"

#define PART_JOBS_MAX 2u

static void report_change(uint32_t id, const muster_coordinator *c,
                          muster_worker_change change, const char *reason,
                          int64_t now_ns, muster_actions *actions)
{
    muster_report *report =
        muster_act_report(actions, MUSTER_REPORT_WORKER, now_ns);
    report->step = c->step;
    report->as.worker.worker = id;
    report->as.worker.incarnation = c->member.places[id].incarnation;
    report->as.worker.change = change;
    snprintf(report->as.worker.reason, sizeof(report->as.worker.reason), "%s",
             reason);
}

static bool holds(const muster_worker_record *worker, uint32_t part)
{
    const uint32_t *held = worker->held.data;
    for (size_t i = 0; i < worker->held.count; i++) {
        if (held[i] == part) {
            return true;
        }
    }
    return false;
}

/* A part that `plan` asks for and the worker lacks, or MUSTER_ID_ANY. */
static uint32_t missing_part(const muster_coordinator *c, uint32_t id,
                             const muster_assignment *plan)
{
    const uint32_t *parts = NULL;
    uint32_t count = muster_assignment_parts(plan, id, &parts);
    for (uint32_t i = 0; i < count; i++) {
        if (!holds(&c->workers[id], parts[i])) {
            return parts[i];
        }
    }
    return MUSTER_ID_ANY;
}

/* The plan whose parts the worker is to be sent now, or NULL. */
static const muster_assignment *wanted_plan(const muster_coordinator *c,
                                            uint32_t id)
{
    const muster_worker_record *worker = &c->workers[id];
    if (worker->stage == MUSTER_STAGE_PARTS) {
        return &c->plan;
    }
    bool ahead = worker->stage == MUSTER_STAGE_READY &&
                 worker->next_stage == MUSTER_NEXT_PARTS;
    return ahead ? &c->next : NULL;
}

static bool asks_for(const muster_assignment *plan, uint32_t id, uint32_t part)
{
    const uint32_t *parts = NULL;
    uint32_t count = muster_assignment_parts(plan, id, &parts);
    for (uint32_t i = 0; i < count; i++) {
        if (parts[i] == part) {
            return true;
        }
    }
    return false;
}

void muster_workers_tidy(muster_coordinator *c, uint32_t id,
                         muster_actions *actions)
{
    muster_worker_record *worker = &c->workers[id];
    uint32_t *held = worker->held.data;
    size_t kept = 0;
    for (size_t i = 0; i < worker->held.count; i++) {
        if (asks_for(&c->plan, id, held[i]) ||
            (c->next.number != 0 && asks_for(&c->next, id, held[i]))) {
            held[kept++] = held[i];
            continue;
        }
        muster_member_mail mail = {.message = {.kind = MUSTER_MSG_FORGET,
                                               .plan = c->plan.number,
                                               .step = ++worker->stamp,
                                               .as.part.part = held[i]}};
        muster_member_send(&c->member, id, &mail, actions);
    }
    worker->held.count = kept;
}

void muster_workers_joined(muster_coordinator *c, uint32_t id,
                           const muster_event *event, muster_actions *actions)
{
    muster_worker_record *worker = &c->workers[id];
    worker->stage = MUSTER_STAGE_SETUP;
    worker->next_stage = MUSTER_NEXT_NONE;
    worker->part = MUSTER_ID_ANY;
    worker->stamp = 0;
    worker->heard_steps = 0;
    muster_vec_clear(&worker->held);
    const muster_place *place = &c->member.places[id];
    char reason[128];
    snprintf(reason, sizeof(reason), "pid %u on %.63s", place->pid,
             place->host[0] != 0 ? place->host : "?");
    report_change(id, c, MUSTER_WORKER_JOINED, reason, event->now_ns, actions);
}

void muster_workers_lost(muster_coordinator *c, uint32_t id, const char *reason,
                         const muster_event *event, muster_actions *actions)
{
    muster_worker_record *worker = &c->workers[id];
    c->joining.ready -= worker->stage == MUSTER_STAGE_READY;
    worker->stage = MUSTER_STAGE_ABSENT;
    worker->next_stage = MUSTER_NEXT_NONE;
    worker->part = MUSTER_ID_ANY;
    muster_watch_lost(c->watch, id);
    if (c->phase >= MUSTER_PHASE_FAREWELL) {
        return; // it went because it was told to
    }
    report_change(id, c, MUSTER_WORKER_LOST, reason, event->now_ns, actions);
    muster_step_try(c, event, actions);
    muster_coordinator_review(c, event, actions);
}

bool muster_workers_send_plan(muster_coordinator *c, uint32_t id,
                              const muster_assignment *plan,
                              const muster_event *event,
                              muster_actions *actions)
{
    muster_blob *terms = muster_assignment_terms(plan, id);
    if (terms == NULL) {
        muster_coordinator_end(c, MUSTER_ERR_NO_MEMORY, "no memory for a plan",
                               event, actions);
        return false;
    }
    muster_member_mail mail = {
        .message = {.kind = MUSTER_MSG_PLAN, .plan = plan->number},
        .payload = terms};
    muster_member_send(&c->member, id, &mail, actions);
    return true;
}

static void become_ready(muster_coordinator *c, uint32_t id,
                         const muster_event *event, muster_actions *actions)
{
    c->workers[id].stage = MUSTER_STAGE_READY;
    c->joining.ready++;
    c->joining.ready_ns = event->now_ns;
    report_change(id, c, MUSTER_WORKER_READY, "", event->now_ns, actions);
    muster_workers_tidy(c, id, actions);
    if (c->phase == MUSTER_PHASE_COLLECT) {
        muster_step_offer(c, id, event->now_ns, actions);
    }
    if (c->next.number != 0) {
        muster_plan_prepare(c, id, event, actions);
    }
    muster_coordinator_review(c, event, actions);
}

static bool is_being_made(const muster_coordinator *c, uint32_t part)
{
    for (uint32_t id = 0; id < c->worker_count; id++) {
        if (c->workers[id].part == part && !c->workers[id].part_sent) {
            return true;
        }
    }
    return false;
}

/* Start making parts for the workers that wait, each in turn. */
static void serve_parts(muster_coordinator *c, muster_actions *actions)
{
    for (uint32_t i = 0; i < c->worker_count; i++) {
        uint32_t id = (c->joining.next_served + i) % c->worker_count;
        muster_worker_record *worker = &c->workers[id];
        const muster_assignment *plan = wanted_plan(c, id);
        if (plan == NULL || worker->part != MUSTER_ID_ANY) {
            continue;
        }
        uint32_t part = missing_part(c, id, plan);
        if (part == MUSTER_ID_ANY) {
            continue; // the HAVE of its last part is still to be handled
        }
        bool shared = is_being_made(c, part);
        if (!shared && c->joining.part_jobs >= PART_JOBS_MAX) {
            c->joining.next_served = id;
            return;
        }
        worker->part = part;
        worker->part_sent = false;
        if (!shared) {
            muster_job *job =
                muster_act_compute(actions, MUSTER_JOB_PART, ++c->jobs.ids);
            job->part = part;
            c->joining.part_jobs++;
        }
    }
}

/* The next thing that this worker lacks, if it waits for parts. */
static void advance(muster_coordinator *c, uint32_t id,
                    const muster_event *event, muster_actions *actions)
{
    muster_worker_record *worker = &c->workers[id];
    const muster_assignment *plan = wanted_plan(c, id);
    if (plan == NULL || worker->part != MUSTER_ID_ANY) {
        return; // nothing yet, or one is on its way
    }
    if (missing_part(c, id, plan) != MUSTER_ID_ANY) {
        serve_parts(c, actions);
    } else if (worker->stage == MUSTER_STAGE_READY) {
        worker->next_stage = MUSTER_NEXT_DONE;
    } else {
        become_ready(c, id, event, actions);
    }
}

static void have_part(muster_coordinator *c, uint32_t id,
                      const muster_event *event, muster_actions *actions)
{
    const muster_message *message = event->as.message.message;
    uint32_t part = message->as.have.part;
    muster_worker_record *worker = &c->workers[id];
    bool announced = message->step == 0 && worker->stage < MUSTER_STAGE_READY;
    bool awaited = worker->part == part && worker->part_sent &&
                   message->step == worker->stamp;
    if (part >= c->plan.info.parts || (!announced && !awaited)) {
        return;
    }
    bool fresh = !holds(worker, part);
    if (fresh && !muster_vec_append(&worker->held, &part, 1)) {
        muster_coordinator_end(c, MUSTER_ERR_NO_MEMORY,
                               "no memory to note who has which part", event,
                               actions);
        return;
    }
    if (fresh && (c->paused || c->phase == MUSTER_PHASE_GATHER)) {
        // Help is on its way: patience starts again.
        muster_act_timer(actions, MUSTER_TIMER_PATIENCE,
                         event->now_ns + c->opts.patience_ns);
    }
    if (awaited) {
        worker->part = MUSTER_ID_ANY;
    }
    // One that was announced may also have been the last that it lacked.
    advance(c, id, event, actions);
}

void muster_workers_have(muster_coordinator *c, uint32_t id,
                         const muster_event *event, muster_actions *actions)
{
    const muster_message *message = event->as.message.message;
    muster_worker_record *worker = &c->workers[id];
    if (message->as.have.part != MUSTER_ID_ANY) {
        have_part(c, id, event, actions);
    } else if (worker->stage == MUSTER_STAGE_SETUP && message->plan == 0) {
        if (muster_workers_send_plan(c, id, &c->plan, event, actions)) {
            worker->stage = MUSTER_STAGE_PLAN;
        }
    } else if (worker->stage == MUSTER_STAGE_PLAN &&
               message->plan == c->plan.number) {
        worker->stage = MUSTER_STAGE_PARTS;
        advance(c, id, event, actions);
    } else if (worker->stage == MUSTER_STAGE_READY &&
               worker->next_stage == MUSTER_NEXT_PLAN &&
               message->plan == c->next.number) {
        worker->next_stage = MUSTER_NEXT_PARTS;
        advance(c, id, event, actions);
    }
}

void muster_workers_part_made(muster_coordinator *c, const muster_event *event,
                              muster_actions *actions)
{
    const muster_job_result *result = &event->as.computed;
    c->joining.part_jobs--;
    if (result->status < 0) {
        muster_coordinator_end(c, result->status, result->text, event, actions);
        return;
    }
    for (uint32_t id = 0; id < c->worker_count; id++) {
        muster_worker_record *worker = &c->workers[id];
        if (worker->part != result->part || worker->part_sent) {
            continue;
        }
        worker->part_sent = true;
        muster_member_mail mail = {.message = {.kind = MUSTER_MSG_PART,
                                               .plan = c->plan.number,
                                               .step = ++worker->stamp,
                                               .as.part.part = result->part},
                                   .payload = muster_blob_ref(result->output)};
        c->traffic.bytes_moved +=
            muster_message_bytes(&mail.message) + result->output->bytes;
        muster_member_send(&c->member, id, &mail, actions);
    }
    serve_parts(c, actions);
}
