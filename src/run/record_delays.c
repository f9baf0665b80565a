/*
 * record_delays.c -- see record_delays.h.
 */
#include "run/record_delays.h"

#include <stddef.h>

#include "base/log.h"

muster_status muster_record_delays_open(const muster_config *config,
                                        uint32_t workers,
                                        muster_error *error_out,
                                        muster_delay_recorder **recorder_out)
{
    const char *path = muster_config_string(config, MUSTER_OPT_RECORD_DELAYS);
    *recorder_out = NULL;
    return path != NULL ? muster_delay_recorder_open(path, workers, error_out,
                                                     recorder_out)
                        : MUSTER_OK;
}

muster_status muster_record_delays_close(const muster_config *config,
                                         muster_delay_recorder *recorder,
                                         muster_error *error_out)
{
    if (recorder == NULL) {
        return MUSTER_OK;
    }
    double fastest_ms = muster_delay_recorder_fastest(recorder) * 1e3;
    muster_status status = muster_delay_recorder_close(recorder, error_out);
    if (status == MUSTER_OK) {
        muster_log(MUSTER_LOG_INFO,
                   "the workers' times are recorded: --delay "
                   "trace:file=%s,base=%.3fms replays them, where computing "
                   "takes %.3f ms",
                   muster_config_string(config, MUSTER_OPT_RECORD_DELAYS),
                   fastest_ms, fastest_ms);
    }
    return status;
}
