/*
 * kth.c -- see kth.h.
 */
#include "plan/kth.h"

#include <math.h>

#include "base/assert.h"

float muster_kth_smallest(float *values, uint32_t count, uint32_t k)
{
    uint32_t low = 0;
    uint32_t high = count - 1;
    while (low < high) {
        float pivot = values[low + (high - low) / 2];
        uint32_t i = low;
        uint32_t j = high;
        for (;;) {
            while (values[i] < pivot) {
                i++;
            }
            while (values[j] > pivot) {
                j--;
            }
            if (i >= j) {
                break;
            }
            float swap = values[i];
            values[i++] = values[j];
            values[j--] = swap;
        }
        uint32_t end = j; // low..end <= pivot <= end+1..high
        if (k - 1 <= end) {
            high = end;
        } else {
            low = end + 1;
        }
    }
    return values[low];
}

float muster_kth_slowest_group(float *values, uint32_t count, uint32_t groups,
                               uint32_t m)
{
    MUSTER_ASSERT(groups > 0);
    uint32_t size = count / groups;
    uint32_t large = count % groups; // the first have one more
    float slowest = 0;
    for (uint32_t g = 0; g < groups; g++) {
        uint32_t members = size + (g < large);
        slowest = fmaxf(slowest, muster_kth_smallest(values, members, m));
        values += members;
    }
    return slowest;
}
