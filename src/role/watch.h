/*
 * role/watch.h -- who is slow: what the steps of a run show of its workers.
 *
 * The one place where a run judges its workers. Each step tells cluster/classes
 * of each worker whether it straggled; shuffling, the progress line and the
 * summary all read the answer from there. An answer, in time or late, is timed
 * from the offer of its step and compared with those in time: it straggled when
 * it took more than twice their median, than the median and five MADs (median
 * distances from it), and than the median and a millisecond.
 *
 * A worker that does not answer is another matter: with a code it may have been
 * told to leave a step that others finished, again and again, without being
 * slow. The step counts against it when it had as long as that, or until an
 * approximate code's deadline, and did not come; when it has answered nothing
 * at all for twenty medians (and 20 ms); or when it leaves most of its steps
 * without even a late answer, where most workers leave hardly any. Otherwise
 * the step says nothing of it. One that is not there is not judged.
 *
 *   Determinism  Equal calls give equal classes, also across save and load.
 *   Threads      One at a time.
 *   Allocation   create and save only.
 */
#ifndef MUSTER_ROLE_WATCH_H
#define MUSTER_ROLE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/classes.h"
#include "muster/status.h"

typedef struct muster_watch muster_watch;

/* MUSTER_ERR_NO_MEMORY; MUSTER_ERR_INVALID: no workers. */
MUSTER_CHECKED muster_status muster_watch_create(uint32_t workers,
                                                 muster_watch **watch_out);
void muster_watch_free(muster_watch *watch);

/* A step begins. Steps ascend. */
void muster_watch_begin(muster_watch *watch, uint64_t step, int64_t now_ns);
/* Its model was offered to a worker. */
void muster_watch_offered(muster_watch *watch, uint32_t worker, int64_t now_ns);
/* A worker answered it, in time. */
void muster_watch_answered(muster_watch *watch, uint32_t worker,
                           int64_t now_ns);
/* It is decoded. `cut_off`: by a deadline. O(workers log workers). */
void muster_watch_decoded(muster_watch *watch, bool cut_off, int64_t now_ns);
/* A worker answered `step`, which was decoded before. */
void muster_watch_late(muster_watch *watch, uint32_t worker, uint64_t step,
                       int64_t now_ns);
/* A worker is gone, and owes nothing. */
void muster_watch_lost(muster_watch *watch, uint32_t worker);

/* How many steps in a row were decoded without the worker being offered them:
 * it is not there. */
uint64_t muster_watch_away(const muster_watch *watch, uint32_t worker);

/* Ask the processor for what is known of a worker. */
void muster_watch_prefetch(const muster_watch *watch, uint32_t worker);

/* What is believed; lent as long as the watch lives. Its state is what a
 * restart needs. */
muster_classes *muster_watch_classes(muster_watch *watch);

#endif // MUSTER_ROLE_WATCH_H
