/*
 * coordinator_times.c -- how long workers and edges took in the last steps, and
 * the cluster that they make: what plans are made for.
 *
 * Every answer says how long its worker computed. An answer that took several
 * steps counts for each of them, and so does long silence. Edges tell what
 * their workers took (ANSWERS), some steps at a time, and what they took
 * themselves; a worker is silent in the steps that its edge told of.
 *
 * Of times that have changed for good only the new ones count. What a worker
 * takes beyond what its load takes the median worker is held for a delay that
 * comes with any load: whether a smaller load would help cannot be told from
 * one load. Where workers share processors, what the others' work can explain
 * is no delay.
 */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "cluster/file.h"
#include "code/hier.h"
#include "code/numbers.h"
#include "role/coordinator_inside.h"

/* After which silence counts. Less than a worker that was slow needs to show
 * that it is not any more: slowness that wanders is then seen at both ends. */
#define SILENT_STEPS 12u
/* So many answers in a row, all beyond those before by a factor: a change. */
#define CHANGE_STEPS 4u
#define CHANGE_TIMES 2.0
#define ABSENT_S     3600.0

/* The first worker under an edge; without edges, all are 0. */
static uint32_t first_below(const muster_coordinator *c, uint32_t edge)
{
    return c->replanning.edges != NULL ? muster_hier_first(c->plan.hier, edge)
                                       : 0;
}

/* One that the coordinator leads: a worker, or an edge. */
static muster_replan_worker *led(const muster_coordinator *c, uint32_t id)
{
    const muster_replanning *at = &c->replanning;
    return at->edges != NULL ? &at->edges[id] : &at->workers[id];
}

void muster_replan_offered(muster_coordinator *c, uint32_t id, int64_t now_ns)
{
    if (c->replanning.workers == NULL || led(c, id)->owes) {
        return;
    }
    muster_replan_worker *worker = led(c, id);
    worker->owes = true;
    worker->owes_step = c->step;
    worker->owes_ns = now_ns;
}

void muster_replan_joined(muster_coordinator *c, uint32_t id)
{
    muster_replanning *at = &c->replanning;
    if (at->workers == NULL) {
        return;
    }
    led(c, id)->owes = false;
    led(c, id)->told_step = 0;
    for (uint32_t w = first_below(c, id); w < first_below(c, id + 1); w++) {
        at->workers[w].owes = false;
    }
}

static void put(muster_replan_worker *worker, muster_replan_time time,
                uint64_t steps)
{
    steps = steps < MUSTER_REPLAN_STEPS ? steps : MUSTER_REPLAN_STEPS;
    for (uint64_t i = 0; i < steps; i++) {
        worker->times[worker->count++ % MUSTER_REPLAN_STEPS] = time;
    }
}

/* Of a worker under an edge: shards are cut evenly. */
static double load_below(const muster_coordinator *c, uint32_t worker)
{
    const muster_code_info *info = muster_code_numbers(c->plan.hier);
    const uint32_t *parts = NULL;
    uint32_t count = 0;
    muster_status status =
        muster_code_parts(c->plan.hier, worker, &parts, &count);
    return status == MUSTER_OK ? (double)count / info->parts * info->workers
                               : 0;
}

static uint32_t shards_of(const muster_coordinator *c, const uint32_t *parts,
                          uint32_t count)
{
    uint32_t shards = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t *first = &c->plan.first_shard[parts[i]];
        shards += first[1] - first[0];
    }
    return shards;
}

/* Of what a worker's time is told for: with stages, its own share. */
static double load_of(const muster_coordinator *c, uint32_t id)
{
    if (c->replanning.edges != NULL) {
        return load_below(c, id);
    }
    const uint32_t *parts = NULL;
    uint32_t shards = 0;
    if (c->staging.stages == 1) {
        uint32_t count = muster_assignment_parts(&c->plan, id, &parts);
        shards = shards_of(c, parts, count);
    }
    for (uint32_t t = 0; c->staging.stages > 1 && t < c->staging.own; t++) {
        uint32_t answer = c->plan.slot_of[id] * c->staging.stages + t;
        uint32_t count = muster_assignment_answer(&c->plan, answer, &parts);
        shards += shards_of(c, parts, count);
    }
    return (double)shards / c->plan.shards * c->worker_count;
}

