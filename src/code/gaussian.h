/*
 * code/gaussian.h -- how badly conditioned Gaussian matrices get.
 */
#ifndef MUSTER_CODE_GAUSSIAN_H
#define MUSTER_CODE_GAUSSIAN_H

#include <stdint.h>

/*
 * With probability 1 - risk, no one of exp(log_choices) Gaussian matrices of
 * rows <= columns, dependent or not, has a larger 2-norm condition (Chen and
 * Dongarra, 2005: P(kappa > x c / (c - r + 1)) < (6.414 / x)^(c - r + 1) /
 * sqrt(2 pi), summed over the choices).
 */
double muster_gaussian_condition(uint32_t rows, uint32_t columns,
                                 double log_choices, double risk);

/* The logarithm of n over k. */
double muster_gaussian_log_choose(uint32_t n, uint32_t k);

#endif // MUSTER_CODE_GAUSSIAN_H
