/*
 * Models by name or from a shared object. What a shared object says is not
 * believed: everything that memory safety here rests on (sizes, offsets,
 * names) is checked once, when it is loaded. Its arithmetic is its own matter.
 */
#include "model/model.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/names.h"
#include "base/suggest.h"
#include "model/layers.h"
#include "model/layers_pass.h"
#include "model/loss.h"

#define OUTPUTS_MAX 1048576u
#define SCRATCH_MAX ((size_t)1 << 40)

static const muster_model_ops *const known[] = {
    &muster_model_linear, &muster_model_logistic, &muster_model_softmax,
    &muster_model_mlp,    &muster_model_cnn,
};

/* The built-in model of that name, or NULL. */
static const muster_model_ops *find(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strlen(known[i]->name) == length &&
            memcmp(known[i]->name, name, length) == 0) {
            return known[i];
        }
    }
    return NULL;
}

/* The length of the path in "./mine.so:options", or 0 when it is not one. */
size_t muster_model_plugin_path(const char *spec)
{
    for (const char *at = strstr(spec, ".so"); at != NULL;
         at = strstr(at + 1, ".so")) {
        if (at[3] == '\0' || at[3] == ':') {
            return (size_t)(at + 3 - spec);
        }
    }
    return 0;
}

static bool ops_complete(const muster_model_ops *ops)
{
    return ops->name != NULL && ops->create != NULL && ops->free != NULL &&
           ops->kind != NULL && ops->dim != NULL && ops->outputs != NULL &&
           ops->tensors != NULL && ops->init != NULL &&
           ops->scratch_bytes != NULL && ops->gradient != NULL &&
           ops->predict != NULL;
}

/* Without a slash dlopen would search the system's folders. */
static void *open_library(const char *path)
{
    if (strchr(path, '/') != NULL) {
        return dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    size_t length = strlen(path) + sizeof("./");
    char *here = muster_mem_array(length, 1);
    if (here == NULL) {
        return NULL;
    }
    (void)snprintf(here, length, "./%s", path);
    void *library = dlopen(here, RTLD_NOW | RTLD_LOCAL);
    muster_mem_free(here);
    return library;
}

/* Fill in ops and library from the shared object. */
static muster_status load_plugin(const char *path, muster_error *error_out,
                                 muster_model *model)
{
    void *library = open_library(path);
    if (library == NULL) {
        const char *why = dlerror();
        return muster_error_set(error_out, MUSTER_ERR_INPUT,
                                "--model %s: cannot be loaded: %s", path,
                                why != NULL ? why : "out of memory");
    }
    muster_model_plugin_fn plugin = NULL;
    void *symbol = dlsym(library, "muster_model_plugin");
    memcpy(&plugin, &symbol, sizeof(plugin)); // ISO C has no such cast
    const muster_model_ops *ops = plugin != NULL ? plugin() : NULL;
    const char *wrong = NULL;
    if (plugin == NULL) {
        wrong = "it does not export muster_model_plugin";
    } else if (ops == NULL) {
        wrong = "muster_model_plugin() returned NULL";
    } else if (ops->abi != MUSTER_MODEL_ABI) {
        wrong = "it was built for another MUSTER_MODEL_ABI; build it anew "
                "with this version's headers";
    } else if (!ops_complete(ops)) {
        wrong = "a function or the name is missing (NULL) in its ops";
    }
    if (wrong != NULL) {
        (void)dlclose(library);
        return muster_error_set(error_out, MUSTER_ERR_INPUT, "--model %s: %s",
                                path, wrong);
    }
    model->ops = ops;
    model->library = library;
    return MUSTER_OK;
}

static size_t tensor_floats(const muster_model_tensor *tensor)
{
    return tensor->rank == 2 ? tensor->shape[0] * tensor->shape[1]
                             : tensor->shape[0];
}

static const char *tensor_wrong(const muster_model_tensor *tensor, size_t dim)
{
    if (tensor->name[0] == '\0' ||
        memchr(tensor->name, '\0', sizeof(tensor->name)) == NULL) {
        return "a tensor has no name";
    }
    if (tensor->rank != 1 && tensor->rank != 2) {
        return "a tensor's rank is neither 1 nor 2";
    }
    size_t columns = tensor->rank == 2 ? tensor->shape[1] : 1;
    if (tensor->shape[0] == 0 || columns == 0 || tensor->offset >= dim ||
        tensor->shape[0] > (dim - tensor->offset) / columns) {
        return "a tensor is empty or reaches beyond theta";
    }
    return NULL;
}

static const char *tensors_wrong(const muster_model *model)
{
    size_t covered = 0;
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        const muster_model_tensor *a = &model->tensors[i];
        const char *wrong = tensor_wrong(a, model->dim);
        if (wrong != NULL) {
            return wrong;
        }
        covered += tensor_floats(a);
        for (uint32_t j = 0; j < i; j++) {
            const muster_model_tensor *b = &model->tensors[j];
            if (strcmp(a->name, b->name) == 0) {
                return "two tensors have the same name";
            }
            if (a->offset < b->offset + tensor_floats(b) &&
                b->offset < a->offset + tensor_floats(a)) {
                return "two tensors overlap";
            }
        }
    }
    return covered == model->dim ? NULL : "its tensors do not cover theta";
}

