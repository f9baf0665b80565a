/*
 * kge_test.c -- one step of training against the slope of the loss in double,
 * taken by differences: every model, loss and way of sharing negatives.
 *
 * AdaGrad's sums start at 0, so after one step a row's sums are the squares of
 * its gradients; where a row moves twice, a twin in double steps along. Every
 * entity occurs once.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "task/kge.h"

enum {
    DIM = 6,
    ENTITIES = 16,
    RELATIONS = 3,
    TRIPLES = 3,
    NEGATIVES = 4,
    FLOATS = (ENTITIES + 2 * RELATIONS) * DIM
};

#define RATE 0.1

static const muster_triple triples[TRIPLES] = {{0, 0, 1}, {2, 1, 3}, {4, 2, 5}};

typedef struct world {
    muster_kge k;
    muster_ps *ps;
    muster_ps_worker *worker;
    double rows[FLOATS]; // before: entities, then relations
} world;

static uint32_t key_row(uint32_t table, uint32_t key)
{
    return table == MUSTER_KGE_ENTITIES ? key : ENTITIES + key;
}

/* A kind is a model; the one after the last is transe with norm=l2. */
enum { KINDS = 4 };

static world make(uint32_t kind, muster_kge_loss loss, uint32_t reciprocal,
                  uint32_t share)
{
    bool euclid = kind == KINDS - 1;
    world w = {
        .k = {.model = euclid ? MUSTER_KGE_TRANSE : (muster_kge_model)kind,
              .options = {.dim = DIM,
                          .negatives = NEGATIVES,
                          .share = share,
                          .corrected = share > 1,
                          .loss = loss,
                          .reciprocal = reciprocal,
                          .norm = euclid ? MUSTER_KGE_L2 : MUSTER_KGE_L1,
                          .temperature = 0.7,
                          .margin = 2,
                          .n3 = 0.05},
              .triples = {.entities = ENTITIES, .relations = RELATIONS}}};
    muster_error error;
    uint32_t number;
    muster_ps_opts opts = MUSTER_PS_OPTS_INIT;
    muster_ps_table_opts table = MUSTER_PS_TABLE_OPTS_INIT;
    table.width = DIM;
    table.optimizer = MUSTER_PS_ADAGRAD;
    table.init = MUSTER_PS_NORMAL;
    table.scale = 0.7f;
    assert_int_equal(muster_ps_create(&opts, &error, &w.ps), MUSTER_OK);
    for (uint32_t t = 0; t < 2; t++) {
        table.keys = t == 0 ? ENTITIES : 2 * RELATIONS;
        assert_int_equal(muster_ps_table_add(w.ps, &table, &error, &number),
                         MUSTER_OK);
    }
    assert_int_equal(muster_ps_worker_create(w.ps, NULL, &w.worker), MUSTER_OK);
    for (uint32_t r = 0; r < ENTITIES + 2 * RELATIONS; r++) {
        float row[DIM];
        uint32_t t = r < ENTITIES ? 0 : 1;
        uint32_t key = t == 0 ? r : r - ENTITIES;
        assert_int_equal(muster_ps_pull(w.worker, t, &key, 1, row), MUSTER_OK);
        for (uint32_t i = 0; i < DIM; i++) {
            w.rows[r * DIM + i] = (double)row[i];
        }
    }
    return w;
}

static void end(world *w)
{
    muster_ps_worker_free(w->worker);
    muster_ps_free(w->ps);
}

/* The score of (head, relation, tail): with the conjugate of the tail for
 * complex, whichever side is asked for. */
static double score(const world *w, const double *h, const double *r,
                    const double *t)
{
    double sum = 0;
    for (int i = 0; i < DIM / 2; i++) {
        int j = DIM / 2 + i;
        if (w->k.model == MUSTER_KGE_COMPLEX) {
            sum += (h[i] * r[i] - h[j] * r[j]) * t[i] +
                   (h[i] * r[j] + h[j] * r[i]) * t[j];
        } else if (w->k.model == MUSTER_KGE_DISTMULT) {
            sum += h[i] * r[i] * t[i] + h[j] * r[j] * t[j];
        } else if (w->k.options.norm == MUSTER_KGE_L1) {
            sum -= fabs(h[i] + r[i] - t[i]) + fabs(h[j] + r[j] - t[j]);
        } else {
            sum += pow(h[i] + r[i] - t[i], 2) + pow(h[j] + r[j] - t[j], 2);
        }
    }
    if (w->k.model != MUSTER_KGE_TRANSE) {
        return sum;
    }
    return w->k.options.margin +
           (w->k.options.norm == MUSTER_KGE_L1 ? sum : -sqrt(sum));
}

