/*
 * model/schedule.h -- the learning rate over the steps of a run.
 *
 * A schedule is a factor on --lr, a pure function of the step:
 *
 *   constant   1
 *   step       gamma ^ floor(step / every)
 *   cosine     floor + (1 - floor) (1 + cos(pi t / T)) / 2 over the steps after
 *              the warm-up, from 1 down to `floor` (0)
 *
 * and each may start with a warm-up: for the first `warmup` steps the factor
 * is multiplied by (step + 1) / warmup.
 */
#ifndef MUSTER_MODEL_SCHEDULE_H
#define MUSTER_MODEL_SCHEDULE_H

#include <stdint.h>

#include "muster/status.h"

typedef enum muster_schedule_kind {
    MUSTER_SCHEDULE_CONSTANT = 0,
    MUSTER_SCHEDULE_STEP = 1,
    MUSTER_SCHEDULE_COSINE = 2,
} muster_schedule_kind;

typedef struct muster_schedule {
    muster_schedule_kind kind;
    uint64_t steps;  // of the whole run, for cosine
    uint64_t warmup; // steps of warm-up, 0: none
    uint64_t every;  // step: length of a stair
    double gamma;    // step: factor of a stair, 0.1
    double floor;    // cosine: the last factor
} muster_schedule;

/* "constant", "step:every=1000,gamma=0.5", "cosine:warmup=100,floor=0.01" for
 * a run of `steps` steps. MUSTER_ERR_INVALID with a text naming --schedule. */
MUSTER_CHECKED muster_status
muster_schedule_parse(const char *spec, uint64_t steps, muster_error *error_out,
                      muster_schedule *schedule_out);

/* The factor of step 0, 1, ..; after the last step it stays what it was. */
double muster_schedule_factor(const muster_schedule *schedule, uint64_t step);

#endif // MUSTER_MODEL_SCHEDULE_H
