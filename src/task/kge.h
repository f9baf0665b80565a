/*
 * task/kge.h -- knowledge graph embeddings: what training and evaluation share.
 *
 * A question (anchor, relation, ?) is turned into one query vector; a candidate
 * entity is scored against it:
 *
 *   complex    query = anchor * relation (complex), score = query . candidate
 *   distmult   the same with real products
 *   transe     query = anchor + relation, score = margin - |query - candidate|,
 *              the sum of absolute differences (norm=l1) or the Euclidean
 *              length (norm=l2)
 *
 * The question (?, relation, anchor) for heads uses the conjugate relation
 * (complex), the same one (distmult), or anchor - relation (transe). With
 * reciprocal relations it is instead asked as (anchor, relation', ?) with a row
 * of its own.
 */
#ifndef MUSTER_TASK_KGE_H
#define MUSTER_TASK_KGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/perm.h"
#include "data/triples.h"
#include "task/task.h"

enum { MUSTER_KGE_ENTITIES = 0, MUSTER_KGE_RELATIONS = 1 }; // tables

typedef enum muster_kge_model {
    MUSTER_KGE_COMPLEX = 0,
    MUSTER_KGE_DISTMULT = 1,
    MUSTER_KGE_TRANSE = 2,
} muster_kge_model;

typedef enum muster_kge_loss {
    MUSTER_KGE_SOFTMAX = 0,     // over the sampled candidates
    MUSTER_KGE_LOGISTIC = 1,    // each candidate by itself
    MUSTER_KGE_ADVERSARIAL = 2, // logistic, negatives weighted by their score
} muster_kge_loss;

typedef enum muster_kge_norm {
    MUSTER_KGE_L1 = 0,
    MUSTER_KGE_L2 = 1,
} muster_kge_norm;

typedef enum muster_kge_share_order {
    MUSTER_KGE_SHARED = 0, // all workers have one
    MUSTER_KGE_FILE = 1,   // each has one of its piece of the file
} muster_kge_share_order;

typedef struct muster_kge_options {
    uint32_t dim; // floats of a row
    uint32_t negatives;
    uint32_t share;     // triples that share their negatives; 1: none do
    uint32_t corrected; // softmax: negatives stand for all entities
    uint32_t loss;
    uint32_t reciprocal;
    uint32_t order;  // a muster_kge_share_order
    uint32_t norm;   // a muster_kge_norm; transe
    uint32_t scheme; // muster_ps_scheme - 1
    uint32_t reuse;
    uint32_t valid; // triples evaluated between epochs
    double n3;
    double temperature; // of the adversarial weights
    double margin;      // transe
    double scale;       // of initial rows
    double decay;       // of the rate, per epoch
    double warmup;      // epochs in which the rate rises from 0
} muster_kge_options;

/* Known answers: for (anchor, relation) the entities that must not count as
 * wrong. Sorted by (question, answer). */
typedef struct muster_kge_known {
    uint64_t question; // anchor * relations + relation
    uint32_t answer;
} muster_kge_known;

typedef struct muster_kge {
    muster_kge_model model;
    muster_kge_options options;
    muster_triples triples;
    muster_kge_known *known[2]; // [0]: tails of (head, relation); [1]: heads
    uint64_t known_count;
    uint32_t distribution;
    uint32_t parts;
    double rate;
    float shift; // by which a negative counts more than one answer, as a score
    uint64_t seed;
} muster_kge;

/* One question. */
typedef struct muster_kge_question {
    uint32_t anchor;
    uint32_t relation; // row of the relation table
    bool backwards;    // (?, relation, anchor), without reciprocal relations
} muster_kge_question;

/* The questions of a triple: side 0 asks for the tail, side 1 for the head. */
muster_kge_question muster_kge_ask(const muster_kge *k, muster_triple triple,
                                   int side);

/* query = f(anchor, relation); and the gradients of the two from that of the
 * query (overwritten). All of `dim` floats. */
void muster_kge_query(muster_kge_model model, bool backwards,
                      const float *anchor, const float *relation, uint32_t dim,
                      float *query);
void muster_kge_query_back(muster_kge_model model, bool backwards,
                           const float *const *anchor_relation,
                           const float *query_gradient, uint32_t dim,
                           float *const *gradients);

/* ---- scores: kge_score.c ------------------------------------------------- */

float muster_kge_score(const muster_kge *k, const float *query,
                       const float *row);
/* Given the gradient of the loss by the score of a query and a row, those by
 * the query, gradients[0], and the row, gradients[1] (overwritten). */
void muster_kge_score_back(const muster_kge *k, const float *query,
                           const float *row, float g, float *const *gradients);

/* All of some queries against all of some rows. */
typedef struct muster_kge_block {
    const float *queries;   // asked x dim
    float *rows;            // count x dim
    float *scores;          // asked x count
    float *lengths;         // as long, for the way back with norm=l2; or NULL
    float *query_gradients; // asked x dim
    float *row_gradients;   // count x dim, with norm=l1
    float *scratch;         // count
    uint32_t asked;
    uint32_t count;
} muster_kge_block;

void muster_kge_scores(const muster_kge *k, const muster_kge_block *b);
/* Scores have become gradients by them: those by queries are added to
 * query_gradients; those by rows are returned, in row_gradients or, where they
 * are products, in `rows`. */
