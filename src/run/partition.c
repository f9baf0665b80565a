/*
 * partition.c -- `muster partition`: who gets which sample, how good that is,
 * and the file that says so.
 */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "config/config.h"
#include "data/owners.h"
#include "model/model.h"
#include "muster/run.h"
#include "record/json.h"
#include "record/npy.h"
#include "run/build.h"
#include "run/dissimilarity.h"
#include "run/placement.h"

typedef struct partition {
    const muster_config *config;
    muster_placing placing;
    muster_dataset *data;
    muster_dataset_info info;
    double *speeds;
    uint32_t *owner_of; // by sample
    uint64_t *sizes;    // by worker
    double *coverage;   // by worker
    muster_partition_report report;
    muster_partition_measures measures;
    double seconds;
    double dissimilarity; // NAN: nobody asked
} partition;

static muster_status load(partition *self, muster_error *error_out)
{
    const muster_config *config = self->config;
    const char *data = muster_config_string(config, MUSTER_OPT_DATA);
    const char *label = muster_config_string(config, MUSTER_OPT_LABEL);
    const char *target = muster_config_string(config, MUSTER_OPT_TARGET);
    muster_status status;
    if (target != NULL && strcmp(target, "none") == 0) {
        status =
            muster_dataset_load_unlabelled(data, label, error_out, &self->data);
    } else {
        status = muster_dataset_load(data, label, error_out, &self->data);
        if (status == MUSTER_OK) {
            status = muster_dataset_take_target(self->data, target, error_out);
        }
    }
    if (status == MUSTER_OK) {
        muster_dataset_tell_label(self->data);
        self->info = muster_dataset_describe(self->data);
    }
    return status;
}

static muster_status allocate(partition *self, muster_error *error_out)
{
    uint32_t workers = self->placing.owners;
    self->owner_of = muster_mem_array(self->info.samples, sizeof(uint32_t));
    self->sizes = muster_mem_array(workers, sizeof(uint64_t));
    self->coverage = muster_mem_array(workers, sizeof(double));
    return self->owner_of != NULL && self->sizes != NULL &&
                   self->coverage != NULL
               ? MUSTER_OK
               : muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                  "partition: no memory for %" PRIu64
                                  " samples",
                                  self->info.samples);
}

/* --workers, --speeds, --method, --model. */
static muster_status read_options(partition *self, muster_error *error_out)
{
    const muster_config *config = self->config;
    muster_placing *placing = &self->placing;
    *placing = (muster_placing){
        .option = "--method",
        .method = muster_config_string(config, MUSTER_OPT_METHOD),
        .owners = muster_config_workers(config),
        .owner = "worker",
        .seed = muster_config_uint(config, MUSTER_OPT_SEED),
        .threads = muster_config_threads(config),
    };
    muster_status status = muster_placing_read(placing, error_out);
    if (status == MUSTER_OK && muster_config_is_set(config, MUSTER_OPT_MODEL)) {
        status = muster_model_check_dense(
            muster_config_string(config, MUSTER_OPT_MODEL), error_out);
    }
    if (status != MUSTER_OK ||
        !muster_config_is_set(config, MUSTER_OPT_SPEEDS)) {
        return status;
    }
    self->speeds = muster_mem_array(placing->owners, sizeof(double));
    if (self->speeds == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "partition: no memory for %" PRIu32 " workers",
                                placing->owners);
    }
    placing->speeds = self->speeds;
    return muster_build_speeds(config, placing->owners, error_out,
                               self->speeds);
}

static muster_status measure(partition *self, muster_error *error_out)
{
    const muster_partition_opts plain = MUSTER_PARTITION_OPTS_INIT;
    muster_placing_meter meter = muster_placing_meter_make("measuring");
    muster_partition_opts opts =
        muster_placing_opts(&self->placing, self->data);
    opts.method = MUSTER_PARTITION_SUBMODULAR; // not read, but checked
    // Measures are of the features as they are, but for wide CSR rows, which
    // are projected all the same (muster/partition.h).
    opts.project = 0;
    opts.sample = plain.sample;
    opts.on_progress = muster_placing_tell;
    opts.progress_context = &meter;
    muster_status status = muster_partition_measure(
        &opts, self->owner_of, error_out, self->coverage, &self->measures);
    for (uint64_t i = 0; i < self->info.samples; i++) {
        self->sizes[self->owner_of[i]]++;
    }
    if (status == MUSTER_OK &&
        muster_config_is_set(self->config, MUSTER_OPT_MODEL)) {
        muster_dissimilarity_opts want = {
            muster_config_string(self->config, MUSTER_OPT_MODEL),
            self->placing.seed, self->placing.owners};
        status = muster_dissimilarity_measure(&want, self->data, self->owner_of,
                                              error_out, &self->dissimilarity);
    }
    return status;
}

static muster_status save(const partition *self, muster_error *error_out)
{
    const char *out = muster_config_string(self->config, MUSTER_OPT_OUT);
    if (out == NULL) {
        return MUSTER_OK;
    }
    char shape[32];
    (void)snprintf(shape, sizeof(shape), "%" PRIu64 ",", self->info.samples);
    return muster_npy_save(out, "<u4", shape, self->owner_of,
                           self->info.samples * sizeof(*self->owner_of),
                           error_out);
}

