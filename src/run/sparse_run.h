/*
 * run/sparse_run.h -- a training run of a sparse task, for its files:
 *   sparse_train.c    its course, epoch by epoch
 *   sparse_prepare.c  what it is made of, and its end
 *   sparse_phase.c    all threads of all nodes do one thing
 *   sparse_survive.c  what it does about lost nodes
 *   sparse_stall.c    which worker threads stand still
 *   sparse_metrics.c  what is told of it
 *   sparse_history.c  what was told of it in earlier lives
 *   sparse_stop.c     when it ends before its last epoch
 *   sparse_costs.c    where the workers' time went
 */
#ifndef MUSTER_RUN_SPARSE_RUN_H
#define MUSTER_RUN_SPARSE_RUN_H

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "config/config.h"
#include "muster/ps.h"
#include "net/net.h"
#include "ps/node/loss.h"
#include "record/run_folder.h"
#include "run/sparse_checkpoint.h"
#include "run/sparse_nodes.h"
#include "run/sparse_stall.h"
#include "task/task.h"

/* Where the time of a phase went and what was sent meanwhile, summed over all
 * workers or nodes: sparse_costs.c. */
enum {
    MUSTER_COST_WORK_S,    // workers: until they reached the last barrier
    MUSTER_COST_REMOTE_S,  // of it: waited for rows of other nodes
    MUSTER_COST_LATCH_S,   // of it: waited for a row that another thread held
    MUSTER_COST_NETWORK_S, // nodes: processor time of the network thread
    MUSTER_COST_SYNC_ROWS,
    MUSTER_COST_SYNC_BYTES,
    MUSTER_COST_SENT_BYTES,
    MUSTER_COSTS
};
typedef struct muster_task_costs {
    double value[MUSTER_COSTS];
    double all_s; // workers: the whole phase
} muster_task_costs;

/* A double as two floats, so that it keeps 48 bits in a row. */
enum { MUSTER_TASK_SUM_FLOATS = 2 * (MUSTER_TASK_METRICS_MAX + MUSTER_COSTS) };

typedef struct muster_task_run muster_task_run;

/* One worker thread. */
typedef struct muster_task_thread {
    muster_task_run *run;
    uint32_t part;
    pthread_t thread;
    muster_ps_worker *worker;
    bool evaluate;
    bool final;
    bool leave;            // only wait for the others
    muster_ps_until until; // what the barrier at the end of the phase waits for
    uint32_t epoch;
    muster_status status;
    muster_task_sums sums;
    muster_task_costs costs;
} muster_task_thread;

/* One epoch or evaluation: sparse_phase.c. Worker threads touch the atomic
 * fields; the others change only while no worker runs. */
typedef struct muster_task_phase_state {
    _Atomic uint64_t done;    // units of this phase
    _Atomic uint32_t stop;    // 1: workers end early
    _Atomic uint32_t running; // workers
    uint32_t count;           // phases so far
    uint64_t members;         // nodes that met at the last barrier
    bool *todo;               // [parts]: of this phase
    uint32_t *done_by;        // [parts]: the worker that had it
} muster_task_phase_state;

/* Lost nodes: sparse_survive.c. */
typedef struct muster_task_losses {
    muster_last_checkpoint checkpoint; // while rows come from it
    _Atomic uint64_t since;            // units done since the last checkpoint
    uint64_t unsure;   // of these, perhaps in a checkpoint by now
    uint32_t lost;     // nodes whose cost was not told yet
    uint64_t replaced; // nodes for which another was started, a bit each
    uint32_t respawns; // so far
} muster_task_losses;

/* What is told of the run, with its earlier lives: sparse_metrics.c. */
typedef struct muster_task_results {
    int64_t start_ns;              // of this life
    double earlier_s;              // that earlier lives took
    double train_s;                // in work, without evaluations
    uint64_t units;                // done in all epochs
    json_t *last;                  // the newest metrics
    muster_ps_counters counted[2]; // before and after an epoch's work
    muster_task_costs costs;       // of the last phase, all nodes
    muster_task_costs total;       // of all epochs' work
} muster_task_results;

/* A metric, the less the better, that may end the run: sparse_stop.c. */
typedef struct muster_task_watch {
    const char *metric; // NULL: none
    uint32_t patience;  // epochs without a better one
    uint32_t best_epoch;
    double best;
} muster_task_watch;

