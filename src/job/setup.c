/*
 * The job description that WELCOME carries: the run's options and the shape of
 * the data, as JSON. A worker reads it from the network, so every number is
 * checked before it sizes anything.
 */
#define _POSIX_C_SOURCE 200809L
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "config/config.h"
#include "job/inside.h"

muster_batch muster_job_batch(const muster_config *config, uint64_t samples)
{
    uint64_t size = muster_config_uint(config, MUSTER_OPT_BATCH);
    return (muster_batch){
        .seed = muster_config_uint(config, MUSTER_OPT_SEED),
        .samples = samples,
        .size = size != 0 ? size : samples,
    };
}

uint64_t muster_job_steps(const muster_config *config,
                          const muster_batch *batch)
{
    uint64_t steps = muster_config_uint(config, MUSTER_OPT_STEPS);
    uint64_t epochs = muster_config_uint(config, MUSTER_OPT_EPOCHS);
    uint32_t local = muster_config_local_steps(config);
    if (epochs == 0) {
        return steps;
    }
    uint64_t all = muster_batch_steps(batch, (double)epochs);
    all = local > 0 ? (all + local - 1) / local : all;
    return steps == 0 || all < steps ? all : steps;
}

static muster_status read_local(const muster_config *config,
                                const muster_batch *batch,
                                muster_error *error_out, local_rule *rule)
{
    muster_algorithm_kind kind = muster_config_algorithm_kind(config);
    bool is_gossip = kind == MUSTER_ALGORITHM_GOSSIP;
    bool is_ssp = kind == MUSTER_ALGORITHM_SSP;
    uint32_t steps = is_gossip ? 1 : muster_config_local_steps(config);
    *rule = (local_rule){
        .steps = is_ssp ? 1 : steps,
        .is_gradient = is_ssp,
        .is_gossip = is_gossip,
        .workers = muster_config_workers(config),
        .lr = muster_config_double(config, MUSTER_OPT_LR),
        .l2 = muster_config_double(config, MUSTER_OPT_L2),
        .clip = muster_config_double(config, MUSTER_OPT_CLIP),
    };
    if (steps == 0) {
        return MUSTER_OK;
    }
    muster_status status =
        muster_optim_parse(muster_config_string(config, MUSTER_OPT_OPTIMIZER),
                           error_out, &rule->optim);
    return status != MUSTER_OK
               ? status
               : muster_schedule_parse(
                     muster_config_string(config, MUSTER_OPT_SCHEDULE),
                     muster_job_steps(config, batch) * steps, error_out,
                     &rule->schedule);
}

static muster_blob *text_blob(const char *text)
{
    size_t length = strlen(text);
    muster_blob *blob = muster_blob_create(length);
    if (blob != NULL) {
        memcpy(blob->data, text, length);
    }
    return blob;
}

/* Add where workers find the data: its path, whatever their folder is. Links
 * stay as they are written: they may lead elsewhere on another machine. */
static bool add_data(const muster_config *config, json_t *object)
{
    const char *data = muster_config_string(config, MUSTER_OPT_DATA);
    char folder[PATH_MAX] = "";
    if (!muster_config_data_at_workers(config)) {
        return true;
    }
    if (data[0] == '/' || strncmp(data, "synthetic:", 10) == 0) {
        return json_object_set_new(object, "data", json_string(data)) == 0;
    }
    return getcwd(folder, sizeof(folder)) != NULL &&
           json_object_set_new(object, "data",
                               json_sprintf("%s/%s", folder, data)) == 0;
}

muster_blob *muster_job_setup_write(const muster_config *config,
                                    const muster_dataset_info *info,
                                    uint32_t shards)
{
    char *options = muster_config_to_json(config);
    if (options == NULL) {
        return NULL;
    }
    muster_blob *blob = NULL;
    json_t *object = json_pack(
        "{s:o?, s:I, s:I, s:I, s:I, s:I, s:b, s:[I,I,I]}", "config",
        json_loads(options, 0, NULL), "samples", (json_int_t)info->samples,
        "features", (json_int_t)info->features, "classes",
        (json_int_t)info->classes, "nonzeros", (json_int_t)info->nonzeros,
        "shards", (json_int_t)shards, "sparse", (int)info->sparse, "image",
        (json_int_t)info->image.height, (json_int_t)info->image.width,
        (json_int_t)info->image.channels);
    char *text =
        object != NULL && add_data(config, object)
            ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(17))
            : NULL;
    if (text != NULL) {
        blob = text_blob(text);
    }
    free(text); // heap: jansson's
    json_decref(object);
    muster_config_text_free(options);
    return blob;
}

/* Member `key` as a whole number in min..max. */
static bool read_number(const json_t *object, const char *key, uint64_t min,
                        uint64_t max, uint64_t *number_out)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value) || json_integer_value(value) < 0) {
        return false;
    }
    *number_out = (uint64_t)json_integer_value(value);
    return *number_out >= min && *number_out <= max;
}

/* [height, width, channels]; all 0 where rows are not known to be images. */
static bool read_image(const json_t *object, muster_image *image_out)
{
    const json_t *list = json_object_get(object, "image");
    uint32_t sides[3] = {0};
    for (size_t i = 0; i < 3; i++) {
        const json_t *side = json_array_get(list, i);
        json_int_t value = json_integer_value(side);
        if (!json_is_integer(side) || value < 0 || value > INT32_MAX) {
            return false;
        }
        sides[i] = (uint32_t)value;
    }
    *image_out = (muster_image){sides[0], sides[1], sides[2]};
    return true;
}

