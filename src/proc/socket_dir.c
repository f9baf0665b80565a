/*
 * socket_dir.c -- see socket_dir.h.
 */
#define _GNU_SOURCE
#include "proc/socket_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "muster/ps.h"

_Static_assert(MUSTER_PS_NODES_MAX <= 100, "node numbers have two digits");

#define DIR_PREFIX  "muster-sockets-"
#define DIR_RANDOM  "XXXXXX"
#define DIR_YOUNG_S 10
#define ENTRIES_MAX 100000

/* "node-0" and so on; `prefix` has five characters. */
static void remove_numbered(int folder, const char *prefix, uint32_t count)
{
    for (uint32_t number = 0; number < count; number++) {
        char name[] = "name-000";
        char *digit = name + strlen("name-");
        memcpy(name, prefix, strlen("name-"));
        if (number >= 100) {
            *digit++ = (char)('0' + number / 100);
        }
        if (number >= 10) {
            *digit++ = (char)('0' + number / 10 % 10);
        }
        *digit++ = (char)('0' + number % 10);
        *digit = '\0';
        (void)unlinkat(folder, name, 0);
    }
}

/* Every name that a socket may have. Without snprintf, which is not
 * async-signal-safe. */
static void remove_sockets(int folder)
{
    (void)unlinkat(folder, "socket", 0);
    remove_numbered(folder, "node-", MUSTER_PS_NODES_MAX);
    remove_numbered(folder, "edge-", MUSTER_SOCKET_EDGES_MAX);
}

void muster_socket_dir_remove(const muster_socket_dir *dir)
{
    remove_sockets(dir->lock);
    (void)rmdir(dir->folder);
}

/* Other folders of /tmp may begin with muster, too. */
static bool is_named_by_us(const char *name)
{
    return strncmp(name, DIR_PREFIX, strlen(DIR_PREFIX)) == 0 &&
           strlen(name) == strlen(DIR_PREFIX DIR_RANDOM);
}

/* A folder of ours that no process locks. A young one may not be locked yet. */
static bool is_abandoned(int parent, const char *name, int *folder_out)
{
    struct stat about;
    if (!is_named_by_us(name) ||
        fstatat(parent, name, &about, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISDIR(about.st_mode) || (about.st_mode & 07777) != 0700 ||
        about.st_uid != geteuid() ||
        time(NULL) - about.st_mtime < DIR_YOUNG_S) {
        return false;
    }
    int folder =
        openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder >= 0 && flock(folder, LOCK_EX | LOCK_NB) == 0) {
        *folder_out = folder;
        return true;
    }
    if (folder >= 0) {
        (void)close(folder);
    }
    return false;
}

/* The folders of killed processes. One with any other file in it stays. */
static void remove_abandoned(const char *path)
{
    DIR *parent = opendir(path);
    if (parent == NULL) {
        return;
    }
    const struct dirent *entry = readdir(parent);
    for (int seen = 0; entry != NULL && seen < ENTRIES_MAX; seen++) {
        int folder = -1;
        if (is_abandoned(dirfd(parent), entry->d_name, &folder)) {
            remove_sockets(folder);
            (void)unlinkat(dirfd(parent), entry->d_name, AT_REMOVEDIR);
            (void)close(folder);
        }
        entry = readdir(parent);
    }
    (void)closedir(parent);
}

static bool try_folder(const char *parent, muster_socket_dir *dir)
{
    *dir = (muster_socket_dir){.lock = -1};
    int length = snprintf(dir->folder, sizeof dir->folder,
                          "%s/" DIR_PREFIX DIR_RANDOM, parent);
    if (length < 0 || (size_t)length >= sizeof dir->folder) {
        errno = ENAMETOOLONG;
        return false;
    }
    remove_abandoned(parent);
    if (mkdtemp(dir->folder) == NULL) {
        return false;
    }
    dir->lock = open(dir->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir->lock < 0 || flock(dir->lock, LOCK_EX | LOCK_NB) != 0) {
        int reason = errno;
        (void)rmdir(dir->folder);
        if (dir->lock >= 0) {
            (void)close(dir->lock);
        }
        errno = reason;
        return false;
    }
    return true;
}

muster_status muster_socket_dir_open(muster_error *error_out,
                                     muster_socket_dir *dir_out)
{
    muster_socket_dir dir;
    const char *own = getenv("XDG_RUNTIME_DIR");
    bool made = own != NULL && own[0] == '/' && try_folder(own, &dir);
    if (!made && !try_folder("/tmp", &dir)) {
        return muster_error_set(error_out, MUSTER_ERR_SYSTEM,
                                "cannot make a folder in /tmp: %s",
                                strerror(errno));
    }
    (void)snprintf(dir.address, sizeof dir.address, "unix:%s/socket",
                   dir.folder);
    *dir_out = dir;
    return MUSTER_OK;
}

void muster_socket_dir_close(muster_socket_dir *dir)
{
    if (dir->folder[0] != '\0') {
        muster_socket_dir_remove(dir);
        (void)close(dir->lock);
        dir->folder[0] = '\0';
    }
}
