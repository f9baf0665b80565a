/*
 * tracing.c -- see tracing.h.
 */
#include "run/tracing.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "record/trace.h"

struct muster_tracing {
    muster_trace *trace;
    uint32_t worker_count; // those that the coordinator leads: edges, if any
    uint32_t below;        // workers under edges; 0 without edges
    int64_t *arrived_ns;   // per worker: the answer to the open step; 0: none
    int64_t begin_ns;      // of the open step
    int64_t enough_ns;     // its last answer in time
};

static muster_status name_rows(muster_tracing *tracing, uint32_t edges,
                               muster_error *error_out)
{
    muster_status status =
        muster_trace_name(tracing->trace, 0, "coordinator", error_out);
    uint32_t rows = tracing->worker_count + tracing->below;
    for (uint32_t row = 0; status == MUSTER_OK && row < rows; row++) {
        char name[32];
        (void)snprintf(name, sizeof name, "%s %" PRIu32,
                       row < edges ? "edge" : "worker",
                       row - (row < edges ? 0 : edges));
        status = muster_trace_name(tracing->trace, row + 1, name, error_out);
    }
    return status;
}

muster_status muster_tracing_open(const char *path, uint32_t edges,
                                  uint32_t workers, muster_error *error_out,
                                  muster_tracing **tracing_out)
{
    muster_tracing *tracing = muster_mem_array(1, sizeof *tracing);
    if (tracing == NULL) {
        goto out;
    }
    tracing->worker_count = edges > 0 ? edges : workers;
    tracing->below = edges > 0 ? workers : 0;
    tracing->arrived_ns =
        muster_mem_array(tracing->worker_count, sizeof *tracing->arrived_ns);
    if (tracing->arrived_ns == NULL) {
        goto out;
    }
    muster_status status = muster_trace_open(path, error_out, &tracing->trace);
    if (status == MUSTER_OK) {
        status = name_rows(tracing, edges, error_out);
    }
    if (status < 0) {
        muster_status ignored = muster_tracing_close(tracing, NULL);
        (void)ignored;
        return status;
    }
    *tracing_out = tracing;
    return MUSTER_OK;

out:
    muster_mem_free(tracing);
    return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                            "no memory for the trace");
}

static muster_status span(muster_tracing *tracing, uint32_t row,
                          const char *name, const int64_t between_ns[2],
                          const muster_report *report, muster_error *error_out)
{
    muster_trace_event event = {.row = row,
                                .name = name,
                                .begin_ns = between_ns[0],
                                .end_ns = between_ns[1],
                                .step = report->step};
    return muster_trace_span(tracing->trace, &event, error_out);
}

static muster_status mark(muster_tracing *tracing, uint32_t row,
                          const char *name, const muster_report *report,
                          muster_error *error_out)
{
    muster_trace_event event = {.row = row,
                                .name = name,
                                .begin_ns = report->now_ns,
                                .step = report->step};
    return muster_trace_mark(tracing->trace, &event, error_out);
}

/* The model's way, computing and the answer's way, up to now_ns. */
static muster_status answer_spans(muster_tracing *tracing, uint32_t row,
                                  double compute_ms, double arrive_ms,
                                  const muster_report *report,
                                  muster_error *error_out)
{
    static const char *const names[] = {"receive", "compute", "send"};
    char bar[24];
    uint32_t stage =
        report->kind == MUSTER_REPORT_ANSWER ? report->as.answer.stage : 0;
    compute_ms = fmin(compute_ms, arrive_ms);
    int64_t aside_ns = (int64_t)((arrive_ms - compute_ms) * 0.5e6);
    int64_t begin_ns = report->now_ns - (int64_t)(arrive_ms * 1e6);
    int64_t at[] = {begin_ns, begin_ns + aside_ns, report->now_ns - aside_ns,
                    report->now_ns};
    if (stage > 0) { // computed after another, and sent
        at[0] = at[1] = at[2] - (int64_t)(compute_ms * 1e6);
        (void)snprintf(bar, sizeof bar, "stage %" PRIu32, stage);
    }
    muster_status status = MUSTER_OK;
    for (size_t i = 0; status == MUSTER_OK && i < 3; i++) {
        if (at[i] < at[i + 1] || stage == 0) {
            status = span(tracing, row, i == 1 && stage > 0 ? bar : names[i],
                          &at[i], report, error_out);
        }
    }
    return status;
}

