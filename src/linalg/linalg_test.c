/*
 * linalg_test.c -- the kernels against their slow twins: weighted sums in long
 * double one number at a time, pseudo-inverses by the four Penrose conditions,
 * solves by multiplying back.
 */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "linalg/combine.h"
#include "linalg/dense.h"
#include "linalg/vanish.h"

static float slow_combine(const float *const *rows, const double *weights,
                          uint32_t count, size_t t)
{
    long double sum = 0.0L;
    for (uint32_t i = 0; i < count; i++) {
        sum += (long double)weights[i] * (long double)rows[i][t];
    }
    return (float)sum;
}

/* Rows of normal numbers, with weights and room for the sum. */
typedef struct combine_case {
    float *memory;
    float *out;
    double *scratch;
    const float *rows[200];
    double weights[200];
    double squares[200];
    muster_combine_rows input;
} combine_case;

static void combine_case_init(combine_case *c, uint32_t count, size_t length)
{
    muster_rng rng = muster_rng_make(7, count);
    memset(c, 0, sizeof(*c));
    c->memory = muster_mem_array(count * length + 1, sizeof(float));
    c->out = muster_mem_array(length + 1, sizeof(float));
    c->scratch = muster_mem_raw_aligned(MUSTER_COMBINE_RUN, sizeof(double));
    assert_non_null(c->memory);
    assert_non_null(c->out);
    assert_non_null(c->scratch);
    for (uint32_t i = 0; i < count; i++) {
        c->rows[i] = c->memory + i * length;
        c->weights[i] = muster_rng_normal(&rng);
    }
    for (size_t t = 0; t < count * length; t++) {
        c->memory[t] = (float)muster_rng_normal(&rng);
    }
    c->input = (muster_combine_rows){c->rows, c->weights, c->squares, count};
}

static void combine_case_fini(combine_case *c)
{
    muster_mem_free(c->scratch);
    muster_mem_free(c->out);
    muster_mem_free(c->memory);
}

static void check_squares(const combine_case *c, size_t length)
{
    for (uint32_t i = 0; i < c->input.count; i++) {
        double sum = 0.0;
        for (size_t t = 0; t < length; t++) {
            sum += (double)c->rows[i][t] * (double)c->rows[i][t];
        }
        assert_true(fabs(c->squares[i] - sum) <= 1e-4 * sum);
    }
}

static void check_combine(uint32_t count, size_t length)
{
    combine_case c;
    combine_case_init(&c, count, length);
    c.out[length] = 42.0f;
    size_t half = length / 3;
    muster_combine(&c.input, half, length, c.scratch, c.out);
    muster_combine(&c.input, 0, half, c.scratch, c.out);
    for (size_t t = 0; t < length; t++) {
        float want = slow_combine(c.rows, c.weights, count, t);
        assert_true(fabsf(c.out[t] - want) <=
                    FLT_EPSILON * fabsf(want) + 1e-30f);
    }
    assert_true(c.out[length] == 42.0f);
    check_squares(&c, length);
    combine_case_fini(&c);
}

static void combine_equals_its_slow_twin(void **state)
{
    (void)state;
    static const uint32_t counts[] = {0,  1,  2,  3,  4,   5,   7,  8,
                                      13, 14, 15, 64, 127, 129, 200};
    static const size_t lengths[] = {0, 1, 3, 127, 128, 129, 1000};
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
            check_combine(counts[c], lengths[l]);
        }
    }
    check_combine(7, MUSTER_COMBINE_RUN + 77);
    check_combine(8, 2 * MUSTER_COMBINE_RUN + 77);
}

/* Few rows need no scratch, many do; neither shows in the bits. */
static void a_range_split_changes_no_bit(void **state)
{
    (void)state;
    enum { LENGTH = MUSTER_COMBINE_RUN + 700, CUT = 4097 };
    static float whole[LENGTH];
    static const uint32_t counts[] = {3, 7, 8, 25};
    for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
        combine_case c;
        combine_case_init(&c, counts[k], LENGTH);
        double *scratch =
            counts[k] > MUSTER_COMBINE_TOGETHER ? c.scratch : NULL;
        muster_combine(&c.input, 0, LENGTH, scratch, whole);
        for (size_t at = 0; at < LENGTH; at += CUT) {
            size_t end = at + CUT < LENGTH ? at + CUT : LENGTH;
            muster_combine(&c.input, at, end, scratch, c.out);
        }
        assert_memory_equal(whole, c.out, sizeof(whole));
        combine_case_fini(&c);
    }
}

