/*
 * VERIFY: messages of a step in, which of them agree out.
 *
 * One pass over the messages takes each block's inner products with PROBES
 * random vectors of signs, and its squares; code/consistent.h does the rest
 * with those few numbers. The signs are drawn from a secret of this process:
 * who could foresee them could lie at right angles to them.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/dot.h"
#include "base/error.h"
#include "base/finite.h"
#include "base/mem.h"
#include "base/rng.h"
#include "code/consistent.h"
#include "code/numbers.h"
#include "job/inside.h"

#define PROBES 4u
#define CHUNK  4096u               // coordinates whose signs follow each other
#define TABLE  ((size_t)2 * CHUNK) // of signs, for each probe
#define RUN    256u                // that are added up in float
#define PIECE  ((size_t)4 << 20)   // floats read by a piece
#define LOSE   0x1p-23             // of a message's norm, to rounding
/* A message's own bound is believed up to so many times the median of all. */
#define BOUND_TIMES 8.0

MUSTER_SIMD static double product(const float *x, const float *signs,
                                  size_t count)
{
    double sum = 0;
    for (size_t at = 0; at < count; at += RUN) {
        size_t left = count - at;
        uint32_t some = left < RUN ? (uint32_t)left : RUN;
        sum += (double)muster_dot_f32(x + at, signs + at, some);
    }
    return sum;
}

/* The table that every chunk has its signs from. */
static void draw_signs(const verify_state *verify)
{
    for (size_t i = 0; i < (size_t)PROBES * TABLE; i++) {
        uint64_t bits = muster_rng_at(verify->secret, 0, i / 64);
        verify->signs[i] = (bits >> i % 64 & 1) != 0 ? 1.0f : -1.0f;
    }
}

/* A chunk's signs: a random place of the table, all of them turned or none. To
 * draw each anew would cost more than the inner products. */
static const float *signs_of(const verify_state *verify, uint32_t probe,
                             double *turn_out)
{
    uint64_t drawn =
        muster_rng_at(verify->secret, 1 + probe, verify->at / CHUNK);
    *turn_out = (drawn & 1) != 0 ? 1.0 : -1.0;
    return verify->signs + (size_t)probe * TABLE + (drawn >> 1) % CHUNK;
}

static muster_status refuse(coordinator *self, const char *why)
{
    return muster_error_set(&self->base.error, MUSTER_ERR_INVALID,
                            "the check of a step: %s", why);
}

/* `slots`, `length` of a block and the messages fit each other. */
static muster_status check_inputs(coordinator *self)
{
    const muster_job *job = &self->base.job;
    verify_state *verify = &self->verify;
    if (job->code == NULL || job->input == NULL || job->message_count == 0 ||
        job->input->bytes != job->message_count * sizeof(uint32_t)) {
        return refuse(self, "it has no messages");
    }
    verify->info = muster_code_numbers(job->code);
    size_t blocks = verify->info->gradient_blocks;
    verify->length = (self->model.dim + blocks) / blocks;
    size_t floats = verify->length * verify->info->message_blocks + 1;
    for (uint32_t i = 0; i < job->message_count; i++) {
        const muster_blob *message = job->messages[i];
        if (message == NULL || message->data == NULL ||
            message->bytes < floats * sizeof(float)) {
            return refuse(self, "a message is too short");
        }
    }
    return MUSTER_OK;
}

void muster_job_verify_fini(coordinator *self)
{
    verify_state *verify = &self->verify;
    muster_mem_free(verify->signs);
    muster_mem_free(verify->values);
    muster_mem_free(verify->squares);
    verify->signs = NULL;
    verify->values = NULL;
    verify->squares = NULL;
}

