/*
 * Built-in models from their options: read, checked against the data, then laid
 * out in theta.
 */
#include "model/layers_spec.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/spec.h"
#include "base/value.h"
#include "model/layers_pass.h"

#define HIDDEN_DEFAULT   "128"
#define CHANNELS_DEFAULT "16,32"
#define NUMBER_MAX       32u
#define DROPOUT_MAX      0.99
#define WEIGHT_MAX       1e6

typedef muster_layers layers;

/* All options of all models. */
typedef struct layer_options {
    char hidden[MUSTER_SPEC_VALUE_MAX];
    char channels[MUSTER_SPEC_VALUE_MAX];
    char image[NUMBER_MAX];
    char class_weights[MUSTER_SPEC_VALUE_MAX];
    double smoothing;
    double dropout;
    uint32_t norm; // 1: layer
} layer_options;

#define TEXT(label, member, room)                                              \
    {                                                                          \
        (label), MUSTER_SPEC_TEXT, offsetof(layer_options, member), 0, (room), \
            NULL, false                                                        \
    }
#define SHARE(label, member, max)                                        \
    {                                                                    \
        (label), MUSTER_SPEC_DOUBLE, offsetof(layer_options, member), 0, \
            (max), NULL, false                                           \
    }
#define CLASS_WEIGHTS \
    TEXT("class-weights", class_weights, MUSTER_SPEC_VALUE_MAX)
#define SMOOTHING SHARE("smoothing", smoothing, DROPOUT_MAX)
#define HIDDEN    TEXT("hidden", hidden, MUSTER_SPEC_VALUE_MAX)
#define DROPOUT   SHARE("dropout", dropout, DROPOUT_MAX)
#define NORM                                                           \
    {                                                                  \
        "norm", MUSTER_SPEC_WORD, offsetof(layer_options, norm), 0, 0, \
            "none|layer", false                                        \
    }
#define END          \
    {                \
        .name = NULL \
    }

static const muster_spec_field linear_fields[] = {END};
static const muster_spec_field logistic_fields[] = {CLASS_WEIGHTS, END};
static const muster_spec_field softmax_fields[] = {CLASS_WEIGHTS, SMOOTHING,
                                                   END};
static const muster_spec_field mlp_fields[] = {HIDDEN,        DROPOUT,   NORM,
                                               CLASS_WEIGHTS, SMOOTHING, END};
static const muster_spec_field cnn_fields[] = {
    TEXT("channels", channels, MUSTER_SPEC_VALUE_MAX),
    TEXT("image", image, NUMBER_MAX),
    HIDDEN,
    DROPOUT,
    NORM,
    CLASS_WEIGHTS,
    SMOOTHING,
    END,
};

/* A model in the making. */
typedef struct maker {
    const char *name;
    const muster_model_spec *spec;
    layer_options options;
    layers net;
    muster_error *error;
} maker;

static maker make(const char *name, const muster_model_spec *spec,
                  muster_model_kind kind, muster_error *error)
{
    return (maker){
        .name = name,
        .spec = spec,
        .net = {.loss = {.kind = kind}, .sizes = {spec->features}},
        .error = error,
    };
}

static muster_status read_options(maker *m, const muster_spec_field *fields)
{
    char place[32];
    (void)snprintf(place, sizeof(place), "--model %s", m->name);
    return muster_spec_read(place, m->spec->options, fields, &m->options, NULL,
                            m->error);
}

static muster_status fail(const maker *m, const char *option, const char *value,
                          const char *expected)
{
    return muster_error_set(m->error, MUSTER_ERR_INVALID,
                            "--model %s: %s=%.60s: expected %s", m->name,
                            option, value, expected);
}

/* --- lists ---------------------------------------------------------------- */

/* The next piece of text up to one of `ends`, as text of its own; false at the
 * end of the text, or for a piece that is too long. */
static bool next_piece(const char **text, const char *ends,
                       char piece_out[NUMBER_MAX])
{
    if (*text == NULL) {
        return false;
    }
    size_t length = strcspn(*text, ends);
    (void)snprintf(piece_out, NUMBER_MAX, "%.*s", (int)length, *text);
    bool fits = length < NUMBER_MAX;
    *text = (*text)[length] != '\0' ? *text + length + 1 : NULL;
    return fits;
}

