/*
 * meter.c -- progress and CPU time of one call.
 */
#include "partition/meter.h"

#include "base/clock.h"

#define TELL_SHARE 0.005

muster_status muster_meter_init(muster_meter *meter,
                                const muster_partition_opts *o)
{
    *meter = (muster_meter){.on_progress = o->on_progress,
                            .context = o->progress_context,
                            .total = 1.0};
    return pthread_mutex_init(&meter->mutex, NULL) == 0 ? MUSTER_OK
                                                        : MUSTER_ERR_NO_MEMORY;
}

void muster_meter_fini(muster_meter *meter)
{
    pthread_mutex_destroy(&meter->mutex);
}

/* Under the mutex. */
static void tell(muster_meter *meter)
{
    double share = meter->done / meter->total;
    share = share < 1.0 ? share : 1.0;
    bool due = share >= meter->told + TELL_SHARE ||
               (share >= 1.0 && meter->told < 1.0);
    if (due && !meter->cancelled) {
        meter->told = share;
        meter->cancelled = !meter->on_progress(meter->context, share);
    }
}

muster_status muster_meter_add(muster_meter *meter, double work_ns)
{
    if (meter->on_progress == NULL) {
        return MUSTER_OK;
    }
    pthread_mutex_lock(&meter->mutex);
    meter->done += work_ns;
    tell(meter);
    bool cancelled = meter->cancelled;
    pthread_mutex_unlock(&meter->mutex);
    return cancelled ? MUSTER_ERR_CANCELLED : MUSTER_OK;
}

void muster_meter_cpu(muster_meter *meter, muster_meter_stage stage,
                      int64_t since_ns)
{
    atomic_fetch_add(&meter->cpu_ns[stage],
                     muster_clock_thread_cpu_ns() - since_ns);
}

double muster_meter_cpu_s(muster_meter *meter, muster_meter_stage stage)
{
    return (double)atomic_load(&meter->cpu_ns[stage]) / 1e9;
}
