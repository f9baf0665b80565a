/*
 * role/coordinator_inside.h -- the state of a coordinator, for its files:
 *   coordinator.c        events, pause and patience, the end
 *   coordinator_make.c   create, save, free
 *   coordinator_workers.c  from JOINED to READY: setup, plan, shards
 *   coordinator_plan.c   the next plan: when, made ready, adopted
 *   coordinator_recode.c  a next plan of another code
 *   coordinator_reorder.c an order of shares that follows who is slow
 *   coordinator_replan.c  which code, by the times that workers take
 *   coordinator_step.c   one step: offer, decode, update
 *   coordinator_answer.c  its answers
 *   coordinator_async.c  the same where gradients are applied as they come
 *   coordinator_gossip.c  the same where workers have the models
 *   coordinator_evaluate.c  evaluations on the way, and the target
 *   coordinator_verify.c  answers that are no gradient, or not the right one
 *   coordinator_wait.c   how long a step waits, and for which workers
 *   coordinator_stages.c  codes in stages: what is missing, and who is asked
 *   coordinator_edges.c  where the workers of a coordinator are edges
 */
#ifndef MUSTER_ROLE_COORDINATOR_INSIDE_H
#define MUSTER_ROLE_COORDINATOR_INSIDE_H

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
    uint64_t stamp;            // of the newest SHARD or FORGET of this life
    uint64_t unusable;         // answers that could not be used
    uint32_t not_finite;       // answers that were not finite
    uint64_t not_finite_steps; // step + 1 of the last of them; 0: none
    uint32_t wrong;            // answers that the others' showed to be wrong
} muster_worker_record;

