/*
 * ye_abbe.c -- Ye and Abbe's Vandermonde scheme (ICML 2018), as published.
 *
 * theta are n distinct reals. Part i has the monic polynomials
 *   p_i(x) = prod over non-holders w of (x - theta_w),   degree n - d
 *   p_i^(u) = x p_i^(u-1) - c p_i,  c = coefficient of x^(n-d-1) in p_i^(u-1)
 * and worker w sends sum over its parts i and u of p_i^(u)(theta_w) g_i^u.
 * Decoding inverts the (n-s) x (n-s) Vandermonde matrix of the responders; the
 * last m columns of the inverse are the weights. All of p_i^(u) is divisible by
 * p_i, so it is evaluated as p_i q_u and the zeros are exact.
 *
 * The error grows exponentially in n - s (1e-7 at n = 20, 1e-2 at n = 30, in
 * double): use ye-abbe-tuned beyond small clusters.
 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "code/choose.h"
#include "code/families/families.h"
#include "code/layout.h"
#include "code/lsq.h"
#include "linalg/dense.h"

/* Beyond this not even double can hold the powers apart. */
#define WORKERS_MAX 64u

typedef struct vandermonde {
    uint32_t rows; // n - s
    uint32_t n;
    double *powers; // rows x n: theta_w^t
} vandermonde;

static void free_state(void *memory)
{
    vandermonde *state = memory;
    if (state != NULL) {
        muster_mem_free(state->powers);
        muster_mem_free(state);
    }
}

/* The paper's points: +-(1 + i/2), and 0 when n is odd; ascending. With
 * theta=integers: one apart and centred. */
static double theta_of(const muster_code_spec *spec, uint32_t worker)
{
    uint32_t n = spec->workers;
    if (muster_code_spec_option_get(spec, "theta") != NULL) {
        return (double)worker - ((double)n - 1.0) / 2.0;
    }
    uint32_t middle = n / 2;
    double place = (double)worker - (double)middle;
    if (n % 2 == 1) {
        return place == 0.0 ? 0.0 : place / 2.0 + copysign(0.5, place);
    }
    return place < 0.0 ? place / 2.0 - 0.5 : place / 2.0 + 1.0;
}

/* Coefficients of p_i, ascending, degree n - d. */
static void lacking_polynomial(const muster_code_spec *spec, uint32_t part,
                               double *coefs)
{
    uint32_t n = spec->workers;
    uint32_t d = spec->load;
    memset(coefs, 0, ((size_t)n - d + 1) * sizeof(double));
    coefs[0] = 1.0;
    for (uint32_t j = 1; j <= n - d; j++) {
        double root = theta_of(spec, (part + j) % n);
        for (uint32_t e = j; e > 0; e--) {
            coefs[e] = coefs[e - 1] - root * coefs[e];
        }
        coefs[0] = -root * coefs[0];
    }
}

/* The subtracted c of p^(u), u = 1 .. m-1, from the coefficients of p_i. */
static void shifts_of(const double *p, uint32_t degree, uint32_t m,
                      double *current, double *shifts)
{
    memset(current, 0, ((size_t)degree + m) * sizeof(double));
    memcpy(current, p, ((size_t)degree + 1) * sizeof(double));
    for (uint32_t u = 1; u < m; u++) {
        double c = degree > 0 ? current[degree - 1] : 0.0;
        memmove(current + 1, current, ((size_t)degree + u) * sizeof(double));
        current[0] = 0.0;
        for (uint32_t e = 0; e <= degree; e++) {
            current[e] -= c * p[e];
        }
        shifts[u] = c;
    }
}

/* cells[u] = p^(u)(x) = p(x) q_u(x), q_0 = 1, q_u = x q_(u-1) - c_u. */
static void evaluate(const muster_code_spec *spec, uint32_t part,
                     uint32_t worker, const double *shifts, double *cells)
{
    uint32_t n = spec->workers;
    double x = theta_of(spec, worker);
    double product = 1.0;
    for (uint32_t j = 1; j <= n - spec->load; j++) {
        product *= x - theta_of(spec, (part + j) % n);
    }
    double q = 1.0;
    for (uint32_t u = 0; u < spec->comm; u++) {
        q = u == 0 ? 1.0 : x * q - shifts[u];
        cells[u] = product * q;
    }
}

