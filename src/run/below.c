/*
 * below.c -- see below.h.
 */
#include "run/below.h"

#include <inttypes.h>

#include "base/log.h"
#include "base/mem.h"
#include "code/hier.h"
#include "code/numbers.h"

#define ROWS_MAX 16u

muster_status muster_below_init(const muster_code *hier,
                                muster_below *below_out)
{
    uint32_t workers = muster_code_numbers(hier)->workers;
    muster_below below = {.worker_count = workers};
    below.slow = muster_mem_array(workers, sizeof(*below.slow));
    below.edge_of = muster_mem_array(workers, sizeof(*below.edge_of));
    below.classes = muster_mem_array(workers, sizeof(*below.classes));
    if (below.slow == NULL || below.edge_of == NULL || below.classes == NULL ||
        muster_summary_create(workers, &below.summary) < 0) {
        muster_below_fini(&below);
        return MUSTER_ERR_NO_MEMORY;
    }
    for (uint32_t w = 0; w < workers; w++) {
        below.edge_of[w] = muster_hier_edge_of(hier, w);
    }
    *below_out = below;
    return MUSTER_OK;
}

void muster_below_fini(muster_below *below)
{
    muster_mem_free(below->slow);
    muster_mem_free(below->edge_of);
    muster_mem_free(below->classes);
    muster_summary_free(below->summary);
    *below = (muster_below){0};
}

muster_worker_line muster_below_line(const muster_report *report)
{
    return (muster_worker_line){
        .step = report->step,
        .worker = report->as.below.worker,
        .compute_ms = report->as.below.compute_ms,
        .arrive_ms = report->as.below.arrive_ms,
        .late = report->as.below.late,
    };
}

void muster_below_report(muster_below *below, const muster_report *report)
{
    if (below->worker_count == 0) {
        return;
    }
    if (report->kind == MUSTER_REPORT_STEP_END) {
        muster_step_line line = {.step = report->step,
                                 .step_ms = report->as.end.step_ms};
        muster_summary_step(below->summary, &line);
    } else if (report->kind == MUSTER_REPORT_BELOW &&
               report->as.below.worker < below->worker_count) {
        muster_worker_line line = muster_below_line(report);
        below->slow[line.worker] = report->as.below.slow;
        muster_summary_worker(below->summary, &line);
    }
}

void muster_below_end(muster_below *below, muster_summary_end *end_out)
{
    if (below->worker_count == 0) {
        return;
    }
    for (uint32_t w = 0; w < below->worker_count; w++) {
        below->classes[w] = below->slow[w] ? "slow" : "active";
    }
    end_out->below = below->summary;
    end_out->below_classes = below->classes;
    end_out->edge_of = below->edge_of;
}

void muster_below_tell(const muster_below *below)
{
    uint32_t told = 0;
    for (uint32_t w = 0; w < below->worker_count && told < ROWS_MAX; w++) {
        if (!below->slow[w]) {
            continue;
        }
        told++;
        muster_log(MUSTER_LOG_INFO,
                   "worker %" PRIu32 " under edge %" PRIu32
                   " is slow: it computes %.3g ms a step; %.1f %% of its "
                   "answers came in time",
                   w, below->edge_of[w],
                   muster_summary_compute_ms(below->summary, w, 0.5),
                   100 * (1 - muster_summary_straggle_rate(below->summary, w)));
    }
}
