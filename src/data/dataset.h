/*
 * data/dataset.h -- a data set in memory: samples as dense or CSR rows, and
 * their labels.
 *
 * A data set comes from files (idx, libsvm, csv, npy, CIFAR-10; also zipped) or
 * from the built-in generator; docs/data.md tells users how. Whoever holds it
 * (the coordinator) cuts it into shards for the workers, and evaluates on it.
 *
 * Labels, as every row shows them, have one of three forms, told by `classes`:
 *
 *     classes == 0    a real target, as in the file
 *     classes == 2    -1 or +1, whatever two values the file has (the smaller
 *                     one is -1): what a binary model wants
 *     classes >= 3    a class number 0..classes-1, in the order of the values
 *
 * so that with classes > 0 the class number is `label > 0 ? label : 0` in every
 * case, and the sign of a two-class label is the label itself. The file's own
 * values ("1, 2, 7") are kept: muster_dataset_class_value(). Labels are classes
 * when all of them are integers in -1000..1000, real targets otherwise, or
 * after muster_dataset_use_targets().
 *
 *   Promise      Every value is finite, every column is below `features`,
 *                columns ascend; a data set has at least one sample and one
 *                feature, and a training set at least two distinct labels.
 *   Lifecycle    load, any number of calls, free.
 *   Ownership    Rows are views, lent until muster_dataset_free().
 *   Threads      Once loaded a data set never changes: share it freely.
 *   Determinism  The same spec gives the same data set; synthetic data goes
 *                through libm and may differ in the last bit between machines.
 *   Not here     Batches (data/batch.h), the layout of shards (data/shard.h).
 *
 * Background: docs/design/data.md.
 */
#ifndef MUSTER_DATA_DATASET_H
#define MUSTER_DATA_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data/cut.h"
#include "data/labels.h"
#include "muster/rows.h"
#include "muster/status.h"

typedef struct muster_dataset muster_dataset;

typedef struct muster_dataset_info {
    uint64_t samples;   // below 2^32
    uint32_t features;  // columns
    uint32_t classes;   // 0: real targets; otherwise 2 or more
    bool sparse;        // rows are CSR
    muster_image image; // what the rows are, where the files say it
    uint64_t nonzeros;  // stored entries when sparse, samples * features if not
    uint64_t bytes;     // memory held by rows and labels
} muster_dataset_info;

/*
 * Load a data set. `spec` is a path (a file or a folder) or
 * "synthetic:samples=..,features=..,classes=..,seed=..". `label` is the column
 * of a csv or npy file that is the label, by name or by number from 1; NULL:
 * the one called label, class, target or y, else the last one.
 *
 * MUSTER_ERR_INPUT      missing or malformed file; the line names file:line
 *                       (text) or byte offset (binary)
 * MUSTER_ERR_INVALID    an unknown or illegal option of synthetic:; no column
 *                       as `label` says; stdin with a format that needs files
 * MUSTER_ERR_NO_MEMORY  it does not fit
 * MUSTER_ERR_SYSTEM     reading failed
 */
MUSTER_CHECKED muster_status muster_dataset_load(const char *spec,
                                                 const char *label,
                                                 muster_error *error_out,
                                                 muster_dataset **dataset_out);

/*
 * Load samples without labels: those of the files are passed over, and there
 * need not be any. In a csv or npy file the column that `label` says, or that
 * has the name of a label, is left out; all others are features. The rows'
 * labels are NULL, `classes` is 0. Fails as muster_dataset_load(), but idx and
 * npy files may come from stdin.
 */
MUSTER_CHECKED muster_status muster_dataset_load_unlabelled(
    const char *spec, const char *label, muster_error *error_out,
    muster_dataset **dataset_out);

/*
 * Load the test set: `spec` when it is not NULL; otherwise the one found beside
 * `train_spec` (idx: t10k-*; libsvm: X.t or X.t.gz; synthetic: the held-out
 * samples; any: the name with "train" turned into "test"). *dataset_out is NULL
 * with MUSTER_OK when there is none. Features, classes, the form of labels
 * and the column of the label are those of `train`: columns that training never
 * saw are left out, a label that training never saw is MUSTER_ERR_INPUT.
 */
MUSTER_CHECKED muster_status muster_dataset_load_test(
    const char *spec, const char *train_spec, const muster_dataset *train,
    muster_error *error_out, muster_dataset **dataset_out);

/* What a model was trained on, for data that it meets later. */
typedef struct muster_dataset_form {
    uint32_t features;
    uint32_t classes;          // 0: real targets
    const float *class_values; // `classes` of the file's values, ascending
    muster_label_column label; // given, or the training set's; zero: unknown
} muster_dataset_form;

/*
 * Load data to predict on, when the training set is no longer at hand: as
 * muster_dataset_load_test() with a spec, for a training set of this form,
 * except that rows without labels are allowed: those of a csv or npy file with
 * as many columns as the model has features, and of any file with a label that
 * is none of the classes.
 * MUSTER_ERR_INVALID when the class values are not ascending integers in
 * -1000..1000, or none are held out of a synthetic spec.
 */
MUSTER_CHECKED muster_status
muster_dataset_load_as(const char *spec, const muster_dataset_form *form,
                       muster_error *error_out, muster_dataset **dataset_out);

/* Show the file's own values as real targets, whatever they look like, for a
 * model that does regression (small integers are no classes to it). Before the
 * data set is shared, and before its test set is loaded. */
void muster_dataset_use_targets(muster_dataset *dataset);

/* What --target says, or NULL: "value" as above; with "class", labels that are
 * none are MUSTER_ERR_INPUT. */
MUSTER_CHECKED muster_status muster_dataset_take_target(
    muster_dataset *dataset, const char *target, muster_error *error_out);

/* End a data set. NULL is allowed and does nothing. */
void muster_dataset_free(muster_dataset *dataset);

muster_dataset_info muster_dataset_describe(const muster_dataset *dataset);

/* The column that was the label, for data that is met later; zero where it was
 * not a column. The name is lent. */
muster_label_column muster_dataset_label(const muster_dataset *dataset);

/* Say (log, info) which column is the label, its classes and their shares, or
 * that it is left out where the samples have no labels. Nothing is said where
 * the label is not a column among others. */
void muster_dataset_tell_label(const muster_dataset *dataset);

/* The value that the file uses for a class (< classes). */
float muster_dataset_class_value(const muster_dataset *dataset,
                                 uint32_t class_number);

/* Samples first..first+count-1 with their labels; no copy. They must exist. */
muster_rows muster_dataset_rows(const muster_dataset *dataset, uint64_t first,
                                uint32_t count);

/* The bytes of a shard, in the layout of data/shard.h: how many, and writing
 * them (64-byte aligned). `cut` is of as many samples. */
size_t muster_dataset_shard_bytes(const muster_dataset *dataset,
                                  const muster_cut *cut, uint32_t shard);
void muster_dataset_shard_write(const muster_dataset *dataset,
                                const muster_cut *cut, uint32_t shard,
                                void *bytes);

#endif // MUSTER_DATA_DATASET_H
