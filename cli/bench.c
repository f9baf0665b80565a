/*
 * bench.c -- `muster bench X ARGS` becomes the program muster-bench-X.
 *
 * Looked for beside this program (a build folder), in ../libexec/muster (an
 * installation), then along PATH. `muster bench` lists what it finds.
 */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

#define BENCH_PREFIX    "muster-bench-"
#define NAME_LENGTH_MAX 63
#define NAMES_MAX       64

/* Where cmake/install.cmake puts the programs, seen from this one's folder. */
#ifndef MUSTER_LIBEXEC_FROM_BIN
#define MUSTER_LIBEXEC_FROM_BIN "../libexec/muster"
#endif

typedef struct name_list {
    char names[NAMES_MAX][NAME_LENGTH_MAX + 1];
    size_t count;
} name_list;

/* The folder of this program; false when it cannot be told. */
static bool own_folder(char *folder_out, size_t size)
{
    ssize_t length = readlink("/proc/self/exe", folder_out, size - 1);
    if (length <= 0) {
        return false;
    }
    folder_out[length] = '\0';
    char *slash = strrchr(folder_out, '/');
    if (slash == NULL) {
        return false;
    }
    *slash = '\0';
    return true;
}

static void note_name(name_list *list, const char *name)
{
    if (list->count == NAMES_MAX || strlen(name) > NAME_LENGTH_MAX) {
        return;
    }
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->names[i], name) == 0) {
            return;
        }
    }
    snprintf(list->names[list->count++], NAME_LENGTH_MAX + 1, "%s", name);
}

/* muster-bench-X-mpi is what muster-bench-X runs to compare itself with. */
static bool is_peer(const char *name)
{
    static const char ending[] = "-mpi";
    size_t length = strlen(name);
    size_t size = sizeof(ending) - 1;
    return length > size && strcmp(name + length - size, ending) == 0;
}

static void scan_folder(const char *folder, name_list *list)
{
    DIR *dir = opendir(folder);
    if (dir == NULL) {
        return;
    }
    size_t prefix = strlen(BENCH_PREFIX);
    for (struct dirent *entry = readdir(dir); entry != NULL;
         entry = readdir(dir)) {
        char path[PATH_MAX];
        int length =
            snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        if (strncmp(entry->d_name, BENCH_PREFIX, prefix) == 0 &&
            !is_peer(entry->d_name) && length < (int)sizeof(path) &&
            access(path, X_OK) == 0) {
            note_name(list, entry->d_name + prefix);
        }
    }
    closedir(dir);
}

/* Calls `visit` for each folder where bench programs may be. */
static void each_folder(void (*visit)(const char *folder, void *context),
                        void *context)
{
    char folder[PATH_MAX];
    char path[PATH_MAX];
    if (own_folder(folder, sizeof(folder))) {
        visit(folder, context);
        if (snprintf(path, sizeof(path), "%s/%s", folder,
                     MUSTER_LIBEXEC_FROM_BIN) < (int)sizeof(path)) {
            visit(path, context);
        }
    }
    const char *search = getenv("PATH");
    while (search != NULL && *search != '\0') {
        size_t length = strcspn(search, ":");
        if (length > 0 && length < sizeof(path)) {
            memcpy(path, search, length);
            path[length] = '\0';
            visit(path, context);
        }
        search += length + (search[length] == ':');
    }
}

static void visit_to_list(const char *folder, void *context)
{
    scan_folder(folder, context);
}

static int compare_names(const void *left, const void *right)
{
    return strcmp(left, right);
}

static int list_benches(void)
{
    name_list *list = calloc(1, sizeof(*list));
    if (list == NULL) {
        return cli_fail(MUSTER_ERR_NO_MEMORY, NULL);
    }
    each_folder(visit_to_list, list);
    qsort(list->names, list->count, sizeof(list->names[0]), compare_names);
    int code = 0;
    for (size_t i = 0; code == 0 && i < list->count; i++) {
        code = cli_print(list->names[i]);
        code = code == 0 ? cli_print("\n") : code;
    }
    if (list->count == 0) {
        fputs("muster: no bench programs here; `make` builds them\n", stderr);
    }
    free(list);
    return code;
}

typedef struct exec_request {
    const char *name;
    char **argv;
} exec_request;

/* Returns only when there is no such program in the folder. */
static void visit_to_exec(const char *folder, void *context)
{
    const exec_request *request = context;
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/%s%s", folder, BENCH_PREFIX,
                 request->name) < (int)sizeof(path)) {
        execv(path, request->argv);
    }
}

int cli_bench(int argc, char **argv)
{
    if (argc == 0) {
        return list_benches();
    }
    if (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0) {
        return cli_print("usage: muster bench [NAME [options]]\n\n"
                         "Run the bench program muster-bench-NAME; without a "
                         "name, list them.\n`muster bench NAME --help` tells "
                         "its options.\n\nExample:\n  muster bench star "
                         "--workers 10 --json\n");
    }
    exec_request request = {.name = argv[0], .argv = argv};
    if (strchr(argv[0], '/') == NULL) {
        each_folder(visit_to_exec, &request);
    }
    muster_error error = {.status = MUSTER_ERR_INVALID};
    snprintf(error.text, sizeof(error.text),
             "bench: there is no '%.60s'; `muster bench` lists what there is",
             argv[0]);
    return cli_fail(MUSTER_ERR_INVALID, &error);
}
