/*
 * star_report.h -- what muster-bench-star measured, and how it is told: rows,
 * and for a person a table of the rates of all engines beside Open MPI's.
 */
#ifndef MUSTER_BENCH_STAR_REPORT_H
#define MUSTER_BENCH_STAR_REPORT_H

#include <stdbool.h>

#include "star_work.h"

#define STAR_BLOCKS 3

typedef enum star_variant {
    OURS_UNIX,
    OURS_TCP,
    OURS_TLS,
    OURS_CROWD, // OURS_TLS, and strangers that call
    OURS_UCX,
    MPI_TCP,
    MPI_SHM,
    STAR_VARIANTS
} star_variant;

typedef struct star_results {
    unsigned sizes; // those that are measured, see star_sizes()
    int workers;
    bool with_key;
    bool with_ucx;
    const char *no_mpi; // why Open MPI was not measured; NULL: it was
    double median_ms[STAR_VARIANTS][STAR_SIZES][STAR_BLOCKS];
    double sum_ms[STAR_VARIANTS][STAR_SIZES][STAR_BLOCKS];
    double rate[STAR_SIZES][STAR_BLOCKS]; // of memory, bytes a second
} star_results;

/* Nothing is measured yet. */
void star_results_clear(star_results *results);

/* Print all of it; the number of rows of ours that are missing. Sorts what was
 * measured. */
int star_report(star_results *results, bool json);

#endif // MUSTER_BENCH_STAR_REPORT_H
