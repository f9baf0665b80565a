/*
 * partition/facility.h -- the facility location function and its gains.
 *
 * Items stand for clients: item i stands for client u as well as their
 * similarity s(i, u) >= 0 says. For a set A of items
 *
 *     f(A) = sum over u of best(u),   best(u) = max over i in A of s(i, u)
 *
 * and adding item i gains  sum over u of max(0, s(i, u) - best(u)).
 * Similarities are a matrix, a row an item, dense or CSR (missing ones are 0).
 *
 *   Promise      Gains are sums in one fixed order, and rounding is monotone:
 *                when best grows, the computed gain of an item never does. So
 *                an old gain bounds the new one exactly, not only up to
 *                rounding, and lazy evaluation picks what naive greedy picks.
 *   Ownership    muster_facility_fini() frees what was built; a given dense
 *                matrix is lent.
 *   Threads      Gains are pure functions.
 */
#ifndef MUSTER_PARTITION_FACILITY_H
#define MUSTER_PARTITION_FACILITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct muster_facility {
    uint32_t items;
    uint32_t clients;
    const float *dense; // items rows of `clients` floats; NULL: CSR
    size_t stride;      // floats from a dense row to the next
    uint64_t *offsets;  // items + 1
    uint32_t *columns;  // clients, ascending within an item
    float *values;
    float *own; // the dense matrix, when it was built here
} muster_facility;

/* What `item` adds to a set with these `best`. */
double muster_facility_gain(const muster_facility *facility, const float *best,
                            uint32_t item);

/* Add `item` to the set: raise `best`. */
void muster_facility_take(const muster_facility *facility, float *best,
                          uint32_t item);

/* f of a set: the sum of its `best`. */
double muster_facility_value(const muster_facility *facility,
                             const float *best);

/* Whether every entry of a dense row is a finite number. */
bool muster_facility_row_is_finite(const muster_facility *facility,
                                   uint32_t item);

/* Bytes read for an average gain. */
double muster_facility_gain_bytes(const muster_facility *facility);

/* A zeroed one is fine. */
void muster_facility_fini(muster_facility *facility);

#endif // MUSTER_PARTITION_FACILITY_H
