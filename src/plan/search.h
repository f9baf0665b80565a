/*
 * plan/search.h -- finds the scheme of least expected step time.
 *
 * Every scheme of the list gets a surrogate value. Of a long list the better
 * part by it gets a rough Monte-Carlo value of a few draws; each further stage
 * keeps the best quarter and looks at four times as many draws. All use the
 * same draws, so that a scheme is not lost to the noise that it shares with the
 * others. The code of the best one is built; when it is refused or warns of
 * float32, the next is taken.
 *
 *   Determinism  A function of cluster and options.
 */
#ifndef MUSTER_PLAN_SEARCH_H
#define MUSTER_PLAN_SEARCH_H

#include "muster/status.h"
#include "plan/estimate.h"
#include "plan/scheme.h"

typedef struct muster_finding {
    muster_scheme scheme;
    double surrogate_s;
    double expected_s; // of the draws of the last stage it was in
    double error_s;    // standard error, of the last stage; else 0
    uint32_t d;        // parts of a worker; 0: not built
    uint32_t parts;    // k
} muster_finding;

typedef struct muster_search {
    const muster_cluster *cluster; // lent
    muster_estimator *estimator;   // lent
    uint32_t samples;              // of the last stage
    bool quick;                    // few schemes: many searches are made
    const muster_vec *only; // muster_scheme, lent: these alone; NULL: all
    const char *in_force;   // a name to be shown too; NULL: none
    bool even;              // schemes of unequal loads are not chosen
    bool layered;           // HIER alone, where there are edges
    muster_vec findings;    // muster_finding, all, by ascending expected time
    size_t last;            // so many were in the last stage
} muster_search;

/* `split`: messages take time, so that m > 1 may pay. The findings are then the
 * caller's, for muster_search_fini(). MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_search_run(muster_search *search,
                                               bool split);
void muster_search_fini(muster_search *search);

/* Build the finding's code, set its d and parts. False in *usable_out: refused,
 * or not within float32. MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_search_check(const muster_search *search,
                                                 muster_finding *finding,
                                                 bool *usable_out);

/* Value a finding with all samples. */
void muster_search_value(const muster_search *search, muster_finding *finding);

#endif // MUSTER_PLAN_SEARCH_H
