/*
 * The optimisers: one loop each, in float, with the constants of the step
 * worked out in double before it.
 */
#include "model/optim.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "model/options.h"

static muster_status read_options(const char *what, const char *options,
                                  muster_error *error_out, muster_optim *optim)
{
    const double below_one = nextafter(1.0, 0.0);
    const muster_model_setting momentum[] = {
        {"beta", 0, below_one, false, &optim->beta1},
    };
    const muster_model_setting adam[] = {
        {"b1", 0, below_one, false, &optim->beta1},
        {"b2", 0, below_one, false, &optim->beta2},
        {"eps", 1e-30, 1, false, &optim->epsilon},
    };
    switch (optim->kind) {
    case MUSTER_OPTIM_SGD:
        return muster_model_options_read(what, options, NULL, 0, error_out);
    case MUSTER_OPTIM_MOMENTUM:
    case MUSTER_OPTIM_NESTEROV:
        return muster_model_options_read(what, options, momentum, 1, error_out);
    case MUSTER_OPTIM_ADAM:
        return muster_model_options_read(what, options, adam, 3, error_out);
    }
    return MUSTER_OK;
}

muster_status muster_optim_parse(const char *spec, muster_error *error_out,
                                 muster_optim *optim_out)
{
    static const struct {
        const char *name;
        muster_optim optim;
    } known[] = {
        {"sgd", {MUSTER_OPTIM_SGD, 0, 0, 0, 0}},
        {"momentum", {MUSTER_OPTIM_MOMENTUM, 1, 0.9, 0, 0}},
        {"nesterov", {MUSTER_OPTIM_NESTEROV, 1, 0.9, 0, 0}},
        {"adam", {MUSTER_OPTIM_ADAM, 2, 0.9, 0.999, 1e-8}},
    };
    size_t length = strcspn(spec, ":");
    const char *options = spec[length] == ':' ? spec + length + 1 : "";
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strlen(known[i].name) != length ||
            memcmp(known[i].name, spec, length) != 0) {
            continue;
        }
        muster_optim optim = known[i].optim;
        char what[64];
        (void)snprintf(what, sizeof(what), "--optimizer %s", known[i].name);
        muster_status status = read_options(what, options, error_out, &optim);
        if (status == MUSTER_OK) {
            *optim_out = optim;
        }
        return status;
    }
    return muster_error_set(error_out, MUSTER_ERR_INVALID,
                            "--optimizer %s: unknown; use sgd, momentum, "
                            "nesterov or adam",
                            spec);
}

static void apply_momentum(const muster_optim *optim, float lr,
                           const muster_optim_arrays *arrays, size_t begin,
                           size_t end)
{
    const float beta = (float)optim->beta1;
    const float *g = arrays->gradient;
    float *v = arrays->state;
    if (optim->kind == MUSTER_OPTIM_MOMENTUM) {
        for (size_t i = begin; i < end; i++) {
            v[i] = beta * v[i] + g[i];
            arrays->theta_out[i] = arrays->theta[i] - lr * v[i];
        }
        return;
    }
    for (size_t i = begin; i < end; i++) {
        v[i] = beta * v[i] + g[i];
        arrays->theta_out[i] = arrays->theta[i] - lr * (g[i] + beta * v[i]);
    }
}

static void apply_adam(const muster_optim *optim, uint64_t step, double lr,
                       const muster_optim_arrays *arrays, size_t begin,
                       size_t end)
{
    const double t = (double)step + 1;
    const double correct1 = 1 - pow(optim->beta1, t);
    const double correct2 = 1 - pow(optim->beta2, t);
    const float scale = (float)(lr / correct1);
    const float root = (float)(1 / sqrt(correct2));
    const float b1 = (float)optim->beta1;
    const float b2 = (float)optim->beta2;
    const float rest1 = (float)(1 - optim->beta1);
    const float rest2 = (float)(1 - optim->beta2);
    const float epsilon = (float)optim->epsilon;
    const float *g = arrays->gradient;
    float *m = arrays->state;
    float *v = arrays->state + arrays->dim;
    for (size_t i = begin; i < end; i++) {
        m[i] = b1 * m[i] + rest1 * g[i];
        v[i] = b2 * v[i] + rest2 * g[i] * g[i];
        arrays->theta_out[i] =
            arrays->theta[i] - scale * m[i] / (sqrtf(v[i]) * root + epsilon);
    }
}

void muster_optim_apply(const muster_optim *optim, uint64_t step, double lr,
                        const muster_optim_arrays *arrays, size_t begin,
                        size_t end)
{
    MUSTER_ASSERT(begin <= end && end <= arrays->dim);
    switch (optim->kind) {
    case MUSTER_OPTIM_SGD:
        for (size_t i = begin; i < end; i++) {
            arrays->theta_out[i] =
                arrays->theta[i] - (float)lr * arrays->gradient[i];
        }
        break;
    case MUSTER_OPTIM_MOMENTUM:
    case MUSTER_OPTIM_NESTEROV:
        apply_momentum(optim, (float)lr, arrays, begin, end);
        break;
    case MUSTER_OPTIM_ADAM:
        apply_adam(optim, step, lr, arrays, begin, end);
        break;
    }
}