void muster_replan_answer(muster_coordinator *c, uint32_t id,
                          const muster_message *message, int64_t now_ns)
{
    if (c->replanning.workers == NULL) {
        return;
    }
    muster_replan_worker *worker = led(c, id);
    uint64_t behind = c->step - message->step;
    bool times = c->replanning.edges == NULL; // edges tell theirs otherwise
    muster_replan_time time = {.load = times ? load_of(c, id) : 0,
                               .s = (double)message->as.gradient.compute_ns *
                                    1e-9};
    // One of an earlier plan had another load.
    if (message->plan == c->plan.number && time.load > 0 && time.s > 0) {
        put(worker, time, behind > 0 ? behind : 1);
    }
    worker->owes = behind > 0; // it begins with a newer model now
    worker->owes_step = c->step;
    worker->owes_ns = now_ns;
}

/* How many steps an answer took that came after its step had ended. */
static uint64_t steps_behind(const muster_coordinator *c,
                             const muster_edge_answer *answer)
{
    int64_t step_ns = muster_wait_median_ns(c);
    return !answer->late || step_ns <= 0
               ? 1
               : 1 + (uint64_t)answer->arrive_us * 1000 / (uint64_t)step_ns;
}

/* The worker, or edge, begins with the step after this one. */
static void owes_after(const muster_coordinator *c, uint64_t step,
                       muster_replan_worker *worker)
{
    uint64_t next = step < c->step ? step + 1 : step;
    worker->owes = true;
    worker->owes_step = next;
    worker->owes_ns = muster_step_begun_ns(c, next);
}

void muster_replan_below(muster_coordinator *c, uint32_t edge, uint32_t plan,
                         const muster_edge_answer *answer)
{
    muster_replanning *at = &c->replanning;
    if (at->edges == NULL) {
        return;
    }
    muster_replan_time time = {.load = 1, .s = answer->compute_us * 1e-6};
    if (answer->step > at->edges[edge].told_step) {
        at->edges[edge].told_step = answer->step;
    }
    if (answer->worker == MUSTER_ID_ANY) {
        put(&at->edges[edge], time, 1);
        return;
    }
    muster_replan_worker *worker = &at->workers[answer->worker];
    time.load = load_of(c, answer->worker);
    if (plan == c->plan.number && time.load > 0 && time.s > 0) {
        put(worker, time, steps_behind(c, answer));
    }
    if (!worker->owes || answer->step >= worker->owes_step) {
        owes_after(c, answer->step, worker);
    }
}

void muster_replan_told(muster_coordinator *c, uint32_t edge)
{
    muster_replanning *at = &c->replanning;
    uint32_t end = first_below(c, edge + 1);
    for (uint32_t w = first_below(c, edge); w < end; w++) {
        if (!at->workers[w].owes) { // not heard in this life of its edge
            owes_after(c, at->edges[edge].told_step, &at->workers[w]);
        }
    }
}

static uint32_t times_of(const muster_replan_worker *worker)
{
    return worker->count < MUSTER_REPLAN_STEPS ? worker->count
                                               : MUSTER_REPLAN_STEPS;
}

/* Do the times that are known of a worker say why it is silent? A newer model
 * ends its work on the last one, so a slow worker is heard no more. */
static bool is_explained(const muster_coordinator *c,
                         const muster_replan_worker *worker)
{
    uint64_t last = c->past.steps + MUSTER_STEP_TIMES - 1;
    double step_s = (double)c->past.step_ns[last % MUSTER_STEP_TIMES] * 1e-9;
    double min = INFINITY;
    for (uint32_t i = 0; i < times_of(worker); i++) {
        min = fmin(min, worker->times[i].s);
    }
    return min > step_s;
}

