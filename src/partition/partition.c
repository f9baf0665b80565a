/*
 * partition.c -- muster_partition_make(): check, find classes, run a method,
 * say who got nothing.
 *
 * Outputs are written after success only: methods work on an array of their
 * own.
 */
#include "muster/partition.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/sized.h"
#include "partition/check.h"
#include "partition/classes.h"
#include "partition/meter.h"
#include "partition/methods.h"

/* The fields of the first release: no caller has fewer. */
#define REPORT_MIN                                \
    (offsetof(muster_partition_report, warning) + \
     sizeof(((muster_partition_report *)NULL)->warning))

/* Workers named in a warning. */
#define NAMED_MAX     8u
#define CLASSES_NAMED 3u // in a warning

static const char *const METHOD_NAMES[] = {
    [MUSTER_PARTITION_EQUAL_RANDOM] = "equal-random",
    [MUSTER_PARTITION_EQUAL_STRATIFIED] = "equal-stratified",
    [MUSTER_PARTITION_PROPORTIONAL_RANDOM] = "proportional-random",
    [MUSTER_PARTITION_PROPORTIONAL_STRATIFIED] = "proportional-stratified",
    [MUSTER_PARTITION_SUBMODULAR] = "submodular",
    [MUSTER_PARTITION_CLASS_SORTED] = "class-sorted",
};
#define METHODS (sizeof(METHOD_NAMES) / sizeof(METHOD_NAMES[0]))

const char *muster_partition_method_name(uint32_t method)
{
    return method < METHODS ? METHOD_NAMES[method] : NULL;
}

uint32_t muster_partition_method_number(const char *name)
{
    for (uint32_t method = 1; name != NULL && method < METHODS; method++) {
        if (strcmp(name, METHOD_NAMES[method]) == 0) {
            return method;
        }
    }
    return MUSTER_PARTITION_NONE;
}

/* Text that grows to the end of its room and no further. */
typedef struct bounded_text {
    char *text;
    size_t room;
    size_t length;
} bounded_text;

static void add_text(bounded_text *to, const char *before, uint32_t number)
{
    int added = snprintf(to->text + to->length, to->room - to->length, "%s%u",
                         before, number);
    if (added > 0 && (size_t)added < to->room - to->length) {
        to->length += (size_t)added;
    } else {
        to->text[to->length] = 0;
    }
}

/* "class 3 has 5 samples for 8 workers: workers 0, 4, 5 get none" */
static void warn_of_class(const muster_sample_classes *classes, uint32_t number,
                          const uint32_t *counts, uint32_t workers,
                          bounded_text *out)
{
    size_t room = out->room - out->length;
    int begun =
        snprintf(out->text + out->length, room,
                 "%sclass %.9g has %u samples for %u workers: no "
                 "sample of it for worker",
                 out->length > 0 ? "; " : "", (double)classes->values[number],
                 muster_sample_classes_size(classes, number), workers);
    if (begun < 0 || (size_t)begun >= room) {
        out->text[out->length] = 0;
        return;
    }
    out->length += (size_t)begun;
    uint32_t without = 0;
    for (uint32_t j = 0; j < workers; j++) {
        if (counts[j] == 0 && without++ < NAMED_MAX) {
            add_text(out, without == 1 ? " " : ", ", j);
        }
    }
    if (without > NAMED_MAX) {
        add_text(out, " and others, in all ", without);
    }
}

/* counts: classes x workers. */
static void count_samples(const muster_sample_classes *classes,
                          const uint32_t *owners, uint32_t workers,
                          uint32_t *counts)
{
    for (uint32_t r = 0; r < classes->rows; r++) {
        counts[(size_t)classes->of[r] * workers + owners[r]]++;
    }
}

static bool lacks_some(const uint32_t *counts, uint32_t workers)
{
    for (uint32_t j = 0; j < workers; j++) {
        if (counts[j] == 0) {
            return true;
        }
    }
    return false;
}

static void find_lacking(const muster_sample_classes *classes,
                         const uint32_t *counts, uint32_t workers,
                         muster_partition_report *report)
{
    bounded_text text = {report->warning, sizeof(report->warning), 0};
    for (uint32_t c = 0; c < classes->count; c++) {
        const uint32_t *of_class = counts + (size_t)c * workers;
        if (!lacks_some(of_class, workers)) {
            continue;
        }
        if (report->classes_small++ < CLASSES_NAMED) {
            warn_of_class(classes, c, of_class, workers, &text);
        }
    }
    if (report->classes_small > CLASSES_NAMED) {
        add_text(&text,
                 "; classes like these, in all: ", report->classes_small);
    }
    for (uint32_t j = 0; j < workers; j++) {
        uint64_t all = 0;
        for (uint32_t c = 0; c < classes->count; c++) {
            all += counts[(size_t)c * workers + j];
        }
        report->workers_empty += all == 0;
    }
}

