/*
 * speeds.c -- largest remainder with a cap.
 *
 * Workers whose fair share exceeds the cap are set to it and leave; the rest
 * share what is left, until nobody exceeds. Each pass removes one at least, and
 * only shares above the cap are ever cut, so the order does not matter.
 */
#include "code/speeds.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/mem.h"

typedef struct fraction {
    double left; // what rounding down took away
    uint32_t worker;
} fraction;

static double speed_of(const muster_code_spec *spec, uint32_t worker)
{
    return spec->speeds != NULL ? spec->speeds[worker] : 1.0;
}

muster_status muster_code_check_speeds(const muster_code_spec *spec,
                                       uint32_t copies, muster_error *error)
{
    uint32_t moving = 0;
    for (uint32_t i = 0; i < spec->workers; i++) {
        double speed = speed_of(spec, i);
        if (!isfinite(speed) || speed < 0.0) {
            return muster_error_set(error, MUSTER_ERR_INVALID,
                                    "%s: the speed of worker %u is %g; it must "
                                    "be a finite number, at least 0",
                                    spec->family, i, speed);
        }
        moving += speed > 0.0;
    }
    if (moving < copies) {
        return muster_error_set(error, MUSTER_ERR_UNSUPPORTED,
                                "%s: %u workers have a speed above 0, s = %u "
                                "needs %u",
                                spec->family, moving, copies - 1, copies);
    }
    return MUSTER_OK;
}

bool muster_code_speeds_differ(const muster_code_spec *spec)
{
    for (uint32_t i = 1; spec->speeds != NULL && i < spec->workers; i++) {
        if (spec->speeds[i] != spec->speeds[0]) {
            return true;
        }
    }
    return false;
}

/* Descending by remainder, then by worker. */
static int compare(const void *one, const void *two)
{
    const fraction *a = one;
    const fraction *b = two;
    if (a->left != b->left) {
        return a->left < b->left ? 1 : -1;
    }
    return (a->worker > b->worker) - (a->worker < b->worker);
}

/* Cap who would exceed; returns what the others must take, their total speed in
 * *speed_out. Capped workers have load `parts`, the others 0. */
static uint64_t cap_loads(const muster_code_spec *spec, uint32_t parts,
                          uint64_t total, uint32_t *loads, double *speed_out)
{
    bool again = true;
    while (again) {
        double speed = 0.0;
        again = false;
        for (uint32_t i = 0; i < spec->workers; i++) {
            speed += loads[i] == 0 ? speed_of(spec, i) : 0.0;
        }
        *speed_out = speed;
        for (uint32_t i = 0; i < spec->workers && total > 0; i++) {
            if (loads[i] == 0 &&
                (double)total * speed_of(spec, i) > (double)parts * speed) {
                loads[i] = parts;
                total -= parts;
                again = true;
                break;
            }
        }
    }
    return total;
}

muster_status muster_code_share_load(const muster_code_spec *spec,
                                     uint32_t parts, uint32_t copies,
                                     muster_error *error, uint32_t *loads_out)
{
    muster_status status = muster_code_check_speeds(spec, copies, error);
    if (status != MUSTER_OK) {
        return status;
    }
    fraction *order = muster_mem_array(spec->workers, sizeof(*order));
    if (order == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < spec->workers; i++) {
        loads_out[i] = 0;
    }
    double speed;
    uint64_t total =
        cap_loads(spec, parts, (uint64_t)parts * copies, loads_out, &speed);
    uint64_t given = 0;
    uint32_t open = 0;
    for (uint32_t i = 0; i < spec->workers; i++) {
        if (loads_out[i] == parts || speed_of(spec, i) <= 0.0) {
            continue;
        }
        double share = (double)total * speed_of(spec, i) / speed;
        double whole = fmin(floor(share), (double)parts);
        loads_out[i] = (uint32_t)whole;
        given += loads_out[i];
        order[open++] = (fraction){share - whole, i};
    }
    qsort(order, open, sizeof(*order), compare);
    // Rounding in `share` may ask for a second turn; never past the cap.
    MUSTER_ASSERT(open > 0 || given == total);
    for (uint32_t i = 0; open > 0 && given < total; i = (i + 1) % open) {
        if (loads_out[order[i].worker] < parts) {
            loads_out[order[i].worker]++;
            given++;
        }
    }
    muster_mem_free(order);
    return MUSTER_OK;
}
