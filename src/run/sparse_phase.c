/*
 * sparse_phase.c -- the threads of a run: one each for an epoch or an
 * evaluation, gone when it ends.
 *
 * The calling thread only watches: it logs progress, and stops the worker
 * threads after a signal. A worker ends its phase by writing its sums to a row
 * of a table of sums and waiting at a barrier; node 0 then adds up the rows.
 * Two sets of rows take turns, so that a fast node cannot overwrite what node 0
 * has not read yet. Node 0 owns all these rows.
 *
 * The work is cut into as many parts as there were workers at first. A worker
 * of a live node does its own part; the parts of lost nodes are assigned to the
 * workers that are left. All nodes know which nodes met at the last barrier, so
 * all assign the parts alike. Parts that a lost node had not finished are done
 * in one more round.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/log.h"
#include "proc/signals.h"
#include "ps/node/inside.h"
#include "run/progress.h"
#include "run/sparse_run.h"

#define WATCH_NS (200 * MUSTER_NS_PER_MS)
#define END_NS   (5 * MUSTER_NS_PER_S) // for workers to end after a failure

/* Keys that are 0 modulo the nodes have node 0 as home and owner. */
static uint32_t sums_row(const muster_task_run *run, uint32_t worker)
{
    return (worker + run->phase.count % 2 * run->parts) * run->nodes;
}

static bool member(uint64_t members, const muster_task_run *run,
                   uint32_t worker)
{
    MUSTER_ASSERT(run->threads > 0);
    return (members >> (worker / run->threads) & 1) != 0;
}

/* The worker thread, counted over all nodes, that does a part in this
 * round. */
static uint32_t worker_of(const muster_task_run *run, uint32_t part)
{
    uint32_t before = 0;  // parts without a node of their own, up to this one
    uint32_t workers = 0; // of the nodes that are left
    if (member(run->phase.members, run, part)) {
        return part;
    }
    for (uint32_t i = 0; i < run->parts; i++) {
        bool here = member(run->phase.members, run, i);
        workers += here;
        before += !here && i < part && run->phase.todo[i];
    }
    MUSTER_ASSERT(workers > 0); // this node is a member
    uint32_t turn = before % workers;
    for (uint32_t i = 0;; i++) {
        if (member(run->phase.members, run, i) && turn-- == 0) {
            return i;
        }
    }
}

static void pack(const double *values, uint32_t count, float *pairs_out)
{
    for (uint32_t i = 0; i < count; i++) {
        float *pair = pairs_out + (size_t)2 * i;
        pair[0] = (float)values[i];
        pair[1] = (float)(values[i] - (double)pair[0]);
    }
}

static void add_packed(const float *pairs, uint32_t count, double *sums)
{
    for (uint32_t i = 0; i < count; i++) {
        const float *pair = pairs + (size_t)2 * i;
        sums[i] += (double)pair[0] + (double)pair[1];
    }
}

/* Put a thread's sums where node 0 finds them, and wait for all others. */
static muster_status share_sums(muster_task_thread *s)
{
    float row[MUSTER_TASK_SUM_FLOATS];
    uint32_t key = sums_row(s->run, s->part);
    pack(s->sums.value, MUSTER_TASK_METRICS_MAX, row);
    pack(s->costs.value, MUSTER_COSTS,
         row + (size_t)2 * MUSTER_TASK_METRICS_MAX);
    muster_status status =
        muster_ps_set(s->worker, s->run->sums_table, &key, 1, row);
    return status == MUSTER_OK ? muster_ps_meet(s->worker, s->until) : status;
}

/* Add what the threads of the nodes that met have found. */
static muster_status gather_sums(muster_task_run *run, uint64_t met,
                                 muster_task_sums *sums)
{
    for (uint32_t worker = 0; worker < run->parts; worker++) {
        float row[MUSTER_TASK_SUM_FLOATS];
        uint32_t key = sums_row(run, worker);
        if (!member(met, run, worker)) {
            continue;
        }
        muster_status status = muster_ps_pull(run->workers[0].worker,
                                              run->sums_table, &key, 1, row);
        if (status != MUSTER_OK) {
            return status;
        }
        add_packed(row, MUSTER_TASK_METRICS_MAX, sums->value);
        add_packed(row + (size_t)2 * MUSTER_TASK_METRICS_MAX, MUSTER_COSTS,
                   run->results.costs.value);
    }
    return MUSTER_OK;
}

/* Does every thread of all nodes have its own part to do, and no other? */
static bool all_together(const muster_task_run *run)
{
    bool all = true;
    for (uint32_t part = 0; part < run->parts; part++) {
        all = all && run->phase.todo[part] &&
              member(run->phase.members, run, part);
    }
    return all;
}

