/*
 * coordinator_workers.c -- workers from JOINED to READY: setup, plan, shards;
 * and the shards of the next plan for workers that are ready.
 *
 * Each stage ends with a HAVE of the worker, so no message of a later stage can
 * overtake one of an earlier. A worker has at most MUSTER_SHARDS_UNDER_WAY
 * shards under way, and the coordinator at most MUSTER_SHARD_JOBS in the
 * making, so joining costs bounded memory and never keeps an UPDATE waiting for
 * long. Workers that lack a shard wait in a line, and each is given one at a
 * time in turn. A shard that several workers wait for is made once.
 *
 * `held` is what the worker surely has: a shard enters it by the HAVE that says
 * back the stamp it was sent with (or is announced by a worker that returns,
 * with stamp 0, before it is ready), and leaves it when FORGET is sent. A shard
 * is held or under way, never both: else the HAVE of one that was announced and
 * sent as well could put it back after its FORGET. Shards are the same under
 * every plan, so a worker is sent what it lacks, whichever code asks for it.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "role/coordinator_inside.h"
#include "role/edge_inside.h"

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

/* Where `shard` is in `held`, or would be. */
static size_t held_at(const muster_worker_record *worker, uint32_t shard)
{
    const uint32_t *held = worker->held.data;
    size_t low = 0;
    size_t high = worker->held.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (held[middle] < shard) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool holds(const muster_worker_record *worker, uint32_t shard)
{
    const uint32_t *held = worker->held.data;
    size_t at = held_at(worker, shard);
    return at < worker->held.count && held[at] == shard;
}

static bool note_held(muster_worker_record *worker, uint32_t shard)
{
    size_t at = held_at(worker, shard);
    size_t after = worker->held.count - at;
    if (muster_vec_push(&worker->held) == NULL) {
        return false;
    }
    uint32_t *held = worker->held.data;
    memmove(held + at + 1, held + at, after * sizeof(*held));
    held[at] = shard;
    return true;
}

static muster_shard_under_way *under_way(muster_worker_record *worker,
                                         uint32_t shard)
{
    for (uint32_t i = 0; i < worker->under_way_count; i++) {
        if (worker->under_way[i].shard == shard) {
            return &worker->under_way[i];
        }
    }
    return NULL;
}

/* The first shard, by turns, that the worker neither holds nor has under way,
 * or MUSTER_ID_ANY. */
static uint32_t lacking(muster_coordinator *c, uint32_t id)
{
    muster_worker_record *worker = &c->workers[id];
    uint32_t turns = muster_plan_turns(c);
    if (muster_coordinator_leads_edges(c)) {
        return muster_edges_lacking(worker);
    }
    while (worker->walk_turn < turns) {
        const muster_assignment *plan = NULL;
        uint32_t slot = muster_plan_slot(c, id, worker->walk_turn, &plan);
        uint32_t shard =
            muster_assignment_slot_shard(plan, slot, &worker->walk);
        if (shard == MUSTER_ID_ANY) {
            worker->walk_turn++;
            worker->walk = (muster_shard_walk){0};
        } else if (holds(worker, shard) || under_way(worker, shard) != NULL) {
            worker->walk.shard++;
        } else {
            return shard;
        }
    }
    return MUSTER_ID_ANY;
}

static bool turn_asks(const muster_coordinator *c, uint32_t id, uint32_t turn,
                      uint32_t shard)
{
    const muster_assignment *plan = NULL;
    uint32_t slot = muster_plan_slot(c, id, turn, &plan);
    return muster_assignment_slot_asks(plan, slot, shard);
}

/* Does the worker hold the shards of the turns up to this one? */
static bool holds_turn(muster_coordinator *c, uint32_t id, uint32_t turn)
{
    const muster_worker_record *worker = &c->workers[id];
    if (muster_coordinator_leads_edges(c)) {
        return true; // an edge holds none; its workers do
    }
    (void)lacking(c, id);
    if (worker->walk_turn <= turn) {
        return false;
    }
    for (uint32_t i = 0; i < worker->under_way_count; i++) {
        for (uint32_t j = 0; j <= turn; j++) {
            if (turn_asks(c, id, j, worker->under_way[i].shard)) {
                return false;
            }
        }
    }
    return true;
}

bool muster_workers_is_ahead(muster_coordinator *c, uint32_t id)
{
    return c->workers[id].plan_has >= c->next.number && holds_turn(c, id, 1);
}

static bool is_asked_for(const muster_coordinator *c, uint32_t id,
                         uint32_t shard)
{
    uint32_t turns = muster_plan_turns(c);
    for (uint32_t turn = 0; turn < turns; turn++) {
        if (turn_asks(c, id, turn, shard)) {
            return true;
        }
    }
    return false;
}

/* Have a worker under the plan in force drop the shards that no turn asks for.
 */
static void tidy(muster_coordinator *c, uint32_t id, muster_actions *actions)
{
    muster_worker_record *worker = &c->workers[id];
    uint32_t *held = worker->held.data;
    size_t kept = 0;
    for (size_t i = 0; i < worker->held.count; i++) {
        if (is_asked_for(c, id, held[i])) {
            held[kept++] = held[i];
            continue;
        }
        muster_member_mail mail = {.message = {.kind = MUSTER_MSG_FORGET,
                                               .plan = c->plan.number,
                                               .step = ++worker->stamp,
                                               .as.shard.shard = held[i]}};
        muster_member_send(&c->member, id, &mail, actions);
    }
    worker->held.count = kept;
}

static void forget_plans(muster_worker_record *worker)
{
    worker->behind = worker->answered = false;
    worker->plan_sent = worker->plan_has = 0;
    worker->walk_turn = 0;
    worker->walk = (muster_shard_walk){0};
    worker->under_way_count = 0;
    worker->want_count = 0;
    worker->want_stamp = worker->want_seen = 0;
}

void muster_workers_joined(muster_coordinator *c, uint32_t id,
                           const muster_event *event, muster_actions *actions)
{
    muster_worker_record *worker = &c->workers[id];
    worker->stage = MUSTER_STAGE_SETUP;
    forget_plans(worker);
    worker->stamp = 0;
    worker->heard_steps = 0;
    worker->heard_stages = 0;
    muster_replan_joined(c, id);
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
    forget_plans(worker);
    muster_watch_lost(c->watch, id);
    if (c->async != NULL) {
        muster_async_lost(c, id);
    }
    if (c->gossip != NULL) {
        muster_gossip_lead_lost(c, id);
    }
    if (c->phase >= MUSTER_PHASE_FAREWELL) {
        return; // it went because it was told to
    }
    report_change(id, c, MUSTER_WORKER_LOST, reason, event->now_ns, actions);
    muster_begun_lost(c, id, actions);
    muster_staging_lost(c, id, event, actions);
    muster_step_try(c, event, actions);
    muster_coordinator_review(c, event, actions);
}

/* Send the plan of a turn of muster_plan_slot(); false: no memory, and the run
 * ends. */
static bool send_plan(muster_coordinator *c, uint32_t id, uint32_t turn,
                      const muster_event *event, muster_actions *actions)
{
    const muster_assignment *plan = NULL;
    uint32_t slot = muster_plan_slot(c, id, turn, &plan);
    uint32_t number = muster_plan_number(c, turn);
    muster_blob *terms = muster_coordinator_leads_edges(c)
                             ? muster_edges_plan(c, plan, slot)
                             : muster_assignment_slot_terms(plan, slot);
    if (terms == NULL) {
        muster_coordinator_end(c, MUSTER_ERR_NO_MEMORY, "no memory for a plan",
                               event, actions);
        return false;
    }
    muster_member_mail mail = {
        .message = {.kind = MUSTER_MSG_PLAN, .plan = number}, .payload = terms};
    if (plan->info.stages > 1) {
        mail.message.kind = MUSTER_MSG_SCHEDULE;
        mail.message.as.schedule.stages = plan->info.stages;
        mail.message.as.schedule.own = plan->info.own_stages;
        mail.message.as.schedule.begun = muster_staging_is_eager(c, plan->code)
                                             ? plan->info.stages
                                             : plan->info.own_stages;
    }
    muster_member_send(&c->member, id, &mail, actions);
    c->workers[id].plan_sent = number;
    return true;
}

/* Send the plan that it lacks, that in force first. One at a time: nothing
 * keeps them in order. As send_plan(). */
static bool send_next_plan(muster_coordinator *c, uint32_t id,
                           const muster_event *event, muster_actions *actions)
{
    const muster_worker_record *worker = &c->workers[id];
    if (worker->plan_has != worker->plan_sent) {
        return true;
    }
    if (worker->plan_has < c->plan.number) {
        return send_plan(c, id, 0, event, actions);
    }
    uint32_t turn = 1;
    while (muster_plan_number(c, turn) <= worker->plan_has) {
        turn++;
    }
    return muster_plan_number(c, turn) > c->shuffling.announced ||
           send_plan(c, id, turn, event, actions);
}

static void become_ready(muster_coordinator *c, uint32_t id,
                         const muster_event *event, muster_actions *actions)
{
    c->workers[id].stage = MUSTER_STAGE_READY;
    c->joining.ready++;
    c->joining.ready_ns = event->now_ns;
    report_change(id, c, MUSTER_WORKER_READY, "", event->now_ns, actions);
    tidy(c, id, actions);
    if (c->phase == MUSTER_PHASE_COLLECT) {
        muster_step_offer(c, id, event->now_ns, actions);
    }
    if (c->gossip != NULL) {
        muster_step_try(c, event, actions); // all others may be gone
    }
    muster_coordinator_review(c, event, actions);
}

/* A worker that was behind has the plan in force and its shards. */
static void catch_up(muster_coordinator *c, uint32_t id,
                     const muster_event *event, muster_actions *actions)
{
    c->workers[id].behind = false;
    tidy(c, id, actions);
    if (c->phase == MUSTER_PHASE_COLLECT) {
        muster_step_offer(c, id, event->now_ns, actions);
    }
}

/* The job that makes `shard`, a free one, or NULL. */
static muster_shard_job *job_for(muster_coordinator *c, uint32_t shard)
{
    muster_shard_job *idle = NULL;
    for (uint32_t i = 0; i < MUSTER_SHARD_JOBS; i++) {
        muster_shard_job *job = &c->joining.jobs[i];
        if (job->shard == shard) {
            return job;
        }
        idle = job->shard == MUSTER_ID_ANY ? job : idle;
    }
    return idle;
}

/* Put the worker at the end of the line, unless it waits already. */
static void stand_in_line(muster_coordinator *c, uint32_t id)
{
    muster_joining *joining = &c->joining;
    muster_worker_record *worker = &c->workers[id];
    if (worker->waits) {
        return;
    }
    worker->waits = true;
    worker->waits_next = MUSTER_ID_ANY;
    if (joining->first == MUSTER_ID_ANY) {
        joining->first = id;
    } else {
        c->workers[joining->last].waits_next = id;
    }
    joining->last = id;
}

/* Have the shard made for the worker; false when out of memory. */
static bool make_for(muster_coordinator *c, uint32_t id, uint32_t shard,
                     muster_shard_job *making, muster_actions *actions)
{
    muster_worker_record *worker = &c->workers[id];
    if (!muster_vec_append(&making->takers, &id, 1)) {
        return false;
    }
    worker->under_way[worker->under_way_count++] =
        (muster_shard_under_way){.shard = shard};
    if (making->shard == MUSTER_ID_ANY && c->edge != NULL) {
        making->shard = shard;
        return muster_edge_want(c->edge, shard, actions);
    }
    if (making->shard == MUSTER_ID_ANY) {
        making->shard = shard;
        muster_job *job =
            muster_act_compute(actions, MUSTER_JOB_SHARD, ++c->jobs.ids);
        job->shard = shard;
    }
    return true;
}

/* From which stage on one that joins is sent shards. An edge's workers need
 * theirs before it is ready. */
static muster_worker_stage takes_from(const muster_coordinator *c)
{
    return muster_coordinator_leads_edges(c) ? MUSTER_STAGE_PLAN
                                             : MUSTER_STAGE_PARTS;
}

/* Start making shards for the workers in line. */
static void serve(muster_coordinator *c, const muster_event *event,
                  muster_actions *actions)
{
    while (c->joining.first != MUSTER_ID_ANY) {
        uint32_t id = c->joining.first;
        muster_worker_record *worker = &c->workers[id];
        bool takes = worker->stage >= takes_from(c) &&
                     worker->under_way_count < MUSTER_SHARDS_UNDER_WAY;
        uint32_t shard = takes ? lacking(c, id) : MUSTER_ID_ANY;
        muster_shard_job *making =
            shard != MUSTER_ID_ANY ? job_for(c, shard) : NULL;
        if (shard != MUSTER_ID_ANY && making == NULL) {
            return;
        }
        c->joining.first = worker->waits_next;
        worker->waits = false;
        if (making != NULL) {
            if (!make_for(c, id, shard, making, actions)) {
                muster_coordinator_end(c, MUSTER_ERR_NO_MEMORY,
                                       "no memory to move a shard", event,
                                       actions);
                return;
            }
            stand_in_line(c, id);
        }
    }
}

/* What this worker lacks next: a plan, shards; or nothing more to be ready. */
static void advance(muster_coordinator *c, uint32_t id,
                    const muster_event *event, muster_actions *actions)
{
    muster_worker_record *worker = &c->workers[id];
    if (worker->stage < MUSTER_STAGE_PARTS ||
        !send_next_plan(c, id, event, actions)) {
        return;
    }
    if (worker->under_way_count < MUSTER_SHARDS_UNDER_WAY &&
        lacking(c, id) != MUSTER_ID_ANY) {
        stand_in_line(c, id);
        serve(c, event, actions);
    }
    bool waits = worker->stage == MUSTER_STAGE_PARTS || worker->behind;
    if (!waits || worker->plan_has < c->plan.number || !holds_turn(c, id, 0)) {
        return;
    }
    if (worker->behind) {
        catch_up(c, id, event, actions);
    } else {
        become_ready(c, id, event, actions);
    }
}

void muster_workers_follow(muster_coordinator *c, uint32_t id, bool adopted,
                           const muster_event *event, muster_actions *actions)
{
    muster_worker_record *worker = &c->workers[id];
    worker->walk_turn = 0;
    worker->walk = (muster_shard_walk){0};
    if (adopted && worker->stage == MUSTER_STAGE_READY) {
        worker->behind =
            worker->plan_has < c->plan.number || !holds_turn(c, id, 0);
        if (!worker->behind) {
            tidy(c, id, actions);
        }
    }
    advance(c, id, event, actions);
}

static void have_shard(muster_coordinator *c, uint32_t id,
                       const muster_event *event, muster_actions *actions)
{
    const muster_message *message = event->as.message.message;
    uint32_t shard = message->as.have.shard;
    muster_worker_record *worker = &c->workers[id];
    muster_shard_under_way *awaited = under_way(worker, shard);
    bool announced = message->step == 0 && worker->stage < MUSTER_STAGE_READY;
    bool arrived = message->step != 0 && awaited != NULL &&
                   message->step == awaited->stamp;
    if (shard >= c->plan.shards || (!announced && !arrived)) {
        return;
    }
    bool fresh = !holds(worker, shard);
    if (fresh && !note_held(worker, shard)) {
        muster_coordinator_end(c, MUSTER_ERR_NO_MEMORY,
                               "no memory to note who has which shard", event,
                               actions);
        return;
    }
    if (fresh && (c->paused || c->phase == MUSTER_PHASE_GATHER)) {
        // Help is on its way: patience starts again.
        c->patiences = 0;
        muster_act_timer(actions, MUSTER_TIMER_PATIENCE,
                         event->now_ns + c->opts.patience_ns);
    }
    if (awaited != NULL) { // held now, whichever HAVE said so
        *awaited = worker->under_way[--worker->under_way_count];
    }
    // One that was announced may also have been the last that it lacked.
    advance(c, id, event, actions);
}

void muster_workers_have(muster_coordinator *c, uint32_t id,
                         const muster_event *event, muster_actions *actions)
{
    const muster_message *message = event->as.message.message;
    muster_worker_record *worker = &c->workers[id];
    if (message->as.have.shard != MUSTER_ID_ANY) {
        have_shard(c, id, event, actions);
    } else if (worker->stage == MUSTER_STAGE_SETUP && message->plan == 0) {
        if (send_plan(c, id, 0, event, actions)) {
            worker->stage = MUSTER_STAGE_PLAN;
        }
    } else if (worker->stage >= MUSTER_STAGE_PLAN &&
               message->plan == worker->plan_sent &&
               message->plan > worker->plan_has) {
        worker->plan_has = message->plan;
        if (worker->stage == MUSTER_STAGE_PLAN) {
            worker->stage = MUSTER_STAGE_PARTS;
        }
        advance(c, id, event, actions);
    }
    if (c->edge != NULL && c->next.number != 0) {
        muster_edge_review(c->edge, event, actions); // it may be ready above
    }
}

/* Send a shard that was made to a worker that waits for it. */
static void send_shard(muster_coordinator *c, uint32_t id,
                       const muster_job_result *made, muster_actions *actions)
{
    muster_worker_record *worker = &c->workers[id];
    muster_shard_under_way *wanted = under_way(worker, made->shard);
    if (wanted == NULL || wanted->stamp != 0) {
        return; // lost meanwhile, or asked for twice in two lives
    }
    wanted->stamp = ++worker->stamp;
    muster_member_mail mail = {.message = {.kind = MUSTER_MSG_SHARD,
                                           .plan = c->plan.number,
                                           .step = wanted->stamp,
                                           .as.shard.shard = made->shard},
                               .payload = muster_blob_ref(made->output)};
    c->traffic.bytes_moved +=
        muster_message_bytes(&mail.message) + made->output->bytes;
    muster_member_send(&c->member, id, &mail, actions);
    if (muster_coordinator_leads_edges(c)) {
        muster_edges_sent(worker, made->shard); // an edge keeps none
        *wanted = worker->under_way[--worker->under_way_count];
    }
}

void muster_workers_want(muster_coordinator *c, uint32_t id,
                         const muster_event *event, muster_actions *actions)
{
    const muster_message *message = event->as.message.message;
    muster_worker_record *edge = &c->workers[id];
    if (!muster_coordinator_leads_edges(c) || edge->stage < takes_from(c) ||
        message->as.shard.shard >= c->plan.shards ||
        !muster_edges_want(edge, message->as.shard.shard, message->step)) {
        return;
    }
    if (c->paused || c->phase == MUSTER_PHASE_GATHER) {
        // Help is on its way: patience starts again.
        muster_act_timer(actions, MUSTER_TIMER_PATIENCE,
                         event->now_ns + c->opts.patience_ns);
    }
    stand_in_line(c, id);
    serve(c, event, actions);
}

void muster_workers_shard_made(muster_coordinator *c, const muster_event *event,
                               muster_actions *actions)
{
    const muster_job_result *result = &event->as.computed;
    muster_shard_job *making = job_for(c, result->shard);
    if (result->status < 0) {
        muster_coordinator_end(c, result->status, result->text, event, actions);
        return;
    }
    const uint32_t *takers = making->takers.data;
    for (size_t i = 0; i < making->takers.count; i++) {
        send_shard(c, takers[i], result, actions);
    }
    muster_vec_clear(&making->takers);
    making->shard = MUSTER_ID_ANY;
    serve(c, event, actions);
}