static muster_status on_answer(muster_tracing *tracing,
                               const muster_report *report,
                               muster_error *error_out)
{
    uint32_t worker = report->as.answer.worker;
    double arrive_ms = report->as.answer.arrive_ms;
    if (worker >= tracing->worker_count || isnan(arrive_ms)) {
        return MUSTER_OK;
    }
    muster_status status =
        answer_spans(tracing, worker + 1, report->as.answer.compute_ms,
                     arrive_ms, report, error_out);
    if (report->as.answer.late) {
        return status == MUSTER_OK
                   ? mark(tracing, worker + 1, "late", report, error_out)
                   : status;
    }
    tracing->arrived_ns[worker] = report->now_ns;
    tracing->enough_ns = report->now_ns;
    return status;
}

static muster_status on_below(muster_tracing *tracing,
                              const muster_report *report,
                              muster_error *error_out)
{
    uint32_t worker = report->as.below.worker;
    uint32_t row = 1 + tracing->worker_count + worker;
    if (worker >= tracing->below) {
        return MUSTER_OK;
    }
    muster_status status =
        answer_spans(tracing, row, report->as.below.compute_ms,
                     report->as.below.arrive_ms, report, error_out);
    return status == MUSTER_OK && report->as.below.late
               ? mark(tracing, row, "late", report, error_out)
               : status;
}

static muster_status on_end(muster_tracing *tracing,
                            const muster_report *report,
                            muster_error *error_out)
{
    int64_t at[] = {tracing->begin_ns, tracing->enough_ns, report->now_ns};
    muster_status status = span(tracing, 0, "wait", &at[0], report, error_out);
    if (status == MUSTER_OK) {
        status =
            span(tracing, 0, "decode and update", &at[1], report, error_out);
    }
    for (uint32_t w = 0; status == MUSTER_OK && w < tracing->worker_count;
         w++) {
        at[1] = tracing->arrived_ns[w];
        if (at[1] != 0) {
            status = span(tracing, w + 1, "wait", &at[1], report, error_out);
        }
        tracing->arrived_ns[w] = 0;
    }
    return status;
}

static muster_status on_worker(muster_tracing *tracing,
                               const muster_report *report,
                               muster_error *error_out)
{
    uint32_t worker = report->as.worker.worker;
    if (worker >= tracing->worker_count) {
        return MUSTER_OK;
    }
    switch (report->as.worker.change) {
    case MUSTER_WORKER_READY:
        return mark(tracing, worker + 1, "ready", report, error_out);
    case MUSTER_WORKER_LOST:
        return mark(tracing, worker + 1, "lost", report, error_out);
    case MUSTER_WORKER_JOINED:
        break;
    }
    return MUSTER_OK;
}

muster_status muster_tracing_report(muster_tracing *tracing,
                                    const muster_report *report,
                                    muster_error *error_out)
{
    switch (report->kind) {
    case MUSTER_REPORT_STEP_BEGIN:
        tracing->begin_ns = report->now_ns;
        tracing->enough_ns = report->now_ns;
        break;
    case MUSTER_REPORT_ANSWER:
        return on_answer(tracing, report, error_out);
    case MUSTER_REPORT_BELOW:
        return on_below(tracing, report, error_out);
    case MUSTER_REPORT_STEP_END:
        return on_end(tracing, report, error_out);
    case MUSTER_REPORT_WORKER:
        return on_worker(tracing, report, error_out);
    case MUSTER_REPORT_NOTICE:
    case MUSTER_REPORT_EVALUATION:
    case MUSTER_REPORT_RESULT:
        break;
    }
    return MUSTER_OK;
}

muster_status muster_tracing_close(muster_tracing *tracing,
                                   muster_error *error_out)
{
    if (tracing == NULL) {
        return MUSTER_OK;
    }
    muster_status status = muster_trace_close(tracing->trace, error_out);
    muster_mem_free(tracing->arrived_ns);
    muster_mem_free(tracing);
    return status;
}
