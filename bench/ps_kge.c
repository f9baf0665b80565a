/*
 * ps_kge.c -- ComplEx on fb15k237: the task against a plain loop with the same
 * kernels, then two threads and two nodes.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/perm.h"
#include "data/triples.h"
#include "muster/ps.h"
#include "ps/slab.h"
#include "ps/target.h"
#include "task/kernel.h"
#include "task/kge.h"

#include "bench_ps.h"

enum { KGE_DIM = 64, KGE_NEGATIVES = 4, AHEAD = 2, GROUP = 32 };

/* Ranks are compared where they have levelled off: after 15 epochs, with five
 * repeats. In the first ones any two orders of the same work differ. */
enum { EPOCHS_PER_REPEAT = 3 };

/* The plain loop: the task's algorithm on rows in two arrays, row and sums of
 * squares side by side as in the server's tables, in the same kind of pages. */
typedef struct plain_kge {
    muster_triples triples;
    float *entities;
    float *relations;
    size_t mapped[2];
    muster_target *target;
    muster_draws draws;
    uint64_t epoch;
    float rate;
    double loss;
} plain_kge;

static float *copy_table(bench_team *t, uint32_t table, uint32_t keys,
                         size_t *mapped_out)
{
    float *values =
        bench_must(muster_slab_map((size_t)keys * 2 * KGE_DIM * 4, mapped_out));
    for (uint32_t k = 0; k < keys; k++) {
        bench_check(muster_ps_pull(t->workers[0], table, &k, 1,
                                   values + (size_t)k * 2 * KGE_DIM));
    }
    return values;
}

static plain_kge make_plain_kge(bench_team *t, const char *data)
{
    plain_kge p = {0};
    muster_error error;
    bench_check(muster_triples_load(data, &error, &p.triples));
    p.entities =
        copy_table(t, MUSTER_KGE_ENTITIES, p.triples.entities, &p.mapped[0]);
    p.relations =
        copy_table(t, MUSTER_KGE_RELATIONS, p.triples.relations, &p.mapped[1]);
    bench_check(muster_target_create(MUSTER_PS_TARGET_UNIFORM, 0,
                                     p.triples.entities, NULL, &p.target));
    p.draws = muster_draws_make(1, 0);
    return p;
}

static void free_plain_kge(plain_kge *p)
{
    muster_triples_fini(&p->triples);
    muster_target_free(p->target);
    muster_slab_unmap(p->entities, p->mapped[0]);
    muster_slab_unmap(p->relations, p->mapped[1]);
}

static float *row_of(float *values, uint32_t key)
{
    return values + (size_t)key * 2 * KGE_DIM;
}

static void plain_answer(plain_kge *p, muster_kge_question question,
                         uint32_t truth, const uint32_t *negatives)
{
    float query[KGE_DIM];
    float by_query[KGE_DIM] = {0};
    float by_anchor[KGE_DIM];
    float by_relation[KGE_DIM];
    float *anchor = row_of(p->entities, question.anchor);
    float *relation = row_of(p->relations, question.relation);
    const float rate[2] = {p->rate, 0};
    muster_kge_query(MUSTER_KGE_COMPLEX, question.backwards, anchor, relation,
                     KGE_DIM, query);
    for (int i = question.backwards ? 1 : 0; i <= KGE_NEGATIVES; i++) {
        float *row = row_of(p->entities, i == 0 ? truth : negatives[i - 1]);
        if (i + AHEAD <= KGE_NEGATIVES) { // the task's hints
            const float *next = row_of(p->entities, negatives[i + AHEAD - 1]);
            __builtin_prefetch(next, 1);
            __builtin_prefetch(next + 16, 1);
        }
        float right =
            muster_kernel_sigmoid(muster_kernel_dot(query, row, KGE_DIM));
        if (i == 0) {
            p->loss -= (double)logf(right > 1e-7f ? right : 1e-7f);
            right -= 1;
        }
        muster_kernel_candidate(row, query, by_query, KGE_DIM, right, rate);
    }
    // Before either row moves; a negative may have been the anchor itself.
    const float *both[2] = {anchor, relation};
    float *gradients[2] = {by_anchor, by_relation};
    muster_kge_query_back(MUSTER_KGE_COMPLEX, question.backwards, both,
                          by_query, KGE_DIM, gradients);
    muster_kernel_adagrad(anchor, by_anchor, KGE_DIM, p->rate, 0);
    muster_kernel_adagrad(relation, by_relation, KGE_DIM, p->rate, 0);
}

static void plain_kge_epoch(plain_kge *p)
{
    uint64_t count = p->triples.count[MUSTER_TRIPLES_TRAIN];
    const muster_kge_options rates = {.decay = 1, .warmup = 1};
    muster_perm order = muster_perm_make(1, p->epoch, count);
    p->loss = 0;
    for (uint64_t i = 0; i < count; i++) {
        muster_triple t =
            p->triples.set[MUSTER_TRIPLES_TRAIN][muster_perm_at(&order, i)];
        uint32_t negatives[2 * KGE_NEGATIVES];
        if (i % GROUP == 0) {
            double epochs = (double)p->epoch + (double)i / (double)count;
            p->rate = (float)muster_kge_rate(&rates, 0.1, epochs);
        }
        for (int j = 0; j < 2 * KGE_NEGATIVES; j++) {
            negatives[j] = muster_target_draw(p->target, &p->draws);
        }
        plain_answer(p, (muster_kge_question){t.head, t.relation, false},
                     t.tail, negatives);
        plain_answer(p, (muster_kge_question){t.tail, t.relation, true}, t.head,
                     negatives + KGE_NEGATIVES);
    }
    p->epoch++;
}

