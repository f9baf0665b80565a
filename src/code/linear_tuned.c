/*
 * linear_tuned.c -- the generator of linear:tuned.
 */
#include "code/frame.h"
#include "code/linear.h"

void muster_linear_tuned_generator(uint32_t rows, uint32_t columns,
                                   double *generator_out)
{
    muster_frame_fill(rows, columns, generator_out);
}