muster_status muster_job_verify_begin(coordinator *self)
{
    verify_state *verify = &self->verify;
    uint32_t count = self->base.job.message_count;
    muster_status status = check_inputs(self);
    if (status != MUSTER_OK) {
        return status;
    }
    if (verify->secret == 0 && getrandom(&verify->secret, sizeof(uint64_t),
                                         0) != (ssize_t)sizeof(uint64_t)) {
        verify->secret = (uint64_t)muster_clock_ns();
    }
    muster_job_verify_fini(self);
    size_t rows = (size_t)count * verify->info->message_blocks;
    verify->signs = muster_mem_raw_aligned(PROBES * TABLE, sizeof(float));
    verify->values = muster_mem_array(rows * PROBES, sizeof(double));
    verify->squares = muster_mem_array(count, sizeof(double));
    verify->at = 0;
    status = muster_executor_make_output(&self->base, count);
    if (verify->signs == NULL || verify->values == NULL ||
        verify->squares == NULL || status != MUSTER_OK) {
        return muster_error_set(&self->base.error, MUSTER_ERR_NO_MEMORY,
                                "no memory to check a step");
    }
    draw_signs(verify);
    return MUSTER_IN_PROGRESS;
}

/* The same coordinates of every message block. */
static void probe_chunk(coordinator *self, size_t count)
{
    verify_state *verify = &self->verify;
    uint32_t blocks = verify->info->message_blocks;
    double turns[PROBES];
    const float *signs[PROBES];
    for (uint32_t q = 0; q < PROBES; q++) {
        signs[q] = signs_of(verify, q, &turns[q]);
    }
    for (uint32_t i = 0; i < self->base.job.message_count; i++) {
        const float *message = self->base.job.messages[i]->data;
        for (uint32_t b = 0; b < blocks; b++) {
            const float *x = message + b * verify->length + verify->at;
            double *values = verify->values + ((size_t)i * blocks + b) * PROBES;
            for (uint32_t q = 0; q < PROBES; q++) {
                values[q] += turns[q] * product(x, signs[q], count);
            }
            verify->squares[i] += product(x, x, count);
        }
    }
}

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

/* What each message says that rounding did to it, from all that are finite. */
static double bound_max(const coordinator *self, double *scratch,
                        const uint32_t *finite, uint32_t count)
{
    const verify_state *verify = &self->verify;
    size_t tail = verify->length * verify->info->message_blocks;
    for (uint32_t i = 0; i < count; i++) {
        const float *message = self->base.job.messages[finite[i]]->data;
        scratch[i] = fabs((double)message[tail]);
    }
    qsort(scratch, count, sizeof(double), ascending);
    return count > 0 ? BOUND_TIMES * scratch[count / 2] : 0;
}

static void measure_noise(const coordinator *self, const uint32_t *finite,
                          uint32_t count, double *noise_out)
{
    const verify_state *verify = &self->verify;
    size_t tail = verify->length * verify->info->message_blocks;
    double believed_max = bound_max(self, noise_out, finite, count);
    for (uint32_t i = 0; i < count; i++) {
        const float *message = self->base.job.messages[finite[i]]->data;
        double bound = fabs((double)message[tail]);
        bound = bound < believed_max ? bound : believed_max;
        noise_out[i] =
            sqrt(bound * bound + LOSE * LOSE * verify->squares[finite[i]]);
    }
}

static bool are_finite(const double *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(values[i])) {
            return false;
        }
    }
    return true;
}

/* NONE, NOT_FINITE, or WRONG: of numbers so large that their sums are not. */
static uint8_t mark_of(coordinator *self, uint32_t i)
{
    verify_state *verify = &self->verify;
    const float *message = self->base.job.messages[i]->data;
    size_t tail = verify->length * verify->info->message_blocks;
    size_t row = (size_t)verify->info->message_blocks * PROBES;
    if (isfinite(verify->squares[i]) && isfinite(message[tail])) {
        return MUSTER_MARK_NONE;
    }
    if (!muster_floats_are_finite(message, tail + 1)) {
        return MUSTER_MARK_NOT_FINITE;
    }
    // Squares of floats may be beyond floats.
    verify->squares[i] = muster_dot_wide(message, message, tail);
    return are_finite(verify->values + i * row, row) ? MUSTER_MARK_NONE
                                                     : MUSTER_MARK_WRONG;
}

