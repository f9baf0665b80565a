/*
 * muster/log.h -- where the library's text for people goes.
 *
 * The library prints nothing by itself; it tells one callback, line by line.
 * Levels: what a person must act on (error), should know (warn), would like to
 * know (info), and needs only when something is wrong (debug). A progress line
 * is none of these: it is the newest state of a run, and on a terminal each
 * one replaces the one before. It is told wherever info is.
 *
 *   Promise      Silent until a program names a sink. One line a call, without
 *                its newline, at most 1023 bytes.
 *   Ownership    The line is lent for the call; the context is the caller's.
 *   Threads      Set the sink once, before any verb starts. It may be called
 *                from any thread, also from several at a time.
 */
#ifndef MUSTER_LOG_H
#define MUSTER_LOG_H

#include "muster/export.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum muster_log_level {
    MUSTER_LOG_ERROR = 0,
    MUSTER_LOG_WARN = 1,
    MUSTER_LOG_INFO = 2,
    MUSTER_LOG_DEBUG = 3,
    MUSTER_LOG_PROGRESS = 4,
} muster_log_level;

typedef void (*muster_log_sink)(void *context, muster_log_level level,
                                const char *line);

/* Send lines up to `level` (ERROR .. DEBUG) to `sink`. NULL silences. */
MUSTER_API void muster_log_to(muster_log_sink sink, void *context,
                              muster_log_level level);

#ifdef __cplusplus
}
#endif
#endif // MUSTER_LOG_H
