/*
 * config/config.h -- one table of options, and everything made from it.
 *
 * Flags, YAML keys, --help, config.json and what a joiner is sent all come from
 * the table in options.def: name, type and range, default, verbs, one line of
 * help. An option has one name everywhere.
 *
 *   muster_config *config;
 *   muster_config_create("train", &config);
 *   muster_config_parse(config, argc, argv, &error);   // --config first
 *   muster_config_check(config, &error);               // across options
 *   uint64_t steps = muster_config_uint(config, MUSTER_OPT_STEPS);
 *
 *   Promise      Flags win over YAML, YAML over the options of a resumed run,
 *                those over defaults. An unknown or ill-typed key is
 *                MUSTER_ERR_INVALID with its place (flag, or file:line) and a
 *                suggestion. to_json then from_json gives the same
 *                configuration.
 *   Ownership    Strings returned are lent until the next set or free.
 *   Threads      Getters from any thread while nobody sets.
 *   Allocation   Getters never do.
 *
 * Background: docs/design/config.md.
 */
#ifndef MUSTER_CONFIG_CONFIG_H
#define MUSTER_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "muster/config.h"
#include "muster/status.h"

/* MUSTER_OPT_MODEL, MUSTER_OPT_DATA, ..: one per row of options.def. */
typedef enum muster_option {
#define OPTION(id, name, type, deflt, verbs, meta, help) MUSTER_OPT_##id,
#include "config/options.def"
#undef OPTION
    MUSTER_OPT_COUNT
} muster_option;

/* "train", "join", ..; lent for ever. */
const char *muster_config_verb(const muster_config *config);

/* Did a flag, a file or muster_config_set() give it a value? A config.json
 * lists defaults, too; those do not count. */
bool muster_config_is_set(const muster_config *config, muster_option option);

/* Does its value come from the file of a run, or from another machine, and not
 * from the person who started this program? */
bool muster_config_is_from_file(const muster_config *config,
                                muster_option option);

/* The value of an option of the type that the name says (else an assertion);
 * its default when it was not set. Numbers without a default are 0, strings
 * NULL. */
const char *muster_config_string(const muster_config *config,
                                 muster_option option);
uint64_t muster_config_uint(const muster_config *config, muster_option option);
double muster_config_double(const muster_config *config, muster_option option);
bool muster_config_bool(const muster_config *config, muster_option option);
/* Durations ("200ms", "2s") in nanoseconds. */
int64_t muster_config_duration_ns(const muster_config *config,
                                  muster_option option);
/* Repeatable options (--slow, --kill, ..): their values in order. */
size_t muster_config_list_count(const muster_config *config,
                                muster_option option);
const char *muster_config_list_at(const muster_config *config,
                                  muster_option option, size_t index);

/* How many workers the run has: --workers, or else --local. */
uint32_t muster_config_workers(const muster_config *config);

/* --threads, or what it is without it: 1 for a sparse task and for partition;
 * else the processors that this program may use, divided by --local. */
uint32_t muster_config_threads(const muster_config *config);

/* How many edges --topology has; 0 without it. */
uint32_t muster_config_edges(const muster_config *config);

/* Is --model a sparse task, trained on a parameter server (src/task)? */
bool muster_config_is_task(const muster_config *config);

/* --deadline in ns; 0: auto. */
int64_t muster_config_deadline_ns(const muster_config *config);

/* The cluster file that --speeds names, where it is a path (with a slash, or
 * ending in .yaml or .yml) and no list; else NULL. */
const char *muster_config_speeds_file(const muster_config *config);

/* What --until asks for. */
typedef enum muster_config_goal {
    MUSTER_GOAL_NONE = 0,
    MUSTER_GOAL_LOSS,
    MUSTER_GOAL_ACCURACY,
} muster_config_goal;

/* MUSTER_GOAL_NONE where it is not given; MUSTER_ERR_INVALID where it is none
 * of the two, or not a number that can be reached. */
MUSTER_CHECKED muster_status muster_config_until(const muster_config *config,
                                                 muster_error *error_out,
                                                 muster_config_goal *goal_out,
                                                 double *value_out);

/* Is it --speeds measure? */
bool muster_config_speeds_measured(const muster_config *config);

/* --data-at workers: do workers read the data themselves? */
bool muster_config_data_at_workers(const muster_config *config);

/* --code auto: is the code chosen while training? `name` is that of one code,
 * NULL: the whole value. */
bool muster_config_is_auto(const muster_config *config, const char *name);

#define MUSTER_CONFIG_LOCAL_MAX    1000000u
#define MUSTER_CONFIG_BOUND_MAX    1000000u
#define MUSTER_CONFIG_PARTNERS_MAX 16u
#define MUSTER_ALGORITHM_UNBOUNDED UINT64_MAX

typedef enum muster_algorithm_kind {
    MUSTER_ALGORITHM_SYNC = 0,
    MUSTER_ALGORITHM_LOCAL,
    MUSTER_ALGORITHM_SSP, // async: without a bound
    MUSTER_ALGORITHM_GOSSIP,
} muster_algorithm_kind;

/* --algorithm. */
typedef struct muster_algorithm {
    muster_algorithm_kind kind;
    uint32_t local_steps; // H of local:H; else 0
    uint64_t bound;       // of ssp:BOUND; MUSTER_ALGORITHM_UNBOUNDED: async
    uint32_t partners;    // k of gossip:random:k; 0: gossip:ring
} muster_algorithm;

/* False: the value is none of them. */
bool muster_config_algorithm(const muster_config *config,
                             muster_algorithm *algorithm_out);
muster_algorithm_kind muster_config_algorithm_kind(const muster_config *config);

/* H of --algorithm local:H; 0: another one. */
uint32_t muster_config_local_steps(const muster_config *config);

/* --eval-every, or what --until takes for it. */
uint64_t muster_config_eval_every(const muster_config *config);

/* --speeds as `count` numbers. MUSTER_ERR_INVALID when there are more or fewer
 * or one is not positive; nothing is written when the option is not set, names
 * a file, or is "measure". */
MUSTER_CHECKED muster_status muster_config_speeds(const muster_config *config,
                                                  uint32_t count,
                                                  muster_error *error_out,
                                                  double *speeds_out);

#endif // MUSTER_CONFIG_CONFIG_H
