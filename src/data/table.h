/*
 * data/table.h -- what a reader makes of a file: rows, and labels as the file
 * has them.
 *
 * Rows are dense (samples x features floats) or CSR, as in muster/rows.h; the
 * arrays not used are NULL. The data set then decides what the labels mean.
 *
 *   Ownership    The caller's struct: starts zeroed, ends with
 *                muster_table_fini(), which may be called at any point.
 */
#ifndef MUSTER_DATA_TABLE_H
#define MUSTER_DATA_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "muster/rows.h"
#include "muster/status.h"

/* Sample numbers are 32-bit everywhere. */
#define MUSTER_TABLE_SAMPLES_MAX ((uint64_t)UINT32_MAX)

/* Above the largest public sparse sets; theta of one output is then 1 GiB. */
#define MUSTER_TABLE_FEATURES_MAX ((uint64_t)1 << 28)

typedef struct muster_table {
    uint64_t samples;
    uint32_t features;
    bool sparse;
    muster_image image; // what rows are, where the file says it
    float *dense;
    uint64_t *offsets; // samples + 1
    uint32_t *columns; // from 0
    float *values;
    float *labels; // NULL: the file has none
    // The column that was the label, where it was one among others.
    uint32_t label_column; // from 1; 0: it was not
    char *label_name;      // NULL: columns have no names; owned
    const char *label_why; // for people: why this one; static
} muster_table;

void muster_table_fini(muster_table *table);

/* Make room for dense rows and labels. MUSTER_ERR_INPUT with `name` in front
 * when the size is zero or above the limits or this machine's memory: told
 * before any of it is asked for. */
MUSTER_CHECKED muster_status muster_table_make_dense(muster_table *table,
                                                     uint64_t samples,
                                                     uint64_t features,
                                                     const char *name,
                                                     muster_error *error_out);

/* Take over the elements of a vec, giving spare memory back; the vec is empty
 * afterwards. */
void *muster_table_take(muster_vec *vec);

/* MUSTER_ERR_NO_MEMORY for the file `name`. */
muster_status muster_table_fail_memory(const char *name,
                                       muster_error *error_out);

#endif // MUSTER_DATA_TABLE_H
