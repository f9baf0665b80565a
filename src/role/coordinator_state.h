/*
 * role/coordinator_state.h -- the state of a coordinator; its files and their
 * functions are in coordinator_inside.h.
 */
#ifndef MUSTER_ROLE_COORDINATOR_STATE_H
#define MUSTER_ROLE_COORDINATOR_STATE_H

#include "code/cache.h"
#include "role/act.h"
#include "role/arrivals.h"
#include "role/assignment.h"
#include "role/balance.h"
#include "role/coordinator.h"
#include "role/member.h"
#include "role/shuffle.h"
#include "role/watch.h"
#include "wire/edge_answers.h"

enum {
    MUSTER_TIMER_GRACE = MUSTER_TIMER_ROLE,
    MUSTER_TIMER_PATIENCE,
    MUSTER_TIMER_FAREWELL,
    MUSTER_TIMER_WAIT,
    MUSTER_TIMER_DEADLINE,
    MUSTER_TIMER_OFFER,
    MUSTER_TIMER_MISSING,
};

/* What a worker still lacks. */
typedef enum muster_worker_stage {
    MUSTER_STAGE_ABSENT = 0,
    MUSTER_STAGE_SETUP, // welcomed; its SETUP is running
    MUSTER_STAGE_PLAN,  // was sent its first plan
    MUSTER_STAGE_PARTS, // has a plan; is being sent the shards of its parts
    MUSTER_STAGE_READY,
} muster_worker_stage;

/* Shards that a worker may have under way at once: about a part. */
#define MUSTER_SHARDS_UNDER_WAY 4u

/* A shard that a worker waits for. */
typedef struct muster_shard_under_way {
    uint32_t shard;
    uint64_t stamp; // it was sent with; 0: it is being made
} muster_shard_under_way;

/* Shards that an edge may want at once: it asks for two. */
#define MUSTER_WANTS_MAX 8u

typedef struct muster_worker_record {
    // What every answer reads comes first, in one line of memory.
    _Alignas(64) muster_worker_stage stage;
    bool behind;           // READY, but not under the plan in force: it is
                           // offered no model
    bool answered;         // the last step, in time
    bool unoffered;        // the model found no room on the way: offer it again
    uint8_t answered_row;  // so many steps in a row, in time, or more
    uint64_t heard_steps;  // step + 1 of its newest answer; 0: none yet
    uint64_t heard_stages; // of that step: bits
    int64_t own_ns;        // that it computed for those of its own share
    int64_t offered_ns;    // when the current step's model was offered
    int64_t arrival_ns;    // from then to its answer; valid when it has come

    uint32_t plan_sent;     // the newest it was sent in this life; 0: none
    uint32_t plan_has;      // the newest it has confirmed
    muster_vec held;        // uint32_t shard numbers, ascending
    uint32_t walk_turn;     // of muster_plan_slot(): the shards of earlier ones
    muster_shard_walk walk; // and those before it are held or under way
    muster_shard_under_way under_way[MUSTER_SHARDS_UNDER_WAY];
    uint32_t under_way_count;
    uint32_t wants[MUSTER_WANTS_MAX]; // shards that an edge asked for
    uint32_t want_count;
    uint64_t want_stamp;       // the highest of a WANT in this life
    uint64_t want_seen;        // bit i: that of want_stamp - i has come
    bool waits;                // in the line of joining
    uint32_t waits_next;       // the worker after it there, or MUSTER_ID_ANY
    muster_blob *begun;        // its answer to the open step, while it arrives
    uint64_t stamp;            // of the newest SHARD or FORGET of this life
    uint64_t unusable;         // answers that could not be used
    uint32_t not_finite;       // answers that were not finite
    uint64_t not_finite_steps; // step + 1 of the last of them; 0: none
    uint32_t wrong;            // answers that the others' showed to be wrong
} muster_worker_record;

typedef enum muster_coordinator_phase {
    MUSTER_PHASE_GATHER = 0, // before the first step
    MUSTER_PHASE_COLLECT,    // a step is open
    MUSTER_PHASE_UPDATE,     // decoded; the new model is being made, or
                             // stands and waits for an evaluation
    MUSTER_PHASE_CLOSE,      // last jobs: evaluate, snapshot
    MUSTER_PHASE_FAREWELL,   // STOP was sent
    MUSTER_PHASE_OVER,
} muster_coordinator_phase;

#define MUSTER_STEP_TIMES 31u // recent step times, for their median

/* How far back a late answer is timed from its own step's begin; what is
 * later still is timed from the oldest begin that is remembered. */
#define MUSTER_STEPS_REMEMBERED 1024u

/* SHARD jobs that may be under way at once. */
#define MUSTER_SHARD_JOBS 2u

/* A SHARD job, and the workers that wait for its result. */
typedef struct muster_shard_job {
    uint32_t shard;    // MUSTER_ID_ANY: none is under way
    muster_vec takers; // uint32_t worker numbers
} muster_shard_job;