/* Scores of a question's truth, [0], and negatives. */
static void score_question(const world *w, const double *rows, uint32_t q,
                           const uint32_t *samples, double *scores_out)
{
    muster_triple t = triples[q / 2];
    uint32_t truth = q % 2 == 0 ? t.tail : t.head;
    muster_kge_question ask = muster_kge_ask(&w->k, t, (int)(q % 2));
    const double *anchor = rows + (size_t)ask.anchor * DIM;
    const double *relation =
        rows + (size_t)key_row(MUSTER_KGE_RELATIONS, ask.relation) * DIM;
    for (uint32_t i = 0; i <= NEGATIVES; i++) {
        const double *row =
            rows + (size_t)(i == 0 ? truth : samples[i - 1]) * DIM;
        scores_out[i] = ask.backwards ? score(w, row, relation, anchor)
                                      : score(w, anchor, relation, row);
    }
    scores_out[0] -=
        w->k.options.loss == MUSTER_KGE_SOFTMAX ? (double)w->k.shift : 0;
}

static double logistic(double x)
{
    return log(1 + exp(-x));
}

/* The adversarial weights are those of `fixed`, which does not move. */
static double question_loss(const world *w, const double *s,
                            const double *fixed)
{
    double sum = 0;
    double loss = logistic(s[0]);
    switch ((muster_kge_loss)w->k.options.loss) {
    case MUSTER_KGE_SOFTMAX:
        for (int i = 0; i <= NEGATIVES; i++) {
            sum += exp(s[i]);
        }
        return log(sum) - s[0];
    case MUSTER_KGE_LOGISTIC:
        for (int i = 1; i <= NEGATIVES; i++) {
            loss += logistic(-s[i]);
        }
        return loss;
    case MUSTER_KGE_ADVERSARIAL:
        for (int i = 1; i <= NEGATIVES; i++) {
            sum += exp(w->k.options.temperature * fixed[i]);
        }
        for (int i = 1; i <= NEGATIVES; i++) {
            loss += exp(w->k.options.temperature * fixed[i]) / sum *
                    logistic(-s[i]);
        }
        return loss;
    }
    return NAN;
}

/* Samples of question q: one set for all, or each its own. */
static const uint32_t *samples_of(const world *w, const uint32_t *samples,
                                  uint32_t q)
{
    return w->k.options.share > 1 ? samples : samples + (size_t)q * NEGATIVES;
}

static double total_loss(const world *w, const double *rows,
                         const uint32_t *samples)
{
    double loss = 0;
    bool once = w->k.options.loss == MUSTER_KGE_LOGISTIC &&
                !w->k.options.reciprocal && w->k.options.share == 1;
    for (uint32_t q = 0; q < 2 * TRIPLES; q++) {
        double s[NEGATIVES + 1];
        double fixed[NEGATIVES + 1];
        const uint32_t *own = samples_of(w, samples, q);
        score_question(w, rows, q, own, s);
        score_question(w, w->rows, q, own, fixed);
        loss += question_loss(w, s, fixed);
        loss -= once && q % 2 == 1 ? logistic(s[0]) : 0;
    }
    return loss;
}

/* Slopes of the loss by every number of every row. */
static void slopes(const world *w, const uint32_t *samples, double *slopes_out)
{
    double rows[FLOATS];
    memcpy(rows, w->rows, sizeof(rows));
    for (int i = 0; i < FLOATS; i++) {
        const double step = 1e-6;
        rows[i] = w->rows[i] + step;
        double above = total_loss(w, rows, samples);
        rows[i] = w->rows[i] - step;
        slopes_out[i] = (above - total_loss(w, rows, samples)) / (2 * step);
        rows[i] = w->rows[i];
    }
}

/* Whether row r moved along `slope` (with `named` cubic penalties). */
static void check_row(world *w, uint32_t r, const double *slope, int named)
{
    float *row;
    uint32_t table = r < ENTITIES ? 0 : 1;
    uint32_t key = table == 0 ? r : r - ENTITIES;
    assert_int_equal(muster_ps_begin(w->worker, table, key, &row), MUSTER_OK);
    for (uint32_t i = 0; i < DIM; i++) {
        double before = w->rows[r * DIM + i];
        double g = slope[r * DIM + i] +
                   named * 3 * w->k.options.n3 * fabs(before) * before;
        double sum = (double)row[DIM + i];
        assert_true(fabs(sqrt(sum) - fabs(g)) < 1e-4 * (1 + fabs(g)));
        assert_true(fabs(g) < 1e-4 || ((double)row[i] < before) == (g > 0));
    }
    assert_int_equal(muster_ps_end(w->worker, table, key), MUSTER_OK);
}

