/*
 * kge_loss.c -- the losses of a question over its candidates: scores become the
 * gradients of the loss by the scores, in place.
 */
#include <math.h>
#include <string.h>

#include "task/kernel.h"
#include "task/kge.h"

/* exp(scale * (score - max)) normalised. */
static void soften(float *scores, uint32_t count, float scale)
{
    float max = muster_kernel_max(scores, count);
    float sum = muster_kernel_exp(scores, count, scale, max);
    muster_kernel_scale(1 / sum, scores, count);
}

static double negative_log(float probability)
{
    return -(double)logf(probability > 1e-12f ? probability : 1e-12f);
}

/* Negatives that score `shift` more are a truth that scores as much less. */
static double softmax(float shift, float *truth, float *scores, uint32_t count)
{
    float max = muster_kernel_max(scores, count);
    float right = *truth - shift;
    max = right > max ? right : max;
    (void)muster_kernel_exp(&right, 1, 1, max);
    float sum = right + muster_kernel_exp(scores, count, 1, max);
    muster_kernel_scale(1 / sum, scores, count);
    *truth = right / sum - 1;
    return negative_log(right / sum);
}

double muster_kge_weigh(const muster_kge *k, float *truth, float *scores,
                        float *scratch, uint32_t count)
{
    const muster_kge_options *options = &k->options;
    if (options->loss == MUSTER_KGE_SOFTMAX) {
        return softmax(k->shift, truth, scores, count);
    }
    float right = muster_kernel_sigmoid(*truth);
    if (options->loss == MUSTER_KGE_ADVERSARIAL) {
        memcpy(scratch, scores, count * sizeof(float));
        soften(scratch, count, (float)options->temperature);
        muster_kernel_sigmoids(scores, count);
        muster_kernel_product(scratch, scores, count);
    } else {
        muster_kernel_sigmoids(scores, count);
    }
    *truth = right - 1;
    return negative_log(right);
}
