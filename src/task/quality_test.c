/*
 * quality_test.c -- what tasks say of their quality: ranks against a slow twin,
 * correlations and analogies of words.
 */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/folder_test.h"
#include "task/kge.h"
#include "task/server_test.h"
#include "task/skipgram.h"

/* A metric of the evaluation alone. */
static double evaluated(const team *t, const muster_task_sums *sums,
                        const char *name)
{
    muster_task_sums none = {{0}};
    return metric_of(t, &none, sums, name);
}

static void write_in(const char *folder, const char *name, const char *text)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Scores of two files are not compared with each other: of each the order of
 * its own is asked for, and the mean of both. */
static void every_file_of_pairs_has_a_correlation_of_its_own(void **state)
{
    (void)state;
    char folder[] = "/tmp/muster-tests-XXXXXX";
    assert_non_null(mkdtemp(folder));
    write_in(folder, "corpus", "a b c d a b d c\na b c d a c\nd c b a b a\n");
    write_in(folder, "first.txt", "a b 9\na c 5\nb d 1\n");
    write_in(folder, "second.csv", "a,b,100\na,c,300\nb,d,500\n");
    write_in(folder, "unknown.txt", "x y 1\ny z 2\n");
    char corpus[256];
    (void)snprintf(corpus, sizeof(corpus), "%s/corpus", folder);
    muster_task_opts opts = {.model = "skipgram:dim=4,min_count=1",
                             .data = corpus,
                             .test = folder,
                             .l2 = -1,
                             .epochs = 1,
                             .seed = 1};
    double first = train(&opts, 1, "similarity_first");
    double second = train(&opts, 1, "similarity_second");
    assert_true(first >= -1 && first <= 1);
    assert_true(fabs(first + second) < 1e-9); // the order is turned round
    assert_true(fabs(train(&opts, 1, "similarity")) < 1e-9);
    assert_true(isnan(train(&opts, 1, "similarity_unknown")));
    assert_true(fabs(train(&opts, 1, "similarity_pairs") - 6) < 1e-9);
    assert_int_equal(folder_drop(folder), 0);
}

/* Write `text` to a new file, whose name replaces the X's of `path`. */
static void write_text(char *path, const char *text)
{
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(close(fd), 0);
}

/* Two relations with several answers each, spread over the three sets. */
static void write_fans(const char *folder)
{
    static const char *const names[3] = {"train", "valid", "test"};
    for (int set = 0; set < 3; set++) {
        char path[256];
        (void)snprintf(path, sizeof(path), "%s/%s2id.txt", folder, names[set]);
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fprintf(file, "20\n");
        for (int i = set; i < 60; i += 3) {
            fprintf(file, "%d %d %d\n", i % 4, 4 + i / 4 % 8, i % 2);
        }
        assert_int_equal(fclose(file), 0);
    }
}

static double twin_score(const muster_kge *k, const float *h, const float *r,
                         const float *t)
{
    uint32_t half = k->options.dim / 2;
    double sum = 0;
    for (uint32_t i = 0; i < half; i++) {
        uint32_t j = half + i;
        if (k->model == MUSTER_KGE_COMPLEX) {
            sum += (double)((h[i] * r[i] - h[j] * r[j]) * t[i] +
                            (h[i] * r[j] + h[j] * r[i]) * t[j]);
        } else if (k->model == MUSTER_KGE_DISTMULT) {
            sum += (double)(h[i] * r[i] * t[i] + h[j] * r[j] * t[j]);
        } else {
            // A longer length is a greater square: the order is the same.
            float off[2] = {h[i] + r[i] - t[i], h[j] + r[j] - t[j]};
            bool euclid = k->options.norm == MUSTER_KGE_L2;
            sum -= euclid ? (double)(off[0] * off[0] + off[1] * off[1])
                          : (double)(fabsf(off[0]) + fabsf(off[1]));
        }
    }
    return sum;
}

static bool twin_knows(const muster_kge *k, muster_triple asked)
{
    for (int set = 0; set < 3; set++) {
        for (uint64_t i = 0; i < k->triples.count[set]; i++) {
            muster_triple t = k->triples.set[set][i];
            if (t.head == asked.head && t.relation == asked.relation &&
                t.tail == asked.tail) {
                return true;
            }
        }
    }
    return false;
}

static double twin_ask(const muster_kge *k, float rows[2][16][4],
                       muster_triple t, int side, uint32_t answer)
{
    const float *anchor = rows[0][side == 0 ? t.head : t.tail];
    const float *other = rows[0][answer];
    uint32_t own = t.relation + k->triples.relations;
    if (side == 1 && !k->options.reciprocal) {
        return twin_score(k, other, rows[1][t.relation], anchor);
    }
    return twin_score(k, anchor, rows[1][side == 0 ? t.relation : own], other);
}

