/*
 * The built-in models: made from their names and options, described, and given
 * their first theta. What they compute is in layers_pass.c.
 */
#include "model/layers.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/spec.h"
#include "base/value.h"
#include "model/layers_pass.h"

#define HIDDEN_DEFAULT 128u

typedef muster_layers layers;

/* --- building ------------------------------------------------------------- */

static muster_status finish(layers *net, muster_error *error_out)
{
    size_t offset = 0;
    for (uint32_t l = 0; l < net->count; l++) {
        net->weights[l] = offset;
        offset += (size_t)net->sizes[l] * net->sizes[l + 1];
        net->biases[l] = offset;
        offset += net->sizes[l + 1];
    }
    net->dim = offset;
    if (net->sizes[0] == 0 || net->sizes[0] > INT_MAX || offset > UINT32_MAX) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "--model: %u features give %zu parameters; "
                                "at least 1 feature and at most %u parameters "
                                "are possible",
                                net->sizes[0], offset, UINT32_MAX);
    }
    return MUSTER_OK;
}

static muster_status keep(const layers *net, muster_error *error_out,
                          void **model_out)
{
    layers *model = muster_mem_array(1, sizeof(*model));
    if (model == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "--model: out of memory");
    }
    *model = *net;
    *model_out = model;
    return MUSTER_OK;
}

/* A model of one layer that takes no options. */
static muster_status create_flat(const char *name, layers *net,
                                 const muster_model_spec *spec,
                                 muster_error *error_out, void **model_out)
{
    static const muster_spec_field none[] = {{.name = NULL}};
    char place[32];
    (void)snprintf(place, sizeof(place), "--model %s", name);
    muster_status status =
        muster_spec_read(place, spec->options, none, NULL, NULL, error_out);
    if (status == MUSTER_OK) {
        status = finish(net, error_out);
    }
    return status == MUSTER_OK ? keep(net, error_out, model_out) : status;
}

static muster_status linear_create(const muster_model_spec *spec,
                                   muster_error *error_out, void **model_out)
{
    layers net = {.kind = MUSTER_MODEL_REGRESSION,
                  .count = 1,
                  .sizes = {spec->features, 1}};
    return create_flat("linear", &net, spec, error_out, model_out);
}

static muster_status logistic_create(const muster_model_spec *spec,
                                     muster_error *error_out, void **model_out)
{
    if (spec->classes != 2) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "--model logistic: needs labels of 2 classes, "
                                "the data has %u; use %s",
                                spec->classes,
                                spec->classes == 0 ? "linear" : "softmax");
    }
    layers net = {
        .kind = MUSTER_MODEL_BINARY, .count = 1, .sizes = {spec->features, 1}};
    return create_flat("logistic", &net, spec, error_out, model_out);
}

static muster_status check_classes(uint32_t classes, muster_error *error_out)
{
    if (classes < 2 || classes > MUSTER_LAYERS_WIDTH_MAX) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "--model softmax: needs labels of 2 to %u "
                                "classes, the data has %u%s",
                                MUSTER_LAYERS_WIDTH_MAX, classes,
                                classes == 0 ? "; use linear" : "");
    }
    return MUSTER_OK;
}

static muster_status softmax_create(const muster_model_spec *spec,
                                    muster_error *error_out, void **model_out)
{
    muster_status status = check_classes(spec->classes, error_out);
    if (status != MUSTER_OK) {
        return status;
    }
    layers net = {.kind = MUSTER_MODEL_CLASSES,
                  .count = 1,
                  .sizes = {spec->features, spec->classes}};
    return create_flat("softmax", &net, spec, error_out, model_out);
}

/* Append the widths of "256,128" after the features. */
static bool read_widths(const char *text, layers *net)
{
    net->count = 0;
    for (;;) {
        char number[16];
        uint64_t width = 0;
        size_t length = strcspn(text, ",");
        (void)snprintf(number, sizeof(number), "%.*s", (int)length, text);
        if (length >= sizeof(number) || !muster_value_uint(number, &width) ||
            width == 0 || width > MUSTER_LAYERS_WIDTH_MAX ||
            net->count + 2 > MUSTER_LAYERS_MAX) {
            return false;
        }
        net->sizes[++net->count] = (uint32_t)width;
        if (text[length] == '\0') {
            return true;
        }
        text += length + 1;
    }
}

typedef struct mlp_options {
    char hidden[MUSTER_SPEC_VALUE_MAX];
} mlp_options;

