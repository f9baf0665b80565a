/*
 * data/readers.h -- one function per file format, and the generator.
 *
 * Each fills a zeroed muster_table and checks all it reads: sizes against what
 * the file can hold, every value finite, columns ascending. On failure the
 * table is zeroed again and the error names the place; see docs/data.md for
 * what each format may look like.
 *
 * MUSTER_ERR_INPUT      malformed; MUSTER_ERR_NO_MEMORY; MUSTER_ERR_SYSTEM
 * MUSTER_ERR_INVALID    an option of the generator
 */
#ifndef MUSTER_DATA_READERS_H
#define MUSTER_DATA_READERS_H

#include <stdbool.h>

#include "data/labels.h"
#include "data/source.h"
#include "data/table.h"
#include "muster/status.h"

typedef enum muster_format {
    MUSTER_FORMAT_IDX = 1,
    MUSTER_FORMAT_NPY = 2,
    MUSTER_FORMAT_LIBSVM = 3,
    MUSTER_FORMAT_CSV = 4,
    MUSTER_FORMAT_CIFAR = 5,
} muster_format;

/* Which format a file has: by its first bytes where they are a signature, else
 * by its name, else by what its text looks like. Takes nothing. */
MUSTER_CHECKED muster_status muster_format_guess(muster_source *source,
                                                 muster_error *error_out,
                                                 muster_format *format_out);

/* Unsigned bytes of any shape, a sample each along the first axis, divided by
 * 255; labels are a vector of bytes, or NULL: there are none. Samples of two
 * dimensions are images, those of three images with channels. */
MUSTER_CHECKED muster_status muster_idx_read(muster_source *images,
                                             muster_source *labels,
                                             muster_error *error_out,
                                             muster_table *table);

#define MUSTER_CIFAR_RECORD_BYTES 3073u

/* Append the records of a CIFAR-10 file to `records`, whose elements are of
 * MUSTER_CIFAR_RECORD_BYTES; and make a table of them all: bytes divided by
 * 255, labels from 0 to 9. */
MUSTER_CHECKED muster_status muster_cifar_records(muster_source *source,
                                                  muster_error *error_out,
                                                  muster_vec *records);
MUSTER_CHECKED muster_status muster_cifar_table(const muster_vec *records,
                                                const char *name,
                                                muster_error *error_out,
                                                muster_table *table);

/* `label column:value ...` with columns from 1; CSR. */
MUSTER_CHECKED muster_status muster_libsvm_read(muster_source *source,
                                                muster_error *error_out,
                                                muster_table *table);

/* Numbers with one separator, an optional line of names; `label` is the column
 * that is wanted as the label. MUSTER_ERR_INVALID as muster_label_choose(). */
MUSTER_CHECKED muster_status muster_csv_read(muster_source *source,
                                             const muster_label_column *label,
                                             muster_error *error_out,
                                             muster_table *table);

/* Numbers of a C-order array, images as in idx; `labels` (a vector) or, when
 * it is NULL, the column that `label` wants, else the last one. */
MUSTER_CHECKED muster_status muster_npy_read(muster_source *source,
                                             muster_source *labels,
                                             const muster_label_column *label,
                                             muster_error *error_out,
                                             muster_table *table);

/* A vector of `samples` numbers, `what` each of them is ("label"). */
MUSTER_CHECKED muster_status muster_npy_read_column(muster_source *source,
                                                    uint64_t samples,
                                                    const char *what,
                                                    muster_error *error_out,
                                                    float *out);

/* An array of `samples` rows, for muster_mem_free(). */
MUSTER_CHECKED muster_status muster_npy_read_features(muster_source *source,
                                                      uint64_t samples,
                                                      muster_error *error_out,
                                                      uint32_t *features_out,
                                                      float **rows_out);

/* The training samples, or the held-out ones, of "synthetic:OPTIONS". With
 * test=0 there are none held out: the table stays empty (samples == 0). */
MUSTER_CHECKED muster_status muster_synthetic_make(const char *spec,
                                                   bool held_out,
                                                   muster_error *error_out,
                                                   muster_table *table);

/* Whether a spec names the generator. */
bool muster_synthetic_is(const char *spec);

/* A spec that nearly names a generator ("synthetc:samples=9") is no path:
 * MUSTER_ERR_INVALID with the one that was meant. */
MUSTER_CHECKED muster_status muster_generator_check(const char *spec,
                                                    muster_error *error_out);

#endif // MUSTER_DATA_READERS_H
