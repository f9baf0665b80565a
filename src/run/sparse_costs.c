/*
 * sparse_costs.c -- where the workers' time of a sparse task's run went: what
 * they waited for, and what the nodes sent each other meanwhile.
 *
 * A worker writes its own figures beside its sums (sparse_phase.c) before the
 * last barrier of a phase. What it then waits there is not in them: it is the
 * rest of the phase, which node 0 knows when the barrier is passed.
 */
#include <math.h>

#include "base/clock.h"
#include "base/log.h"
#include "ps/node/inside.h"
#include "record/json.h"
#include "run/sparse_run.h"

static double seconds(int64_t ns)
{
    return (double)ns / 1e9;
}

/* What the node has counted since the phase began. */
static void take_node(muster_task_run *run, double *value)
{
    const muster_ps_counters *then = &run->results.counted[0];
    muster_ps_counters now = MUSTER_PS_COUNTERS_INIT;
    if (muster_ps_count(run->ps, &now) != MUSTER_OK) {
        return;
    }
    value[MUSTER_COST_NETWORK_S] =
        seconds((int64_t)(now.network_ns - then->network_ns));
    value[MUSTER_COST_SYNC_ROWS] = (double)(now.syncs - then->syncs);
    value[MUSTER_COST_SYNC_BYTES] = (double)(now.sync_bytes - then->sync_bytes);
    value[MUSTER_COST_SENT_BYTES] = (double)(now.sent_bytes - then->sent_bytes);
}

void muster_task_costs_take(muster_task_thread *s, int64_t start_ns)
{
    // The counts of a worker begin anew at every barrier, as phases do.
    const muster_worker_counts *counts = &s->worker->counts;
    double *value = s->costs.value;
    s->costs = (muster_task_costs){.all_s = 0};
    value[MUSTER_COST_WORK_S] = seconds(muster_clock_ns() - start_ns);
    value[MUSTER_COST_REMOTE_S] = seconds(counts->remote_wait_ns);
    value[MUSTER_COST_LATCH_S] = seconds(counts->latch_wait_ns);
    if (s->part % s->run->threads == 0) {
        take_node(s->run, value);
    }
}

void muster_task_costs_add(muster_task_costs *to, const muster_task_costs *from)
{
    for (uint32_t i = 0; i < MUSTER_COSTS; i++) {
        to->value[i] += from->value[i];
    }
    to->all_s += from->all_s;
}

/* Shares of the workers' time. */
typedef struct shares {
    double remote;
    double latches;
    double barriers;
    double network; // of the nodes' time
} shares;

static shares shares_of(const muster_task_run *run,
                        const muster_task_costs *costs)
{
    const double *value = costs->value;
    double all = costs->all_s > 0 ? costs->all_s : 1;
    // Node 0's clock gives the whole, each worker's own its part: a short phase
    // may seem shorter than the work in it.
    double rest = fmax(0, all - value[MUSTER_COST_WORK_S]);
    return (shares){.remote = value[MUSTER_COST_REMOTE_S] / all,
                    .latches = value[MUSTER_COST_LATCH_S] / all,
                    .barriers = rest / all,
                    .network =
                        value[MUSTER_COST_NETWORK_S] * run->threads / all};
}

void muster_task_costs_describe(const muster_task_run *run,
                                const muster_task_costs *costs, json_t *into)
{
    shares of = shares_of(run, costs);
    const struct {
        const char *name;
        double value;
    } all[] = {
        {"wait_share", of.remote + of.latches + of.barriers},
        {"wait_remote_share", of.remote},
        {"wait_barrier_share", of.barriers},
        {"wait_latch_share", of.latches},
        {"network_share", of.network},
        {"sync_rows", costs->value[MUSTER_COST_SYNC_ROWS]},
        {"sync_bytes", costs->value[MUSTER_COST_SYNC_BYTES]},
        {"sent_bytes", costs->value[MUSTER_COST_SENT_BYTES]},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        (void)json_object_set_new(into, all[i].name,
                                  muster_json_real(all[i].value));
    }
}

void muster_task_costs_tell(const muster_task_run *run)
{
    const muster_task_costs *costs = &run->results.total;
    shares of = shares_of(run, costs);
    if (run->nodes == 1 || costs->all_s <= 0) {
        return;
    }
    muster_log(MUSTER_LOG_INFO,
               "workers waited %.1f %% of their time: rows of other nodes "
               "%.1f %%, barriers %.1f %%, latches %.1f %%; network threads "
               "%.1f %% of a processor each",
               100 * (of.remote + of.latches + of.barriers), 100 * of.remote,
               100 * of.barriers, 100 * of.latches, 100 * of.network);
    muster_log(MUSTER_LOG_INFO,
               "%.3g rows synchronised, %.3g MB of rows; %.3g MB sent in all",
               costs->value[MUSTER_COST_SYNC_ROWS],
               costs->value[MUSTER_COST_SYNC_BYTES] / 1e6,
               costs->value[MUSTER_COST_SENT_BYTES] / 1e6);
}
