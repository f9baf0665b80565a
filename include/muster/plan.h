/*
 * muster/plan.h -- which gradient code suits a cluster: the one whose steps are
 * expected to take the least time.
 *
 * A cluster file (docs/plan.md) says how fast the workers are, how long they
 * take to compute, and what their links and their edges' links do. A plan
 * compares all exact codes that Muster has for that cluster, with all their
 * tolerances and message lengths: flat ones, and over edges the two-layer code.
 * Machines that cost more than they bring are left out of the run.
 * Two values are given for each. The surrogate puts the mean of every delay in
 * its place (joint node and coding scheme selection, Tang et al. 2024); it is
 * quick and may be far off. The expected time is the mean of a Monte Carlo.
 *
 *   Promise      What is chosen can be built, and its float32 error is at most
 *                1e-4. `uncoded` is chosen where coding does not pay.
 *   Lifecycle    create; look; free.
 *   Ownership    The caller's texts are not kept. Texts given out are the
 *                caller's, for muster_config_text_free().
 *   Threads      A plan does not change after create.
 *   Allocation   create and the texts.
 *   Determinism  A plan depends on the options alone.
 *   Not here     Reading files, measuring a cluster.
 *
 * Background: docs/design/plan.md; for users: docs/plan.md.
 */
#ifndef MUSTER_PLAN_H
#define MUSTER_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "muster/export.h"
#include "muster/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct muster_plan_opts {
    uint32_t struct_size;  // sizeof(muster_plan_opts)
    uint32_t samples;      // steps of the Monte Carlo; default 2048
    const char *cluster;   // the text of a cluster file; no default
    const char *file;      // how errors name it; NULL: "cluster"
    uint64_t model_floats; // of the gradient; 0: messages take no time but
                           // the latency
    uint64_t seed;         // default 1
    const char *in_force;  // the name of a code of `spec` below that is to be
                           // among the alternatives; NULL: none
    bool even;             // leave out codes of unequal loads; default false
    bool all_workers;      // use every machine; default false
    bool layered;          // edges add up: leave out flat codes; default false
} muster_plan_opts;

#define MUSTER_PLAN_OPTS_INIT                                                 \
    {                                                                         \
        (uint32_t)sizeof(muster_plan_opts), 0, NULL, NULL, 0, 1, NULL, false, \
            false, false                                                      \
    }

/* One code with its numbers, and what is expected of it. */
typedef struct muster_plan_choice {
    uint32_t struct_size; // sizeof(muster_plan_choice)
    bool exact;           // false: ignore, shown as a comparison
    bool by_speed;        // loads in proportion to speeds: needs --speeds
    char label[24];       // "chosen", "uncoded", "worker-only", ..
    char code[32];        // the family, "hier"
    char spec[96];        // the whole name, "hier:se=1,sw=3"
    uint32_t s;           // any s workers may be missing
    uint32_t m;           // a worker's message is p / m
    uint32_t d;           // parts on a worker, of `parts`; 0: not built
    uint32_t parts;       // k
    uint32_t s_e, s_w;    // hier: edges, and workers under each other edge
    uint32_t m_e, m_w;    // hier: m of each layer
    double expected_ms;
    double error_ms; // standard error of it
    double surrogate_ms;
    uint32_t workers; // that it uses
    uint32_t edges;   // likewise; 0: none
} muster_plan_choice;

#define MUSTER_PLAN_CHOICE_INIT                                               \
    {                                                                         \
        (uint32_t)sizeof(muster_plan_choice), false, false, "", "", "", 0, 0, \
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                                   \
    }

/* A worker under the chosen code. */
typedef struct muster_plan_worker {
    uint32_t struct_size; // sizeof(muster_plan_worker)
    uint32_t edge;        // it is under; 0 without edges
    double load;          // 1: what an uncoded worker computes
    double storage;       // share of the data that it holds, 0..1
    double expected_ms;   // until its answer is there
    double in_time; // share of the steps that its answer comes in time for
    bool used;      // false: left out of the run
} muster_plan_worker;

#define MUSTER_PLAN_WORKER_INIT                                            \
    {                                                                      \
        (uint32_t)sizeof(muster_plan_worker), 0, 0.0, 0.0, 0.0, 0.0, false \
    }

typedef struct muster_plan muster_plan;

/*
 * MUSTER_ERR_INVALID    struct_size is too small, or there is no cluster text
 * MUSTER_ERR_INPUT      not a cluster file; the text names file, line and key
 * MUSTER_ERR_NO_MEMORY
 */
MUSTER_API MUSTER_CHECKED muster_status
muster_plan_create(const muster_plan_opts *opts, muster_error *error_out,
                   muster_plan **plan_out);
/* NULL is allowed and does nothing. */
MUSTER_API void muster_plan_free(muster_plan *plan);

/* MUSTER_ERR_INVALID: choice_out->struct_size is too small. */
MUSTER_API MUSTER_CHECKED muster_status
muster_plan_chosen(const muster_plan *plan, muster_plan_choice *choice_out);

/* Others beside it, with every machine: uncoded, ignore, worker-only,
 * edge-only, the best flat code, what the surrogate alone would choose, and the
 * next best. */
MUSTER_API uint32_t muster_plan_alternative_count(const muster_plan *plan);
/* MUSTER_ERR_INVALID: no such alternative, or struct_size is too small. */
MUSTER_API MUSTER_CHECKED muster_status muster_plan_alternative(
    const muster_plan *plan, uint32_t index, muster_plan_choice *choice_out);

MUSTER_API uint32_t muster_plan_worker_count(const muster_plan *plan);
/* MUSTER_ERR_INVALID: no such worker, or struct_size is too small. */
MUSTER_API MUSTER_CHECKED muster_status muster_plan_worker_at(
    const muster_plan *plan, uint32_t index, muster_plan_worker *worker_out);

/* The machines that the plan uses, as the text of a cluster file. */
MUSTER_API char *muster_plan_used(const muster_plan *plan);

/* As the JSON object of `muster plan --json`, or as lines for a person; with
 * `explain`, the table of workers too. NULL when out of memory. */
MUSTER_API char *muster_plan_json(const muster_plan *plan, bool explain);
MUSTER_API char *muster_plan_text(const muster_plan *plan, bool explain);

#ifdef __cplusplus
}
#endif
#endif // MUSTER_PLAN_H
