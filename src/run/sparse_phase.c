/*
 * sparse_phase.c -- the threads of a run: one each for an epoch or an
 * evaluation, gone when it ends.
 *
 * The calling thread only watches: it tells how it goes and asks the others to
 * stop when a signal came. A thread ends its phase by putting its sums into a
 * row of one more table and meeting all others at a barrier; node 0 then adds
 * the rows up. Two sets of rows take turns, so that a fast node cannot
 * overwrite what node 0 has not read yet; all these rows live at node 0.
 *
 * The work is cut into as many parts as there were threads at first. A thread
 * of a node that lives does its own part; the parts of nodes that are lost are
 * dealt out over the threads that are left. Whose barrier was the last is what
 * all nodes know alike, so all deal alike; what a node had not finished when it
 * was lost is done in one more round.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "proc/signals.h"
#include "ps/node/inside.h"
#include "run/progress.h"
#include "run/sparse_run.h"

#define WATCH_NS (200 * MUSTER_NS_PER_MS)

/* Keys that are 0 modulo the nodes have node 0 as home and owner. */
static uint32_t sums_row(const muster_task_run *run, uint32_t seat)
{
    return (seat + run->phases % 2 * run->parts) * run->nodes;
}

static bool member(uint64_t members, const muster_task_run *run, uint32_t seat)
{
    MUSTER_ASSERT(run->threads > 0);
    return (members >> (seat / run->threads) & 1) != 0;
}

/* The seat, counted over all nodes, that does a part in this round. */
static uint32_t seat_of(const muster_task_run *run, uint32_t part)
{
    uint32_t before = 0; // parts without a node of their own, up to this one
    uint32_t seats = 0;  // that are left
    if (member(run->members, run, part)) {
        return part;
    }
    for (uint32_t i = 0; i < run->parts; i++) {
        bool here = member(run->members, run, i);
        seats += here;
        before += !here && i < part && run->todo[i];
    }
    MUSTER_ASSERT(seats > 0); // this node is a member
    uint32_t turn = before % seats;
    for (uint32_t i = 0;; i++) {
        if (member(run->members, run, i) && turn-- == 0) {
            return i;
        }
    }
}

/* Put a thread's sums where node 0 finds them, and wait for all others. */
static muster_status share_sums(muster_task_thread *s)
{
    float row[MUSTER_TASK_SUM_FLOATS];
    uint32_t key = sums_row(s->run, s->part);
    for (uint32_t i = 0; i < MUSTER_TASK_METRICS_MAX; i++) {
        float *pair = row + (size_t)2 * i;
        pair[0] = (float)s->sums.value[i];
        pair[1] = (float)(s->sums.value[i] - (double)pair[0]);
    }
    muster_status status =
        muster_ps_set(s->worker, s->run->sums_table, &key, 1, row);
    return status == MUSTER_OK ? muster_ps_barrier(s->worker) : status;
}

/* Add what the threads of the nodes that met have found. */
static muster_status gather_sums(muster_task_run *run, uint64_t met,
                                 muster_task_sums *sums)
{
    for (uint32_t seat = 0; seat < run->parts; seat++) {
        float row[MUSTER_TASK_SUM_FLOATS];
        uint32_t key = sums_row(run, seat);
        if (!member(met, run, seat)) {
            continue;
        }
        muster_status status =
            muster_ps_pull(run->seats[0].worker, run->sums_table, &key, 1, row);
        if (status != MUSTER_OK) {
            return status;
        }
        for (uint32_t i = 0; i < MUSTER_TASK_METRICS_MAX; i++) {
            const float *pair = row + (size_t)2 * i;
            sums->value[i] += (double)pair[0] + (double)pair[1];
        }
    }
    return MUSTER_OK;
}

/* The parts that are this thread's in this round. */
static muster_status do_parts(muster_task_thread *s)
{
    const muster_task_run *run = s->run;
    muster_status status = MUSTER_OK;
    for (uint32_t part = 0; part < run->parts && status == MUSTER_OK; part++) {
        if (!run->todo[part] || seat_of(run, part) != s->part) {
            continue;
        }
        muster_task_share share = {.part = part,
                                   .parts = run->parts,
                                   .epoch = s->epoch,
                                   .final = s->final,
                                   .done = s->evaluate ? NULL : &s->run->done,
                                   .stop = &s->run->stop};
        status = (s->evaluate ? run->ops->evaluate : run->ops->work)(
            run->task, s->worker, &share, &s->sums);
    }
    return status;
}

/* The threads end what they do. One that is done already waits at the barrier
 * for others that will not come any more. */
static void stop_phase(muster_task_run *run)
{
    atomic_store(&run->stop, 1);
    muster_ps_barrier_cancel(run->ps);
}

