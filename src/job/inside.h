/*
 * job/inside.h -- what the files of this room share.
 *
 * An executor is one job at a time: `begin` checks the job's inputs, `piece`
 * does some of it. Both return MUSTER_IN_PROGRESS while work is left, MUSTER_OK
 * when the result stands, or a failure whose text is in executor->error.
 */
#ifndef MUSTER_JOB_INSIDE_H
#define MUSTER_JOB_INSIDE_H

#include <stdbool.h>

#include "base/background.h"
#include "base/threads.h"
#include "base/vec.h"
#include "code/decode.h"
#include "code/encode_plan.h"
#include "data/batch.h"
#include "data/cut.h"
#include "data/dataset.h"
#include "data/listing.h"
#include "data/shard.h"
#include "job/executor.h"
#include "job/planner.h"
#include "model/auc.h"
#include "model/model.h"
#include "model/optim.h"
#include "model/pass.h"
#include "model/schedule.h"
#include "record/checkpoint.h"
#include "wire/terms.h"

typedef struct executor_ops {
    muster_status (*begin)(muster_executor *executor);
    muster_status (*piece)(muster_executor *executor);
    /* True when a job must not be cut off here: state is half changed. */
    bool (*must_finish)(const muster_executor *executor);
    void (*free)(muster_executor *executor);
} executor_ops;

struct muster_executor {
    const executor_ops *ops;
    muster_executor_alloc alloc;
    muster_threads *pool; // NULL: one thread
    bool yields;          // the pool's threads give way to others
    bool is_busy;
    muster_status status; // of the last begin or piece
    muster_job job;
    muster_job_result result;
    muster_error error;
};

/* Fill in the shared fields. */
void muster_executor_init(muster_executor *executor, const executor_ops *ops,
                          const muster_executor_alloc *alloc);

/* The output blob of the job at hand: MUSTER_ERR_NO_MEMORY if there is none. */
MUSTER_CHECKED muster_status
muster_executor_make_output(muster_executor *executor, size_t bytes);

/* A loop over begin..end-1 by the executor's threads, in a part each. */
typedef void (*job_range)(void *context, uint32_t part, size_t begin,
                          size_t end);
/* Parts that a loop over so many coordinates has, and the loop itself. */
uint32_t muster_job_parts(const muster_executor *executor, size_t count);
void muster_job_run(muster_executor *executor, size_t count,
                    muster_threads_task task, void *context);
void muster_job_share(muster_executor *executor, size_t begin, size_t end,
                      job_range range, void *context);

/* --- the job description -------------------------------------------------- */

/* What a worker does with batches of its own samples. */
typedef struct local_rule {
    uint32_t steps;   // H, before models are averaged; 0: batches are drawn
                      // from all samples, and gradients added up
    bool is_gradient; // ssp: one batch, and its gradient is the message
    bool is_gossip;   // one step, and the model that it leads to is the message
    uint32_t workers;
    muster_optim optim;
    muster_schedule schedule;
    double lr, l2;
    double clip; // the norm that a gradient is cut to; 0: none
} local_rule;

typedef struct job_setup {
    char *model; // its spec, owned
    muster_batch batch;
    uint64_t samples;
    uint64_t nonzeros; // stored entries of all rows
    uint32_t features;
    uint32_t classes;
    uint32_t shards;
    bool is_sparse; // rows are CSR
    muster_image image;
    local_rule local;
    char *data;  // --data-at workers: where the data is; else NULL; owned
    char *label; // --label and --target, or NULL; owned
    char *target;
} job_setup;

MUSTER_CHECKED muster_status muster_job_setup_read(const muster_blob *blob,
                                                   muster_error *error_out,
                                                   job_setup *setup_out);
void muster_job_setup_fini(job_setup *setup);
/* The options in a job description; for muster_config_free(). */
MUSTER_CHECKED muster_status
muster_job_setup_config(const muster_blob *blob, muster_error *error_out,
                        muster_config **config_out);
