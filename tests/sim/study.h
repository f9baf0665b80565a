/*
 * study.h -- which parts are lost in a run of steps over a layout, with a
 * shuffle and the class estimates that the coordinator uses; cmocka.h comes
 * before.
 *
 * The paper is Johri, Yardi, Bodas, "Approximate gradient coding for
 * heterogeneous nodes", 2021. All policies see the same stragglers: those are a
 * function of (worker, step).
 */
#ifndef MUSTER_TESTS_SIM_STUDY_H
#define MUSTER_TESTS_SIM_STUDY_H

#include <stdio.h>
#include <string.h>

#include "base/perm.h"
#include "base/rng.h"
#include "cluster/classes.h"
#include "cluster/delay.h"
#include "cluster/delay_trace.h"
#include "role/shuffle.h"

#define N_MAX    36u
#define LOAD_MAX 4u
#define STEPS    1000u
#define PSS      0.8  // a slow worker straggles
#define PNS      0.01 // an active one

typedef struct layout {
    uint32_t first[N_MAX + 1];
    uint32_t held[N_MAX * LOAD_MAX];
    muster_shuffle_layout table;
} layout;

/* Fractional repetition: groups of k workers hold the same k parts. */
static void lay_frc(layout *out, uint32_t n, uint32_t k)
{
    for (uint32_t slot = 0; slot < n; slot++) {
        out->first[slot] = slot * k;
        for (uint32_t i = 0; i < k; i++) {
            out->held[slot * k + i] = slot / k * k + i;
        }
    }
    out->first[n] = n * k;
    out->table = (muster_shuffle_layout){n, n, out->first, out->held};
}

/* Cyclic repetition: worker i holds parts i .. i + k - 1 mod n. */
static inline void lay_crc(layout *out, uint32_t n, uint32_t k)
{
    for (uint32_t slot = 0; slot < n; slot++) {
        out->first[slot] = slot * k;
        uint32_t wrapped = slot + k > n ? slot + k - n : 0;
        for (uint32_t i = 0; i < k; i++) { // ascending
            out->held[slot * k + i] = i < wrapped ? i : slot + (i - wrapped);
        }
    }
    out->first[n] = n * k;
    out->table = (muster_shuffle_layout){n, n, out->first, out->held};
}

/* Who straggles; arrival as muster_classes_observe takes it, or 0. */
typedef struct source {
    bool (*late)(const struct source *source, uint32_t worker, uint64_t step,
                 double *arrival_out);
    uint32_t workers;
    uint64_t seed;
    bool slow[N_MAX];
    const muster_delay_trace *trace;
    double median[512];
    muster_delay *delay;
} source;

static bool late_by_class(const source *from, uint32_t worker, uint64_t step,
                          double *arrival_out)
{
    double u =
        (double)(muster_rng_at(from->seed, worker, step) >> 11) * 0x1p-53;
    *arrival_out = 0;
    return u < (from->slow[worker] ? PSS : PNS);
}

static source make_classes(uint32_t n, uint32_t slow, uint64_t seed)
{
    source made = {.late = late_by_class, .workers = n, .seed = seed};
    muster_perm order = muster_perm_make(seed, 0, n);
    for (uint32_t i = 0; i < slow; i++) {
        made.slow[muster_perm_at(&order, i)] = true;
    }
    return made;
}

/* Now slow, now active: a chain that stays what it is with .95 each way. */
static inline bool late_by_chain(const source *from, uint32_t worker,
                                 uint64_t step, double *arrival_out)
{
    *arrival_out = 0;
    return muster_delay_ns(from->delay, worker, step) > 0;
}

/* from.delay is to be freed. */
static inline source make_chains(uint32_t n, uint64_t seed)
{
    source made = {.late = late_by_chain, .workers = n};
    assert_int_equal(
        muster_delay_create("markov:delay=1ms", n, seed, NULL, &made.delay),
        MUSTER_OK);
    return made;
}

typedef struct outcome {
    uint32_t received[N_MAX]; // steps, per part
    uint32_t least, most;
    double mean;
    uint32_t moved; // parts
    uint32_t plans;
} outcome;

typedef struct study {
    const source *from;
    muster_classes *classes;
    muster_shuffle *shuffle;
    uint32_t slot_of[N_MAX];
    outcome out;
} study;

static void study_open(study *s, const source *from, const layout *parts,
                       const char *policy)
{
    *s = (study){.from = from};
    muster_classes_opts class_opts = {.workers = from->workers};
    assert_int_equal(muster_classes_create(&class_opts, &s->classes),
                     MUSTER_OK);
    muster_shuffle_opts opts = {.policy = policy, .layout = &parts->table};
    assert_int_equal(muster_shuffle_create(&opts, NULL, &s->shuffle),
                     MUSTER_OK);
    for (uint32_t i = 0; i < from->workers; i++) {
        s->slot_of[i] = i;
    }
}

/* One step under the present map, then the map of the next. `missed`, if not
 * NULL, says which parts this step lost. */
static void study_step(study *s, uint64_t step, bool *missed)
{
    uint32_t n = s->from->workers;
    muster_shuffle_seen seen[N_MAX] = {{0}};
    for (uint32_t i = 0; i < n; i++) {
        double arrival;
        bool late = s->from->late(s->from, i, step, &arrival);
        muster_classes_observe(s->classes, i, late, arrival);
        seen[i].late = late;
    }
    for (uint32_t i = 0; i < n; i++) {
        muster_class class = muster_classes_of(s->classes, i);
        seen[i].slow = class.slow;
        seen[i].passing = !class.lasting;
        seen[i].straggle_rate =
            class.lasting ? class.straggle_rate : class.probability;
    }
    uint64_t before[N_MAX];
    for (uint32_t part = 0; part < n; part++) {
        before[part] = muster_shuffle_misses(s->shuffle, part);
    }
    muster_shuffle_observe(s->shuffle, s->slot_of, seen);
    for (uint32_t part = 0; part < n; part++) {
        bool lost = muster_shuffle_misses(s->shuffle, part) > before[part];
        s->out.received[part] += !lost;
        if (missed != NULL) {
            missed[part] = lost;
        }
    }
    uint32_t next[N_MAX];
    if (muster_shuffle_next(s->shuffle, step + 1, s->slot_of, next)) {
        for (uint32_t i = 0; i < n; i++) {
            s->out.moved +=
                muster_shuffle_moves(s->shuffle, s->slot_of[i], next[i], NULL);
        }
        s->out.plans++;
        memcpy(s->slot_of, next, sizeof(next));
    }
}

static outcome study_close(study *s)
{
    outcome out = s->out;
    out.least = UINT32_MAX;
    for (uint32_t part = 0; part < s->from->workers; part++) {
        uint32_t r = out.received[part];
        out.least = r < out.least ? r : out.least;
        out.most = r > out.most ? r : out.most;
        out.mean += (double)r / s->from->workers;
    }
    muster_classes_free(s->classes);
    muster_shuffle_free(s->shuffle);
    return out;
}

static inline outcome run_study(const source *from, const layout *parts,
                                const char *policy, uint64_t steps)
{
    study s;
    study_open(&s, from, parts, policy);
    for (uint64_t step = 0; step < steps; step++) {
        study_step(&s, step, NULL);
    }
    return study_close(&s);
}

#endif // MUSTER_TESTS_SIM_STUDY_H
