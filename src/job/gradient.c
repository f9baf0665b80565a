/*
 * GRADIENT: theta in, the coded message of a step out.
 *
 * The step's batch is drawn over all samples; those that lie in the plan's
 * parts are this worker's members. Lane after lane, members of the lane's parts
 * go to the model a block at a time, with the part's weight in the lane as the
 * weight of their loss, and the gradients add up in the lane's accumulator; its
 * last coordinate is the weighted sum of the losses. Lanes are then mixed into
 * the message.
 *
 *  1. Blocks are cut by sizes (muster_model_block_rows), and so are the pieces
 *     of a block (model/pass.h): the sums do not depend on timing.
 *  2. A full batch is every row of every shard of the plan's parts, in order,
 *     used where it lies.
 *  3. A code with one lane and one block needs no mixing: its lane is the
 *     message, accumulated in the output blob.
 *  4. No member at all is a message of zeros.
 *  5. A lane of many rows is summed in double (needs_wide). One array of such
 *     sums serves all lanes: they come one after another. Loops over single
 *     entries add to the sums in double themselves. Matrix products add blocks
 *     of rows to the lane in float32; after SUM_ROWS rows the lane is added to
 *     the sums in double and begins anew. So an error grows with a block, never
 *     with the batch; what is left is measured (layers_pass.h).
 *  6. Behind the message goes one more float, for the coordinator's grad_err:
 *     how far off rounding has the message, as a 2-norm.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/mem.h"
#include "job/inside.h"

#define CLEAR_FLOATS  ((size_t)1 << 21)
#define DRAW_GROUP    1024u
#define DRAW_SAMPLES  32768u // of a piece
#define ENCODE_FLOATS ((size_t)1 << 20)
#define FOLD_FLOATS   ((size_t)1 << 20)

/* Rows that products add to a lane in float32: 8 blocks of sums. Folding then
 * costs 24 bytes a weight for 6 * 4,096 operations, about a hundredth. */
#define SUM_ROWS 4096u
/* Rows that single float32 additions may take: an error of 5 ulps. */
#define SUM_ROWS_DIRECT 256u
/* Sums in double cost two more passes over them. That is nothing where there
 * are few, or where each of them gets this many terms. */
#define SUM_FEW   65536u
#define SUM_TERMS 16.0

static bool is_full_batch(const worker *self)
{
    return self->setup.batch.size == self->setup.batch.samples;
}

static size_t message_dim(const worker *self)
{
    return self->model.dim + 1;
}

/* Whether a lane of so many rows is summed in double. Where the model adds
 * single entries to its sums it does so from SUM_ROWS_DIRECT rows on, unless
 * the model is so large and its rows so sparse that the additional passes would
 * be felt; then few terms meet in a sum, and the variance tells the rest. */
static bool needs_wide(const worker *self, uint64_t rows)
{
    const job_setup *setup = &self->setup;
    size_t direct = muster_model_pass_wide(&self->model, setup->is_sparse);
    if (rows <= SUM_ROWS_DIRECT || direct == 0) {
        return rows > SUM_ROWS;
    }
    double row = setup->is_sparse
                     ? (double)setup->nonzeros / (double)setup->samples
                     : setup->features;
    double terms = (double)rows * row / setup->features;
    return direct <= SUM_FEW || terms >= SUM_TERMS;
}

/* Whether the one lane is the message as it stands. */
static bool is_direct(const muster_encode_plan *plan)
{
    return plan->lane_count == 1 && plan->gradient_blocks == 1 &&
           plan->message_blocks == 1 && plan->coefs[0] == 1;
}

/* How many members a step can have: B positions touch a sample at most
 * B / samples + 2 times. */
static size_t members_max(const worker *self)
{
    const muster_batch *batch = &self->setup.batch;
    uint64_t count = self->slots.rows * (batch->size / batch->samples + 2);
    return count < batch->size ? count : batch->size;
}

/* Rows that a step can have. */
static uint64_t rows_max(const worker *self)
{
    return is_full_batch(self) ? self->slots.rows : members_max(self);
}

