/*
 * dual.c -- encode and decode through the affine space of decodings.
 */
#include "code/dual.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "code/lsq.h"
#include "linalg/dense.h"
#include "linalg/vanish.h"

/* A solve that leaves more than this is repeated by least squares. */
#define ENCODE_RESIDUAL 1e-9

/* A weight below this share of the decoding that uses everyone is none. */
#define VANISHED 1e-7

muster_dual *muster_dual_create(uint32_t workers, uint32_t outputs,
                                uint32_t blocks, uint32_t stragglers)
{
    muster_dual *dual = muster_mem_array(1, sizeof(*dual));
    if (dual == NULL) {
        return NULL;
    }
    size_t columns = (size_t)workers * blocks;
    dual->workers = workers;
    dual->outputs = outputs;
    dual->blocks = blocks;
    dual->stragglers = stragglers;
    dual->freedom = stragglers * blocks;
    dual->zeros_max = stragglers;
    dual->affine = muster_mem_array(columns, outputs * sizeof(double));
    dual->null = muster_mem_array(columns, dual->freedom * sizeof(double));
    if (dual->affine == NULL || dual->null == NULL) {
        muster_dual_free(dual);
        return NULL;
    }
    return dual;
}

void muster_dual_free(void *memory)
{
    muster_dual *dual = memory;
    if (dual == NULL) {
        return;
    }
    muster_mem_free(dual->affine);
    muster_mem_free(dual->null);
    muster_mem_free(dual);
}

muster_status muster_dual_orthonormalise(muster_dual *dual)
{
    if (dual->freedom == 0) {
        return MUSTER_OK;
    }
    return muster_dense_orthonormalise(dual->null, dual->workers * dual->blocks,
                                       dual->freedom);
}

/* One Householder reflection of the rows from `first` on that clears column
 * `first` below its diagonal. */
static void clear_below(double *frame, uint32_t rows, size_t columns,
                        uint32_t first)
{
    double norm = 0.0;
    for (uint32_t i = first; i < rows; i++) {
        norm += frame[i * columns + first] * frame[i * columns + first];
    }
    double lead = frame[first * columns + first];
    double shift = copysign(sqrt(norm), lead);
    double head = lead + shift; // v = (head, the rest of the column)
    double size = norm + lead * shift;
    if (size == 0.0) {
        return;
    }
    for (size_t c = columns; c-- > first;) {
        // Columns from the right: column `first` itself is v, so it comes last.
        double along = head * frame[first * columns + c];
        for (uint32_t i = first + 1; i < rows; i++) {
            along += frame[i * columns + first] * frame[i * columns + c];
        }
        along /= size;
        frame[first * columns + c] -= along * head;
        for (uint32_t i = first + 1; c > first && i < rows; i++) {
            frame[i * columns + c] -= along * frame[i * columns + first];
        }
    }
}

void muster_dual_from_frame(muster_dual *dual, double *frame)
{
    uint32_t m = dual->outputs;
    uint32_t rows = m + dual->freedom;
    size_t columns = (size_t)m + dual->workers;
    for (uint32_t u = 0; u < m; u++) {
        clear_below(frame, rows, columns, u);
    }
    for (uint32_t i = 0; i < dual->workers; i++) {
        for (uint32_t t = 0; t < dual->freedom; t++) {
            dual->null[(size_t)i * dual->freedom + t] =
                frame[(m + t) * columns + m + i];
        }
        // affine = R^-1 times the first m rows, from the last row up.
        for (uint32_t u = m; u-- > 0;) {
            double sum = frame[u * columns + m + i];
            for (uint32_t v = u + 1; v < m; v++) {
                sum -= frame[u * columns + v] *
                       dual->affine[(size_t)v * dual->workers + i];
            }
            dual->affine[(size_t)u * dual->workers + i] =
                sum / frame[u * columns + u];
        }
    }
}

/* P_h, with the affine rows first. */
static void gather(const muster_dual *dual, const uint32_t *holders,
                   uint32_t count, double *matrix)
{
    uint32_t m = dual->outputs;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t u = 0; u < m; u++) {
            matrix[(size_t)u * count + i] =
                dual->affine[(size_t)u * dual->workers + holders[i]];
        }
        for (uint32_t t = 0; t < dual->freedom; t++) {
            matrix[(size_t)(m + t) * count + i] =
                dual->null[(size_t)holders[i] * dual->freedom + t];
        }
    }
}

