/*
 * limits.c -- a limited address space (ulimit -v), and limited files.
 *
 * OpenBLAS starts a thread for each core before main(). Where the address space
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

static rlim_t address_space(void)
{
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    return getrlimit(RLIMIT_AS, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

void cli_limits_prepare(char **argv)
{
    char path[4096];
    const char *threads = getenv(BLAS_THREADS);
    (void)signal(SIGXFSZ, SIG_IGN); // a file that is too large is an error
    bool one = threads != NULL && strcmp(threads, "1") == 0;
    if (one || address_space() == RLIM_INFINITY ||
        setenv(BLAS_THREADS, "1", 1) != 0) {
        return;
    }
    (void)execv(cli_own_path(path, sizeof path), argv);
}

void cli_limits_tell(void)
{
    rlim_t bytes = address_space();
    if (bytes != RLIM_INFINITY) {
        fprintf(stderr,
                "muster: the address space is limited to %" PRIu64
                " kB; a larger `ulimit -v` may be needed\n",
                (uint64_t)bytes / 1024);
    }
}
