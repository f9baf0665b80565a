/*
 * base/finite.h -- is every number finite? At the speed of memory.
 */
#ifndef MUSTER_BASE_FINITE_H
#define MUSTER_BASE_FINITE_H

#include <stdbool.h>
#include <stddef.h>

/* No NaN and no infinity among them; true for none. */
bool muster_floats_are_finite(const float *numbers, size_t count);

#endif // MUSTER_BASE_FINITE_H
