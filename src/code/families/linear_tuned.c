/*
 * linear_tuned.c -- the generator of linear:tuned: a harmonic frame, any k'
 * columns of which are independent by proof (frame.h), or the one that a search
 * found for this size, checked over all choices of columns by the tests.
 */
#include "code/families/linear.h"
#include "code/families/linear_table.h"
#include "code/frame.h"

/* The entry of [columns, rows], or NULL. */
static const int16_t *find_entry(uint32_t rows, uint32_t columns)
{
    const int16_t *at = muster_linear_table;
    while (at[0] != 0) {
        if (at[0] == (int)columns && at[1] == (int)rows) {
            return at + 2;
        }
        at += 2 + at[0] * at[1];
    }
    return NULL;
}

void muster_linear_tuned_generator(uint32_t rows, uint32_t columns,
                                   double *generator_out)
{
    const int16_t *found = find_entry(rows, columns);
    if (found == NULL) {
        muster_frame_fill(rows, columns, generator_out);
        return;
    }
    for (uint32_t c = 0; c < columns; c++) {
        for (uint32_t u = 0; u < rows; u++) {
            generator_out[(size_t)u * columns + c] =
                *found++ * MUSTER_LINEAR_TABLE_UNIT;
        }
    }
}