/* Rows of more than fit a group are added in the order they are given. */
static void rows_are_added_in_order(void **state)
{
    (void)state;
    combine_case c;
    combine_case_init(&c, 29, 300);
    muster_combine(&c.input, 0, 300, c.scratch, c.out);
    for (size_t t = 0; t < 300; t++) {
        double sum = 0.0;
        for (uint32_t i = 0; i < 29; i++) {
            double product = c.weights[i] * (double)c.rows[i][t];
            sum += product;
        }
        assert_true(c.out[t] == (float)sum);
    }
    combine_case_fini(&c);
}

static void squares_beyond_float_are_finite(void **state)
{
    (void)state;
    combine_case c;
    combine_case_init(&c, 2, 200);
    c.memory[150] = 1e30f;
    muster_combine(&c.input, 0, 200, NULL, c.out);
    assert_true(fabs(c.squares[0] / ((double)1e30f * (double)1e30f) - 1.0) <
                1e-6);
    assert_true(c.squares[1] > 100.0 && c.squares[1] < 400.0);
    combine_case_fini(&c);
}

static void multiply(const double *a, const double *b, uint32_t rows,
                     uint32_t inner, uint32_t cols, double *out)
{
    for (uint32_t i = 0; i < rows; i++) {
        for (uint32_t j = 0; j < cols; j++) {
            long double sum = 0.0L;
            for (uint32_t k = 0; k < inner; k++) {
                sum += (long double)a[i * inner + k] * b[k * cols + j];
            }
            out[i * cols + j] = (double)sum;
        }
    }
}

/* x = pinv(a) iff a x a = a, x a x = x, and a x, x a are symmetric. */
static void check_penrose(const double *a, uint32_t rows, uint32_t cols)
{
    enum { ENTRIES_MAX = 70 * 70 };
    static double x[ENTRIES_MAX], ax[ENTRIES_MAX], xa[ENTRIES_MAX],
        axa[ENTRIES_MAX], xax[ENTRIES_MAX];
    muster_dense_shape shape;
    assert_int_equal(muster_dense_pinv(a, rows, cols, x, &shape), MUSTER_OK);
    multiply(a, x, rows, cols, rows, ax);
    multiply(x, a, cols, rows, cols, xa);
    multiply(ax, a, rows, rows, cols, axa);
    multiply(xa, x, cols, cols, rows, xax);
    double scale = 1e-13 * fmin(shape.condition, 1e11) * (double)(rows + cols);
    for (uint32_t i = 0; i < rows * cols; i++) {
        assert_true(fabs(axa[i] - a[i]) < scale);
    }
    for (uint32_t i = 0; i < rows * cols; i++) {
        assert_true(fabs(xax[i] - x[i]) < scale * (1.0 + fabs(x[i])));
    }
    for (uint32_t i = 0; i < rows; i++) {
        for (uint32_t j = 0; j < i; j++) {
            assert_true(fabs(ax[i * rows + j] - ax[j * rows + i]) < scale);
        }
    }
}

static void pinv_meets_the_penrose_conditions(void **state)
{
    (void)state;
    static double a[70 * 70];
    static const uint32_t shapes[][2] = {{1, 1},   {1, 5},   {5, 1},   {4, 4},
                                         {9, 3},   {3, 9},   {20, 20}, {33, 33},
                                         {50, 40}, {40, 50}, {70, 33}};
    muster_rng rng = muster_rng_make(11, 0);
    for (size_t c = 0; c < sizeof(shapes) / sizeof(shapes[0]); c++) {
        uint32_t count = shapes[c][0] * shapes[c][1];
        for (uint32_t i = 0; i < count; i++) {
            a[i] = muster_rng_normal(&rng);
        }
        check_penrose(a, shapes[c][0], shapes[c][1]);
    }
    // Rank one, on both routes.
    for (uint32_t size = 3; size <= 40; size += 37) {
        for (uint32_t i = 0; i < size * size; i++) {
            uint32_t row = i / size;
            a[i] = (1.0 + row) * (2.0 + i % size);
        }
        muster_dense_shape shape;
        assert_int_equal(muster_dense_measure(a, size, size, &shape),
                         MUSTER_OK);
        assert_int_equal(shape.rank, 1);
    }
}