/* From JOINED to READY: coordinator_workers.c. */
typedef struct muster_joining {
    uint32_t ready;   // workers in stage READY
    int64_t ready_ns; // when the last one became so
    muster_shard_job jobs[MUSTER_SHARD_JOBS];
    uint32_t first; // of the workers that wait for a shard to be made,
    uint32_t last;  // in line; MUSTER_ID_ANY: none
} muster_joining;

/* Which worker has which slot: coordinator_plan.c. */
typedef struct muster_shuffling {
    muster_shuffle *policy;    // NULL: the map never changes
    muster_shuffle_seen *seen; // scratch, by worker
    uint32_t turns;            // known to follow the newest plan: their shards
                               // are sent beforehand
    uint32_t announced;        // the newest plan that workers may be sent: the
                               // next, and turns after it, which are settled
} muster_shuffling;

/* The answers to the open step; and of a code in stages, which parts have come
 * and what workers were told: coordinator_stages.c. */
typedef struct muster_staging {
    uint32_t stages;        // of a worker; most codes: 1
    uint32_t own;           // of them its own share
    uint32_t answers;       // of all workers
    muster_blob **messages; // by worker * stages + stage, or NULL
    uint32_t *responders;   // scratch: slot * stages + stage
    // Of a code in stages; else empty:
    bool eager;             // workers begin all stages unasked
    bool adapts;            // but not while nobody is late
    bool calm;              // as in the open step
    uint32_t quiet_steps;   // in a row
    int64_t usual_ns;       // that a quiet step takes, and half of it; or 0
    uint32_t *first_holder; // by part, into `holders`, and their number
    uint32_t *holders;      // slot * stages + stage
    bool *come;             // by part: in the open step
    uint32_t missing;       // parts that have not
    uint64_t *told;         // by worker: stages that it takes for missing
    uint64_t *asks;         // scratch, likewise
    uint32_t *late;         // by worker: steps in a row not in time
    bool *awaited;          // by worker: should be in time, and has not come
    uint32_t awaited_count;
    uint32_t round; // of asking in the open step
    uint32_t words; // sent so far: they are numbered
    bool timer_set;
} muster_staging;

/* Whatever is made for one code. Of the one in force it lies in the fields of
 * the coordinator: coordinator_recode.c. */
typedef struct muster_coding {
    muster_assignment plan;
    muster_assignment next; // with a shuffle
    muster_code_cache *decodings;
    muster_code_progress *progress, *reach;
    muster_staging staging;
    muster_shuffle *shuffle;
    uint64_t *received; // by part
    bool *counted;      // by part
} muster_coding;

/* A change to another code in mid-run. */
typedef struct muster_recoding {
    muster_coding other;     // to come, and afterwards the one that was
    uint64_t *by_shard;      // scratch
    const muster_code *code; // of `other`, until the next plan has it
    bool under_way;          // the next plan has the other code
    bool done;               // there was one: late answers may have its length
} muster_recoding;

/* Steps whose times a plan is made for. */
#define MUSTER_REPLAN_STEPS 16u

/* What an answer took, with the load that it had. */
typedef struct muster_replan_time {
    double load; // 1: an uncoded worker's
    double s;
} muster_replan_time;

typedef struct muster_replan_worker {
    muster_replan_time times[MUSTER_REPLAN_STEPS]; // a ring
    uint32_t count;                                // put in so far
    bool owes;          // an answer to a model that it has or had
    uint64_t owes_step; // since this step began
    int64_t owes_ns;
    double planned_s;   // an uncoded step of it, by the last plan
    uint64_t told_step; // of an edge: the newest that it told of
} muster_replan_worker;

/* Which code suits the times measured: coordinator_replan.c. */
typedef struct muster_replanning {
    muster_replan_worker *workers; // NULL: the code is not chosen by times
    uint32_t worker_count;         // of the run, across edges
    muster_replan_worker *edges;   // with edges: their own times; else NULL
    uint64_t job;                  // PLAN under way, or 0
    bool planned;                  // there was one
    uint32_t votes;                // plans in a row that asked for a change
    uint64_t next_step;            // no plan before it,
    int64_t next_ns;               // nor before this
} muster_replanning;

/* An order of shares by who is slow: coordinator_reorder.c. */
typedef struct muster_reordering {
    bool *slow;         // by worker, in the order in force; NULL: it is fixed
    bool *seen;         // likewise, at the last look
    uint64_t job;       // PLAN under way, or 0
    uint64_t next_step; // of a look
} muster_reordering;

/* The step whose answers are being gathered: coordinator_step.c and, for how
 * long it waits, coordinator_wait.c. */