/* Ask the model what it is, and check the answers. */
static muster_status learn(const char *path, muster_error *error_out,
                           muster_model *model)
{
    model->kind = model->ops->kind(model->self);
    model->loss = (muster_loss){.kind = model->kind};
    if (model->library == NULL) {
        model->loss = ((const muster_layers *)model->self)->loss;
    }
    model->dim = model->ops->dim(model->self);
    model->outputs = model->ops->outputs(model->self);
    model->tensors =
        muster_mem_array(MUSTER_MODEL_TENSORS_MAX, sizeof(*model->tensors));
    if (model->tensors == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "--model %s: out of memory", path);
    }
    model->tensor_count = model->ops->tensors(model->self, model->tensors);
    const char *wrong = NULL;
    if (model->dim == 0 || model->dim > UINT32_MAX) {
        wrong = "dim() is 0 or above 4294967295";
    } else if (model->outputs == 0 || model->outputs > OUTPUTS_MAX) {
        wrong = "outputs() is 0 or above 1048576";
    } else if (model->kind != MUSTER_MODEL_CLASSES && model->outputs != 1) {
        wrong = "outputs() must be 1 unless kind() is MUSTER_MODEL_CLASSES";
    } else if (model->ops->scratch_bytes(model->self, 1) > SCRATCH_MAX) {
        wrong = "scratch_bytes() asks for more than a TiB for a row";
    } else if (model->kind != MUSTER_MODEL_REGRESSION &&
               model->kind != MUSTER_MODEL_CLASSES &&
               model->kind != MUSTER_MODEL_BINARY) {
        wrong = "kind() is not one of muster_model_kind";
    } else if (model->tensor_count == 0 ||
               model->tensor_count > MUSTER_MODEL_TENSORS_MAX) {
        wrong = "tensors() is not 1 to 64";
    } else {
        wrong = tensors_wrong(model);
    }
    if (wrong != NULL) {
        return muster_error_set(error_out, MUSTER_ERR_INPUT, "--model %s: %s",
                                path, wrong);
    }
    return MUSTER_OK;
}

/* Where tasks are taken too, a sparse task may have been meant as well. */
static muster_status unknown(const char *spec, size_t length, bool tasks,
                             muster_error *error_out)
{
    muster_suggestion meant = muster_suggestion_make(spec, length);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        muster_suggestion_add(&meant, known[i]->name);
    }
    if (tasks) {
        muster_suggestion_add_all(&meant, muster_task_names);
    }
    muster_suggestion_add(&meant, "PATH.so (./mine.so)");
    return muster_suggestion_fail(&meant, "--model ", error_out);
}

muster_status muster_model_check_name(const char *spec, muster_error *error_out)
{
    size_t length = strcspn(spec, ":");
    return muster_model_plugin_path(spec) > 0 || find(spec, length) != NULL
               ? MUSTER_OK
               : unknown(spec, length, true, error_out);
}