/* Grow whatever this plan and these parts need; nothing in a steady run. */
static muster_status make_room(worker *self, const muster_encode_plan *plan)
{
    uint64_t entries_row = self->slots.entries_row;
    size_t floats = is_direct(plan) ? 0 : message_dim(self) * plan->lane_count;
    if (floats > self->accumulator_floats) {
        muster_mem_free(self->accumulators);
        self->accumulators = muster_mem_raw_aligned(floats, sizeof(float));
        self->accumulator_floats = self->accumulators != NULL ? floats : 0;
    }
    if (self->wide == NULL && needs_wide(self, rows_max(self))) {
        self->wide = muster_mem_raw_aligned(self->model.dim, sizeof(double));
        if (self->wide == NULL) {
            return MUSTER_ERR_NO_MEMORY;
        }
    }
    bool has_room = floats <= self->accumulator_floats &&
                    muster_vec_reserve(&self->lanes, plan->lane_count);
    if (has_room && !is_full_batch(self)) {
        has_room = muster_vec_reserve(&self->members, members_max(self));
    }
    if (has_room && (self->gather.weights == NULL ||
                     entries_row > self->gather_entries_row)) {
        muster_job_gather_fini(&self->gather);
        has_room = muster_job_gather_init(&self->gather, &self->setup,
                                          self->block_rows, entries_row);
        self->gather_entries_row = entries_row;
    }
    if (!has_room) {
        muster_job_gather_fini(&self->gather);
    }
    return has_room ? MUSTER_OK
                    : muster_error_set(&self->base.error, MUSTER_ERR_NO_MEMORY,
                                       "out of memory for the gradients of "
                                       "%u lanes",
                                       plan->lane_count);
}

/* The newest first: one of an earlier connection may have the same number. */
static const worker_plan *find_plan(const worker *self, uint32_t number)
{
    for (uint32_t age = 0; age < MUSTER_WORKER_PLANS; age++) {
        const worker_plan *plan =
            &self->plans[(self->newest + MUSTER_WORKER_PLANS - age) %
                         MUSTER_WORKER_PLANS];
        if (plan->stages > 0 && plan->number == number) {
            return plan;
        }
    }
    return NULL;
}

static void point_lanes(worker *self, const muster_encode_plan *plan)
{
    float **lanes = self->lanes.data;
    for (uint32_t l = 0; l < plan->lane_count; l++) {
        lanes[l] = self->accumulators + l * message_dim(self);
    }
    if (is_direct(plan)) {
        lanes[0] = self->base.result.output->data;
    }
}

static muster_status refuse(worker *self, const char *why)
{
    return muster_error_set(&self->base.error, MUSTER_ERR_INVALID,
                            "step %" PRIu64 ": %s", self->base.job.step, why);
}

/* How much of a step this is, for delays that depend on it. */
static void say_work(worker *self, const muster_encode_plan *plan)
{
    size_t dim = message_dim(self);
    muster_job_result *result = &self->base.result;
    result->share = (double)self->slots.rows / (double)self->setup.samples;
    result->message =
        (double)muster_encode_plan_message(plan, dim) / (double)dim;
}

muster_status muster_job_gradient_begin(worker *self)
{
    const muster_job *job = &self->base.job;
    const worker_plan *adopted = find_plan(self, job->plan);
    if (!self->is_set_up || adopted == NULL) {
        return refuse(self, "its plan was not adopted");
    }
    if (job->input == NULL || job->input->data == NULL ||
        job->input->bytes < self->model.dim * sizeof(float)) {
        return refuse(self, "the model is too short");
    }
    if (job->stage >= adopted->stages) {
        return refuse(self, "its plan has no such stage");
    }
    muster_encode_plan *plan = adopted->lanes[job->stage];
    muster_status status = muster_job_slots_find(self, adopted, job->stage);
    if (status == MUSTER_OK) {
        status = make_room(self, plan);
    }
    if (status == MUSTER_OK) {
        size_t floats = muster_encode_plan_message(plan, message_dim(self));
        status = muster_executor_make_output(&self->base,
                                             (floats + 1) * sizeof(float));
    }
    if (status != MUSTER_OK) {
        return status;
    }
    say_work(self, plan);
    if (self->setup.local.steps > 0) {
        return is_direct(plan) ? muster_job_local_begin(self)
                               : refuse(self, "local steps have no code");
    }
    point_lanes(self, plan);
    muster_vec_clear(&self->members);
    self->gather.count = 0;
    self->gradient = (gradient_state){
        .phase = GRADIENT_CLEAR,
        .plan = plan,
        .theta = job->input->data,
    };
    return MUSTER_IN_PROGRESS;
}

