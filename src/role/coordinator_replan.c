/*
 * coordinator_replan.c -- which code, by the times that workers take.
 *
 * The times of the last steps make a cluster (coordinator_times.c), and a PLAN
 * job says which code suits it.
 *
 * So that noise does not move data to and fro:
 *   1. There is no plan unless some worker's time has changed by a quarter
 *      since the last one.
 *   2. A code takes the place of another only where a step is expected to take
 *      a tenth less; after the first plan, only where two in a row say so.
 *   3. Steps wait for a PLAN job: they take a fiftieth of the time at most.
 *      What they did not take in a quiet time, a few may take after a change.
 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cluster/file.h"
#include "code/hier.h"
#include "code/numbers.h"
#include "role/coordinator_inside.h"

/* Of the steps before the first plan, a few show how a run begins. */
#define FIRST_STEPS (MUSTER_REPLAN_STEPS + 4)
/* Steps from one plan to the next. */
#define NEXT_STEPS 8u
#define GAIN       0.9
#define CHANGED    0.25
#define VOTES      2u
#define JOB_SHARE  50
/* PLAN jobs that may be saved up. */
#define JOBS_SAVED 3

muster_status muster_replan_init(muster_coordinator *c)
{
    if (!c->opts.replan) {
        return MUSTER_OK;
    }
    muster_replanning *at = &c->replanning;
    at->next_step = c->step + FIRST_STEPS;
    at->worker_count = c->worker_count;
    if (muster_coordinator_leads_edges(c)) {
        at->worker_count = muster_code_numbers(c->plan.hier)->workers;
        at->edges = muster_mem_array(c->worker_count, sizeof(*at->edges));
        if (at->edges == NULL) {
            return MUSTER_ERR_NO_MEMORY;
        }
    }
    at->workers = muster_mem_array(at->worker_count, sizeof(*at->workers));
    return at->workers != NULL ? MUSTER_OK : MUSTER_ERR_NO_MEMORY;
}

void muster_replan_fini(muster_coordinator *c)
{
    muster_mem_free(c->replanning.workers);
    muster_mem_free(c->replanning.edges);
    c->replanning.workers = c->replanning.edges = NULL;
}

/* Of load 1. */
static double step_s(const muster_cluster_worker *worker)
{
    return worker->shift_s + worker->mean_s + 2 * worker->link.latency_s;
}

static bool is_other(double before, double now)
{
    return fabs(now - before) > CHANGED * fmax(now, before);
}

/* Since the last plan, for some worker or edge. */
static bool has_changed(const muster_coordinator *c,
                        const muster_cluster *cluster)
{
    const muster_replanning *at = &c->replanning;
    bool changed = false;
    double longest = 0;
    for (uint32_t id = 0; id < cluster->worker_count; id++) {
        double now = step_s(&cluster->workers[id]);
        changed |= is_other(at->workers[id].planned_s, now);
        longest = fmax(longest, now);
    }
    for (uint32_t e = 0; e < cluster->edge_count; e++) {
        // What an edge takes comes on top of its workers' times.
        double now = 2 * cluster->edges[e].link.latency_s;
        changed |= is_other(at->edges[e].planned_s + longest, now + longest);
    }
    return changed;
}

static muster_blob *text_blob(const muster_cluster *cluster)
{
    char *text = muster_cluster_text(cluster);
    size_t bytes = text != NULL ? strlen(text) + 1 : 0;
    muster_blob *blob = text != NULL ? muster_blob_create(bytes) : NULL;
    if (blob != NULL) {
        memcpy(blob->data, text, bytes);
    }
    muster_mem_free(text);
    return blob;
}

static void ask(muster_coordinator *c, const muster_cluster *cluster,
                muster_actions *actions)
{
    c->replanning.job = ++c->jobs.ids;
    for (uint32_t id = 0; id < cluster->worker_count; id++) {
        c->replanning.workers[id].planned_s = step_s(&cluster->workers[id]);
    }
    for (uint32_t e = 0; e < cluster->edge_count; e++) {
        c->replanning.edges[e].planned_s = 2 * cluster->edges[e].link.latency_s;
    }
    muster_job *job =
        muster_act_compute(actions, MUSTER_JOB_PLAN, c->replanning.job);
    job->step = c->step;
    job->code = muster_coordinator_code(c);
    job->input = text_blob(cluster);
}