static muster_status read_shape(const json_t *object, muster_error *error_out,
                                job_setup *setup)
{
    uint64_t features = 0;
    uint64_t classes = 0;
    uint64_t shards = 0;
    if (!read_number(object, "samples", 1, UINT32_MAX, &setup->samples) ||
        !read_number(object, "features", 1, INT32_MAX, &features) ||
        !read_number(object, "classes", 0, INT32_MAX, &classes) ||
        !read_number(object, "nonzeros", 0, INT64_MAX, &setup->nonzeros) ||
        !read_number(object, "shards", 1, INT32_MAX, &shards) ||
        !json_is_boolean(json_object_get(object, "sparse")) ||
        !read_image(object, &setup->image)) {
        return muster_error_set(error_out, MUSTER_ERR_PROTOCOL,
                                "the job description lacks the shape of the "
                                "data");
    }
    setup->features = (uint32_t)features;
    setup->classes = (uint32_t)classes;
    setup->shards = (uint32_t)shards;
    setup->is_sparse = json_is_true(json_object_get(object, "sparse"));
    return MUSTER_OK;
}

/* The description's JSON object; a new reference. */
static muster_status open_description(const muster_blob *blob,
                                      muster_error *error_out,
                                      json_t **object_out)
{
    json_error_t problem;
    if (blob == NULL || blob->data == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_PROTOCOL,
                                "there is no job description");
    }
    *object_out = json_loadb(blob->data, blob->bytes, 0, &problem);
    return *object_out != NULL
               ? MUSTER_OK
               : muster_error_set(error_out, MUSTER_ERR_PROTOCOL,
                                  "the job description is not JSON: %s",
                                  problem.text);
}

static muster_status open_options(const json_t *object, muster_error *error_out,
                                  muster_config **config_out)
{
    char *text = json_dumps(json_object_get(object, "config"),
                            JSON_COMPACT | JSON_REAL_PRECISION(17));
    if (text == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_PROTOCOL,
                                "the job description has no options");
    }
    muster_status status = muster_config_from_json(text, error_out, config_out);
    free(text); // heap: jansson's
    return status;
}

/* A copy of the text, or NULL; false when out of memory. */
static bool copy_text(const char *text, char **copy_out)
{
    *copy_out = text != NULL ? muster_mem_string(text) : NULL;
    return text == NULL || *copy_out != NULL;
}

/* Where the data is, if workers are to read it, and how. */
static muster_status read_data(const json_t *object,
                               const muster_config *config,
                               muster_error *error_out, job_setup *setup)
{
    const char *data = json_string_value(json_object_get(object, "data"));
    if (data == NULL) {
        return MUSTER_OK;
    }
    if (!copy_text(data, &setup->data) ||
        !copy_text(muster_config_string(config, MUSTER_OPT_LABEL),
                   &setup->label) ||
        !copy_text(muster_config_string(config, MUSTER_OPT_TARGET),
                   &setup->target)) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "out of memory for the job description");
    }
    return MUSTER_OK;
}

void muster_job_setup_fini(job_setup *setup)
{
    muster_mem_free(setup->model);
    muster_mem_free(setup->data);
    muster_mem_free(setup->label);
    muster_mem_free(setup->target);
    *setup = (job_setup){0};
}

static muster_status read_options(const json_t *object, muster_error *error_out,
                                  job_setup *setup)
{
    muster_config *config = NULL;
    muster_status status = open_options(object, error_out, &config);
    if (status != MUSTER_OK) {
        return status;
    }
    const char *model = muster_config_string(config, MUSTER_OPT_MODEL);
    setup->batch = muster_job_batch(config, setup->samples);
    setup->model = model != NULL ? muster_mem_string(model) : NULL;
    status = read_local(config, &setup->batch, error_out, &setup->local);
    if (status == MUSTER_OK) {
        status = read_data(object, config, error_out, setup);
    }
    muster_config_free(config);
    if (status == MUSTER_OK && setup->model == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_PROTOCOL,
                                "the job description names no model");
    }
    return status;
}

muster_status muster_job_setup_config(const muster_blob *blob,
                                      muster_error *error_out,
                                      muster_config **config_out)
{
    json_t *object = NULL;
    muster_status status = open_description(blob, error_out, &object);
    if (status == MUSTER_OK) {
        status = open_options(object, error_out, config_out);
        json_decref(object);
    }
    return status;
}

muster_status muster_job_setup_read(const muster_blob *blob,
                                    muster_error *error_out,
                                    job_setup *setup_out)
{
    json_t *object = NULL;
    job_setup setup = {.model = NULL};
    muster_status status = open_description(blob, error_out, &object);
    if (status != MUSTER_OK) {
        return status;
    }
    status = read_shape(object, error_out, &setup);
    if (status == MUSTER_OK) {
        status = read_options(object, error_out, &setup);
    }
    json_decref(object);
    if (status == MUSTER_OK) {
        *setup_out = setup;
    } else {
        muster_job_setup_fini(&setup);
    }
    return status;
}
