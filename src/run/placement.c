/*
 * placement.c -- see placement.h.
 */
#include "run/placement.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/spec.h"
#include "base/suggest.h"
#include "data/owners.h"
#include "run/progress.h"

#define TELL_NS   (200 * MUSTER_NS_PER_MS)
#define NAMED_MAX 8u // owners in a warning

#define FIELD(label, kind, member, from, to, choices)                     \
    {                                                                     \
        (label), (kind), offsetof(muster_partition_opts, member), (from), \
            (to), (choices), false                                        \
    }
#define QUANTILES                                      \
    FIELD("quantiles", MUSTER_SPEC_UINT, quantiles, 1, \
          MUSTER_PARTITION_CLASSES_MAX, NULL)

static const muster_spec_field random_fields[] = {{.name = NULL}};
static const muster_spec_field class_fields[] = {QUANTILES, {.name = NULL}};
/* The words are in the order of the enums. */
static const muster_spec_field submodular_fields[] = {
    QUANTILES,
    FIELD("project", MUSTER_SPEC_UINT, project, 1, 65536, NULL),
    FIELD("kernel", MUSTER_SPEC_WORD, kernel, 0, 0, "auto|dense|sparse"),
    FIELD("neighbours", MUSTER_SPEC_UINT, neighbours, 1, 65536, NULL),
    FIELD("sample", MUSTER_SPEC_UINT, sample, 1, UINT32_MAX, NULL),
    FIELD("turn", MUSTER_SPEC_WORD, turn, 0, 0, "min-block|round-robin"),
    FIELD("drift", MUSTER_SPEC_DOUBLE, drift, 0, 1e6, NULL),
    FIELD("swaps", MUSTER_SPEC_UINT, swaps, 0, 65536, NULL),
    {.name = NULL},
};

static const muster_spec_field *fields_of(uint32_t method)
{
    switch (method) {
    case MUSTER_PARTITION_SUBMODULAR:
        return submodular_fields;
    case MUSTER_PARTITION_EQUAL_RANDOM:
    case MUSTER_PARTITION_PROPORTIONAL_RANDOM:
        return random_fields;
    default:
        return class_fields;
    }
}

muster_status muster_placing_read(muster_placing *placing,
                                  muster_error *error_out)
{
    char place[64];
    const char *params;
    placing->how = (muster_partition_opts)MUSTER_PARTITION_OPTS_INIT;
    if (muster_owners_is_file(placing->method)) {
        return MUSTER_OK;
    }
    size_t length = muster_spec_name(placing->method, &params);
    muster_suggestion meant = muster_suggestion_make(placing->method, length);
    const char *name;
    for (uint32_t i = 1; (name = muster_partition_method_name(i)); i++) {
        muster_suggestion_add(&meant, name);
        if (muster_spec_is(placing->method, name)) {
            placing->how.method = i;
            (void)snprintf(place, sizeof(place), "%s %s", placing->option,
                           name);
            return muster_spec_read(place, params, fields_of(i), &placing->how,
                                    NULL, error_out);
        }
    }
    (void)snprintf(place, sizeof(place), "%s ", placing->option);
    return muster_suggestion_fail(&meant, place, error_out);
}

muster_status muster_placing_read_features(muster_placing *placing,
                                           const muster_config *config,
                                           uint64_t samples,
                                           muster_error *error_out)
{
    const char *path = muster_config_string(config, MUSTER_OPT_FEATURES);
    return path != NULL ? muster_feature_rows_read(path, samples, error_out,
                                                   &placing->features)
                        : MUSTER_OK;
}

static uint32_t label_kind(const muster_dataset_info *info,
                           const muster_rows *rows)
{
    return rows->labels == NULL ? MUSTER_PARTITION_UNLABELLED
           : info->classes > 0  ? MUSTER_PARTITION_CLASSES
                                : MUSTER_PARTITION_TARGETS;
}

muster_partition_opts muster_placing_opts(const muster_placing *placing,
                                          const muster_dataset *data)
{
    muster_dataset_info info = muster_dataset_describe(data);
    muster_partition_opts opts = placing->how;
    opts.workers = placing->owners;
    opts.speeds = placing->speeds;
    opts.rows = muster_dataset_rows(data, 0, (uint32_t)info.samples);
    if (placing->features.dense != NULL) {
        opts.rows = (muster_rows){.count = opts.rows.count,
                                  .features = placing->features.features,
                                  .dense = placing->features.dense,
                                  .stride = placing->features.features,
                                  .labels = opts.rows.labels};
    }
    opts.label_kind = label_kind(&info, &opts.rows);
    opts.seed = placing->seed;
    opts.threads = placing->threads;
    return opts;
}

