/*
 * bench_ps.c -- the parameter server against plain loops, in one run.
 *
 * Every row has a figure, the baseline of the same run and their ratio. Nodes
 * of a mesh are threads of this program, each with its own tables, sockets and
 * network thread. Plain loops use the same kernels, compiler flags,
 * precision and order, on rows in one array. Times are the best of several
 * repeats, baseline and subject in turn.
 *
 *   muster-bench-ps [--json] [--repeats N] [--only NAME]
 */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/perm.h"
#include "data/ratings.h"
#include "data/triples.h"
#include "muster/log.h"
#include "muster/ps.h"
#include "ps/target.h"
#include "task/kernel.h"
#include "task/kge.h"
#include "task/task.h"

#include "bench.h"

enum {
    ROW_KEYS = 200000,
    ROW_WIDTH = 32,
    ACCESSES = 1 << 20,
    BATCH = 64,
    AHEAD = 8
};

typedef struct bench {
    const char *only;
    int repeats;
    bool json;
} bench;

static void *must(void *block)
{
    if (block == NULL) {
        fprintf(stderr, "muster-bench-ps: out of memory\n");
        exit(1);
    }
    return block;
}

static void check(muster_status status)
{
    if (status != MUSTER_OK) {
        fprintf(stderr, "muster-bench-ps: %s\n", muster_status_text(status));
        exit(1);
    }
}

static void report(const bench *b, const char *name, double value,
                   const char *unit, const char *baseline,
                   double baseline_value)
{
    bench_row row = {name, value, unit, baseline, baseline_value};
    bench_print(&row, b->json);
}

static bool wanted(const bench *b, const char *name)
{
    return b->only == NULL || strcmp(b->only, name) == 0;
}

/* ---- single rows --------------------------------------------------------- */

typedef struct rows {
    muster_ps *ps;
    muster_ps_worker *worker;
    uint32_t *keys;
    float *plain; // the same rows without a server
    float *copy;  // BATCH rows
} rows;

static rows make_rows(void)
{
    rows r = {0};
    muster_error error;
    uint32_t table;
    muster_ps_opts opts = MUSTER_PS_OPTS_INIT;
    muster_ps_table_opts shape = MUSTER_PS_TABLE_OPTS_INIT;
    shape.keys = ROW_KEYS;
    shape.width = ROW_WIDTH;
    check(muster_ps_create(&opts, &error, &r.ps));
    check(muster_ps_table_add(r.ps, &shape, &error, &table));
    check(muster_ps_worker_create(r.ps, &r.worker));
    r.keys = must(calloc(ACCESSES, sizeof(*r.keys)));
    muster_draws draws = muster_draws_make(1, 0);
    for (size_t i = 0; i < ACCESSES; i++) {
        r.keys[i] = muster_draws_below(&draws, ROW_KEYS);
    }
    r.plain = must(aligned_alloc(64, (size_t)ROW_KEYS * ROW_WIDTH * 4));
    memset(r.plain, 0, (size_t)ROW_KEYS * ROW_WIDTH * 4);
    r.copy = must(calloc((size_t)BATCH * ROW_WIDTH, sizeof(float)));
    return r;
}

static void free_rows(rows *r)
{
    muster_ps_worker_free(r->worker);
    muster_ps_free(r->ps);
    free(r->keys);
    free(r->plain);
    free(r->copy);
}

static void touch(float *row)
{
    for (int i = 0; i < ROW_WIDTH; i++) {
        row[i] += 1;
    }
}

static void plain_in_place(rows *r)
{
    for (size_t i = 0; i < ACCESSES; i++) {
        touch(r->plain + (size_t)r->keys[i] * ROW_WIDTH);
    }
}

static void plain_copies(rows *r)
{
    for (size_t i = 0; i < ACCESSES; i++) {
        float *row = r->plain + (size_t)r->keys[i] * ROW_WIDTH;
        memcpy(r->copy, row, ROW_WIDTH * sizeof(float));
        muster_kernel_axpy(1, r->copy, row, ROW_WIDTH);
    }
}

