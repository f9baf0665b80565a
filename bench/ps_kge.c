/*
 * ps_kge.c -- ComplEx on fb15k237: the task against a plain loop with the same
 * kernels, two threads and two nodes.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/perm.h"
#include "data/triples.h"
#include "muster/ps.h"
#include "ps/store/distribution.h"
#include "ps/store/slab.h"
#include "task/kernel.h"
#include "task/kge.h"

#include "bench_ps.h"

enum { KGE_DIM = 64, KGE_NEGATIVES = 4, AHEAD = 2, GROUP = 32, SEED = 1 };

/* Ranks are compared where they have levelled off: after 15 epochs, with five
 * repeats. In the first ones any two orders of the same work differ. */
enum { EPOCHS_PER_REPEAT = 3 };

/* The plain loop: the task's algorithm, order and samples on rows in two
 * arrays, row and sums of squares side by side as in the server's tables, in
 * the same kind of pages. */
typedef struct plain_kge {
    muster_triples triples;
    float *entities;
    float *relations;
    size_t mapped[2];
    muster_key_distribution *target;
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
    bench_check(muster_key_distribution_create(
        MUSTER_PS_TARGET_UNIFORM, 0, p.triples.entities, NULL, &p.target));
    return p;
}

static void free_plain_kge(plain_kge *p)
{
    muster_triples_fini(&p->triples);
    muster_key_distribution_free(p->target);
    muster_slab_unmap(p->entities, p->mapped[0]);
    muster_slab_unmap(p->relations, p->mapped[1]);
}

static float *row_of(float *values, uint32_t key)
{
    return values + (size_t)key * 2 * KGE_DIM;
}

static void hint(const plain_kge *p, uint32_t key)
{
    const float *row = p->entities + (size_t)key * 2 * KGE_DIM;
    for (int i = 0; i < 2 * KGE_DIM; i += 16) {
        __builtin_prefetch(row + i, 1);
    }
}