/* Whole numbers from 1 to number_max, at most count_max of them; 0: wrong. */
static uint32_t read_numbers(const char *text, const char *ends,
                             uint32_t number_max, uint32_t count_max,
                             uint32_t *numbers_out)
{
    uint32_t count = 0;
    while (text != NULL) {
        char piece[NUMBER_MAX];
        uint64_t number = 0;
        if (count == count_max || !next_piece(&text, ends, piece) ||
            !muster_value_uint(piece, &number) || number == 0 ||
            number > number_max) {
            return 0;
        }
        numbers_out[count++] = (uint32_t)number;
    }
    return count;
}

/* One above 0 or 0 for each class, not all of them 0; false: wrong. */
static bool read_weights(const char *text, uint32_t classes, float *weights_out)
{
    float largest = 0;
    for (uint32_t c = 0; c < classes; c++) {
        char piece[NUMBER_MAX];
        double weight = 0;
        if (!next_piece(&text, ",", piece) ||
            !muster_value_double(piece, &weight) ||
            !(weight >= 0 && weight <= WEIGHT_MAX)) {
            return false;
        }
        weights_out[c] = (float)weight;
        largest = weights_out[c] > largest ? weights_out[c] : largest;
    }
    return text == NULL && largest > 0;
}

/* --- the options of the loss and of hidden layers ------------------------- */

static muster_status take_class_weights(maker *m)
{
    const char *text = m->options.class_weights;
    uint32_t classes = m->spec->classes;
    if (text[0] == '\0') {
        return MUSTER_OK;
    }
    m->net.class_weights = muster_mem_array(classes + 1, sizeof(float));
    if (m->net.class_weights == NULL) {
        return muster_error_set(m->error, MUSTER_ERR_NO_MEMORY,
                                "--model %s: out of memory", m->name);
    }
    m->net.loss.class_weights = m->net.class_weights;
    if (!read_weights(text, classes, m->net.class_weights)) {
        char expected[96];
        (void)snprintf(expected, sizeof(expected),
                       "a number from 0 to %g for each of the %u classes, one "
                       "of them above 0",
                       WEIGHT_MAX, classes);
        return fail(m, "class-weights", text, expected);
    }
    return MUSTER_OK;
}

static muster_status take_loss(maker *m)
{
    bool has_classes = m->net.loss.kind != MUSTER_MODEL_REGRESSION;
    bool is_asked = m->options.class_weights[0] != '\0';
    if (!has_classes && (is_asked || m->options.smoothing > 0)) {
        return muster_error_set(m->error, MUSTER_ERR_INVALID,
                                "--model %s: %s needs labels that are classes, "
                                "the data has targets",
                                m->name,
                                is_asked ? "class-weights" : "smoothing");
    }
    m->net.loss.smoothing = (float)m->options.smoothing;
    return take_class_weights(m);
}

/* hidden=0: options of hidden layers would do nothing. */
static muster_status check_no_hidden(const maker *m)
{
    const char *idle = m->options.norm == 1       ? "norm"
                       : m->options.dropout > 0.0 ? "dropout"
                                                  : NULL;
    return idle == NULL
               ? MUSTER_OK
               : muster_error_set(m->error, MUSTER_ERR_INVALID,
                                  "--model %s: %s is for hidden layers, and "
                                  "hidden=0 has none; leave out one of them",
                                  m->name, idle);
}

/* Append the widths of "256,128" after the first. */
static muster_status take_hidden(maker *m)
{
    const char *text = m->options.hidden;
    m->net.count = read_numbers(text, ",", MUSTER_LAYERS_WIDTH_MAX,
                                MUSTER_LAYERS_MAX - 1, m->net.sizes + 1);
    m->net.dropout = m->options.dropout;
    m->net.has_norm = m->options.norm == 1;
    if (m->net.count > 0) {
        return MUSTER_OK;
    }
    char expected[80];
    (void)snprintf(expected, sizeof(expected),
                   "1 to %u widths from 1 to %u, such as hidden=256,128",
                   MUSTER_LAYERS_MAX - 1, MUSTER_LAYERS_WIDTH_MAX);
    return fail(m, "hidden", text, expected);
}

/* --- convolutions --------------------------------------------------------- */