static muster_status fill_report(const muster_partition_opts *opts,
                                 const muster_sample_classes *classes,
                                 const uint32_t *owners, muster_meter *meter,
                                 muster_partition_report *report)
{
    uint32_t *counts = muster_mem_array((size_t)classes->count * opts->workers,
                                        sizeof(*counts));
    if (counts == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    report->classes = classes->count;
    count_samples(classes, owners, opts->workers, counts);
    find_lacking(classes, counts, opts->workers, report);
    report->kernel_cpu_s = muster_meter_cpu_s(meter, MUSTER_METER_KERNEL);
    report->greedy_cpu_s = muster_meter_cpu_s(meter, MUSTER_METER_GREEDY);
    report->refine_cpu_s = muster_meter_cpu_s(meter, MUSTER_METER_REFINE);
    muster_mem_free(counts);
    return MUSTER_OK;
}

static muster_status run_method(const muster_partition_opts *opts,
                                muster_sample_classes *classes,
                                muster_error *error_out, uint32_t *owners,
                                muster_partition_report *report)
{
    muster_meter meter;
    muster_status status = muster_meter_init(&meter, opts);
    if (status != MUSTER_OK) {
        return status;
    }
    if (opts->method == MUSTER_PARTITION_SUBMODULAR) {
        status = muster_method_submodular(opts, classes, &meter, error_out,
                                          owners, report);
    } else {
        status = muster_method_baseline(opts, classes, owners);
    }
    if (status == MUSTER_OK) {
        status = fill_report(opts, classes, owners, &meter, report);
    }
    if (status == MUSTER_OK) {
        status = muster_meter_add(&meter, meter.total);
    }
    muster_meter_fini(&meter);
    return status;
}

static muster_status check_all(const muster_partition_opts *opts,
                               const uint32_t *owners_out,
                               const muster_partition_report *report_out,
                               muster_error *error_out)
{
    muster_status status = muster_partition_check_workers(opts, error_out);
    if (status != MUSTER_OK) {
        return status;
    }
    if (muster_partition_method_name(opts->method) == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "method %u is not one of "
                                "muster_partition_method",
                                opts->method);
    }
    if (owners_out == NULL ||
        (report_out != NULL &&
         !muster_sized_is_legal(report_out, REPORT_MIN))) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "owners_out is NULL, or the report has a bad "
                                "struct_size: start from "
                                "MUSTER_PARTITION_REPORT_INIT");
    }
    return MUSTER_OK;
}

static muster_status make_owners(const muster_partition_opts *opts,
                                 muster_error *error_out, uint32_t *owners_out,
                                 muster_partition_report *report)
{
    muster_sample_classes classes;
    muster_status status =
        muster_sample_classes_init(&classes, opts, error_out);
    if (status != MUSTER_OK) {
        return status;
    }
    uint32_t *owners = muster_mem_array(opts->rows.count, sizeof(*owners));
    status = owners != NULL
                 ? run_method(opts, &classes, error_out, owners, report)
                 : MUSTER_ERR_NO_MEMORY;
    if (status == MUSTER_OK) {
        memcpy(owners_out, owners, opts->rows.count * sizeof(*owners));
    }
    muster_mem_free(owners);
    muster_sample_classes_fini(&classes);
    return status;
}

muster_status muster_partition_make(const muster_partition_opts *opts,
                                    muster_error *error_out,
                                    uint32_t *owners_out,
                                    muster_partition_report *report_out)
{
    muster_partition_opts own;
    muster_status status = muster_partition_read(opts, error_out, &own);
    if (status == MUSTER_OK) {
        status = check_all(&own, owners_out, report_out, error_out);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    muster_partition_report report = MUSTER_PARTITION_REPORT_INIT;
    report.recall = 1.0;
    status = make_owners(&own, error_out, owners_out, &report);
    if (status == MUSTER_OK && report_out != NULL) {
        muster_sized_fill(report_out, &report, sizeof(report));
    }
    return muster_partition_explain(status, error_out);
}