static void conditions_are_the_known_ones(void **state)
{
    (void)state;
    double parity[6] = {1, 0, 1, 0, 1, 1}; // [3,2] parity generator
    muster_dense_shape shape;
    double diagonal[4] = {3, 0, 0, 0.5};
    assert_int_equal(muster_dense_measure(diagonal, 2, 2, &shape), MUSTER_OK);
    assert_true(fabs(shape.condition - 6.0) < 1e-12);
    double pair[4] = {parity[0], parity[2], parity[3], parity[5]};
    assert_int_equal(muster_dense_measure(pair, 2, 2, &shape), MUSTER_OK);
    assert_true(fabs(shape.condition - 2.6180339887) < 1e-9);
    double zero[4] = {1, 1, 1, 1};
    assert_int_equal(muster_dense_measure(zero, 2, 2, &shape), MUSTER_OK);
    assert_int_equal(shape.rank, 1);
    assert_true(shape.condition > 1e15);
}

static void solves_multiply_back(void **state)
{
    (void)state;
    enum { N = 40 };
    static double a[N * N], lu[N * N], b[N * 2], x[N * 2], back[N * 2];
    muster_rng rng = muster_rng_make(5, 5);
    for (uint32_t n = 1; n <= N; n += 13) {
        for (uint32_t i = 0; i < n * n; i++) {
            a[i] = muster_rng_normal(&rng);
        }
        a[0] = 0.0; // asks for a pivot
        if (n == 1) {
            a[0] = 2.0;
        }
        for (uint32_t i = 0; i < 2 * n; i++) {
            b[i] = muster_rng_normal(&rng);
        }
        memcpy(lu, a, sizeof(a));
        memcpy(x, b, sizeof(b));
        assert_int_equal(muster_dense_solve(lu, n, x, 2), MUSTER_OK);
        multiply(a, x, n, n, 2, back);
        for (uint32_t i = 0; i < 2 * n; i++) {
            assert_true(fabs(back[i] - b[i]) < 1e-9);
        }
    }
    double singular[4] = {1, 2, 2, 4};
    double rhs[2] = {1, 1};
    assert_int_equal(muster_dense_solve(singular, 2, rhs, 1),
                     MUSTER_ERR_INVALID);
}

enum { COLUMNS = 14, FREEDOM = 5, OUTPUTS = 2 };

/* The twin: Lagrange's equations of the constrained least-squares problem,
 * solved as one system for (z, multipliers). */
static void slow_vanish(const muster_vanish *p, uint32_t output, double *row)
{
    double kkt[(2 * FREEDOM) * (2 * FREEDOM)] = {0};
    double right[2 * FREEDOM] = {0};
    const double *affine = p->affine + (size_t)output * COLUMNS;
    uint32_t q = p->zero_count;
    uint32_t size = FREEDOM + q;
    for (uint32_t c = 0; c < COLUMNS; c++) {
        const double *column = p->null + (size_t)c * FREEDOM;
        double square = p->scale[c] * p->scale[c];
        for (uint32_t i = 0; i < FREEDOM; i++) {
            right[i] -= square * column[i] * affine[c];
            for (uint32_t j = 0; j < FREEDOM; j++) {
                kkt[i * size + j] += square * column[i] * column[j];
            }
        }
    }
    for (uint32_t j = 0; j < q; j++) {
        const double *column = p->null + (size_t)p->zero[j] * FREEDOM;
        right[FREEDOM + j] = -affine[p->zero[j]];
        for (uint32_t i = 0; i < FREEDOM; i++) {
            kkt[i * size + FREEDOM + j] = column[i];
            kkt[(FREEDOM + j) * size + i] = column[i];
        }
    }
    assert_int_equal(muster_dense_solve(kkt, size, right, 1), MUSTER_OK);
    for (uint32_t c = 0; c < COLUMNS; c++) {
        row[c] = affine[c];
        for (uint32_t i = 0; i < FREEDOM; i++) {
            row[c] += right[i] * p->null[(size_t)c * FREEDOM + i];
        }
    }
}

