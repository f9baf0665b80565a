/* limits.c -- see limits.h. */
#define _GNU_SOURCE
#include "base/limits.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>

/* By muster_limit. Not a table: the kinds are an enum in some C libraries. */
static struct rlimit read_limit(muster_limit limit)
{
    struct rlimit is = {RLIM_INFINITY, RLIM_INFINITY};
    int failed = 0;
    switch (limit) {
    case MUSTER_LIMIT_FILES:
        failed = getrlimit(RLIMIT_NOFILE, &is);
        break;
    case MUSTER_LIMIT_PROCESSES:
        failed = getrlimit(RLIMIT_NPROC, &is);
        break;
    case MUSTER_LIMIT_FILE_SIZE:
        failed = getrlimit(RLIMIT_FSIZE, &is);
        break;
    case MUSTER_LIMIT_SPACE:
        failed = getrlimit(RLIMIT_AS, &is);
        break;
    case MUSTER_LIMIT_DATA:
        failed = getrlimit(RLIMIT_DATA, &is);
        break;
    }
    return failed == 0 ? is : (struct rlimit){RLIM_INFINITY, RLIM_INFINITY};
}

uint64_t muster_limits_get(muster_limit limit)
{
    rlim_t now = read_limit(limit).rlim_cur;
    return now == RLIM_INFINITY ? UINT64_MAX : (uint64_t)now;
}

uint64_t muster_limits_raise_files(uint64_t wanted)
{
    struct rlimit is = read_limit(MUSTER_LIMIT_FILES);
    if (is.rlim_cur != RLIM_INFINITY && is.rlim_cur < wanted) {
        is.rlim_cur = is.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &is); // if it fails, nothing changed
    }
    return muster_limits_get(MUSTER_LIMIT_FILES);
}

const char *muster_limits_hint(int error, char text[MUSTER_LIMITS_HINT_BYTES])
{
    const struct {
        int error;
        muster_limit limit;
        const char *noun;
        char letter;
    } hints[] = {
        {EMFILE, MUSTER_LIMIT_FILES, "open files", 'n'},
        {EAGAIN, MUSTER_LIMIT_PROCESSES, "processes and threads", 'u'},
        // The stack of a thread that does not fit shows as EAGAIN, too.
        {EAGAIN, MUSTER_LIMIT_SPACE, "the address space", 'v'},
        {EAGAIN, MUSTER_LIMIT_DATA, "data", 'd'},
        {EFBIG, MUSTER_LIMIT_FILE_SIZE, "the size of files", 'f'},
        {ENOMEM, MUSTER_LIMIT_SPACE, "the address space", 'v'},
        {ENOMEM, MUSTER_LIMIT_DATA, "data", 'd'},
    };
    size_t length = 0;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++) {
        uint64_t now = muster_limits_get(hints[i].limit);
        if (hints[i].error == error && now != UINT64_MAX) {
            length += (size_t)snprintf(
                text + length, MUSTER_LIMITS_HINT_BYTES - length,
                " (the limit on %s is %" PRIu64 ": `ulimit -%c`)",
                hints[i].noun, now, hints[i].letter);
        }
    }
    return text;
}
