/*
 * log.c -- one sink for the process. The only mutable global besides the
 * failure counter of mem.c: it is set before threads start and only read then.
 */
#include "base/log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

static struct {
    muster_log_sink sink;
    void *context;
    muster_log_level level;
} target;

void muster_log_to(muster_log_sink sink, void *context, muster_log_level level)
{
    target.sink = sink;
    target.context = context;
    target.level = level;
}

static bool is_wanted(muster_log_level level)
{
    muster_log_level rank =
        level == MUSTER_LOG_PROGRESS ? MUSTER_LOG_INFO : level;
    return target.sink != NULL && rank <= target.level;
}

static void tell(muster_log_level level, const char *format, va_list args)
{
    char line[1024];
    vsnprintf(line, sizeof(line), format, args);
    target.sink(target.context, level, line);
}

void muster_log(muster_log_level level, const char *format, ...)
{
    if (is_wanted(level)) {
        va_list args;
        va_start(args, format);
        tell(level, format, args);
        va_end(args);
    }
}
