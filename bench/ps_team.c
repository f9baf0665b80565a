/*
 * ps_team.c -- the threads of one node and the nodes of a mesh that the rows of
 * `muster bench ps` run a task on.
 */
#define _GNU_SOURCE
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#include "bench_ps.h"

static double read_clock(clockid_t clock)
{
    struct timespec t;
    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

double bench_cpu_s(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

typedef struct seat {
    bench_team *of;
    uint32_t part;
    uint32_t epoch;
    bool evaluate;
    muster_task_sums sums;
    double cpu_s;
} seat;

static void *sit(void *argument)
{
    seat *s = argument;
    muster_task_share share = {.part = s->part,
                               .parts = s->of->threads,
                               .epoch = s->epoch,
                               .together = true};
    double start = read_clock(CLOCK_THREAD_CPUTIME_ID);
    bench_check((s->evaluate ? s->of->ops->evaluate : s->of->ops->work)(
        s->of->task, s->of->workers[s->part], &share, &s->sums));
    s->cpu_s = read_clock(CLOCK_THREAD_CPUTIME_ID) - start;
    return NULL;
}

/* A processor for each thread: an epoch is over before the system would have
 * moved one of two that it had started on the same. */
static cpu_set_t processor(uint32_t number)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(number % (processors > 0 ? (uint32_t)processors : 1), &set);
    return set;
}

static void start_seat(seat *s, pthread_t *thread_out)
{
    cpu_set_t set = processor(s->part);
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0 ||
        pthread_attr_setaffinity_np(&attributes, sizeof(set), &set) != 0 ||
        pthread_create(thread_out, &attributes, sit, s) != 0) {
        fprintf(stderr, "muster-bench-ps: no thread\n");
        exit(1);
    }
    (void)pthread_attr_destroy(&attributes);
}

muster_task_sums bench_team_run(bench_team *t, uint32_t epoch, bool evaluate)
{
    pthread_t threads[BENCH_THREADS_MAX];
    seat seats[BENCH_THREADS_MAX];
    muster_task_sums all = {{0}};
    t->cpu_s = 0;
    for (uint32_t i = 0; i < t->threads; i++) {
        seats[i] =
            (seat){.of = t, .part = i, .epoch = epoch, .evaluate = evaluate};
        start_seat(&seats[i], &threads[i]);
    }
    for (uint32_t i = 0; i < t->threads; i++) {
        (void)pthread_join(threads[i], NULL);
        t->cpu_s += seats[i].cpu_s;
        for (uint32_t k = 0; k < MUSTER_TASK_METRICS_MAX; k++) {
            all.value[k] += seats[i].sums.value[k];
        }
    }
    return all;
}

bench_team bench_team_make(const muster_task_opts *opts, uint32_t threads)
{
    bench_team t = {.ops = muster_task_find(opts->model), .threads = threads};
    muster_error error;
    muster_ps_opts ps_opts = MUSTER_PS_OPTS_INIT;
    muster_task_opts mine = *opts;
    mine.parts_max = threads;
    ps_opts.seed = opts->seed;
    if (t.ops->create(&mine, &error, &t.task) != MUSTER_OK) {
        fprintf(stderr, "muster-bench-ps: %s\n", error.text);
        exit(3);
    }
    bench_check(muster_ps_create(&ps_opts, &error, &t.ps));
    bench_check(t.ops->tables(t.task, t.ps, &error));
    for (uint32_t i = 0; i < threads; i++) {
        bench_check(muster_ps_worker_create(t.ps, NULL, &t.workers[i]));
    }
    return t;
}

void bench_team_fini(bench_team *t)
{
    for (uint32_t i = 0; i < t->threads; i++) {
        muster_ps_worker_free(t->workers[i]);
    }
    muster_ps_free(t->ps);
    t->ops->free(t->task);
}

muster_task_sums bench_time(bench_team *t, uint32_t epoch, bench_times *best)
{
    int64_t start = muster_clock_ns();
    muster_task_sums sums = bench_team_run(t, epoch, false);
    double s = (double)(muster_clock_ns() - start) / 1e9;
    best->s = s < best->s ? s : best->s;
    best->cpu_s = t->cpu_s < best->cpu_s ? t->cpu_s : best->cpu_s;
    return sums;
}

double bench_team_metric(bench_team *t, const char *name)
{
    const char *names[MUSTER_TASK_METRICS_MAX];
    double values[MUSTER_TASK_METRICS_MAX];
    muster_task_sums none = {{0}};
    muster_task_sums sums = bench_team_run(t, 0, true);
    uint32_t count = t->ops->report(t->task, &none, &sums, names, values);
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            return values[i];
        }
    }
    return NAN;
}

