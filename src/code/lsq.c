/*
 * lsq.c -- dense pseudo-inverse or CGLS.
 *
 * Unknowns are (responder, message block) pairs: x of length rows =
 * count * message_blocks. Equations are (part, gradient block) pairs.
 */
#include "code/lsq.h"

#include <math.h>
#include <string.h>

#include "base/dot.h"
#include "base/mem.h"
#include "linalg/dense.h"

/* Up to this many entries of B_F a dense solve takes milliseconds. */
#define DENSE_ENTRIES_MAX 65536u
#define ROUNDS_MAX        2000u

typedef struct lsq_problem {
    const muster_code *code;
    const muster_code_query *query;
    uint32_t rows;      // unknowns
    uint32_t equations; // parts * gradient blocks
} lsq_problem;

/* y += B_F' x. */
static void multiply_transposed(const lsq_problem *p, const double *x,
                                double *y)
{
    const muster_code *code = p->code;
    const muster_code_encode_term *all = code->terms.data;
    uint32_t blocks = code->info.message_blocks;
    for (uint32_t r = 0; r < p->query->count; r++) {
        muster_code_span span = code->term_spans[p->query->responders[r]];
        for (uint32_t i = 0; i < span.count; i++) {
            const muster_code_encode_term *term = &all[span.first + i];
            y[(size_t)term->part * code->info.gradient_blocks +
              term->gradient_block] +=
                term->coef * x[(size_t)r * blocks + term->message_block];
        }
    }
}

/* x += B_F y. */
static void multiply(const lsq_problem *p, const double *y, double *x)
{
    const muster_code *code = p->code;
    const muster_code_encode_term *all = code->terms.data;
    uint32_t blocks = code->info.message_blocks;
    for (uint32_t r = 0; r < p->query->count; r++) {
        muster_code_span span = code->term_spans[p->query->responders[r]];
        for (uint32_t i = 0; i < span.count; i++) {
            const muster_code_encode_term *term = &all[span.first + i];
            x[(size_t)r * blocks + term->message_block] +=
                term->coef * y[(size_t)term->part * code->info.gradient_blocks +
                               term->gradient_block];
        }
    }
}

/* Append the weights x of one output block as terms. */
static void put_terms(const lsq_problem *p, muster_code_query *query,
                      uint32_t output, const double *x)
{
    uint32_t blocks = p->code->info.message_blocks;
    for (uint32_t i = 0; i < p->rows; i++) {
        if (x[i] != 0.0) {
            query->terms[query->term_count++] = (muster_code_decode_term){
                .output_block = output,
                .worker = query->responders[i / blocks],
                .message_block = i % blocks,
                .weight = x[i]};
        }
    }
}

static muster_status solve_dense(const lsq_problem *p, muster_code_query *query)
{
    size_t entries = (size_t)p->rows * p->equations;
    uint32_t outputs = p->code->info.gradient_blocks;
    double *matrix = muster_mem_array(entries, sizeof(double));
    double *inverse = muster_mem_array(entries, sizeof(double));
    double *x = muster_mem_array(p->rows, sizeof(double));
    double *unit = muster_mem_array(p->rows, sizeof(double));
    muster_status status = MUSTER_ERR_NO_MEMORY;
    if (matrix == NULL || inverse == NULL || x == NULL || unit == NULL) {
        goto out;
    }
    for (uint32_t row = 0; row < p->rows; row++) {
        unit[row] = 1.0;
        multiply_transposed(p, unit, matrix + (size_t)row * p->equations);
        unit[row] = 0.0;
    }
    muster_dense_shape shape;
    // a B = t  <=>  a = t pinv(B); B is rows x equations.
    status = muster_dense_pinv(matrix, p->rows, p->equations, inverse, &shape);
    if (status != MUSTER_OK) {
        goto out;
    }
    // What rounding leaves of a zero singular value is no condition.
    bool full = shape.rank == (p->rows < p->equations ? p->rows : p->equations);
    query->fit.condition = full ? shape.condition : INFINITY;
    for (uint32_t output = 0; output < outputs; output++) {
        memset(x, 0, p->rows * sizeof(double));
        for (uint32_t e = output; e < p->equations; e += outputs) {
            for (uint32_t row = 0; row < p->rows; row++) {
                x[row] += inverse[(size_t)e * p->rows + row];
            }
        }
        put_terms(p, query, output, x);
    }
out:
    muster_mem_free(unit);
    muster_mem_free(x);
    muster_mem_free(inverse);
    muster_mem_free(matrix);
    return status;
}

