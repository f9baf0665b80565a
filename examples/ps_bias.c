/*
 * ps_bias.c -- a task of one's own on the parameter server, in fifty lines.
 *
 * Learns the biases of users and items from made-up ratings x = u + v + noise,
 * with two threads. Each step opens the item's row, then the user's (the order
 * of their tables), and moves both in place.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "muster/ps.h"

enum { USERS = 1000, ITEMS = 100, STEPS = 200000, THREADS = 2 };

static unsigned next(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* The truth that is to be found: between -1 and 1. */
static float truth(unsigned number)
{
    return (float)(number * 37 % 200) / 100 - 1;
}

static void *work(void *argument)
{
    muster_ps *ps = argument;
    muster_ps_worker *worker;
    if (muster_ps_worker_create(ps, &worker) != MUSTER_OK) {
        return NULL;
    }
    unsigned state = (unsigned)(size_t)&worker;
    for (int i = 0; i < STEPS; i++) {
        float *item_row;
        float *user_row;
        unsigned item = next(&state) % ITEMS;
        unsigned user = next(&state) % USERS;
        if (muster_ps_begin(worker, 0, item, &item_row) != MUSTER_OK ||
            muster_ps_begin(worker, 1, user, &user_row) != MUSTER_OK) {
            break;
        }
        float rating = truth(user) + truth(item + 7);
        float error = rating - item_row[0] - user_row[0];
        item_row[0] += 0.05f * error;
        user_row[0] += 0.05f * error;
        if (muster_ps_end(worker, 1, user) != MUSTER_OK ||
            muster_ps_end(worker, 0, item) != MUSTER_OK) {
            break;
        }
    }
    muster_ps_worker_free(worker);
    return NULL;
}

static int check_fit(muster_ps *ps)
{
    muster_ps_worker *worker;
    double sum = 0;
    if (muster_ps_worker_create(ps, &worker) != MUSTER_OK) {
        return 1;
    }
    for (unsigned user = 0; user < USERS; user++) {
        float of_user;
        float of_item;
        unsigned item = user % ITEMS;
        if (muster_ps_pull(worker, 1, &user, 1, &of_user) != MUSTER_OK ||
            muster_ps_pull(worker, 0, &item, 1, &of_item) != MUSTER_OK) {
            break;
        }
        double off =
            (double)(truth(user) + truth(item + 7) - of_user - of_item);
        sum += off * off;
    }
    muster_ps_worker_free(worker);
    printf("mean squared error %.2e\n", sum / USERS);
    return sum / USERS < 1e-3 ? 0 : 1;
}

int main(void)
{
    muster_ps *ps;
    muster_error error;
    pthread_t threads[THREADS];
    uint32_t table;
    muster_ps_opts opts = MUSTER_PS_OPTS_INIT;
    muster_ps_table_opts rows = MUSTER_PS_TABLE_OPTS_INIT;
    rows.width = 1;
    if (muster_ps_create(&opts, &error, &ps) != MUSTER_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    static const uint32_t sizes[2] = {ITEMS, USERS};
    for (int i = 0; i < 2; i++) {
        rows.keys = sizes[i];
        if (muster_ps_table_add(ps, &rows, &error, &table) != MUSTER_OK) {
            fprintf(stderr, "%s\n", error.text);
            muster_ps_free(ps);
            return 1;
        }
    }
    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, work, ps) != 0) {
            return 1;
        }
    }
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    int code = check_fit(ps);
    muster_ps_free(ps);
    return code;
}