/* List the messages whose numbers can be compared; the others are marked. Where
 * most are too large, the training diverged, and nobody lies. */
static uint32_t list_finite(coordinator *self, uint32_t *finite)
{
    uint32_t messages = self->base.job.message_count;
    uint8_t *marks = self->base.result.output->data;
    uint32_t count = 0;
    for (uint32_t i = 0; i < messages; i++) {
        marks[i] = mark_of(self, i);
        finite[count] = i;
        count += marks[i] == MUSTER_MARK_NONE;
    }
    for (uint32_t i = 0; i < messages && count <= messages / 2; i++) {
        marks[i] =
            marks[i] == MUSTER_MARK_WRONG ? MUSTER_MARK_NOT_FINITE : marks[i];
    }
    return count;
}

/* Ask the code, and turn its answer into marks. */
static muster_status judge(coordinator *self, uint32_t *finite, uint32_t count)
{
    static const uint8_t marks[] = {
        [MUSTER_AGREE_UNKNOWN] = MUSTER_MARK_NONE,
        [MUSTER_AGREE_GOOD] = MUSTER_MARK_AGREES,
        [MUSTER_AGREE_SUSPECT] = MUSTER_MARK_SUSPECT,
        [MUSTER_AGREE_WRONG] = MUSTER_MARK_WRONG,
    };
    const muster_job *job = &self->base.job;
    const uint32_t *slots = job->input->data;
    uint8_t *out = self->base.result.output->data;
    size_t row = (size_t)self->verify.info->message_blocks * PROBES;
    double *noise = muster_mem_array(count + 1, sizeof(double));
    double *values = muster_mem_array(count * row + 1, sizeof(double));
    uint32_t *responders = muster_mem_array(count + 1, sizeof(uint32_t));
    muster_agreement *found = muster_mem_array(count + 1, sizeof(*found));
    muster_status status = MUSTER_ERR_NO_MEMORY;
    if (noise != NULL && values != NULL && responders != NULL &&
        found != NULL) {
        for (uint32_t i = 0; i < count; i++) {
            responders[i] = slots[finite[i]];
            memcpy(values + i * row, self->verify.values + finite[i] * row,
                   row * sizeof(double));
        }
        measure_noise(self, finite, count, noise);
        const muster_consistent_input input = {job->code, responders, count,
                                               PROBES,    values,     noise};
        status = muster_consistent_check(&input, found);
        for (uint32_t i = 0; status == MUSTER_OK && i < count; i++) {
            out[finite[i]] = marks[found[i]];
        }
    }
    muster_mem_free(found);
    muster_mem_free(responders);
    muster_mem_free(values);
    muster_mem_free(noise);
    return status;
}

static muster_status finish(coordinator *self)
{
    uint32_t *finite =
        muster_mem_array(self->base.job.message_count, sizeof(uint32_t));
    muster_status status = MUSTER_ERR_NO_MEMORY;
    if (finite != NULL) {
        status = judge(self, finite, list_finite(self, finite));
    }
    muster_mem_free(finite);
    muster_job_verify_fini(self);
    return status;
}

muster_status muster_job_verify_piece(coordinator *self)
{
    verify_state *verify = &self->verify;
    size_t rows =
        (size_t)self->base.job.message_count * verify->info->message_blocks;
    for (size_t read = 0; verify->at < verify->length && read < PIECE;) {
        size_t left = verify->length - verify->at;
        size_t some = left < CHUNK ? left : CHUNK;
        probe_chunk(self, some);
        verify->at += some;
        read += some * rows * (PROBES + 1);
    }
    return verify->at < verify->length ? MUSTER_IN_PROGRESS : finish(self);
}