static void server_in_place(rows *r)
{
    for (size_t i = 0; i < ACCESSES; i++) {
        float *row;
        check(muster_ps_begin(r->worker, 0, r->keys[i], &row));
        touch(row);
        check(muster_ps_end(r->worker, 0, r->keys[i]));
    }
}

/* As a task does it that knows its next keys. */
static void server_hinted(rows *r)
{
    for (size_t i = 0; i < ACCESSES; i++) {
        float *row;
        muster_ps_prefetch(r->worker, 0, r->keys[(i + AHEAD) % ACCESSES]);
        check(muster_ps_begin(r->worker, 0, r->keys[i], &row));
        touch(row);
        check(muster_ps_end(r->worker, 0, r->keys[i]));
    }
}

static void server_single(rows *r)
{
    for (size_t i = 0; i < ACCESSES; i++) {
        check(muster_ps_pull(r->worker, 0, &r->keys[i], 1, r->copy));
        check(muster_ps_push(r->worker, 0, &r->keys[i], 1, r->copy));
    }
}

static void server_batch(rows *r)
{
    for (size_t i = 0; i + BATCH <= ACCESSES; i += BATCH) {
        check(muster_ps_pull(r->worker, 0, &r->keys[i], BATCH, r->copy));
        check(muster_ps_push(r->worker, 0, &r->keys[i], BATCH, r->copy));
    }
}

static double best_ns(const bench *b, void (*loop)(rows *), rows *r)
{
    double best = 1e300;
    for (int i = 0; i < b->repeats; i++) {
        int64_t start = muster_clock_ns();
        loop(r);
        double ns = (double)(muster_clock_ns() - start) / ACCESSES;
        best = ns < best ? ns : best;
    }
    return best;
}

static void bench_rows(const bench *b)
{
    rows r = make_rows();
    if (wanted(b, "in_place")) {
        double plain = best_ns(b, plain_in_place, &r);
        report(b, "in_place", best_ns(b, server_in_place, &r), "ns/key",
               "bare loop over the same rows", plain);
        report(b, "in_place_hinted", best_ns(b, server_hinted, &r), "ns/key",
               "bare loop over the same rows", plain);
    }
    if (wanted(b, "pull_push")) {
        double plain = best_ns(b, plain_copies, &r);
        report(b, "pull_push_1", best_ns(b, server_single, &r), "ns/key",
               "bare copy out and add", plain);
        report(b, "pull_push_64", best_ns(b, server_batch, &r), "ns/key",
               "bare copy out and add", plain);
    }
    free_rows(&r);
}

/* ---- whole tasks --------------------------------------------------------- */

enum { THREADS_MAX = 8 };

typedef struct team {
    const muster_task_ops *ops;
    void *task;
    muster_ps *ps;
    uint32_t threads;
    muster_ps_worker *workers[THREADS_MAX];
} team;

typedef struct seat {
    team *of;
    uint32_t part;
    uint32_t epoch;
    bool evaluate;
    muster_task_sums sums;
} seat;

static void *sit(void *argument)
{
    seat *s = argument;
    muster_task_share share = {
        .part = s->part, .parts = s->of->threads, .epoch = s->epoch};
    check((s->evaluate ? s->of->ops->evaluate : s->of->ops->work)(
        s->of->task, s->of->workers[s->part], &share, &s->sums));
    return NULL;
}

/* All threads through one epoch, or one evaluation; the sums together. */
static muster_task_sums team_run(team *t, uint32_t epoch, bool evaluate)
{
    pthread_t threads[THREADS_MAX];
    seat seats[THREADS_MAX];
    muster_task_sums all = {{0}};
    for (uint32_t i = 0; i < t->threads; i++) {
        seats[i] =
            (seat){.of = t, .part = i, .epoch = epoch, .evaluate = evaluate};
        if (i > 0 && pthread_create(&threads[i], NULL, sit, &seats[i]) != 0) {
            exit(1);
        }
    }
    sit(&seats[0]);
    for (uint32_t i = 0; i < t->threads; i++) {
        if (i > 0) {
            (void)pthread_join(threads[i], NULL);
        }
        for (uint32_t k = 0; k < MUSTER_TASK_METRICS_MAX; k++) {
            all.value[k] += seats[i].sums.value[k];
        }
    }
    return all;
}

