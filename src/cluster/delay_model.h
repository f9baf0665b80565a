/*
 * cluster/delay_model.h -- the models of delays, and a model with its values.
 *
 * One row per model: its parameters with their defaults and ranges, and a draw.
 * Every draw is a counter-based random number of (the term's seed, worker,
 * step), so a delay is a function of where it happens. A term with a factor
 * draws by how much the factor is above 1.
 */
#ifndef MUSTER_CLUSTER_DELAY_MODEL_H
#define MUSTER_CLUSTER_DELAY_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/spec.h"
#include "cluster/delay_trace.h"
#include "cluster/file_delay.h"
#include "muster/status.h"

#define MUSTER_DELAY_PARAMS_MAX 4u
#define MUSTER_DELAY_FIELDS_MAX 6u
#define MUSTER_DELAY_MAX_S      3600.0

typedef struct muster_delay_term muster_delay_term;

typedef struct muster_delay_model {
    const char *name;
    muster_spec_field fields[MUSTER_DELAY_FIELDS_MAX + 1];
    double defaults[MUSTER_DELAY_PARAMS_MAX]; // of values[], in their order
    double (*draw)(muster_delay_term *term, uint32_t worker, uint64_t step);
    // The time that `factor` can take the place of, at values[amount_at];
    // NULL: a model without a factor.
    const char *amount;
    unsigned amount_at;
} muster_delay_model;

typedef struct muster_delay_chain { // one worker's Markov chain, at `step`
    uint64_t step;
    bool slow;
} muster_delay_chain;

/* Words of the keys per, way and links, in their order. */
typedef enum muster_delay_per {
    MUSTER_PER_STEP,
    MUSTER_PER_LOAD,
    MUSTER_PER_MESSAGE
} muster_delay_per;
enum { MUSTER_WAY_BOTH, MUSTER_WAY_DOWN, MUSTER_WAY_UP };
enum { MUSTER_LINKS_ALL, MUSTER_LINKS_OWN };

struct muster_delay_term {
    const muster_delay_model *model;
    double values[MUSTER_DELAY_PARAMS_MAX]; // seconds, or plain numbers
    double factor;                          // 0: a time
    bool times; // it multiplies the factor of the term before
    uint32_t per;
    uint32_t way;   // geometric
    uint32_t links; // cluster
    char path[MUSTER_SPEC_VALUE_MAX];
    uint32_t workers;
    uint64_t seed;
    muster_delay_chain *chains; // markov, by worker
    muster_delay_trace trace;
    muster_cluster *cluster;
};

/* By the name before the first colon; NULL: there is none such. */
const muster_delay_model *muster_delay_model_find(const char *spec);

/* The error of a spec that names no model, with the nearest name. */
muster_status muster_delay_model_unknown(const char *spec, muster_error *error);

/* Make what a term needs beside its values: a trace, a cluster, chains. */
muster_status muster_delay_term_make(muster_delay_term *term,
                                     muster_error *error);
void muster_delay_term_fini(muster_delay_term *term);

/* Is the worker in the slow class of this term, where it has classes? */
bool muster_delay_term_is_slow(const muster_delay_term *term, uint32_t worker);

#endif // MUSTER_CLUSTER_DELAY_MODEL_H