/* NULL: out of memory, or the current folder is gone. */
muster_blob *muster_job_setup_write(const muster_config *config,
                                    const muster_dataset_info *info,
                                    uint32_t shards);

/* The batch rule that the options ask for. */
muster_batch muster_job_batch(const muster_config *config, uint64_t samples);

/* Steps of the whole run: --steps, --epochs; of local:H, averages. */
uint64_t muster_job_steps(const muster_config *config,
                          const muster_batch *batch);

/* --- the worker ----------------------------------------------------------- */

/* A shard that this worker holds, and its longest row when sparse. */
typedef struct held_shard {
    muster_blob *blob;
    muster_shard shard;
    uint64_t row_entries_max;
} held_shard;

/* What to encode under a plan. Several are kept: the next ones are adopted
 * while steps of an earlier one still come. */
typedef struct worker_plan {
    uint32_t number;
    uint32_t stages;            // 0: there is no plan
    muster_encode_plan **lanes; // by stage; all list the same parts
    muster_terms_part *parts;   // the shards of each of them
    uint32_t part_count;
} worker_plan;

/* A shard of the plan, and which of the plan's parts it is of. */
typedef struct plan_slot {
    const muster_shard *shard;
    uint32_t part;
    uint32_t first, last; // its samples
    bool is_run;          // and all between
} plan_slot;

/* A member of the batch: which of the plan's slots, which row of it. */
typedef struct batch_member {
    uint32_t slot;
    uint32_t row;
} batch_member;

/* Slots are looked up once for a plan and the shards held. */
typedef struct plan_slots {
    muster_vec list;      // of plan_slot, in the order of the plan's parts
    uint64_t entries_row; // of the longest row when sparse
    uint64_t rows;
    uint32_t plan;    // number
    uint32_t stage;   // of the plan: the parts that it has
    uint64_t changes; // of what is held, when they were looked up
    bool in_order;    // their samples ascend from slot to slot
    bool are_runs;    // no slot has gaps between its samples
    muster_vec here;  // where not so: a bit for each sample, in uint64_t,
    muster_vec where; // and the batch_member of each that is here
} plan_slots;

/* Rows collected for one call of the model. */
typedef struct gathered {
    uint32_t rows_max;
    uint32_t count;
    uint64_t entries_max; // sparse
    float *dense;         // rows_max x features, or NULL
    const float **from;   // dense: where each row lies
    uint64_t *offsets;
    uint32_t *columns;
    float *values;
    float *labels;
    float *weights;
    uint32_t *samples; // their numbers
} gathered;

typedef enum gradient_phase {
    GRADIENT_CLEAR,  // accumulators to zero
    GRADIENT_DRAW,   // which of the batch are here
    GRADIENT_ROWS,   // the model's gradient, lane after lane
    GRADIENT_ENCODE, // lanes to message
} gradient_phase;

/* What is being done to the lane. */
typedef enum lane_phase {
    LANE_BEGIN,
    LANE_CLEAR, // its sums in double
    LANE_ROWS,
    LANE_FOLD,  // add the float sums to those in double
    LANE_ROUND, // the sums in double to the lane
} lane_phase;

typedef struct gradient_state {
    gradient_phase phase;
    muster_encode_plan *plan;
    const float *theta;
    uint64_t at;   // floats cleared or encoded, samples drawn, rows done
    uint32_t lane; // being computed
    uint32_t slot; // full batch: shard being computed
    lane_phase lane_phase;
    uint64_t lane_rows; // of the lane
    uint32_t unfolded;  // rows in the float sums since the last LANE_FOLD
    size_t fold_at;     // LANE_CLEAR, LANE_FOLD, LANE_ROUND: next coordinate
    bool is_wide;       // the lane has sums in double
    double loss;        // of the lane so far
    double variance;    // of the message's rounding so far, all lanes
    bool is_passing;    // a block of rows is in `pass`
    muster_model_pass pass;
    muster_layers_coherence coherence; // of the lane's blocks
} gradient_state;

typedef enum local_phase {
    LOCAL_ROWS,     // the gradient of a batch of own samples
    LOCAL_OPTIMISE, // a step by it
} local_phase;