/* A sparse task is known, but has no gradients of rows. */
static muster_status refuse(const char *spec, size_t length,
                            muster_error *error_out)
{
    if (muster_name_index(muster_task_names, spec) < 0) {
        return unknown(spec, length, false, error_out);
    }
    return muster_error_set(error_out, MUSTER_ERR_INVALID,
                            "--model %.*s: a sparse task, which only train "
                            "takes; use linear, logistic, softmax, mlp, cnn or "
                            "PATH.so",
                            (int)length, spec);
}

muster_status muster_model_check_dense(const char *spec,
                                       muster_error *error_out)
{
    size_t length = strcspn(spec, ":");
    return muster_model_plugin_path(spec) > 0 || find(spec, length) != NULL
               ? MUSTER_OK
               : refuse(spec, length, error_out);
}

/* Find the ops that `spec` names; *options_out points into spec. */
static muster_status choose(const char *spec, muster_error *error_out,
                            muster_model *model, const char **options_out)
{
    size_t length = muster_model_plugin_path(spec);
    if (length == 0) {
        length = strcspn(spec, ":");
        model->ops = find(spec, length);
        if (model->ops == NULL) {
            return refuse(spec, length, error_out);
        }
    } else {
        char *path = muster_mem_string_n(spec, length);
        if (path == NULL) {
            return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                    "--model %s: out of memory", spec);
        }
        muster_status status = load_plugin(path, error_out, model);
        muster_mem_free(path);
        if (status != MUSTER_OK) {
            return status;
        }
    }
    *options_out = spec[length] == ':' ? spec + length + 1 : "";
    return MUSTER_OK;
}

muster_status muster_model_create(const char *spec, uint32_t features,
                                  uint32_t classes, muster_error *error_out,
                                  muster_model *model_out)
{
    const muster_model_data data = {.features = features, .classes = classes};
    return muster_model_create_for(spec, &data, error_out, model_out);
}

muster_status muster_model_create_for(const char *spec,
                                      const muster_model_data *data,
                                      muster_error *error_out,
                                      muster_model *model_out)
{
    muster_model model = {.features = data->features,
                          .classes = data->classes,
                          .image = data->image};
    muster_model_spec wanted = {.struct_size = sizeof(wanted),
                                .features = data->features,
                                .classes = data->classes,
                                .image = data->image};
    muster_status status = choose(spec, error_out, &model, &wanted.options);
    if (status != MUSTER_OK) {
        return status;
    }
    MUSTER_ASSERT(model.ops != NULL);
    muster_error own = {MUSTER_OK, ""};
    status = model.ops->create(&wanted, &own, &model.self);
    if (status != MUSTER_OK) {
        status = status < 0 ? status : MUSTER_ERR_INPUT;
        if (own.text[0] != '\0') {
            (void)muster_error_set(error_out, status, "%s", own.text);
        } else {
            (void)muster_error_set(error_out, status,
                                   "--model %s: cannot be made for this data",
                                   spec);
        }
        model.self = NULL;
    } else {
        status = learn(spec, error_out, &model);
    }
    if (status != MUSTER_OK) {
        muster_model_free(&model);
        return status;
    }
    *model_out = model;
    return MUSTER_OK;
}

void muster_model_free(muster_model *model)
{
    if (model->self != NULL) {
        model->ops->free(model->self);
    }
    muster_mem_free(model->tensors);
    if (model->library != NULL) {
        (void)dlclose(model->library);
    }
    *model = (muster_model){0};
}

static size_t round_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* A user's model needs room for the gradient that is thrown away and for a
 * weight of 1 per row; they lie before its own scratch. */
static size_t plugin_extra(const muster_model *model, uint32_t rows)
{
    return round_up(model->dim * sizeof(float)) +
           round_up((size_t)rows * sizeof(float));
}

size_t muster_model_evaluate_bytes(const muster_model *model, uint32_t rows_max)
{
    return model->ops->scratch_bytes(model->self, rows_max) +
           (model->library != NULL ? plugin_extra(model, rows_max) : 0);
}

