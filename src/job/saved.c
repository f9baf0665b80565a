/*
 * Trained models in files: one tensor for each named piece of theta.
 */
#include "job/saved.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "model/allow.h"
#include "record/checksum.h"

#define VALUE_TEXT_MAX 16u // of one class value, with its comma
#define CLASSES_MAX    1048576u

static const char *kind_name(muster_model_kind kind)
{
    switch (kind) {
    case MUSTER_MODEL_REGRESSION:
        return "regression";
    case MUSTER_MODEL_CLASSES:
        return "classes";
    case MUSTER_MODEL_BINARY:
        return "binary";
    }
    return "unknown";
}

/* "0,1,7": a new string. */
static char *join_values(const float *values, uint32_t count)
{
    size_t size = (size_t)count * VALUE_TEXT_MAX + 1;
    char *text = muster_mem_array(size, 1);
    size_t used = 0;
    for (uint32_t c = 0; text != NULL && c < count; c++) {
        int wrote = snprintf(text + used, size - used, "%s%.9g",
                             c > 0 ? "," : "", (double)values[c]);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
    return text;
}

/* A file's name of a column may be in any encoding; metadata are UTF-8. */
static bool is_text(const char *name)
{
    json_t *text = name != NULL ? json_string(name) : NULL;
    bool good = text != NULL;
    json_decref(text);
    return good;
}

/* The parameters, as the model cuts them. */
static void list_tensors(const muster_saved *saved, muster_tensor *tensors)
{
    const muster_model *model = &saved->model;
    for (uint32_t t = 0; t < model->tensor_count; t++) {
        const muster_model_tensor *from = &model->tensors[t];
        size_t columns = from->rank == 2 ? from->shape[1] : 1;
        tensors[t] = muster_tensor_row(from->name, MUSTER_DTYPE_F32,
                                       saved->theta + from->offset,
                                       from->shape[0] * columns);
        tensors[t].rank = from->rank;
        tensors[t].shape[0] = from->shape[0];
        tensors[t].shape[1] = columns;
    }
}

static muster_status write_file(const char *path, const char *spec,
                                const muster_saved *saved, const char *values,
                                const muster_tensor *tensors,
                                muster_error *error_out)
{
    const muster_model *model = &saved->model;
    char features[16], classes[16], label_column[16], image[48];
    (void)snprintf(image, sizeof(image), "%ux%ux%u", model->image.height,
                   model->image.width, model->image.channels);
    (void)snprintf(label_column, sizeof(label_column), "%u",
                   saved->label_column);
    (void)snprintf(features, sizeof(features), "%u", model->features);
    (void)snprintf(classes, sizeof(classes), "%u", model->classes);
    const muster_note notes[] = {
        {"model", spec},
        {"features", features},
        {"classes", classes},
        {"image", image},
        {"kind", kind_name(model->kind)},
        {"class_values", values},
        {"label_column", label_column},
        {"label", saved->label_name}, // last: left out where there is none
    };
    size_t count = sizeof(notes) / sizeof(notes[0]);
    count -= !is_text(saved->label_name);
    return muster_checksum_save(path, tensors, model->tensor_count, notes,
                                count, error_out);
}

muster_status muster_saved_write(const char *path, const char *spec,
                                 const muster_saved *saved,
                                 muster_error *error_out)
{
    const muster_model *model = &saved->model;
    char *values = join_values(saved->class_values, model->classes);
    muster_tensor *tensors =
        muster_mem_array(model->tensor_count, sizeof(*tensors));
    muster_status status = MUSTER_OK;
    if (values == NULL || tensors == NULL) {
        status = muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                  "%s: out of memory", path);
    }
    if (status == MUSTER_OK) {
        list_tensors(saved, tensors);
        status = write_file(path, spec, saved, values, tensors, error_out);
    }
    muster_mem_free(tensors);
    muster_mem_free(values);
    return status;
}

static bool note_number(const muster_safetensors *file, const char *key,
                        uint32_t number_max, uint32_t *number_out)
{
    const char *text = muster_safetensors_note(file, key);
    if (text == NULL || text[0] < '0' || text[0] > '9') {
        return false;
    }
    char *end = NULL;
    unsigned long long number = strtoull(text, &end, 10);
    *number_out = (uint32_t)number;
    return *end == '\0' && number <= number_max;
}

/* Files of before do not say. */
static muster_image note_image(const muster_safetensors *file)
{
    const char *text = muster_safetensors_note(file, "image");
    uint32_t sides[3] = {0};
    for (size_t i = 0; text != NULL && i < 3; i++) {
        char *end = NULL;
        sides[i] = (uint32_t)strtoul(text, &end, 10);
        text = *end == 'x' ? end + 1 : NULL;
    }
    return (muster_image){sides[0], sides[1], sides[2]};
}

