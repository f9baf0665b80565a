/*
 * plan/kth.h -- when enough of several have come: order statistics of times.
 */
#ifndef MUSTER_PLAN_KTH_H
#define MUSTER_PLAN_KTH_H

#include <stdint.h>

/* The k-th smallest (from 1) of `count` values, which are reordered. */
float muster_kth_smallest(float *values, uint32_t count, uint32_t k);

/* The largest over `groups` groups of consecutive ones of its m-th smallest;
 * reorders within the groups. */
float muster_kth_slowest_group(float *values, uint32_t count, uint32_t groups,
                               uint32_t m);

#endif // MUSTER_PLAN_KTH_H
