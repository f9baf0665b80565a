/*
 * task/kernel.h -- the arithmetic of the sparse tasks, on plain pointers.
 *
 * Shared by the tasks (rows lent by the parameter server) and by the plain
 * loops of the benchmark (rows in an array), so that the two differ in nothing
 * but how they reach a row. Rows are any number of floats long; sums run over
 * eight lanes in a fixed order, the same on every machine of one build.
 *
 *   Threads      Pure functions. Pointers of one call must not overlap unless
 *                said otherwise.
 */
#ifndef MUSTER_TASK_KERNEL_H
#define MUSTER_TASK_KERNEL_H

#include <stdint.h>

float muster_kernel_dot(const float *a, const float *b, uint32_t n);

/* y += scale * x */
void muster_kernel_axpy(float scale, const float *x, float *y, uint32_t n);

/* Sum of squares. */
float muster_kernel_square(const float *a, uint32_t n);

/* sum |a_i - b_i|, and the root of sum (a_i - b_i)^2, at least 1e-12. */
float muster_kernel_distance(const float *a, const float *b, uint32_t n);
float muster_kernel_length(const float *a, const float *b, uint32_t n);

/* sum a_i */
float muster_kernel_sum(const float *a, uint32_t n);

/* 1 / (1 + exp(-x)) */
float muster_kernel_sigmoid(float x);

/* The same for many, to about 2e-7 of each value; and what losses need: the
 * greatest (-INFINITY of none); x = exp(scale * (x - from)), whose sum is
 * returned, with exponents held to -87..88; x *= scale; x *= by. */
void muster_kernel_sigmoids(float *x, uint32_t n);
float muster_kernel_max(const float *x, uint32_t n);
float muster_kernel_exp(float *x, uint32_t n, float scale, float from);
void muster_kernel_scale(float scale, float *x, uint32_t n);
void muster_kernel_product(const float *by, float *x, uint32_t n);
void muster_kernel_quotient(const float *by, float *x, uint32_t n); // x /= by

/* x_i = value where keys_i == key. */
void muster_kernel_replace(float *x, const uint32_t *keys, uint32_t n,
                           uint32_t key, float value);

/*
 * Matrix factorisation: one cell of value `x`, both factors moved along the
 * gradient of (x - w.h)^2 / 2 + l2/2 (|w|^2 + |h|^2). Returns the error before
 * the move. In the second form each factor is followed by its n sums of
 * squares (AdaGrad).
 */
float muster_kernel_mf(float *w, float *h, uint32_t n, float x, float rate,
                       float l2);
float muster_kernel_mf_adagrad(float *w, float *h, uint32_t n, float x,
                               float rate, float l2);

/*
 * The same with biases: x ~ w.h + unit (b + c), where b and c are the floats
 * behind the n of w and h, moved as if `unit` were the factor that each of them
 * is multiplied with. In the second form each row of n + 1 floats is followed
 * by its n + 1 sums of squares.
 */
typedef struct muster_kernel_mf_step {
    float rate;
    float l2;
    float unit;
} muster_kernel_mf_step;

float muster_kernel_mf_bias(float *w, float *h, uint32_t n, float x,
                            const muster_kernel_mf_step *step);
float muster_kernel_mf_bias_adagrad(float *w, float *h, uint32_t n, float x,
                                    const muster_kernel_mf_step *step);

/* AdaGrad with an optional cubic penalty: gradient g_i + n3 |w_i| w_i; the
 * row's n weights are followed by their n sums of squares. */
void muster_kernel_adagrad(float *row, const float *gradient, uint32_t n,
                           float rate, float n3);

/*
 * One candidate row of a dot-product model, in place: with gradient `g` of the
 * loss by its score, query_gradient += g * row, and row moves by AdaGrad along
 * g * query (+ n3 |w| w).
 */
void muster_kernel_candidate(float *row, const float *query,
                             float *query_gradient, uint32_t n, float g,
                             const float *rate_n3);

/* The same for TransE, whose score falls with the distance |query - row|_1:
 * the gradient by the query is -g sign(query - row). */
void muster_kernel_candidate_l1(float *row, const float *query,
                                float *query_gradient, uint32_t n, float g,
                                const float *rate_n3);

/* And with the length |query - row|_2: -g (query - row) / length. */
void muster_kernel_candidate_l2(float *row, const float *query,
                                float *query_gradient, uint32_t n, float g,
                                const float *rate_n3);

/* One query against `count` rows of n floats, one after the other: their
 * distances |query - row|_1; and with gradients g by the scores, which fall
 * with these, what is added to those by the query, both[0], and by the rows,
 * both[1]. Where query and row are equal any sign is right. */
void muster_kernel_distances(const float *query, const float *rows,
                             uint32_t count, uint32_t n, float *distances_out);
void muster_kernel_distances_back(const float *query, const float *rows,
                                  const float *g, float *const *both,
                                  uint32_t count, uint32_t n);

/* Lengths |query - row|_2, at least 1e-6, of many rows, whose products with the
 * query are in x, given the squares of the rows and that of the query. */
void muster_kernel_lengths(float *x, const float *squares, uint32_t count,
                           float square);

/* Complex numbers as n/2 real parts followed by n/2 imaginary parts.
 * product: q = a b; and its two gradients: da = dq conj(b), db = dq conj(a). */
void muster_kernel_complex(const float *a, const float *b, float *q,
                           uint32_t n);
void muster_kernel_complex_back(const float *dq, const float *b, float *da,
                                uint32_t n);

/* Skip-gram with negative sampling, one output row: g = (label - sigmoid(in .
 * out)) * rate; in_gradient += g out; out += g in. Returns the logistic loss
 * of a true pair, 0 for a negative. */
float muster_kernel_skipgram(const float *in, float *in_gradient, float *out,
                             uint32_t n, const float *label_rate);

#endif // MUSTER_TASK_KERNEL_H