static void enter(worker *self, gradient_phase phase)
{
    self->gradient.phase = phase;
    self->gradient.at = 0;
}

/* Where a piece of `each` coordinates a thread ends. */
static size_t piece_end(const worker *self, size_t begin, size_t size,
                        size_t each)
{
    size_t count = each * muster_threads_count(self->base.pool);
    return size - begin < count ? size : begin + count;
}

static void clear_lanes(void *context, uint32_t part, size_t begin, size_t end)
{
    const worker *self = context;
    float *const *lanes = self->lanes.data;
    (void)part;
    for (uint32_t l = 0; l < self->gradient.plan->lane_count; l++) {
        memset(lanes[l] + begin, 0, (end - begin) * sizeof(float));
    }
}

static muster_status clear_piece(worker *self)
{
    gradient_state *state = &self->gradient;
    size_t dim = message_dim(self);
    size_t end = piece_end(self, state->at, dim, CLEAR_FLOATS);
    muster_job_share(&self->base, state->at, end, clear_lanes, self);
    state->at = end;
    if (end == dim) {
        enter(self, is_full_batch(self) ? GRADIENT_ROWS : GRADIENT_DRAW);
    }
    return MUSTER_IN_PROGRESS;
}

/* Keep those of `samples` that a shard of the plan holds. */
static void keep_members(worker *self, uint32_t *samples, uint64_t count)
{
    batch_member found[DRAW_GROUP];
    size_t kept = muster_job_slots_members(&self->slots, samples, count, found);
    bool room = muster_vec_append(&self->members, found, kept);
    MUSTER_ASSERT(room); // make_room saw to it
}

static muster_status draw_piece(worker *self)
{
    gradient_state *state = &self->gradient;
    const muster_batch *batch = &self->setup.batch;
    uint32_t samples[DRAW_GROUP];
    uint64_t end = state->at + DRAW_SAMPLES;
    end = end < batch->size ? end : batch->size;
    while (state->at < end) {
        uint64_t count = end - state->at;
        count = count < DRAW_GROUP ? count : DRAW_GROUP;
        muster_batch_draw(batch, self->base.job.step, state->at, count,
                          samples);
        keep_members(self, samples, count);
        state->at += count;
    }
    if (end == batch->size) {
        enter(self, GRADIENT_ROWS);
    }
    return MUSTER_IN_PROGRESS;
}

/* What becomes of a lane's squares in the message, at most. */
static double lane_squares(const muster_encode_plan *plan, uint32_t lane)
{
    size_t count = (size_t)plan->message_blocks * plan->gradient_blocks;
    const double *coefs = plan->coefs + lane * count;
    double squares = 0;
    for (size_t i = 0; i < count; i++) {
        squares += coefs[i] * coefs[i];
    }
    return squares;
}

static void enter_lane(gradient_state *state, lane_phase phase, size_t at)
{
    state->lane_phase = phase;
    state->fold_at = at;
}

/* Give rows to the model, with the numbers of their samples; their weights are
 * gather.weights. */
static void begin_pass(worker *self, const muster_rows *rows,
                       const uint32_t *samples)
{
    gradient_state *state = &self->gradient;
    float *const *lanes = self->lanes.data;
    uint32_t lane_rows =
        state->lane_rows < UINT32_MAX ? (uint32_t)state->lane_rows : UINT32_MAX;
    state->coherence.is_fresh = state->unfolded == 0;
    const muster_layers_input input = {.theta = state->theta,
                                       .rows = *rows,
                                       .weights = self->gather.weights,
                                       .scratch = self->scratch,
                                       .gradient = lanes[state->lane],
                                       .wide =
                                           state->is_wide ? self->wide : NULL,
                                       .rows_summed = lane_rows,
                                       .sample_ids = samples,
                                       .seed = self->setup.batch.seed,
                                       .step = self->base.job.step,
                                       .coherence = &state->coherence,
                                       .pool = self->base.pool};
    muster_model_pass_begin(&state->pass, &self->model, &input);
    state->is_passing = true;
}