/* The rows of both tables and their sums of squares, in double. */
typedef struct twin {
    double rows[FLOATS];
    double sums[FLOATS];
    double loss;
} twin;

/* Without reciprocal relations, the plain logistic loss has the truth once. */
static bool has_truth(const world *w, uint32_t q)
{
    return w->k.options.loss != MUSTER_KGE_LOGISTIC ||
           w->k.options.reciprocal || w->k.options.share > 1 || q % 2 == 0;
}

/* Slope of a question's loss by number i of `rows`. */
static double question_slope(const world *w, const double *rows, uint32_t q,
                             const uint32_t *own, int i)
{
    double moved[FLOATS];
    double s[3][NEGATIVES + 1];
    double loss[2];
    memcpy(moved, rows, sizeof(moved));
    score_question(w, rows, q, own, s[2]);
    for (int side = 0; side < 2; side++) {
        moved[i] = rows[i] + (side == 0 ? 1e-6 : -1e-6);
        score_question(w, moved, q, own, s[side]);
        loss[side] = question_loss(w, s[side], s[2]) -
                     (has_truth(w, q) ? 0 : logistic(s[side][0]));
    }
    return (loss[0] - loss[1]) / 2e-6;
}

static void twin_move(twin *t, uint32_t i, double slope, double n3)
{
    double g = slope + 3 * n3 * fabs(t->rows[i]) * t->rows[i];
    t->sums[i] += g * g;
    t->rows[i] -= g != 0 ? RATE * g / sqrt(t->sums[i]) : 0;
}

/* One question's step: all of its rows at once. The rows that the triple names
 * are penalised wherever its truth is scored. */
static void twin_question(const world *w, twin *t, uint32_t q,
                          const uint32_t *own)
{
    double before[FLOATS];
    double s[NEGATIVES + 1];
    muster_triple triple = triples[q / 2];
    muster_kge_question ask = muster_kge_ask(&w->k, triple, (int)(q % 2));
    memcpy(before, t->rows, sizeof(before));
    score_question(w, before, q, own, s);
    t->loss += question_loss(w, s, s);
    for (uint32_t i = 0; i < FLOATS; i++) {
        uint32_t row = i / DIM;
        bool named = row == triple.head || row == triple.tail ||
                     row == key_row(MUSTER_KGE_RELATIONS, ask.relation);
        twin_move(t, i, question_slope(w, before, q, own, (int)i),
                  named && has_truth(w, q) ? w->k.options.n3 : 0);
    }
}

static void check_twin(world *w, const twin *t, uint32_t r)
{
    float *row;
    uint32_t table = r < ENTITIES ? 0 : 1;
    uint32_t key = table == 0 ? r : r - ENTITIES;
    assert_int_equal(muster_ps_begin(w->worker, table, key, &row), MUSTER_OK);
    for (uint32_t i = 0; i < DIM; i++) {
        double root = sqrt(t->sums[r * DIM + i]);
        double off = (double)row[i] - t->rows[r * DIM + i];
        assert_true(fabs(sqrt((double)row[DIM + i]) - root) <
                    1e-4 * (1 + root));
        assert_true(root < 1e-3 || fabs(off) < 1e-3);
    }
    assert_int_equal(muster_ps_end(w->worker, table, key), MUSTER_OK);
}

/* A relation asked about forwards and backwards moves twice, by slopes of the
 * rows as they were. */
static void check_shared_relation(world *w, const uint32_t *samples, uint32_t r)
{
    twin t = {.loss = 0};
    memcpy(t.rows, w->rows, sizeof(t.rows));
    for (uint32_t q = 2 * r; q < 2 * r + 2; q++) {
        for (uint32_t i = 0; i < DIM; i++) {
            uint32_t at = (ENTITIES + r) * DIM + i;
            twin_move(&t, at, question_slope(w, w->rows, q, samples, (int)at),
                      w->k.options.n3);
        }
    }
    check_twin(w, &t, ENTITIES + r);
}

