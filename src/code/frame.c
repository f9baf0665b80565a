/*
 * frame.c -- harmonic frames. Angles are reduced as integers (2 f t mod
 * 2 period) before they meet libm, so large indices lose nothing.
 */
#include "code/frame.h"

#include <math.h>
#include <stddef.h>

#define PI 3.14159265358979323846

double muster_frame_entry(uint32_t rows, uint32_t period, uint32_t row,
                          uint32_t t)
{
    uint32_t odd = rows % 2;
    if (odd && row == 0) {
        return sqrt(0.5);
    }
    uint32_t pair = (row - odd) / 2;
    uint64_t doubled = odd ? 2 * ((uint64_t)pair + 1) : 2 * (uint64_t)pair + 1;
    uint64_t turn = doubled * t % (2 * (uint64_t)period);
    double angle = PI * (double)turn / (double)period;
    return (row - odd) % 2 == 0 ? cos(angle) : sin(angle);
}

void muster_frame_fill(uint32_t rows, uint32_t period, double *out)
{
    for (uint32_t row = 0; row < rows; row++) {
        for (uint32_t t = 0; t < period; t++) {
            out[(size_t)row * period + t] =
                muster_frame_entry(rows, period, row, t);
        }
    }
}
