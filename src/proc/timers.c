/*
 * timers.c -- see timers.h.
 *
 * Invariants
 *   1. An id is in the list at most once.
 *   2. earliest_ns is the smallest at_ns of the list.
 */
#include "proc/timers.h"

typedef struct timer {
    uint32_t id;
    int64_t at_ns;
} timer;

muster_timers muster_timers_make(void)
{
    muster_timers timers = {muster_vec_make(sizeof(timer)), MUSTER_TIMER_NEVER};
    return timers;
}

void muster_timers_fini(muster_timers *timers)
{
    muster_vec_fini(&timers->list);
    timers->earliest_ns = MUSTER_TIMER_NEVER;
}

static void find_earliest(muster_timers *timers)
{
    const timer *all = timers->list.data;
    int64_t earliest = MUSTER_TIMER_NEVER;
    for (size_t i = 0; i < timers->list.count; i++) {
        if (all[i].at_ns < earliest) {
            earliest = all[i].at_ns;
        }
    }
    timers->earliest_ns = earliest;
}

static void remove_at(muster_timers *timers, size_t index)
{
    timer *all = timers->list.data;
    all[index] = all[timers->list.count - 1];
    timers->list.count--;
}

muster_status muster_timers_set(muster_timers *timers, uint32_t id,
                                int64_t at_ns)
{
    timer *all = timers->list.data;
    size_t index = 0;
    while (index < timers->list.count && all[index].id != id) {
        index++;
    }
    if (index < timers->list.count) {
        if (at_ns < 0) {
            remove_at(timers, index);
        } else {
            all[index].at_ns = at_ns;
        }
    } else if (at_ns >= 0) {
        timer *added = muster_vec_push(&timers->list);
        if (added == NULL) {
            return MUSTER_ERR_NO_MEMORY;
        }
        added->id = id;
        added->at_ns = at_ns;
    }
    find_earliest(timers);
    return MUSTER_OK;
}

bool muster_timers_pop(muster_timers *timers, int64_t now_ns, uint32_t *id_out)
{
    if (timers->earliest_ns > now_ns) {
        return false;
    }
    const timer *all = timers->list.data;
    size_t index = 0;
    while (all[index].at_ns != timers->earliest_ns) {
        index++;
    }
    *id_out = all[index].id;
    remove_at(timers, index);
    find_earliest(timers);
    return true;
}
