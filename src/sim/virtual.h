/*
 * sim/virtual.h -- one training run in virtual time: the coordinator, its
 * workers, their machines, and faults on demand.
 *
 * With an executor, every job is carried out exactly; without, payloads are
 * lengths only. Either way a job takes virtual time by this model:
 *
 *   gradient   compute_ns for one n-th of the data, times the share of the data
 *              that the worker's plan names (in stages: the stage's), over its
 *              speed; and then what cluster/slowness.h adds
 *   update     a quarter of a nanosecond per float and message
 *   others     a millisecond; of all shards together, a quarter of one a part,
 *              and a quarter of a second at most
 *
 * and messages pay latency_ns, with up to a tenth more by chance, and pass the
 * NICs of both machines, which all connections share, at bytes_per_s. The clock
 * of the machine that runs the simulation is never looked at, so a seed has one
 * history.
 */
#ifndef MUSTER_SIM_VIRTUAL_H
#define MUSTER_SIM_VIRTUAL_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/classes.h"
#include "cluster/delay_recorder.h"
#include "cluster/file.h"
#include "cluster/slowness.h"
#include "config/fault.h"
#include "job/executor.h"
#include "job/planner.h"
#include "muster/code.h"
#include "record/histogram.h"
#include "role/coordinator.h"
#include "sim/sim.h"

/* What a worker computes under a plan. */
typedef struct muster_virtual_plan {
    uint32_t number;
    uint32_t shards;    // of the one stage
    uint32_t *by_stage; // shards of each where there are several, else NULL
    size_t message_bytes;
} muster_virtual_plan;

typedef struct muster_virtual_host {
    // What a step of a worker reads is a line of memory.
    _Alignas(64) int64_t busy_ns;                   // of the job under way
    int64_t sleep_ns;                               // of that, at its end
    muster_job_kind kind;                           // of that
    size_t message_bytes;                           // GRADIENT: what it gives
    muster_virtual_plan plans[MUSTER_WORKER_PLANS]; // the newest first
    muster_job job;            // under way, no GRADIENT; timing only: holds
                               // references
    muster_executor *executor; // exact runs; host 0: lent
} muster_virtual_host;

/* What a simulated run is made of. Everything is lent until fini. */
typedef struct muster_virtual_opts {
    muster_coordinator_opts coordinator; // with code, setup and model
    int64_t worker_patience_ns;
    muster_executor *executor;      // the coordinator's; NULL: timing only
    muster_executor_code make_code; // with executor: of edges
    const char *model;    // with executor: workers may load this plugin
    const double *speeds; // by worker
    const muster_slowness *slowness;      // by worker
    const muster_slowness *edge_slowness; // by edge; NULL without edges
    muster_delay_recorder *recorder;      // of the workers' times; NULL: none
    const muster_fault *faults;
    size_t fault_count;
    int64_t compute_ns; // of a worker of speed 1 for one n-th of the data
    double bytes_per_s; // of each machine's NIC, each way
    int64_t latency_ns; // of a message from one machine to another
    double duplicate;   // chances as in sim.h
    double echo;
    const muster_cluster *cluster; // NICs of the coordinator and of edges that
                                   // it has; NULL: bytes_per_s for all
    uint64_t seed;
} muster_virtual_opts;

typedef struct muster_virtual {
    muster_virtual_opts opts;
    muster_code_info info;
    uint32_t parts; // that the coordinator decodes
    muster_sim *sim;
    uint32_t edges;             // 0: workers join the coordinator
    muster_virtual_host *hosts; // 0: coordinator; then edges, then workers
    char *rooms;                // of the workers' roles
    muster_error failure;       // of a worker that could not be made
    muster_blob *gradient;      // timing only: every answer, a length
    muster_planner planner;     // timing only
    int64_t longest_job_ns;     // so far
    int64_t step_end_ns;        // of the last step

    /* how it went */
    muster_status status;
    char reason[256];
    muster_histogram step_ms;
    uint64_t steps_done, steps_exact;
    uint64_t bytes_up, bytes_down, messages_up, bytes_moved;
    uint64_t stages_dropped;
    uint64_t late, losses;
    uint64_t degraded;        // steps
    uint32_t plans;           // the number of the last
    uint64_t *parts_received; // by part
    double loss, theta_norm, test_loss, test_accuracy, test_auc;
    uint64_t target_step; // that reached the target of the coordinator,
    int64_t target_ns;    // and when its model stood; 0: none
    double grad_err_max, grad_err_sum;
    const muster_classes *classes; // the coordinator's, while that lives
    muster_classes_rates rates;    // how workers straggled
    muster_classes_fit fit;        // and what fits it; NAN: no step ended
} muster_virtual;

MUSTER_CHECKED muster_status
muster_virtual_init(muster_virtual *run, const muster_virtual_opts *opts,
                    muster_error *error_out);
void muster_virtual_fini(muster_virtual *run);

/*
 * To the end. What the coordinator ended with is in run->status; a failure of
 * the simulation itself is returned:
 * MUSTER_ERR_TIMED_OUT   the run hangs: for longer than any patience, transfer
 *                        and job could explain, no step has ended
 * MUSTER_ERR_NO_MEMORY
 */
MUSTER_CHECKED muster_status muster_virtual_run(muster_virtual *run,
                                                muster_error *error_out);

/* The host of a worker. */
static inline uint32_t muster_virtual_worker_host(const muster_virtual *run,
                                                  uint32_t worker)
{
    return 1 + run->edges + worker;
}

/* virtual_compute.c: how jobs are carried out. */
muster_sim_compute muster_virtual_compute(muster_virtual *run);

#endif // MUSTER_SIM_VIRTUAL_H