void muster_replan_ask(muster_coordinator *c, int64_t now_ns,
                       muster_actions *actions)
{
    muster_replanning *at = &c->replanning;
    bool busy = at->job != 0 || c->recoding.code != NULL || c->next.number != 0;
    if (at->workers == NULL || busy || c->step < at->next_step ||
        now_ns < at->next_ns || c->step + 2 >= c->opts.last_step) {
        return;
    }
    muster_cluster *cluster = muster_replan_measure(c, now_ns);
    if (cluster != NULL && (at->votes > 0 || has_changed(c, cluster))) {
        ask(c, cluster, actions);
    }
    muster_cluster_free(cluster);
    at->next_step = c->step + NEXT_STEPS;
}

/* Is the code that was planned worth moving data for? */
static bool is_worth(const muster_coordinator *c,
                     const muster_job_result *result)
{
    // NAN: the plan knows nothing of the code in force.
    bool gains = isnan(result->in_force_ms) ||
                 result->expected_ms < GAIN * result->in_force_ms;
    return gains && result->code != muster_coordinator_code(c) &&
           muster_code_numbers(result->code)->parts <= c->plan.shards;
}

static void change(muster_coordinator *c, const muster_event *event,
                   muster_actions *actions)
{
    const muster_job_result *result = &event->as.computed;
    muster_error error = {.text = ""};
    muster_status status = muster_recode_to(c, result->code, &error);
    if (status < 0) {
        muster_coordinator_end(c, status, "no memory for another code", event,
                               actions);
        return;
    }
    c->replanning.votes = 0;
    muster_act_notice(actions, event->now_ns, MUSTER_LOG_INFO,
                      "step %llu: code %s: steps of %.3g ms are expected, not "
                      "of %.3g ms",
                      (unsigned long long)c->step, result->text,
                      result->expected_ms, result->in_force_ms);
}

static void tell_first(const muster_coordinator *c, const muster_event *event,
                       muster_actions *actions)
{
    muster_act_notice(actions, event->now_ns, MUSTER_LOG_INFO,
                      "step %llu: code %s stays: no other is expected to make "
                      "steps of %.3g ms a tenth shorter",
                      (unsigned long long)c->step,
                      muster_code_numbers(muster_coordinator_code(c))->name,
                      event->as.computed.in_force_ms);
}

/* The next plan waits until this one has been paid for. */
static void pay(muster_replanning *at, int64_t now_ns, int64_t busy_ns)
{
    int64_t price_ns = JOB_SHARE * busy_ns;
    int64_t saved_ns = now_ns - JOBS_SAVED * price_ns;
    at->next_ns = (at->next_ns > saved_ns ? at->next_ns : saved_ns) + price_ns;
}

void muster_replan_done(muster_coordinator *c, const muster_event *event,
                        muster_actions *actions)
{
    const muster_job_result *result = &event->as.computed;
    muster_replanning *at = &c->replanning;
    if (result->id != at->job || c->end.begun) {
        return;
    }
    at->job = 0;
    pay(at, event->now_ns, result->busy_ns);
    if (result->status < 0) {
        muster_act_notice(actions, event->now_ns, MUSTER_LOG_WARN,
                          "step %llu: the code stays, for there is no plan: "
                          "%.120s",
                          (unsigned long long)c->step, result->text);
        at->votes = 0;
        return;
    }
    bool first = !at->planned;
    at->planned = true;
    at->votes = is_worth(c, result) ? at->votes + 1 : 0;
    if (at->votes > 0 && (first || at->votes >= VOTES)) {
        change(c, event, actions);
    } else if (first) {
        tell_first(c, event, actions);
    }
}
