/*
 * muster/rows.h -- samples as a model sees them: some rows, dense or sparse.
 *
 * A view, never an owner: every pointer is lent by whoever fills it in. Exactly
 * one of the two layouts is used. Dense rows are `features` floats each,
 * `stride` floats apart. Sparse rows are CSR: the entries of row r are
 * columns[e], values[e] for e in offsets[r] .. offsets[r+1]-1; offsets may
 * start above 0, so that a range of rows is a view of the same arrays. Columns
 * ascend within a row.
 *
 *   Ownership    Nothing is owned: a model may not keep a pointer after a call.
 *   Threads      Read only: any number of readers.
 *   Not here     Where rows come from: docs/data.md.
 */
#ifndef MUSTER_ROWS_H
#define MUSTER_ROWS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct muster_rows {
    uint32_t count;          // rows
    uint32_t features;       // columns
    const float *dense;      // NULL when sparse
    size_t stride;           // floats from a dense row to the next, >= features
    const uint64_t *offsets; // count + 1 entries; NULL when dense
    const uint32_t *columns;
    const float *values;
    const float *labels; // count; class number, -1/+1 or target; may be NULL
} muster_rows;

/* What rows are that are images: pixels row by row from the top left, the
 * channels of a pixel side by side. All 0: rows are not known to be images. */
typedef struct muster_image {
    uint32_t height;   // pixels
    uint32_t width;    // pixels
    uint32_t channels; // floats a pixel
} muster_image;

#ifdef __cplusplus
}
#endif
#endif // MUSTER_ROWS_H
