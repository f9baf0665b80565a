/*
 * checkpoint.c -- safetensors files with a checksum, the newest two kept.
 *
 * The note `version` says what the hash is. Version 1 had a hash of its own and
 * no such note; since version 2 it is XXH3, 64 bits.
 */
#define _POSIX_C_SOURCE 200809L
#include "record/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/vec.h"
#include "record/checksum.h"

#define KEPT         2u
#define VERSION      "2"
#define FILE_PATTERN "step-%012" PRIu64 ".safetensors"

static muster_status make_path(const char *folder, uint64_t step,
                               char *path_out, muster_error *error_out)
{
    int length = snprintf(path_out, MUSTER_RECORD_PATH_MAX, "%s/" FILE_PATTERN,
                          folder, step);
    return length < (int)MUSTER_RECORD_PATH_MAX
               ? MUSTER_OK
               : muster_record_failed(folder, ENAMETOOLONG, error_out);
}

static int compare_steps(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return a > b ? -1 : a < b; // newest first
}

/* The steps of the checkpoints in `folder`, newest first. */
static muster_status list_steps(const char *folder, muster_error *error_out,
                                muster_vec *steps)
{
    DIR *dir = opendir(folder);
    if (dir == NULL && errno == ENOENT) {
        return MUSTER_OK;
    }
    if (dir == NULL) {
        return muster_record_failed(folder, errno, error_out);
    }
    muster_status status = MUSTER_OK;
    for (struct dirent *entry = readdir(dir);
         entry != NULL && status == MUSTER_OK; entry = readdir(dir)) {
        const char *digits = entry->d_name + strlen("step-");
        char name[64];
        if (strncmp(entry->d_name, "step-", strlen("step-")) != 0) {
            continue;
        }
        uint64_t step = strtoull(digits, NULL, 10);
        snprintf(name, sizeof(name), FILE_PATTERN, step);
        if (strcmp(name, entry->d_name) == 0 &&
            !muster_vec_append(steps, &step, 1)) {
            status = muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                      "out of memory");
        }
    }
    closedir(dir);
    if (steps->count > 1) {
        qsort(steps->data, steps->count, sizeof(uint64_t), compare_steps);
    }
    return status;
}

/* What cannot be removed does no harm: the next one tries again. */
static void drop_old(const char *folder)
{
    muster_vec steps = muster_vec_make(sizeof(uint64_t));
    if (list_steps(folder, NULL, &steps) == MUSTER_OK) {
        for (size_t i = KEPT; i < steps.count; i++) {
            char path[MUSTER_RECORD_PATH_MAX];
            if (make_path(folder, ((uint64_t *)steps.data)[i], path, NULL) ==
                MUSTER_OK) {
                unlink(path);
            }
        }
    }
    muster_vec_fini(&steps);
}

static bool is_reserved(const char *key)
{
    return strcmp(key, "step") == 0 || strcmp(key, "checksum") == 0 ||
           strcmp(key, "version") == 0;
}

#define OWN_NOTES 3u // step, version, checksum

/* The caller's notes, then our own into `notes_out`. */
static bool complete_notes(const muster_checkpoint_parts *parts,
                           muster_note *notes_out, char *step_text,
                           size_t text_size, char *checksum_text)
{
    size_t count = parts->note_count;
    for (size_t i = 0; i < count; i++) {
        if (is_reserved(parts->notes[i].key)) {
            return false;
        }
        notes_out[i] = parts->notes[i];
    }
    snprintf(step_text, text_size, "%" PRIu64, parts->step);
    notes_out[count++] = (muster_note){"step", step_text};
    notes_out[count++] = (muster_note){"version", VERSION};
    muster_checksum_of(parts->tensors, parts->tensor_count, notes_out, count,
                       checksum_text);
    notes_out[count] = (muster_note){"checksum", checksum_text};
    return true;
}

muster_status muster_checkpoint_write(const char *folder,
                                      const muster_checkpoint_parts *parts,
                                      muster_error *error_out)
{
    char path[MUSTER_RECORD_PATH_MAX];
    char step_text[32];
    char checksum_text[MUSTER_CHECKSUM_TEXT];
    muster_status status = make_path(folder, parts->step, path, error_out);
    if (status != MUSTER_OK) {
        return status;
    }
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        return muster_record_failed(folder, errno, error_out);
    }
    muster_note *notes =
        muster_mem_array(parts->note_count + OWN_NOTES, sizeof(*notes));
    if (notes == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "out of memory");
    }
    if (complete_notes(parts, notes, step_text, sizeof(step_text),
                       checksum_text)) {
        status = muster_safetensors_save(
            path, parts->tensors, parts->tensor_count, notes,
            parts->note_count + OWN_NOTES, error_out);
    } else {
        status = muster_error_set(error_out, MUSTER_ERR_INVALID,
                                  "checkpoint notes may not be named step, "
                                  "version or checksum");
    }
    muster_mem_free(notes);
    if (status == MUSTER_OK) {
        drop_old(folder);
    }
    return status;
}

