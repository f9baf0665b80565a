/*
 * kge_eval.c -- filtered ranks. For every triple both questions are asked; the
 * true answer is ranked among all entities except those that are right as well
 * (known from any of the three sets). Equal scores count half, so that a model
 * that scores everything alike earns nothing.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "task/kernel.h"
#include "task/kge.h"

#define BLOCK_MAX  128u // questions scored in one walk over the entities
#define SCORES_MAX (1u << 25)
#define PULLED     512u

static int compare_known(const void *a, const void *b)
{
    const muster_kge_known *x = a;
    const muster_kge_known *y = b;
    if (x->question != y->question) {
        return x->question < y->question ? -1 : 1;
    }
    return (x->answer > y->answer) - (x->answer < y->answer);
}

muster_status muster_kge_index(muster_kge *k)
{
    uint64_t count = 0;
    uint64_t relations = k->triples.relations;
    for (int part = 0; part < 3; part++) {
        count += k->triples.count[part];
    }
    for (int side = 0; side < 2; side++) {
        k->known[side] = muster_mem_array(count, sizeof(*k->known[side]));
        if (k->known[side] == NULL) {
            return MUSTER_ERR_NO_MEMORY;
        }
        uint64_t at = 0;
        for (int part = 0; part < 3; part++) {
            for (uint64_t i = 0; i < k->triples.count[part]; i++) {
                muster_triple t = k->triples.set[part][i];
                uint64_t anchor = side == 0 ? t.head : t.tail;
                k->known[side][at++] = (muster_kge_known){
                    .question = anchor * relations + t.relation,
                    .answer = side == 0 ? t.tail : t.head};
            }
        }
        qsort(k->known[side], count, sizeof(*k->known[side]), compare_known);
    }
    k->known_count = count;
    return MUSTER_OK;
}

typedef struct ranking {
    const muster_kge *k;
    float *entities; // all of them, row after row
    float *queries;  // block
    float *scores;   // block x entities
    float *scratch;  // entities
    muster_triple triples[BLOCK_MAX];
    int sides[BLOCK_MAX];
    uint32_t block; // even: both questions of a triple fit
    uint32_t filled;
    int set; // valid or test
} ranking;

/* The first known answer to a question, or the end. */
static uint64_t find_known(const muster_kge *k, int side, uint64_t question)
{
    uint64_t low = 0;
    uint64_t high = k->known_count;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (k->known[side][middle].question < question) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static double rank_of(const ranking *r, uint32_t index)
{
    const muster_kge *k = r->k;
    const float *scores = r->scores + (size_t)index * k->triples.entities;
    muster_triple t = r->triples[index];
    int side = r->sides[index];
    uint64_t anchor = side == 0 ? t.head : t.tail;
    uint32_t truth = side == 0 ? t.tail : t.head;
    uint64_t question = anchor * k->triples.relations + t.relation;
    float mark = scores[truth];
    uint64_t above = 0;
    uint64_t equal = 0;
    for (uint32_t e = 0; e < k->triples.entities; e++) {
        above += scores[e] > mark;
        equal += scores[e] == mark;
    }
    uint32_t last = UINT32_MAX;
    for (uint64_t i = find_known(k, side, question);
         i < k->known_count && k->known[side][i].question == question; i++) {
        uint32_t e = k->known[side][i].answer;
        if (e != last) {
            above -= scores[e] > mark;
            equal -= scores[e] == mark;
        }
        last = e;
    }
    // The truth itself is among the known answers: `equal` leaves it out.
    return 1 + (double)above + (double)equal / 2;
}

static void score_block(ranking *r)
{
    const muster_kge *k = r->k;
    size_t entities = k->triples.entities;
    const muster_kge_block block = {.queries = r->queries,
                                    .asked = r->filled,
                                    .rows = r->entities,
                                    .count = (uint32_t)entities,
                                    .scores = r->scores,
                                    .scratch = r->scratch};
    muster_kge_scores(k, &block);
    // A row that has become NaN must not look like a good answer.
    for (size_t i = 0; i < r->filled * entities; i++) {
        r->scores[i] = isfinite(r->scores[i]) ? r->scores[i] : -INFINITY;
    }
}

static void rank_block(ranking *r, muster_task_sums *sums)
{
    double *ranks = sums->value + muster_kge_sums_of(r->set);
    if (r->filled > 0) {
        score_block(r);
    }
    for (uint32_t i = 0; i < r->filled; i++) {
        double rank = rank_of(r, i);
        ranks[MUSTER_KGE_RANK_RECIPROCAL] += 1 / rank;
        ranks[MUSTER_KGE_RANK_HITS_1] += rank <= 1;
        ranks[MUSTER_KGE_RANK_HITS_3] += rank <= 3;
        ranks[MUSTER_KGE_RANK_HITS_10] += rank <= 10;
        ranks[MUSTER_KGE_RANK_COUNT] += 1;
    }
    r->filled = 0;
}

static muster_status ask(ranking *r, muster_ps_worker *worker, muster_triple t,
                         int side)
{
    const muster_kge *k = r->k;
    uint32_t dim = k->options.dim;
    muster_kge_question q = muster_kge_ask(k, t, side);
    // The scores' buffer is not in use yet: its start holds the relation.
    muster_status status =
        muster_ps_pull(worker, MUSTER_KGE_RELATIONS, &q.relation, 1, r->scores);
    if (status == MUSTER_OK) {
        muster_kge_query(k->model, q.backwards,
                         r->entities + (size_t)q.anchor * dim, r->scores, dim,
                         r->queries + (size_t)r->filled * dim);
        r->triples[r->filled] = t;
        r->sides[r->filled++] = side;
    }
    return status;
}

/* A share of one set: all of it, or `most` triples spread over it. */
static muster_status rank_set(ranking *r, muster_ps_worker *worker,
                              const muster_task_share *share, uint64_t max,
                              muster_task_sums *sums)
{
    const muster_kge *k = r->k;
    uint64_t all = k->triples.count[r->set];
    uint64_t used = all < max ? all : max;
    muster_status status = MUSTER_OK;
    for (uint64_t i = used * share->part / share->parts;
         i < used * (share->part + 1) / share->parts; i++) {
        for (int side = 0; side < 2 && status == MUSTER_OK; side++) {
            // Spread over the whole set: files are often sorted.
            status =
                ask(r, worker, k->triples.set[r->set][i * all / used], side);
        }
        if (status != MUSTER_OK) {
            return status;
        }
        if (r->filled == r->block) {
            rank_block(r, sums);
            if (muster_task_stopped(share)) {
                return MUSTER_ERR_CANCELLED;
            }
        }
    }
    rank_block(r, sums);
    return MUSTER_OK;
}

static muster_status rank_share(ranking *r, muster_ps_worker *worker,
                                const muster_task_share *share,
                                muster_task_sums *sums)
{
    r->set = MUSTER_TRIPLES_VALID;
    muster_status status =
        rank_set(r, worker, share,
                 share->final ? UINT64_MAX : r->k->options.valid, sums);
    if (status == MUSTER_OK && share->final) {
        r->set = MUSTER_TRIPLES_TEST;
        status = rank_set(r, worker, share, UINT64_MAX, sums);
    }
    return status;
}

static muster_status ranking_init(ranking *r)
{
    size_t dim = r->k->options.dim;
    size_t entities = r->k->triples.entities;
    size_t block = SCORES_MAX / entities / 2 * 2;
    r->block = block < 2 ? 2 : block < BLOCK_MAX ? (uint32_t)block : BLOCK_MAX;
    size_t scores = r->block * entities > dim ? r->block * entities : dim;
    r->entities = muster_mem_raw_aligned(entities * dim, sizeof(float));
    r->queries = muster_mem_raw_aligned(r->block * dim, sizeof(float));
    r->scores = muster_mem_raw_aligned(scores, sizeof(float));
    r->scratch = muster_mem_raw_aligned(entities, sizeof(float));
    return r->entities == NULL || r->queries == NULL || r->scores == NULL ||
                   r->scratch == NULL
               ? MUSTER_ERR_NO_MEMORY
               : MUSTER_OK;
}

muster_status muster_kge_evaluate(void *task, muster_ps_worker *worker,
                                  const muster_task_share *share,
                                  muster_task_sums *sums)
{
    const muster_kge *k = task;
    size_t dim = k->options.dim;
    ranking r = {.k = k};
    muster_status status = ranking_init(&r);
    // Many at once: some may be on other nodes.
    for (uint32_t e = 0; e < k->triples.entities && status == MUSTER_OK;) {
        uint32_t keys[PULLED];
        uint32_t count = 0;
        float *rows = r.entities + e * dim;
        while (count < PULLED && e < k->triples.entities) {
            keys[count++] = e++;
        }
        status = muster_ps_pull(worker, MUSTER_KGE_ENTITIES, keys, count, rows);
    }
    if (status == MUSTER_OK) {
        status = rank_share(&r, worker, share, sums);
    }
    muster_mem_free(r.entities);
    muster_mem_free(r.queries);
    muster_mem_free(r.scores);
    muster_mem_free(r.scratch);
    return status;
}

uint32_t muster_kge_report(const void *task, const muster_task_sums *work,
                           const muster_task_sums *evaluation,
                           const char **names_out, double *values_out)
{
    static const char *const names[2][4] = {
        {"valid_mrr", "valid_hits1", "valid_hits3", "valid_hits10"},
        {"test_mrr", "test_hits1", "test_hits3", "test_hits10"}};
    static const int sets[2] = {MUSTER_TRIPLES_VALID, MUSTER_TRIPLES_TEST};
    uint32_t count = 0;
    (void)task;
    if (work->value[MUSTER_KGE_SUM_QUESTIONS] > 0) {
        names_out[count] = "loss";
        values_out[count++] = work->value[MUSTER_KGE_SUM_LOSS] /
                              work->value[MUSTER_KGE_SUM_QUESTIONS];
    }
    for (int s = 0; s < 2; s++) {
        const double *ranks = evaluation->value + muster_kge_sums_of(sets[s]);
        double ranked = ranks[MUSTER_KGE_RANK_COUNT];
        for (int i = 0; ranked > 0 && i < 4; i++) {
            names_out[count] = names[s][i];
            values_out[count++] =
                ranks[MUSTER_KGE_RANK_RECIPROCAL + i] / ranked;
        }
    }
    return count;
}
