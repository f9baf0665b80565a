/*
 * server_test.h -- a task on a node of its own, trained and measured by one or
 * two threads.
 */
#ifndef MUSTER_TASK_SERVER_TEST_H
#define MUSTER_TASK_SERVER_TEST_H

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ps/node/node_test.h"
#include "task/task.h"

enum { THREADS_MAX = 2 };

typedef struct team {
    const muster_task_ops *ops;
    void *task;
    muster_ps *ps;
    uint32_t threads;
    muster_ps_worker *workers[THREADS_MAX];
} team;

typedef struct thread_share {
    team *of;
    uint32_t part;
    uint32_t epoch;
    bool evaluate;
    muster_task_sums sums;
    muster_status status;
} thread_share;

static inline void *run_share(void *argument)
{
    thread_share *s = argument;
    muster_task_share share = {.part = s->part,
                               .parts = s->of->threads,
                               .epoch = s->epoch,
                               .together = true,
                               .final = s->evaluate};
    s->status = (s->evaluate ? s->of->ops->evaluate : s->of->ops->work)(
        s->of->task, s->of->workers[s->part], &share, &s->sums);
    return NULL;
}

static inline muster_task_sums run(team *t, uint32_t epoch, bool evaluate)
{
    muster_task_sums all = {{0}};
    pthread_t threads[THREADS_MAX];
    thread_share shares[THREADS_MAX];
    for (uint32_t i = 0; i < t->threads; i++) {
        shares[i] = (thread_share){
            .of = t, .part = i, .epoch = epoch, .evaluate = evaluate};
        assert_int_equal(
            pthread_create(&threads[i], NULL, run_share, &shares[i]), 0);
    }
    for (uint32_t i = 0; i < t->threads; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(shares[i].status, MUSTER_OK);
        for (uint32_t k = 0; k < MUSTER_TASK_METRICS_MAX; k++) {
            all.value[k] += shares[i].sums.value[k];
        }
    }
    return all;
}

static inline muster_status add_tables(test_node *n)
{
    const team *t = n->of->argument;
    return t->ops->tables(t->task, n->ps, &n->error);
}

/* A task, its node and a worker for each thread. */
static inline team team_open(const muster_task_opts *opts, uint32_t threads)
{
    team t = {.ops = muster_task_find(opts->model), .threads = threads};
    muster_error error = {.text = ""};
    muster_task_opts mine = *opts;
    mine.parts_max = threads;
    assert_int_equal(t.ops->create(&mine, &error, &t.task), MUSTER_OK);
    t.ps =
        test_alone_open(&(test_mesh){.add_tables = add_tables, .argument = &t});
    for (uint32_t i = 0; i < threads; i++) {
        t.workers[i] = test_worker_open(t.ps);
    }
    return t;
}

static inline void team_close(team *t)
{
    for (uint32_t i = 0; i < t->threads; i++) {
        muster_ps_worker_free(t->workers[i]);
    }
    muster_ps_free(t->ps);
    t->ops->free(t->task);
}

/* The named metric; NAN: there is none. */
static inline double metric_of(const team *t, const muster_task_sums *work,
                               const muster_task_sums *evaluation,
                               const char *name)
{
    const char *names[MUSTER_TASK_METRICS_MAX];
    double values[MUSTER_TASK_METRICS_MAX];
    uint32_t count = t->ops->report(t->task, work, evaluation, names, values);
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            return values[i];
        }
    }
    return NAN;
}

/* Train for some epochs and give the named metric of the final evaluation. */
static inline double train(const muster_task_opts *opts, uint32_t threads,
                           const char *name)
{
    team t = team_open(opts, threads);
    muster_task_sums work = {{0}};
    for (uint32_t e = 0; e < opts->epochs; e++) {
        work = run(&t, e, false);
    }
    muster_task_sums evaluation = run(&t, 0, true);
    double found = metric_of(&t, &work, &evaluation, name);
    team_close(&t);
    return found;
}

#endif // MUSTER_TASK_SERVER_TEST_H