static void a_shared_step_follows_the_slope_of_the_loss(void **state)
{
    (void)state;
    // The last one is no entity of a triple in any of these.
    static const uint32_t samples[NEGATIVES] = {7, 9, 11, 15};
    for (uint32_t round = 0; round < 6 * KINDS; round++) {
        world w = make(round % KINDS, (muster_kge_loss)(round / KINDS % 3),
                       round / (3 * KINDS), TRIPLES);
        muster_kge_pass p = {&w.k, w.worker, (float)RATE};
        muster_kge_shared *shared;
        double slope[FLOATS];
        double loss = 0;
        slopes(&w, samples, slope);
        assert_int_equal(muster_kge_shared_create(&p, &shared), MUSTER_OK);
        assert_int_equal(
            muster_kge_shared_train(shared, triples, TRIPLES, samples, &loss),
            MUSTER_OK);
        for (uint32_t e = 0; e < ENTITIES; e++) {
            check_row(&w, e, slope, e < 2 * TRIPLES ? 2 : 0);
        }
        // With reciprocal relations every question has one of its own.
        for (uint32_t r = 0; w.k.options.reciprocal && r < 2 * RELATIONS; r++) {
            check_row(&w, ENTITIES + r, slope, 1);
        }
        for (uint32_t r = 0; !w.k.options.reciprocal && r < RELATIONS; r++) {
            check_shared_relation(&w, samples, r);
        }
        if (w.k.options.loss == MUSTER_KGE_SOFTMAX) {
            assert_true(fabs(loss - total_loss(&w, w.rows, samples)) < 1e-4);
        }
        muster_kge_shared_free(shared);
        end(&w);
    }
}

static void an_answer_among_the_negatives_is_left_out(void **state)
{
    (void)state;
    // Entity 1 is the answer of question 0 and a wrong one of the others.
    static const uint32_t samples[NEGATIVES] = {1, 1, 1, 1};
    world w = make(MUSTER_KGE_DISTMULT, MUSTER_KGE_SOFTMAX, 1, 2);
    muster_kge_pass p = {&w.k, w.worker, (float)RATE};
    muster_kge_shared *shared;
    double loss = 0;
    double expected = 0;
    double s[NEGATIVES + 1];
    score_question(&w, w.rows, 1, samples, s);
    expected = question_loss(&w, s, s);
    assert_int_equal(muster_kge_shared_create(&p, &shared), MUSTER_OK);
    assert_int_equal(
        muster_kge_shared_train(shared, triples, 1, samples, &loss), MUSTER_OK);
    // Question 0 has no wrong answer and costs nothing.
    assert_true(fabs(loss - expected) < 1e-4);
    muster_kge_shared_free(shared);
    end(&w);
}

static void a_step_alone_follows_the_slope_of_the_loss(void **state)
{
    (void)state;
    static const uint32_t samples[2 * NEGATIVES] = {7, 8, 9, 10, 12, 13, 14, 6};
    for (uint32_t round = 0; round < 6 * KINDS; round++) {
        world w = make(round % KINDS, (muster_kge_loss)(round / KINDS % 3),
                       round / (3 * KINDS), 1);
        muster_kge_pass p = {&w.k, w.worker, (float)RATE};
        muster_kge_alone *alone;
        twin t = {.loss = 0};
        double loss = 0;
        memcpy(t.rows, w.rows, sizeof(t.rows));
        for (uint32_t q = 0; q < 2; q++) {
            const uint32_t *own = samples_of(&w, samples, q);
            twin_question(&w, &t, q, own);
        }
        assert_int_equal(muster_kge_alone_create(&p, &alone), MUSTER_OK);
        assert_int_equal(
            muster_kge_alone_train(alone, triples, 1, samples, &loss),
            MUSTER_OK);
        for (uint32_t r = 0; r < ENTITIES + 2 * RELATIONS; r++) {
            check_twin(&w, &t, r);
        }
        if (w.k.options.loss == MUSTER_KGE_SOFTMAX) {
            assert_true(fabs(loss - t.loss) < 1e-4);
        }
        muster_kge_alone_free(alone);
        end(&w);
    }
}

static void the_rate_rises_then_decays(void **state)
{
    const muster_kge_options options = {.decay = 0.5, .warmup = 2};
    (void)state;
    assert_float_equal(muster_kge_rate(&options, 8, 0), 0, 0);
    assert_float_equal(muster_kge_rate(&options, 8, 0.5), 2, 1e-12);
    assert_float_equal(muster_kge_rate(&options, 8, 1.5), 3, 1e-12);
    assert_float_equal(muster_kge_rate(&options, 8, 2), 2, 1e-12);
    assert_float_equal(muster_kge_rate(&options, 8, 3.9), 1, 1e-12);
    const muster_kge_options at_once = {.decay = 1};
    assert_float_equal(muster_kge_rate(&at_once, 8, 0), 8, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shared_step_follows_the_slope_of_the_loss),
        cmocka_unit_test(an_answer_among_the_negatives_is_left_out),
        cmocka_unit_test(a_step_alone_follows_the_slope_of_the_loss),
        cmocka_unit_test(the_rate_rises_then_decays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
