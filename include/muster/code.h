/*
 * muster/code.h -- gradient codes: build one, encode with it, decode from it.
 *
 * A code spreads k data parts over n workers. The gradient of part j is cut
 * into `gradient_blocks` equal blocks (the last padded with zeros), a message
 * has `message_blocks` blocks of the same length. Encoding is a list of terms:
 * block b of worker i's message is the sum of coef * (block u of part j's
 * gradient) over i's terms (b, j, u, coef). Decoding is a list of terms too:
 * block u of the full gradient is the sum of weight * (block b of worker i's
 * message). This one shape covers plain replication (one block each), split
 * messages (gradient_blocks = m, one message block: a message is p/m long),
 * complex codes (two blocks each: real and imaginary halves), groups and two
 * layers. examples/code_sum.c shows a whole round.
 *
 * A code may have several stages: a worker then sends up to `stages` messages
 * in a step, each as soon as it is done, and every one of them is an answer of
 * its own. Answers are numbered worker * stages + stage. With one stage, as
 * most codes have it, an answer is a worker.
 *
 *   Promise      With at most `stragglers` workers missing, an exact code's
 *                decoded sum is the full gradient up to rounding. With more
 *                missing it is the least-squares best, the call says
 *                MUSTER_INEXACT, and the fit says how far off. Never silently
 *                wrong.
 *   Lifecycle    create; then any number of calls; then free.
 *   Ownership    The caller owns every buffer it passes; nothing is kept after
 *                a call returns. Lent pointers live until muster_code_free().
 *   Threads      A muster_code never changes after create: share it without
 *                locks. A progress or a cache belongs to one thread.
 *   Allocation   create, weights and a cache's miss may allocate (control
 *                path). All other calls never do (data path).
 *   Determinism  Equal options give the same code and the same weights, bit
 *                for bit, in one build of the library on one kind of
 *                processor. Codes that need dense solves ask for the same
 *                number of BLAS threads too. Encode and decode add terms in
 *                their order, in double, and round once.
 *   Not here     Sockets, clocks, threads, choice of code (see plan).
 *
 * Structs that begin with struct_size may gain fields at their end. Start from
 * the _INIT macro, so that a program built against an older header keeps
 * working (docs/compatibility.md).
 *
 * Background: docs/design/code.md; for users: docs/codes.md.
 */
#ifndef MUSTER_CODE_H
#define MUSTER_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "muster/export.h"
#include "muster/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Group codes go up to this n; codes that need dense solves up to 4096. */
#define MUSTER_CODE_WORKERS_MAX       65536u
#define MUSTER_CODE_WORKERS_DENSE_MAX 4096u

/* What to build. Start from MUSTER_CODE_OPTS_INIT, then set fields. */
typedef struct muster_code_opts {
    uint32_t struct_size; // sizeof(muster_code_opts), set by the initialiser
    const char *name;     // "frc", "linear:spc", "ye-abbe:s=2,m=3"; no default
    uint32_t workers;     // n, in 1..MUSTER_CODE_WORKERS_MAX; no default
    uint32_t stragglers;  // s; 0 unless set here or in the name
    uint32_t comm;        // m; 0 means the code's default (1)
    uint32_t load;        // d; 0 means the smallest that s and m need
    const double *speeds; // n relative speeds, for heter codes and to form
                          // groups of frc, erasurehead, linear; NULL: equal
    uint64_t seed;        // random families only; default 1
    const char *topology; // hier: workers under each edge, "4x10" or "3,4,5"
} muster_code_opts;

#define MUSTER_CODE_OPTS_INIT                                               \
    {                                                                       \
        (uint32_t)sizeof(muster_code_opts), NULL, 0, 0, 0, 0, NULL, 1, NULL \
    }

/* Opaque. Made by muster_code_create(), ended by muster_code_free(). */
typedef struct muster_code muster_code;

/* What was built. Start from MUSTER_CODE_INFO_INIT. */
typedef struct muster_code_info {
    uint32_t struct_size;     // sizeof(muster_code_info)
    bool exact;               // false: approximate family
    const char *name;         // resolved, lent until free
    uint32_t workers;         // n
    uint32_t parts;           // k
    uint32_t stragglers;      // any s missing workers are tolerated
    uint32_t comm;            // m = gradient_blocks / message_blocks
    uint32_t load;            // d, the largest number of parts on one worker
    uint32_t gradient_blocks; // blocks of a gradient
    uint32_t message_blocks;  // blocks of a message
    const char *warning;      // what to know before use, or NULL; lent
    uint32_t stages;          // answers of a worker in a step; most codes: 1
    uint32_t own_stages;      // so many of them, the first, are its share of
                              // the work; the others matter only where
                              // somebody is late
} muster_code_info;

