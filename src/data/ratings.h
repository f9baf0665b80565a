/*
 * data/ratings.h -- a sparse matrix as a list of cells: what matrix
 * factorisation learns from.
 *
 * Files (each also gzipped): MatrixMarket "coordinate" (real, integer or
 * pattern; general or symmetric; counted from 1), or lines of `row col value`
 * with blanks, tabs, commas or semicolons between (counted from 0; more fields
 * are ignored; a first line that is not numbers is a header). Or made up:
 * "zipf:rows=100000,cols=10000,cells=2000000,rank=32,exponent=1.1,seed=1", the
 * matrix of the benchmark: rows and columns drawn by a Zipf law, values from
 * true factors plus noise.
 *
 *   Promise      Every value is finite, every index below rows and cols, at
 *                least one cell.
 *   Ownership    load gives, free ends.
 *   Determinism  The same spec gives the same cells, on any number of threads.
 */
#ifndef MUSTER_DATA_RATINGS_H
#define MUSTER_DATA_RATINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data/source.h"
#include "muster/status.h"

#define MUSTER_RATINGS_INDEX_MAX 0x7ffffffdu

typedef struct muster_cell {
    uint32_t row;
    uint32_t col;
    float value;
} muster_cell;

typedef struct muster_ratings {
    uint32_t rows;
    uint32_t cols;
    uint64_t count;
    muster_cell *cells;
} muster_ratings;

/* As many as `threads`, 0 being 1, make a matrix that is made up; they change
 * none of its bits. MUSTER_ERR_INPUT with file:line, MUSTER_ERR_INVALID for a
 * zipf: option, MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_ratings_load(const char *spec,
                                                 uint32_t threads,
                                                 muster_error *error_out,
                                                 muster_ratings *ratings_out);
MUSTER_CHECKED muster_status muster_ratings_read(muster_source *source,
                                                 muster_error *error_out,
                                                 muster_ratings *ratings_out);
void muster_ratings_fini(muster_ratings *ratings);

typedef struct muster_ratings_zipf {
    uint32_t rows, cols;
    uint64_t cells;
    uint32_t rank;
    double exponent;
    double noise;
    uint64_t seed;
} muster_ratings_zipf;

#define MUSTER_RATINGS_ZIPF_INIT                     \
    {                                                \
        100000u, 10000u, 2000000u, 32u, 1.1, 0.1, 1u \
    }

MUSTER_CHECKED muster_status
muster_ratings_make_zipf(const muster_ratings_zipf *opts, uint32_t threads,
                         muster_ratings *ratings_out);

#endif // MUSTER_DATA_RATINGS_H
