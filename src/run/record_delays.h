/*
 * run/record_delays.h -- --record-delays FILE, the same for train and simulate.
 */
#ifndef MUSTER_RUN_RECORD_DELAYS_H
#define MUSTER_RUN_RECORD_DELAYS_H

#include <stdint.h>

#include "cluster/delay_recorder.h"
#include "config/config.h"
#include "muster/status.h"

/* The recorder of --record-delays, or NULL without. Fails as
 * muster_delay_recorder_open(). */
MUSTER_CHECKED muster_status muster_record_delays_open(
    const muster_config *config, uint32_t workers, muster_error *error_out,
    muster_delay_recorder **recorder_out);

/* Close it and say how to replay the file; NULL is fine. Fails as
 * muster_delay_recorder_close(). */
MUSTER_CHECKED muster_status muster_record_delays_close(
    const muster_config *config, muster_delay_recorder *recorder,
    muster_error *error_out);

#endif // MUSTER_RUN_RECORD_DELAYS_H