/* How far matrix * cells is from [I; 0], in the largest entry. */
static double encode_residual(const double *matrix, const double *cells,
                              uint32_t count, uint32_t m)
{
    double worst = 0.0;
    for (uint32_t row = 0; row < count; row++) {
        for (uint32_t u = 0; u < m; u++) {
            double off = row == u ? -1.0 : 0.0;
            for (uint32_t i = 0; i < count; i++) {
                off +=
                    matrix[(size_t)row * count + i] * cells[(size_t)i * m + u];
            }
            if (!(fabs(off) <= worst)) {
                worst = fabs(off);
            }
        }
    }
    return worst;
}

muster_status muster_dual_encode(const muster_dual *dual,
                                 const uint32_t *holders, uint32_t count,
                                 double *cells_out)
{
    size_t entries = (size_t)count * count;
    uint32_t m = dual->outputs;
    double *matrix = muster_mem_array(entries, sizeof(double));
    double *work = muster_mem_array(entries, sizeof(double));
    muster_status status = MUSTER_ERR_NO_MEMORY;
    if (matrix == NULL || work == NULL) {
        goto out;
    }
    gather(dual, holders, count, matrix);
    memcpy(work, matrix, entries * sizeof(double));
    memset(cells_out, 0, sizeof(double) * count * m);
    for (uint32_t u = 0; u < m; u++) {
        cells_out[(size_t)u * m + u] = 1.0;
    }
    status = muster_dense_solve(work, count, cells_out, m);
    if (status == MUSTER_OK &&
        encode_residual(matrix, cells_out, count, m) <= ENCODE_RESIDUAL) {
        goto out;
    }
    status = muster_dense_pinv(matrix, count, count, work, NULL);
    for (uint32_t i = 0; status == MUSTER_OK && i < count; i++) {
        for (uint32_t u = 0; u < m; u++) {
            cells_out[(size_t)i * m + u] = work[(size_t)i * count + u];
        }
    }
out:
    muster_mem_free(work);
    muster_mem_free(matrix);
    return status;
}

/* ---- decoding ------------------------------------------------------------ */

static uint32_t worker_at(const muster_dual_query *query, uint32_t place)
{
    return query->names != NULL ? query->names[place] : place;
}

/* Columns of missing workers that hold anything, up to `room`; more are counted
 * but not listed. */
static uint32_t list_missing(const muster_dual *dual,
                             const muster_dual_query *query, uint32_t room,
                             uint32_t *zero)
{
    uint32_t count = 0;
    uint32_t at = 0;
    for (uint32_t p = 0; p < dual->workers; p++) {
        if (at < query->count && query->present[at] == p) {
            at++;
            continue;
        }
        if (query->code->term_spans[worker_at(query, p)].count == 0) {
            continue;
        }
        for (uint32_t b = 0; b < dual->blocks; b++) {
            if (count < room) {
                zero[count] = p * dual->blocks + b;
            }
            count++;
        }
    }
    return count;
}

/* s of the missing workers, spread over them: neighbours depend on each other
 * most. */
static void choose_spread(const muster_dual *dual, const uint32_t *missing,
                          uint32_t count, uint32_t *chosen)
{
    uint64_t workers = count / dual->blocks;
    for (uint32_t t = 0; t < dual->freedom; t++) {
        uint64_t place = t / dual->blocks * workers / dual->stragglers;
        chosen[t] = missing[place * dual->blocks + t % dual->blocks];
    }
}

/* Are the weights of all missing columns nothing but rounding? Makes them 0. */
static bool clear_missing(const muster_dual *dual, const uint32_t *missing,
                          uint32_t count, double *weights)
{
    size_t columns = (size_t)dual->workers * dual->blocks;
    for (uint32_t u = 0; u < dual->outputs; u++) {
        double *row = weights + u * columns;
        const double *affine = dual->affine + u * columns;
        double size = 0.0;
        for (size_t c = 0; c < columns; c++) {
            size = fmax(size, fabs(affine[c]));
        }
        for (uint32_t i = 0; i < count; i++) {
            if (!(fabs(row[missing[i]]) <= VANISHED * size)) {
                return false;
            }
            row[missing[i]] = 0.0;
        }
    }
    return true;
}

