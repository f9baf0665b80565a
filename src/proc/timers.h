/*
 * proc/timers.h -- a role's timers: one deadline per id.
 *
 * Roles use a handful of ids, so a plain list scanned from end to end beats a
 * heap; the earliest deadline is kept, so that asking for it costs nothing.
 *
 *   Threads      The network thread's alone.
 *   Allocation   Only when more ids are armed at once than ever before.
 */
#ifndef MUSTER_PROC_TIMERS_H
#define MUSTER_PROC_TIMERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "muster/status.h"

#define MUSTER_TIMER_NEVER INT64_MAX

typedef struct muster_timers {
    muster_vec list;     // of {id, at_ns}, armed ones only, in no order
    int64_t earliest_ns; // MUSTER_TIMER_NEVER when none is armed
} muster_timers;

muster_timers muster_timers_make(void);
void muster_timers_fini(muster_timers *timers);

/* Arm `id` for at_ns, in place of its earlier deadline; at_ns < 0 disarms. */
MUSTER_CHECKED muster_status muster_timers_set(muster_timers *timers,
                                               uint32_t id, int64_t at_ns);

/* Disarm and return one timer that is due at now_ns, the earliest first. */
bool muster_timers_pop(muster_timers *timers, int64_t now_ns, uint32_t *id_out);

#endif // MUSTER_PROC_TIMERS_H