static team make_team(const muster_task_opts *opts, uint32_t threads)
{
    team t = {.ops = muster_task_find(opts->model), .threads = threads};
    muster_error error;
    muster_ps_opts ps_opts = MUSTER_PS_OPTS_INIT;
    muster_task_opts mine = *opts;
    mine.parts_max = threads;
    if (t.ops->create(&mine, &error, &t.task) != MUSTER_OK) {
        fprintf(stderr, "muster-bench-ps: %s\n", error.text);
        exit(3);
    }
    check(muster_ps_create(&ps_opts, &error, &t.ps));
    check(t.ops->tables(t.task, t.ps, &error));
    for (uint32_t i = 0; i < threads; i++) {
        check(muster_ps_worker_create(t.ps, &t.workers[i]));
    }
    return t;
}

static void free_team(team *t)
{
    for (uint32_t i = 0; i < t->threads; i++) {
        muster_ps_worker_free(t->workers[i]);
    }
    muster_ps_free(t->ps);
    t->ops->free(t->task);
}

/* Seconds of the fastest epoch. */
static double team_best_s(const bench *b, team *t)
{
    double best = 1e300;
    for (int i = 0; i < b->repeats; i++) {
        int64_t start = muster_clock_ns();
        (void)team_run(t, (uint32_t)i, false);
        double s = (double)(muster_clock_ns() - start) / 1e9;
        best = s < best ? s : best;
    }
    return best;
}

static double metric(team *t, const char *name)
{
    const char *names[MUSTER_TASK_METRICS_MAX];
    double values[MUSTER_TASK_METRICS_MAX];
    muster_task_sums none = {{0}};
    muster_task_sums sums = team_run(t, 0, true);
    uint32_t count = t->ops->report(t->task, &none, &sums, names, values);
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            return values[i];
        }
    }
    return NAN;
}

/* ---- meshes -------------------------------------------------------------- */

enum { MESH_NODES = 2 };

typedef struct mesh_node {
    const bench *b;
    const muster_task_opts *opts; // NULL: a plain table
    const char *folder;
    uint32_t node;
    uint32_t manage;
    pthread_t thread;
    muster_ps *ps;
    muster_ps_worker *worker;
    const char *metric; // of the evaluation, or NULL
    double best_s;      // of an epoch, as this node sees it
    double quality;
    double figures[4]; // of the plain table
} mesh_node;

static void open_mesh(mesh_node *n, team *t)
{
    muster_error error;
    muster_ps_opts opts = MUSTER_PS_OPTS_INIT;
    opts.nodes = MESH_NODES;
    opts.node = n->node;
    opts.mesh = n->folder;
    opts.manage = n->manage;
    check(muster_ps_create(&opts, &error, &n->ps));
    if (t != NULL) {
        muster_task_opts mine = *n->opts;
        mine.parts_max = MESH_NODES;
        t->ops = muster_task_find(mine.model);
        check(t->ops->create(&mine, &error, &t->task));
        check(t->ops->tables(t->task, n->ps, &error));
    } else {
        uint32_t table;
        muster_ps_table_opts shape = MUSTER_PS_TABLE_OPTS_INIT;
        shape.keys = ROW_KEYS;
        shape.width = ROW_WIDTH;
        check(muster_ps_table_add(n->ps, &shape, &error, &table));
    }
    check(muster_ps_connect(n->ps, &error));
    check(muster_ps_worker_create(n->ps, &n->worker));
}