/* The parts that are this thread's in this round. */
static muster_status do_parts(muster_task_thread *s)
{
    const muster_task_run *run = s->run;
    muster_status status = MUSTER_OK;
    for (uint32_t part = 0; part < run->parts && status == MUSTER_OK; part++) {
        if (!run->phase.todo[part] || worker_of(run, part) != s->part) {
            continue;
        }
        muster_task_share share = {.part = part,
                                   .parts = run->parts,
                                   .epoch = s->epoch,
                                   .together = all_together(run),
                                   .final = s->final,
                                   .done =
                                       s->evaluate ? NULL : &s->run->phase.done,
                                   .stop = &s->run->phase.stop};
        status = (s->evaluate ? run->ops->evaluate : run->ops->work)(
            run->task, s->worker, &share, &s->sums);
    }
    return status;
}

/* Make the workers stop, also those that wait at the barrier for others that
 * will not come any more. */
static void stop_phase(muster_task_run *run)
{
    atomic_store(&run->phase.stop, 1);
    muster_ps_barrier_cancel(run->ps);
}

static void end_worker(muster_task_run *run)
{
    atomic_fetch_sub(&run->phase.running, 1);
    muster_net_wake(run->net);
}

/* All that a worker does in a phase. */
static muster_status do_phase(muster_task_thread *s)
{
    if (s->leave) {
        return muster_ps_meet(s->worker, s->until);
    }
    int64_t start = muster_clock_ns();
    muster_status status = do_parts(s);
    muster_task_costs_take(s, start);
    if (status == MUSTER_OK) {
        status = share_sums(s);
    }
    if (status < 0) {
        stop_phase(s->run);
    }
    return status;
}

static void *run_worker(void *argument)
{
    muster_task_thread *s = argument;
    uint32_t number = (uint32_t)(s - s->run->workers);
    muster_stall_begin(&s->run->stall, number, s->worker);
    (void)pthread_setname_np(pthread_self(), "ps-worker");
    s->status = do_phase(s);
    end_worker(s->run);
    return NULL;
}

uint64_t muster_task_node_units(const muster_task_run *run, uint32_t node)
{
    uint64_t sum = 0;
    if (run->ops->part_units == NULL) {
        return run->ops->units(run->task) / run->nodes + run->threads;
    }
    for (uint32_t i = 0; i < run->threads; i++) {
        sum += run->ops->part_units(run->task, node * run->threads + i,
                                    run->parts);
    }
    return sum;
}

static void tell(const muster_task_run *run, uint32_t epoch, int64_t since_ns)
{
    double all = (double)run->ops->units(run->task);
    double own = (double)muster_task_node_units(run, run->node);
    double share = (double)atomic_load(&run->phase.done) / (own > 0 ? own : 1);
    double done = all * (share < 1 ? share : 1); // more where others were lost
    double s = (double)(muster_clock_ns() - since_ns) / 1e9;
    double rate = done / (s > 0 ? s : 1);
    double left = all * run->epochs - all * epoch - done;
    char eta[32];
    muster_progress_duration(rate > 0 ? left / rate : NAN, eta, sizeof(eta));
    muster_log(MUSTER_LOG_PROGRESS,
               "epoch %" PRIu32 "/%" PRIu32 "  %3.0f%%  %.3g %s/s  ETA %s",
               epoch + 1, run->epochs, 100 * done / all, rate, run->ops->unit,
               eta);
}

static _Noreturn void end_without_workers(const muster_task_run *run)
{
    muster_log(MUSTER_LOG_ERROR,
               "worker threads of node %" PRIu32
               " do not end: the process ends without them",
               run->node);
    muster_signals_exit(muster_status_exit_code(muster_signals_stop_asked()
                                                    ? MUSTER_ERR_INTERRUPTED
                                                    : MUSTER_ERR_QUORUM));
}

/* A worker thread that stands still can be neither ended nor joined. When the
 * run is over for it, the process waits for END_NS and ends without it; at once
 * when it stands still as the driver, since nobody hears of this node then.
 * Returns since when the run is over; INT64_MAX: it is not. */
static int64_t end_in_time(muster_task_run *run, int64_t over_ns)
{
    int64_t now = muster_clock_ns();
    const muster_mesh *mesh = run->ps->mesh;
    bool failed = mesh != NULL && muster_mesh_has_failed(mesh);
    if (mesh != NULL && !failed &&
        muster_stall_driver_stalls(&run->stall, now)) {
        muster_log(MUSTER_LOG_ERROR,
                   "node %" PRIu32 " is lost: its network stands still, held "
                   "by a thread that does",
                   run->node);
        end_without_workers(run);
    }
    if (!failed && !muster_signals_stop_asked()) {
        return INT64_MAX;
    }
    over_ns = over_ns < now ? over_ns : now;
    if (now - over_ns >= END_NS) {
        end_without_workers(run);
    }
    return over_ns;
}

/* Wait for the workers of a phase and stop them after a signal. The end of a
 * worker and a signal both wake this thread. */
static void watch(muster_task_run *run, uint32_t epoch, bool telling)
{
    int64_t since = muster_clock_ns();
    int64_t told = since;
    int64_t over = INT64_MAX;
    while (atomic_load(&run->phase.running) > 0) {
        (void)!muster_net_poll(run->net, WATCH_NS);
        if (muster_signals_stop_asked()) {
            stop_phase(run);
        }
        over = end_in_time(run, over);
        muster_task_replace(run);
        int64_t now = muster_clock_ns();
        if (telling && now - told >= WATCH_NS) {
            tell(run, epoch, since);
            told = now;
        }
    }
}

