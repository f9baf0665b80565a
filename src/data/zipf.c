/*
 * zipf.c -- the made-up matrix of the benchmark, and the choice between it and
 * a file. Rows and columns are drawn with probability ~ (index + 1)^-exponent
 * by bisection of the cumulative weights; a value is the product of true
 * factors, N(0, rank^-1/4) each, plus N(0, noise).
 */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/dot.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/spec.h"
#include "data/ratings.h"
#include "data/readers.h"

enum { STREAM_ROWS = 1, STREAM_COLS = 2, STREAM_CELLS = 3 };

static double *cumulative(uint32_t count, double exponent)
{
    double *sums = muster_mem_array(count, sizeof(*sums));
    double sum = 0;
    for (uint32_t i = 0; sums != NULL && i < count; i++) {
        sum += pow((double)i + 1, -exponent);
        sums[i] = sum;
    }
    return sums;
}

static uint32_t draw(muster_rng *rng, const double *sums, uint32_t count)
{
    double at = muster_rng_uniform(rng) * sums[count - 1];
    uint32_t low = 0;
    uint32_t high = count - 1;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (sums[middle] <= at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static float *factors(uint32_t count, uint32_t rank, uint64_t seed,
                      uint64_t stream)
{
    float *values = muster_mem_array((size_t)count * rank, sizeof(*values));
    muster_rng rng = muster_rng_make(seed, stream);
    double scale = pow(rank, -0.25);
    for (size_t i = 0; values != NULL && i < (size_t)count * rank; i++) {
        values[i] = (float)(muster_rng_normal(&rng) * scale);
    }
    return values;
}

muster_status muster_ratings_make_zipf(const muster_ratings_zipf *opts,
                                       muster_ratings *ratings_out)
{
    uint32_t rank = opts->rank;
    muster_cell *cells = muster_mem_array(opts->cells, sizeof(*cells));
    double *row_sums = cumulative(opts->rows, opts->exponent);
    double *col_sums = cumulative(opts->cols, opts->exponent);
    float *w = factors(opts->rows, rank, opts->seed, STREAM_ROWS);
    float *h = factors(opts->cols, rank, opts->seed, STREAM_COLS);
    bool built = cells != NULL && row_sums != NULL && col_sums != NULL &&
                 w != NULL && h != NULL;
    muster_rng rng = muster_rng_make(opts->seed, STREAM_CELLS);
    for (uint64_t i = 0; built && i < opts->cells; i++) {
        uint32_t row = draw(&rng, row_sums, opts->rows);
        uint32_t col = draw(&rng, col_sums, opts->cols);
        double value = muster_dot_wide(w + (size_t)row * rank,
                                       h + (size_t)col * rank, rank) +
                       opts->noise * muster_rng_normal(&rng);
        cells[i] = (muster_cell){.row = row, .col = col, .value = (float)value};
    }
    muster_mem_free(row_sums);
    muster_mem_free(col_sums);
    muster_mem_free(w);
    muster_mem_free(h);
    if (!built) {
        muster_mem_free(cells);
        return MUSTER_ERR_NO_MEMORY;
    }
    *ratings_out = (muster_ratings){.rows = opts->rows,
                                    .cols = opts->cols,
                                    .count = opts->cells,
                                    .cells = cells};
    return MUSTER_OK;
}

#define FIELD(member, form, from, to)                                         \
    {                                                                         \
#member, (form), offsetof(muster_ratings_zipf, member), (from), (to), \
            NULL, false                                                       \
    }

static const muster_spec_field fields[] = {
    FIELD(rows, MUSTER_SPEC_UINT, 1, 1e9),
    FIELD(cols, MUSTER_SPEC_UINT, 1, 1e9),
    FIELD(cells, MUSTER_SPEC_UINT64, 1, 1e9),
    FIELD(rank, MUSTER_SPEC_UINT, 1, 4096),
    FIELD(exponent, MUSTER_SPEC_DOUBLE, 0, 10),
    FIELD(noise, MUSTER_SPEC_DOUBLE, 0, 1e6),
    FIELD(seed, MUSTER_SPEC_UINT64, 0, 1e15),
    {.name = NULL},
};

muster_status muster_ratings_load(const char *spec, muster_error *error_out,
                                  muster_ratings *ratings_out)
{
    const char *params;
    if (strncmp(spec, "zipf:", 5) == 0) {
        muster_ratings_zipf opts = MUSTER_RATINGS_ZIPF_INIT;
        (void)muster_spec_name(spec, &params);
        muster_status status = muster_spec_read("--data zipf", params, fields,
                                                &opts, NULL, error_out);
        if (status == MUSTER_OK) {
            status = muster_ratings_make_zipf(&opts, ratings_out);
            if (status != MUSTER_OK) {
                return muster_error_set(error_out, status,
                                        "--data %s: out of memory", spec);
            }
        }
        return status;
    }
    muster_source *source;
    muster_status status = muster_generator_check(spec, error_out);
    if (status == MUSTER_OK) {
        status = muster_source_open(spec, error_out, &source);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    status = muster_ratings_read(source, error_out, ratings_out);
    muster_source_close(source);
    return status;
}
