/*
 * cluster/delay.h -- how late workers are: straggler models with one syntax.
 *
 *   constant:delay=10ms
 *   exponential:mean=10ms
 *   shifted-exponential:shift=5ms,mean=10ms
 *   pareto:scale=5ms,shape=1.5          P(delay > x) = (scale / x)^shape
 *   iid:p=0.1,delay=100ms               any worker, any step
 *   bernoulli:slow=0.33,p-slow=0.8,p-active=0.01,delay=100ms
 *       each worker is slow or active for good; a slow one straggles with
 *       probability p-slow in a step, an active one with p-active
 *   markov:stay-slow=0.95,stay-active=0.95,delay=100ms
 *       each worker is now slow, now active; it stays what it is with these
 *       probabilities
 *   trace:file=PATH,scale=1,base=0s     csv lines iteration,worker,seconds;
 *       a step takes (seconds - base) * scale, steps and workers wrap around
 *
 * The same text serves `train --local` (sleeps) and `simulate` (virtual time).
 *
 *   Promise      The delay of (worker, step) depends on spec and seed alone,
 *                not on what was asked before: every process of a cluster
 *                knows it. It is at least 0 and at most an hour.
 *   Lifecycle    create, any number of calls, free.
 *   Threads      One at a time: the Markov model remembers where it was.
 *   Allocation   create only.
 */
#ifndef MUSTER_CLUSTER_DELAY_H
#define MUSTER_CLUSTER_DELAY_H

#include <stdbool.h>
#include <stdint.h>

#include "muster/status.h"

typedef struct muster_delay muster_delay;

/*
 * MUSTER_ERR_INVALID    unknown model or parameter, or a value out of range
 * MUSTER_ERR_INPUT      the trace cannot be read; the text names file:line
 * MUSTER_ERR_NO_MEMORY
 */
MUSTER_CHECKED muster_status muster_delay_create(const char *spec,
                                                 uint32_t workers,
                                                 uint64_t seed,
                                                 muster_error *error_out,
                                                 muster_delay **delay_out);
void muster_delay_free(muster_delay *delay);

/* By how much `worker` is late in `step`, in nanoseconds. */
int64_t muster_delay_ns(muster_delay *delay, uint32_t worker, uint64_t step);

/* bernoulli: is this worker of the slow class? Others: false. */
bool muster_delay_is_slow(const muster_delay *delay, uint32_t worker);

#endif // MUSTER_CLUSTER_DELAY_H
