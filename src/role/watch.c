/*
 * watch.c -- see watch.h.
 *
 * Invariants
 *   1. A worker is observed at most once per step, in order of the steps.
 *   2. `owed_ns` is when the worker began to owe an answer: at the first offer
 *      since its last one; NONE when it owes none.
 */
#include "role/watch.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"

#define STEPS_KEPT     64u // late answers come soon or not at all
#define NONE           INT64_MIN
#define LATE_MEDIANS   2
#define LATE_MADS      5
#define SAME_NS        MUSTER_NS_PER_MS
#define SILENT_MEDIANS 20
#define SILENT_NS      (20 * MUSTER_NS_PER_MS)
/* Steps left without an answer: how fast their share fades, the share that most
 * are below where nobody is in a race, and the one that is too much. */
#define LEFT_MEMORY 16.0
#define LEFT_CALM   0.1
#define LEFT_OFTEN  0.5

typedef struct step_times {
    uint64_t steps; // the step's number plus one; 0: none
    int64_t begin_ns;
    int64_t median_ns; // of the answers in time; NONE while it is open
    int64_t late_ns;   // what takes longer has straggled
} step_times;

typedef struct worker_times {
    int64_t offered_ns; // the open step; NONE: it was not
    int64_t arrival_ns; // from there to its answer; NONE: none yet
    int64_t owed_ns;
    uint64_t observed; // steps: the newest it was observed in, plus one
    uint64_t away;
    uint64_t asked;  // the newest decoded step it was offered, plus one
    bool unanswered; // that step, so far
    double left;     // share of steps that it left without an answer
} worker_times;

struct muster_watch {
    uint32_t worker_count;
    worker_times *workers;
    int64_t *arrivals; // scratch, worker_count
    muster_classes *classes;
    uint64_t step;
    step_times kept[STEPS_KEPT]; // by step modulo STEPS_KEPT
};