/* A worker with the answer that it owes as if it came now, in `step`; but one
 * that is beaten by others for a few steps is not slow. */
static void see_silence(const muster_coordinator *c, uint64_t step,
                        muster_replan_time time, muster_replan_worker *worker)
{
    if (worker->owes && step >= worker->owes_step + SILENT_STEPS &&
        time.load > 0 && !is_explained(c, worker)) {
        put(worker, time, step - worker->owes_step);
    }
}

static const muster_replan_time *newest(const muster_replan_worker *worker,
                                        uint32_t back)
{
    return &worker->times[(worker->count - 1 - back) % MUSTER_REPLAN_STEPS];
}

/* Are the newest `count` times all longer than all before, or all shorter? */
static bool is_change(const muster_replan_worker *worker, uint32_t count)
{
    double low[2] = {INFINITY, INFINITY};
    double high[2] = {0, 0};
    for (uint32_t i = 0; i < times_of(worker); i++) {
        double s = newest(worker, i)->s;
        bool before = i >= count;
        low[before] = fmin(low[before], s);
        high[before] = fmax(high[before], s);
    }
    return low[0] > CHANGE_TIMES * high[1] || low[1] > CHANGE_TIMES * high[0];
}

/* The worker without the times before the last change. */
static muster_replan_worker since_change(const muster_replan_worker *worker)
{
    muster_replan_worker since = *worker;
    uint32_t all = times_of(worker);
    uint32_t kept = CHANGE_STEPS;
    while (kept < all && !is_change(worker, kept)) {
        kept++;
    }
    for (uint32_t i = 0; i < kept && kept < all; i++) {
        since.times[i] = *newest(worker, kept - 1 - i);
        since.count = kept;
    }
    return since;
}

static muster_replan_worker seen_now(const muster_coordinator *c, uint32_t id,
                                     int64_t now_ns)
{
    const muster_replanning *at = &c->replanning;
    muster_replan_worker worker = at->workers[id];
    uint64_t step = c->step;
    if (at->edges != NULL) { // its edge has not told of later ones yet
        step = at->edges[muster_hier_edge_of(c->plan.hier, id)].told_step;
        now_ns = muster_step_begun_ns(c, step);
    }
    muster_replan_time time = {.load = load_of(c, id),
                               .s = (double)(now_ns - worker.owes_ns) * 1e-9};
    see_silence(c, step, time, &worker);
    return since_change(&worker);
}

static double min_per_load(const muster_replan_worker *worker)
{
    double min = INFINITY;
    for (uint32_t i = 0; i < times_of(worker); i++) {
        min = fmin(min, worker->times[i].s / worker->times[i].load);
    }
    return min;
}

static int compare(const void *one, const void *two)
{
    double a = *(const double *)one, b = *(const double *)two;
    return (a > b) - (a < b);
}

static bool is_seen(const muster_coordinator *c, uint32_t id)
{
    uint32_t member = c->replanning.edges != NULL
                          ? muster_hier_edge_of(c->plan.hier, id)
                          : id;
    return c->workers[member].stage == MUSTER_STAGE_READY &&
           c->replanning.workers[id].count > 0;
}

/* What load 1 takes the median worker at its best. */
static double median_s(const muster_coordinator *c,
                       const muster_replan_worker *seen)
{
    uint32_t workers = c->replanning.worker_count;
    double *times = muster_mem_array(workers, sizeof(*times));
    size_t count = 0;
    for (uint32_t id = 0; times != NULL && id < workers; id++) {
        if (is_seen(c, id)) {
            times[count++] = min_per_load(&seen[id]);
        }
    }
    double median = INFINITY;
    if (count > 0) {
        qsort(times, count, sizeof(*times), compare);
        median = times[(count - 1) / 2];
    }
    muster_mem_free(times);
    return median;
}

