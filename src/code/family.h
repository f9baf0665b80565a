/*
 * code/family.h -- what a family of codes brings, and what all share.
 *
 * A family is one table of functions (muster_code_ops) and one build function
 * that fills in a muster_code: its numbers, the encode terms of every worker,
 * and a private state that its decoder reads. Everything public is in code.c,
 * on top of these.
 *
 *   Promise      build() either fills all of it or fails with a message that
 *                says which numbers would be legal; code.c frees what a failed
 *                build left behind.
 *   Threads      A built code is read only.
 */
#ifndef MUSTER_CODE_FAMILY_H
#define MUSTER_CODE_FAMILY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"
#include "code/numbers.h"
#include "code/spec.h"
#include "muster/code.h"

/* A decoding counts as exact up to this residual. */
#define MUSTER_CODE_EXACT 1e-6

/* Relative float32 error of one message rounded once: 2^-24 times the root mean
 * square of a uniformly spread rounding, as measured on normal gradients. */
#define MUSTER_CODE_ROUNDING 2.55e-8

/* Largest number of encode terms of one code: bounds memory at 24 bytes a
 * term. */
#define MUSTER_CODE_TERMS_MAX (1u << 25)

typedef struct muster_code_ops muster_code_ops;

typedef struct muster_code_span {
    size_t first;
    uint32_t count;
} muster_code_span;

struct muster_code {
    const muster_code_ops *ops;
    muster_code_info info;
    char name[64];
    char warning[256];            // "" when there is none
    muster_code_span *part_spans; // per answer, into parts
    muster_code_span *term_spans; // per answer, into terms
    muster_code_span *held_spans; // per worker, into parts: of all its stages;
                                  // NULL with one stage
    muster_vec parts;             // uint32_t
    muster_vec terms;             // muster_code_encode_term
    double *row_squares; // (answer, message block): sum of squared coefs
    muster_code_start_rule start; // of redundant stages
    muster_code_order_rule order; // of all stages
    void *state;                  // the family's own
};

/* The workers heard from, and where to put their decoding. */
typedef struct muster_code_query {
    const uint32_t *responders; // ascending
    uint32_t count;
    muster_code_decode_term *terms; // room for decode_terms_max
    double improvement_min; // an iterated solve may end when an iteration
                            // takes less than this share off the squared
                            // residual
    size_t term_count;      // out
    uint64_t multiplied;    // out: terms that an iterated solve went through
    muster_code_fit fit;    // out
} muster_code_query;

struct muster_code_ops {
    const char *name; // "frc", "linear:spc"
    muster_status (*build)(muster_code *code, const muster_code_spec *spec,
                           muster_error *error);
    /* Fills terms (sorted), term_count and the whole fit. */
    muster_status (*weights)(const muster_code *code, muster_code_query *query);
    /* Frees code->state, which may be half built or NULL. */
    void (*free_state)(void *state);
    /* Progress beyond counting answers; NULL: ready when at most `stragglers`
     * workers that hold anything are missing. */
    size_t (*progress_bytes)(const muster_code *code);
    void (*progress_reset)(const muster_code *code, void *progress);
    bool (*progress_add)(const muster_code *code, void *progress,
                         uint32_t answer);
    /* Gaussian families; NULL: none. With probability 1 - risk one draw has no
     * larger condition in any set of exactly s missing; NAN: nothing to say. */
    double (*condition_bound)(const muster_code *code, double risk);
    /* For people: what it needs, and where its float32 error stays small. */
    const char *needs;
    const char *limits;
};

/* The families, one per file; NULL-terminated. */
extern const muster_code_ops *const muster_code_families[];

/* Building: set code->info first, then reserve, then answers 0.. in turn (of
 * one stage: workers): open, add terms sorted by (part, message block), or
 * share what an earlier worker has. All return false when out of memory. */
bool muster_code_reserve(muster_code *code, size_t terms);
void muster_code_open_worker(muster_code *code, uint32_t answer);
bool muster_code_add_term(muster_code *code, muster_code_encode_term term);
bool muster_code_close_worker(muster_code *code, uint32_t answer);
void muster_code_share_worker(muster_code *code, uint32_t worker,
                              uint32_t earlier);

/* muster_code_weights() with a query; its outputs are overwritten. */
MUSTER_CHECKED muster_status muster_code_solve(const muster_code *code,
                                               muster_code_query *query);

/* May a result be written there? False: its struct_size is too small. */
bool muster_code_fit_is_legal(const muster_code_fit *fit);

/* Fill query->fit.residual, .error_f32, .weight_norm and .parts_missing from
 * its terms, by applying them to the encoding. O(terms * load) time. */
MUSTER_CHECKED muster_status muster_code_measure(const muster_code *code,
                                                 muster_code_query *query);

/* How often a part counts in what the query's terms give, on average. */
double muster_code_mean_share(const muster_code *code,
                              const muster_code_query *query);

#endif // MUSTER_CODE_FAMILY_H