/* Mean reciprocal rank of the test set, every triple looked up in all sets. */
static double twin_mrr(const muster_kge *k, muster_ps_worker *worker)
{
    float rows[2][16][4];
    double sum = 0;
    uint32_t keys[2] = {k->triples.entities,
                        k->triples.relations * (k->options.reciprocal ? 2 : 1)};
    for (uint32_t table = 0; table < 2; table++) {
        for (uint32_t key = 0; key < keys[table]; key++) {
            assert_int_equal(
                muster_ps_pull(worker, table, &key, 1, rows[table][key]),
                MUSTER_OK);
        }
    }
    for (uint64_t i = 0; i < k->triples.count[MUSTER_TRIPLES_TEST]; i++) {
        for (int side = 0; side < 2; side++) {
            muster_triple t = k->triples.set[MUSTER_TRIPLES_TEST][i];
            double mark =
                twin_ask(k, rows, t, side, side == 0 ? t.tail : t.head);
            double rank = 1;
            for (uint32_t e = 0; e < k->triples.entities; e++) {
                muster_triple other = t;
                *(side == 0 ? &other.tail : &other.head) = e;
                rank += !twin_knows(k, other) &&
                        twin_ask(k, rows, t, side, e) > mark;
            }
            sum += 1 / rank / 2;
        }
    }
    return sum / (double)k->triples.count[MUSTER_TRIPLES_TEST];
}

static void ranks_leave_out_every_other_right_answer(void **state)
{
    (void)state;
    char folder[] = "/tmp/muster-fans-XXXXXX";
    assert_non_null(mkdtemp(folder));
    write_fans(folder);
    static const char *const models[] = {
        "complex:dim=4,scale=1",  "complex:dim=4,scale=1,reciprocal=0",
        "distmult:dim=4,scale=1", "transe:dim=4,scale=1,reciprocal=0",
        "transe:dim=4,scale=1",   "transe:dim=4,scale=1,norm=l1",
    };
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
        muster_task_opts opts = {.model = models[i],
                                 .data = folder,
                                 .l2 = -1,
                                 .epochs = 1,
                                 .seed = 1};
        team t = team_open(&opts, 1);
        muster_task_sums sums = run(&t, 0, true);
        double mrr = evaluated(&t, &sums, "test_mrr");
        assert_true(fabs(mrr - twin_mrr(t.task, t.workers[0])) < 1e-9);
        team_close(&t);
    }
    assert_int_equal(folder_drop(folder), 0);
}

static void analogies_count_the_nearest_word_but_the_three(void **state)
{
    (void)state;
    char path[] = "/tmp/muster-words-XXXXXX";
    char test[] = "/tmp/muster-pairs-XXXXXX";
    write_text(path, "man king woman queen apple man king woman queen apple");
    // The first is right, the second wrong, the third has an unknown word.
    write_text(test, ": family\nMan King Woman Queen\nman king apple queen\n"
                     "man king woman duke\n");
    static const struct {
        const char *word;
        float row[2];
    } rows[] = {{"man", {1, 0}},
                {"king", {0.8f, 0.6f}},
                {"woman", {0.6f, -0.8f}},
                {"queen", {0.96f, -0.28f}},
                {"apple", {-1, 0}}};
    muster_task_opts opts = {.model = "skipgram:dim=2,min_count=1",
                             .data = path,
                             .test = test,
                             .l2 = -1,
                             .epochs = 1,
                             .seed = 1};
    team t = team_open(&opts, 1);
    const muster_skipgram *g = t.task;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint32_t word = muster_names_find(&g->corpus.words, rows[i].word,
                                          strlen(rows[i].word));
        assert_true(word != MUSTER_NAMES_NONE);
        assert_int_equal(muster_ps_set(t.workers[0], MUSTER_SKIPGRAM_IN, &word,
                                       1, rows[i].row),
                         MUSTER_OK);
    }
    muster_task_sums sums = run(&t, 0, true);
    assert_true(evaluated(&t, &sums, "analogy_questions") == 2);
    assert_true(evaluated(&t, &sums, "analogy") == 0.5);
    team_close(&t);
    (void)unlink(path);
    (void)unlink(test);
}

static void rank_correlation_takes_ties_at_their_mean(void **state)
{
    (void)state;
    const float up[] = {1, 2, 3, 4};
    const float down[] = {9, 7, 5, 1};
    const float tied[] = {1, 1, 2, 2};
    double rho;
    assert_int_equal(muster_spearman(up, up, 4, &rho), MUSTER_OK);
    assert_true(fabs(rho - 1) < 1e-12);
    assert_int_equal(muster_spearman(up, down, 4, &rho), MUSTER_OK);
    assert_true(fabs(rho + 1) < 1e-12);
    assert_int_equal(muster_spearman(up, tied, 4, &rho), MUSTER_OK);
    assert_true(fabs(rho - 0.8944271909999159) < 1e-9);
    assert_int_equal(muster_spearman(up, tied, 1, &rho), MUSTER_OK);
    assert_true(isnan(rho));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_leave_out_every_other_right_answer),
        cmocka_unit_test(every_file_of_pairs_has_a_correlation_of_its_own),
        cmocka_unit_test(analogies_count_the_nearest_word_but_the_three),
        cmocka_unit_test(rank_correlation_takes_ties_at_their_mean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
