/*
 * faults.h -- what the tests of seeds share: random faults, how they are
 * mended, and what every history must be in the end. cmocka.h comes before.
 */
#ifndef MUSTER_TESTS_SIM_FAULTS_H
#define MUSTER_TESTS_SIM_FAULTS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "toy.h"

#ifndef SECONDS
#define SECONDS(n) ((int64_t)(n)*MUSTER_NS_PER_S)
#endif

typedef enum fault_kind {
    FAULT_DIES,     // for good
    FAULT_RESTARTS, // dies, is started again
    FAULT_STOPS,    // for a while, short or long; the coordinator, too
    FAULT_CUT,      // the cable
    FAULT_BREAKS,   // the connection; comes back at once
    FAULT_HANGS,    // somebody restarts it after a while
    FAULT_LEAVES,   // and comes again
    FAULT_RESUMES,  // the coordinator dies and is resumed
    FAULT_SLOW,     // from now on, or not any more
} fault_kind;

/* A run with random faults; the first member of a test's own story. */
typedef struct faults {
    toy t; // first: its callbacks find the story by it
    muster_rng rng;
    // Start a host again that is not the coordinator.
    void (*start)(struct faults *f, uint32_t host);
    // Whom a host is connected to; NULL: the coordinator.
    uint32_t (*leader)(const struct faults *f, uint32_t host);
    const char *complaint; // of what was seen on the way; NULL: none
} faults;

static inline int64_t some_ms(faults *f, uint64_t low, uint64_t high)
{
    uint64_t ms = low + muster_rng_below(&f->rng, high - low);
    return (int64_t)ms * MUSTER_NS_PER_MS;
}

/* ---- mending: what a fault schedules for later --------------------------- */

static inline void mend_stop(muster_sim *sim, void *context, uint64_t host)
{
    (void)context;
    muster_sim_cont(sim, (uint32_t)host);
}

static inline void mend_cut(muster_sim *sim, void *context, uint64_t host)
{
    (void)context;
    muster_sim_cut(sim, (uint32_t)host, false);
}

static inline void mend_kill(muster_sim *sim, void *context, uint64_t host)
{
    faults *f = context;
    if (muster_sim_is_up(sim, (uint32_t)host)) {
        muster_sim_kill(sim, (uint32_t)host);
    }
    if (f->t.over) {
        return;
    }
    if (host == 0) {
        toy_start_coordinator(&f->t);
    } else {
        f->start(f, (uint32_t)host);
    }
}

/* Some come back under their number, some as strangers. */
static inline bool is_stranger(faults *f)
{
    return muster_rng_below(&f->rng, 3) == 0;
}

/* ---- a fault ------------------------------------------------------------- */

static inline void befall(faults *f, uint32_t host, fault_kind kind)
{
    muster_sim *sim = f->t.sim;
    int64_t now = muster_sim_now(sim);
    switch (kind) {
    case FAULT_DIES:
        muster_sim_kill(sim, host);
        break;
    case FAULT_RESTARTS:
        muster_sim_kill(sim, host);
        muster_sim_at(sim, now + some_ms(f, 1, 3000), mend_kill, f, host);
        break;
    case FAULT_STOPS:
        host = muster_rng_below(&f->rng, 4) == 0 ? 0 : host;
        muster_sim_stop(sim, host);
        muster_sim_at(sim, now + some_ms(f, 1, 6000), mend_stop, f, host);
        break;
    case FAULT_CUT:
        muster_sim_cut(sim, host, true);
        muster_sim_at(sim, now + some_ms(f, 1, 6000), mend_cut, f, host);
        break;
    case FAULT_BREAKS:
        muster_sim_break(sim, f->leader != NULL ? f->leader(f, host) : 0, host);
        break;
    case FAULT_HANGS:
        muster_sim_stick(sim, host);
        muster_sim_at(sim, now + some_ms(f, 2000, 15000), mend_kill, f, host);
        break;
    case FAULT_LEAVES:
        muster_sim_interrupt(sim, host);
        muster_sim_at(sim, now + some_ms(f, 2000, 4000), mend_kill, f, host);
        break;
    case FAULT_RESUMES:
        muster_sim_kill(sim, 0);
        muster_sim_at(sim, now + some_ms(f, 1, 3000), mend_kill, f, 0);
        break;
    case FAULT_SLOW:
        f->t.slow_ms[host] = f->t.slow_ms[host] > 0 ? 0 : 60;
        break;
    }
}

/* Who was well for so long is known to be there. */
#define SETTLE_NS SECONDS(9)

static inline bool is_long_well(const toy *t, uint32_t host)
{
    int64_t since_ns = muster_sim_well_since(t->sim, host);
    return since_ns >= 0 && muster_sim_now(t->sim) - since_ns > SETTLE_NS;
}

/* ---- the verdict --------------------------------------------------------- */

/* What is wrong with the training; NULL: nothing. */
static inline const char *judge_training(const toy *t)
{
    if (!t->over) {
        return "hangs: neither finished nor gave up in ten minutes";
    }
    if (t->wrong > 1e-3 || t->off > 1e-1) {
        return "a step differs from the serial answer";
    }
    if (t->loose > 1e-2) {
        return "a step is further off than its residual says";
    }
    if (t->wrong_model > 0) {
        return "one computed with a wrong model";
    }
    if (t->disorder) {
        return "steps did not follow each other";
    }
    if (t->premature) {
        return "a model was offered to one that lacked its plan or parts";
    }
    if (t->miscounted) {
        return "an answer was counted twice, or not at all";
    }
    if (t->rejected > 0) {
        return "an honest one was rejected";
    }
    if (t->status == MUSTER_OK && t->serial_step != t->steps) {
        return "ended before the last step";
    }
    if (t->status != MUSTER_OK && t->status != MUSTER_ERR_QUORUM) {
        return t->reason;
    }
    return t->gave_up != (t->status == MUSTER_ERR_QUORUM)
               ? "did not end as it had decided"
               : NULL;
}

/* The others must find out that it is over, by word or by patience: hosts 1 to
 * `last`, within `wait_ns`. */
static inline const char *judge(faults *f, uint32_t last, int64_t wait_ns)
{
    toy *t = &f->t;
    const char *wrong = judge_training(t);
    if (wrong != NULL) {
        return wrong;
    }
    muster_sim_run(t->sim, muster_sim_now(t->sim) + wait_ns);
    for (uint32_t host = 1; host <= last; host++) {
        if (muster_sim_is_up(t->sim, host)) {
            return "somebody was left running";
        }
    }
    return f->complaint;
}

/* ---- seeds --------------------------------------------------------------- */

static inline uint64_t seed_count(const char *variable, uint64_t usual)
{
    const char *text = getenv(variable);
    uint64_t seeds = text != NULL ? strtoull(text, NULL, 10) : 0;
    return seeds > 0 ? seeds : usual;
}

/* For toy_opts.on_trace. */
static inline void print_line(void *context, const char *line)
{
    (void)context;
    puts(line);
}

#endif // MUSTER_TESTS_SIM_FAULTS_H