static void *mesh_task(void *argument)
{
    mesh_node *n = argument;
    team t = {0};
    muster_task_sums sums = {{0}};
    open_mesh(n, &t);
    n->best_s = 1e300;
    for (int i = 0; i < n->b->repeats; i++) {
        muster_task_share share = {
            .part = n->node, .parts = MESH_NODES, .epoch = (uint32_t)i};
        check(muster_ps_barrier(n->worker));
        int64_t start = muster_clock_ns();
        check(t.ops->work(t.task, n->worker, &share, &sums));
        check(muster_ps_barrier(n->worker));
        double s = (double)(muster_clock_ns() - start) / 1e9;
        n->best_s = s < n->best_s ? s : n->best_s;
    }
    if (n->node == 0) {
        // One node measures all of it: its share is the whole.
        muster_task_share whole = {.part = 0, .parts = 1};
        muster_task_sums none = {{0}};
        muster_task_sums seen = {{0}};
        const char *names[MUSTER_TASK_METRICS_MAX];
        double values[MUSTER_TASK_METRICS_MAX];
        check(t.ops->evaluate(t.task, n->worker, &whole, &seen));
        uint32_t count = t.ops->report(t.task, &none, &seen, names, values);
        for (uint32_t i = 0; i < count; i++) {
            n->quality =
                strcmp(names[i], n->metric) == 0 ? values[i] : n->quality;
        }
    }
    check(muster_ps_barrier(n->worker));
    muster_ps_worker_free(n->worker);
    muster_ps_free(n->ps);
    t.ops->free(t.task);
    return NULL;
}

static mesh_node run_mesh(const bench *b, const muster_task_opts *opts,
                          const char *metric_name, void *(*life)(void *))
{
    char folder[] = "/tmp/muster-bench-XXXXXX";
    mesh_node nodes[MESH_NODES];
    if (mkdtemp(folder) == NULL) {
        exit(1);
    }
    for (uint32_t i = 0; i < MESH_NODES; i++) {
        nodes[i] = (mesh_node){.b = b,
                               .opts = opts,
                               .folder = folder,
                               .node = i,
                               .manage = MUSTER_PS_AUTO,
                               .metric = metric_name};
        if (pthread_create(&nodes[i].thread, NULL, life, &nodes[i]) != 0) {
            exit(1);
        }
    }
    for (uint32_t i = 0; i < MESH_NODES; i++) {
        char path[64];
        (void)pthread_join(nodes[i].thread, NULL);
        (void)snprintf(path, sizeof(path), "%s/node-%u", folder, i);
        (void)unlink(path);
    }
    (void)rmdir(folder);
    return nodes[0];
}

enum { SINGLES = 2000, BIG = 1024, BIGS = 64 };

/* Keys of node 1, from `first` on. */
static void far_keys(uint32_t *keys, uint32_t count, uint32_t first)
{
    for (uint32_t i = 0; i < count; i++) {
        keys[i] = (2 * (first + i) + 1) % ROW_KEYS;
    }
}

static double since_us(int64_t start, double count)
{
    return (double)(muster_clock_ns() - start) / 1e3 / count;
}

static void *mesh_rows(void *argument)
{
    mesh_node *n = argument;
    open_mesh(n, NULL);
    check(muster_ps_barrier(n->worker));
    if (n->node == 0) {
        uint32_t keys[BIG];
        float *values = must(calloc((size_t)BIG * ROW_WIDTH, sizeof(float)));
        int64_t start = muster_clock_ns();
        for (uint32_t i = 0; i < SINGLES; i++) {
            far_keys(keys, 1, i);
            check(muster_ps_pull(n->worker, 0, keys, 1, values));
        }
        n->figures[0] = since_us(start, SINGLES);
        start = muster_clock_ns();
        for (uint32_t i = 0; i < BIGS; i++) {
            far_keys(keys, BIG, i * BIG);
            check(muster_ps_pull(n->worker, 0, keys, BIG, values));
        }
        n->figures[1] = since_us(start, (double)BIGS * BIG);
        start = muster_clock_ns();
        for (uint32_t i = 0; i < BIGS; i++) {
            muster_status status;
            far_keys(keys, BIG, i * BIG);
            do { // a full ring of wishes empties while we ask again
                status = muster_ps_localize(n->worker, 0, keys, BIG);
            } while (status == MUSTER_ERR_AGAIN);
            check(status);
        }
        check(muster_ps_fetch(n->worker, 0, keys, BIG));
        n->figures[2] = since_us(start, (double)BIGS * BIG);
        free(values);
    }
    check(muster_ps_barrier(n->worker));
    muster_ps_worker_free(n->worker);
    muster_ps_free(n->ps);
    return NULL;
}

