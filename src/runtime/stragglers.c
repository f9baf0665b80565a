/*
 * stragglers.c -- see stragglers.h.
 *
 * Invariants
 *   1. A worker is observed at most once per step, in order of the steps.
 *   2. `open_ns` is when the worker began to owe an answer: the step that it
 *      was offered first since its last one; 0 when it owes none.
 */
#include "runtime/stragglers.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"

#define STEPS_KEPT     64u // late answers come soon or not at all
#define SILENT_MEDIANS 20
#define SILENT_MS      20.0
#define SAME_MS        1.0

typedef struct step_times {
    uint64_t steps; // the step's number plus one; 0: none
    int64_t begin_ns;
    double median_ms; // of the answers in time; NAN while it is open
} step_times;

typedef struct worker_times {
    bool ready;
    int64_t open_ns;
    uint64_t observed; // steps: the newest it was observed in, plus one
    double arrive_ms;  // of the answer to the open step; NAN: none
    double arrive_sum, behind_sum;
    uint64_t count; // of both sums
} worker_times;

struct muster_stragglers {
    uint32_t worker_count;
    worker_times *workers;
    double *arrivals; // scratch, worker_count
    muster_classes *classes;
    step_times kept[STEPS_KEPT]; // by step modulo STEPS_KEPT
    double waited_sum;
    uint64_t steps;
};