/* MUSTER_ERR_UNSUPPORTED: a whole checkpoint of another version. */
static muster_status check_version(const muster_safetensors *file,
                                   const char *path, muster_error *error_out)
{
    const char *version = muster_safetensors_note(file, "version");
    const char *checksum = muster_safetensors_note(file, "checksum");
    if (version == NULL && checksum != NULL) {
        version = "1";
    }
    if (version == NULL || strcmp(version, VERSION) == 0) {
        return MUSTER_OK;
    }
    return muster_error_set(
        error_out, MUSTER_ERR_UNSUPPORTED,
        "%.300s is a checkpoint of version %.20s; this muster reads "
        "version " VERSION ": continue with the muster that wrote it, or "
        "start the run anew",
        path, version);
}

static muster_status check_sum(const muster_safetensors *file, uint64_t step,
                               const char *path, muster_error *error_out)
{
    char step_text[32];
    snprintf(step_text, sizeof(step_text), "%" PRIu64, step);
    const char *stored_step = muster_safetensors_note(file, "step");
    bool same = muster_checksum_matches(file) && stored_step != NULL &&
                strcmp(stored_step, step_text) == 0;
    return same ? MUSTER_OK
                : muster_error_set(error_out, MUSTER_ERR_INPUT,
                                   "%.300s: the checksum does not match", path);
}

static muster_status load_one(const char *path, uint64_t step,
                              muster_error *error_out,
                              muster_safetensors **file_out)
{
    muster_safetensors *file = NULL;
    muster_status status = muster_safetensors_open(path, error_out, &file);
    if (status != MUSTER_OK) {
        return status;
    }
    status = check_version(file, path, error_out);
    if (status == MUSTER_OK) {
        status = check_sum(file, step, path, error_out);
    }
    if (status != MUSTER_OK) {
        muster_safetensors_close(file);
        return status;
    }
    *file_out = file;
    return MUSTER_OK;
}

/* What is said when no checkpoint can be used. A version is named, since the
 * user can do something about it; damage was warned of. */
static muster_status fail_load(const char *folder, const muster_error *version,
                               muster_error *error_out)
{
    if (version->text[0] != '\0') {
        return muster_error_set(error_out, MUSTER_ERR_INPUT, "%s",
                                version->text);
    }
    return muster_error_set(error_out, MUSTER_ERR_INPUT,
                            "%.300s: no checkpoint to continue from", folder);
}

static muster_status load_first_whole(const char *folder,
                                      const muster_vec *steps,
                                      muster_error *error_out,
                                      muster_checkpoint *checkpoint_out)
{
    muster_error version = {0};
    for (size_t i = 0; i < steps->count; i++) {
        char path[MUSTER_RECORD_PATH_MAX];
        muster_error problem = {0};
        uint64_t step = ((const uint64_t *)steps->data)[i];
        muster_status status = make_path(folder, step, path, &problem);
        if (status == MUSTER_OK) {
            status = load_one(path, step, &problem, &checkpoint_out->file);
        }
        if (status == MUSTER_OK) {
            checkpoint_out->step = step;
            return MUSTER_OK;
        }
        if (status == MUSTER_ERR_NO_MEMORY) {
            return muster_error_set(error_out, status, "%s", problem.text);
        }
        if (status == MUSTER_ERR_UNSUPPORTED) {
            version = problem;
        } else {
            muster_log(MUSTER_LOG_WARN, "%s; trying the one before it",
                       problem.text);
        }
    }
    return fail_load(folder, &version, error_out);
}

muster_status muster_checkpoint_load(const char *folder,
                                     muster_error *error_out,
                                     muster_checkpoint *checkpoint_out)
{
    muster_vec steps = muster_vec_make(sizeof(uint64_t));
    muster_status status = list_steps(folder, error_out, &steps);
    if (status == MUSTER_OK) {
        status = load_first_whole(folder, &steps, error_out, checkpoint_out);
    }
    muster_vec_fini(&steps);
    return status;
}

bool muster_checkpoint_none(const char *folder)
{
    muster_vec steps = muster_vec_make(sizeof(uint64_t));
    bool none =
        list_steps(folder, NULL, &steps) == MUSTER_OK && steps.count == 0;
    muster_vec_fini(&steps);
    return none;
}

void muster_checkpoint_fini(muster_checkpoint *checkpoint)
{
    muster_safetensors_close(checkpoint->file);
    checkpoint->file = NULL;
}
