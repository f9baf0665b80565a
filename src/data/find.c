/*
 * find.c -- file names. A candidate is tried as it is, with ".gz" and without.
 */
#define _POSIX_C_SOURCE 200809L
#include "data/find.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "data/source.h"

static muster_status fail_memory(const char *path, muster_error *error_out)
{
    return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                            "%s: out of memory", path);
}

static bool is_file(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

static bool ends_with(const char *text, const char *ending)
{
    size_t length = strlen(text);
    size_t size = strlen(ending);
    return length >= size && strcmp(text + length - size, ending) == 0;
}

// The length of a path without ".gz".
static size_t stem_length(const char *path)
{
    return strlen(path) - (ends_with(path, ".gz") ? 3 : 0);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

// If `stem` or `stem`.gz is a file, *path_out becomes it.
static muster_status try_stem(const char *stem, muster_error *error_out,
                              char **path_out)
{
    char path[PATH_MAX];
    static const char *const endings[] = {"", ".gz"};
    for (size_t i = 0; i < 2 && *path_out == NULL; i++) {
        int length = snprintf(path, sizeof(path), "%s%s", stem, endings[i]);
        if (length < 0 || (size_t)length >= sizeof(path) || !is_file(path)) {
            continue;
        }
        *path_out = muster_mem_string(path);
        if (*path_out == NULL) {
            return fail_memory(stem, error_out);
        }
    }
    return MUSTER_OK;
}

// `path` without ".gz" and with the last `from` of its file name replaced by
// `to`; false when the name has none.
static bool replace(const char *path, const char *from, const char *to,
                    char *out)
{
    size_t length = stem_length(path);
    const char *found = NULL;
    for (const char *p = base_name(path);
         (p = strstr(p, from)) != NULL && p + strlen(from) <= path + length;
         p++) {
        found = p;
    }
    if (found == NULL) {
        return false;
    }
    const char *rest = found + strlen(from);
    int printed = snprintf(out, PATH_MAX, "%.*s%s%.*s", (int)(found - path),
                           path, to, (int)(path + length - rest), rest);
    return printed >= 0 && printed < PATH_MAX;
}

// How good a name in a folder is as training data; 0: not at all.
static int rank(const char *name)
{
    char stem[NAME_MAX + 1];
    size_t length = stem_length(name);
    if (length > NAME_MAX) {
        return 0;
    }
    memcpy(stem, name, length);
    stem[length] = '\0';
    bool is_npy = ends_with(stem, ".npy");
    if (name[0] == '.' || strncmp(name, "README", 6) == 0 ||
        strncmp(name, "LICENSE", 7) == 0 || strstr(stem, "label") != NULL ||
        (is_npy && name[0] == 'y') || ends_with(stem, ".t") ||
        strncmp(name, "t10k", 4) == 0 || strstr(stem, "test") != NULL) {
        return 0;
    }
    if (strncmp(name, "train-images", 12) == 0 ||
        strcmp(stem, "data_batch_1.bin") == 0) {
        return 3;
    }
    if (strncmp(name, "data_batch_", 11) == 0) {
        return 0; // read with the first one
    }
    return strstr(stem, "train") != NULL ? 2 : 1;
}

// The best names seen in a folder; X beats X.gz.
typedef struct choice {
    char name[NAME_MAX + 1];
    char rival[NAME_MAX + 1];
    int rank;
    bool tie;
} choice;

static void consider(choice *best, const char *name)
{
    int r = rank(name);
    if (r == 0 || r < best->rank) {
        return;
    }
    size_t length = stem_length(name);
    if (r == best->rank && length == stem_length(best->name) &&
        memcmp(name, best->name, length) == 0) {
        if (strlen(name) == length) {
            memcpy(best->name, name, length + 1);
        }
        return;
    }
    best->tie = r == best->rank;
    if (best->tie) {
        snprintf(best->rival, sizeof(best->rival), "%s", name);
        return;
    }
    best->rank = r;
    snprintf(best->name, sizeof(best->name), "%s", name);
}

static void scan(DIR *dir, const char *folder, choice *best)
{
    char path[PATH_MAX];
    for (struct dirent *entry = readdir(dir); entry != NULL;
         entry = readdir(dir)) {
        int length =
            snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        if (length > 0 && (size_t)length < sizeof(path) && is_file(path)) {
            consider(best, entry->d_name);
        }
    }
}

static muster_status find_in_folder(const char *folder, muster_error *error_out,
                                    char **path_out)
{
    DIR *dir = opendir(folder);
    if (dir == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_INPUT,
                                "%s: cannot read the folder: %s", folder,
                                strerror(errno));
    }
    choice best = {.rank = 0};
    scan(dir, folder, &best);
    closedir(dir);
    if (best.rank == 0) {
        return muster_error_set(
            error_out, MUSTER_ERR_INPUT,
            "%s: the folder holds no training data; "
            "expected idx, npy, libsvm, csv or CIFAR-10 files",
            folder);
    }
    if (best.tie) {
        return muster_error_set(
            error_out, MUSTER_ERR_INPUT,
            "%s: the folder holds both %s and %s: name the one to train on",
            folder, best.name, best.rival);
    }
    size_t length = strlen(folder) + strlen(best.name) + 2;
    char *path = muster_mem_array(length, 1);
    if (path == NULL) {
        return fail_memory(folder, error_out);
    }
    snprintf(path, length, "%s/%s", folder, best.name);
    *path_out = path;
    return MUSTER_OK;
}

bool muster_find_is_folder(const char *path)
{
    struct stat info;
    return !muster_source_is_stdin(path) && stat(path, &info) == 0 &&
           S_ISDIR(info.st_mode);
}

muster_status muster_find_train(const char *spec, muster_error *error_out,
                                char **path_out)
{
    char zipped[PATH_MAX];
    bool is_stdin = muster_source_is_stdin(spec);
    if (!is_stdin && muster_source_zipped_name(spec, zipped, sizeof(zipped))) {
        spec = zipped;
    }
    if (!is_stdin && access(spec, F_OK) != 0) {
        return muster_error_set(error_out, MUSTER_ERR_INPUT,
                                "%s: cannot open: %s", spec, strerror(errno));
    }
    if (muster_find_is_folder(spec)) {
        return find_in_folder(spec, error_out, path_out);
    }
    *path_out = muster_mem_string(spec);
    return *path_out != NULL ? MUSTER_OK : fail_memory(spec, error_out);
}

muster_status muster_find_idx_labels(const char *path, muster_error *error_out,
                                     char **path_out)
{
    char named[PATH_MAX];
    char stem[PATH_MAX];
    if (!replace(path, "images", "labels", named)) {
        return muster_error_set(
            error_out, MUSTER_ERR_INPUT,
            "%s: cannot tell its labels file: the name of an idx file of "
            "samples must hold 'images'",
            path);
    }
    if (!replace(named, "idx3", "idx1", stem)) {
        memcpy(stem, named, sizeof(stem));
    }
    *path_out = NULL;
    muster_status status = try_stem(stem, error_out, path_out);
    if (status == MUSTER_OK && *path_out == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_INPUT,
                                "%s: its labels are missing: no %s[.gz]", path,
                                stem);
    }
    return status;
}