/* What the seeds gave, added up. */
typedef struct kge_sums {
    double one_s;
    double one_cpu_s;
    double one_mrr;
    double mesh_s;
    double mesh_cpu_s;
    double mesh_mrr;
} kge_sums;

/* The plain loop against the server's, epoch by epoch; then two threads. */
static void one_node(const bench_ps *b, const muster_task_opts *opts,
                     double steps, kge_sums *sums)
{
    bench_team one = bench_team_make(opts, 1);
    plain_kge plain = make_plain_kge(&one, opts->data);
    double plain_s = 1e300;
    bench_times best = {1e300, 1e300, NAN};
    double loss[2] = {0};
    for (int i = 0; i < b->repeats; i++) {
        int64_t start = muster_clock_ns();
        plain_kge_epoch(&plain);
        double s = (double)(muster_clock_ns() - start) / 1e9;
        plain_s = s < plain_s ? s : plain_s;
        loss[0] = plain.loss;
        muster_task_sums work = bench_time(&one, (uint32_t)i, &best);
        loss[1] = work.value[MUSTER_KGE_SUM_LOSS];
    }
    double mrr = bench_team_metric(&one, "valid_mrr");
    bench_report(b, "complex_1x1", steps / best.s, "steps/s",
                 "plain loop, in place", steps / plain_s);
    bench_report(b, "complex_1x1_loss", loss[1], "loss", "plain loop", loss[0]);
    bench_team two = bench_team_make(opts, 2);
    bench_times pair = bench_team_best(b, &two, NULL);
    bench_report(b, "complex_1x2", steps / pair.s, "steps/s", "complex_1x1",
                 steps / best.s);
    bench_report(b, "complex_1x2_mrr", bench_team_metric(&two, "valid_mrr"),
                 "valid mrr", "complex_1x1", mrr);
    sums->one_s += best.s;
    sums->one_cpu_s += best.cpu_s;
    sums->one_mrr += mrr;
    free_plain_kge(&plain);
    bench_team_fini(&one);
    bench_team_fini(&two);
}

/* One thread of one node, with another seed. */
static void one_thread(const bench_ps *b, const muster_task_opts *opts,
                       kge_sums *sums)
{
    bench_team one = bench_team_make(opts, 1);
    bench_times best = bench_team_best(b, &one, NULL);
    sums->one_s += best.s;
    sums->one_cpu_s += best.cpu_s;
    sums->one_mrr += bench_team_metric(&one, "valid_mrr");
    bench_team_fini(&one);
}

static double count_triples(const char *data)
{
    muster_triples triples;
    muster_error error;
    if (muster_triples_load(data, &error, &triples) != MUSTER_OK) {
        fprintf(stderr, "muster-bench-ps: %s\n", error.text);
        exit(3);
    }
    double count = (double)triples.count[MUSTER_TRIPLES_TRAIN];
    muster_triples_fini(&triples);
    return count;
}

void bench_kge(const bench_ps *asked)
{
    char data[4096];
    bench_ps longer = *asked;
    const bench_ps *b = &longer;
    longer.repeats *= EPOCHS_PER_REPEAT;
    longer.repeats =
        longer.repeats < BENCH_REPEATS_MAX ? longer.repeats : BENCH_REPEATS_MAX;
    bench_data_path("fb15k237", data, sizeof(data));
    double steps = count_triples(data) * (1 + 2 * KGE_NEGATIVES);
    kge_sums sums = {0};
    for (uint32_t seed = 1; seed <= b->seeds; seed++) {
        muster_task_opts opts = {
            .model = "complex:dim=64,negatives=4,loss=logistic,reciprocal=0,"
                     "n3=0,decay=1,valid=20000",
            .data = data,
            .rate = 0.1,
            .epochs = 1,
            .seed = seed};
        if (seed == 1) {
            one_node(b, &opts, steps, &sums);
        } else {
            one_thread(b, &opts, &sums);
        }
        bench_node nodes =
            bench_mesh_run(b, &opts, "valid_mrr", bench_mesh_task);
        sums.mesh_s += nodes.best_s;
        sums.mesh_cpu_s += nodes.best_cpu_s;
        sums.mesh_mrr += nodes.quality;
        bench_progress("complex, seed %u of %u: 1x1 %.3f s, mrr %.4f; 2x1 %.3f "
                       "s, mrr %.4f (seconds and mrr of all seeds so far)",
                       seed, b->seeds, sums.one_s, sums.one_mrr, sums.mesh_s,
                       sums.mesh_mrr);
    }
    double seeds = b->seeds;
    bench_report(b, "complex_2x1", steps * seeds / sums.mesh_s, "steps/s",
                 "complex_1x1, same seeds", steps * seeds / sums.one_s);
    bench_report(b, "complex_2x1_cpu", sums.mesh_cpu_s / seeds / steps * 1e9,
                 "ns/step", "complex_1x1, same seeds",
                 sums.one_cpu_s / seeds / steps * 1e9);
    bench_report(b, "complex_2x1_mrr", sums.mesh_mrr / seeds, "valid mrr",
                 "complex_1x1, same seeds", sums.one_mrr / seeds);
}