static muster_status plugin_loss(const muster_model *model, const float *theta,
                                 const muster_rows *rows, void *scratch,
                                 double *loss)
{
    float *gradient = scratch;
    float *ones = gradient + round_up(model->dim * sizeof(float)) / 4;
    memset(gradient, 0, model->dim * sizeof(float));
    for (uint32_t r = 0; r < rows->count; r++) {
        ones[r] = 1.0f;
    }
    return model->ops->gradient(
        model->self, theta, rows, ones,
        (char *)scratch + plugin_extra(model, rows->count), gradient, loss);
}

muster_status muster_model_count(const muster_model *model,
                                 const muster_rows *rows, const float *scores,
                                 muster_model_tally *tally)
{
    const muster_loss_rows scored = {model->loss, rows->count, model->outputs,
                                     rows->labels, NULL};
    double loss = 0;
    muster_status status = muster_loss_sum(&scored, scores, &loss);
    if (status == MUSTER_OK) {
        tally->loss += loss;
        tally->right += muster_loss_correct(&scored, scores);
        tally->rows += rows->count;
    }
    return status;
}

/* The same for a user's model, whose loss only its gradient says. */
static muster_status plugin_count(const muster_model *model, const float *theta,
                                  const muster_rows *rows, void *scratch,
                                  const float *scores,
                                  muster_model_tally *tally)
{
    const muster_loss_rows scored = {model->loss, rows->count, model->outputs,
                                     rows->labels, NULL};
    double loss = 0;
    muster_status status = plugin_loss(model, theta, rows, scratch, &loss);
    if (status == MUSTER_OK) {
        tally->loss += loss;
        tally->right += muster_loss_correct(&scored, scores);
        tally->rows += rows->count;
    }
    return status;
}

muster_status muster_model_evaluate(const muster_model *model,
                                    const float *theta, const muster_rows *rows,
                                    void *scratch, float *scores_out,
                                    muster_model_tally *tally)
{
    muster_status status =
        model->ops->predict(model->self, theta, rows, scratch, scores_out);
    if (status != MUSTER_OK || rows->labels == NULL) {
        tally->rows += status == MUSTER_OK ? rows->count : 0;
        return status;
    }
    return model->library == NULL
               ? muster_model_count(model, rows, scores_out, tally)
               : plugin_count(model, theta, rows, scratch, scores_out, tally);
}

/* What a tensor has of the coordinates begin..end-1. */
typedef struct tensor_range {
    size_t begin, end;
} tensor_range;

static tensor_range range_in(const muster_model_tensor *tensor, size_t begin,
                             size_t end)
{
    size_t last = tensor->offset + tensor_floats(tensor);
    return (tensor_range){
        tensor->offset > begin ? tensor->offset : begin,
        last < end ? last : end,
    };
}

double muster_model_add_l2(const muster_model *model, double l2,
                           const float *theta, float *gradient, size_t begin,
                           size_t end)
{
    double squares = 0;
    const float scale = (float)l2;
    for (uint32_t t = 0; t < model->tensor_count; t++) {
        const muster_model_tensor *tensor = &model->tensors[t];
        tensor_range range = range_in(tensor, begin, end);
        if (tensor->is_bias) {
            continue;
        }
        for (size_t i = range.begin; i < range.end; i++) {
            gradient[i] += scale * theta[i];
            squares += (double)theta[i] * (double)theta[i];
        }
    }
    return squares;
}

void muster_model_optimise(const muster_model *model,
                           const muster_optim_step *step,
                           const muster_optim_arrays *arrays, size_t begin,
                           size_t end)
{
    if (!(step->optim->decay > 0)) {
        muster_optim_apply(step, arrays, begin, end);
        return;
    }
    muster_optim plain = *step->optim;
    plain.decay = 0;
    const muster_optim_step bias_step = {&plain, step->number, step->lr};
    for (uint32_t t = 0; t < model->tensor_count; t++) {
        const muster_model_tensor *tensor = &model->tensors[t];
        tensor_range range = range_in(tensor, begin, end);
        if (range.begin < range.end) {
            muster_optim_apply(tensor->is_bias ? &bias_step : step, arrays,
                               range.begin, range.end);
        }
    }
}