/* GRADIENT with steps of one's own: local.c. */
typedef struct local_state {
    local_phase phase;
    uint32_t done;      // steps
    uint64_t age;       // steps since the optimiser began
    double weight;      // of the gradient among all workers'
    uint64_t at;        // rows of the batch, or coordinates
    muster_batch batch; // over the rows of the slots, one after another
    muster_vec first;   // uint64_t: of each slot, its first row so counted
    float *memory;      // theta, gradient and the optimiser's, dim each
    size_t memory_floats;
    double loss;     // of the batch
    double theta_sq; // of the l2 term
    float clip;      // factor of the gradient, at most 1
    double loss_sum; // of the steps done
    bool is_passing; // a block of rows is in `pass`
    muster_model_pass pass;
    muster_layers_coherence coherence;
} local_state;

/* MIX: gossip.c. */
typedef struct mix_state {
    muster_vec models; // const float *
    size_t at;         // next coordinate
} mix_state;

/* The data as this worker reads it itself: own_data.c. */
typedef struct own_data {
    char *path; // in place of the coordinator's; NULL: that one
    muster_background reader;
    job_setup from;       // what the reader reads: copies of its texts
    muster_dataset *rows; // NULL: not read, or let go
    uint32_t reads;       // of the file
    muster_status status; // of the last one
    muster_error error;
    muster_blob *asked; // a copy of the listing that the job brought
    muster_listing listing;
} own_data;

typedef struct worker {
    muster_executor base;
    bool is_set_up;
    job_setup setup;
    char *allowed; // the shared object that may be loaded; NULL: none
    muster_model model;
    uint32_t block_rows; // of a pass
    uint32_t spare_rows; // likewise, of a spare job
    void *scratch;       // of the model, for block_rows rows
    muster_vec held;     // of held_shard, by number
    uint64_t changes;    // of held and plans, counted
    worker_plan plans[MUSTER_WORKER_PLANS];
    uint32_t newest; // of plans
    plan_slots slots;
    muster_vec members; // batch_member: of this step, lane by lane unsorted
    muster_vec lanes;   // float *: accumulators; [0] may be the message itself
    float *accumulators;
    size_t accumulator_floats;
    double *wide; // dim sums of the lane being computed; NULL: unwanted so far
    gathered gather;
    uint64_t gather_entries_row; // the longest row it was made for
    gradient_state gradient;
    local_state local;
    mix_state mix;
    own_data own;
} worker;

/* NULL: it is not held. */
held_shard *muster_job_held_find(const worker *self, uint32_t number);
/* Look up the shards of a stage of the plan, unless that was done and nothing
 * has changed. */
MUSTER_CHECKED muster_status muster_job_slots_find(worker *self,
                                                   const worker_plan *plan,
                                                   uint32_t stage);
/* Where those samples are that some slot has, in their order; how many.
 * `samples` is scratch then. */
size_t muster_job_slots_members(const plan_slots *slots, uint32_t *samples,
                                size_t count, batch_member *members_out);
/* Keep a shard; takes over the reference to `own`, which nobody else can write
 * to. */
MUSTER_CHECKED muster_status muster_job_keep_shard(worker *self,
                                                   muster_blob *own);
/* LOAD of a shard that is listed, and not sent. */
muster_status muster_job_own_begin(worker *self);
muster_status muster_job_own_piece(worker *self);
/* The shards of a plan are here: let the rest of the data go. */
void muster_job_own_release(own_data *own);
/* Waits for a file that is being read. */
void muster_job_own_fini(own_data *own);
muster_status muster_job_gradient_begin(worker *self);
muster_status muster_job_gradient_piece(worker *self);
/* After the checks of gradient_begin, where the setup has local steps. */
muster_status muster_job_local_begin(worker *self);
muster_status muster_job_local_piece(worker *self);
void muster_job_local_fini(local_state *local);
muster_status muster_job_mix_begin(worker *self);
muster_status muster_job_mix_piece(worker *self);

