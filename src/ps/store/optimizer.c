/*
 * optimizer.c -- the row optimisers. Square roots are taken by the processor's
 * own instruction (no errno), so that the loops become vector code; a loop has
 * no sum across elements, so its result does not depend on the vector width.
 */
#include "ps/store/optimizer.h"

#include <math.h>

#include "base/simd.h"

uint32_t muster_row_optimizer_state_floats(uint32_t kind, uint32_t width)
{
    switch (kind) {
    case MUSTER_PS_ADAGRAD:
        return width;
    case MUSTER_PS_ADAM:
        return 2 * width + 1;
    default:
        return 0;
    }
}

static void apply_sgd(uint32_t width, float rate, const float *gradient,
                      float *row)
{
    for (uint32_t i = 0; i < width; i++) {
        row[i] -= rate * gradient[i];
    }
}

MUSTER_SIMD static void apply_adagrad(const muster_row_optimizer *rule,
                                      float rate,
                                      const float *restrict gradient,
                                      float *restrict row)
{
    uint32_t width = rule->width;
    float epsilon = rule->epsilon;
    float *restrict sums = row + width;
    for (uint32_t i = 0; i < width; i++) {
        float g = gradient[i];
        float sum = sums[i] + g * g;
        sums[i] = sum;
        row[i] -= rate * g / (sqrtf(sum) + epsilon);
    }
}

MUSTER_SIMD static void apply_adam(const muster_row_optimizer *rule, float rate,
                                   const float *restrict gradient,
                                   float *restrict row)
{
    uint32_t width = rule->width;
    float *restrict first = row + width;
    float *restrict second = first + width;
    float *steps = second + width;
    *steps += 1;
    float beta1 = rule->beta1;
    float beta2 = rule->beta2;
    float epsilon = rule->epsilon;
    float unbias1 = 1 / (1 - powf(beta1, *steps));
    float unbias2 = 1 / (1 - powf(beta2, *steps));
    for (uint32_t i = 0; i < width; i++) {
        float g = gradient[i];
        first[i] = beta1 * first[i] + (1 - beta1) * g;
        second[i] = beta2 * second[i] + (1 - beta2) * g * g;
        row[i] -=
            rate * first[i] * unbias1 / (sqrtf(second[i] * unbias2) + epsilon);
    }
}

void muster_row_optimizer_apply(const muster_row_optimizer *rule, float rate,
                                const float *gradient, float *row)
{
    switch (rule->kind) {
    case MUSTER_PS_SGD:
        apply_sgd(rule->width, rate, gradient, row);
        return;
    case MUSTER_PS_ADAGRAD:
        apply_adagrad(rule, rate, gradient, row);
        return;
    case MUSTER_PS_ADAM:
        apply_adam(rule, rate, gradient, row);
        return;
    default:
        return;
    }
}