float *muster_kge_scores_back(const muster_kge *k, const muster_kge_block *b);

/* ---- an epoch's order ---------------------------------------------------- */

/* A share of an epoch, in groups; `at` counts the share's triples, and a group
 * begins at every multiple of `group`. */
typedef struct muster_kge_order {
    muster_perm perm;
    uint64_t all;   // triples
    uint64_t start; // FILE: of the piece
    uint64_t count; // the share's
    uint32_t part;
    uint32_t parts;
    uint32_t epoch;
    uint32_t group;
    bool pieces; // FILE
} muster_kge_order;

muster_kge_order muster_kge_order_make(const muster_kge *k,
                                       const muster_task_share *share,
                                       uint32_t group);

/* Triples of the group at `at`; 0 after the last. */
uint32_t muster_kge_order_size(const muster_kge_order *o, uint64_t at);

/* The number of the triple at `at`. */
uint64_t muster_kge_order_triple(const muster_kge_order *o, uint64_t at);

/* The place in the work of the group at `at`, which no other group of any epoch
 * has; SHARED: whatever the number of parts. */
uint64_t muster_kge_order_place(const muster_kge_order *o, uint64_t at);

/* Epochs that are over in the middle of the group at `at`. */
double muster_kge_order_epochs(const muster_kge_order *o, uint64_t at);

/* ---- training ------------------------------------------------------------ */

/* What the ways of training share: one worker's pass. */
typedef struct muster_kge_pass {
    const muster_kge *k;
    muster_ps_worker *worker;
    float rate;
} muster_kge_pass;

/* The rate after so many epochs, full where neither decay nor warmup is felt. A
 * first AdaGrad step is as long as the rate, whatever the gradient: nodes that
 * begin at full rate go far apart before they first hear of each other, and one
 * node does not begin well with it either. */
double muster_kge_rate(const muster_kge_options *options, double full,
                       double epochs);

/* Move a row along its gradient, with 1/3 of `n3` as weight of the cubic
 * penalty. */
MUSTER_CHECKED muster_status muster_kge_move(const muster_kge_pass *p,
                                             uint32_t table, uint32_t key,
                                             const float *gradient, float n3);

/* The loss of one question: the score of its truth and those of its negatives
 * become the gradients of the loss by them. `scratch` is as long as scores. */
double muster_kge_weigh(const muster_kge *k, float *truth, float *scores,
                        float *scratch, uint32_t count);

/* Triples whose questions have negatives of their own (2 x negatives samples a
 * triple), and a group of at most `share` that has one set for all. The pass is
 * lent until free. *loss grows. */
typedef struct muster_kge_alone muster_kge_alone;
MUSTER_CHECKED muster_status
muster_kge_alone_create(const muster_kge_pass *p, muster_kge_alone **alone_out);
void muster_kge_alone_free(muster_kge_alone *a);
MUSTER_CHECKED muster_status
muster_kge_alone_train(muster_kge_alone *a, const muster_triple *triples,
                       uint32_t count, const uint32_t *samples, double *loss);

typedef struct muster_kge_shared muster_kge_shared;
MUSTER_CHECKED muster_status muster_kge_shared_create(
    const muster_kge_pass *p, muster_kge_shared **shared_out);
void muster_kge_shared_free(muster_kge_shared *s);
MUSTER_CHECKED muster_status
muster_kge_shared_train(muster_kge_shared *s, const muster_triple *triples,
                        uint32_t count, const uint32_t *samples, double *loss);

muster_status muster_kge_work(void *task, muster_ps_worker *worker,
                              const muster_task_share *share,
                              muster_task_sums *sums);

/* ---- evaluation ---------------------------------------------------------- */

/* Build the index of known answers. MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_kge_index(muster_kge *k);

/* Sums of work and, for each of the valid and the test set, of ranks. */
enum {
    MUSTER_KGE_SUM_LOSS = 0,
    MUSTER_KGE_SUM_QUESTIONS = 1,
    MUSTER_KGE_SUM_VALID = 2,
    MUSTER_KGE_SUM_TEST = 7,
};
enum {
    MUSTER_KGE_RANK_RECIPROCAL = 0,
    MUSTER_KGE_RANK_HITS_1 = 1,
    MUSTER_KGE_RANK_HITS_3 = 2,
    MUSTER_KGE_RANK_HITS_10 = 3,
    MUSTER_KGE_RANK_COUNT = 4,
};
static inline uint32_t muster_kge_sums_of(int set)
{
    return set == MUSTER_TRIPLES_TEST ? MUSTER_KGE_SUM_TEST
                                      : MUSTER_KGE_SUM_VALID;
}

/* Filtered ranks of a share: between epochs of a part of the valid set, at the
 * end of the whole valid and test sets. */
muster_status muster_kge_evaluate(void *task, muster_ps_worker *worker,
                                  const muster_task_share *share,
                                  muster_task_sums *sums);
uint32_t muster_kge_report(const void *task, const muster_task_sums *work,
                           const muster_task_sums *evaluation,
                           const char **names_out, double *values_out);

#endif // MUSTER_TASK_KGE_H
