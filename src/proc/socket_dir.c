/*
 * socket_dir.c -- see socket_dir.h.
 */
#define _GNU_SOURCE
#include "proc/socket_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"

#define DEN_PREFIX  "muster-"
#define DEN_YOUNG_S 10
#define ENTRIES_MAX 100000

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

muster_status muster_address_full(const char *text, const char *option,
                                  muster_error *error_out, char *address_out)
{
    const char *prefix = "";
    if (text[0] == ':') {
        prefix = "tcp:127.0.0.1";
    } else if (!starts_with(text, "unix:") && !starts_with(text, "tcp:")) {
        prefix = "tcp:";
    }
    const char *colon = strrchr(text, ':');
    int length =
        snprintf(address_out, MUSTER_NET_ADDRESS_MAX, "%s%s", prefix, text);
    if (colon == NULL || colon[1] == '\0' || length < 0 ||
        (size_t)length >= MUSTER_NET_ADDRESS_MAX) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "%s %s: expected HOST:PORT or unix:PATH",
                                option, text);
    }
    return MUSTER_OK;
}

bool muster_address_is_local(const char *address)
{
    return starts_with(address, "unix:") || starts_with(address, "tcp:127.") ||
           starts_with(address, "tcp:localhost:") ||
           starts_with(address, "tcp:[::1]:");
}

static void den_end(muster_den *den)
{
    (void)unlink(den->file);
    (void)rmdir(den->folder);
    if (den->lock >= 0) {
        (void)close(den->lock);
    }
    den->folder[0] = '\0';
}

/* A folder of ours whose process is gone. One that is young may not be locked
 * yet. */
static bool is_deserted(int parent, const char *name, int *folder_out)
{
    struct stat about;
    if (strncmp(name, DEN_PREFIX, strlen(DEN_PREFIX)) != 0 ||
        fstatat(parent, name, &about, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISDIR(about.st_mode) || (about.st_mode & 07777) != 0700 ||
        about.st_uid != geteuid() ||
        time(NULL) - about.st_mtime < DEN_YOUNG_S) {
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

/* What killed coordinators left behind. Whatever is not as we would have left
 * it stays. */
static void remove_deserted(const char *path)
{
    DIR *parent = opendir(path);
    if (parent == NULL) {
        return;
    }
    const struct dirent *entry = readdir(parent);
    for (int seen = 0; entry != NULL && seen < ENTRIES_MAX; seen++) {
        int folder = -1;
        if (is_deserted(dirfd(parent), entry->d_name, &folder)) {
            (void)unlinkat(folder, "socket", 0);
            (void)unlinkat(dirfd(parent), entry->d_name, AT_REMOVEDIR);
            (void)close(folder);
        }
        entry = readdir(parent);
    }
    (void)closedir(parent);
}

static bool try_folder(const char *parent, muster_den *den)
{
    *den = (muster_den){.lock = -1};
    int length = snprintf(den->folder, sizeof den->folder,
                          "%s/" DEN_PREFIX "XXXXXX", parent);
    if (length < 0 || (size_t)length >= sizeof den->folder) {
        errno = ENAMETOOLONG;
        return false;
    }
    remove_deserted(parent);
    if (mkdtemp(den->folder) == NULL) {
        return false;
    }
    den->lock = open(den->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (den->lock < 0 || flock(den->lock, LOCK_EX | LOCK_NB) != 0) {
        int reason = errno;
        den_end(den);
        errno = reason;
        return false;
    }
    return true;
}

muster_status muster_den_open(muster_error *error_out, muster_den *den_out)
{
    muster_den den;
    const char *own = getenv("XDG_RUNTIME_DIR");
    bool made = own != NULL && own[0] == '/' && try_folder(own, &den);
    if (!made && !try_folder("/tmp", &den)) {
        return muster_error_set(error_out, MUSTER_ERR_SYSTEM,
                                "cannot make a folder in /tmp: %s",
                                strerror(errno));
    }
    (void)snprintf(den.file, sizeof den.file, "%s/socket", den.folder);
    (void)snprintf(den.address, sizeof den.address, "unix:%s", den.file);
    *den_out = den;
    return MUSTER_OK;
}

void muster_den_close(muster_den *den)
{
    if (den->folder[0] != '\0') {
        den_end(den);
    }
}
