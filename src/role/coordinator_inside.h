/*
 * role/coordinator_inside.h -- what the files of a coordinator share beside
 * its state (coordinator_state.h):
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

#include "cluster/file.h"
#include "role/coordinator_state.h"

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
/* The number of the plan that a turn of muster_plan_slot() is, or will be. */
uint32_t muster_plan_number(const muster_coordinator *c, uint32_t turn);
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
/* Between two steps: ask for a plan if the times have changed. */
void muster_replan_ask(muster_coordinator *c, int64_t now_ns,
                       muster_actions *actions);
/* A PLAN job has ended. */
void muster_replan_done(muster_coordinator *c, const muster_event *event,
                        muster_actions *actions);

/* coordinator_times.c; likewise */
/* A model was offered. */
void muster_replan_offered(muster_coordinator *c, uint32_t id, int64_t now_ns);
/* One that it leads has joined. */
void muster_replan_joined(muster_coordinator *c, uint32_t id);
/* An edge has told of its workers, under this plan: first what each did, then
 * that it was all. */
void muster_replan_below(muster_coordinator *c, uint32_t edge, uint32_t plan,
                         const muster_edge_answer *answer);
void muster_replan_told(muster_coordinator *c, uint32_t edge);
/* An answer, in time or late, that completes its worker's own share. */
void muster_replan_answer(muster_coordinator *c, uint32_t id,
                          const muster_message *message, int64_t now_ns);
/* What the last steps say of workers and edges, with opts.replan. NULL: out of
 * memory, or no worker was seen. */
muster_cluster *muster_replan_measure(const muster_coordinator *c,
                                      int64_t now_ns);

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
/* A step has ended, and its model stands: report it, and go on. */
void muster_step_ended(muster_coordinator *c,
                       const muster_step_outcome *outcome,
                       const muster_event *event, muster_actions *actions);
/* Begin the step after one that has ended. */
void muster_step_go_on(muster_coordinator *c, const muster_event *event,
                       muster_actions *actions);
/* Ask for an UPDATE with the messages that the decoding names. */
muster_job *muster_step_ask_update(muster_coordinator *c,
                                   muster_decoding *decoding,
                                   muster_actions *actions);
/* Make sure that `list`, one of the coordinator's, has room for the messages of
 * an UPDATE or DECODE, and that no job has it. False: no memory. */
bool muster_step_has_list(muster_coordinator *c, muster_job_list **list);
/* What an UPDATE and a DECODE are told: where an answer is not whole, of a
 * DECODE alone, it is the one that has begun. */
void muster_step_fill_job(const muster_coordinator *c,
                          muster_decoding *decoding, muster_job_list *list,
                          muster_job *job);
/* An edge leaves the open step, if any: its answers are not wanted any more. */
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

/* coordinator_begun.c */
/* A long answer has begun to arrive. */
void muster_begun_answer(muster_coordinator *c, const muster_event *event,
                         muster_actions *actions);
/* A worker is lost: what it has begun will not be whole. */
void muster_begun_lost(muster_coordinator *c, uint32_t id,
                       muster_actions *actions);
/* A DECODE job has ended. */
void muster_begun_decoded(muster_coordinator *c, const muster_event *event,
                          muster_actions *actions);
/* The worker's answer is whole, or not wanted any more. */
void muster_begun_forget(muster_coordinator *c, uint32_t id);

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
/* A step has ended: evaluate its model if it is time to. True: no other begins
 * now. The run ends, or muster_evaluate_done() goes on. */
bool muster_evaluate_holds(muster_coordinator *c, const muster_event *event,
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
/* The evaluation that the close waited for has ended. */
void muster_coordinator_close_on(muster_coordinator *c,
                                 const muster_event *event,
                                 muster_actions *actions);

#endif // MUSTER_ROLE_COORDINATOR_INSIDE_H
