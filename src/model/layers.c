/*
 * The built-in models: described, and given their first theta. They are made in
 * layers_spec.c; what they compute is in layers_pass.c.
 */
#include "model/layers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "model/conv_kernel.h"
#include "model/layers_pass.h"
#include "model/layers_spec.h"

typedef muster_layers layers;

static muster_model_kind layers_kind(const void *model)
{
    return ((const layers *)model)->loss.kind;
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

/* --- tensors -------------------------------------------------------------- */

typedef struct tensor_list {
    muster_model_tensor *next;
    uint32_t count;
    const char *prefix; // "layer" or "conv"
    uint32_t number;    // of the layer
    bool is_numbered;
} tensor_list;

/* A matrix, or with columns == 0 a vector, which the l2 term leaves out. */
static void add_tensor(tensor_list *list, const char *name, size_t offset,
                       size_t rows, size_t columns)
{
    muster_model_tensor *tensor = list->next++;
    *tensor = (muster_model_tensor){
        .offset = offset,
        .rank = columns > 0 ? 2 : 1,
        .shape = {rows, columns},
        .is_bias = columns == 0,
    };
    if (list->is_numbered) {
        (void)snprintf(tensor->name, sizeof(tensor->name), "%s%u.%s",
                       list->prefix, list->number, name);
    } else {
        (void)snprintf(tensor->name, sizeof(tensor->name), "%s", name);
    }
    list->count++;
}

static void add_conv_tensors(const muster_conv *conv, tensor_list *list)
{
    list->prefix = "conv";
    list->is_numbered = true;
    for (uint32_t l = 0; l < conv->count; l++) {
        const muster_conv_layer *layer = &conv->layers[l];
        list->number = l;
        add_tensor(list, "weight", layer->weights,
                   (size_t)MUSTER_CONV_TAPS * layer->in.channels,
                   layer->filters);
        add_tensor(list, "bias", layer->biases, layer->filters, 0);
    }
}

static uint32_t layers_tensors(const void *model,
                               muster_model_tensor *tensors_out)
{
    const layers *net = model;
    tensor_list list = {.next = tensors_out};
    add_conv_tensors(&net->conv, &list);
    list.prefix = "layer";
    list.is_numbered = net->count > 1 || net->conv.count > 0;
    for (uint32_t l = 0; l < net->count; l++) {
        uint32_t width = net->sizes[l + 1];
        list.number = l;
        add_tensor(&list, "weight", net->weights[l], net->sizes[l], width);
        add_tensor(&list, "bias", net->biases[l], width, 0);
        if (net->has_norm && l + 1 < net->count) {
            add_tensor(&list, "gain", net->gains[l], width, 0);
            add_tensor(&list, "shift", net->gains[l] + width, width, 0);
        }
    }
    return list.count;
}

/* --- the start ------------------------------------------------------------ */

static void draw(muster_rng rng, double bound, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++) {
        out[i] = (float)((2 * muster_rng_uniform(&rng) - 1) * bound);
    }
}

static void init_conv(const muster_conv *conv, uint64_t seed, float *theta_out)
{
    for (uint32_t l = 0; l < conv->count; l++) {
        const muster_conv_layer *layer = &conv->layers[l];
        size_t taps = (size_t)MUSTER_CONV_TAPS * layer->in.channels;
        draw(muster_rng_make(seed, MUSTER_LAYERS_MAX + l),
             sqrt(6 / (double)taps), taps * layer->filters,
             theta_out + layer->weights);
    }
}

/* One layer is convex and starts at 0. Hidden layers and convolutions start
 * uniform in +-sqrt(6 / fan in) (He et al., 2015), the last in
 * +-sqrt(3 / fan in); gains at 1. */
static void layers_init(const void *model, uint64_t seed, float *theta_out)
{
    const layers *net = model;
    memset(theta_out, 0, net->dim * sizeof(float));
    if (net->count == 1 && net->conv.count == 0) {
        return;
    }
    init_conv(&net->conv, seed, theta_out);
    for (uint32_t l = 0; l < net->count; l++) {
        bool is_hidden = l + 1 < net->count;
        double gain = is_hidden ? 6 : 3;
        uint32_t width = net->sizes[l + 1];
        draw(muster_rng_make(seed, l), sqrt(gain / net->sizes[l]),
             (size_t)net->sizes[l] * width, theta_out + net->weights[l]);
        for (uint32_t i = 0; net->has_norm && is_hidden && i < width; i++) {
            theta_out[net->gains[l] + i] = 1;
        }
    }
}

#define LAYERS_OPS(NAME)                              \
    const muster_model_ops muster_model_##NAME = {    \
        .abi = MUSTER_MODEL_ABI,                      \
        .name = #NAME,                                \
        .create = muster_layers_create_##NAME,        \
        .free = muster_layers_free,                   \
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
LAYERS_OPS(cnn);
