#include "base/log.h"

#include <stdarg.h>
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

void muster_log(muster_log_level level, const char *format, ...)
{
    if (target.sink == NULL || level > target.level) {
        return;
    }
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    target.sink(target.context, level, line);
}