static void stand_up(muster_task_run *run)
{
    atomic_fetch_sub(&run->running, 1);
    muster_net_wake(run->net);
}

static void *sit(void *argument)
{
    muster_task_thread *s = argument;
    if (s->leave) {
        s->status = muster_ps_barrier(s->worker);
        stand_up(s->run);
        return NULL;
    }
    s->status = do_parts(s);
    if (s->status == MUSTER_OK) {
        s->status = share_sums(s);
    }
    if (s->status < 0) {
        stop_phase(s->run);
    }
    stand_up(s->run);
    return NULL;
}

static void tell(const muster_task_run *run, uint32_t epoch, int64_t since_ns)
{
    double all = (double)run->ops->units(run->task);
    double done = (double)atomic_load(&run->done) * run->nodes;
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

/* Wait for the threads of a phase; a signal makes them stop. Both wake it. */
static void watch(muster_task_run *run, uint32_t epoch, bool telling)
{
    int64_t since = muster_clock_ns();
    int64_t told = since;
    while (atomic_load(&run->running) > 0) {
        (void)!muster_net_poll(run->net, WATCH_NS);
        if (muster_signals_stop_asked()) {
            stop_phase(run);
        }
        muster_task_replace(run);
        int64_t now = muster_clock_ns();
        if (telling && now - told >= WATCH_NS) {
            tell(run, epoch, since);
            told = now;
        }
    }
}

static muster_status start_seats(muster_task_run *run,
                                 const muster_task_thread *pattern,
                                 muster_error *error_out)
{
    for (uint32_t i = 0; i < run->threads; i++) {
        muster_task_thread *s = &run->seats[i];
        s->evaluate = pattern->evaluate;
        s->final = pattern->final;
        s->leave = pattern->leave;
        s->epoch = pattern->epoch;
        s->status = MUSTER_OK;
        s->sums = (muster_task_sums){{0}};
        atomic_fetch_add(&run->running, 1);
        int failed = pthread_create(&s->thread, NULL, sit, s);
        if (failed != 0) {
            atomic_fetch_sub(&run->running, 1);
            stop_phase(run);
            for (uint32_t j = 0; j < i; j++) {
                (void)pthread_join(run->seats[j].thread, NULL);
            }
            return muster_error_set(error_out, MUSTER_ERR_SYSTEM,
                                    "cannot start a thread: %s",
                                    strerror(failed));
        }
    }
    return MUSTER_OK;
}

/* After a barrier: what was done, and who is left. True: all is done. */
static bool note_done(muster_task_run *run)
{
    uint64_t met = muster_ps_met(run->ps);
    bool all = true;
    // Decided before the first is noted: dealing depends on what was to do.
    for (uint32_t part = 0; part < run->parts; part++) {
        run->doer[part] = run->todo[part] ? seat_of(run, part) : 0;
    }
    for (uint32_t part = 0; part < run->parts; part++) {
        run->todo[part] = run->todo[part] && !member(met, run, run->doer[part]);
        all = all && !run->todo[part];
    }
    run->members = met;
    return all;
}

/* All threads of this node do their parts and meet the others. */
static muster_status one_round(muster_task_run *run,
                               const muster_task_thread *pattern,
                               muster_error *error_out, muster_task_sums *sums)
{
    muster_status status = start_seats(run, pattern, error_out);
    if (status != MUSTER_OK) {
        return status;
    }
    watch(run, pattern->epoch, !pattern->evaluate);
    for (uint32_t i = 0; i < run->threads; i++) {
        (void)pthread_join(run->seats[i].thread, NULL);
        muster_status one = run->seats[i].status;
        if (one < 0 &&
            (status == MUSTER_OK || status == MUSTER_ERR_CANCELLED)) {
            status = one;
        }
    }
    if (status == MUSTER_OK && run->node == 0 && !pattern->leave) {
        status = gather_sums(run, muster_ps_met(run->ps), sums);
    }
    run->phases++;
    return status;
}

/* One epoch or evaluation by all threads; their sums together. */
muster_status muster_task_phase(muster_task_run *run,
                                const muster_task_thread *pattern,
                                muster_error *error_out,
                                muster_task_sums *sums_out)
{
    *sums_out = (muster_task_sums){{0}};
    memset(run->todo, pattern->leave ? 0 : 1, run->parts);
    muster_status status;
    do {
        status = one_round(run, pattern, error_out, sums_out);
    } while (status == MUSTER_OK && !note_done(run));
    // Added before it is taken away: what is told may be too much, not too few.
    uint64_t done = atomic_load(&run->done);
    atomic_fetch_add(&run->since, done);
    atomic_fetch_sub(&run->done, done);
    if (status == MUSTER_OK) {
        // Node 0 was there, so it has written what it gathered before.
        atomic_fetch_sub(&run->since, run->unsure);
        run->unsure = 0;
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
