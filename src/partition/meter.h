/*
 * partition/meter.h -- how much of the work is done, and what it took.
 *
 * Work is counted in estimated nanoseconds, so that its parts (kernel, choice,
 * swaps) are comparable. The callback hears of every two hundredth part.
 *
 *   Threads      Any; the callback is called under a mutex.
 */
#ifndef MUSTER_PARTITION_METER_H
#define MUSTER_PARTITION_METER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "muster/partition.h"

/* The stages whose CPU time is counted apart. */
typedef enum muster_meter_stage {
    MUSTER_METER_KERNEL = 0,
    MUSTER_METER_GREEDY = 1,
    MUSTER_METER_REFINE = 2,
    MUSTER_METER_STAGES = 3,
} muster_meter_stage;

typedef struct muster_meter {
    muster_partition_progress on_progress;
    void *context;
    double total;          // set before the work begins
    pthread_mutex_t mutex; // guards done, told and cancelled
    double done;
    double told;
    bool cancelled;
    atomic_int_least64_t cpu_ns[MUSTER_METER_STAGES];
} muster_meter;

/* MUSTER_ERR_NO_MEMORY when there is no mutex to be had. */
MUSTER_CHECKED muster_status muster_meter_init(muster_meter *meter,
                                               const muster_partition_opts *o);
void muster_meter_fini(muster_meter *meter);

/* So much is done. MUSTER_OK, or MUSTER_ERR_CANCELLED from the moment that the
 * callback said so. */
MUSTER_CHECKED muster_status muster_meter_add(muster_meter *meter,
                                              double work_ns);

/* Count the CPU time of this thread since `since_ns`, a reading of
 * muster_clock_thread_cpu_ns(). */
void muster_meter_cpu(muster_meter *meter, muster_meter_stage stage,
                      int64_t since_ns);

double muster_meter_cpu_s(muster_meter *meter, muster_meter_stage stage);

#endif // MUSTER_PARTITION_METER_H
