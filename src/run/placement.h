/*
 * run/placement.h -- which worker gets which sample: by a method of
 * muster/partition.h, or as an owners.npy says.
 */
#ifndef MUSTER_RUN_PLACEMENT_H
#define MUSTER_RUN_PLACEMENT_H

#include <stdint.h>

#include "config/config.h"
#include "data/dataset.h"
#include "data/feature_rows.h"
#include "muster/partition.h"
#include "muster/status.h"

typedef struct muster_placing {
    const char *option;        // that names the method: "--method"
    const char *method;        // such as submodular:project=64, or a file
    muster_partition_opts how; // what the method's parameters say
    uint32_t owners;
    const char *owner;    // what an owner is: "worker"
    const double *speeds; // of each owner; NULL: equal
    uint64_t seed;
    uint32_t threads;
    /* In place of the features of the data; dense NULL: none. */
    muster_feature_rows features;
} muster_placing;

/* Read the method into `how`, unless it is a file. MUSTER_ERR_INVALID, with
 * what was meant: there is no such method, or its parameters are wrong. */
MUSTER_CHECKED muster_status muster_placing_read(muster_placing *placing,
                                                 muster_error *error_out);

/* --features, where it is given: a row for each of the samples. Before that
 * `features` is of zeros; for muster_mem_free(). Fails as
 * muster_feature_rows_read(). */
MUSTER_CHECKED muster_status muster_placing_read_features(
    muster_placing *placing, const muster_config *config, uint64_t samples,
    muster_error *error_out);

/* The options of the library's call for this data; its progress goes to the
 * line for people. */
muster_partition_opts muster_placing_opts(const muster_placing *placing,
                                          const muster_dataset *data);

/*
 * The owner of each sample. Warnings (an owner gets no sample of a class, or
 * none at all) are told. report_out may be NULL; where the owners are read, its
 * warning alone is written.
 * MUSTER_ERR_INVALID    no such method
 * MUSTER_ERR_INPUT      a bad file, or more owners than samples
 * MUSTER_ERR_NO_MEMORY, MUSTER_ERR_SYSTEM
 */
MUSTER_CHECKED muster_status
muster_placing_make(const muster_placing *placing, const muster_dataset *data,
                    muster_error *error_out, uint32_t *owner_of,
                    muster_partition_report *report_out);

/* Progress lines: "WHAT  42 %  ETA 0:10". */
typedef struct muster_placing_meter {
    const char *what;
    int64_t begin_ns;
    int64_t told_ns;
} muster_placing_meter;

muster_placing_meter muster_placing_meter_make(const char *what);
bool muster_placing_tell(void *meter, double share);

#endif // MUSTER_RUN_PLACEMENT_H
