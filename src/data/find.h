/*
 * data/find.h -- which files a path means: the training file of a folder, the
 * labels beside a file of samples, the test set beside a training set.
 *
 * Names decide, never contents. Each result is a new path, or NULL when there
 * is none; the caller frees it with muster_mem_free().
 */
#ifndef MUSTER_DATA_FIND_H
#define MUSTER_DATA_FIND_H

#include <stdbool.h>
#include <stdint.h>

#include "muster/status.h"

bool muster_find_is_folder(const char *path);

/* The file itself (FILE.gz where only that exists; "-" is stdin), or the
 * training file of a folder: train-images* or data_batch_1.bin, else a name
 * with "train", else the only file that is not labels, a test set or a README.
 * MUSTER_ERR_INPUT when the path does not exist or a folder leaves a choice. */
MUSTER_CHECKED muster_status muster_find_train(const char *spec,
                                               muster_error *error_out,
                                               char **path_out);

/* idx: "images" of the name turned into "labels" and "idx3" into "idx1". */
MUSTER_CHECKED muster_status muster_find_idx_labels(const char *path,
                                                    muster_error *error_out,
                                                    char **path_out);

/* npy: NAME_labels.npy for NAME.npy, or y... for X...; NULL when absent. */
MUSTER_CHECKED muster_status muster_find_npy_labels(const char *path,
                                                    muster_error *error_out,
                                                    char **path_out);

/* CIFAR-10: batch `number` beside data_batch_1.bin; NULL: there is none, or
 * `path` is not data_batch_1.bin. */
MUSTER_CHECKED muster_status muster_find_batch(const char *path,
                                               uint32_t number,
                                               muster_error *error_out,
                                               char **path_out);

/* The test set beside a training file; NULL when absent. */
MUSTER_CHECKED muster_status muster_find_test(const char *path,
                                              muster_error *error_out,
                                              char **path_out);

#endif // MUSTER_DATA_FIND_H
