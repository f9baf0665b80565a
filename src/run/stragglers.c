/*
 * stragglers.c -- see stragglers.h.
 */
#include "run/stragglers.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"

#define STEPS_KEPT 64u // late answers come soon or not at all

typedef struct step_times {
    uint64_t steps;   // the step's number plus one; 0: none
    double median_ms; // of the answers in time; NAN while it is open
} step_times;

typedef struct worker_times {
    double arrive_ms; // of the answer to the open step; NAN: none
    double arrive_sum, behind_sum;
    uint64_t count; // of both sums
} worker_times;

struct muster_stragglers {
    uint32_t worker_count;
    worker_times *workers;
    double *arrivals;            // scratch, worker_count
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
    s->worker_count = workers;
    s->workers = muster_mem_array(workers, sizeof *s->workers);
    s->arrivals = muster_mem_array(workers, sizeof *s->arrivals);
    if (s->workers == NULL || s->arrivals == NULL) {
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
    muster_mem_free(s->arrivals);
    muster_mem_free(s->workers);
    muster_mem_free(s);
}

static void on_begin(muster_stragglers *s, const muster_report *report)
{
    s->kept[report->step % STEPS_KEPT] =
        (step_times){.steps = report->step + 1, .median_ms = NAN};
    for (uint32_t w = 0; w < s->worker_count; w++) {
        s->workers[w].arrive_ms = NAN;
    }
}

static void count_arrival(worker_times *worker, const step_times *times,
                          double arrive_ms)
{
    worker->arrive_sum += arrive_ms;
    worker->behind_sum += arrive_ms - times->median_ms;
    worker->count++;
}

static void on_answer(muster_stragglers *s, const muster_report *report)
{
    uint32_t w = report->as.answer.worker;
    const step_times *times = &s->kept[report->step % STEPS_KEPT];
    if (w >= s->worker_count || report->as.answer.partial) {
        return;
    }
    if (!report->as.answer.late) {
        s->workers[w].arrive_ms = report->as.answer.arrive_ms;
    } else if (times->steps == report->step + 1 && !isnan(times->median_ms)) {
        count_arrival(&s->workers[w], times, report->as.answer.arrive_ms);
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

static double waited_for_slow(const muster_stragglers *s,
                              const muster_classes *classes)
{
    double last = 0, last_active = 0;
    for (uint32_t w = 0; w < s->worker_count; w++) {
        double arrive_ms = s->workers[w].arrive_ms;
        last = fmax(last, arrive_ms); // fmax passes over NAN
        if (classes == NULL || !muster_classes_of(classes, w).slow) {
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
    for (uint32_t w = 0; w < s->worker_count; w++) {
        worker_times *worker = &s->workers[w];
        if (!isnan(worker->arrive_ms)) {
            count_arrival(worker, times, worker->arrive_ms);
        }
    }
    s->waited_sum += waited_for_slow(s, report->as.end.classes);
    s->steps++;
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
    case MUSTER_REPORT_BELOW:
    case MUSTER_REPORT_NOTICE:
    case MUSTER_REPORT_EVALUATION:
    case MUSTER_REPORT_RESULT:
        break;
    }
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