/* Room for rows_max rows; a sparse row may have up to entries_row. */
MUSTER_CHECKED bool muster_job_gather_init(gathered *gather,
                                           const job_setup *setup,
                                           uint32_t rows_max,
                                           uint64_t entries_row);
void muster_job_gather_fini(gathered *gather);
/* Take a row; false when there is no room left for it. Sparse rows are copied,
 * dense ones by muster_job_gather_view(). */
bool muster_job_gather_add(gathered *gather, const muster_shard *shard,
                           uint32_t row, float weight);
/* The rows, copied by the executor's threads. */
muster_rows muster_job_gather_view(muster_executor *executor, gathered *gather,
                                   uint32_t features);

/* --- messages that are decoded -------------------------------------------- */

#define MUSTER_JOB_ROUNDING   0x1p-24 // of a float32
#define MUSTER_JOB_DEVIATIONS 2.0     // standard deviations in a bound
/* The loss behind a gradient travels times this. A code with m > 1 mixes it
 * with coordinates of other blocks, and where the gradient has become small,
 * float32 messages would keep the loss's digits and lose theirs. */
#define MUSTER_JOB_LOSS_SCALE 0x1p-8

/* How long the messages of a decoding are. */
typedef struct job_messages_shape {
    size_t block;    // floats
    size_t measured; // coordinates that count for the bound on rounding
} job_messages_shape;

/* Check that every message that the job's decoding uses is here and has its
 * length and a tail, and that every term is about one of them; then hand them
 * to the decoder, by slot. */
MUSTER_CHECKED muster_status muster_job_messages_begin(
    muster_executor *executor, const job_messages_shape *shape,
    muster_vec *messages, muster_decoder *decoder);

/* What rounding did to the messages before they were sent, as it arrives in the
 * decoded sum: squares of each message's own bound, which is at `tail`, times
 * its decode weights. */
double muster_job_messages_squares(const muster_decoding *decoding,
                                   const float *const *messages, size_t tail);

/* --- the coordinator ------------------------------------------------------ */

/* What a DECODE has begun, for the UPDATE of the same messages: early.c. */
typedef struct early_state {
    muster_blob *sum;          // decoded so far; NULL: nothing
    muster_decoding *decoding; // that the decoder has
    muster_vec messages;       // muster_blob *, as many as it uses
    size_t block;              // as the job said
} early_state;

typedef struct update_state {
    muster_decoder *decoder;
    muster_vec messages; // const float *: of the step
    muster_blob *sum;    // decoded: the job's output, or what is kept of it
    size_t block;        // floats of a block of a message
    size_t tail;         // where a message has its own bound
    size_t at;           // next to decode of each block, or to optimise
    double gradient_sq;  // squares of the decoded sum
    double theta_sq;     // of the old theta, biases left out
    double divisor;      // of the decoded sum: samples that it is of
    double loss_divisor; // of the loss behind it
    double new_theta_sq; // of the new theta, all of it
    float scale;         // from the decoded sum to the gradient that is used
    bool is_optimising;
    early_state early;
} update_state;

typedef struct verify_state {
    uint64_t secret; // of the random signs; 0: not drawn yet
    const muster_code_info *info;
    size_t length;   // of a block
    size_t at;       // next coordinate
    float *signs;    // a table of them for each probe
    double *values;  // [(message, message block)][probe]
    double *squares; // by message
} verify_state;

/* An EVALUATE job, and the room for one after another. */
typedef struct evaluation {
    const struct coordinator *of; // whose data and model it reads
    muster_executor *frame;       // whose job it is
    void *scratch;                // for block_rows rows; all NULL at first
    float *scores;
    muster_scored_row *scored; // the test set; NULL unless two classes
    const float *theta;
    uint64_t row; // the next
    bool is_test;
    bool is_passing; // a block of rows is in `pass`
    muster_rows rows;
    muster_model_pass pass;
    muster_model_tally train;
    muster_model_tally test;
} evaluation;

