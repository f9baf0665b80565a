/*
 * progress.c -- see progress.h.
 */
#define _POSIX_C_SOURCE 200809L
#include "runtime/progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#define TERMINAL_PERIOD_NS (200 * MUSTER_NS_PER_MS)
#define PLAIN_PERIOD_NS    (5 * MUSTER_NS_PER_S)
#define CLASSES_PERIOD_NS  MUSTER_NS_PER_S
#define SLOW_NAMED_MAX     8u

muster_status muster_progress_init(uint32_t workers, uint64_t first,
                                   uint64_t last, bool quiet,
                                   muster_progress *progress_out)
{
    const char *no_color = getenv("NO_COLOR");
    const char *kind = getenv("TERM");
    bool dumb = kind == NULL || strcmp(kind, "dumb") == 0;
    muster_progress progress = {
        .quiet = quiet,
        .terminal = isatty(STDERR_FILENO) == 1 && !dumb,
        .color = no_color == NULL || no_color[0] == '\0',
        .steps_done_before = first,
        .steps_all = last,
        .drawn_ns = muster_clock_ns(),
    };
    progress.classes = muster_mem_array(workers, sizeof *progress.classes);
    if (progress.classes == NULL)
        return MUSTER_ERR_NO_MEMORY;
    *progress_out = progress;
    return MUSTER_OK;
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
    if (whole >= 3600)
        (void)snprintf(text_out, size, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64,
                       whole / 3600, whole / 60 % 60, whole % 60);
    else
        (void)snprintf(text_out, size, "%" PRIu64 ":%02" PRIu64, whole / 60,
                       whole % 60);
}

/* Append to a text of MUSTER_PROGRESS_TEXT_MAX; what does not fit is left. */
static void add(char *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void add(char *text, const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text + used, MUSTER_PROGRESS_TEXT_MAX - used, format,
                    arguments);
    va_end(arguments);
}

static void add_who(const muster_progress *progress, const muster_tally *tally,
                    muster_worker_class wanted, const char *title, char *text)
{
    uint32_t named = 0;
    for (uint32_t w = 0; w < tally->worker_count; w++) {
        if (progress->classes[w] != wanted)
            continue;
        if (named == SLOW_NAMED_MAX) {
            add(text, " ..");
            return;
        }
        if (named++ == 0)
            add(text, "  %s:", title);
        add(text, " %u", w);
    }
}

void muster_progress_text(const muster_progress *progress,
                          const muster_tally *tally, char *text_out)
{
    uint64_t step = progress->steps_done_before + tally->steps;
    uint64_t left = progress->steps_all > step ? progress->steps_all - step : 0;
    char eta[32];
    muster_progress_duration((double)left / progress->rate, eta, sizeof eta);
    text_out[0] = '\0';
    add(text_out, "step %" PRIu64 "/%" PRIu64 "  loss %.4g  %.3g steps/s", step,
        progress->steps_all, tally->loss, progress->rate);
    add(text_out, "  ETA %s  %u heard, %u not", eta, tally->responders,
        tally->stragglers);
    add_who(progress, tally, MUSTER_CLASS_SLOW, "slow", text_out);
    add_who(progress, tally, MUSTER_CLASS_LOST, "lost", text_out);
}

static void draw(muster_progress *progress, const muster_tally *tally)
{
    char text[MUSTER_PROGRESS_TEXT_MAX];
    muster_progress_text(progress, tally, text);
    if (!progress->terminal) {
        muster_log(MUSTER_LOG_INFO, "%s", text);
        return;
    }
    const char *on = progress->color ? "\033[36m" : "";
    const char *off = progress->color ? "\033[0m" : "";
    (void)fprintf(stderr, "\r\033[K%s%s%s", on, text, off);
    (void)fflush(stderr);
    progress->drawn = true;
}

void muster_progress_step(muster_progress *progress, muster_tally *tally,
                          int64_t now_ns)
{
    int64_t period = progress->terminal ? TERMINAL_PERIOD_NS : PLAIN_PERIOD_NS;
    int64_t passed = now_ns - progress->drawn_ns;
    if (progress->quiet || passed < period)
        return;
    double rate = (double)(tally->steps - progress->drawn_steps) *
                  (double)MUSTER_NS_PER_S / (double)passed;
    progress->rate =
        progress->rate > 0 ? 0.7 * progress->rate + 0.3 * rate : rate;
    progress->drawn_ns = now_ns;
    progress->drawn_steps = tally->steps;
    if (now_ns - progress->classes_ns >= CLASSES_PERIOD_NS) {
        progress->classes_ns = now_ns;
        muster_tally_classes(tally, progress->classes);
    }
    draw(progress, tally);
}

void muster_progress_clear(muster_progress *progress)
{
    if (!progress->drawn)
        return;
    (void)fprintf(stderr, "\r\033[K");
    (void)fflush(stderr);
    progress->drawn = false;
}
