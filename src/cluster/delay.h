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
 *   geometric:time=20ms,p=0.1,way=both  a link that loses messages: it takes
 *       `time` for each try, and a try fails with probability p; `way` is
 *       down (the model), up (the answer) or both, each with tries of its own
 *   trace:file=PATH,scale=1,base=0s     csv lines iteration,worker,seconds;
 *       a step takes (seconds - base) * scale, steps and workers wrap around
 *   cluster:file=PATH,links=all         a cluster file (cluster/file.h): each
 *       worker's computing time by its load, and all tries of its links; with
 *       links=own without its edge's, which then is a process that takes that
 *       time itself
 *
 * Every model but cluster takes `per`:
 *   per=step     (default) the delay as it is drawn; once where a worker
 *                computes a step in stages
 *   per=load     times the worker's load: its share of the step's samples
 *                times the number of workers, so that an uncoded worker has 1
 *                and one with d of k = n parts has d
 *   per=message  times the length of the worker's message over the gradient's:
 *                1/m
 *
 * constant, exponential, pareto, iid, bernoulli and markov take `factor=F`, at
 * least 1, in place of their time: computing then takes F times as long while
 * the worker straggles (constant: always). exponential draws 1 + Exp(F - 1),
 * pareto has the scale F.
 *
 * MODEL*MODEL multiplies two that have a factor: iid:p=0.1,factor=10*
 * exponential:factor=1.05 is 1 + Exp(0.05), and ten times that now and then.
 *
 * MODEL+MODEL adds two up, each with draws of its own. Ye and Abbe's worker,
 * d (t1 + Exp) + (t2 + Exp) / m, is
 *
 *   shifted-exponential:shift=T1,mean=M1,per=load+
 *   shifted-exponential:shift=T2,mean=M2,per=message
 *
 * The same text serves `train --local` (sleeps) and `simulate` (virtual time).
 *
 *   Promise      The delay of (worker, step) depends on spec, seed and the
 *                worker's work alone, not on what was asked before: every
 *                process of a cluster knows it. It is at least 0 and at most
 *                an hour.
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

/* What a worker does in a step. */
typedef struct muster_delay_work {
    double share;       // of the step's samples: d parts of k, 0..1
    double message;     // the length of its message over the gradient's: 1/m
    int64_t compute_ns; // that computing takes by itself
    bool follows;       // part of a step whose per=step delays were counted
    double bytes;       // of a whole gradient; 0: links of a cluster file take
                        // no time but their latency
} muster_delay_work;

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
int64_t muster_delay_of(muster_delay *delay, uint32_t worker, uint64_t step,
                        const muster_delay_work *work);

/* By how much an edge is: its link, where a cluster file says it; else 0. */
int64_t muster_delay_of_edge(const muster_delay *delay, uint32_t edge,
                             uint64_t step, const muster_delay_work *work);

/* The same spec for a run whose edges are processes: `cluster` terms get
 * links=own. For muster_mem_free(); NULL when out of memory. */
char *muster_delay_under_edges(const char *spec);

/* By how much an uncoded worker that computes in no time is late. */
int64_t muster_delay_ns(muster_delay *delay, uint32_t worker, uint64_t step);

/* Does it look at compute_ns? Measuring that costs a system call. */
bool muster_delay_multiplies(const muster_delay *delay);

/* bernoulli: is this worker of the slow class? Others: false. */
bool muster_delay_is_slow(const muster_delay *delay, uint32_t worker);

#endif // MUSTER_CLUSTER_DELAY_H