/* Notes of a checkpoint: which job it is of. */
#define SNAPSHOT_NOTES 7u
typedef struct job_notes {
    char samples[24]; // room for the numbers
    char features[24];
    char classes[24];
    char batch[24];
    char seed[24];
    muster_note list[SNAPSHOT_NOTES];
} job_notes;

typedef enum snapshot_phase {
    SNAPSHOT_WAIT,  // for the writer of the one before
    SNAPSHOT_COPY,  // of what the next step changes
    SNAPSHOT_WRITE, // wait for our own writer
} snapshot_phase;

/* A checkpoint that is being written, from copies: snapshot.c. */
typedef struct snapshot_state {
    char *folder; // NULL: none wanted
    snapshot_phase phase;
    muster_background writer;
    muster_blob *theta, *role; // references
    float *optim_state;        // a copy
    size_t at;                 // next float to copy
    muster_tensor tensors[2 + MUSTER_OPTIM_SLOTS_MAX];
    job_notes notes;
    muster_checkpoint_parts parts;
    muster_status status; // of the last one written, until it is told
    muster_error error;
} snapshot_state;

typedef struct coordinator {
    muster_executor base;
    muster_blob *setup;
    char *spec; // of the model
    char *optim_spec;
    muster_dataset *train;
    muster_dataset *test; // or NULL
    muster_dataset_info info;
    muster_cut cut;
    muster_model model;
    muster_optim optim;
    muster_schedule schedule;
    muster_batch batch;
    double lr;
    double l2;
    double clip;         // the norm that a gradient is cut to; 0: none
    bool is_local;       // messages are the ways of models, not gradients
    bool is_async;       // messages are gradients of workers' own batches
    bool is_gossip;      // workers have the models; messages are these, or
                         // losses
    bool is_listed;      // --data-at workers: shards are listed, not sent
    uint32_t workers;    // of the run
    uint64_t steps;      // of the whole run
    uint64_t step;       // done
    uint64_t partial;    // updates since the last step; ssp
    muster_blob *theta;  // newest
    float *optim_state;  // optim.slots * dim
    uint32_t block_rows; // of a pass
    update_state update;
    evaluation evaluation;
    verify_state verify;
    muster_planner planner;
    snapshot_state snapshot;
} coordinator;

/* The executor as what it must be: a coordinator's. */
coordinator *muster_job_coordinator(muster_executor *executor);
const coordinator *
muster_job_coordinator_const(const muster_executor *executor);

muster_status muster_job_update_begin(coordinator *self);
muster_status muster_job_update_piece(coordinator *self);
/* Check the job's messages; the job's output is where their sum will be. */
MUSTER_CHECKED muster_status muster_job_decode_begin(coordinator *self);
/* Decode the next tile; false: it was the last. And where that tile ends, in
 * each block. */
bool muster_job_decode_tile(coordinator *self);
size_t muster_job_decode_end(const coordinator *self);
/* DECODE. */
muster_status muster_job_early_begin(coordinator *self);
muster_status muster_job_early_piece(coordinator *self);
/* Go on from what a DECODE did, if it was with the job's messages and weights:
 * its sum is the job's output. In any case nothing of it is kept. */
bool muster_job_early_take(coordinator *self);
void muster_job_early_fini(coordinator *self);
/* The same of gossip. */
muster_status muster_job_gossip_begin(coordinator *self);
muster_status muster_job_gossip_piece(coordinator *self);
muster_status muster_job_verify_begin(coordinator *self);
muster_status muster_job_verify_piece(coordinator *self);
void muster_job_verify_fini(coordinator *self);
muster_status muster_job_evaluate_begin(evaluation *at);
muster_status muster_job_evaluate_piece(evaluation *at);
void muster_job_evaluate_fini(evaluation *at);
muster_status muster_job_snapshot_begin(coordinator *self);
muster_status muster_job_snapshot_piece(coordinator *self);
/* Free what a checkpoint that has been written was written from. */
void muster_job_snapshot_tidy(coordinator *self);
/* Waits for one that is being written. */
void muster_job_snapshot_fini(coordinator *self);

#endif // MUSTER_JOB_INSIDE_H
