/*
 * partition/classes.h -- the classes of the rows, found from their labels.
 *
 * Unlabelled rows are one class. Class labels: equal values are one class, in
 * the order of the values. Real targets: cut at the quantiles; equal targets
 * stay in one class, so that there may be fewer classes than asked for.
 *
 *   Ownership    The caller's struct; muster_sample_classes_fini() ends it.
 */
#ifndef MUSTER_PARTITION_CLASSES_H
#define MUSTER_PARTITION_CLASSES_H

#include <stdint.h>

#include "muster/partition.h"

typedef struct muster_sample_classes {
    uint32_t count;    // classes
    uint32_t rows;     // rows in all
    uint32_t *of;      // class of each row
    uint32_t *starts;  // count + 1 places in `members`
    uint32_t *members; // rows by class, ascending within a class
    float *values;     // the label of a class, or where its quantile begins
} muster_sample_classes;

/* MUSTER_ERR_INVALID (a label is not finite, too many classes, labels missing),
 * MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_sample_classes_init(
    muster_sample_classes *classes, const muster_partition_opts *opts,
    muster_error *error_out);
void muster_sample_classes_fini(muster_sample_classes *classes);

static inline uint32_t
muster_sample_classes_size(const muster_sample_classes *classes,
                           uint32_t number)
{
    return classes->starts[number + 1] - classes->starts[number];
}

#endif // MUSTER_PARTITION_CLASSES_H
