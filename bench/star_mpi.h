/*
 * star_mpi.h -- the same star over Open MPI, as mpirun runs it.
 */
#ifndef MUSTER_BENCH_STAR_MPI_H
#define MUSTER_BENCH_STAR_MPI_H

#include "star_report.h"

/* Why there is nothing to compare with; NULL: there is. */
const char *star_mpi_missing(void);

/* Measure `sizes` over TCP and over shared memory; what fails stays NAN. */
void star_mpi_run(const char *sizes, star_results *out, int block);

#endif // MUSTER_BENCH_STAR_MPI_H
