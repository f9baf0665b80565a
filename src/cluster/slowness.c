/*
 * slowness.c -- see slowness.h.
 */
#include "cluster/slowness.h"

#include <stddef.h>

#include "base/mem.h"

/* A worker that is so many times as slow or less has no time to lose. */
#define FACTOR_URGENT 3.0

void muster_slowness_fini(muster_slowness *slowness)
{
    muster_mem_free(slowness->changes);
    slowness->changes = NULL;
    slowness->change_count = 0;
}

/* What is in force in a step. */
static muster_slowness_change in_force(const muster_slowness *slowness,
                                       uint64_t step)
{
    muster_slowness_change now = {step, slowness->sleep_ns, slowness->factor};
    for (uint32_t i = 0; i < slowness->change_count; i++) {
        const muster_slowness_change *change = &slowness->changes[i];
        if (change->step > step) {
            break;
        }
        now.sleep_ns = change->sleep_ns >= 0 ? change->sleep_ns : now.sleep_ns;
        now.factor = change->factor > 0 ? change->factor : now.factor;
    }
    return now;
}

int64_t muster_slowness_ns(const muster_slowness *slowness, uint64_t step,
                           const muster_delay_work *work)
{
    muster_slowness_change now = in_force(slowness, step);
    int64_t ns = (int64_t)((now.factor - 1) * (double)work->compute_ns);
    ns += work->follows ? 0 : now.sleep_ns;
    if (slowness->delay != NULL && slowness->edge) {
        ns +=
            muster_delay_of_edge(slowness->delay, slowness->worker, step, work);
    } else if (slowness->delay != NULL) {
        ns += muster_delay_of(slowness->delay, slowness->worker, step, work);
    }
    return ns;
}

int64_t muster_slowness_before_ns(const muster_slowness *slowness,
                                  uint64_t step, int64_t compute_ns)
{
    double factor = in_force(slowness, step).factor;
    double some = (factor - 1) / 8;
    double half = (factor - FACTOR_URGENT) / 2;
    return (int64_t)((half > some ? half : some) * (double)compute_ns);
}

int64_t muster_slowness_until_ns(const muster_slowness *slowness, uint64_t step,
                                 const muster_delay_work *work,
                                 int64_t start_ns, int64_t now_ns)
{
    int64_t from_ns = muster_slowness_multiplies(slowness)
                          ? start_ns + work->compute_ns
                          : now_ns;
    int64_t until_ns = from_ns + muster_slowness_ns(slowness, step, work);
    return until_ns > now_ns ? until_ns : now_ns;
}

bool muster_slowness_multiplies(const muster_slowness *slowness)
{
    bool multiplies =
        slowness->factor > 1 ||
        (slowness->delay != NULL && muster_delay_multiplies(slowness->delay));
    for (uint32_t i = 0; i < slowness->change_count; i++) {
        multiplies = multiplies || slowness->changes[i].factor > 1;
    }
    return multiplies;
}