static void join_workers(muster_task_run *run, uint32_t count)
{
    int64_t over = INT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        struct timespec soon;
        do {
            over = end_in_time(run, over);
            (void)clock_gettime(CLOCK_REALTIME, &soon);
            soon.tv_sec++;
        } while (pthread_timedjoin_np(run->workers[i].thread, NULL, &soon) ==
                 ETIMEDOUT);
        muster_stall_end(&run->stall, i);
    }
}

static muster_status start_workers(muster_task_run *run,
                                   const muster_task_thread *pattern,
                                   muster_error *error_out)
{
    for (uint32_t i = 0; i < run->threads; i++) {
        muster_task_thread *s = &run->workers[i];
        s->evaluate = pattern->evaluate;
        s->final = pattern->final;
        s->leave = pattern->leave;
        s->until = pattern->until;
        s->epoch = pattern->epoch;
        s->status = MUSTER_OK;
        s->sums = (muster_task_sums){{0}};
        atomic_fetch_add(&run->phase.running, 1);
        int failed = pthread_create(&s->thread, NULL, run_worker, s);
        if (failed != 0) {
            atomic_fetch_sub(&run->phase.running, 1);
            stop_phase(run);
            join_workers(run, i);
            char hint[MUSTER_LIMITS_HINT_BYTES];
            return muster_error_set(
                error_out, MUSTER_ERR_SYSTEM, "cannot start a thread: %s%s",
                strerror(failed), muster_limits_hint(failed, hint));
        }
    }
    return MUSTER_OK;
}

/* After a barrier: which parts were done, and which nodes are left. True: all
 * is done. */
static bool note_done(muster_task_run *run)
{
    uint64_t met = muster_ps_barrier_members(run->ps);
    bool all = true;
    // Before the first is marked as done: worker_of() reads `todo`.
    for (uint32_t part = 0; part < run->parts; part++) {
        run->phase.done_by[part] =
            run->phase.todo[part] ? worker_of(run, part) : 0;
    }
    for (uint32_t part = 0; part < run->parts; part++) {
        run->phase.todo[part] = run->phase.todo[part] &&
                                !member(met, run, run->phase.done_by[part]);
        all = all && !run->phase.todo[part];
    }
    run->phase.members = met;
    return all;
}

/* All threads of this node do their parts and meet the others. */
static muster_status one_round(muster_task_run *run,
                               const muster_task_thread *pattern,
                               muster_error *error_out, muster_task_sums *sums)
{
    muster_status status = start_workers(run, pattern, error_out);
    if (status != MUSTER_OK) {
        return status;
    }
    watch(run, pattern->epoch, !pattern->evaluate);
    join_workers(run, run->threads);
    for (uint32_t i = 0; i < run->threads; i++) {
        muster_status one = run->workers[i].status;
        if (one < 0 &&
            (status == MUSTER_OK || status == MUSTER_ERR_CANCELLED)) {
            status = one;
        }
    }
    if (status == MUSTER_OK && run->node == 0 && !pattern->leave) {
        status = gather_sums(run, muster_ps_barrier_members(run->ps), sums);
    }
    run->phase.count++;
    return status;
}

/* One epoch or evaluation by all threads; their sums together. */
muster_status muster_task_phase(muster_task_run *run,
                                const muster_task_thread *pattern,
                                muster_error *error_out,
                                muster_task_sums *sums_out)
{
    *sums_out = (muster_task_sums){{0}};
    run->results.costs = (muster_task_costs){.all_s = 0};
    int64_t start = muster_clock_ns();
    memset(run->phase.todo, pattern->leave ? 0 : 1, run->parts);
    muster_status status;
    do {
        status = one_round(run, pattern, error_out, sums_out);
    } while (status == MUSTER_OK && !note_done(run));
    run->results.costs.all_s =
        run->parts * ((double)(muster_clock_ns() - start) / 1e9);
    // Added before it is subtracted: the sum may be too large for a moment,
    // never too small.
    uint64_t done = atomic_load(&run->phase.done);
    atomic_fetch_add(&run->loss.since, done);
    atomic_fetch_sub(&run->phase.done, done);
    if (status == MUSTER_OK) {
        // Node 0 met us, so it has written the checkpoint before.
        atomic_fetch_sub(&run->loss.since, run->loss.unsure);
        run->loss.unsure = 0;
        return MUSTER_OK;
    }
    if (status == MUSTER_ERR_CANCELLED) {
        return muster_error_set(error_out, MUSTER_ERR_INTERRUPTED,
                                "interrupted in epoch %" PRIu32,
                                pattern->epoch + 1);
    }
    if (status == MUSTER_ERR_PEER_LOST) {
        return muster_error_set(error_out, MUSTER_ERR_QUORUM,
                                "a node was lost in epoch %" PRIu32
                                ", and rows with it",
                                pattern->epoch + 1);
    }
    return muster_error_set(error_out, status, "%s: %s", run->ops->name,
                            muster_status_text(status));
}