static void vanish_equals_lagranges_equations(void **state)
{
    (void)state;
    double affine[OUTPUTS * COLUMNS];
    double null[COLUMNS * FREEDOM];
    double scale[COLUMNS];
    double rows[OUTPUTS * COLUMNS];
    double slow[COLUMNS];
    const uint32_t zero[FREEDOM] = {3, 0, 11, 7, 8};
    muster_rng rng = muster_rng_make(8, 1);
    for (uint32_t i = 0; i < OUTPUTS * COLUMNS; i++) {
        affine[i] = muster_rng_normal(&rng);
    }
    for (uint32_t i = 0; i < COLUMNS * FREEDOM; i++) {
        null[i] = muster_rng_normal(&rng);
    }
    for (uint32_t i = 0; i < COLUMNS; i++) {
        scale[i] = 0.5 + muster_rng_uniform(&rng);
    }
    assert_int_equal(muster_dense_orthonormalise(null, COLUMNS, FREEDOM),
                     MUSTER_OK);
    for (uint32_t q = 0; q <= FREEDOM; q++) {
        muster_vanish p = {COLUMNS, FREEDOM, OUTPUTS, affine,
                           null,    scale,   zero,    q};
        double condition;
        assert_int_equal(muster_vanish_solve(&p, rows, &condition), MUSTER_OK);
        assert_true(q > 1 ? condition > 1.0 : condition == 1.0);
        for (uint32_t u = 0; u < OUTPUTS; u++) {
            slow_vanish(&p, u, slow);
            for (uint32_t c = 0; c < COLUMNS; c++) {
                assert_true(fabs(rows[u * COLUMNS + c] - slow[c]) < 1e-9);
            }
            for (uint32_t j = 0; j < q; j++) {
                assert_true(rows[u * COLUMNS + zero[j]] == 0.0);
            }
        }
    }
}

static void orthonormal_columns_are_orthonormal(void **state)
{
    (void)state;
    double a[12 * 4];
    muster_rng rng = muster_rng_make(9, 1);
    for (uint32_t i = 0; i < 12 * 4; i++) {
        a[i] = muster_rng_normal(&rng);
    }
    assert_int_equal(muster_dense_orthonormalise(a, 12, 4), MUSTER_OK);
    for (uint32_t i = 0; i < 4; i++) {
        for (uint32_t j = 0; j < 4; j++) {
            double sum = i == j ? -1.0 : 0.0;
            for (uint32_t r = 0; r < 12; r++) {
                sum += a[r * 4 + i] * a[r * 4 + j];
            }
            assert_true(fabs(sum) < 1e-14);
        }
    }
}

static void bad_entries_and_lost_memory_are_reported(void **state)
{
    (void)state;
    static double a[40 * 40], x[40 * 40];
    for (uint32_t i = 0; i < 40 * 40; i++) {
        a[i] = i % 41 == 0 ? 1.0 : 0.0;
    }
    int failures = 0;
    for (uint64_t allowed = 0; allowed < 20; allowed++) {
        muster_mem_fail_after(allowed);
        muster_status status = muster_dense_pinv(a, 40, 40, x, NULL);
        muster_mem_fail_after(UINT64_MAX);
        if (status == MUSTER_OK) {
            break;
        }
        assert_int_equal(status, MUSTER_ERR_NO_MEMORY);
        failures++;
    }
    assert_int_equal(failures, 3);
    a[5] = NAN;
    assert_int_equal(muster_dense_pinv(a, 40, 40, x, NULL), MUSTER_ERR_INVALID);
    assert_int_equal(muster_dense_solve(a, 40, x, 1), MUSTER_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(combine_equals_its_slow_twin),
        cmocka_unit_test(a_range_split_changes_no_bit),
        cmocka_unit_test(rows_are_added_in_order),
        cmocka_unit_test(squares_beyond_float_are_finite),
        cmocka_unit_test(pinv_meets_the_penrose_conditions),
        cmocka_unit_test(conditions_are_the_known_ones),
        cmocka_unit_test(solves_multiply_back),
        cmocka_unit_test(vanish_equals_lagranges_equations),
        cmocka_unit_test(orthonormal_columns_are_orthonormal),
        cmocka_unit_test(bad_entries_and_lost_memory_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
