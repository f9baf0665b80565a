/*
 * features.c -- gather, spread, project, normalise.
 *
 * Rows are projected in groups of 256, counted from the first member, so that
 * every group is one matrix product of a shape that no thread changes.
 */
#include "partition/features.h"

#include <cblas.h>
#include <math.h>
#include <string.h>

#include "base/dot.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"

#define GROUP       256u
#define SIGN_STREAM 0x7369676eu // apart from the other draws of a seed

static muster_status refuse_value(muster_error *error_out, uint32_t row,
                                  uint32_t column)
{
    return muster_error_set(error_out, MUSTER_ERR_INVALID,
                            "row %u: feature %u is not a finite number", row,
                            column);
}

static muster_status check_dense(const muster_rows *rows,
                                 muster_error *error_out)
{
    if (rows->stride < rows->features) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "rows of %u features lie %zu floats apart: "
                                "stride must be at least features",
                                rows->features, rows->stride);
    }
    for (uint32_t r = 0; r < rows->count; r++) {
        const float *x = rows->dense + r * rows->stride;
        float wrong = 0.0f; // 0 x is 0 unless x is infinite or NaN
        for (uint32_t t = 0; t < rows->features; t++) {
            wrong += x[t] * 0.0f;
        }
        for (uint32_t t = 0; wrong != 0.0f && t < rows->features; t++) {
            if (!isfinite(x[t])) {
                return refuse_value(error_out, r, t);
            }
        }
    }
    return MUSTER_OK;
}

static muster_status check_sparse(const muster_rows *rows,
                                  muster_error *error_out)
{
    for (uint32_t r = 0; r < rows->count; r++) {
        if (rows->offsets[r + 1] < rows->offsets[r]) {
            return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                    "row %u: it ends before it begins", r);
        }
        for (uint64_t e = rows->offsets[r]; e < rows->offsets[r + 1]; e++) {
            if (rows->columns[e] >= rows->features) {
                return muster_error_set(
                    error_out, MUSTER_ERR_INVALID,
                    "row %u: column %u, but the rows have %u features", r,
                    rows->columns[e], rows->features);
            }
            if (!isfinite(rows->values[e])) {
                return refuse_value(error_out, r, rows->columns[e]);
            }
        }
    }
    return MUSTER_OK;
}

static muster_status check_rows(const muster_rows *rows,
                                muster_error *error_out)
{
    bool sparse =
        rows->offsets != NULL && rows->columns != NULL && rows->values != NULL;
    if (rows->features == 0 || (rows->dense == NULL) != sparse) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "the rows need features, dense or CSR (%u "
                                "columns given)",
                                rows->features);
    }
    return sparse ? check_sparse(rows, error_out)
                  : check_dense(rows, error_out);
}

/* Sign `k` of a column: bit k % 64 of its draw k / 64. */
static void column_signs(const muster_features *f, uint32_t column, float scale,
                         float *signs)
{
    uint64_t bits = 0;
    for (uint32_t k = 0; k < f->columns; k++) {
        if (k % 64 == 0) {
            bits = muster_rng_at(f->seed ^ SIGN_STREAM, column, k / 64);
        }
        signs[k] = (bits >> (k % 64) & 1) != 0 ? scale : -scale;
    }
}

