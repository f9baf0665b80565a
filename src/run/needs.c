/* needs.c -- see needs.h. */
#define _GNU_SOURCE
#include "run/needs.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/limits.h"

static muster_status check_files(const muster_needs *needs,
                                 muster_error *error_out)
{
    uint64_t limit = muster_limits_raise_files(needs->files);
    if (needs->files <= limit) {
        return MUSTER_OK;
    }
    return muster_error_set(error_out, MUSTER_ERR_SYSTEM,
                            "this run needs %" PRIu64
                            " open files, and the limit is %" PRIu64
                            ": raise it (`ulimit -n`), or take fewer workers",
                            needs->files, limit);
}

/* Threads of a process of this user, or 0. */
static uint64_t threads_of(const char *pid)
{
    char path[64];
    char line[128];
    uint64_t threads = 0;
    struct stat facts;
    (void)snprintf(path, sizeof(path), "/proc/%.20s/status", pid);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return 0;
    }
    bool mine = fstat(fileno(file), &facts) == 0 && facts.st_uid == getuid();
    while (mine && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "Threads:", 8) == 0) {
            threads = strtoull(line + 8, NULL, 10);
        }
    }
    (void)fclose(file);
    return threads;
}

/* Processes and threads that this user has. */
static uint64_t count_processes(void)
{
    uint64_t count = 0;
    DIR *all = opendir("/proc");
    if (all == NULL) {
        return 0;
    }
    for (const struct dirent *e; (e = readdir(all)) != NULL;) {
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9') {
            count += threads_of(e->d_name);
        }
    }
    (void)closedir(all);
    return count;
}

static muster_status check_processes(const muster_needs *needs,
                                     muster_error *error_out)
{
    uint64_t limit = muster_limits_get(MUSTER_LIMIT_PROCESSES);
    if (limit == UINT64_MAX || geteuid() == 0 || needs->processes == 0) {
        return MUSTER_OK; // the limit does not hold for root
    }
    uint64_t taken = count_processes();
    if (taken + needs->processes <= limit) {
        return MUSTER_OK;
    }
    return muster_error_set(
        error_out, MUSTER_ERR_SYSTEM,
        "this run needs %" PRIu64 " processes and threads more, the user has "
        "%" PRIu64 ", and the limit is %" PRIu64
        ": raise it (`ulimit -u`), or take fewer workers or --threads",
        needs->processes, taken, limit);
}

static muster_status check_disk(const muster_needs *needs,
                                muster_error *error_out)
{
    struct statvfs disk;
    uint64_t limit = muster_limits_get(MUSTER_LIMIT_FILE_SIZE);
    if (needs->folder == NULL) {
        return MUSTER_OK;
    }
    if (needs->file_bytes > limit) {
        return muster_error_set(error_out, MUSTER_ERR_SYSTEM,
                                "%s: a checkpoint of this run has %" PRIu64
                                " kB, and files are limited to %" PRIu64
                                " kB: raise it (`ulimit -f`)",
                                needs->folder, needs->file_bytes / 1024,
                                limit / 1024);
    }
    if (statvfs(needs->folder, &disk) != 0) {
        return MUSTER_OK; // not known: the first file will tell
    }
    uint64_t blocks = geteuid() == 0 ? disk.f_bfree : disk.f_bavail;
    uint64_t free_kb = blocks * (disk.f_frsize / 512) / 2;
    if (needs->disk_bytes / 1024 <= free_kb) {
        return MUSTER_OK;
    }
    return muster_error_set(
        error_out, MUSTER_ERR_SYSTEM,
        "%s: checkpoints and model of this run need %" PRIu64
        " kB, and the disk has %" PRIu64 " kB free",
        needs->folder, needs->disk_bytes / 1024, free_kb);
}

muster_status muster_needs_check(const muster_needs *needs,
                                 muster_error *error_out)
{
    muster_status status = check_files(needs, error_out);
    if (status == MUSTER_OK) {
        status = check_processes(needs, error_out);
    }
    return status == MUSTER_OK ? check_disk(needs, error_out) : status;
}