/* What a row is: as image= says, or the data. */
static muster_status find_image(const maker *m, muster_image *image_out)
{
    const char *text = m->options.image;
    uint32_t sides[3] = {0, 0, 1};
    if (text[0] == '\0') {
        *image_out = m->spec->image;
    } else if (read_numbers(text, "x", INT_MAX, 3, sides) < 2) {
        return fail(m, "image", text,
                    "HEIGHTxWIDTH or HEIGHTxWIDTHxCHANNELS, such as 32x32x3");
    } else {
        *image_out = (muster_image){sides[0], sides[1], sides[2]};
    }
    double floats =
        (double)image_out->height * image_out->width * image_out->channels;
    if (floats == 0) {
        return muster_error_set(
            m->error, MUSTER_ERR_INVALID,
            "--model cnn: the data does not say that its rows are images; say "
            "it: cnn:image=HEIGHTxWIDTH or image=HEIGHTxWIDTHxCHANNELS");
    }
    if (floats != m->spec->features) {
        return muster_error_set(m->error, MUSTER_ERR_INVALID,
                                "--model cnn: an image of %ux%ux%u is %.0f "
                                "features, the data has %u",
                                image_out->height, image_out->width,
                                image_out->channels, floats, m->spec->features);
    }
    return MUSTER_OK;
}

static muster_status take_channels(maker *m)
{
    const char *text = m->options.channels;
    uint32_t filters[MUSTER_CONV_LAYERS_MAX];
    muster_image image;
    muster_status status = find_image(m, &image);
    if (status != MUSTER_OK) {
        return status;
    }
    uint32_t count = read_numbers(text, ",", MUSTER_CONV_FILTERS_MAX,
                                  MUSTER_CONV_LAYERS_MAX, filters);
    if (count == 0) {
        return fail(m, "channels", text,
                    "1 to 8 numbers from 1 to 4096, such as channels=16,32");
    }
    for (uint32_t l = 0; l < count; l++) {
        if (!muster_conv_add(&m->net.conv, &image, filters[l])) {
            return muster_error_set(
                m->error, MUSTER_ERR_INVALID,
                "--model cnn: channels=%.60s: an image of %ux%u can be halved "
                "%u times",
                text, image.height, image.width, l);
        }
    }
    m->net.sizes[0] = (uint32_t)muster_conv_outputs(&m->net.conv);
    return MUSTER_OK;
}

/* --- all together --------------------------------------------------------- */

/* Where in theta everything is. */
static void lay_out(layers *net)
{
    size_t offset = net->conv.dim;
    for (uint32_t l = 0; l < net->count; l++) {
        net->weights[l] = offset;
        offset += (size_t)net->sizes[l] * net->sizes[l + 1];
        net->biases[l] = offset;
        offset += net->sizes[l + 1];
        if (net->has_norm && l + 1 < net->count) {
            net->gains[l] = offset;
            offset += 2 * (size_t)net->sizes[l + 1];
        }
    }
    net->dim = offset;
}

static muster_status check_size(const maker *m)
{
    const layers *net = &m->net;
    uint32_t tensors = 2 * (net->conv.count + net->count);
    tensors += net->has_norm ? 2 * (net->count - 1) : 0;
    if (m->spec->features == 0 || m->spec->features > INT_MAX ||
        net->dim > UINT32_MAX) {
        return muster_error_set(m->error, MUSTER_ERR_INVALID,
                                "--model: %u features give %zu parameters; "
                                "at least 1 feature and at most %u parameters "
                                "are possible",
                                m->spec->features, net->dim, UINT32_MAX);
    }
    if (tensors > MUSTER_MODEL_TENSORS_MAX) {
        return muster_error_set(m->error, MUSTER_ERR_INVALID,
                                "--model %s: %u tensors; at most %u are "
                                "possible: take fewer layers",
                                m->name, tensors, MUSTER_MODEL_TENSORS_MAX);
    }
    return MUSTER_OK;
}

/* The last layer, then the model on the heap. */
static muster_status finish(maker *m, muster_status status, uint32_t outputs,
                            void **model_out)
{
    layers *model = NULL;
    if (status == MUSTER_OK) {
        m->net.sizes[++m->net.count] = outputs;
        lay_out(&m->net);
        status = check_size(m);
    }
    if (status == MUSTER_OK) {
        model = muster_mem_array(1, sizeof(*model));
        status = model != NULL
                     ? MUSTER_OK
                     : muster_error_set(m->error, MUSTER_ERR_NO_MEMORY,
                                        "--model %s: out of memory", m->name);
    }
    if (status != MUSTER_OK) {
        muster_mem_free(m->net.class_weights);
        return status;
    }
    *model = m->net;
    *model_out = model;
    return MUSTER_OK;
}