muster_status muster_watch_create(uint32_t workers, muster_watch **watch_out)
{
    muster_watch *watch = muster_mem_array(1, sizeof(*watch));
    if (watch == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    watch->worker_count = workers;
    watch->workers = muster_mem_lines(workers, sizeof(*watch->workers));
    watch->arrivals = muster_mem_array(workers, sizeof(*watch->arrivals));
    muster_classes_opts opts = {.workers = workers};
    muster_status status = MUSTER_ERR_NO_MEMORY;
    if (watch->workers != NULL && watch->arrivals != NULL) {
        status = muster_classes_create(&opts, &watch->classes);
    }
    if (status < 0) {
        muster_watch_free(watch);
        return status;
    }
    for (uint32_t i = 0; i < workers; i++) {
        watch->workers[i] = (worker_times){
            .offered_ns = NONE, .arrival_ns = NONE, .owed_ns = NONE};
    }
    *watch_out = watch;
    return MUSTER_OK;
}

void muster_watch_free(muster_watch *watch)
{
    if (watch == NULL) {
        return;
    }
    muster_classes_free(watch->classes);
    muster_mem_free(watch->arrivals);
    muster_mem_free(watch->workers);
    muster_mem_free(watch);
}

void muster_watch_begin(muster_watch *watch, uint64_t step, int64_t now_ns)
{
    watch->step = step;
    watch->kept[step % STEPS_KEPT] =
        (step_times){.steps = step + 1, .begin_ns = now_ns, .median_ns = NONE};
    for (uint32_t i = 0; i < watch->worker_count; i++) {
        watch->workers[i].offered_ns = NONE;
        watch->workers[i].arrival_ns = NONE;
    }
}

void muster_watch_offered(muster_watch *watch, uint32_t worker, int64_t now_ns)
{
    worker_times *times = &watch->workers[worker];
    times->offered_ns = now_ns;
    if (times->owed_ns == NONE) {
        times->owed_ns = now_ns;
    }
}

void muster_watch_answered(muster_watch *watch, uint32_t worker, int64_t now_ns)
{
    worker_times *times = &watch->workers[worker];
    if (times->offered_ns != NONE) {
        times->arrival_ns = now_ns - times->offered_ns;
    }
    times->owed_ns = NONE;
}

/* A worker's arrival is known, and so is the step's median. */
static void observe_arrival(muster_watch *watch, uint32_t worker,
                            const step_times *step, int64_t arrival_ns)
{
    worker_times *times = &watch->workers[worker];
    if (times->observed >= step->steps) {
        return;
    }
    times->observed = step->steps;
    muster_classes_observe(watch->classes, worker, arrival_ns > step->late_ns,
                           0);
}

void muster_watch_late(muster_watch *watch, uint32_t worker, uint64_t step,
                       int64_t now_ns)
{
    worker_times *times = &watch->workers[worker];
    const step_times *kept = &watch->kept[step % STEPS_KEPT];
    if (times->owed_ns != NONE) {
        times->owed_ns = now_ns; // it owes the newest from now on
    }
    if (times->asked == step + 1) {
        times->unanswered = false;
    }
    if (kept->steps == step + 1 && kept->median_ns != NONE) {
        observe_arrival(watch, worker, kept, now_ns - kept->begin_ns);
    }
}

/* The element that sorting would put at `rank` (Hoare's quickselect, with the
 * middle as pivot). The list is reordered. */
static int64_t select_rank(int64_t *list, size_t count, size_t rank)
{
    size_t low = 0;
    size_t high = count;
    while (high - low > 1) {
        int64_t pivot = list[low + (high - low) / 2];
        size_t left = low;
        size_t right = high - 1;
        while (left <= right) {
            while (list[left] < pivot) {
                left++;
            }
            while (list[right] > pivot) {
                right--;
            }
            if (left > right) {
                break;
            }
            int64_t moved = list[left];
            list[left++] = list[right];
            list[right] = moved;
            if (right == low) {
                break;
            }
            right--;
        }
        // list[low..right] <= pivot <= list[left..high)
        if (rank < left && rank > right) {
            return pivot;
        }
        if (rank >= left) {
            low = left;
        } else {
            high = right + 1;
        }
    }
    return list[low];
}

static int64_t largest(int64_t a, int64_t b, int64_t c)
{
    int64_t larger = a > b ? a : b;
    return larger > c ? larger : c;
}

/* The lower median of the arrivals in time, and what is late by them: twice as
 * long, and far out of their spread, which is wide where workers share a
 * machine. Nothing where none came. */
static void judge_arrivals(muster_watch *watch, step_times *step)
{
    size_t count = 0;
    for (uint32_t i = 0; i < watch->worker_count; i++) {
        if (watch->workers[i].arrival_ns != NONE) {
            watch->arrivals[count++] = watch->workers[i].arrival_ns;
        }
    }
    if (count == 0) {
        return;
    }
    int64_t median_ns = select_rank(watch->arrivals, count, (count - 1) / 2);
    for (size_t i = 0; i < count; i++) {
        int64_t off_ns = watch->arrivals[i] - median_ns;
        watch->arrivals[i] = off_ns < 0 ? -off_ns : off_ns;
    }
    int64_t spread_ns = select_rank(watch->arrivals, count, (count - 1) / 2);
    step->median_ns = median_ns;
    step->late_ns =
        largest(LATE_MEDIANS * median_ns, median_ns + LATE_MADS * spread_ns,
                median_ns + SAME_NS);
}

/* Does this step count against a worker that has not answered it? */
static bool is_straggling(const worker_times *times, const step_times *step,
                          bool cut_off, int64_t now_ns)
{
    int64_t median_ns = step->median_ns;
    int64_t had_ns = now_ns - times->offered_ns;
    int64_t silent_ns = SILENT_MEDIANS * median_ns;
    silent_ns = silent_ns > SILENT_NS ? silent_ns : SILENT_NS;
    return had_ns > step->late_ns || (cut_off && had_ns > median_ns) ||
           now_ns - times->owed_ns > silent_ns;
}

/* Nothing more will be heard of the step before. Where most leave no step,
 * one that leaves most of them is slow. */
static void settle_step_before(muster_watch *watch)
{
    uint32_t asked = 0, calm = 0;
    for (uint32_t i = 0; i < watch->worker_count; i++) {
        worker_times *times = &watch->workers[i];
        if (times->asked != 0) {
            double now = times->unanswered ? 1 : 0;
            times->left += (now - times->left) / LEFT_MEMORY;
            asked++;
            calm += times->left < LEFT_CALM;
        }
    }
    for (uint32_t i = 0; i < watch->worker_count; i++) {
        worker_times *times = &watch->workers[i];
        if (times->asked > times->observed && times->unanswered &&
            times->left > LEFT_OFTEN && 2 * calm > asked) {
            times->observed = times->asked;
            muster_classes_observe(watch->classes, i, true, 0);
        }
        times->asked = 0;
    }
}

void muster_watch_decoded(muster_watch *watch, bool cut_off, int64_t now_ns)
{
    settle_step_before(watch);
    step_times *step = &watch->kept[watch->step % STEPS_KEPT];
    judge_arrivals(watch, step);
    for (uint32_t i = 0; i < watch->worker_count; i++) {
        worker_times *times = &watch->workers[i];
        bool offered = times->offered_ns != NONE;
        times->away = offered ? 0 : times->away + 1;
        if (step->median_ns == NONE || !offered) {
            continue;
        }
        times->asked = step->steps;
        times->unanswered = times->arrival_ns == NONE;
        if (!times->unanswered) {
            observe_arrival(watch, i, step, times->arrival_ns);
        } else if (is_straggling(times, step, cut_off, now_ns)) {
            times->observed = step->steps;
            muster_classes_observe(watch->classes, i, true, 0);
        }
    }
}

void muster_watch_lost(muster_watch *watch, uint32_t worker)
{
    worker_times *times = &watch->workers[worker];
    // What it answered before it went still counts.
    if (times->arrival_ns == NONE) {
        times->offered_ns = NONE;
    }
    times->owed_ns = NONE;
    times->asked = 0;
}

uint64_t muster_watch_away(const muster_watch *watch, uint32_t worker)
{
    return watch->workers[worker].away;
}

muster_classes *muster_watch_classes(muster_watch *watch)
{
    return watch->classes;
}

void muster_watch_prefetch(const muster_watch *watch, uint32_t worker)
{
    __builtin_prefetch(&watch->workers[worker]);
}
