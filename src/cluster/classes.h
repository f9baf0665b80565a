/*
 * cluster/classes.h -- who is slow: classes estimated while the run goes on.
 *
 * Each step tells of each worker whether it straggled. Three models explain
 * such a stream, and the one that explains it best is believed (likelihood of
 * the remembered observations, less half its parameters times the logarithm of
 * their number):
 *
 *   ONE        every worker straggles with the same probability: no classes
 *   BERNOULLI  a worker is slow for good with probability p_hat; a slow one
 *              straggles with pss, an active one with pns. The parameters are
 *              fitted by expectation-maximisation over the workers' counts,
 *              with two pseudo-observations each as priors; the posterior of a
 *              worker follows from its own counts.
 *   MARKOV     a worker is now slow, now active, and stays what it is with
 *              stay_slow and stay_active; nobody is slow for good.
 *
 * Counts fade: an observation made `memory` observations ago weighs 1/e, so a
 * machine that changes for good changes its class.
 *
 *   Promise      Equal streams give equal answers, also across save and load.
 *   Lifecycle    create, any number of calls, free.
 *   Threads      One at a time.
 *   Allocation   create and save only.
 *
 * An observation costs O(1): a sweep of O(workers) follows every `workers` of
 * them. Background: docs/design/cluster.md.
 */
#ifndef MUSTER_CLUSTER_CLASSES_H
#define MUSTER_CLUSTER_CLASSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"
#include "muster/status.h"

typedef struct muster_classes muster_classes;

typedef struct muster_classes_opts {
    uint32_t workers;      // at least 1
    double memory;         // observations per worker; 0: 128, else 8..1e6
    double straggle_ratio; // see muster_classes_observe; 0: 2, else > 1
} muster_classes_opts;

typedef enum muster_classes_model {
    MUSTER_CLASSES_ONE = 0,
    MUSTER_CLASSES_BERNOULLI = 1,
    MUSTER_CLASSES_MARKOV = 2,
} muster_classes_model;

/* What is believed of one worker. */
typedef struct muster_class {
    bool slow;            // else active
    bool lasting;         // slow or active for good, not just now
    double probability;   // posterior of slow; 0 where there are no classes
    double straggle_rate; // its own share of straggled steps, remembered ones
} muster_class;

/* What is believed of them all. */
typedef struct muster_classes_fit {
    muster_classes_model model; // the one believed
    double p_hat, pss, pns;     // BERNOULLI, fitted whether believed or not
    double stay_slow;           // MARKOV, likewise
    double stay_active;
    double score[3]; // log-likelihood less penalty, by model; ONE has a
                     // head start of 3
} muster_classes_fit;

/*
 * How often workers straggled, over all observations: nothing fades here. A
 * slow spell is a run of straggled steps of one worker. NAN where there was
 * nothing to count.
 */
typedef struct muster_classes_rates {
    uint64_t observed;
    double straggle;    // P(straggle)
    double again;       // P(straggle | it did in its step before)
    double begin;       // P(straggle | it did not)
    double spell_steps; // mean length of a slow spell
} muster_classes_rates;

/* MUSTER_ERR_INVALID  a field out of range;  MUSTER_ERR_NO_MEMORY */
MUSTER_CHECKED muster_status muster_classes_create(
    const muster_classes_opts *opts, muster_classes **classes_out);
void muster_classes_free(muster_classes *classes);

/*
 * One worker in one step. `arrival` is the time of its message as a multiple
 * of the step's median arrival, or 0 where it has not arrived. A worker whose
 * arrival is known straggled if it took more than straggle_ratio medians,
 * whether or not the step waited for it; one that is not known, if it is late.
 */
void muster_classes_observe(muster_classes *classes, uint32_t worker, bool late,
                            double arrival);

muster_class muster_classes_of(const muster_classes *classes, uint32_t worker);
muster_classes_fit muster_classes_describe(const muster_classes *classes);
muster_classes_rates muster_classes_count(const muster_classes *classes);

/* Append the state to `bytes`; false when out of memory. */
MUSTER_CHECKED bool muster_classes_save(const muster_classes *classes,
                                        muster_vec *bytes);

/* Go on from a saved state; one of a version before muster_classes_count() has
 * counted nothing. MUSTER_ERR_INPUT: damaged, or of another number of
 * workers; then nothing changes. */
MUSTER_CHECKED muster_status muster_classes_load(muster_classes *classes,
                                                 const void *bytes,
                                                 size_t size);

#endif // MUSTER_CLUSTER_CLASSES_H
