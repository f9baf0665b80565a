/*
 * ps_mf.c -- matrix factorisation of the zipf matrix: the task against a plain
 * loop over the same cells in the same order, two threads and two nodes.
 *
 * An epoch takes some 20 ms, and on a machine with neighbours all of them are
 * slow for seconds together. So the four take turns of a few epochs each, in
 * the process of the first node, while the other node waits; the best epoch of
 * each counts. Losses are compared after the first turn.
 *
 * With one part every epoch begins with the columns that most cells have. With
 * two, each begins with those that it ended with, and half of the cells are of
 * either kind at any time: what was worked on last fits best, and the loss of
 * two is some percent below that of one.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/threads.h"
#include "data/ratings.h"
#include "muster/ps.h"
#include "ps/store/slab.h"
#include "task/kernel.h"

#include "bench_ps.h"

enum { MF_RANK = 32, AHEAD = 12, TURNS = 20 };

typedef struct plain_mf {
    muster_ratings ratings;
    float *cols; // in the same kind of pages as the server's
    float *rows;
    size_t cols_mapped;
    size_t rows_mapped;
} plain_mf;

static int by_column(const void *a, const void *b)
{
    const muster_cell *x = a;
    const muster_cell *y = b;
    if (x->col != y->col) {
        return x->col < y->col ? -1 : 1;
    }
    if (x->row != y->row) {
        return x->row < y->row ? -1 : 1;
    }
    return (x->value > y->value) - (x->value < y->value);
}

/* The same cells in the same order, from the same initial factors. */
static plain_mf make_plain_mf(bench_team *t)
{
    plain_mf p = {0};
    muster_ratings_zipf zipf = MUSTER_RATINGS_ZIPF_INIT;
    bench_check(
        muster_ratings_make_zipf(&zipf, muster_threads_here(), &p.ratings));
    qsort(p.ratings.cells, p.ratings.count, sizeof(muster_cell), by_column);
    p.cols = bench_must(
        muster_slab_map((size_t)p.ratings.cols * MF_RANK * 4, &p.cols_mapped));
    p.rows = bench_must(
        muster_slab_map((size_t)p.ratings.rows * MF_RANK * 4, &p.rows_mapped));
    for (uint32_t k = 0; k < p.ratings.cols; k++) {
        bench_check(muster_ps_pull(t->workers[0], 0, &k, 1,
                                   p.cols + (size_t)k * MF_RANK));
    }
    for (uint32_t k = 0; k < p.ratings.rows; k++) {
        bench_check(muster_ps_pull(t->workers[0], 1, &k, 1,
                                   p.rows + (size_t)k * MF_RANK));
    }
    return p;
}

static double plain_mf_epoch(plain_mf *p, float rate)
{
    double sum = 0;
    const muster_cell *cells = p->ratings.cells;
    for (uint64_t i = 0; i < p->ratings.count; i++) {
        if (p->ratings.count - i > AHEAD) { // the task's hints
            const float *next =
                p->rows + (size_t)cells[i + AHEAD].row * MF_RANK;
            __builtin_prefetch(next, 1);
            __builtin_prefetch(next + 16, 1);
            if (cells[i + AHEAD].col != cells[i].col) {
                next = p->cols + (size_t)cells[i + AHEAD].col * MF_RANK;
                __builtin_prefetch(next, 1);
                __builtin_prefetch(next + 16, 1);
            }
        }
        float error = muster_kernel_mf(p->rows + (size_t)cells[i].row * MF_RANK,
                                       p->cols + (size_t)cells[i].col * MF_RANK,
                                       MF_RANK, cells[i].value, rate, 0.02f);
        sum += (double)error * (double)error;
    }
    return sqrt(sum / (double)p->ratings.count);
}

/* What node 0 found beside the mesh's own figures. */
enum {
    FIGURE_CELLS,
    FIGURE_PLAIN_S,
    FIGURE_ONE_S,
    FIGURE_ONE_CPU_S,
    FIGURE_ONE_LOSS,
    FIGURE_TWO_S,
    FIGURE_TWO_LOSS
};

/* What takes turns with the mesh. */
typedef struct others {
    plain_mf plain;
    bench_team one;
    bench_team two;
    double plain_s; // fastest epochs
    bench_times best_one;
    bench_times best_two;
} others;

static others make_others(const muster_task_opts *opts)
{
    others o = {.one = bench_team_make(opts, 1),
                .two = bench_team_make(opts, 2),
                .plain_s = 1e300,
                .best_one = {1e300, 1e300, NAN},
                .best_two = {1e300, 1e300, NAN}};
    o.plain = make_plain_mf(&o.one);
    return o;
}

static void free_others(others *o)
{
    muster_ratings_fini(&o->plain.ratings);
    muster_slab_unmap(o->plain.cols, o->plain.cols_mapped);
    muster_slab_unmap(o->plain.rows, o->plain.rows_mapped);
    bench_team_fini(&o->one);
    bench_team_fini(&o->two);
}

