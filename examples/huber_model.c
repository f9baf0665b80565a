/*
 * huber_model.c -- a model of one's own: linear regression with Huber's loss,
 * which outliers cannot pull away.
 *
 *     loss = e^2 / 2                   where |e| <= delta, e = x.w + b - y
 *            delta (|e| - delta / 2)   elsewhere
 *
 * Built with any C compiler and used by name:
 *
 *     cc -O3 -shared -fPIC -I/usr/include huber_model.c -o huber_model.so
 *     muster train --model ./huber_model.so:delta=0.5 --data prices.csv
 *
 * theta is the weights w, one per feature, then the bias b. Everything Muster
 * asks of a model is below; muster/model.h has the contract.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "muster/model.h"

typedef struct huber {
    uint32_t features;
    float delta;
} huber;

static muster_status huber_create(const muster_model_spec *spec,
                                  muster_error *error_out, void **model_out)
{
    double delta = 1;
    const char *options = spec->options;
    if (options[0] != '\0') {
        char *end = NULL;
        if (strncmp(options, "delta=", 6) == 0) {
            delta = strtod(options + 6, &end);
        }
        if (end == NULL || *end != '\0' || !(delta > 0 && delta < 1e30)) {
            error_out->status = MUSTER_ERR_INVALID;
            (void)snprintf(error_out->text, sizeof(error_out->text),
                           "huber_model: options '%.100s': it takes delta=X "
                           "with X > 0",
                           options);
            return MUSTER_ERR_INVALID;
        }
    }
    huber *model = malloc(sizeof(*model));
    if (model == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    *model = (huber){spec->features, (float)delta};
    *model_out = model;
    return MUSTER_OK;
}

static void huber_free(void *model)
{
    free(model);
}

static muster_model_kind huber_kind(const void *model)
{
    (void)model;
    return MUSTER_MODEL_REGRESSION;
}

static size_t huber_dim(const void *model)
{
    return (size_t)((const huber *)model)->features + 1;
}

static uint32_t huber_outputs(const void *model)
{
    (void)model;
    return 1;
}

/* Two pieces; the l2 term leaves out the one marked as bias. */
static uint32_t huber_tensors(const void *model,
                              muster_model_tensor *tensors_out)
{
    size_t features = ((const huber *)model)->features;
    tensors_out[0] = (muster_model_tensor){"weight", 0, 1, {features, 0}, 0};
    tensors_out[1] = (muster_model_tensor){"bias", features, 1, {1, 0}, 1};
    return 2;
}

/* The problem is convex: any start will do. */
static void huber_init(const void *model, uint64_t seed, float *theta_out)
{
    (void)seed;
    memset(theta_out, 0, huber_dim(model) * sizeof(float));
}

static size_t huber_scratch_bytes(const void *model, uint32_t rows_max)
{
    (void)model;
    (void)rows_max;
    return 0;
}

static float score(const huber *model, const float *theta,
                   const muster_rows *rows, uint32_t r)
{
    float z = theta[model->features];
    if (rows->dense != NULL) {
        const float *x = rows->dense + r * rows->stride;
        for (uint32_t f = 0; f < model->features; f++) {
            z += x[f] * theta[f];
        }
        return z;
    }
    for (uint64_t e = rows->offsets[r]; e < rows->offsets[r + 1]; e++) {
        z += rows->values[e] * theta[rows->columns[e]];
    }
    return z;
}

static void add_row(const huber *model, const muster_rows *rows, uint32_t r,
                    float slope, float *gradient)
{
    gradient[model->features] += slope;
    if (rows->dense != NULL) {
        const float *x = rows->dense + r * rows->stride;
        for (uint32_t f = 0; f < model->features; f++) {
            gradient[f] += slope * x[f];
        }
        return;
    }
    for (uint64_t e = rows->offsets[r]; e < rows->offsets[r + 1]; e++) {
        gradient[rows->columns[e]] += slope * rows->values[e];
    }
}

/* Adds to what is there; every row counts with its weight, also in the loss. */
// NOLINTNEXTLINE(readability-function-size): the shape of the public ops.
static muster_status huber_gradient(const void *model, const float *theta,
                                    const muster_rows *rows,
                                    const float *weights, void *scratch,
                                    float *gradient, double *loss)
{
    const huber *self = model;
    const float delta = self->delta;
    (void)scratch;
    for (uint32_t r = 0; r < rows->count; r++) {
        float error = score(self, theta, rows, r) - rows->labels[r];
        float size = fabsf(error);
        float row_loss =
            size <= delta ? error * error / 2 : delta * (size - delta / 2);
        float slope = size <= delta ? error : copysignf(delta, error);
        *loss += (double)weights[r] * (double)row_loss;
        add_row(self, rows, r, weights[r] * slope, gradient);
    }
    return MUSTER_OK;
}

static muster_status huber_predict(const void *model, const float *theta,
                                   const muster_rows *rows, void *scratch,
                                   float *out)
{
    (void)scratch;
    for (uint32_t r = 0; r < rows->count; r++) {
        out[r] = score(model, theta, rows, r);
    }
    return MUSTER_OK;
}

const muster_model_ops *muster_model_plugin(void);

/* The one name that Muster looks for. */
const muster_model_ops *muster_model_plugin(void)
{
    static const muster_model_ops ops = {
        .abi = MUSTER_MODEL_ABI,
        .name = "huber",
        .create = huber_create,
        .free = huber_free,
        .kind = huber_kind,
        .dim = huber_dim,
        .outputs = huber_outputs,
        .tensors = huber_tensors,
        .init = huber_init,
        .scratch_bytes = huber_scratch_bytes,
        .gradient = huber_gradient,
        .predict = huber_predict,
    };
    return &ops;
}
