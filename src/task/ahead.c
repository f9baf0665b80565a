/*
 * ahead.c -- see ahead.h.
 */
#include "task/ahead.h"

#define SHORTEN 64u // by this share, while no row is late

muster_ahead muster_ahead_make(const muster_ps_worker *worker, uint64_t min,
                               uint64_t max)
{
    return (muster_ahead){.worker = worker,
                          .look = min,
                          .min = min,
                          .max = max,
                          .late = muster_ps_late_rows(worker)};
}

uint64_t muster_ahead_look(muster_ahead *ahead, uint64_t units)
{
    uint64_t late = muster_ps_late_rows(ahead->worker);
    ahead->passed += units;
    if (late > ahead->late && ahead->passed > ahead->look) {
        ahead->passed = 0;
        ahead->look *= 2;
    } else if (late == ahead->late) {
        ahead->look -= ahead->look / SHORTEN;
    }
    ahead->look = ahead->look > ahead->max ? ahead->max : ahead->look;
    ahead->look = ahead->look < ahead->min ? ahead->min : ahead->look;
    ahead->late = late;
    return ahead->look;
}

muster_status muster_ahead_ask(muster_ps_worker *worker, uint32_t table,
                               const uint32_t *keys, size_t count)
{
    muster_status status = muster_ps_replicate(worker, table, keys, count);
    return status == MUSTER_ERR_AGAIN ? MUSTER_OK : status;
}