void bench_mesh_open(bench_node *n, bench_team *t)
{
    muster_error error;
    muster_ps_opts opts = MUSTER_PS_OPTS_INIT;
    opts.nodes = BENCH_NODES;
    opts.node = n->node;
    opts.mesh = n->folder;
    opts.manage = n->manage;
    opts.seed = n->opts != NULL ? n->opts->seed : opts.seed;
    bench_check(muster_ps_create(&opts, &error, &n->ps));
    if (t != NULL) {
        muster_task_opts mine = *n->opts;
        mine.parts_max = BENCH_NODES;
        t->ops = muster_task_find(mine.model);
        bench_check(t->ops->create(&mine, &error, &t->task));
        bench_check(t->ops->tables(t->task, n->ps, &error));
    } else {
        uint32_t table;
        muster_ps_table_opts shape = MUSTER_PS_TABLE_OPTS_INIT;
        shape.keys = BENCH_ROW_KEYS;
        shape.width = BENCH_ROW_WIDTH;
        bench_check(muster_ps_table_add(n->ps, &shape, &error, &table));
    }
    bench_check(muster_ps_connect(n->ps, &error));
    bench_check(muster_ps_worker_create(n->ps, NULL, &n->worker));
    if (t != NULL) { // as the threads of a team
        cpu_set_t set = processor(n->node);
        (void)pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
    }
}

double bench_mesh_quality(bench_node *n, const bench_team *t)
{
    muster_task_share whole = {.part = 0, .parts = 1};
    muster_task_sums none = {{0}};
    muster_task_sums seen = {{0}};
    const char *names[MUSTER_TASK_METRICS_MAX];
    double values[MUSTER_TASK_METRICS_MAX];
    double found = NAN;
    bench_check(t->ops->evaluate(t->task, n->worker, &whole, &seen));
    uint32_t count = t->ops->report(t->task, &none, &seen, names, values);
    for (uint32_t i = 0; i < count; i++) {
        found = strcmp(names[i], n->metric) == 0 ? values[i] : found;
    }
    return found;
}

void bench_mesh_epoch(bench_node *n, const bench_team *t, uint32_t epoch)
{
    muster_task_share share = {.part = n->node,
                               .parts = BENCH_NODES,
                               .epoch = epoch,
                               .together = true};
    muster_task_sums sums = {{0}};
    bench_check(muster_ps_barrier(n->worker));
    int64_t start = muster_clock_ns();
    double cpu = bench_cpu_s();
    bench_check(t->ops->work(t->task, n->worker, &share, &sums));
    bench_check(muster_ps_barrier(n->worker));
    double s = (double)(muster_clock_ns() - start) / 1e9;
    n->best_s = n->best_s == 0 || s < n->best_s ? s : n->best_s;
    n->cpu_s[n->epochs++] = bench_cpu_s() - cpu;
}

void bench_mesh_close(bench_node *n, bench_team *t)
{
    bench_check(muster_ps_barrier(n->worker));
    muster_ps_worker_free(n->worker);
    muster_ps_free(n->ps);
    t->ops->free(t->task);
}

/* Add the other nodes' times of the processors to the first one's. */
static void add_cpu(const bench_node *nodes, bench_node *first)
{
    first->best_cpu_s = 1e300;
    for (uint32_t i = 0; i < first->epochs; i++) {
        for (uint32_t k = 1; k < BENCH_NODES; k++) {
            first->cpu_s[i] += nodes[k].cpu_s[i];
        }
        first->best_cpu_s = first->cpu_s[i] < first->best_cpu_s
                                ? first->cpu_s[i]
                                : first->best_cpu_s;
    }
}

static void start_node(bench_node *n, void *(*life)(void *))
{
    (void)fflush(NULL);
    pid_t process = fork(); // not into *n at once: the child would write it too
    if (process < 0) {
        perror("muster-bench-ps: fork");
        exit(1);
    }
    if (process == 0) {
        life(n);
        _exit(0);
    }
    n->process = process;
}

bench_node bench_mesh_run(const bench_ps *b, const muster_task_opts *opts,
                          const char *metric_name, void *(*life)(void *))
{
    char folder[] = "/tmp/muster-bench-XXXXXX";
    // Nodes write what they found where their parent sees it.
    size_t bytes = BENCH_NODES * sizeof(bench_node);
    bench_node *nodes = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (nodes == MAP_FAILED || mkdtemp(folder) == NULL) {
        perror("muster-bench-ps");
        exit(1);
    }
    for (uint32_t i = 0; i < BENCH_NODES; i++) {
        nodes[i] = (bench_node){.b = b,
                                .opts = opts,
                                .folder = folder,
                                .node = i,
                                .manage = MUSTER_PS_AUTO,
                                .metric = metric_name};
        start_node(&nodes[i], life);
    }
    for (uint32_t i = 0; i < BENCH_NODES; i++) {
        char path[64];
        int ended;
        if (waitpid(nodes[i].process, &ended, 0) < 0 || ended != 0) {
            fprintf(stderr, "muster-bench-ps: node %u failed (%s %d)\n", i,
                    WIFSIGNALED(ended) ? "signal" : "exit code",
                    WIFSIGNALED(ended) ? WTERMSIG(ended) : WEXITSTATUS(ended));
            exit(1);
        }
        (void)snprintf(path, sizeof(path), "%s/node-%u", folder, i);
        (void)unlink(path);
    }
    (void)rmdir(folder);
    bench_node first = nodes[0];
    add_cpu(nodes, &first);
    (void)munmap(nodes, bytes);
    return first;
}
