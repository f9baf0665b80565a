/*
 * star_mpi.c -- see star_mpi.h. muster-bench-star-mpi lies beside this program.
 */
#define _GNU_SOURCE
#include "star_mpi.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* The MPI program beside this one; false when it is not there. */
static bool find_peer(char *path)
{
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    if (length <= 0) {
        return false;
    }
    path[length] = '\0';
    char *slash = strrchr(path, '/');
    if (slash == NULL || (size_t)(slash - path) + 32 > PATH_MAX) {
        return false;
    }
    snprintf(slash, 32, "/muster-bench-star-mpi");
    return access(path, X_OK) == 0;
}

static _Noreturn void exec_mpirun(const char *path, int workers,
                                  const char *btl, const char *sizes, int out)
{
    char ranks[16];
    snprintf(ranks, sizeof(ranks), "%d", workers + 1);
    dup2(out, STDOUT_FILENO);
    execlp("mpirun", "mpirun", "--allow-run-as-root", "--oversubscribe",
           "--timeout", "60", "-np", ranks, "--mca", "pml", "ob1", "--mca",
           "btl", btl, "--mca", "btl_tcp_if_include", "lo", "--mca",
           "mpi_yield_when_idle", "1", path, sizes, (char *)NULL);
    _exit(127);
}

/* Start mpirun and read its lines; what it does not say stays NAN. */
static void run_once(const char *path, const char *sizes, star_variant which,
                     star_results *out, int block)
{
    const char *btl = which == MPI_TCP ? "tcp,self" : "vader,self";
    int ends[2];
    if (pipe(ends) != 0) {
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        exec_mpirun(path, out->workers, btl, sizes, ends[1]);
    }
    close(ends[1]);
    FILE *lines = fdopen(ends[0], "r");
    char line[256];
    while (lines != NULL && fgets(line, sizeof(line), lines) != NULL) {
        char *end = NULL;
        if (strncmp(line, "star ", 5) != 0) {
            continue;
        }
        size_t count = strtoul(line + 5, &end, 10);
        (void)strtod(end, &end); // the best
        double median = strtod(end, &end);
        for (size_t i = 0; i < STAR_SIZES; i++) {
            if (star_counts[i] == count && median > 0) {
                out->median_ms[which][i][block] = median;
            }
        }
    }
    if (lines != NULL) {
        fclose(lines);
    }
    if (child > 0) {
        waitpid(child, NULL, 0);
    }
}

/* Is a program of this name along PATH? */
static bool is_along_path(const char *name)
{
    char path[PATH_MAX];
    const char *search = getenv("PATH");
    bool found = false;
    while (search != NULL && *search != '\0' && !found) {
        int length = (int)strcspn(search, ":");
        int wrote =
            snprintf(path, sizeof(path), "%.*s/%s", length, search, name);
        found = wrote < (int)sizeof(path) && access(path, X_OK) == 0;
        search += length + (search[length] == ':');
    }
    return found;
}

const char *star_mpi_missing(void)
{
    char path[PATH_MAX];
    if (!find_peer(path)) {
        return " not measured: built without MPI (libopenmpi-dev)";
    }
    return is_along_path("mpirun") ? NULL
                                   : " not measured: no mpirun (openmpi-bin)";
}

void star_mpi_run(const char *sizes, star_results *out, int block)
{
    char path[PATH_MAX];
    if (out->no_mpi == NULL && find_peer(path)) {
        run_once(path, sizes, MPI_TCP, out, block);
        run_once(path, sizes, MPI_SHM, out, block);
    }
}