/* How large the parts are, and how well sparse kernels know the neighbours. */
static void tell_sizes(const partition *self)
{
    uint64_t min = self->info.samples;
    uint64_t max = 0;
    for (uint32_t w = 0; w < self->placing.owners; w++) {
        min = self->sizes[w] < min ? self->sizes[w] : min;
        max = self->sizes[w] > max ? self->sizes[w] : max;
    }
    muster_log(MUSTER_LOG_INFO,
               "sizes: %" PRIu64 " to %" PRIu64
               " samples; a class's share of a "
               "worker's samples is within %.4f of its share of all",
               min, max, self->measures.balance_worst);
    if (self->report.classes_sparse > 0) {
        muster_log(MUSTER_LOG_INFO,
                   "sparse kernels for %" PRIu32 " of %" PRIu32
                   " classes: recall %.4f of the nearest neighbours of all "
                   "rows",
                   self->report.classes_sparse, self->report.classes,
                   self->report.recall);
    }
}

static void tell(const partition *self)
{
    const muster_partition_measures *measures = &self->measures;
    const char *out = muster_config_string(self->config, MUSTER_OPT_OUT);
    muster_log(MUSTER_LOG_INFO,
               "%s: %" PRIu64 " samples for %" PRIu32 " workers in %.2f s",
               self->placing.method, self->info.samples, self->placing.owners,
               self->seconds);
    tell_sizes(self);
    muster_log(MUSTER_LOG_INFO,
               "coverage: least %.4f (worker %" PRIu32 "), mean %.4f; worst "
               "drift of a class mean %.4f (worker %" PRIu32 ")",
               measures->coverage_min, measures->coverage_worker,
               measures->coverage_mean, measures->drift_worst,
               measures->drift_worker);
    if (!isnan(self->dissimilarity)) {
        muster_log(MUSTER_LOG_INFO, "gradients differ by %.3g",
                   self->dissimilarity);
    }
    if (out != NULL) {
        muster_log(MUSTER_LOG_INFO, "owners are in %s", out);
    }
}

/* The numbers of each worker. */
static int describe_workers(const partition *self, json_t *object)
{
    json_t *sizes = json_array();
    json_t *coverage = json_array();
    int failed = sizes == NULL || coverage == NULL;
    for (uint32_t w = 0; failed == 0 && w < self->placing.owners; w++) {
        failed = json_array_append_new(
            sizes, json_integer((json_int_t)self->sizes[w]));
        failed |= json_array_append_new(coverage,
                                        muster_json_real(self->coverage[w]));
    }
    failed |= json_object_set_new(object, "sizes", sizes);
    return failed | json_object_set_new(object, "coverage", coverage);
}

static char *describe(const partition *self)
{
    const muster_partition_measures *measures = &self->measures;
    const muster_partition_report *report = &self->report;
    json_t *object = json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:I, s:I, s:o, s:o, s:o, "
        "s:o, s:s, s:s?}",
        "method", self->placing.method, "workers",
        (json_int_t)self->placing.owners, "samples",
        (json_int_t)self->info.samples, "classes", (json_int_t)report->classes,
        "features", (json_int_t)report->features, "coverage_min",
        muster_json_real(measures->coverage_min), "coverage_mean",
        muster_json_real(measures->coverage_mean), "drift_worst",
        muster_json_real(measures->drift_worst), "drift_worker",
        (json_int_t)measures->drift_worker, "drift_class",
        (json_int_t)measures->drift_class, "balance_worst",
        muster_json_real(measures->balance_worst), "gradient_dissimilarity",
        muster_json_real(self->dissimilarity), "recall",
        muster_json_real(report->recall), "seconds",
        muster_json_real(self->seconds), "warning", report->warning, "out",
        muster_config_string(self->config, MUSTER_OPT_OUT));
    char *text = NULL;
    if (object != NULL && describe_workers(self, object) == 0) {
        text = json_dumps(object, JSON_INDENT(2));
    }
    char *copy = text != NULL ? muster_mem_string(text) : NULL;
    free(text); // heap: jansson's
    json_decref(object);
    return copy;
}

static muster_status make(partition *self, muster_error *error_out)
{
    muster_status status = read_options(self, error_out);
    if (status == MUSTER_OK) {
        status = load(self, error_out);
    }
    if (status == MUSTER_OK) {
        status = muster_placing_read_features(&self->placing, self->config,
                                              self->info.samples, error_out);
    }
    if (status == MUSTER_OK) {
        status = allocate(self, error_out);
    }
    int64_t begin_ns = muster_clock_ns();
    if (status == MUSTER_OK) {
        status = muster_placing_make(&self->placing, self->data, error_out,
                                     self->owner_of, &self->report);
    }
    self->seconds = (double)(muster_clock_ns() - begin_ns) * 1e-9;
    if (status == MUSTER_OK) {
        status = measure(self, error_out);
    }
    return status == MUSTER_OK ? save(self, error_out) : status;
}

muster_status muster_partition(const muster_config *config,
                               muster_error *error_out, char **json_out)
{
    muster_error unheard;
    partition self = {.config = config,
                      .report = MUSTER_PARTITION_REPORT_INIT,
                      .measures = MUSTER_PARTITION_MEASURES_INIT,
                      .dissimilarity = NAN};
    error_out = error_out != NULL ? error_out : &unheard;
    *json_out = NULL;
    muster_status status = make(&self, error_out);
    if (status == MUSTER_OK) {
        tell(&self);
        *json_out = describe(&self);
        if (*json_out == NULL) {
            status = muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                      "partition: no memory for the result");
        }
    }
    muster_mem_free(self.coverage);
    muster_mem_free(self.sizes);
    muster_mem_free(self.owner_of);
    muster_mem_free(self.speeds);
    muster_mem_free(self.placing.features.dense);
    muster_dataset_free(self.data);
    return status;
}
