/*
 * limits.c -- limited memory (ulimit -v, ulimit -d), and limited files.
 *
 * OpenBLAS starts a thread for each core before main(). Where its memory
 * is limited, such a thread tries for ever to get its buffer, and the process
 * cannot end. Muster uses one BLAS thread: the program starts again with that
 * said in its environment, and the threads are gone.
 *
 * A write beyond the limit on the size of files (ulimit -f) is an error like
 * that of a full disk, and does not end the process.
 */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli.h"

#define BLAS_THREADS "OPENBLAS_NUM_THREADS"

/* What OpenBLAS's buffers count against. */
static const struct {
    int limit;
    const char *name;
    char letter;
} memory_limits[] = {{RLIMIT_AS, "the address space", 'v'},
                     {RLIMIT_DATA, "data", 'd'}};

#define MEMORY_LIMITS (sizeof(memory_limits) / sizeof(memory_limits[0]))

static rlim_t limit_bytes(size_t i)
{
    struct rlimit is = {RLIM_INFINITY, RLIM_INFINITY};
    return getrlimit(memory_limits[i].limit, &is) == 0 ? is.rlim_cur
                                                       : RLIM_INFINITY;
}

static bool memory_is_limited(void)
{
    for (size_t i = 0; i < MEMORY_LIMITS; i++) {
        if (limit_bytes(i) != RLIM_INFINITY) {
            return true;
        }
    }
    return false;
}

void cli_limits_prepare(char **argv)
{
    char path[4096];
    const char *threads = getenv(BLAS_THREADS);
    (void)signal(SIGXFSZ, SIG_IGN); // a file that is too large is an error
    bool one = threads != NULL && strcmp(threads, "1") == 0;
    if (one || !memory_is_limited() || setenv(BLAS_THREADS, "1", 1) != 0) {
        return;
    }
    (void)execv(cli_own_path(path, sizeof path), argv);
}

void cli_limits_tell(void)
{
    for (size_t i = 0; i < MEMORY_LIMITS; i++) {
        rlim_t bytes = limit_bytes(i);
        if (bytes != RLIM_INFINITY) {
            fprintf(stderr,
                    "muster: %s is limited to %" PRIu64
                    " kB; a larger `ulimit -%c` may be needed\n",
                    memory_limits[i].name, (uint64_t)bytes / 1024,
                    memory_limits[i].letter);
        }
    }
}