/* With the task's hints. */
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
    int first = question.backwards ? 1 : 0;
    for (int i = first; i < first + AHEAD; i++) {
        hint(p, i == 0 ? truth : negatives[i - 1]);
    }
    muster_kge_query(MUSTER_KGE_COMPLEX, question.backwards, anchor, relation,
                     KGE_DIM, query);
    for (int i = first; i <= KGE_NEGATIVES; i++) {
        float *row = row_of(p->entities, i == 0 ? truth : negatives[i - 1]);
        if (i + AHEAD <= KGE_NEGATIVES) {
            hint(p, negatives[i + AHEAD - 1]);
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

static void plain_triple(plain_kge *p, muster_triple t, muster_draws *draws)
{
    uint32_t negatives[2 * KGE_NEGATIVES];
    for (int j = 0; j < 2 * KGE_NEGATIVES; j++) {
        negatives[j] = muster_key_distribution_draw(p->target, draws);
    }
    plain_answer(p, (muster_kge_question){t.head, t.relation, false}, t.tail,
                 negatives);
    plain_answer(p, (muster_kge_question){t.tail, t.relation, true}, t.head,
                 negatives + KGE_NEGATIVES);
}

static void plain_group(plain_kge *p, const muster_triple *const *triples,
                        uint64_t size, muster_draws draws)
{
    for (uint64_t i = 0; i < size; i++) {
        if (i + 1 < size) {
            hint(p, triples[i + 1]->head);
            hint(p, triples[i + 1]->tail);
        }
        plain_triple(p, *triples[i], &draws);
    }
}

static void plain_kge_epoch(plain_kge *p)
{
    uint64_t count = p->triples.count[MUSTER_TRIPLES_TRAIN];
    const muster_kge_options rates = {.decay = 1, .warmup = 1};
    muster_perm order = muster_perm_make(SEED, p->epoch, count);
    const muster_kge_order all = {.all = count,
                                  .count = count,
                                  .parts = 1,
                                  .epoch = (uint32_t)p->epoch,
                                  .group = GROUP};
    p->loss = 0;
    for (uint64_t at = 0; at < count; at += GROUP) {
        const muster_triple *triples[GROUP];
        uint64_t size = count - at < GROUP ? count - at : GROUP;
        p->rate = (float)muster_kge_rate(&rates, 0.1,
                                         muster_kge_order_epochs(&all, at));
        for (uint64_t i = 0; i < size; i++) {
            triples[i] =
                &p->triples
                     .set[MUSTER_TRIPLES_TRAIN][muster_perm_at(&order, at + i)];
            __builtin_prefetch(triples[i]);
        }
        plain_group(p, triples, size,
                    muster_draws_at(SEED, 0, muster_kge_order_place(&all, at)));
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
    double apart[2]; // the mesh's mrr less one's, and the squares
} kge_sums;

static void add_mrr(kge_sums *sums, double one, double mesh)
{
    sums->one_mrr += one;
    sums->mesh_mrr += mesh;
    sums->apart[0] += mesh - one;
    sums->apart[1] += (mesh - one) * (mesh - one);
}

/* Standard error of the mean over `count` seeds. */
static double mean_error(const double *sums, double count)
{
    double variance = (sums[1] - sums[0] * sums[0] / count) / (count - 1);
    return variance > 0 ? sqrt(variance / count) : 0;
}

/* A seed gives both the same start, order and samples: they are compared seed
 * by seed. Of equal means over three seeds two calls in five are more than one
 * standard error apart, one in twenty more than 4.3 (Student's t). */
static void report_mrr(const bench_ps *b, const kge_sums *sums)
{
    double seeds = b->seeds;
    bench_report(b, "complex_2x1_mrr", sums->mesh_mrr / seeds, "valid mrr",
                 "complex_1x1, same seeds", sums->one_mrr / seeds);
    if (b->seeds > 1) {
        bench_report(b, "complex_2x1_mrr_apart", fabs(sums->apart[0]) / seeds,
                     "valid mrr", "standard error, seed by seed",
                     mean_error(sums->apart, seeds));
    }
}

/* What the mesh is compared to. */
typedef struct others {
    bool all; // the plain loop and two threads too
    plain_kge plain;
    bench_team one;
    bench_team two;
    double plain_s; // fastest epochs
    bench_times best_one;
    bench_times best_two;
    double loss; // of one thread's last epoch
} others;

static others make_others(const muster_task_opts *opts)
{
    others o = {.all = opts->seed == SEED,
                .one = bench_team_make(opts, 1),
                .plain_s = 1e300,
                .best_one = {1e300, 1e300, NAN},
                .best_two = {1e300, 1e300, NAN}};
    if (o.all) {
        o.two = bench_team_make(opts, 2);
        o.plain = make_plain_kge(&o.one, opts->data);
    }
    return o;
}

static void free_others(others *o)
{
    bench_team_fini(&o->one);
    if (o->all) {
        bench_team_fini(&o->two);
        free_plain_kge(&o->plain);
    }
}

static void take_turns(others *o, uint32_t from, uint32_t to)
{
    for (uint32_t epoch = from; epoch < to; epoch++) {
        muster_task_sums work = bench_time(&o->one, epoch, &o->best_one);
        o->loss = work.value[MUSTER_KGE_SUM_LOSS];
        if (o->all) {
            int64_t start = muster_clock_ns();
            plain_kge_epoch(&o->plain);
            double s = (double)(muster_clock_ns() - start) / 1e9;
            o->plain_s = s < o->plain_s ? s : o->plain_s;
            (void)bench_time(&o->two, epoch, &o->best_two);
        }
    }
}

static void *mesh_life(void *argument)
{
    bench_node *n = argument;
    bench_team t = {0};
    bench_mesh_open(n, &t);
    for (uint32_t i = 0; i < (uint32_t)n->b->repeats; i++) {
        bench_mesh_epoch(n, &t, i);
    }
    if (n->node == 0) {
        n->quality = bench_mesh_quality(n, &t);
    }
    bench_mesh_close(n, &t);
    return NULL;
}

/* What only the first seed finds. */
static void report_one_node(const bench_ps *b, others *o, double steps,
                            double mrr)
{
    bench_report(b, "complex_1x1", steps / o->best_one.s, "steps/s",
                 "plain loop, in place", steps / o->plain_s);
    bench_report(b, "complex_1x1_loss", o->loss, "loss", "plain loop",
                 o->plain.loss);
    bench_report(b, "complex_1x2", steps / o->best_two.s, "steps/s",
                 "complex_1x1", steps / o->best_one.s);
    bench_report(b, "complex_1x2_mrr", bench_team_metric(&o->two, "valid_mrr"),
                 "valid mrr", "complex_1x1", mrr);
}

/* One seed: half of the others' epochs, the mesh, the other half. The mesh's
 * copies are synchronised as long as there are nodes, so it does not live
 * beside the others; and all see the same moods of the machine. */
static void run_seed(const bench_ps *b, const muster_task_opts *opts,
                     double steps, kge_sums *sums)
{
    uint32_t epochs = (uint32_t)b->repeats;
    others o = make_others(opts);
    take_turns(&o, 0, epochs / 2);
    bench_node nodes = bench_mesh_run(b, opts, "valid_mrr", mesh_life);
    take_turns(&o, epochs / 2, epochs);
    double mrr = bench_team_metric(&o.one, "valid_mrr");
    if (o.all) {
        report_one_node(b, &o, steps, mrr);
    }
    free_others(&o);
    sums->one_s += o.best_one.s;
    sums->one_cpu_s += o.best_one.cpu_s;
    sums->mesh_s += nodes.best_s;
    sums->mesh_cpu_s += nodes.best_cpu_s;
    add_mrr(sums, mrr, nodes.quality);
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
    for (uint32_t seed = SEED; seed < SEED + b->seeds; seed++) {
        muster_task_opts opts = {
            .model = "complex:dim=64,negatives=4,loss=logistic,reciprocal=0,"
                     "n3=0,decay=1,valid=20000",
            .data = data,
            .rate = 0.1,
            .epochs = 1,
            .seed = seed};
        run_seed(b, &opts, steps, &sums);
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
    report_mrr(b, &sums);
}
