/*
 * plan/staged_test.h -- a slow twin of plan/staged.h: every stage and every
 * message is looked at after every event; each message that is passing gets its
 * part in every interval between two of them. Needs cmocka.h.
 */
#ifndef MUSTER_PLAN_STAGED_TEST_H
#define MUSTER_PLAN_STAGED_TEST_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "muster/code.h"

enum { TWIN_WORKERS = 16, TWIN_PARTS = 64, TWIN_STAGES = 64 };

typedef enum twin_state {
    TWIN_OPEN,
    TWIN_KEPT,
    TWIN_PASSING,
    TWIN_OVER
} twin_state;

typedef struct twin {
    const muster_code *code;
    muster_code_info info;
    const double *begin, *each; // of the workers
    double alone;               // a message's time on the NIC
    double now, ask_at;
    bool asked;
    bool come[TWIN_PARTS];
    uint32_t part[TWIN_WORKERS][TWIN_STAGES];
    twin_state state[TWIN_WORKERS][TWIN_STAGES];
    double left[TWIN_WORKERS][TWIN_STAGES]; // of the message
    double since[TWIN_WORKERS];             // of the stage at hand
    uint32_t at[TWIN_WORKERS];              // that stage; stages: none
} twin;

/* The part of a stage; info.parts: it has none. */
static uint32_t twin_part(const twin *t, uint32_t w, uint32_t stage)
{
    return t->part[w][stage];
}

static void twin_read(twin *t)
{
    for (uint32_t a = 0; a < muster_code_answers(t->code); a++) {
        const uint32_t *parts = NULL;
        uint32_t count = 0;
        assert_int_equal(muster_code_answer_parts(t->code, a, &parts, &count),
                         MUSTER_OK);
        t->part[a / t->info.stages][a % t->info.stages] =
            count > 0 ? parts[0] : t->info.parts;
    }
}

/* Is there anything in the stage that its worker should do? */
static bool twin_wanted(const twin *t, uint32_t w, uint32_t stage)
{
    uint32_t part = twin_part(t, w, stage);
    return part < t->info.parts && t->state[w][stage] == TWIN_OPEN &&
           !(t->asked && t->come[part]);
}

/* Every worker is at a stage that is wanted, or at none. */
static void twin_settle(twin *t)
{
    for (uint32_t w = 0; w < t->info.workers; w++) {
        uint32_t at = t->at[w];
        if (at < t->info.stages && twin_wanted(t, w, at)) {
            continue;
        }
        t->since[w] = fmax(t->now, t->begin[w]);
        for (at = 0; at < t->info.stages && !twin_wanted(t, w, at); at++) {
        }
        t->at[w] = at;
    }
}

static uint32_t twin_passing(const twin *t)
{
    uint32_t passing = 0;
    for (uint32_t w = 0; w < t->info.workers; w++) {
        for (uint32_t i = 0; i < t->info.stages; i++) {
            passing += t->state[w][i] == TWIN_PASSING;
        }
    }
    return passing;
}

static double twin_next(const twin *t)
{
    double next = t->asked ? (double)INFINITY : t->ask_at;
    uint32_t passing = twin_passing(t);
    for (uint32_t w = 0; w < t->info.workers; w++) {
        for (uint32_t i = 0; i < t->info.stages; i++) {
            if (t->state[w][i] == TWIN_PASSING) {
                next = fmin(next, t->now + t->left[w][i] * passing);
            }
        }
        if (t->at[w] < t->info.stages) {
            next = fmin(next, t->since[w] + t->each[w]);
        }
    }
    return next;
}

/* Messages pass until `next`. */
static void twin_pass(twin *t, double next)
{
    uint32_t passing = twin_passing(t);
    uint32_t missing = 0;
    for (uint32_t w = 0; w < t->info.workers; w++) {
        for (uint32_t i = 0; i < t->info.stages; i++) {
            if (t->state[w][i] != TWIN_PASSING) {
                continue;
            }
            t->left[w][i] -= (next - t->now) / passing;
            if (t->left[w][i] < 1e-12) {
                t->state[w][i] = TWIN_OVER;
                t->come[twin_part(t, w, i)] = true;
            }
        }
    }
    t->now = next;
    for (uint32_t part = 0; part < t->info.parts; part++) {
        missing += !t->come[part];
    }
    if (isinf(t->ask_at) && 2 * missing <= t->info.parts) {
        t->ask_at = 1.25 * next;
    }
}

/* What is done by now is sent or kept; kept ones are sent when asked for. */
static void twin_send(twin *t)
{
    for (uint32_t w = 0; w < t->info.workers; w++) {
        uint32_t at = t->at[w];
        if (at < t->info.stages && t->since[w] + t->each[w] <= t->now) {
            t->state[w][at] =
                at < t->info.own_stages || t->asked ? TWIN_PASSING : TWIN_KEPT;
            t->left[w][at] = t->alone;
        }
        for (uint32_t i = 0; t->asked && i < t->info.stages; i++) {
            if (t->state[w][i] == TWIN_KEPT) {
                bool come = t->come[twin_part(t, w, i)];
                t->state[w][i] = come ? TWIN_OVER : TWIN_PASSING;
                t->left[w][i] = t->alone;
            }
        }
    }
}

static bool twin_is_over(const twin *t)
{
    bool all = true;
    for (uint32_t part = 0; part < t->info.parts; part++) {
        all = all && t->come[part];
    }
    return all;
}

/* How long a step takes. */
static double twin_step_s(const muster_code *code, const double *begin,
                          const double *each, double alone)
{
    twin t = {.code = code,
              .info = MUSTER_CODE_INFO_INIT,
              .begin = begin,
              .each = each,
              .alone = alone,
              .ask_at = INFINITY};
    assert_int_equal(muster_code_describe(code, &t.info), MUSTER_OK);
    assert_true(t.info.workers <= TWIN_WORKERS && t.info.parts <= TWIN_PARTS);
    twin_read(&t);
    for (uint32_t w = 0; w < t.info.workers; w++) {
        t.at[w] = t.info.stages;
    }
    while (!twin_is_over(&t)) {
        twin_settle(&t);
        twin_pass(&t, twin_next(&t));
        t.asked = t.asked || t.ask_at <= t.now;
        twin_send(&t);
        twin_pass(&t, t.now); // those that take no time
    }
    return t.now;
}

#endif // MUSTER_PLAN_STAGED_TEST_H
