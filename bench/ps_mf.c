/*
 * ps_mf.c -- matrix factorisation of the zipf matrix: the task against a plain
 * loop over the same cells in the same order, then two threads and two nodes.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "data/ratings.h"
#include "muster/ps.h"
#include "ps/slab.h"
#include "task/kernel.h"

#include "bench_ps.h"

enum { MF_RANK = 32, AHEAD = 12, TIMED_PER_REPEAT = 5 };

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
    return (x->row > y->row) - (x->row < y->row);
}

/* The same cells in the same order, from the same initial factors. */
static plain_mf make_plain_mf(bench_team *t)
{
    plain_mf p = {0};
    muster_ratings_zipf zipf = MUSTER_RATINGS_ZIPF_INIT;
    bench_check(muster_ratings_make_zipf(&zipf, &p.ratings));
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

/* Seconds of the plain loop's fastest epoch, and the team's times, in turns;
 * both must go the same way. */
static double time_both(const bench_ps *b, plain_mf *plain, bench_team *one,
                        bench_times *best)
{
    double plain_s = 1e300;
    for (int i = 0; i < b->repeats + b->more; i++) {
        // The order of a task's decaying rate, so that the work is the same.
        float rate = (float)(0.01 * pow(0.95, i));
        if (i == b->repeats) {
            best->quality = bench_team_metric(one, "loss");
        }
        int64_t start = muster_clock_ns();
        double rmse = plain_mf_epoch(plain, rate);
        double s = (double)(muster_clock_ns() - start) / 1e9;
        plain_s = s < plain_s ? s : plain_s;
        muster_task_sums sums = bench_time(one, (uint32_t)i, best);
        double mine = sqrt(sums.value[0] / sums.value[1]);
        if (fabs(mine - rmse) > 1e-9 * rmse) {
            fprintf(stderr,
                    "muster-bench-ps: mf: the loops differ: %.12g and "
                    "%.12g\n",
                    mine, rmse);
            exit(1);
        }
    }
    return plain_s;
}

static void report_mf(const bench_ps *b, const char *name, double rate,
                      double loss, const double *one)
{
    char line[32];
    bench_report(b, name, rate, "updates/s", "mf_1x1", one[0]);
    (void)snprintf(line, sizeof(line), "%s_loss", name);
    bench_report(b, line, loss, "loss", "mf_1x1 loss", one[1]);
}

void bench_mf(const bench_ps *given)
{
    muster_task_opts opts = {.model = "mf:rank=32,order=column",
                             .data = "zipf:",
                             .l2 = 0.02,
                             .rate = 0.01,
                             .epochs = 1,
                             .seed = 1};
    // Losses are compared after few epochs; but one takes some 20 ms, and on a
    // machine with neighbours the best of few is not much of a figure.
    bench_ps longer = *given;
    longer.more = TIMED_PER_REPEAT * longer.repeats;
    longer.more = longer.repeats + longer.more > BENCH_REPEATS_MAX
                      ? BENCH_REPEATS_MAX - longer.repeats
                      : longer.more;
    const bench_ps *b = &longer;
    bench_team one = bench_team_make(&opts, 1);
    plain_mf plain = make_plain_mf(&one);
    double cells = (double)plain.ratings.count;
    bench_times best = {1e300, 1e300, NAN};
    double plain_s = time_both(b, &plain, &one, &best);
    bench_report(b, "mf_1x1", cells / best.s, "updates/s",
                 "plain loop, in place", cells / plain_s);
    bench_report(b, "mf_1x1_ns", best.s / cells * 1e9, "ns/update",
                 "plain loop, in place", plain_s / cells * 1e9);
    double single[2] = {cells / best.s, best.quality};
    bench_team two = bench_team_make(&opts, 2);
    bench_times pair = bench_team_best(b, &two, "loss");
    report_mf(b, "mf_1x2", cells / pair.s, pair.quality, single);
    bench_node nodes = bench_mesh_run(b, &opts, "loss", bench_mesh_task);
    report_mf(b, "mf_2x1", cells / nodes.best_s, nodes.quality, single);
    bench_report(b, "mf_2x1_cpu", nodes.best_cpu_s / cells * 1e9, "ns/update",
                 "mf_1x1", best.cpu_s / cells * 1e9);
    muster_ratings_fini(&plain.ratings);
    muster_slab_unmap(plain.cols, plain.cols_mapped);
    muster_slab_unmap(plain.rows, plain.rows_mapped);
    bench_team_fini(&one);
    bench_team_fini(&two);
}