static void fill_scale(const muster_dual *dual, const muster_dual_query *query,
                       double *scale)
{
    for (uint32_t p = 0; p < dual->workers; p++) {
        const double *squares = query->code->row_squares +
                                (size_t)worker_at(query, p) * dual->blocks;
        for (uint32_t b = 0; b < dual->blocks; b++) {
            scale[(size_t)p * dual->blocks + b] = sqrt(squares[b]);
        }
    }
}

/* Solve for the missing columns, or for `freedom` of them when there are more;
 * `chosen` has room for as many. */
static muster_status solve_missing(const muster_dual *dual,
                                   muster_vanish *problem, uint32_t *chosen,
                                   double *weights, double *condition_out)
{
    const uint32_t *missing = problem->zero;
    uint32_t count = problem->zero_count;
    if (count <= dual->freedom) {
        return muster_vanish_solve(problem, weights, condition_out);
    }
    choose_spread(dual, missing, count, chosen);
    problem->zero = chosen;
    problem->zero_count = dual->freedom;
    muster_status status = muster_vanish_solve(problem, weights, condition_out);
    if (status == MUSTER_OK && !clear_missing(dual, missing, count, weights)) {
        status = MUSTER_ERR_INVALID;
    }
    return status;
}

muster_status muster_dual_solve(const muster_dual *dual,
                                const muster_dual_query *query,
                                double *weights_out, double *condition_out)
{
    uint32_t columns = dual->workers * dual->blocks;
    uint32_t room = dual->zeros_max * dual->blocks;
    uint32_t *zero =
        muster_mem_array((size_t)room + dual->freedom, sizeof(uint32_t));
    double *scale = muster_mem_array(columns, sizeof(double));
    muster_status status = MUSTER_ERR_NO_MEMORY;
    if (zero != NULL && scale != NULL) {
        muster_vanish problem = {.columns = columns,
                                 .freedom = dual->freedom,
                                 .outputs = dual->outputs,
                                 .affine = dual->affine,
                                 .null = dual->null,
                                 .scale = scale,
                                 .zero = zero};
        problem.zero_count = list_missing(dual, query, room, zero);
        fill_scale(dual, query, scale);
        status = problem.zero_count <= room
                     ? solve_missing(dual, &problem, zero + room, weights_out,
                                     condition_out)
                     : MUSTER_ERR_INVALID;
    }
    muster_mem_free(scale);
    muster_mem_free(zero);
    return status;
}

static void put_terms(const muster_dual *dual, const muster_code *code,
                      const double *weights, muster_code_query *query)
{
    uint32_t columns = dual->workers * dual->blocks;
    query->term_count = 0;
    for (uint32_t u = 0; u < dual->outputs; u++) {
        for (uint32_t r = 0; r < query->count * dual->blocks; r++) {
            uint32_t worker = query->responders[r / dual->blocks];
            uint32_t block = r % dual->blocks;
            double weight = weights[(size_t)u * columns +
                                    (size_t)worker * dual->blocks + block];
            if (weight != 0.0 && code->term_spans[worker].count > 0) {
                query->terms[query->term_count++] =
                    (muster_code_decode_term){u, worker, block, weight};
            }
        }
    }
}

muster_status muster_dual_weights(const muster_code *code,
                                  muster_code_query *query)
{
    const muster_dual *dual = code->state;
    size_t columns = (size_t)dual->workers * dual->blocks;
    double *weights = muster_mem_array(columns, dual->outputs * sizeof(double));
    if (weights == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    muster_dual_query solve = {code, NULL, query->responders, query->count};
    muster_status status =
        muster_dual_solve(dual, &solve, weights, &query->fit.condition);
    if (status == MUSTER_OK) {
        put_terms(dual, code, weights, query);
    }
    muster_mem_free(weights);
    if (status == MUSTER_ERR_INVALID) {
        return muster_code_least_squares(code, query);
    }
    return status == MUSTER_OK ? muster_code_measure(code, query) : status;
}
