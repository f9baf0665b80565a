/*
 * ps_bias.c -- a task of one's own on the parameter server.
 *
 * Learns the biases of users and items from made-up ratings x = u + v. Each
 * step opens the item's row, then the user's (the order of their tables), and
 * moves both in place. `example_ps_bias 2` does it with two nodes, processes
 * that share the rows: a worker says 64 steps ahead which rows it will use, and
 * mostly finds them here.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "muster/ps.h"

enum { USERS = 1000, ITEMS = 100, STEPS = 200000, AHEAD = 64, NODES_MAX = 8 };

typedef struct rating {
    uint32_t item;
    uint32_t user;
} rating;

/* The truth that is to be found: between -1 and 1. */
static float truth(uint32_t number)
{
    return (float)(number * 37 % 200) / 100 - 1;
}

static rating draw(uint32_t *state)
{
    rating r;
    *state = *state * 1664525u + 1013904223u;
    r.item = (*state >> 8) % ITEMS;
    *state = *state * 1664525u + 1013904223u;
    r.user = (*state >> 8) % USERS;
    return r;
}

/* Move both rows. A row that is elsewhere cannot be fetched while another is
 * held: let go, fetch it, try again. */
static muster_status learn(muster_ps_worker *worker, rating r)
{
    float *item;
    float *user;
    muster_status status = muster_ps_begin(worker, 0, r.item, &item);
    if (status != MUSTER_OK) {
        return status;
    }
    status = muster_ps_begin(worker, 1, r.user, &user);
    if (status == MUSTER_OK) {
        float error = truth(r.user) + truth(r.item + 7) - item[0] - user[0];
        item[0] += 0.05f * error;
        user[0] += 0.05f * error;
        status = muster_ps_end(worker, 1, r.user);
    }
    muster_status ended = muster_ps_end(worker, 0, r.item);
    return status == MUSTER_OK ? ended : status;
}

static muster_status work(muster_ps_worker *worker, uint32_t seed)
{
    rating next[AHEAD];
    uint32_t state = seed;
    muster_status status = MUSTER_OK;
    for (uint64_t i = 0; i < STEPS + AHEAD && status == MUSTER_OK; i++) {
        rating *r = &next[i % AHEAD];
        if (i >= AHEAD) {
            status = learn(worker, *r);
            for (int tries = 0; status == MUSTER_ERR_AGAIN && tries < 100;
                 tries++) {
                status = muster_ps_fetch(worker, 1, &r->user, 1);
                status = status == MUSTER_OK ? learn(worker, *r) : status;
            }
            muster_ps_clock_advance(worker);
        }
        // Used when the clock shows i, and no longer. Only a hint.
        *r = draw(&state);
        (void)!muster_ps_intent(worker, 0, &r->item, 1, i, i + 1);
        (void)!muster_ps_intent(worker, 1, &r->user, 1, i, i + 1);
    }
    return status;
}

static int check_fit(muster_ps_worker *worker)
{
    double sum = 0;
    for (uint32_t user = 0; user < USERS; user++) {
        float of_user = 0;
        float of_item = 0;
        uint32_t item = user % ITEMS;
        if (muster_ps_pull(worker, 1, &user, 1, &of_user) != MUSTER_OK ||
            muster_ps_pull(worker, 0, &item, 1, &of_item) != MUSTER_OK) {
            return 1;
        }
        double off =
            (double)(truth(user) + truth(item + 7) - of_user - of_item);
        sum += off * off;
    }
    printf("mean squared error %.2e\n", sum / USERS);
    return sum / USERS < 1e-3 ? 0 : 1;
}

static muster_status make_tables(muster_ps *ps, muster_error *error)
{
    static const uint32_t sizes[2] = {ITEMS, USERS};
    muster_ps_table_opts rows = MUSTER_PS_TABLE_OPTS_INIT;
    muster_status status = MUSTER_OK;
    uint32_t table;
    rows.width = 1;
    for (int i = 0; i < 2 && status == MUSTER_OK; i++) {
        rows.keys = sizes[i];
        status = muster_ps_table_add(ps, &rows, error, &table);
    }
    return status;
}

/* The whole life of one node; 0 when all went well. */
static int live(const muster_ps_opts *opts)
{
    muster_ps *ps = NULL;
    muster_ps_worker *worker = NULL;
    muster_error error = {.text = ""};
    muster_status status = muster_ps_create(opts, &error, &ps);
    if (status == MUSTER_OK) {
        status = make_tables(ps, &error);
    }
    if (status == MUSTER_OK && opts->nodes > 1) {
        status = muster_ps_connect(ps, &error);
    }
    if (status == MUSTER_OK) {
        status = muster_ps_worker_create(ps, &error, &worker);
    }
    if (status == MUSTER_OK) {
        status = work(worker, opts->node + 1);
    }
    if (status == MUSTER_OK) {
        status = muster_ps_barrier(worker);
    }
    int code = status != MUSTER_OK ? 1 : opts->node > 0 ? 0 : check_fit(worker);
    if (status == MUSTER_OK) { // nobody leaves while node 0 still looks
        status = muster_ps_barrier(worker);
    }
    if (status != MUSTER_OK) {
        // Calls with error_out write there; a worker keeps its own text.
        fprintf(stderr, "node %u: %s\n", (unsigned)opts->node,
                worker == NULL ? error.text : muster_ps_error_text(worker));
        code = 1;
    }
    muster_ps_worker_free(worker); // and counts what it has done
    muster_ps_counters count = MUSTER_PS_COUNTERS_INIT;
    if (ps != NULL && muster_ps_count(ps, &count) == MUSTER_OK) {
        printf("node %u: %.1f%% of the rows were here\n", (unsigned)opts->node,
               100 - 100.0 * (double)count.remote_accesses /
                         (double)(count.accesses + 1));
    }
    muster_ps_free(ps);
    return code;
}

int main(int argc, char **argv)
{
    char folder[] = "/tmp/muster-bias-XXXXXX";
    muster_ps_opts opts = MUSTER_PS_OPTS_INIT;
    long nodes = argc > 1 ? strtol(argv[1], NULL, 10) : 1;
    if (nodes < 1 || nodes > NODES_MAX || mkdtemp(folder) == NULL) {
        fprintf(stderr, "usage: example_ps_bias [NODES]\n");
        return 2;
    }
    opts.nodes = (uint32_t)nodes;
    opts.mesh = folder;
    for (uint32_t i = 1; i < opts.nodes; i++) {
        pid_t child = fork();
        if (child < 0) {
            return 1;
        }
        if (child == 0) {
            opts.node = i;
            return live(&opts);
        }
    }
    int code = live(&opts);
    for (uint32_t i = 1; i < opts.nodes; i++) {
        int status = 0;
        code |= wait(&status) < 0 || status != 0;
    }
    (void)rmdir(folder);
    return code;
}