static muster_status pass_piece(worker *self)
{
    gradient_state *state = &self->gradient;
    muster_status status = muster_model_pass_step(&state->pass);
    if (status == MUSTER_IN_PROGRESS) {
        return status;
    }
    if (status != MUSTER_OK) {
        return muster_error_set(
            &self->base.error, status < 0 ? status : MUSTER_ERR_INPUT,
            "step %" PRIu64 ": the model cannot take the "
            "rows of its parts (%s)",
            self->base.job.step,
            status == MUSTER_ERR_INPUT ? "a label is not one of its classes"
                                       : muster_status_text(status));
    }
    state->is_passing = false;
    state->loss += state->pass.loss;
    state->variance +=
        state->pass.variance * lane_squares(state->plan, state->lane);
    state->unfolded += muster_model_pass_rows(&state->pass);
    if (state->is_wide && state->unfolded >= SUM_ROWS) {
        enter_lane(state, LANE_FOLD,
                   muster_model_pass_wide(&self->model, self->setup.is_sparse));
    }
    return MUSTER_IN_PROGRESS;
}

/* The lane is complete. */
static void finish_lane(worker *self)
{
    gradient_state *state = &self->gradient;
    float *const *lanes = self->lanes.data;
    lanes[state->lane][self->model.dim] =
        (float)(state->loss * MUSTER_JOB_LOSS_SCALE);
    state->loss = 0;
    state->at = 0;
    state->slot = 0;
    state->unfolded = 0;
    state->lane++;
    enter_lane(state, LANE_BEGIN, 0);
}

/* All rows of the lane are summed. */
static void end_rows(worker *self)
{
    if (self->gradient.is_wide) {
        enter_lane(&self->gradient, LANE_ROUND, 0);
    } else {
        finish_lane(self);
    }
}

/* Coordinates of LANE_CLEAR, LANE_FOLD or LANE_ROUND. */
static void fold_range(void *context, uint32_t part, size_t begin, size_t end)
{
    const worker *self = context;
    const gradient_state *state = &self->gradient;
    float *lane = ((float *const *)self->lanes.data)[state->lane];
    double *wide = self->wide;
    (void)part;
    if (state->lane_phase == LANE_CLEAR) {
        memset(wide + begin, 0, (end - begin) * sizeof(*wide));
    } else if (state->lane_phase == LANE_FOLD) {
        for (size_t i = begin; i < end; i++) {
            wide[i] += (double)lane[i];
            lane[i] = 0;
        }
    } else {
        for (size_t i = begin; i < end; i++) {
            lane[i] = (float)(wide[i] + (double)lane[i]);
        }
    }
}

/* Some of them; true at the end. */
static bool fold_some(worker *self)
{
    gradient_state *state = &self->gradient;
    size_t dim = self->model.dim;
    size_t end = piece_end(self, state->fold_at, dim, FOLD_FLOATS);
    muster_job_share(&self->base, state->fold_at, end, fold_range, self);
    state->fold_at = end;
    return end == dim;
}

static muster_status fold_piece(worker *self)
{
    gradient_state *state = &self->gradient;
    if (!fold_some(self)) {
        return MUSTER_IN_PROGRESS;
    }
    if (state->lane_phase == LANE_ROUND) {
        finish_lane(self);
    } else {
        state->unfolded = 0;
        enter_lane(state, LANE_ROWS, 0);
    }
    return MUSTER_IN_PROGRESS;
}

/* How many rows the lane will take decides how they are summed. */
static void begin_lane(worker *self)
{
    gradient_state *state = &self->gradient;
    const muster_encode_plan_part *parts = state->plan->parts;
    const plan_slot *slots = self->slots.list.data;
    const batch_member *members = self->members.data;
    uint64_t rows = 0;
    for (size_t i = 0; is_full_batch(self) && i < self->slots.list.count; i++) {
        bool mine = parts[slots[i].part].lane == state->lane;
        rows += mine ? slots[i].shard->rows.count : 0;
    }
    for (size_t i = 0; i < self->members.count; i++) {
        rows += parts[slots[members[i].slot].part].lane == state->lane;
    }
    state->lane_rows = rows;
    state->is_wide = needs_wide(self, rows);
    enter_lane(state, state->is_wide ? LANE_CLEAR : LANE_ROWS, 0);
}

/* Of a pass: few where the job may have to be left soon. */
static uint32_t pass_rows(const worker *self)
{
    return self->base.job.spare ? self->spare_rows : self->block_rows;
}