#define MUSTER_CODE_INFO_INIT                                                 \
    {                                                                         \
        (uint32_t)sizeof(muster_code_info), false, NULL, 0, 0, 0, 0, 0, 0, 0, \
            NULL, 0, 0                                                        \
    }

/* One product of the encoding: message block += coef * gradient block. */
typedef struct muster_code_encode_term {
    uint32_t message_block;
    uint32_t part;
    uint32_t gradient_block;
    double coef;
} muster_code_encode_term;

/* One product of the decoding: output block += weight * message block. */
typedef struct muster_code_decode_term {
    uint32_t output_block;
    uint32_t worker; // with stages: the answer
    uint32_t message_block;
    double weight;
} muster_code_decode_term;

/* How good a decoding is. Start from MUSTER_CODE_FIT_INIT. */
typedef struct muster_code_fit {
    uint32_t struct_size;   // sizeof(muster_code_fit)
    uint32_t parts_missing; // parts that no responder holds
    double residual;    // ||aB - 1||_2 / sqrt(k): the missing share, 0 if exact
    double weight_norm; // ||a||_2
    double condition;   // 2-norm condition of what was solved: 1 if nothing
                        // was, INFINITY without full rank, NAN if not measured
    double error_f32;   // predicted relative error with float32 messages
} muster_code_fit;

#define MUSTER_CODE_FIT_INIT                                     \
    {                                                            \
        (uint32_t)sizeof(muster_code_fit), 0, 0.0, 0.0, 0.0, 0.0 \
    }

/*
 * Build a code. On MUSTER_OK *code_out is the caller's.
 * MUSTER_ERR_INVALID      a field is out of range, struct_size is too small, or
 *                         no code has this name
 * MUSTER_ERR_UNSUPPORTED  the family cannot serve these numbers, or would lose
 *                         the gradient to rounding; error_out says what would
 *                         be legal
 * MUSTER_ERR_INPUT        linear:file=PATH cannot be read
 * MUSTER_ERR_NO_MEMORY    the code's terms do not fit the memory
 */
MUSTER_API MUSTER_CHECKED muster_status
muster_code_create(const muster_code_opts *opts, muster_error *error_out,
                   muster_code **code_out);

/* NULL is allowed and does nothing. */
MUSTER_API void muster_code_free(muster_code *code);

/* Fill in info_out. MUSTER_ERR_INVALID: its struct_size is too small. */
MUSTER_API MUSTER_CHECKED muster_status
muster_code_describe(const muster_code *code, muster_code_info *info_out);

/* The number of answers: workers * stages. */
MUSTER_API uint32_t muster_code_answers(const muster_code *code);

/* The parts that `worker` must hold, those of all its stages, ascending; lent
 * until free. MUSTER_ERR_INVALID: worker >= n. */
MUSTER_API MUSTER_CHECKED muster_status
muster_code_parts(const muster_code *code, uint32_t worker,
                  const uint32_t **parts_out, uint32_t *count_out);

/* The parts in one answer, ascending; none where a worker has fewer stages than
 * others. Lent until free. MUSTER_ERR_INVALID: there is no such answer. */
MUSTER_API MUSTER_CHECKED muster_status
muster_code_answer_parts(const muster_code *code, uint32_t answer,
                         const uint32_t **parts_out, uint32_t *count_out);

/* The encoding of an answer, sorted by (part, message block); lent until free.
 * MUSTER_ERR_INVALID: there is no such answer. */
MUSTER_API MUSTER_CHECKED muster_status muster_code_encode_terms(
    const muster_code *code, uint32_t answer,
    const muster_code_encode_term **terms_out, uint32_t *count_out);

/* Floats of one block for gradients of `dim` floats: dim / gradient_blocks,
 * rounded up. */
MUSTER_API size_t muster_code_block_length(const muster_code *code, size_t dim);

/* Floats of a message for gradients of `dim` floats: message_blocks blocks. */
MUSTER_API size_t muster_code_message_length(const muster_code *code,
                                             size_t dim);

/* Doubles of the scratch that encode and decode take, one for each thread.
 * NULL in its place is allowed: sums of more than 7 terms then take up to three
 * times as long, with the same bits. */
MUSTER_API size_t muster_code_scratch_length(void);

