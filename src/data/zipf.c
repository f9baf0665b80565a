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
#include "base/threads.h"
#include "data/ratings.h"
#include "data/readers.h"

enum { STREAM_ROWS = 1, STREAM_COLS = 2, STREAM_CELLS = 3 };
enum { NORMAL_DRAWS = 2, CELL_DRAWS = 2 + NORMAL_DRAWS }; // of the generator
enum { PARTS = 64 }; // of the work; what is made does not depend on it

/* Cumulative weights, and for each of `buckets` equal shares of their sum the
 * first number whose weights go beyond its begin: a bisection is over the few
 * numbers of one share. A power of two of them makes a draw's share exact. */
typedef struct weights {
    double *sums;
    uint32_t *firsts; // one more than there are buckets
    uint32_t buckets;
    uint32_t count;
} weights;

static bool weights_make(uint32_t count, double exponent, weights *weights_out)
{
    weights w = {.buckets = 1, .count = count};
    while (w.buckets < count && w.buckets < 1u << 24) {
        w.buckets *= 2;
    }
    w.sums = muster_mem_array(count, sizeof(*w.sums));
    w.firsts = muster_mem_array(w.buckets + 1ull, sizeof(*w.firsts));
    *weights_out = w;
    if (w.sums == NULL || w.firsts == NULL) {
        return false;
    }
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += pow((double)i + 1, -exponent);
        w.sums[i] = sum;
    }
    uint32_t first = 0;
    for (uint32_t i = 0; i <= w.buckets; i++) {
        double from = (double)i / w.buckets * sum;
        while (first < count - 1 && w.sums[first] <= from) {
            first++;
        }
        w.firsts[i] = first;
    }
    return true;
}

static void weights_free(weights *w)
{
    muster_mem_free(w->sums);
    muster_mem_free(w->firsts);
}

static uint32_t draw(muster_rng *rng, const weights *w)
{
    double share = muster_rng_uniform(rng);
    double at = share * w->sums[w->count - 1];
    uint32_t bucket = (uint32_t)(share * w->buckets);
    uint32_t low = w->firsts[bucket];
    uint32_t high = w->firsts[bucket + 1];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (w->sums[middle] <= at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* What is being made, by several threads: every number is a function of its
 * place, whoever draws it. */
typedef struct making {
    const muster_ratings_zipf *opts;
    weights rows;
    weights cols;
    float *row_factors;
    float *col_factors;
    muster_cell *cells;
} making;

/* Part `index` of PARTS of the factors of `count` rows or columns. */
static void make_factors(const making *m, uint32_t count, uint64_t stream,
                         uint32_t index, float *factors_out)
{
    uint64_t all = (uint64_t)count * m->opts->rank;
    uint64_t end = muster_threads_part(all, PARTS, index + 1);
    double scale = pow(m->opts->rank, -0.25);
    muster_rng rng = muster_rng_make(m->opts->seed, stream);
    uint64_t i = muster_threads_part(all, PARTS, index);
    for (rng.index = NORMAL_DRAWS * i; i < end; i++) {
        factors_out[i] = (float)(muster_rng_normal(&rng) * scale);
    }
}

static void make_both_factors(void *context, uint32_t index)
{
    const making *m = context;
    make_factors(m, m->opts->rows, STREAM_ROWS, index, m->row_factors);
    make_factors(m, m->opts->cols, STREAM_COLS, index, m->col_factors);
}

static void make_cells(void *context, uint32_t index)
{
    const making *m = context;
    uint32_t rank = m->opts->rank;
    uint64_t end = muster_threads_part(m->opts->cells, PARTS, index + 1);
    uint64_t i = muster_threads_part(m->opts->cells, PARTS, index);
    muster_rng rng = muster_rng_make(m->opts->seed, STREAM_CELLS);
    for (rng.index = CELL_DRAWS * i; i < end; i++) {
        uint32_t row = draw(&rng, &m->rows);
        uint32_t col = draw(&rng, &m->cols);
        double value =
            muster_dot_wide(m->row_factors + (size_t)row * rank,
                            m->col_factors + (size_t)col * rank, rank) +
            m->opts->noise * muster_rng_normal(&rng);
        m->cells[i] =
            (muster_cell){.row = row, .col = col, .value = (float)value};
    }
}

static float *factors_of(uint32_t count, uint32_t rank)
{
    return muster_mem_array((size_t)count * rank, sizeof(float));
}

static void make_all(making *m, uint32_t threads)
{
    muster_threads *pool = NULL; // out of memory: this thread does it alone
    threads = threads < MUSTER_THREADS_MAX ? threads : MUSTER_THREADS_MAX;
    if (threads > 1) {
        (void)!muster_threads_create(threads, &pool);
    }
    muster_threads_run(pool, PARTS, make_both_factors, m);
    muster_threads_run(pool, PARTS, make_cells, m);
    muster_threads_free(pool);
}

muster_status muster_ratings_make_zipf(const muster_ratings_zipf *opts,
                                       uint32_t threads,
                                       muster_ratings *ratings_out)
{
    making m = {.opts = opts,
                .row_factors = factors_of(opts->rows, opts->rank),
                .col_factors = factors_of(opts->cols, opts->rank),
                .cells = muster_mem_array(opts->cells, sizeof(*m.cells))};
    bool built = weights_make(opts->rows, opts->exponent, &m.rows);
    built = weights_make(opts->cols, opts->exponent, &m.cols) && built &&
            m.row_factors != NULL && m.col_factors != NULL && m.cells != NULL;
    if (built) {
        make_all(&m, threads);
    }
    weights_free(&m.rows);
    weights_free(&m.cols);
    muster_mem_free(m.row_factors);
    muster_mem_free(m.col_factors);
    if (!built) {
        muster_mem_free(m.cells);
        return MUSTER_ERR_NO_MEMORY;
    }
    *ratings_out = (muster_ratings){.rows = opts->rows,
                                    .cols = opts->cols,
                                    .count = opts->cells,
                                    .cells = m.cells};
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

muster_status muster_ratings_load(const char *spec, uint32_t threads,
                                  muster_error *error_out,
                                  muster_ratings *ratings_out)
{
    const char *params;
    if (strncmp(spec, "zipf:", 5) == 0) {
        muster_ratings_zipf opts = MUSTER_RATINGS_ZIPF_INIT;
        (void)muster_spec_name(spec, &params);
        muster_status status = muster_spec_read("--data zipf", params, fields,
                                                &opts, NULL, error_out);
        if (status == MUSTER_OK) {
            status = muster_ratings_make_zipf(&opts, threads, ratings_out);
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