/* Full batch: the next rows of the lane's next shard, where they lie. */
static muster_status part_rows_piece(worker *self)
{
    gradient_state *state = &self->gradient;
    const muster_encode_plan *plan = state->plan;
    const plan_slot *slots = self->slots.list.data;
    size_t count = self->slots.list.count;
    while (state->slot < count &&
           (plan->parts[slots[state->slot].part].lane != state->lane ||
            state->at == slots[state->slot].shard->rows.count)) {
        state->slot++;
        state->at = 0;
    }
    if (state->slot == count) {
        end_rows(self);
        return MUSTER_IN_PROGRESS;
    }
    const plan_slot *slot = &slots[state->slot];
    muster_rows rows = slot->shard->rows;
    uint32_t at = (uint32_t)state->at;
    uint32_t left = rows.count - at;
    rows.count = left < pass_rows(self) ? left : pass_rows(self);
    rows.labels += at;
    if (rows.dense != NULL) {
        rows.dense += at * rows.stride;
    } else {
        rows.offsets += at;
    }
    for (uint32_t r = 0; r < rows.count; r++) {
        self->gather.weights[r] = (float)plan->parts[slot->part].weight;
    }
    state->at += rows.count;
    begin_pass(self, &rows, slot->shard->sample_ids + at);
    return pass_piece(self);
}

/* Mini-batch: the lane's next members, collected. */
static muster_status member_rows_piece(worker *self)
{
    gradient_state *state = &self->gradient;
    const muster_encode_plan *plan = state->plan;
    const plan_slot *slots = self->slots.list.data;
    const batch_member *members = self->members.data;
    self->gather.count = 0;
    for (; state->at < self->members.count &&
           self->gather.count < pass_rows(self);
         state->at++) {
        const batch_member *member = &members[state->at];
        const plan_slot *slot = &slots[member->slot];
        const muster_encode_plan_part *part = &plan->parts[slot->part];
        if (part->lane == state->lane &&
            !muster_job_gather_add(&self->gather, slot->shard, member->row,
                                   (float)part->weight)) {
            break;
        }
    }
    if (self->gather.count > 0) {
        muster_rows rows = muster_job_gather_view(&self->base, &self->gather,
                                                  self->setup.features);
        begin_pass(self, &rows, self->gather.samples);
        return pass_piece(self);
    }
    end_rows(self);
    return MUSTER_IN_PROGRESS;
}

static muster_status lane_piece(worker *self)
{
    gradient_state *state = &self->gradient;
    if (state->lane_phase == LANE_BEGIN) {
        begin_lane(self);
    }
    if (state->lane_phase != LANE_ROWS) {
        return fold_piece(self);
    }
    if (state->is_passing) {
        return pass_piece(self);
    }
    return is_full_batch(self) ? part_rows_piece(self)
                               : member_rows_piece(self);
}

/* The float behind the message. */
static void put_tail(worker *self)
{
    const gradient_state *state = &self->gradient;
    float *message = self->base.result.output->data;
    message[muster_encode_plan_message(state->plan, message_dim(self))] =
        (float)(0x1p-24 * sqrt(state->variance));
}

static muster_status rows_piece(worker *self)
{
    if (self->gradient.lane < self->gradient.plan->lane_count) {
        return lane_piece(self);
    }
    enter(self, GRADIENT_ENCODE);
    put_tail(self);
    return is_direct(self->gradient.plan) ? MUSTER_OK : MUSTER_IN_PROGRESS;
}

static muster_status encode_piece(worker *self)
{
    gradient_state *state = &self->gradient;
    muster_encode_plan *plan = state->plan;
    size_t dim = message_dim(self);
    size_t floats = muster_encode_plan_message(plan, dim);
    size_t begin = state->at;
    size_t end =
        floats - begin < ENCODE_FLOATS ? floats : begin + ENCODE_FLOATS;
    muster_encode_plan_apply(plan, self->lanes.data, dim, begin, end,
                             self->base.result.output->data);
    state->at = end;
    return end < floats ? MUSTER_IN_PROGRESS : MUSTER_OK;
}

muster_status muster_job_gradient_piece(worker *self)
{
    if (self->setup.local.steps > 0) {
        return muster_job_local_piece(self);
    }
    switch (self->gradient.phase) {
    case GRADIENT_CLEAR:
        return clear_piece(self);
    case GRADIENT_DRAW:
        return draw_piece(self);
    case GRADIENT_ROWS:
        return rows_piece(self);
    case GRADIENT_ENCODE:
        return encode_piece(self);
    }
    return MUSTER_OK;
}