typedef enum muster_coordinator_phase {
    MUSTER_PHASE_GATHER = 0, // before the first step
    MUSTER_PHASE_COLLECT,    // a step is open
    MUSTER_PHASE_UPDATE,     // decoded; the new model is being made
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
    uint32_t messages_room;
    muster_decoding *decoding; // likewise
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
    uint64_t closing; // EVALUATE or SNAPSHOT at the end, or 0

    uint64_t evaluate; // EVALUATE on the way, or 0
    int64_t model_ns;  // when its model stood
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

/* coordinator_workers.c */
void muster_workers_joined(muster_coordinator *c, uint32_t id,
                           const muster_event *event, muster_actions *actions);
void muster_workers_lost(muster_coordinator *c, uint32_t id, const char *reason,
                         const muster_event *event, muster_actions *actions);
void muster_workers_have(muster_coordinator *c, uint32_t id,
                         const muster_event *event, muster_actions *actions);
/* An edge asks for a shard. */
void muster_workers_want(muster_coordinator *c, uint32_t id,
                         const muster_event *event, muster_actions *actions);
void muster_workers_shard_made(muster_coordinator *c, const muster_event *event,
                               muster_actions *actions);
/* Send `plan` to a worker; false when out of memory, and the run ends. */
bool muster_workers_send_plan(muster_coordinator *c, uint32_t id,
                              const muster_assignment *plan,
                              const muster_event *event,
                              muster_actions *actions);
/* The plans have changed: what does the worker lack now? `adopted`: the one in
 * force is another. */
void muster_workers_follow(muster_coordinator *c, uint32_t id, bool adopted,
                           const muster_event *event, muster_actions *actions);
/* Has the worker confirmed the next plan, and does it hold its shards? */
bool muster_workers_is_ahead(muster_coordinator *c, uint32_t id);

/* coordinator_plan.c */
/* Tell the shuffle which workers answered the step just decoded. */
void muster_plan_observe(muster_coordinator *c);
/* Between two steps, before a model is offered: adopt the next plan if it is
 * ready, and see whether another map is wanted. */
void muster_plan_change(muster_coordinator *c, const muster_event *event,
                        muster_actions *actions);
/* A plan that came from above: the workers are told of it. As
 * muster_recode_to(). */
MUSTER_CHECKED muster_status muster_plan_follow(muster_coordinator *c,
                                                const muster_code *code,
                                                uint32_t number,
                                                const muster_event *event,
                                                muster_actions *actions);
/* May the next plan come into force? */
bool muster_plan_is_ready(muster_coordinator *c);
/* It is in force, from this step on. */
void muster_plan_adopt(muster_coordinator *c, uint64_t first_step,
                       const muster_event *event, muster_actions *actions);
/* How many turns the workers are to hold the shards of: the plan in force, the
 * next one, and those that are known to follow. */
uint32_t muster_plan_turns(const muster_coordinator *c);
/* The slot of a worker in one of them, and the plan whose slots they are. */
uint32_t muster_plan_slot(const muster_coordinator *c, uint32_t id,
                          uint32_t turn, const muster_assignment **plan_out);

/* coordinator_edges.c */
/* Floats of a correct answer, without its tail. */
size_t muster_coordinator_answer_floats(const muster_coordinator *c);
/* Floats of a block of an answer, for UPDATE and COMBINE. */
size_t muster_coordinator_block_floats(const muster_coordinator *c);
/* Are the workers that it leads edges? */
bool muster_coordinator_leads_edges(const muster_coordinator *c);
/* "worker" or "edge". */
const char *muster_coordinator_noun(const muster_coordinator *c);
/* What a code is to those that it leads: with edges, a layer of it. */
muster_layer muster_coordinator_layer(const muster_coordinator *c,
                                      const muster_code *code);
/* The code in force, with edges that of both layers. */
const muster_code *muster_coordinator_code(const muster_coordinator *c);
/* The payload of PLAN to an edge; NULL when out of memory. */
muster_blob *muster_edges_plan(const muster_coordinator *c,
                               const muster_assignment *plan, uint32_t edge);
/* A sum over the encode terms of an edge's workers. */
double muster_edges_check(const muster_code *hier, uint32_t edge);
/* Note that an edge wants a shard; false: it said so before, or asks for too
 * much. `stamp` numbers what it asks for in this life. */
bool muster_edges_want(muster_worker_record *edge, uint32_t shard,
                       uint64_t stamp);
/* The next shard to make for an edge, or MUSTER_ID_ANY. */
uint32_t muster_edges_lacking(const muster_worker_record *edge);
/* What an edge's workers did: report it. */
void muster_edges_answers(muster_coordinator *c, uint32_t edge,
                          const muster_event *event, muster_actions *actions);
/* It was sent. */
void muster_edges_sent(muster_worker_record *edge, uint32_t shard);

/* coordinator_recode.c */
/* What fails leaves a coding that fini takes. MUSTER_ERR_NO_MEMORY, or as
 * muster_shuffle_create(). */
MUSTER_CHECKED muster_status muster_coding_init(
    muster_coding *coding, const muster_layer *layer, uint32_t shards,
    const muster_coordinator_opts *opts, muster_error *error);
void muster_coding_fini(muster_coding *coding);
/* Exchange `coding` with the one in force. */
void muster_coding_use(muster_coordinator *c, muster_coding *coding);
/* How often each shard came, from the parts, and back: a part came as often as
 * its rarest shard. */
void muster_coding_counts_to_shards(const muster_assignment *plan,
                                    const uint64_t *received,
                                    uint64_t *by_shard_out);
void muster_coding_counts_to_parts(const muster_assignment *plan,
                                   const uint64_t *by_shard,
                                   uint64_t *received_out);
MUSTER_CHECKED muster_status muster_recode_init(muster_coordinator *c,
                                                muster_error *error);
/* The next plan is to have this code, which is lent for the role's life; while
 * none with another code is under way. As muster_coding_init(). */
MUSTER_CHECKED muster_status muster_recode_to(muster_coordinator *c,
                                              const muster_code *code,
                                              muster_error *error);
/* The next plan has it now. */
void muster_recode_begin(muster_coordinator *c);
/* Is it time for the other code? The next plan has it then. */
bool muster_recode_wanted(muster_coordinator *c);
/* Adopt the next plan if it has the other code; false: it has not. */
bool muster_recode_adopt(muster_coordinator *c);

/* coordinator_replan.c; all but init do nothing unless opts.replan */
MUSTER_CHECKED muster_status muster_replan_init(muster_coordinator *c);
void muster_replan_fini(muster_coordinator *c);
/* A model was offered. */
void muster_replan_offered(muster_coordinator *c, uint32_t id, int64_t now_ns);
/* One that it leads has joined. */
void muster_replan_joined(muster_coordinator *c, uint32_t id);
/* An edge has told of its workers, under this plan: first what each did, then
 * that it was all. */
void muster_replan_below(muster_coordinator *c, uint32_t edge, uint32_t plan,
                         const muster_edge_answer *answer);
void muster_replan_told(muster_coordinator *c, uint32_t edge);
/* An answer, in time or late. */
void muster_replan_answer(muster_coordinator *c, uint32_t id,
                          const muster_message *message, int64_t now_ns);
/* Between two steps: ask for a plan if the times have changed. */
void muster_replan_ask(muster_coordinator *c, int64_t now_ns,
                       muster_actions *actions);
/* A PLAN job has ended. */
void muster_replan_done(muster_coordinator *c, const muster_event *event,
                        muster_actions *actions);

/* coordinator_reorder.c */
MUSTER_CHECKED muster_status muster_reorder_init(muster_coordinator *c);
void muster_reorder_fini(muster_coordinator *c);
/* A step has ended: see who is slow, now and then. */
void muster_reorder_ask(muster_coordinator *c, muster_actions *actions);
/* A PLAN job has ended. */
void muster_reorder_done(muster_coordinator *c, const muster_event *event,
                         muster_actions *actions);

/* coordinator_step.c */
void muster_step_begin(muster_coordinator *c, int64_t now_ns,
                       muster_actions *actions);
void muster_step_offer(muster_coordinator *c, uint32_t id, int64_t now_ns,
                       muster_actions *actions);
void muster_step_answer(muster_coordinator *c, uint32_t id,
                        const muster_event *event, muster_actions *actions);
/* Report an answer of algorithms without a code: it took from since_ns on. */
void muster_step_report_since(const muster_coordinator *c, uint32_t id,
                              int64_t since_ns, const muster_event *event,
                              muster_actions *actions);
/* A model was handed over, or not. */
void muster_step_sent(muster_coordinator *c, const muster_event *event,
                      muster_actions *actions);
/* Offer the model again to workers whose queue was full. */
void muster_step_offer_again(muster_coordinator *c, int64_t now_ns,
                             muster_actions *actions);
/* Decode if the answers are enough now. */
void muster_step_try(muster_coordinator *c, const muster_event *event,
                     muster_actions *actions);
void muster_step_updated(muster_coordinator *c, const muster_event *event,
                         muster_actions *actions);
/* What a step gave. */
typedef struct muster_step_outcome {
    double loss, grad_err;
    uint32_t responders;
} muster_step_outcome;
/* A step has ended, and its model stands: report it, and begin the next. */
void muster_step_ended(muster_coordinator *c,
                       const muster_step_outcome *outcome,
                       const muster_event *event, muster_actions *actions);
/* Ask for an UPDATE with the messages that the decoding names. */
muster_job *muster_step_ask_update(muster_coordinator *c,
                                   muster_decoding *decoding,
                                   muster_actions *actions);
/* Is there a list for the messages of an UPDATE? False: no memory. */
bool muster_step_has_list(muster_coordinator *c);
/* Leave the open step, if any: its answers are not wanted any more. */
void muster_step_abandon(muster_coordinator *c, muster_actions *actions);
/* Take back the answer of `id` to the open step: it did not come. */
void muster_step_withdraw(muster_coordinator *c, uint32_t id);
/* Was it taken back? Another will not come. */
bool muster_step_is_withdrawn(const muster_coordinator *c, uint32_t id);
/* End the connection of a worker that does what a correct one never does. */
void muster_step_reject(muster_coordinator *c, uint32_t id, const char *what,
                        const muster_event *event, muster_actions *actions);
/* When `step`, not after the open one, began. */
int64_t muster_step_begun_ns(const muster_coordinator *c, uint64_t step);
/* Could the answers so far and those of the ready workers be decoded? */
bool muster_step_reachable(muster_coordinator *c);
/* Where the answer of a worker's stage to the open step is kept. */
static inline muster_blob **muster_step_message(const muster_coordinator *c,
                                                uint32_t id, uint32_t stage)
{
    return &c->staging.messages[(size_t)id * c->staging.stages + stage];
}
/* Is the worker's own share of the open step here? */
bool muster_step_has_answered(const muster_coordinator *c, uint32_t id);

/* coordinator_stages.c */
/* `eager`: where the code does not say. */
MUSTER_CHECKED muster_status muster_staging_init(muster_staging *staging,
                                                 const muster_code *code,
                                                 bool eager);
void muster_staging_fini(muster_staging *staging);
/* Do workers begin all stages of a code unasked? */
bool muster_staging_is_eager(const muster_coordinator *c,
                             const muster_code *code);
/* Count all answers that a worker in `slot` can give. */
void muster_staging_add_all(const muster_staging *staging,
                            muster_code_progress *progress, uint32_t slot);
/* The rest does nothing, or is not asked for, with one stage. */
/* A step begins; before its model is offered. */
void muster_staging_begin(muster_coordinator *c, muster_actions *actions);
/* An answer was accepted. */
void muster_staging_take(muster_coordinator *c, uint32_t id, uint32_t stage);
/* It was not enough: tell those who compute the same, and see whether to ask
 * for what is missing. `whole`: the worker's share is complete with it. */
void muster_staging_answered(muster_coordinator *c, uint32_t id, uint32_t stage,
                             bool whole, const muster_event *event,
                             muster_actions *actions);
/* A worker is lost. */
void muster_staging_lost(muster_coordinator *c, uint32_t id,
                         const muster_event *event, muster_actions *actions);
/* Answers of a worker were taken back. */
void muster_staging_recount(muster_coordinator *c);
/* It is time to ask. */
void muster_staging_ask(muster_coordinator *c, const muster_event *event,
                        muster_actions *actions);
/* Ask nobody any more. */
void muster_staging_stop(muster_coordinator *c, muster_actions *actions);
/* The step is decoded: remember who came in time. */
void muster_staging_decoded(muster_coordinator *c, muster_actions *actions);
/* Is nobody there who could bring a part that is missing? */
bool muster_staging_all_heard(const muster_coordinator *c);

/* coordinator_async.c; where `async` is set these are done in place of those of
 * coordinator_step.c that are named alike */
MUSTER_CHECKED muster_status muster_async_init(muster_coordinator *c);
void muster_async_fini(muster_coordinator *c);
void muster_async_begin(muster_coordinator *c, int64_t now_ns,
                        muster_actions *actions);
void muster_async_offer(muster_coordinator *c, uint32_t id, int64_t now_ns,
                        muster_actions *actions);
void muster_async_answer(muster_coordinator *c, uint32_t id,
                         const muster_event *event, muster_actions *actions);
void muster_async_try(muster_coordinator *c, const muster_event *event,
                      muster_actions *actions);
/* An UPDATE went well. */
void muster_async_updated(muster_coordinator *c, const muster_event *event,
                          muster_actions *actions);
void muster_async_lost(muster_coordinator *c, uint32_t id);

/* coordinator_gossip.c; likewise with `gossip` */
MUSTER_CHECKED muster_status muster_gossip_lead_init(muster_coordinator *c);
void muster_gossip_lead_fini(muster_coordinator *c);
void muster_gossip_lead_begin(muster_coordinator *c, int64_t now_ns,
                              muster_actions *actions);
void muster_gossip_lead_answer(muster_coordinator *c, uint32_t id,
                               const muster_event *event,
                               muster_actions *actions);
void muster_gossip_lead_try(muster_coordinator *c, const muster_event *event,
                            muster_actions *actions);
void muster_gossip_lead_updated(muster_coordinator *c,
                                const muster_event *event,
                                muster_actions *actions);
void muster_gossip_lead_lost(muster_coordinator *c, uint32_t id);

/* coordinator_evaluate.c */
/* A step has ended: evaluate its model if it is time to. */
void muster_evaluate_begin(muster_coordinator *c, int64_t now_ns,
                           muster_actions *actions);
void muster_evaluate_done(muster_coordinator *c, const muster_event *event,
                          muster_actions *actions);

/* coordinator_verify.c */
MUSTER_CHECKED muster_status muster_verify_init(muster_coordinator *c);
void muster_verify_fini(muster_coordinator *c);
/* Is the open step one that every worker is asked to answer, late or not? */
bool muster_verify_is_asked(const muster_coordinator *c);
/* A step begins. */
void muster_verify_begin(muster_coordinator *c, muster_actions *actions);
/* An answer, in time or late. */
void muster_verify_answer(muster_coordinator *c, uint32_t id,
                          const muster_event *event, muster_actions *actions);
/* Check what has come so far: the run ends. */
void muster_verify_now(muster_coordinator *c, muster_actions *actions);
/* --verify correct: is the step not to be decoded yet? */
bool muster_verify_holds(muster_coordinator *c, muster_actions *actions);
/* A VERIFY job has ended. */
void muster_verify_done(muster_coordinator *c, const muster_event *event,
                        muster_actions *actions);
/* An UPDATE job found messages that are not finite. */
void muster_verify_not_finite(muster_coordinator *c, const muster_event *event,
                              muster_actions *actions);

/* coordinator_wait.c */
int64_t muster_wait_median_ns(const muster_coordinator *c);
/* A step has begun: set its timers. */
void muster_wait_begin(muster_coordinator *c, int64_t now_ns,
                       muster_actions *actions);
/* An answer was accepted: a first step learns its deadline from them. */
void muster_wait_answered(muster_coordinator *c, int64_t now_ns,
                          muster_actions *actions);
/* The step is decoded: remember when the answers came. */
void muster_wait_decoded(muster_coordinator *c, muster_actions *actions);
/* Are the answers enough, though not all of the gradient? */
bool muster_wait_is_over(const muster_coordinator *c);
/* May a step go on with less than the whole gradient? An approximate code's
 * may, and every code's with a deadline that was given. */
bool muster_wait_may_fall_short(const muster_coordinator *c);
/* Has every ready worker answered, at least one? */
bool muster_wait_all_heard(const muster_coordinator *c);
/* The step takes long: name the workers it waits for, and what would help. */
void muster_wait_tell(muster_coordinator *c, const muster_event *event,
                      muster_actions *actions);

/* coordinator_make.c */
/* What tells a coordinator that serves an edge's workers from one that leads a
 * run. */
typedef struct muster_coordinator_place {
    muster_layer layer;
    muster_edge *edge;
    uint32_t first; // of the workers' numbers
    uint32_t total; // workers of the run
    uint64_t jobs;  // ids given out before
    uint32_t lives; // incarnations likewise
} muster_coordinator_place;
/* muster_coordinator_create() for an edge. */
MUSTER_CHECKED muster_status muster_coordinator_create_below(
    const muster_coordinator_opts *opts, const muster_coordinator_place *place,
    muster_error *error_out, muster_role *role_out);
/* The role's own state, as save gives it; NULL when out of memory. */
muster_blob *muster_coordinator_saved(const muster_coordinator *c);

/* coordinator.c */
void muster_coordinator_step(void *state, const muster_event *event,
                             muster_actions *actions);
/* Look again whether to start, pause, or go on. */
void muster_coordinator_review(muster_coordinator *c, const muster_event *event,
                               muster_actions *actions);
/* End the run: snapshot, tell the workers, stop. The first reason stays. */
void muster_coordinator_end(muster_coordinator *c, muster_status status,
                            const char *reason, const muster_event *event,
                            muster_actions *actions);
/* A SNAPSHOT job that carries the role's own state. */
uint64_t muster_coordinator_snapshot(muster_coordinator *c,
                                     muster_actions *actions);
/* The second half of the end, when no update is under way. */
void muster_coordinator_close(muster_coordinator *c, const muster_event *event,
                              muster_actions *actions);

#endif // MUSTER_ROLE_COORDINATOR_INSIDE_H