muster_status muster_find_npy_labels(const char *path, muster_error *error_out,
                                     char **path_out)
{
    char stem[PATH_MAX];
    *path_out = NULL;
    muster_status status = MUSTER_OK;
    if (replace(path, ".npy", "_labels.npy", stem)) {
        status = try_stem(stem, error_out, path_out);
    }
    size_t base = (size_t)(base_name(path) - path);
    if (status == MUSTER_OK && *path_out == NULL &&
        (path[base] == 'X' || path[base] == 'x') &&
        stem_length(path) < sizeof(stem)) {
        memcpy(stem, path, stem_length(path));
        stem[stem_length(path)] = '\0';
        stem[base] = 'y';
        status = try_stem(stem, error_out, path_out);
    }
    return status;
}

muster_status muster_find_batch(const char *path, uint32_t number,
                                muster_error *error_out, char **path_out)
{
    char stem[PATH_MAX];
    char name[32];
    *path_out = NULL;
    (void)snprintf(name, sizeof(name), "data_batch_%u.bin", number);
    return replace(path, "data_batch_1.bin", name, stem)
               ? try_stem(stem, error_out, path_out)
               : MUSTER_OK;
}

muster_status muster_find_test(const char *path, muster_error *error_out,
                               char **path_out)
{
    static const struct {
        const char *from;
        const char *to;
    } rules[] = {
        {"train-images", "t10k-images"},
        {"data_batch_1.bin", "test_batch.bin"},
        {"train", "test"},
        {"Train", "Test"},
    };
    char stem[PATH_MAX];
    *path_out = NULL;
    muster_status status = MUSTER_OK;
    if (muster_source_is_stdin(path)) {
        return status; // nothing lies beside it
    }
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        if (status == MUSTER_OK && *path_out == NULL &&
            replace(path, rules[i].from, rules[i].to, stem)) {
            status = try_stem(stem, error_out, path_out);
        }
    }
    int length = (int)stem_length(path);
    length -= length > 3 && strncmp(path + length - 3, ".tr", 3) == 0 ? 3 : 0;
    int printed = snprintf(stem, sizeof(stem), "%.*s.t", length, path);
    if (status == MUSTER_OK && *path_out == NULL && printed >= 0 &&
        (size_t)printed < sizeof(stem)) {
        status = try_stem(stem, error_out, path_out);
    }
    return status;
}