static void bench_remote(const bench *b)
{
    mesh_node n = run_mesh(b, NULL, NULL, mesh_rows);
    report(b, "remote_pull_1", n.figures[0], "us", "bound", 40);
    report(b, "remote_pull_1024", n.figures[1], "us/key", "bound", 0.4);
    report(b, "localize_1024", 1 / n.figures[2], "Mkeys/s", "bound", 4);
}

/* ---- matrix factorisation ------------------------------------------------ */

enum { MF_RANK = 32 };

typedef struct plain_mf {
    muster_ratings ratings;
    float *cols;
    float *rows;
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
static plain_mf make_plain_mf(team *t)
{
    plain_mf p = {0};
    muster_ratings_zipf zipf = MUSTER_RATINGS_ZIPF_INIT;
    check(muster_ratings_make_zipf(&zipf, &p.ratings));
    qsort(p.ratings.cells, p.ratings.count, sizeof(muster_cell), by_column);
    p.cols = must(aligned_alloc(64, (size_t)p.ratings.cols * MF_RANK * 4));
    p.rows = must(aligned_alloc(64, (size_t)p.ratings.rows * MF_RANK * 4));
    for (uint32_t k = 0; k < p.ratings.cols; k++) {
        check(muster_ps_pull(t->workers[0], 0, &k, 1,
                             p.cols + (size_t)k * MF_RANK));
    }
    for (uint32_t k = 0; k < p.ratings.rows; k++) {
        check(muster_ps_pull(t->workers[0], 1, &k, 1,
                             p.rows + (size_t)k * MF_RANK));
    }
    return p;
}

static double plain_mf_epoch(plain_mf *p, float rate)
{
    double sum = 0;
    const muster_cell *cells = p->ratings.cells;
    for (uint64_t i = 0; i < p->ratings.count; i++) {
        float error = muster_kernel_mf(p->rows + (size_t)cells[i].row * MF_RANK,
                                       p->cols + (size_t)cells[i].col * MF_RANK,
                                       MF_RANK, cells[i].value, rate, 0.02f);
        sum += (double)error * (double)error;
    }
    return sqrt(sum / (double)p->ratings.count);
}

static void bench_mf(const bench *b)
{
    muster_task_opts opts = {.model = "mf:rank=32,order=column",
                             .data = "zipf:",
                             .l2 = 0.02,
                             .rate = 0.01,
                             .epochs = 1,
                             .seed = 1};
    team one = make_team(&opts, 1);
    plain_mf plain = make_plain_mf(&one);
    double cells = (double)plain.ratings.count;
    double best[2] = {1e300, 1e300};
    for (int i = 0; i < b->repeats; i++) {
        // The order of a task's decaying rate, so that the work is the same.
        float rate = (float)(0.01 * pow(0.95, i));
        int64_t start = muster_clock_ns();
        double rmse = plain_mf_epoch(&plain, rate);
        double s = (double)(muster_clock_ns() - start) / 1e9;
        best[0] = s < best[0] ? s : best[0];
        start = muster_clock_ns();
        muster_task_sums sums = team_run(&one, (uint32_t)i, false);
        s = (double)(muster_clock_ns() - start) / 1e9;
        best[1] = s < best[1] ? s : best[1];
        double mine = sqrt(sums.value[0] / sums.value[1]);
        if (fabs(mine - rmse) > 1e-9 * rmse) {
            fprintf(stderr,
                    "muster-bench-ps: mf: the loops differ: %.12g and "
                    "%.12g\n",
                    mine, rmse);
            exit(1);
        }
    }
    report(b, "mf_1x1", cells / best[1], "updates/s", "plain loop, in place",
           cells / best[0]);
    report(b, "mf_1x1_ns", best[1] / cells * 1e9, "ns/update",
           "plain loop, in place", best[0] / cells * 1e9);
    team two = make_team(&opts, 2);
    double pair = team_best_s(b, &two);
    report(b, "mf_1x2", cells / pair, "updates/s", "mf_1x1", cells / best[1]);
    report(b, "mf_1x2_loss", metric(&two, "loss"), "loss", "mf_1x1 loss",
           metric(&one, "loss"));
    mesh_node nodes = run_mesh(b, &opts, "loss", mesh_task);
    report(b, "mf_2x1", cells / nodes.best_s, "updates/s", "mf_1x1",
           cells / best[1]);
    report(b, "mf_2x1_loss", nodes.quality, "loss", "mf_1x1 loss",
           metric(&one, "loss"));
    muster_ratings_fini(&plain.ratings);
    free(plain.cols);
    free(plain.rows);
    free_team(&one);
    free_team(&two);
}

/* ---- knowledge graph ----------------------------------------------------- */

enum { KGE_DIM = 64, KGE_NEGATIVES = 4 };

/* The plain loop: the task's algorithm on rows in two arrays, row and sums of
 * squares side by side as in the server's tables. */
typedef struct plain_kge {
    muster_triples triples;
    float *entities;
    float *relations;
    muster_target *target;
    muster_draws draws;
    uint64_t epoch;
    double loss;
} plain_kge;

static float *copy_table(team *t, uint32_t table, uint32_t keys)
{
    float *values = must(aligned_alloc(64, (size_t)keys * 2 * KGE_DIM * 4));
    memset(values, 0, (size_t)keys * 2 * KGE_DIM * 4);
    for (uint32_t k = 0; k < keys; k++) {
        check(muster_ps_pull(t->workers[0], table, &k, 1,
                             values + (size_t)k * 2 * KGE_DIM));
    }
    return values;
}

static plain_kge make_plain_kge(team *t, const char *data)
{
    plain_kge p = {0};
    muster_error error;
    check(muster_triples_load(data, &error, &p.triples));
    p.entities = copy_table(t, MUSTER_KGE_ENTITIES, p.triples.entities);
    p.relations = copy_table(t, MUSTER_KGE_RELATIONS, p.triples.relations);
    check(muster_target_create(MUSTER_PS_TARGET_UNIFORM, 0, p.triples.entities,
                               NULL, &p.target));
    p.draws = muster_draws_make(1, 0);
    return p;
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
    const float rate[2] = {0.1f, 0};
    muster_kge_query(MUSTER_KGE_COMPLEX, question.backwards, anchor, relation,
                     KGE_DIM, query);
    for (int i = question.backwards ? 1 : 0; i <= KGE_NEGATIVES; i++) {
        float *row = row_of(p->entities, i == 0 ? truth : negatives[i - 1]);
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
    muster_kernel_adagrad(anchor, by_anchor, KGE_DIM, 0.1f, 0);
    muster_kernel_adagrad(relation, by_relation, KGE_DIM, 0.1f, 0);
}

static void plain_kge_epoch(plain_kge *p)
{
    uint64_t count = p->triples.count[MUSTER_TRIPLES_TRAIN];
    muster_perm order = muster_perm_make(1, p->epoch++, count);
    p->loss = 0;
    for (uint64_t i = 0; i < count; i++) {
        muster_triple t =
            p->triples.set[MUSTER_TRIPLES_TRAIN][muster_perm_at(&order, i)];
        uint32_t negatives[2 * KGE_NEGATIVES];
        for (int j = 0; j < 2 * KGE_NEGATIVES; j++) {
            negatives[j] = muster_target_draw(p->target, &p->draws);
        }
        plain_answer(p, (muster_kge_question){t.head, t.relation, false},
                     t.tail, negatives);
        plain_answer(p, (muster_kge_question){t.tail, t.relation, true}, t.head,
                     negatives + KGE_NEGATIVES);
    }
}

static void bench_kge(const bench *b)
{
    char data[4096];
    const char *folder = getenv("MUSTER_DATA");
    snprintf(data, sizeof(data), "%s/fb15k237",
             folder != NULL ? folder : "../shared/data");
    muster_task_opts opts = {
        .model = "complex:dim=64,negatives=4,loss=logistic,reciprocal=0,"
                 "n3=0,decay=1,valid=500",
        .data = data,
        .rate = 0.1,
        .epochs = 1,
        .seed = 1};
    team one = make_team(&opts, 1);
    plain_kge plain = make_plain_kge(&one, data);
    double steps = (double)plain.triples.count[MUSTER_TRIPLES_TRAIN] *
                   (1 + 2 * KGE_NEGATIVES);
    double best[2] = {1e300, 1e300};
    double loss[2] = {0};
    for (int i = 0; i < b->repeats; i++) {
        int64_t start = muster_clock_ns();
        plain_kge_epoch(&plain);
        double s = (double)(muster_clock_ns() - start) / 1e9;
        best[0] = s < best[0] ? s : best[0];
        loss[0] = plain.loss;
        start = muster_clock_ns();
        muster_task_sums sums = team_run(&one, (uint32_t)i, false);
        s = (double)(muster_clock_ns() - start) / 1e9;
        best[1] = s < best[1] ? s : best[1];
        loss[1] = sums.value[MUSTER_KGE_SUM_LOSS];
    }
    report(b, "complex_1x1", steps / best[1], "steps/s", "plain loop, in place",
           steps / best[0]);
    report(b, "complex_1x1_loss", loss[1], "loss", "plain loop", loss[0]);
    team two = make_team(&opts, 2);
    double pair = team_best_s(b, &two);
    report(b, "complex_1x2", steps / pair, "steps/s", "complex_1x1",
           steps / best[1]);
    report(b, "complex_1x2_mrr", metric(&two, "valid_mrr"), "valid mrr",
           "complex_1x1", metric(&one, "valid_mrr"));
    mesh_node nodes = run_mesh(b, &opts, "valid_mrr", mesh_task);
    report(b, "complex_2x1", steps / nodes.best_s, "steps/s", "complex_1x1",
           steps / best[1]);
    report(b, "complex_2x1_mrr", nodes.quality, "valid mrr", "complex_1x1",
           metric(&one, "valid_mrr"));
    muster_triples_fini(&plain.triples);
    muster_target_free(plain.target);
    free(plain.entities);
    free(plain.relations);
    free_team(&one);
    free_team(&two);
}

static void tell(void *context, muster_log_level level, const char *line)
{
    (void)context;
    (void)level;
    fprintf(stderr, "muster-bench-ps: %s\n", line);
}

int main(int argc, char **argv)
{
    bench b = {.repeats = 5};
    muster_log_to(tell, NULL, MUSTER_LOG_WARN);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--only") == 0 && i + 1 < argc) {
            b.only = argv[++i];
        } else if (strcmp(argv[i], "--json") == 0) {
            b.json = true;
        } else if (strcmp(argv[i], "--repeats") == 0 && i + 1 < argc) {
            b.repeats = (int)strtol(argv[++i], NULL, 10);
            b.repeats = b.repeats < 1 ? 1 : b.repeats;
        } else {
            fprintf(stderr,
                    "usage: muster-bench-ps [--json] [--repeats N] [--only "
                    "in_place|pull_push|remote|mf|complex]\n");
            return 2;
        }
    }
    bench_rows(&b);
    if (wanted(&b, "remote")) {
        bench_remote(&b);
    }
    if (wanted(&b, "mf")) {
        bench_mf(&b);
    }
    if (wanted(&b, "complex")) {
        bench_kge(&b);
    }
    return 0;
}