/* Copy the model's tensors out of the file, each in its place. */
static const char *take_tensors(const muster_safetensors *file,
                                muster_saved *saved)
{
    const muster_model *model = &saved->model;
    if (muster_safetensors_count(file) != model->tensor_count) {
        return "it has other tensors than its model";
    }
    for (uint32_t t = 0; t < model->tensor_count; t++) {
        const muster_model_tensor *to = &model->tensors[t];
        const muster_tensor *from = muster_safetensors_find(file, to->name);
        if (from == NULL || from->dtype != MUSTER_DTYPE_F32 ||
            from->rank != to->rank || from->shape[0] != to->shape[0] ||
            (to->rank == 2 && from->shape[1] != to->shape[1])) {
            return "it has other tensors than its model";
        }
        memcpy(saved->theta + to->offset, from->data, from->bytes);
    }
    for (size_t i = 0; i < model->dim; i++) {
        if (!isfinite(saved->theta[i])) {
            return "it has a weight that is not finite";
        }
    }
    return NULL;
}

static const char *take_values(const muster_safetensors *file,
                               muster_saved *saved)
{
    const char *text = muster_safetensors_note(file, "class_values");
    for (uint32_t c = 0; c < saved->model.classes; c++) {
        char *end = NULL;
        float value = text != NULL ? strtof(text, &end) : 0;
        bool is_last = c + 1 == saved->model.classes;
        if (end == NULL || end == text || *end != (is_last ? '\0' : ',')) {
            return "its class_values are not one number for each class";
        }
        saved->class_values[c] = value;
        text = end + 1;
    }
    return NULL;
}

/* Files of before have neither; false: no memory. */
static bool take_label(const muster_safetensors *file, muster_saved *saved)
{
    const char *name = muster_safetensors_note(file, "label");
    if (!note_number(file, "label_column", INT32_MAX, &saved->label_column)) {
        saved->label_column = 0;
    }
    saved->label_name = name != NULL ? muster_mem_string(name) : NULL;
    return name == NULL || saved->label_name != NULL;
}

/* A file names its model; whether that may be run is not the file's to say. */
static muster_status make_model(const char *path, const char *spec,
                                const char *allowed, muster_error *error_out,
                                muster_model *model)
{
    char *chosen = NULL;
    muster_status status =
        muster_model_allow(spec, allowed, path, error_out, &chosen);
    if (status == MUSTER_OK) {
        const muster_model_data data = {model->features, model->classes,
                                        model->image};
        status = muster_model_create_for(chosen, &data, error_out, model);
    }
    muster_mem_free(chosen);
    return status;
}

static muster_status take_file(const char *path, const char *allowed,
                               const muster_safetensors *file,
                               muster_error *error_out, muster_saved *saved)
{
    const char *spec = muster_safetensors_note(file, "model");
    uint32_t features = 0;
    uint32_t classes = 0;
    if (spec == NULL || !note_number(file, "features", INT32_MAX, &features) ||
        !note_number(file, "classes", CLASSES_MAX, &classes)) {
        return muster_error_set(error_out, MUSTER_ERR_INPUT,
                                "%s: not written by muster train: its metadata "
                                "lack model, features or classes",
                                path);
    }
    saved->model = (muster_model){
        .features = features, .classes = classes, .image = note_image(file)};
    muster_status status =
        make_model(path, spec, allowed, error_out, &saved->model);
    if (status != MUSTER_OK) {
        return status;
    }
    saved->theta = muster_mem_raw_aligned(saved->model.dim, sizeof(float));
    saved->class_values = muster_mem_array(classes, sizeof(float));
    if (saved->theta == NULL || saved->class_values == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "%s: out of memory", path);
    }
    if (!take_label(file, saved)) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "%s: out of memory", path);
    }
    const char *wrong = take_tensors(file, saved);
    wrong = wrong != NULL ? wrong : take_values(file, saved);
    return wrong == NULL ? MUSTER_OK
                         : muster_error_set(error_out, MUSTER_ERR_INPUT,
                                            "%s: %s", path, wrong);
}

muster_status muster_saved_read(const char *path, const char *allowed,
                                muster_error *error_out,
                                muster_saved *saved_out)
{
    muster_safetensors *file = NULL;
    muster_saved saved = {.theta = NULL};
    muster_status status = muster_safetensors_open(path, error_out, &file);
    if (status != MUSTER_OK) {
        return status;
    }
    status = muster_checksum_check(file, path, error_out);
    if (status == MUSTER_OK) {
        status = take_file(path, allowed, file, error_out, &saved);
    }
    muster_safetensors_close(file);
    if (status != MUSTER_OK) {
        muster_saved_fini(&saved);
        return status;
    }
    *saved_out = saved;
    return MUSTER_OK;
}

void muster_saved_fini(muster_saved *saved)
{
    muster_mem_free(saved->class_values);
    muster_mem_free(saved->label_name);
    muster_mem_free(saved->theta);
    muster_model_free(&saved->model);
    *saved = (muster_saved){.theta = NULL};
}
