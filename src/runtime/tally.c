/*
 * tally.c -- see tally.h.
 */
#include "runtime/tally.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

#define SLOW_FACTOR   2.0
#define SILENT_STEPS  5u
#define SAMPLE_STREAM 0x74616c6cu

muster_status muster_tally_init(uint32_t workers, muster_tally *tally_out)
{
    muster_tally tally = {.worker_count = workers, .loss = NAN};
    tally.step_ms = muster_vec_make(sizeof(float));
    tally.workers = muster_mem_array(workers, sizeof *tally.workers);
    tally.samples =
        muster_mem_array(workers, MUSTER_TALLY_SAMPLE_MAX * sizeof(float));
    tally.scratch = muster_mem_array(MUSTER_TALLY_SAMPLE_MAX, sizeof(float));
    tally.medians = muster_mem_array(workers, sizeof(float));
    *tally_out = tally;
    if (tally.workers == NULL || tally.samples == NULL ||
        tally.scratch == NULL || tally.medians == NULL ||
        !muster_vec_reserve(&tally_out->step_ms, 4096)) {
        muster_tally_fini(tally_out);
        return MUSTER_ERR_NO_MEMORY;
    }
    for (uint32_t w = 0; w < workers; w++) {
        tally.workers[w].compute_ms =
            tally.samples + (size_t)w * MUSTER_TALLY_SAMPLE_MAX;
    }
    return MUSTER_OK;
}

void muster_tally_fini(muster_tally *tally)
{
    muster_mem_free(tally->workers);
    muster_mem_free(tally->samples);
    muster_mem_free(tally->scratch);
    muster_mem_free(tally->medians);
    muster_vec_fini(&tally->step_ms);
    memset(tally, 0, sizeof *tally);
}

static void count_answer(muster_tally *tally, const muster_report *report)
{
    uint32_t number = report->as.answer.worker;
    if (number >= tally->worker_count) {
        return;
    }
    muster_tally_worker *worker = &tally->workers[number];
    if (report->as.answer.late) {
        worker->late++;
    } else {
        worker->on_time++;
    }
    double ms = report->as.answer.compute_ms;
    worker->compute_last_ms = ms;
    uint64_t seen = worker->compute_seen++;
    uint64_t at = seen;
    if (seen >= MUSTER_TALLY_SAMPLE_MAX) {
        at = muster_rng_at(number, SAMPLE_STREAM, seen) % (seen + 1);
    }
    if (at < MUSTER_TALLY_SAMPLE_MAX) {
        worker->compute_ms[at] = (float)ms;
    }
}

static muster_status count_step(muster_tally *tally,
                                const muster_report *report)
{
    tally->steps++;
    tally->loss = report->as.end.loss;
    tally->step_ms_sum += report->as.end.step_ms;
    tally->responders = report->as.end.responders;
    tally->stragglers = report->as.end.stragglers;
    tally->bytes_up += report->as.end.bytes_up;
    tally->bytes_down += report->as.end.bytes_down;
    tally->messages_up += report->as.end.messages_up;
    tally->bytes_moved += report->as.end.bytes_moved;
    if (report->as.end.grad_err > tally->grad_err_max) {
        tally->grad_err_max = report->as.end.grad_err;
    }
    float *slot = muster_vec_push(&tally->step_ms);
    if (slot == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    *slot = (float)report->as.end.step_ms;
    return MUSTER_OK;
}

static void count_worker(muster_tally *tally, const muster_report *report)
{
    if (report->as.worker.worker >= tally->worker_count) {
        return;
    }
    muster_tally_worker *worker = &tally->workers[report->as.worker.worker];
    switch (report->as.worker.change) {
    case MUSTER_WORKER_JOINED:
        worker->joined = true;
        break;
    case MUSTER_WORKER_READY:
        worker->ready = true;
        break;
    case MUSTER_WORKER_LOST:
        worker->joined = worker->ready = false;
        worker->deaths++;
        break;
    }
}

static void count_begin(muster_tally *tally)
{
    for (uint32_t w = 0; w < tally->worker_count; w++) {
        tally->workers[w].ready_steps += tally->workers[w].ready;
    }
}

muster_status muster_tally_report(muster_tally *tally,
                                  const muster_report *report)
{
    switch (report->kind) {
    case MUSTER_REPORT_STEP_BEGIN:
        count_begin(tally);
        break;
    case MUSTER_REPORT_ANSWER:
        count_answer(tally, report);
        break;
    case MUSTER_REPORT_STEP_END:
        return count_step(tally, report);
    case MUSTER_REPORT_WORKER:
        count_worker(tally, report);
        break;
    case MUSTER_REPORT_RESULT:
        tally->has_result = true;
        tally->result_loss = report->as.result.loss;
        tally->theta_norm = report->as.result.theta_norm;
        tally->test_loss = report->as.result.test_loss;
        tally->test_accuracy = report->as.result.test_accuracy;
        break;
    case MUSTER_REPORT_NOTICE:
        break;
    }
    return MUSTER_OK;
}

static int compare_floats(const void *left, const void *right)
{
    float a = *(const float *)left, b = *(const float *)right;
    return (a > b) - (a < b);
}

double muster_quantile(float *values, size_t count, double p)
{
    if (count == 0) {
        return NAN;
    }
    qsort(values, count, sizeof *values, compare_floats);
    size_t rank = (size_t)ceil(p * (double)count);
    return (double)values[rank > 0 ? rank - 1 : 0];
}

double muster_tally_compute_ms(muster_tally *tally, uint32_t worker)
{
    const muster_tally_worker *one = &tally->workers[worker];
    size_t count = one->compute_seen < MUSTER_TALLY_SAMPLE_MAX
                       ? (size_t)one->compute_seen
                       : MUSTER_TALLY_SAMPLE_MAX;
    memcpy(tally->scratch, one->compute_ms, count * sizeof(float));
    return muster_quantile(tally->scratch, count, 0.5);
}

double muster_tally_straggle_rate(const muster_tally *tally, uint32_t worker)
{
    if (tally->steps == 0) {
        return 0;
    }
    double heard =
        (double)tally->workers[worker].on_time / (double)tally->steps;
    return heard < 1 ? 1 - heard : 0;
}

static muster_worker_class classify(const muster_tally_worker *worker,
                                    double compute_ms, double typical_ms)
{
    if (!worker->joined) {
        return MUSTER_CLASS_LOST;
    }
    bool silent =
        worker->compute_seen == 0 && worker->ready_steps >= SILENT_STEPS;
    bool slow = compute_ms > SLOW_FACTOR * typical_ms; // false for NAN
    return silent || slow ? MUSTER_CLASS_SLOW : MUSTER_CLASS_ACTIVE;
}

void muster_tally_classes(muster_tally *tally, muster_worker_class *classes_out)
{
    size_t known = 0;
    for (uint32_t w = 0; w < tally->worker_count; w++) {
        double ms = muster_tally_compute_ms(tally, w);
        if (!isnan(ms)) {
            tally->medians[known++] = (float)ms;
        }
    }
    double typical = muster_quantile(tally->medians, known, 0.5);
    for (uint32_t w = 0; w < tally->worker_count; w++) {
        classes_out[w] = classify(&tally->workers[w],
                                  muster_tally_compute_ms(tally, w), typical);
    }
}

const char *muster_worker_class_name(muster_worker_class class_of)
{
    switch (class_of) {
    case MUSTER_CLASS_ACTIVE:
        return "active";
    case MUSTER_CLASS_SLOW:
        return "slow";
    case MUSTER_CLASS_LOST:
        return "lost";
    }
    return "unknown";
}