static muster_status read_mlp(const char *params, layers *net,
                              muster_error *error_out)
{
    static const muster_spec_field fields[] = {
        {"hidden", MUSTER_SPEC_TEXT, offsetof(mlp_options, hidden), 0,
         MUSTER_SPEC_VALUE_MAX, NULL, false},
        {.name = NULL},
    };
    mlp_options options = {.hidden = ""};
    muster_status status = muster_spec_read("--model mlp", params, fields,
                                            &options, NULL, error_out);
    if (status == MUSTER_OK && options.hidden[0] != '\0' &&
        !read_widths(options.hidden, net)) {
        return muster_error_set(
            error_out, MUSTER_ERR_INVALID,
            "--model mlp: hidden=%.60s: expected 1 to %u widths from 1 to %u, "
            "such as hidden=256,128",
            options.hidden, MUSTER_LAYERS_MAX - 1, MUSTER_LAYERS_WIDTH_MAX);
    }
    return status;
}

static muster_status mlp_create(const muster_model_spec *spec,
                                muster_error *error_out, void **model_out)
{
    layers net = {.kind = MUSTER_MODEL_CLASSES,
                  .count = 1,
                  .sizes = {spec->features, HIDDEN_DEFAULT}};
    uint32_t outputs = spec->classes;
    muster_status status = MUSTER_OK;
    if (spec->classes == 0) {
        net.kind = MUSTER_MODEL_REGRESSION;
        outputs = 1;
    } else {
        status = check_classes(spec->classes, error_out);
    }
    if (status == MUSTER_OK) {
        status = read_mlp(spec->options, &net, error_out);
    }
    if (status == MUSTER_OK) {
        net.sizes[++net.count] = outputs;
        status = finish(&net, error_out);
    }
    return status == MUSTER_OK ? keep(&net, error_out, model_out) : status;
}

/* --- what it is ----------------------------------------------------------- */

static void layers_free(void *model)
{
    muster_mem_free(model);
}

static muster_model_kind layers_kind(const void *model)
{
    return ((const layers *)model)->kind;
}

static size_t layers_dim(const void *model)
{
    return ((const layers *)model)->dim;
}

static uint32_t layers_outputs(const void *model)
{
    const layers *net = model;
    return net->sizes[net->count];
}

static uint32_t layers_tensors(const void *model,
                               muster_model_tensor *tensors_out)
{
    const layers *net = model;
    muster_model_tensor *next = tensors_out;
    for (uint32_t l = 0; l < net->count; l++) {
        char prefix[16] = "";
        if (net->count > 1) {
            (void)snprintf(prefix, sizeof(prefix), "layer%u.", l);
        }
        *next = (muster_model_tensor){
            .offset = net->weights[l],
            .rank = 2,
            .shape = {net->sizes[l], net->sizes[l + 1]},
        };
        (void)snprintf(next->name, sizeof(next->name), "%sweight", prefix);
        next++;
        *next = (muster_model_tensor){
            .offset = net->biases[l],
            .rank = 1,
            .shape = {net->sizes[l + 1], 0},
            .is_bias = true,
        };
        (void)snprintf(next->name, sizeof(next->name), "%sbias", prefix);
        next++;
    }
    return 2 * net->count;
}

/* One layer is convex and starts at 0. Hidden layers start uniform in
 * +-sqrt(6 / fan in) (He et al., 2015), the last in +-sqrt(3 / fan in). */
static void layers_init(const void *model, uint64_t seed, float *theta_out)
{
    const layers *net = model;
    memset(theta_out, 0, net->dim * sizeof(float));
    if (net->count == 1) {
        return;
    }
    for (uint32_t l = 0; l < net->count; l++) {
        double gain = l + 1 < net->count ? 6 : 3;
        double bound = sqrt(gain / net->sizes[l]);
        muster_rng rng = muster_rng_make(seed, l);
        size_t count = (size_t)net->sizes[l] * net->sizes[l + 1];
        for (size_t i = 0; i < count; i++) {
            theta_out[net->weights[l] + i] =
                (float)((2 * muster_rng_uniform(&rng) - 1) * bound);
        }
    }
}

#define LAYERS_OPS(NAME)                              \
    const muster_model_ops muster_model_##NAME = {    \
        .abi = MUSTER_MODEL_ABI,                      \
        .name = #NAME,                                \
        .create = NAME##_create,                      \
        .free = layers_free,                          \
        .kind = layers_kind,                          \
        .dim = layers_dim,                            \
        .outputs = layers_outputs,                    \
        .tensors = layers_tensors,                    \
        .init = layers_init,                          \
        .scratch_bytes = muster_layers_scratch_bytes, \
        .gradient = muster_layers_gradient,           \
        .predict = muster_layers_predict,             \
    }

LAYERS_OPS(linear);
LAYERS_OPS(logistic);
LAYERS_OPS(softmax);
LAYERS_OPS(mlp);