muster_placing_meter muster_placing_meter_make(const char *what)
{
    int64_t now_ns = muster_clock_ns();
    return (muster_placing_meter){what, now_ns, now_ns};
}

bool muster_placing_tell(void *context, double share)
{
    muster_placing_meter *meter = context;
    int64_t now_ns = muster_clock_ns();
    if (now_ns - meter->told_ns >= TELL_NS) {
        char eta[32];
        double passed_s = (double)(now_ns - meter->begin_ns) * 1e-9;
        meter->told_ns = now_ns;
        muster_progress_duration(passed_s / share * (1 - share), eta,
                                 sizeof(eta));
        muster_log(MUSTER_LOG_PROGRESS, "%s  %.0f %%  ETA %s", meter->what,
                   share * 100, eta);
    }
    return true;
}

static muster_status make(const muster_placing *placing,
                          const muster_dataset *data, muster_error *error_out,
                          uint32_t *owner_of,
                          muster_partition_report *report_out)
{
    muster_placing_meter meter = muster_placing_meter_make("placing samples");
    muster_partition_report report = MUSTER_PARTITION_REPORT_INIT;
    muster_partition_opts opts = muster_placing_opts(placing, data);
    opts.on_progress = muster_placing_tell;
    opts.progress_context = &meter;
    muster_status status =
        muster_partition_make(&opts, error_out, owner_of, &report);
    if (status == MUSTER_OK && report.warning[0] != '\0') {
        muster_log(MUSTER_LOG_WARN, "%s", report.warning);
    }
    if (status == MUSTER_OK && report_out != NULL) {
        *report_out = report;
    }
    return status;
}

/* "no sample at all for worker 3, 5"; "" where all have some. */
static void name_empty(const muster_placing *placing, const bool *has_some,
                       char *text, size_t room)
{
    uint32_t empty = 0;
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t owner = 0; owner < placing->owners; owner++) {
        if (!has_some[owner] && empty++ < NAMED_MAX && used < room) {
            int wrote =
                empty == 1
                    ? snprintf(text, room, "no sample at all for %s %" PRIu32,
                               placing->owner, owner)
                    : snprintf(text + used, room - used, ", %" PRIu32, owner);
            used += wrote > 0 ? (size_t)wrote : 0;
        }
    }
    if (empty > NAMED_MAX && used < room) {
        (void)snprintf(text + used, room - used, " and others, in all %" PRIu32,
                       empty);
    }
}

/* Owners without samples are warned of, whoever said who owns what. */
static muster_status warn_of_empty(const muster_placing *placing,
                                   const uint32_t *owner_of, uint64_t samples,
                                   muster_error *error_out,
                                   muster_partition_report *report_out)
{
    char text[256];
    bool *has_some = muster_mem_array(placing->owners, sizeof(*has_some));
    if (has_some == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "no memory for %" PRIu32 " %ss",
                                placing->owners, placing->owner);
    }
    for (uint64_t i = 0; i < samples; i++) {
        has_some[owner_of[i]] = true;
    }
    name_empty(placing, has_some, text, sizeof(text));
    muster_mem_free(has_some);
    if (text[0] == '\0') {
        return MUSTER_OK;
    }
    muster_log(MUSTER_LOG_WARN, "%s", text);
    if (report_out != NULL && report_out->warning[0] == '\0') {
        memcpy(report_out->warning, text, strlen(text) + 1);
    }
    return MUSTER_OK;
}

muster_status muster_placing_make(const muster_placing *placing,
                                  const muster_dataset *data,
                                  muster_error *error_out, uint32_t *owner_of,
                                  muster_partition_report *report_out)
{
    uint64_t samples = muster_dataset_describe(data).samples;
    if (placing->owners > samples) {
        return muster_error_set(error_out, MUSTER_ERR_INPUT,
                                "%" PRIu64 " samples are too few for %" PRIu32
                                " %ss",
                                samples, placing->owners, placing->owner);
    }
    muster_status status =
        muster_owners_is_file(placing->method)
            ? muster_owners_read(placing->method, samples, placing->owners,
                                 error_out, owner_of)
            : make(placing, data, error_out, owner_of, report_out);
    return status == MUSTER_OK ? warn_of_empty(placing, owner_of, samples,
                                               error_out, report_out)
                               : status;
}