muster_status muster_stragglers_create(uint32_t workers,
                                       muster_stragglers **stragglers_out)
{
    muster_stragglers *s = muster_mem_array(1, sizeof *s);
    if (s == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    muster_classes_opts opts = {.workers = workers};
    s->worker_count = workers;
    s->workers = muster_mem_array(workers, sizeof *s->workers);
    s->arrivals = muster_mem_array(workers, sizeof *s->arrivals);
    if (s->workers == NULL || s->arrivals == NULL ||
        muster_classes_create(&opts, &s->classes) < 0) {
        muster_stragglers_free(s);
        return MUSTER_ERR_NO_MEMORY;
    }
    *stragglers_out = s;
    return MUSTER_OK;
}

void muster_stragglers_free(muster_stragglers *s)
{
    if (s == NULL) {
        return;
    }
    muster_classes_free(s->classes);
    muster_mem_free(s->arrivals);
    muster_mem_free(s->workers);
    muster_mem_free(s);
}

static const step_times *times_of(const muster_stragglers *s, uint64_t step)
{
    const step_times *times = &s->kept[step % STEPS_KEPT];
    return times->steps == step + 1 ? times : NULL;
}

double muster_stragglers_arrive_ms(const muster_stragglers *s,
                                   const muster_report *report)
{
    const step_times *times = times_of(s, report->step);
    return times != NULL ? (double)(report->now_ns - times->begin_ns) * 1e-6
                         : (double)NAN;
}

static void on_begin(muster_stragglers *s, const muster_report *report)
{
    s->kept[report->step % STEPS_KEPT] = (step_times){
        .steps = report->step + 1,
        .begin_ns = report->now_ns,
        .median_ms = NAN,
    };
    for (uint32_t w = 0; w < s->worker_count; w++) {
        worker_times *worker = &s->workers[w];
        worker->arrive_ms = NAN;
        if (worker->ready && worker->open_ns == 0) {
            worker->open_ns = report->now_ns;
        }
    }
}

/* An arrival that is known, once the step's median is. */
static void observe_arrival(muster_stragglers *s, uint32_t w,
                            const step_times *times, double arrive_ms)
{
    worker_times *worker = &s->workers[w];
    double behind_ms = arrive_ms - times->median_ms;
    worker->arrive_sum += arrive_ms;
    worker->behind_sum += behind_ms;
    worker->count++;
    if (worker->observed >= times->steps) {
        return;
    }
    worker->observed = times->steps;
    bool same = behind_ms < SAME_MS || times->median_ms <= 0;
    muster_classes_observe(s->classes, w, !same,
                           same ? 1 : arrive_ms / times->median_ms);
}

static void on_answer(muster_stragglers *s, const muster_report *report)
{
    uint32_t w = report->as.answer.worker;
    if (w >= s->worker_count) {
        return;
    }
    worker_times *worker = &s->workers[w];
    const step_times *times = times_of(s, report->step);
    double arrive_ms = muster_stragglers_arrive_ms(s, report);
    // After a late answer it owes the step that is open now.
    worker->open_ns = report->as.answer.late ? report->now_ns : 0;
    if (!report->as.answer.late) {
        worker->arrive_ms = arrive_ms;
    } else if (times != NULL && !isnan(times->median_ms)) {
        observe_arrival(s, w, times, arrive_ms);
    }
}

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* The lower median of the arrivals in time; NAN of none. */
static double median_arrival(muster_stragglers *s)
{
    size_t count = 0;
    for (uint32_t w = 0; w < s->worker_count; w++) {
        if (!isnan(s->workers[w].arrive_ms)) {
            s->arrivals[count++] = s->workers[w].arrive_ms;
        }
    }
    qsort(s->arrivals, count, sizeof *s->arrivals, compare_doubles);
    return count > 0 ? s->arrivals[(count - 1) / 2] : (double)NAN;
}

static double waited_for_slow(const muster_stragglers *s)
{
    double last = 0, last_active = 0;
    for (uint32_t w = 0; w < s->worker_count; w++) {
        double arrive_ms = s->workers[w].arrive_ms;
        last = fmax(last, arrive_ms); // fmax passes over NAN
        if (!muster_classes_of(s->classes, w).slow) {
            last_active = fmax(last_active, arrive_ms);
        }
    }
    return last_active > 0 ? last - last_active : 0;
}

static void on_end(muster_stragglers *s, const muster_report *report)
{
    step_times *times = &s->kept[report->step % STEPS_KEPT];
    double median_ms = median_arrival(s);
    if (times->steps != report->step + 1 || isnan(median_ms)) {
        return;
    }
    times->median_ms = median_ms;
    double silent_ms = fmax(SILENT_MEDIANS * median_ms, SILENT_MS);
    for (uint32_t w = 0; w < s->worker_count; w++) {
        worker_times *worker = &s->workers[w];
        double owed_ms = (double)(report->now_ns - worker->open_ns) * 1e-6;
        if (!isnan(worker->arrive_ms)) {
            observe_arrival(s, w, times, worker->arrive_ms);
        } else if (worker->ready && worker->open_ns != 0 &&
                   owed_ms > silent_ms) {
            worker->observed = times->steps;
            muster_classes_observe(s->classes, w, true, 0);
        }
    }
    s->waited_sum += waited_for_slow(s);
    s->steps++;
}

static void on_worker(muster_stragglers *s, const muster_report *report)
{
    uint32_t w = report->as.worker.worker;
    if (w >= s->worker_count) {
        return;
    }
    s->workers[w].ready = report->as.worker.change == MUSTER_WORKER_READY;
    s->workers[w].open_ns = 0;
}

void muster_stragglers_report(muster_stragglers *s, const muster_report *report)
{
    switch (report->kind) {
    case MUSTER_REPORT_STEP_BEGIN:
        on_begin(s, report);
        break;
    case MUSTER_REPORT_ANSWER:
        on_answer(s, report);
        break;
    case MUSTER_REPORT_STEP_END:
        on_end(s, report);
        break;
    case MUSTER_REPORT_WORKER:
        on_worker(s, report);
        break;
    case MUSTER_REPORT_NOTICE:
    case MUSTER_REPORT_RESULT:
        break;
    }
}

muster_class muster_stragglers_class(const muster_stragglers *s,
                                     uint32_t worker)
{
    return muster_classes_of(s->classes, worker);
}

muster_straggler_cost muster_stragglers_cost(const muster_stragglers *s,
                                             uint32_t worker)
{
    const worker_times *times = &s->workers[worker];
    double count = (double)times->count;
    muster_straggler_cost cost = {.arrive_ms = NAN, .behind_ms = NAN};
    if (times->count > 0) {
        cost.arrive_ms = times->arrive_sum / count;
        cost.behind_ms = times->behind_sum / count;
    }
    return cost;
}

double muster_stragglers_waited_ms(const muster_stragglers *s)
{
    return s->steps > 0 ? s->waited_sum / (double)s->steps : 0;
}
