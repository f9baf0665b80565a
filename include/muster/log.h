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
 *   Allocation   None.
 *   Not here     Errors of a call: they come back as a muster_error.
 */
#ifndef MUSTER_LOG_H
#define MUSTER_LOG_H

#include "muster/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Values never change meaning; new ones are appended. */
typedef enum muster_log_level {
    MUSTER_LOG_ERROR = 0,    // a person must act on it
    MUSTER_LOG_WARN = 1,     // a person should know it
    MUSTER_LOG_INFO = 2,     // a person would like to know it
    MUSTER_LOG_DEBUG = 3,    // of use when something is wrong
    MUSTER_LOG_PROGRESS = 4, // replaces the line of progress before it
} muster_log_level;

/* Called for each line. */
typedef void (*muster_log_sink)(void *context, muster_log_level level,
                                const char *line);

/* Send lines up to `level` (ERROR .. DEBUG) to `sink`. NULL silences. */
MUSTER_API void muster_log_to(muster_log_sink sink, void *context,
                              muster_log_level level);

#ifdef __cplusplus
}
#endif
#endif // MUSTER_LOG_H
