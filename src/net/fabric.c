/*
 * fabric.c -- find and load the module of a fabric; is there one to suggest?
 */
#define _GNU_SOURCE
#include "net/fabric.h"

#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

/* Where cmake/install.cmake puts modules, seen from the bench programs. */
#ifndef MUSTER_MODULES_FROM_LIBEXEC
#define MUSTER_MODULES_FROM_LIBEXEC "../../lib/muster"
#endif

/* Settings of UCX that hold unless the user set them. They are read when the
 * library is loaded. */
static void set_environment(void)
{
    static const char *const settings[][2] = {
        {"UCX_LOG_FILE", "stderr"},    // stdout is for results
        {"UCX_LOG_LEVEL", "fatal"},    // ends are told by on_broken
        {"UCX_HANDLE_ERRORS", "none"}, // no signal handlers
        {"UCX_WARN_UNUSED_ENV_VARS", "n"},
        {"UCX_VFS_ENABLE", "n"},  // no thread for a file system
        {"UCX_TCP_CONN_NB", "y"}, // a dead machine delays nobody
    };
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        (void)setenv(settings[i][0], settings[i][1], 0);
    }
}

/* The folder that this library, or the program that contains it, lies in. A
 * program's own name is what it was called by: no path. */
static bool own_folder(char *path_out)
{
    Dl_info info;
    struct link_map *map = NULL;
    char *slash = NULL;
    if (dladdr1(MUSTER_FABRIC_SYMBOL, &info, (void **)&map, RTLD_DL_LINKMAP) !=
            0 &&
        realpath(map->l_name[0] != '\0' ? map->l_name : "/proc/self/exe",
                 path_out) != NULL) {
        slash = strrchr(path_out, '/');
    }
    if (slash != NULL) {
        *slash = '\0';
    }
    return slash != NULL;
}

/* The file of a module, seen from `folder`: in a build, in an installation from
 * the library, and there from a bench program, which contains the library. */
static bool find_module(const char *name, const char *folder, char *path_out,
                        size_t room)
{
    static const char *const places[] = {"", "/muster",
                                         "/" MUSTER_MODULES_FROM_LIBEXEC};
    bool found = false;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && !found; i++) {
        int length = snprintf(path_out, room, "%s%s/muster-%s.so", folder,
                              places[i], name);
        found = length < (int)room && access(path_out, R_OK) == 0;
    }
    return found;
}

static void *open_module(const char *name, char *why_out, size_t room)
{
    char folder[PATH_MAX];
    char path[PATH_MAX + 64];
    if (!own_folder(folder)) {
        return NULL;
    }
    if (!find_module(name, folder, path, sizeof(path))) {
        (void)snprintf(why_out, room,
                       "there is no muster-%s.so beside the library in %s: "
                       "Muster was built without libucx-dev",
                       name, folder);
        return NULL;
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    const char *why = library == NULL ? dlerror() : NULL;
    (void)snprintf(why_out, room, "%s", why != NULL ? why : "");
    return library;
}

muster_status muster_fabric_load(const char *name, muster_error *error_out,
                                 const muster_fabric_module **module_out)
{
    char why[2 * PATH_MAX] = "its folder is unknown";
    set_environment();
    void *library = open_module(name, why, sizeof(why));
    if (library == NULL) {
        return muster_error_set(
            error_out, MUSTER_ERR_UNSUPPORTED,
            "--engine %s cannot be loaded: %.300s; install libucx0 to run it, "
            "libucx-dev to build it, or leave --engine sock",
            name, why);
    }
    const muster_fabric_module *module = dlsym(library, MUSTER_FABRIC_SYMBOL);
    if (module == NULL || module->version != MUSTER_FABRIC_VERSION) {
        return muster_error_set(
            error_out, MUSTER_ERR_UNSUPPORTED,
            "--engine %s: its module is of another version of Muster", name);
    }
    *module_out = module;
    return MUSTER_OK;
}

/* Does the file begin with this text? */
static bool file_begins(const char *path, const char *wanted)
{
    char text[64] = "";
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    size_t got = fread(text, 1, sizeof(text) - 1, file);
    (void)fclose(file);
    return got >= strlen(wanted) && strncmp(text, wanted, strlen(wanted)) == 0;
}

bool muster_fabric_rdma(const char *sysfs, char *device_out, size_t room)
{
    char path[PATH_MAX];
    bool found = false;
    (void)snprintf(path, sizeof(path), "%s/class/infiniband", sysfs);
    DIR *devices = opendir(path);
    for (const struct dirent *entry = devices ? readdir(devices) : NULL;
         entry != NULL && !found; entry = readdir(devices)) {
        (void)snprintf(path, sizeof(path),
                       "%s/class/infiniband/%s/ports/1/state", sysfs,
                       entry->d_name);
        found = file_begins(path, "4: ACTIVE");
        if (found) {
            (void)snprintf(device_out, room, "%s", entry->d_name);
        }
    }
    if (devices != NULL) {
        (void)closedir(devices);
    }
    return found;
}
