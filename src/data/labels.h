/*
 * data/labels.h -- what labels mean: classes or real targets.
 *
 * Learned once, from the training set, and applied to both sets; the forms are
 * those of data/dataset.h.
 */
#ifndef MUSTER_DATA_LABELS_H
#define MUSTER_DATA_LABELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "muster/status.h"

/* Labels are classes when all are integers of at most this magnitude. */
#define MUSTER_LABELS_VALUE_MAX   1000
#define MUSTER_LABELS_CLASSES_MAX (2 * MUSTER_LABELS_VALUE_MAX + 1)

/* Room for muster_labels_describe(). */
#define MUSTER_LABELS_TEXT_MAX 256u

typedef struct muster_labels {
    uint32_t classes;                          // 0: real targets
    int16_t values[MUSTER_LABELS_CLASSES_MAX]; // of each class, ascending
} muster_labels;

/* The column of a table that is its label, as it was chosen: by name where the
 * table has names, else by number. All zero: nothing was chosen. */
typedef struct muster_label_column {
    const char *name; // NULL: none; lent
    uint32_t number;  // from 1; 0: none
    bool is_given;    // by the user; else it is what the training set had
    // A table of just so many columns has no label, unless one is given or has
    // its name; 0: every table has one.
    uint32_t unlabelled;
} muster_label_column;

/* As `unlabelled`: a table of any number of columns. */
#define MUSTER_LABEL_ANY_COLUMNS UINT32_MAX

/* What --label says, NAME or N; NULL: nothing. The text is lent. */
muster_label_column muster_label_column_parse(const char *text);

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

/* In words, what `count` labels in the form that rows show are: "3 classes,
 * shares: 0 0.333, 1 0.333, 2 0.333", or "real values from 0.1 to 50". */
void muster_labels_describe(const muster_labels *map, const float *labels,
                            uint64_t count, char *text, size_t size);

#endif // MUSTER_DATA_LABELS_H
