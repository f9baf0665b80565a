/*
 * train_runs.h -- whole runs of the command, and what they say of themselves:
 * what the files of `muster bench train` share.
 */
#ifndef MUSTER_BENCH_TRAIN_RUNS_H
#define MUSTER_BENCH_TRAIN_RUNS_H

#include <jansson.h>
#include <math.h>
#include <stdbool.h>

#include "bench.h"

#define BLOCKS_MAX  9
#define PATH_BYTES  1024
#define COMMAND_MAX 4096

typedef struct setting {
    bool json;
    int blocks;
    const char *only;         // rows that begin so; "": all
    char program[PATH_BYTES]; // muster
    char source[PATH_BYTES];  // the folder of ddp_train.py
    char data[PATH_BYTES + 64];
} setting;

typedef struct outcome {
    double step_ms, compute_ms; // medians, the second over workers too
    double loss, theta_norm, message_bytes;
} outcome; // NAN: it failed

#define OUTCOME_NONE            \
    (outcome)                   \
    {                           \
        NAN, NAN, NAN, NAN, NAN \
    }

/* Find the programs and the data. */
bool train_find_files(setting *set);

bool train_wanted(const setting *set, const char *name);

/* What a command prints on stdout, as JSON; NULL when it fails. */
json_t *train_run_json(const char *command);
double train_number(const json_t *object, const char *key);

/* `muster train` on the setting's data. */
outcome train_once(const setting *set, const char *options);

/* The median step of `muster simulate`, in ms. */
double train_simulated(const setting *set, const char *options);

/* A row; one that has no value is named on stderr. */
void train_print(const setting *set, const char *group, const char *name,
                 bench_row row);

/* The rows train_third_*. */
void train_third(const setting *set);

#endif // MUSTER_BENCH_TRAIN_RUNS_H