/* The vectors of CGLS, in one block of memory. */
typedef struct cgls {
    double *x;         // rows: the solution
    double *gradient;  // rows: B r
    double *direction; // rows
    double *left;      // equations: r = target - B' x
    double *step;      // equations: B' direction
} cgls;

/* Returns the rounds it took. */
static uint32_t cgls_solve(const lsq_problem *p, const cgls *v, uint32_t output)
{
    uint32_t outputs = p->code->info.gradient_blocks;
    memset(v->x, 0, p->rows * sizeof(double));
    memset(v->gradient, 0, p->rows * sizeof(double));
    for (uint32_t e = 0; e < p->equations; e++) {
        v->left[e] = e % outputs == output ? 1.0 : 0.0;
    }
    multiply(p, v->left, v->gradient);
    memcpy(v->direction, v->gradient, p->rows * sizeof(double));
    double now = muster_dot_f64(v->gradient, v->gradient, p->rows);
    double stop = 1e-24 * now;
    double left = muster_dot_f64(v->left, v->left, p->equations);
    uint32_t round = 0;
    for (; round < ROUNDS_MAX && now > stop; round++) {
        memset(v->step, 0, p->equations * sizeof(double));
        multiply_transposed(p, v->direction, v->step);
        double curve = muster_dot_f64(v->step, v->step, p->equations);
        if (!(curve > 0.0)) {
            break;
        }
        double alpha = now / curve;
        for (uint32_t i = 0; i < p->rows; i++) {
            v->x[i] += alpha * v->direction[i];
        }
        for (uint32_t e = 0; e < p->equations; e++) {
            v->left[e] -= alpha * v->step[e];
        }
        memset(v->gradient, 0, p->rows * sizeof(double));
        multiply(p, v->left, v->gradient);
        double next = muster_dot_f64(v->gradient, v->gradient, p->rows);
        for (uint32_t i = 0; i < p->rows; i++) {
            v->direction[i] = v->gradient[i] + next / now * v->direction[i];
        }
        // What a round takes off the squared residual is known beforehand.
        left -= alpha * now;
        if (alpha * now < p->query->improvement_min * left) {
            break;
        }
        now = next;
    }
    return round;
}

static muster_status solve_sparse(const lsq_problem *p,
                                  muster_code_query *query)
{
    size_t rows = p->rows;
    double *memory =
        muster_mem_array(3 * rows + 2 * (size_t)p->equations, sizeof(double));
    if (memory == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    cgls v = {memory, memory + rows, memory + 2 * rows, memory + 3 * rows,
              memory + 3 * rows + p->equations};
    query->fit.condition = NAN;
    uint64_t terms = 0;
    for (uint32_t r = 0; r < query->count; r++) {
        terms += p->code->term_spans[query->responders[r]].count;
    }
    for (uint32_t u = 0; u < p->code->info.gradient_blocks; u++) {
        query->multiplied += 2 * terms * (cgls_solve(p, &v, u) + UINT64_C(1));
        put_terms(p, query, u, v.x);
    }
    muster_mem_free(memory);
    return MUSTER_OK;
}

muster_status muster_code_least_squares(const muster_code *code,
                                        muster_code_query *query)
{
    lsq_problem problem = {.code = code,
                           .query = query,
                           .rows = query->count * code->info.message_blocks,
                           .equations =
                               code->info.parts * code->info.gradient_blocks};
    query->term_count = 0;
    query->fit.condition = 1.0;
    muster_status status = MUSTER_OK;
    if (problem.rows > 0) {
        bool dense =
            (uint64_t)problem.rows * problem.equations <= DENSE_ENTRIES_MAX;
        status = dense ? solve_dense(&problem, query)
                       : solve_sparse(&problem, query);
    }
    return status == MUSTER_OK ? muster_code_measure(code, query) : status;
}
