/*
 * base/log.h -- the library prints nothing by itself; it tells a callback.
 *
 * Levels: what a person must act on (error), should know (warn), would like to
 * know (info), and needs only when something is wrong (debug). Silent until a
 * program sets a sink. One line a call, without the newline.
 *
 *   Threads      muster_log may be called from any thread; the sink is set
 *                once, before threads start, and must cope with any of them.
 */
#ifndef MUSTER_BASE_LOG_H
#define MUSTER_BASE_LOG_H

#include "muster/export.h"

typedef enum muster_log_level {
    MUSTER_LOG_ERROR = 0,
    MUSTER_LOG_WARN = 1,
    MUSTER_LOG_INFO = 2,
    MUSTER_LOG_DEBUG = 3,
} muster_log_level;

typedef void (*muster_log_sink)(void *context, muster_log_level level,
                                const char *line);

/* Lines above `level` are not formatted. NULL silences. */
void muster_log_to(muster_log_sink sink, void *context, muster_log_level level);

void muster_log(muster_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif // MUSTER_BASE_LOG_H