/* `crowd`: workers for each processor, 1 at least. */
static void describe(const muster_replan_worker *seen, double median,
                     double crowd, muster_cluster_worker *worker)
{
    uint32_t count = times_of(seen);
    double shift = fmin(min_per_load(seen), median);
    double min = INFINITY, sum = 0, load = 0;
    for (uint32_t i = 0; i < count; i++) {
        double work = shift * seen->times[i].load;
        double beyond = fmax(seen->times[i].s - crowd * work, 0);
        min = fmin(min, beyond);
        sum += beyond;
        load += seen->times[i].load;
    }
    worker->shift_s = shift;
    worker->mean_s = fmax(sum - min * count, 0) / load;
    worker->link.latency_s = min / 2; // a link is used twice in a step
}

/* Whatever an edge takes comes with every step. */
static double edge_s(const muster_coordinator *c, uint32_t edge, int64_t now_ns)
{
    muster_replan_worker seen = c->replanning.edges[edge];
    muster_replan_time time = {.load = 1,
                               .s = (double)(now_ns - seen.owes_ns) * 1e-9};
    if (c->workers[edge].stage != MUSTER_STAGE_READY) {
        return ABSENT_S;
    }
    see_silence(c, c->step, time, &seen);
    seen = since_change(&seen);
    double sum = 0;
    uint32_t count = times_of(&seen);
    for (uint32_t i = 0; i < count; i++) {
        sum += seen.times[i].s;
    }
    return count > 0 ? sum / count : 0;
}

/* False: out of memory. */
static bool add_edges(const muster_coordinator *c, int64_t now_ns,
                      muster_cluster *cluster)
{
    if (c->replanning.edges == NULL) {
        return true;
    }
    cluster->edges = muster_mem_array(c->worker_count, sizeof(*cluster->edges));
    if (cluster->edges == NULL) {
        return false;
    }
    cluster->edge_count = c->worker_count;
    for (uint32_t e = 0; e < c->worker_count; e++) {
        cluster->edges[e] = (muster_cluster_edge){
            .first = first_below(c, e),
            .workers = first_below(c, e + 1) - first_below(c, e),
            .link.latency_s = edge_s(c, e, now_ns) / 2};
    }
    return true;
}

/* NULL: out of memory, or no worker was seen. */
static muster_cluster *cluster_of(const muster_coordinator *c,
                                  const muster_replan_worker *seen)
{
    double median = median_s(c, seen);
    uint32_t workers = c->replanning.worker_count;
    uint32_t processors = c->opts.processors;
    double crowd = processors > 0 ? fmax((double)workers / processors, 1) : 1;
    muster_cluster *cluster =
        isfinite(median) ? muster_cluster_create(workers) : NULL;
    for (uint32_t id = 0; cluster != NULL && id < workers; id++) {
        if (is_seen(c, id)) {
            describe(&seen[id], median, crowd, &cluster->workers[id]);
        } else {
            cluster->workers[id].shift_s = median;
            cluster->workers[id].link.latency_s =
                c->replanning.edges == NULL ? ABSENT_S / 2 : 0;
        }
    }
    return cluster;
}

muster_cluster *muster_replan_measure(const muster_coordinator *c,
                                      int64_t now_ns)
{
    uint32_t workers = c->replanning.worker_count;
    muster_replan_worker *seen = muster_mem_array(workers, sizeof(*seen));
    if (seen == NULL) {
        return NULL;
    }
    for (uint32_t id = 0; id < workers; id++) {
        seen[id] = seen_now(c, id, now_ns);
    }
    muster_cluster *cluster = cluster_of(c, seen);
    muster_mem_free(seen);
    if (cluster != NULL) {
        cluster->processors = c->opts.processors;
    }
    if (cluster != NULL && !add_edges(c, now_ns, cluster)) {
        muster_cluster_free(cluster);
        cluster = NULL;
    }
    return cluster;
}