struct muster_task_run {
    const muster_config *config;
    const char *program;
    const muster_task_ops *ops;
    void *task;
    muster_ps *ps;
    muster_net *net; // the signal handlers wake it
    bool signals;    // muster_signals_start() was called
    muster_run_folder *folder;
    muster_local_nodes others;
    muster_task_thread *workers; // [threads]
    uint32_t threads;            // of this node
    uint32_t node;
    uint32_t nodes;
    uint32_t parts;  // threads of all nodes
    bool joins;      // takes the place of a lost node
    uint32_t tables; // of the task, without the sums
    uint32_t sums_table;
    uint32_t epochs;
    uint32_t next_epoch; // the one to do next
    muster_task_phase_state phase;
    muster_stall_watch stall; // in a mesh
    muster_task_losses loss;
    muster_task_results results;
    muster_task_watch watch;
};

/* sparse_prepare.c: all that a run needs, from its options (config, program,
 * nodes, node, threads, parts and joins are set): the nodes have met, and
 * the threads have their ps workers. finish must follow, also after a
 * failure. */
MUSTER_CHECKED muster_status muster_task_prepare(muster_task_run *run,
                                                 muster_error *error_out);
void muster_task_finish(muster_task_run *run);

/* One epoch, evaluation or farewell by all threads; their sums, over all nodes,
 * at node 0. MUSTER_ERR_INTERRUPTED after a signal, MUSTER_ERR_QUORUM when a
 * node was lost without which the others cannot or shall not go on. */
MUSTER_CHECKED muster_status
muster_task_phase(muster_task_run *run, const muster_task_thread *pattern,
                  muster_error *error_out, muster_task_sums *sums_out);

/* The units of an epoch in a node's parts, or a few more: sparse_phase.c. */
uint64_t muster_task_node_units(const muster_task_run *run, uint32_t node);

/* sparse_survive.c: what the run does about lost nodes; for its muster_ps. */
void muster_task_on_loss(muster_task_run *run);
/* Start a process in the place of each local node that is lost. The thread
 * that started the others. */
void muster_task_replace(muster_task_run *run);
/* Between epochs, while the other nodes wait: admit the nodes that are
 * ready. */
void muster_task_admit(muster_task_run *run, uint32_t epochs);
/* A node that was taken in: where the others are. */
void muster_task_catch_up(muster_task_run *run);

/* sparse_stop.c: which metric may end the run. note: it was `value` after
 * `epoch` epochs; run->epochs becomes less when the run ends there. judge, at
 * node 0: the same from an evaluation. publish at node 0, before a barrier that
 * follows judge, and follow at the others, after it: one end for all nodes. */
void muster_task_watch_init(muster_task_run *run);
void muster_task_watch_note(muster_task_run *run, uint32_t epoch, double value);
void muster_task_watch_judge(muster_task_run *run, uint32_t epoch,
                             const muster_task_sums *work,
                             const muster_task_sums *evaluation);
MUSTER_CHECKED muster_status muster_task_watch_publish(muster_task_run *run);
MUSTER_CHECKED muster_status muster_task_watch_follow(muster_task_run *run);

/* sparse_history.c: a run goes on after next_epoch epochs; what its folder says
 * of them. MUSTER_ERR_SYSTEM. */
MUSTER_CHECKED muster_status muster_task_recall(muster_task_run *run,
                                                const char *dir,
                                                muster_error *error_out);

/* sparse_costs.c: what a thread's work has cost since `start_ns`. The first
 * thread of a node counts for the node. */
void muster_task_costs_take(muster_task_thread *s, int64_t start_ns);
/* Add what others found. */
void muster_task_costs_add(muster_task_costs *to,
                           const muster_task_costs *from);
/* As members of a JSON object: shares of the workers' time, and what was
 * sent. */
void muster_task_costs_describe(const muster_task_run *run,
                                const muster_task_costs *costs, json_t *into);
/* A line for people, at the end of a run of several nodes. */
void muster_task_costs_tell(const muster_task_run *run);

/* What an epoch brought. */
typedef struct muster_task_told {
    uint32_t epoch; // from 1
    double s;       // in work
    uint64_t units;
    const muster_task_costs *costs;
    const muster_task_sums *work;
    const muster_task_sums *evaluation;
} muster_task_told;

/* sparse_metrics.c: write and log an epoch. MUSTER_ERR_INVALID when its loss
 * is not finite: the training diverged. */
MUSTER_CHECKED muster_status muster_task_tell(muster_task_run *run,
                                              const muster_task_told *told,
                                              muster_error *error_out);
/* The summary as JSON, the caller's to free; NULL: no memory. */
char *muster_task_summary(const muster_task_run *run);

#endif // MUSTER_RUN_SPARSE_RUN_H
