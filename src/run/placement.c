/*
 * placement.c -- see placement.h.
 */
#include "run/placement.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/suggest.h"
#include "data/owners.h"
#include "run/progress.h"

#define TELL_NS (200 * MUSTER_NS_PER_MS)

muster_status muster_placing_check(const muster_placing *placing,
                                   muster_error *error_out)
{
    const char *method = placing->method;
    if (muster_owners_is_file(method) ||
        muster_partition_method_number(method) != MUSTER_PARTITION_NONE) {
        return MUSTER_OK;
    }
    char before[32];
    (void)snprintf(before, sizeof(before), "%s ", placing->option);
    muster_suggestion meant = muster_suggestion_make(method, strlen(method));
    for (uint32_t i = 1; muster_partition_method_name(i) != NULL; i++) {
        muster_suggestion_add(&meant, muster_partition_method_name(i));
    }
    return muster_suggestion_fail(&meant, before, error_out);
}

muster_partition_opts muster_placing_opts(const muster_placing *placing,
                                          const muster_dataset *data)
{
    muster_dataset_info info = muster_dataset_describe(data);
    muster_partition_opts opts = MUSTER_PARTITION_OPTS_INIT;
    opts.method = muster_partition_method_number(placing->method);
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
    opts.label_kind =
        info.classes > 0 ? MUSTER_PARTITION_CLASSES : MUSTER_PARTITION_TARGETS;
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

muster_status muster_placing_make(const muster_placing *placing,
                                  const muster_dataset *data,
                                  muster_error *error_out, uint32_t *owner_of,
                                  muster_partition_report *report_out)
{
    uint64_t samples = muster_dataset_describe(data).samples;
    if (placing->owners > samples) {
        return muster_error_set(error_out, MUSTER_ERR_INPUT,
                                "%" PRIu64 " samples are too few for %" PRIu32
                                " workers",
                                samples, placing->owners);
    }
    return muster_owners_is_file(placing->method)
               ? muster_owners_read(placing->method, samples, placing->owners,
                                    error_out, owner_of)
               : make(placing, data, error_out, owner_of, report_out);
}
