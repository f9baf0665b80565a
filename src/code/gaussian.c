/*
 * gaussian.c -- the bound of Chen and Dongarra over many choices.
 */
#include "code/gaussian.h"

#include <math.h>

#define PI 3.14159265358979323846

double muster_gaussian_condition(uint32_t rows, uint32_t columns,
                                 double log_choices, double risk)
{
    double power = (double)columns - rows + 1.0;
    double log_x = (log_choices - log(risk) - 0.5 * log(2.0 * PI)) / power;
    return columns / power * 6.414 * exp(log_x);
}

double muster_gaussian_log_choose(uint32_t n, uint32_t k)
{
    return lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma((double)n - k + 1.0);
}