/* An epoch of the plain loop, then the same by one worker: both must go the
 * same way. */
static void time_both(others *o, uint32_t epoch)
{
    // The order of a task's decaying rate, so that the work is the same.
    float rate = (float)(0.01 * pow(0.95, epoch));
    int64_t start = muster_clock_ns();
    double rmse = plain_mf_epoch(&o->plain, rate);
    double s = (double)(muster_clock_ns() - start) / 1e9;
    o->plain_s = s < o->plain_s ? s : o->plain_s;
    muster_task_sums sums = bench_time(&o->one, epoch, &o->best_one);
    double mine = sqrt(sums.value[0] / sums.value[1]);
    if (fabs(mine - rmse) > 1e-9 * rmse) {
        fprintf(stderr,
                "muster-bench-ps: mf: the loops differ: %.12g and %.12g\n",
                mine, rmse);
        exit(1);
    }
}

static void take_turn(others *o, uint32_t first, uint32_t epochs)
{
    for (uint32_t i = first; i < first + epochs; i++) {
        time_both(o, i);
    }
    for (uint32_t i = first; i < first + epochs; i++) {
        (void)bench_time(&o->two, i, &o->best_two);
    }
}

static void note_others(others *o, double *figures)
{
    figures[FIGURE_CELLS] = (double)o->plain.ratings.count;
    figures[FIGURE_PLAIN_S] = o->plain_s;
    figures[FIGURE_ONE_S] = o->best_one.s;
    figures[FIGURE_ONE_CPU_S] = o->best_one.cpu_s;
    figures[FIGURE_ONE_LOSS] = o->best_one.quality;
    figures[FIGURE_TWO_S] = o->best_two.s;
    figures[FIGURE_TWO_LOSS] = o->best_two.quality;
}

static uint32_t turns_of(const bench_ps *b)
{
    uint32_t max = BENCH_REPEATS_MAX / (uint32_t)b->repeats;
    return max < TURNS ? max : TURNS;
}

/* A node's life: turns of the mesh; at node 0 those of the others between. */
static void *take_turns(void *argument)
{
    bench_node *n = argument;
    bench_team t = {0};
    others o = {0};
    uint32_t epochs = (uint32_t)n->b->repeats;
    bench_mesh_open(n, &t);
    if (n->node == 0) {
        o = make_others(n->opts);
    }
    for (uint32_t turn = 0; turn < turns_of(n->b); turn++) {
        if (n->node == 0) {
            take_turn(&o, turn * epochs, epochs);
        }
        for (uint32_t i = 0; i < epochs; i++) {
            bench_mesh_epoch(n, &t, turn * epochs + i);
        }
        if (turn == 0 && n->node == 0) {
            o.best_one.quality = bench_team_metric(&o.one, n->metric);
            o.best_two.quality = bench_team_metric(&o.two, n->metric);
            n->quality = bench_mesh_quality(n, &t);
        }
    }
    if (n->node == 0) {
        note_others(&o, n->figures);
        free_others(&o);
    }
    bench_mesh_close(n, &t);
    return NULL;
}

static void report_mf(const bench_ps *b, const char *name, double rate,
                      double loss, const double *one)
{
    char line[32];
    bench_report(b, name, rate, "updates/s", "mf_1x1", one[0]);
    (void)snprintf(line, sizeof(line), "%s_loss", name);
    bench_report(b, line, loss, "loss", "mf_1x1 loss", one[1]);
}

void bench_mf(const bench_ps *b)
{
    muster_task_opts opts = {.model = "mf:rank=32,order=column,bias=0,valid=0",
                             .data = "zipf:",
                             .optimizer = "sgd",
                             .l2 = 0.02,
                             .rate = 0.01,
                             .epochs = 1,
                             .seed = 1};
    bench_node nodes = bench_mesh_run(b, &opts, "loss", take_turns);
    const double *found = nodes.figures;
    double cells = found[FIGURE_CELLS];
    double single[2] = {cells / found[FIGURE_ONE_S], found[FIGURE_ONE_LOSS]};
    bench_report(b, "mf_1x1", single[0], "updates/s", "plain loop, in place",
                 cells / found[FIGURE_PLAIN_S]);
    bench_report(b, "mf_1x1_ns", 1e9 / single[0], "ns/update",
                 "plain loop, in place", found[FIGURE_PLAIN_S] / cells * 1e9);
    report_mf(b, "mf_1x2", cells / found[FIGURE_TWO_S], found[FIGURE_TWO_LOSS],
              single);
    report_mf(b, "mf_2x1", cells / nodes.best_s, nodes.quality, single);
    bench_report(b, "mf_2x1_cpu", nodes.best_cpu_s / cells * 1e9, "ns/update",
                 "mf_1x1", found[FIGURE_ONE_CPU_S] / cells * 1e9);
}