/*
 * Form the message of an answer: muster_code_message_length(code, dim) floats.
 * grads[j] is the gradient, dim floats, of the j-th part that
 * muster_code_answer_parts() names. message_out must not overlap any of them.
 * MUSTER_ERR_INVALID  there is no such answer, dim == 0, or a pointer but
 *                     scratch is NULL
 * Costs one pass over the gradients for each message block.
 */
MUSTER_API MUSTER_CHECKED muster_status muster_code_encode(
    const muster_code *code, uint32_t answer, const float *const *grads,
    size_t dim, double *scratch, float *message_out);

/*
 * Who has answered so far, and is it enough? Kept incrementally: an answer
 * costs O(load * m) or less, never a solve.
 */
typedef struct muster_code_progress muster_code_progress;

/* MUSTER_ERR_NO_MEMORY: O(n) bytes could not be had. */
MUSTER_API MUSTER_CHECKED muster_status muster_code_progress_create(
    const muster_code *code, muster_code_progress **progress_out);
/* NULL is allowed and does nothing. */
MUSTER_API void muster_code_progress_free(muster_code_progress *progress);
/* Forget all answers: a new step. */
MUSTER_API void muster_code_progress_reset(muster_code_progress *progress);
/* Count an answer (a second time changes nothing); true once the answers
 * determine the full gradient, and from then on. Approximate codes are never
 * ready before all have answered unless they can decode exactly. */
MUSTER_API bool muster_code_progress_add(muster_code_progress *progress,
                                         uint32_t answer);
MUSTER_API bool
muster_code_progress_ready(const muster_code_progress *progress);

/* An upper bound on the terms of any decoding. */
MUSTER_API size_t muster_code_decode_terms_max(const muster_code *code);

/*
 * The decoding for the answers heard: `responders`, ascending, `count` of them
 * (workers; with stages, answers). terms_out has room for
 * muster_code_decode_terms_max(); terms are sorted by (output block, worker). A
 * responder without a term is not needed. Do this once for a responder set,
 * then decode as often as wanted.
 *
 * MUSTER_OK             exact
 * MUSTER_INEXACT        the least-squares best; see fit_out->residual
 * MUSTER_ERR_INVALID    responders not strictly ascending below
 *                       muster_code_answers(), or fit_out->struct_size is too
 *                       small
 * MUSTER_ERR_NO_MEMORY  the solve's scratch could not be had
 */
MUSTER_API MUSTER_CHECKED muster_status
muster_code_weights(const muster_code *code, const uint32_t *responders,
                    uint32_t count, muster_code_decode_term *terms_out,
                    size_t *term_count_out, muster_code_fit *fit_out);

/* A decoding and the messages that it is applied to. */
typedef struct muster_code_decode_input {
    const muster_code_decode_term *terms; // of muster_code_weights()
    size_t term_count;
    const float *const *messages; // muster_code_answers() pointers; NULL is
                                  // allowed where no term names the answer
} muster_code_decode_input;

/*
 * Apply a decoding: sum_out, dim floats, becomes the full gradient, or the best
 * that the decoding gives. sum_out must not overlap a message.
 * MUSTER_ERR_INVALID  dim == 0, a pointer that is needed is NULL, or the terms
 *                     are not sorted by output block or not of this code
 * Costs one pass over the message blocks that the terms name.
 */
MUSTER_API MUSTER_CHECKED muster_status muster_code_decode(
    const muster_code *code, const muster_code_decode_input *input, size_t dim,
    double *scratch, float *sum_out);

/*
 * The decodings of responder sets met before, the least recently used one
 * forgotten first. Belongs to one thread; the code must outlive it. Training
 * uses it too.
 */
typedef struct muster_code_cache muster_code_cache;

/* For `capacity` sets; each costs what its own responders and terms do.
 * MUSTER_ERR_INVALID    capacity is not in 1..2^20
 * MUSTER_ERR_NO_MEMORY  room for one decoding could not be had */
MUSTER_API MUSTER_CHECKED muster_status muster_code_cache_create(
    const muster_code *code, uint32_t capacity, muster_code_cache **cache_out);
/* NULL is allowed and does nothing. */
MUSTER_API void muster_code_cache_free(muster_code_cache *cache);

/* As muster_code_weights(), with its statuses, from memory when the set is
 * known: that allocates nothing. The terms are lent until the next call. */
MUSTER_API MUSTER_CHECKED muster_status muster_code_cache_weights(
    muster_code_cache *cache, const uint32_t *responders, uint32_t count,
    const muster_code_decode_term **terms_out, size_t *term_count_out,
    muster_code_fit *fit_out);

#ifdef __cplusplus
}
#endif
#endif // MUSTER_CODE_H
