/*
 * base/limits.h -- the limits that the system sets this process, by name.
 *
 * An error text that says "Too many open files" helps only those who know
 * which limit that is. muster_limits_hint() adds it: the limit, its value now,
 * and the shell's word for it.
 */
#ifndef MUSTER_BASE_LIMITS_H
#define MUSTER_BASE_LIMITS_H

#include <stdint.h>

typedef enum muster_limit {
    MUSTER_LIMIT_FILES,     // open files: `ulimit -n`
    MUSTER_LIMIT_PROCESSES, // and threads, of the user: `ulimit -u`
    MUSTER_LIMIT_FILE_SIZE, // bytes: `ulimit -f`
    MUSTER_LIMIT_SPACE,     // bytes of address space: `ulimit -v`
    MUSTER_LIMIT_DATA,      // bytes that can be written: `ulimit -d`
} muster_limit;

/* UINT64_MAX: there is none. */
uint64_t muster_limits_get(muster_limit limit);

/* Allow as many open files as the system lets this process have, if that is
 * needed for `wanted` of them. Returns the limit that is in force then. */
uint64_t muster_limits_raise_files(uint64_t wanted);

#define MUSTER_LIMITS_HINT_BYTES 256u

/* What an errno has to do with a limit, to be put behind its text: " (the limit
 * on open files is 16: `ulimit -n`)", one after another where several may be
 * meant; or "". Returns `text`. */
const char *muster_limits_hint(int error, char text[MUSTER_LIMITS_HINT_BYTES]);

#endif // MUSTER_BASE_LIMITS_H