typedef struct muster_open_step {
    muster_code_progress *progress; // the answers
    muster_code_progress *reach;    // scratch: what could still come
    muster_job_list *messages;      // of the last UPDATE job
    muster_job_list *begun;         // of the last DECODE job
    bool decodes;                   // one was asked for in this step
    muster_decoding *decoding;      // of the last UPDATE job
    uint32_t answers;
    uint32_t withdrawn;     // answers of this step that were dropped again
    bool verified;          // --verify correct has looked at the answers
    bool unsolved;          // `progress` calls them enough, the solve fails
    uint32_t parts_missing; // in the sum of the decoding in use
    bool inexact;           // it has a residual
    int64_t begin_ns;
    int64_t wait_ns;   // after which the awaited workers are named
    bool deadline_set; // the timer runs or is over
    bool deadline_over;
} muster_open_step;

/* A step whose surplus answers are compared: coordinator_verify.c. */
typedef struct muster_verifying {
    bool open; // answers to `step` are kept as they come
    uint64_t step;
    const muster_code *code; // of the step
    uint32_t *slot_of;       // worker -> slot, in the step
    muster_blob **messages;  // by worker, or NULL
    uint32_t answers;        // so many are not
    uint64_t job;            // VERIFY under way, or 0
    uint64_t job_step;       // whose answers it has
    uint64_t not_before;     // step of the next check: what the last one cost
    uint32_t *workers;       // of the job's messages, in order
    uint32_t worker_count;
    bool *suspects; // by worker: of every step that did not agree so far
    bool has_suspects;
    bool told_unchecked; // a step that had no redundancy was named
} muster_verifying;

/* What earlier steps took and gave. */
typedef struct muster_past_steps {
    uint64_t steps;                            // in this life
    int64_t begun_ns[MUSTER_STEPS_REMEMBERED]; // by step, modulo
    int64_t step_ns[MUSTER_STEP_TIMES];
    muster_arrivals arrivals; // approximate codes
    uint64_t *parts_received; // by part: steps whose sum had it
    bool *counted;            // scratch, by part: all false
} muster_past_steps;

typedef struct muster_coordinator_jobs {
    uint64_t ids;     // given out so far
    uint64_t update;  // under way, or 0
    uint64_t decode;  // likewise
    uint64_t closing; // EVALUATE or SNAPSHOT at the end, or 0

    uint64_t evaluate;     // EVALUATE on the way, or 0
    int64_t model_ns;      // when its model stood
    bool held;             // the next step waits for it
    bool is_reached;       // the last one showed the target
    uint64_t reached_step; // in the model of that step
} muster_coordinator_jobs;

/* The end of the run: coordinator.c. */
typedef struct muster_coordinator_ending {
    bool begun;            // close when the update under way has ended
    bool evaluated, saved; // which of the last jobs were done
    muster_status status;
    char reason[256];
} muster_coordinator_ending;

/* Since the last STEP_END. */
typedef struct muster_step_traffic {
    uint64_t bytes_up, bytes_down, messages_up, bytes_moved;
    uint64_t stages_dropped; // that workers computed or began for nothing
} muster_step_traffic;

/* Gradients applied as they come: coordinator_async.c. */
typedef struct muster_async muster_async;

/* Workers have the models: coordinator_gossip.c. */
typedef struct muster_gossip_lead muster_gossip_lead;

/* An edge, to the coordinator that serves its workers: role/edge_inside.h. */
typedef struct muster_edge muster_edge;

typedef struct muster_coordinator {
    muster_coordinator_opts opts;
    muster_layer layer; // which workers it leads
    muster_edge *edge;  // whose workers these are; NULL: it leads the run
    muster_member member;
    muster_coordinator_phase phase;
    muster_assignment plan;
    uint64_t plan_first_step; // answers to earlier steps are of earlier plans
    muster_assignment next;   // being made ready; number 0: none
    muster_code_cache *decodings; // by slot
    muster_watch *watch;
    muster_worker_record *workers; // by worker number
    uint32_t worker_count;
    uint64_t step;
    muster_blob *model;  // of `step`
    size_t answer_bytes; // length of a correct message
    bool paused;
    uint32_t patiences; // begun again because somebody loads its shards
    bool degraded;      // an exact code goes on without enough workers
    bool told_cut_off;  // the first exact step that a deadline cut was named
    muster_joining joining;
    muster_shuffling shuffling;
    muster_recoding recoding;
    muster_replanning replanning;
    muster_reordering reordering;
    muster_balance *balance;    // NULL: parts keep their sizes
    muster_async *async;        // NULL: steps are synchronous
    muster_gossip_lead *gossip; // NULL: the coordinator has the model
    muster_open_step open;
    muster_staging staging;
    muster_past_steps past;
    muster_coordinator_jobs jobs;
    muster_coordinator_ending end;
    muster_step_traffic traffic;
    muster_verifying verifying;
} muster_coordinator;

#endif // MUSTER_ROLE_COORDINATOR_STATE_H
