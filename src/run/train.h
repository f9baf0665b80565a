/*
 * run/train.h -- a training run's state, shared by train.c (from options
 * to the end), local_workers.c (its processes), observe.c (what happens on the
 * way) and conclude.c (files).
 *
 *   Threads      The network thread's alone.
 */
#ifndef MUSTER_RUN_TRAIN_H
#define MUSTER_RUN_TRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "cluster/delay_recorder.h"
#include "config/config.h"
#include "config/fault.h"
#include "job/executor.h"
#include "muster/code.h"
#include "muster/status.h"
#include "proc/host.h"
#include "proc/process_group.h"
#include "proc/socket_dir.h"
#include "record/run_folder.h"
#include "role/role.h"
#include "run/below.h"
#include "run/progress.h"
#include "run/tally.h"
#include "run/tracing.h"

typedef struct muster_train_state {
    const muster_config *config;
    const char *program;
    muster_code *code;
    const muster_code *in_force; // another one after a change
    muster_code_info code_info;  // of that in force
    uint32_t edges;              // of --topology; 0: none
    uint32_t led; // members that the coordinator leads: edges, or workers
    muster_host *host;
    muster_executor *executor;
    muster_executor *evaluator; // with --eval-every; or NULL
    muster_executor_info job;
    muster_role role;
    char joined_at[MUSTER_NET_ADDRESS_MAX]; // with --listen: where others
                                            // reach us; else ""
    muster_socket_dir
        socket_dir; // of the local workers; folder "" when there is none
    muster_process_group *workers; // edges, then workers; NULL: they join by
                                   // themselves
    muster_vec faults;             // of muster_fault, by step
    size_t next_fault;             // the first that is not done
    muster_tally tally;
    muster_below below;       // the workers under edges
    muster_summary *per_load; // --code auto: times of load 1; else NULL
    muster_progress progress;
    muster_run_folder *folder;       // NULL without --run
    muster_tracing *tracing;         // NULL without --trace
    muster_delay_recorder *recorder; // NULL without --record-delays
    char *config_json;               // with a folder
    muster_blob *saved;    // the role's state in an earlier life, or NULL
    int64_t first_step_ns; // when the first step began; 0: not yet
    int64_t last_step_ns;
    bool is_stopping; // a signal asked for the end
} muster_train_state;

/* local_workers.c: listen at a private socket, unless others join already, and
 * start all edges and workers; start one of the processes (again). */
MUSTER_CHECKED muster_status
muster_train_start_workers(muster_train_state *train, muster_error *error_out);
MUSTER_CHECKED muster_status muster_train_spawn(muster_train_state *train,
                                                uint32_t process,
                                                muster_error *error_out);
/* Start those that died by themselves again, each up to --restart times. */
MUSTER_CHECKED muster_status muster_train_restart(muster_train_state *train,
                                                  muster_error *error_out);
/* The process of a worker or an edge that a fault names. */
uint32_t muster_train_process(const muster_train_state *train,
                              const muster_fault *fault);

/* What the coordinator leads: "worker" or "edge". */
const char *muster_train_noun(const muster_train_state *train);
/* Do workers meet each other? */
bool muster_train_is_gossip(const muster_train_state *train);

/* Open the run folder, if there is to be one, and take up what it holds. */
MUSTER_CHECKED muster_status muster_train_open_folder(muster_train_state *train,
                                                      muster_error *error_out);

/* Write config.json, which makes the folder this run's: once nothing that the
 * user can put right stands in its way any more. */
MUSTER_CHECKED muster_status
muster_train_claim_folder(muster_train_state *train, muster_error *error_out);

/* The end: summary.json, cluster.yaml and model.safetensors where there is a
 * folder, a few lines for people, and the JSON object of the summary. */
MUSTER_CHECKED muster_status muster_train_conclude(muster_train_state *train,
                                                   muster_error *error_out,
                                                   char **json_out);

/* A table of slow and lost workers for people, and what they cost; nothing when
 * there are none. */
void muster_train_tell_stragglers(const muster_train_state *train,
                                  const muster_worker_class *classes);

/* The callbacks of the host; context is the state. */
void muster_train_on_report(void *context, const muster_report *report);
bool muster_train_on_turn(void *context, int64_t now_ns,
                          int64_t *wait_until_ns);

#endif // MUSTER_RUN_TRAIN_H
