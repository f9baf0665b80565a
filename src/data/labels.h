/*
 * data/labels.h -- what labels mean: classes or real targets.
 *
 * Learned once, from the training set, and applied to both sets; the forms are
 * those of data/dataset.h.
 */
#ifndef MUSTER_DATA_LABELS_H
#define MUSTER_DATA_LABELS_H

#include <stdint.h>

#include "muster/status.h"

/* Labels are classes when all are integers of at most this magnitude. */
#define MUSTER_LABELS_VALUE_MAX   1000
#define MUSTER_LABELS_CLASSES_MAX (2 * MUSTER_LABELS_VALUE_MAX + 1)

typedef struct muster_labels {
    uint32_t classes;                          // 0: real targets
    int16_t values[MUSTER_LABELS_CLASSES_MAX]; // of each class, ascending
} muster_labels;

/* MUSTER_ERR_INPUT when all labels are the same. `name` is for the error. */
MUSTER_CHECKED muster_status muster_labels_learn(const float *labels,
                                                 uint64_t count,
                                                 const char *name,
                                                 muster_error *error_out,
                                                 muster_labels *map_out);

/* The same from values known before: MUSTER_ERR_INVALID unless there are none
 * or at least two, ascending. */
MUSTER_CHECKED muster_status muster_labels_from_values(const float *values,
                                                       uint32_t classes,
                                                       muster_error *error_out,
                                                       muster_labels *map_out);

/* Turn a file's labels into the form that rows show, in place.
 * MUSTER_ERR_INPUT for a value that is no class of the map. */
MUSTER_CHECKED muster_status muster_labels_apply(const muster_labels *map,
                                                 const char *name,
                                                 muster_error *error_out,
                                                 uint64_t count, float *labels);

#endif // MUSTER_DATA_LABELS_H