static muster_status fill(muster_code *code, const muster_code_spec *spec,
                          muster_error *error)
{
    uint32_t n = spec->workers;
    uint32_t d = spec->load;
    uint32_t m = spec->comm;
    double *memory = muster_mem_array(3 * ((size_t)n + m + 1), sizeof(double));
    muster_code_layout layout;
    if (memory == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    muster_status status =
        muster_code_layout_init(&layout, n, (size_t)n * d, m);
    if (status == MUSTER_OK) {
        double *p = memory;
        double *current = memory + n + m + 1;
        double *shifts = current + n + m + 1;
        muster_code_layout_cyclic(&layout, n, d);
        for (uint32_t part = 0; part < n; part++) {
            lacking_polynomial(spec, part, p);
            shifts_of(p, n - d, m, current, shifts);
            for (size_t e = layout.first[part]; e < layout.first[part + 1];
                 e++) {
                evaluate(spec, part, layout.holders[e], shifts,
                         layout.cells + e * m);
            }
        }
        status = muster_code_layout_fill(&layout, code, error);
        muster_code_layout_fini(&layout);
    }
    muster_mem_free(memory);
    return status;
}

static muster_status make_state(muster_code *code, const muster_code_spec *spec)
{
    uint32_t n = spec->workers;
    vandermonde *state = muster_mem_array(1, sizeof(*state));
    if (state == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    code->state = state;
    state->n = n;
    state->rows = n - spec->stragglers;
    state->powers = muster_mem_array((size_t)state->rows * n, sizeof(double));
    if (state->powers == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    for (uint32_t w = 0; w < n; w++) {
        double power = 1.0;
        for (uint32_t t = 0; t < state->rows; t++) {
            state->powers[(size_t)t * n + w] = power;
            power *= theta_of(spec, w);
        }
    }
    return MUSTER_OK;
}

static muster_status build(muster_code *code, const muster_code_spec *given,
                           muster_error *error)
{
    muster_code_spec spec = *given;
    muster_status status = muster_code_spec_accept(&spec, "theta", error);
    const char *theta = muster_code_spec_option_get(&spec, "theta");
    if (status == MUSTER_OK && theta != NULL &&
        strcmp(theta, "integers") != 0) {
        status = muster_error_set(error, MUSTER_ERR_INVALID,
                                  "ye-abbe: theta=%s; theta=integers, or leave "
                                  "it out for the paper's points",
                                  theta);
    }
    if (status == MUSTER_OK) {
        status = muster_code_spec_balance(&spec, error);
    }
    if (status == MUSTER_OK && spec.workers > WORKERS_MAX) {
        status = muster_error_set(error, MUSTER_ERR_UNSUPPORTED,
                                  "ye-abbe: %u workers; its Vandermonde "
                                  "matrices serve up to %u, use ye-abbe-tuned",
                                  spec.workers, WORKERS_MAX);
    }
    if (status == MUSTER_OK) {
        status = make_state(code, &spec);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    code->info.parts = spec.workers;
    code->info.stragglers = spec.stragglers;
    code->info.comm = spec.comm;
    code->info.gradient_blocks = spec.comm;
    status = fill(code, &spec, error);
    if (status == MUSTER_OK) {
        status = muster_code_judge(code, &spec, false, "ye-abbe-tuned", error);
    }
    return status;
}

/* Weights from the n - s first responders, as in the paper: the last m columns
 * of the inverse of V_F. Inverted transposed, so that the pivots compare powers
 * of one degree: powers of different degrees differ by their sizes alone. */
static muster_status invert(const muster_code *code, muster_code_query *query,
                            double *square, double *inverse)
{
    const vandermonde *state = code->state;
    uint32_t rows = state->rows;
    uint32_t m = code->info.gradient_blocks;
    for (uint32_t i = 0; i < rows; i++) {
        for (uint32_t t = 0; t < rows; t++) {
            square[(size_t)i * rows + t] =
                state->powers[(size_t)t * state->n + query->responders[i]];
            inverse[(size_t)i * rows + t] = i == t ? 1.0 : 0.0;
        }
    }
    muster_dense_shape shape;
    muster_status status = muster_dense_measure(square, rows, rows, &shape);
    if (status == MUSTER_OK) {
        status = muster_dense_solve(square, rows, inverse, rows);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    query->fit.condition = shape.condition;
    query->term_count = 0;
    for (uint32_t u = 0; u < m; u++) {
        for (uint32_t i = 0; i < rows; i++) {
            query->terms[query->term_count++] = (muster_code_decode_term){
                u, query->responders[i], 0,
                inverse[(size_t)(rows - m + u) * rows + i]};
        }
    }
    return muster_code_measure(code, query);
}

static muster_status weights(const muster_code *code, muster_code_query *query)
{
    const vandermonde *state = code->state;
    if (query->count < state->rows) {
        return muster_code_least_squares(code, query);
    }
    size_t entries = (size_t)state->rows * state->rows;
    double *square = muster_mem_array(entries, sizeof(double));
    double *inverse = muster_mem_array(entries, sizeof(double));
    muster_status status = MUSTER_ERR_NO_MEMORY;
    if (square != NULL && inverse != NULL) {
        status = invert(code, query, square, inverse);
    }
    muster_mem_free(inverse);
    muster_mem_free(square);
    return status == MUSTER_ERR_INVALID ? muster_code_least_squares(code, query)
                                        : status;
}

const muster_code_ops muster_code_ye_abbe = {
    .name = "ye-abbe",
    .build = build,
    .weights = weights,
    .free_state = free_state,
    .needs = "d = s + m <= n <= 64; theta=integers for other points",
    .limits = "n <= 8, or n <= 12 with m <= 2",
};