static muster_status make_signs(muster_features *f)
{
    f->signs = muster_mem_raw_aligned((size_t)f->rows->features * f->columns,
                                      sizeof(float));
    if (f->signs == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    for (uint32_t t = 0; t < f->rows->features; t++) {
        column_signs(f, t, 1.0f, f->signs + (size_t)t * f->columns);
    }
    return MUSTER_OK;
}

muster_status muster_features_init(muster_features *features,
                                   const muster_partition_opts *opts,
                                   muster_error *error_out)
{
    *features = (muster_features){.rows = &opts->rows, .seed = opts->seed};
    muster_status status = check_rows(&opts->rows, error_out);
    if (status != MUSTER_OK) {
        return status;
    }
    bool dense = opts->rows.dense != NULL;
    uint32_t project = opts->project;
    if (project == 0 && !dense &&
        opts->rows.features > MUSTER_FEATURES_SPREAD_MAX) {
        project = MUSTER_FEATURES_PROJECTED;
    }
    features->projected = project > 0;
    features->columns = project > 0 ? project : opts->rows.features;
    return features->projected && dense ? make_signs(features) : MUSTER_OK;
}

void muster_features_fini(muster_features *features)
{
    muster_mem_free(features->signs);
    *features = (muster_features){0};
}

/* Unit length; the sum of squares in double cannot overflow. */
static void normalise(float *x, uint32_t columns)
{
    double squares = muster_dot_wide(x, x, columns);
    double scale = squares > 0.0 ? 1.0 / sqrt(squares) : 0.0;
    for (uint32_t t = 0; t < columns; t++) {
        x[t] = (float)((double)x[t] * scale);
    }
}

/* Dividing by the largest magnitude keeps products in float finite; 1 where
 * all are 0. */
static float largest_of(const float *x, uint32_t columns)
{
    float largest = 0.0f;
    for (uint32_t t = 0; t < columns; t++) {
        largest = fabsf(x[t]) > largest ? fabsf(x[t]) : largest;
    }
    return largest > 0.0f ? largest : 1.0f;
}

static void spread_row(const muster_rows *rows, uint32_t row, float *out)
{
    memset(out, 0, rows->features * sizeof(float));
    for (uint64_t e = rows->offsets[row]; e < rows->offsets[row + 1]; e++) {
        out[rows->columns[e]] = rows->values[e];
    }
}

/* `scratch` holds the signs of a column. */
static void project_sparse(const muster_features *f, uint32_t row,
                           float *scratch, float *out)
{
    const muster_rows *rows = f->rows;
    uint64_t begin = rows->offsets[row];
    uint32_t entries = (uint32_t)(rows->offsets[row + 1] - begin);
    float largest = largest_of(rows->values + begin, entries);
    memset(out, 0, f->columns * sizeof(float));
    for (uint32_t e = 0; e < entries; e++) {
        column_signs(f, rows->columns[begin + e],
                     rows->values[begin + e] / largest, scratch);
        for (uint32_t k = 0; k < f->columns; k++) {
            out[k] += scratch[k];
        }
    }
}

/* Up to GROUP dense rows by one product. `scratch` holds them. */
static void project_dense(const muster_features *f, const uint32_t *members,
                          uint32_t count, float *scratch, float *out)
{
    const muster_rows *rows = f->rows;
    size_t wide = rows->features;
    for (uint32_t i = 0; i < count; i++) {
        const float *x = rows->dense + members[i] * rows->stride;
        float largest = largest_of(x, rows->features);
        for (size_t t = 0; t < wide; t++) {
            scratch[i * wide + t] = x[t] / largest;
        }
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)count,
                (int)f->columns, (int)wide, 1.0f, scratch, (int)wide, f->signs,
                (int)f->columns, 0.0f, out, (int)f->columns);
}

static void gather_group(const muster_features *f, const uint32_t *members,
                         uint32_t count, float *scratch, float *out)
{
    const muster_rows *rows = f->rows;
    if (f->projected && rows->dense != NULL) {
        project_dense(f, members, count, scratch, out);
    }
    for (uint32_t i = 0; i < count; i++) {
        float *x = out + (size_t)i * f->columns;
        if (!f->projected && rows->dense != NULL) {
            memcpy(x, rows->dense + members[i] * rows->stride,
                   f->columns * sizeof(float));
        } else if (!f->projected) {
            spread_row(rows, members[i], x);
        } else if (rows->dense == NULL) {
            project_sparse(f, members[i], scratch, x);
        }
        normalise(x, f->columns);
    }
}

muster_status muster_features_gather(const muster_features *features,
                                     const uint32_t *members, uint32_t count,
                                     float *out)
{
    size_t floats = 0;
    if (features->projected) {
        floats = features->rows->dense != NULL
                     ? (size_t)GROUP * features->rows->features
                     : features->columns;
    }
    float *scratch = muster_mem_raw_aligned(floats, sizeof(float));
    if (scratch == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    for (uint32_t from = 0; from < count; from += GROUP) {
        uint32_t some = count - from < GROUP ? count - from : GROUP;
        gather_group(features, members + from, some, scratch,
                     out + (size_t)from * features->columns);
    }
    muster_mem_free(scratch);
    return MUSTER_OK;
}
