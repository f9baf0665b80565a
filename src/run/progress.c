/*
 * progress.c -- see progress.h.
 */
#include "run/progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#define PERIOD_NS         (200 * MUSTER_NS_PER_MS)
#define CLASSES_PERIOD_NS MUSTER_NS_PER_S
#define NAMED_MAX         8u

/* Append to a text of MUSTER_PROGRESS_TEXT_MAX; what does not fit is left. */
#define ADD(text, ...)                    \
    (void)snprintf((text) + strlen(text), \
                   MUSTER_PROGRESS_TEXT_MAX - strlen(text), __VA_ARGS__)

muster_status muster_progress_init(uint32_t workers,
                                   muster_progress *progress_out)
{
    muster_progress progress = {.rate = 0};
    progress.classes = muster_mem_array(workers, sizeof *progress.classes);
    if (progress.classes == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    *progress_out = progress;
    return MUSTER_OK;
}

void muster_progress_span(muster_progress *progress, uint64_t first,
                          uint64_t last, int64_t now_ns)
{
    progress->first = first;
    progress->last = last;
    progress->told_ns = now_ns;
    progress->classes_ns = now_ns;
}

void muster_progress_fini(muster_progress *progress)
{
    muster_mem_free(progress->classes);
    progress->classes = NULL;
}

void muster_progress_duration(double seconds, char *text_out, size_t size)
{
    if (!(seconds >= 0 && seconds < 1e9)) {
        (void)snprintf(text_out, size, "?");
        return;
    }
    uint64_t whole = (uint64_t)llround(seconds);
    if (whole >= 3600) {
        (void)snprintf(text_out, size, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64,
                       whole / 3600, whole / 60 % 60, whole % 60);
    } else {
        (void)snprintf(text_out, size, "%" PRIu64 ":%02" PRIu64, whole / 60,
                       whole % 60);
    }
}

void muster_progress_add_class(const muster_worker_class *classes,
                               uint32_t count, muster_worker_class wanted,
                               char *text)
{
    uint32_t named = 0;
    for (uint32_t w = 0; w < count; w++) {
        if (classes[w] != wanted) {
            continue;
        }
        if (named == NAMED_MAX) {
            ADD(text, " ..");
            return;
        }
        if (named++ == 0) {
            ADD(text, "  %s:", muster_worker_class_name(wanted));
        }
        ADD(text, " %" PRIu32, w);
    }
}

void muster_progress_text(const muster_progress *progress,
                          const muster_tally *tally, char *text_out)
{
    uint64_t step = progress->first + tally->steps;
    uint64_t left = progress->last > step ? progress->last - step : 0;
    char eta[32];
    muster_progress_duration((double)left / progress->rate, eta, sizeof eta);
    text_out[0] = '\0';
    ADD(text_out, "step %" PRIu64 "/%" PRIu64 "  loss %.4g  %.3g steps/s", step,
        progress->last, tally->loss, progress->rate);
    ADD(text_out, "  ETA %s  %" PRIu32 " heard, %" PRIu32 " not", eta,
        tally->responders, tally->stragglers);
    if (tally->degraded) {
        ADD(text_out, "  approximate (too few workers): grad_err %.2g",
            tally->grad_err);
    }
    muster_progress_add_class(progress->classes, tally->worker_count,
                              MUSTER_CLASS_SLOW, text_out);
    muster_progress_add_class(progress->classes, tally->worker_count,
                              MUSTER_CLASS_LOST, text_out);
}

void muster_progress_step(muster_progress *progress, muster_tally *tally,
                          int64_t now_ns)
{
    int64_t passed = now_ns - progress->told_ns;
    if (passed < PERIOD_NS) {
        return;
    }
    double rate = (double)(tally->steps - progress->told_steps) *
                  (double)MUSTER_NS_PER_S / (double)passed;
    progress->rate =
        progress->rate > 0 ? 0.7 * progress->rate + 0.3 * rate : rate;
    progress->told_ns = now_ns;
    progress->told_steps = tally->steps;
    if (now_ns - progress->classes_ns >= CLASSES_PERIOD_NS) {
        progress->classes_ns = now_ns;
        muster_tally_classes(tally, progress->classes);
    }
    char text[MUSTER_PROGRESS_TEXT_MAX];
    muster_progress_text(progress, tally, text);
    muster_log(MUSTER_LOG_PROGRESS, "%s", text);
}
