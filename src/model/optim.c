/*
 * The optimisers: one loop each, in float, with the constants of the step
 * worked out in double before it.
 */
#include "model/optim.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/simd.h"
#include "base/spec.h"
#include "base/suggest.h"

#define BELOW_1 0.99999999999999988898 // the largest double below 1

#define FIELD(label, member, from, to)                                       \
    {                                                                        \
        (label), MUSTER_SPEC_DOUBLE, offsetof(muster_optim, member), (from), \
            (to), NULL, false                                                \
    }

static const muster_spec_field momentum_fields[] = {
    FIELD("beta", beta1, 0, BELOW_1), {.name = NULL}};
static const muster_spec_field adam_fields[] = {
    FIELD("b1", beta1, 0, BELOW_1),
    FIELD("b2", beta2, 0, BELOW_1),
    FIELD("eps", epsilon, 1e-30, 1),
    {.name = NULL},
};
static const muster_spec_field adamw_fields[] = {
    FIELD("b1", beta1, 0, BELOW_1),
    FIELD("b2", beta2, 0, BELOW_1),
    FIELD("eps", epsilon, 1e-30, 1),
    FIELD("decay", decay, 0, 1),
    {.name = NULL},
};
static const muster_spec_field no_fields[] = {{.name = NULL}};

static const struct {
    const char *name;
    const muster_spec_field *fields;
    muster_optim optim;
} known[] = {
    {"sgd", no_fields, {MUSTER_OPTIM_SGD, 0, 0, 0, 0, 0}},
    {"momentum", momentum_fields, {MUSTER_OPTIM_MOMENTUM, 1, 0.9, 0, 0, 0}},
    {"nesterov", momentum_fields, {MUSTER_OPTIM_NESTEROV, 1, 0.9, 0, 0, 0}},
    {"adam", adam_fields, {MUSTER_OPTIM_ADAM, 2, 0.9, 0.999, 1e-8, 0}},
    {"adamw", adamw_fields, {MUSTER_OPTIM_ADAM, 2, 0.9, 0.999, 1e-8, 0.01}},
};
#define KNOWN (sizeof(known) / sizeof(known[0]))

muster_status muster_optim_parse(const char *spec, muster_error *error_out,
                                 muster_optim *optim_out)
{
    const char *params;
    size_t length = muster_spec_name(spec, &params);
    muster_suggestion meant = muster_suggestion_make(spec, length);
    for (size_t i = 0; i < KNOWN; i++) {
        muster_suggestion_add(&meant, known[i].name);
        if (!muster_spec_is(spec, known[i].name)) {
            continue;
        }
        muster_optim optim = known[i].optim;
        char place[64];
        (void)snprintf(place, sizeof(place), "--optimizer %s", known[i].name);
        muster_status status = muster_spec_read(place, params, known[i].fields,
                                                &optim, NULL, error_out);
        if (status == MUSTER_OK) {
            *optim_out = optim;
        }
        return status;
    }
    return muster_suggestion_fail(&meant, "--optimizer ", error_out);
}

double muster_optim_clip(double norm_max, double norm)
{
    return norm_max > 0 && norm > norm_max ? norm_max / norm : 1;
}

MUSTER_SIMD static void apply_momentum(const muster_optim *optim, float lr,
                                       const muster_optim_arrays *arrays,
                                       size_t begin, size_t end)
{
    const float beta = (float)optim->beta1;
    const float *g = arrays->gradient;
    const float *theta = arrays->theta;
    float *theta_out = arrays->theta_out;
    float *v = arrays->state;
    if (optim->kind == MUSTER_OPTIM_MOMENTUM) {
        for (size_t i = begin; i < end; i++) {
            v[i] = beta * v[i] + g[i];
            theta_out[i] = theta[i] - lr * v[i];
        }
        return;
    }
    for (size_t i = begin; i < end; i++) {
        v[i] = beta * v[i] + g[i];
        theta_out[i] = theta[i] - lr * (g[i] + beta * v[i]);
    }
}

MUSTER_SIMD static void apply_adam(const muster_optim_step *step,
                                   const muster_optim_arrays *arrays,
                                   size_t begin, size_t end)
{
    const muster_optim *optim = step->optim;
    const double t = (double)step->number + 1;
    const double correct1 = 1 - pow(optim->beta1, t);
    const double correct2 = 1 - pow(optim->beta2, t);
    const float scale = (float)(step->lr / correct1);
    const float root = (float)(1 / sqrt(correct2));
    const float b1 = (float)optim->beta1;
    const float b2 = (float)optim->beta2;
    const float rest1 = (float)(1 - optim->beta1);
    const float rest2 = (float)(1 - optim->beta2);
    const float epsilon = (float)optim->epsilon;
    const float keep = (float)(1 - step->lr * optim->decay);
    const float *g = arrays->gradient;
    const float *theta = arrays->theta;
    float *theta_out = arrays->theta_out;
    float *m = arrays->state;
    float *v = arrays->state + arrays->dim;
    for (size_t i = begin; i < end; i++) {
        float first = b1 * m[i] + rest1 * g[i];
        float second = b2 * v[i] + rest2 * g[i] * g[i];
        m[i] = first;
        v[i] = second;
        theta_out[i] =
            keep * theta[i] - scale * first / (sqrtf(second) * root + epsilon);
    }
}

void muster_optim_apply(const muster_optim_step *step,
                        const muster_optim_arrays *arrays, size_t begin,
                        size_t end)
{
    const float lr = (float)step->lr;
    MUSTER_ASSERT(begin <= end && end <= arrays->dim);
    switch (step->optim->kind) {
    case MUSTER_OPTIM_SGD:
        for (size_t i = begin; i < end; i++) {
            arrays->theta_out[i] = arrays->theta[i] - lr * arrays->gradient[i];
        }
        break;
    case MUSTER_OPTIM_MOMENTUM:
    case MUSTER_OPTIM_NESTEROV:
        apply_momentum(step->optim, lr, arrays, begin, end);
        break;
    case MUSTER_OPTIM_ADAM:
        apply_adam(step, arrays, begin, end);
        break;
    }
}