void muster_layers_free(void *model)
{
    layers *net = model;
    if (net != NULL) {
        muster_mem_free(net->class_weights);
        muster_mem_free(net);
    }
}

muster_status muster_layers_create_linear(const muster_model_spec *spec,
                                          muster_error *error_out,
                                          void **model_out)
{
    maker m = make("linear", spec, MUSTER_MODEL_REGRESSION, error_out);
    return finish(&m, read_options(&m, linear_fields), 1, model_out);
}

/* What labels the data has, for people; `text` has 16 bytes. */
static const char *labels_of(uint32_t classes, char *text)
{
    (void)snprintf(text, 16, "%u", classes);
    return classes == 0 ? "real values" : text;
}

muster_status muster_layers_create_logistic(const muster_model_spec *spec,
                                            muster_error *error_out,
                                            void **model_out)
{
    char labels[16];
    if (spec->classes != 2) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "--model logistic: needs labels of 2 classes, "
                                "the data has %s; use %s",
                                labels_of(spec->classes, labels),
                                spec->classes == 0 ? "linear" : "softmax");
    }
    maker m = make("logistic", spec, MUSTER_MODEL_BINARY, error_out);
    muster_status status = read_options(&m, logistic_fields);
    if (status == MUSTER_OK) {
        status = take_loss(&m);
    }
    return finish(&m, status, 1, model_out);
}

static muster_status check_classes(uint32_t classes, muster_error *error_out)
{
    char labels[16];
    if (classes < 2 || classes > MUSTER_LAYERS_WIDTH_MAX) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "--model softmax: needs labels of 2 to %u "
                                "classes, the data has %s%s",
                                MUSTER_LAYERS_WIDTH_MAX,
                                labels_of(classes, labels),
                                classes == 0 ? "; use linear" : "");
    }
    return MUSTER_OK;
}

muster_status muster_layers_create_softmax(const muster_model_spec *spec,
                                           muster_error *error_out,
                                           void **model_out)
{
    muster_status status = check_classes(spec->classes, error_out);
    if (status != MUSTER_OK) {
        return status;
    }
    maker m = make("softmax", spec, MUSTER_MODEL_CLASSES, error_out);
    status = read_options(&m, softmax_fields);
    if (status == MUSTER_OK) {
        status = take_loss(&m);
    }
    return finish(&m, status, spec->classes, model_out);
}

/* Classes, or one output for targets. */
static muster_status make_deep(const char *name, const muster_model_spec *spec,
                               muster_error *error_out, maker *m_out)
{
    bool has_classes = spec->classes > 0;
    *m_out = make(name, spec,
                  has_classes ? MUSTER_MODEL_CLASSES : MUSTER_MODEL_REGRESSION,
                  error_out);
    (void)snprintf(m_out->options.hidden, MUSTER_SPEC_VALUE_MAX, "%s",
                   HIDDEN_DEFAULT);
    (void)snprintf(m_out->options.channels, MUSTER_SPEC_VALUE_MAX, "%s",
                   CHANNELS_DEFAULT);
    return has_classes ? check_classes(spec->classes, error_out) : MUSTER_OK;
}

/* mlp and cnn, which is mlp behind convolutions. */
static muster_status create_deep(maker *m, muster_status status,
                                 const muster_model_spec *spec, bool has_conv,
                                 void **model_out)
{
    if (status == MUSTER_OK) {
        status = read_options(m, has_conv ? cnn_fields : mlp_fields);
    }
    if (status == MUSTER_OK && has_conv) {
        status = take_channels(m);
    }
    bool has_hidden = !has_conv || strcmp(m->options.hidden, "0") != 0;
    if (status == MUSTER_OK) {
        status = has_hidden ? take_hidden(m) : check_no_hidden(m);
    }
    if (status == MUSTER_OK) {
        status = take_loss(m);
    }
    return finish(m, status, spec->classes > 0 ? spec->classes : 1, model_out);
}

muster_status muster_layers_create_mlp(const muster_model_spec *spec,
                                       muster_error *error_out,
                                       void **model_out)
{
    maker m;
    muster_status status = make_deep("mlp", spec, error_out, &m);
    return create_deep(&m, status, spec, false, model_out);
}

muster_status muster_layers_create_cnn(const muster_model_spec *spec,
                                       muster_error *error_out,
                                       void **model_out)
{
    maker m;
    muster_status status = make_deep("cnn", spec, error_out, &m);
    return create_deep(&m, status, spec, true, model_out);
}
