/*
 * muster/status.h -- how every call of Muster says how it went.
 *
 * One table makes the enum, the texts and the exit codes of the command. Zero
 * is success; a negative value is a failure and nothing was written to the
 * outputs; a positive one is success with a caveat, outputs written. Failures
 * are grouped by the widest thing they spoil: -1.. the call, -20.. the link to
 * a peer, -40.. the whole run.
 *
 *   Promise      Values never change meaning; new ones are appended. No struct
 *                or text of this header ever grows.
 *   Ownership    Texts of the table are lent for ever.
 *   Threads      Pure functions.
 *   Allocation   None.
 *   Not here     Who logs: the one who first knows that it is an error writes
 *                a muster_error, once; callers pass it up.
 */
#ifndef MUSTER_STATUS_H
#define MUSTER_STATUS_H

#include "muster/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, value, exit code of the command, text) */
#define MUSTER_STATUS_TABLE(X)                                          \
    X(MUSTER_OK, 0, 0, "success")                                       \
    X(MUSTER_IN_PROGRESS, 1, 0, "accepted, not finished")               \
    X(MUSTER_INEXACT, 2, 0, "done, but only approximately")             \
    X(MUSTER_ERR_INVALID, -1, 2, "an argument breaks the contract")     \
    X(MUSTER_ERR_NO_MEMORY, -2, 1, "out of memory")                     \
    X(MUSTER_ERR_UNSUPPORTED, -3, 2, "not offered")                     \
    X(MUSTER_ERR_SYSTEM, -4, 1, "the operating system refused")         \
    X(MUSTER_ERR_INPUT, -5, 3, "missing or bad input")                  \
    X(MUSTER_ERR_AGAIN, -6, 1, "a queue is full: try again later")      \
    X(MUSTER_ERR_CANCELLED, -7, 1, "cancelled")                         \
    X(MUSTER_ERR_TIMED_OUT, -20, 1, "the peer did not answer in time")  \
    X(MUSTER_ERR_PROTOCOL, -21, 1, "the peer sent a malformed message") \
    X(MUSTER_ERR_PEER_LOST, -22, 1, "the peer is gone")                 \
    X(MUSTER_ERR_REFUSED, -23, 5, "refused by the peer")                \
    X(MUSTER_ERR_QUORUM, -40, 4, "too few workers are left to go on")   \
    X(MUSTER_ERR_INTERRUPTED, -41, 130, "interrupted")

typedef enum muster_status {
#define MUSTER_STATUS_ENUM(name, value, exit_code, text) name = (value),
    MUSTER_STATUS_TABLE(MUSTER_STATUS_ENUM)
#undef MUSTER_STATUS_ENUM
} muster_status;

/* Longest message of a muster_error, with its terminating zero. */
#define MUSTER_ERROR_TEXT_MAX 512

/*
 * What went wrong, in one line for a person: it names the file and line, the
 * option, or the peer, and what would be right. The caller owns it; functions
 * that take one accept NULL and write it only when they fail.
 */
typedef struct muster_error {
    muster_status status;
    char text[MUSTER_ERROR_TEXT_MAX];
} muster_error;

/* The table's text of a status; "unknown status" for any other number. */
MUSTER_API const char *muster_status_text(muster_status status);

/* The table's name of a status, e.g. "MUSTER_ERR_INPUT". */
MUSTER_API const char *muster_status_name(muster_status status);

/* The exit code that the command ends with; 1 for an unknown number. */
MUSTER_API int muster_status_exit_code(muster_status status);

#ifdef __cplusplus
}
#endif
#endif // MUSTER_STATUS_H
