/*
 * code/speeds.h -- loads in proportion to speeds.
 */
#ifndef MUSTER_CODE_SPEEDS_H
#define MUSTER_CODE_SPEEDS_H

#include <stdbool.h>
#include <stdint.h>

#include "code/spec.h"

/* MUSTER_ERR_INVALID: a speed is negative or not finite.
 * MUSTER_ERR_UNSUPPORTED: fewer than `copies` are above 0. */
MUSTER_CHECKED muster_status muster_code_check_speeds(
    const muster_code_spec *spec, uint32_t copies, muster_error *error);

/* Do the workers differ in speed? */
bool muster_code_speeds_differ(const muster_code_spec *spec);

/*
 * Share `total` = parts * copies places among the workers in proportion to the
 * speeds of the spec (all equal when it has none): whole numbers by largest
 * remainder, at most `parts` each (what a capped worker cannot take goes to the
 * others, again in proportion). loads_out: one per worker.
 * MUSTER_ERR_INVALID   a speed is negative or not finite, or all are 0
 * MUSTER_ERR_UNSUPPORTED  too few workers with a speed to hold all copies
 */
MUSTER_CHECKED muster_status muster_code_share_load(
    const muster_code_spec *spec, uint32_t parts, uint32_t copies,
    muster_error *error, uint32_t *loads_out);

#endif // MUSTER_CODE_SPEEDS_H
