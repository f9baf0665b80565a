/*
 * quota.c -- largest remainders, class by class, with a running error.
 *
 * Invariants
 *  1. sum_j q(j, c) == n_c, always.
 *  2. floor(p_j n_c) <= q(j, c) <= floor(p_j n_c) + 1.
 *  3. |sum_c q(j, c) - p_j N| < 1. The running error keeps totals near; what it
 *     misses is repaired by trades: a worker that has too few takes a sample
 *     of some class from one that has too many. A table with such rows and
 *     columns exists for any shares (it is a flow problem), and a chain of
 *     trades leads there; the repair looks for the shortest chain.
 */
#include "partition/quota.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/mem.h"

/* Rounding of p_j n_c in double must not look like a missing sample. */
#define SLACK 1e-6

typedef struct quota_claim {
    double owed;
    uint32_t worker;
} quota_claim;

typedef struct quota_table {
    const muster_quota_input *input;
    double *shares;      // p_j
    double *owed;        // p_j n - what j has, over the classes so far
    quota_claim *claims; // scratch
    uint32_t *order;     // scratch: workers in the order they were reached
    uint32_t *from;      // scratch: the worker before, on the way of a trade
    uint32_t *by;        // scratch: the class of that trade
    uint32_t *quotas;
} quota_table;

static uint32_t class_size(const quota_table *t, uint32_t number)
{
    return t->input->starts[number + 1] - t->input->starts[number];
}

static uint32_t floor_of(const quota_table *t, uint32_t number, uint32_t worker)
{
    return (uint32_t)(t->shares[worker] * class_size(t, number));
}

static uint32_t *cell(const quota_table *t, uint32_t number, uint32_t worker)
{
    return &t->quotas[(size_t)number * t->input->workers + worker];
}

static void find_shares(quota_table *t)
{
    const double *speeds = t->input->speeds;
    double largest = 0.0; // dividing by it first keeps the sum finite
    for (uint32_t j = 0; j < t->input->workers; j++) {
        double speed = speeds != NULL ? speeds[j] : 1.0;
        largest = speed > largest ? speed : largest;
    }
    double sum = 0.0;
    for (uint32_t j = 0; j < t->input->workers; j++) {
        t->shares[j] = speeds != NULL ? speeds[j] / largest : 1.0;
        sum += t->shares[j];
    }
    for (uint32_t j = 0; j < t->input->workers; j++) {
        t->shares[j] /= sum;
    }
}

static int compare_claims(const void *left, const void *right)
{
    const quota_claim *a = left;
    const quota_claim *b = right;
    if (a->owed != b->owed) {
        return a->owed > b->owed ? -1 : 1;
    }
    return (a->worker > b->worker) - (a->worker < b->worker);
}

/* The workers, those that are owed most first. */
static void sort_claims(quota_table *t)
{
    for (uint32_t j = 0; j < t->input->workers; j++) {
        t->claims[j] = (quota_claim){t->owed[j], j};
    }
    qsort(t->claims, t->input->workers, sizeof(*t->claims), compare_claims);
}

static void fill_class(quota_table *t, uint32_t number)
{
    uint32_t size = class_size(t, number);
    uint32_t given = 0;
    for (uint32_t j = 0; j < t->input->workers; j++) {
        uint32_t whole = floor_of(t, number, j);
        whole = whole > size - given ? size - given : whole;
        *cell(t, number, j) = whole;
        t->owed[j] += t->shares[j] * size - whole;
        given += whole;
    }
    uint32_t left = size - given;
    sort_claims(t);
    for (uint32_t i = 0; i < left; i++) {
        uint32_t worker = t->claims[i].worker;
        (*cell(t, number, worker))++;
        t->owed[worker] -= 1.0;
    }
}

/* A class in which `giver` has its extra sample and `taker` has not. */
static bool can_trade(const quota_table *t, uint32_t giver, uint32_t taker,
                      uint32_t *class_out)
{
    for (uint32_t c = 0; c < t->input->classes; c++) {
        if (*cell(t, c, giver) > floor_of(t, c, giver) &&
            *cell(t, c, taker) <= floor_of(t, c, taker)) {
            *class_out = c;
            return true;
        }
    }
    return false;
}

/* Breadth first from `start`, along trades, to a worker that may end the
 * chain. `takes`: start takes, else it gives. */
static bool find_chain(quota_table *t, uint32_t start, bool takes,
                       uint32_t *end_out)
{
    uint32_t workers = t->input->workers;
    for (uint32_t j = 0; j < workers; j++) {
        t->from[j] = workers;
    }
    t->from[start] = start;
    t->order[0] = start;
    uint32_t known = 1;
    for (uint32_t at = 0; at < known; at++) {
        uint32_t here = t->order[at];
        for (uint32_t j = 0; j < workers; j++) {
            uint32_t giver = takes ? j : here;
            uint32_t taker = takes ? here : j;
            if (t->from[j] != workers ||
                !can_trade(t, giver, taker, &t->by[j])) {
                continue;
            }
            t->from[j] = here;
            t->order[known++] = j;
            if (takes ? t->owed[j] < 0.0 : t->owed[j] > 0.0) {
                *end_out = j;
                return true;
            }
        }
    }
    return false;
}

static void trade_along(quota_table *t, uint32_t end, bool takes)
{
    uint32_t at = end;
    while (t->from[at] != at) {
        uint32_t before = t->from[at];
        uint32_t giver = takes ? at : before;
        uint32_t taker = takes ? before : at;
        (*cell(t, t->by[at], giver))--;
        (*cell(t, t->by[at], taker))++;
        t->owed[giver] += 1.0;
        t->owed[taker] -= 1.0;
        at = before;
    }
}

/* Until every total is within 1. Each chain brings one worker nearer and its
 * end not above 1, so that this ends. */
static void repair_totals(quota_table *t)
{
    for (uint32_t j = 0; j < t->input->workers; j++) {
        uint32_t end;
        while (fabs(t->owed[j]) >= 1.0 - SLACK) {
            bool takes = t->owed[j] > 0.0;
            if (!find_chain(t, j, takes, &end)) {
                break; // rounding alone: owed is 1 within SLACK
            }
            trade_along(t, end, takes);
        }
    }
}

muster_status muster_quota_make(const muster_quota_input *input,
                                uint32_t *quotas_out)
{
    quota_table t = {.input = input, .quotas = quotas_out};
    t.shares = muster_mem_array(input->workers, sizeof(*t.shares));
    t.owed = muster_mem_array(input->workers, sizeof(*t.owed));
    t.claims = muster_mem_array(input->workers, sizeof(*t.claims));
    t.order = muster_mem_array(input->workers, sizeof(*t.order));
    t.from = muster_mem_array(input->workers, sizeof(*t.from));
    t.by = muster_mem_array(input->workers, sizeof(*t.by));
    bool ready = t.shares != NULL && t.owed != NULL && t.claims != NULL &&
                 t.order != NULL && t.from != NULL && t.by != NULL;
    if (ready) {
        find_shares(&t);
        for (uint32_t c = 0; c < input->classes; c++) {
            fill_class(&t, c);
        }
        repair_totals(&t);
    }
    muster_mem_free(t.shares);
    muster_mem_free(t.owed);
    muster_mem_free(t.claims);
    muster_mem_free(t.order);
    muster_mem_free(t.from);
    muster_mem_free(t.by);
    return ready ? MUSTER_OK : MUSTER_ERR_NO_MEMORY;
}
