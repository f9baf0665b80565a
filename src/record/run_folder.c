/*
 * run_folder.c -- files of a run, and two line files that are appended to.
 *
 * A folder may come from elsewhere: a link in it must not say which file here
 * is written. So a resumed run's lines are copied to a new file, and
 * whole files are renamed into place (record/atomic.h).
 *
 * Invariants: the folder is locked (flock on the folder itself, so nothing is
 * left behind by a crash); a line file's buffer holds whole lines only; after a
 * failed write the file stays failed, since half a line may be on disk.
 */
#define _GNU_SOURCE
#include "record/run_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"

#define BUFFER_BYTES    65536u
#define BUFFER_LINES    256u
#define FLUSH_PERIOD_NS MUSTER_NS_PER_S

typedef struct line_file {
    const char *name;
    int fd;        // -1 until the first flush
    int failed;    // errno of a failed write
    bool unsynced; // written, but perhaps not yet on disk
    unsigned lines;
    size_t used;
    int64_t flushed_ns;
    char *buffer;
} line_file;

struct muster_run_folder {
    int lock_fd;
    char *dir;
    line_file steps;
    line_file workers;
    char path[MUSTER_RECORD_PATH_MAX];
};

const char *muster_run_folder_path(muster_run_folder *folder, const char *name)
{
    snprintf(folder->path, sizeof(folder->path), "%s/%s", folder->dir, name);
    return folder->path;
}

/* mkdir -p; 0 or an errno. */
static int make_folders(const char *dir)
{
    char path[MUSTER_RECORD_PATH_MAX];
    size_t length = strlen(dir);
    if (length == 0 || length >= sizeof(path)) {
        return length == 0 ? ENOENT : ENAMETOOLONG;
    }
    for (size_t i = 1; i <= length; i++) {
        if (dir[i] != '/' && dir[i] != '\0') {
            continue;
        }
        memcpy(path, dir, i);
        path[i] = '\0';
        if (mkdir(path, 0777) != 0 && errno != EEXIST) {
            return errno;
        }
    }
    return 0;
}

/* The folder cannot be made or opened. */
static muster_status no_folder(const char *dir, int reason,
                               muster_error *error_out)
{
    return reason == ENOTDIR
               ? muster_error_set(error_out, MUSTER_ERR_INVALID,
                                  "%.300s: a file stands where the run folder "
                                  "would be; choose another name",
                                  dir)
               : muster_record_failed(dir, reason, error_out);
}

static muster_status lock_folder(muster_run_folder *folder,
                                 muster_error *error_out)
{
    folder->lock_fd = open(folder->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->lock_fd < 0) {
        return no_folder(folder->dir, errno, error_out);
    }
    if (flock(folder->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        return errno == EWOULDBLOCK
                   ? muster_error_set(error_out, MUSTER_ERR_SYSTEM,
                                      "%.300s: in use by another process",
                                      folder->dir)
                   : muster_record_failed(folder->dir, errno, error_out);
    }
    return MUSTER_OK;
}

static bool holds_run(muster_run_folder *folder)
{
    static const char *const signs[] = {MUSTER_RUN_CONFIG, MUSTER_RUN_METRICS,
                                        MUSTER_RUN_CHECKPOINT};
    for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
        if (access(muster_run_folder_path(folder, signs[i]), F_OK) == 0) {
            return true;
        }
    }
    return false;
}

static muster_status claim(muster_run_folder *folder, bool resume,
                           muster_error *error_out)
{
    int reason = resume ? 0 : make_folders(folder->dir);
    if (reason != 0) {
        return no_folder(folder->dir, reason, error_out);
    }
    bool is_there =
        !resume ||
        (holds_run(folder) &&
         access(muster_run_folder_path(folder, MUSTER_RUN_CONFIG), R_OK) == 0);
    if (!is_there) {
        return muster_error_set(error_out, MUSTER_ERR_INPUT,
                                "%.300s: holds no run to continue (no "
                                "config.json)",
                                folder->dir);
    }
    muster_status status = lock_folder(folder, error_out);
    if (status == MUSTER_OK && !resume && holds_run(folder)) {
        status = muster_error_set(error_out, MUSTER_ERR_INVALID,
                                  "%.200s: holds another run; continue it "
                                  "with --resume %.200s or choose another "
                                  "folder",
                                  folder->dir, folder->dir);
    }
    return status;
}

muster_status muster_run_folder_open(const char *dir, bool resume,
                                     muster_error *error_out,
                                     muster_run_folder **folder_out)
{
    muster_run_folder *folder = muster_mem_array(1, sizeof(*folder));
    if (folder == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "out of memory");
    }
    folder->lock_fd = -1;
    folder->steps = (line_file){.name = MUSTER_RUN_METRICS, .fd = -1};
    folder->workers = (line_file){.name = MUSTER_RUN_WORKERS, .fd = -1};
    folder->dir = muster_mem_string(dir);
    folder->steps.buffer = muster_mem_array(BUFFER_BYTES, 1);
    folder->workers.buffer = muster_mem_array(BUFFER_BYTES, 1);
    muster_status status = MUSTER_OK;
    if (folder->dir == NULL || folder->steps.buffer == NULL ||
        folder->workers.buffer == NULL) {
        status =
            muster_error_set(error_out, MUSTER_ERR_NO_MEMORY, "out of memory");
    } else if (strlen(dir) + 64 > MUSTER_RECORD_PATH_MAX) {
        status = muster_record_failed(dir, ENAMETOOLONG, error_out);
    } else {
        status = claim(folder, resume, error_out);
    }
    if (status != MUSTER_OK) {
        muster_run_folder_close(folder);
        return status;
    }
    *folder_out = folder;
    return MUSTER_OK;
}

static void close_lines(line_file *file)
{
    if (file->fd >= 0) {
        close(file->fd);
    }
    muster_mem_free(file->buffer);
}

void muster_run_folder_close(muster_run_folder *folder)
{
    if (folder == NULL) {
        return;
    }
    // An error here was met, and told, by an earlier flush; or nobody asked.
    muster_status ignored = muster_run_folder_flush(folder, NULL);
    (void)ignored;
    close_lines(&folder->steps);
    close_lines(&folder->workers);
    if (folder->lock_fd >= 0) {
        close(folder->lock_fd);
    }
    muster_mem_free(folder->dir);
    muster_mem_free(folder);
}

muster_status muster_run_folder_write(muster_run_folder *folder,
                                      const char *name, const char *text,
                                      muster_error *error_out)
{
    return muster_atomic_text(muster_run_folder_path(folder, name), text,
                              error_out);
}

static muster_status flush_lines(muster_run_folder *folder, line_file *file,
                                 muster_error *error_out)
{
    if (file->failed == 0 && file->used > 0) {
        const char *path = muster_run_folder_path(folder, file->name);
        if (file->fd < 0) {
            file->fd =
                open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        }
        file->failed =
            file->fd < 0 ? errno
                         : muster_write_all(file->fd, file->buffer, file->used);
        file->unsynced = file->failed == 0;
    }
    file->used = 0;
    file->lines = 0;
    file->flushed_ns = muster_clock_ns();
    if (file->failed == 0) {
        return MUSTER_OK;
    }
    return muster_record_failed(muster_run_folder_path(folder, file->name),
                                file->failed, error_out);
}

static muster_status append(muster_run_folder *folder, line_file *file,
                            const char *text, size_t length,
                            muster_error *error_out)
{
    memcpy(file->buffer + file->used, text, length);
    file->used += length;
    file->lines++;
    if (file->lines < BUFFER_LINES && file->failed == 0 &&
        file->used + MUSTER_LINE_BYTES_MAX <= BUFFER_BYTES &&
        muster_clock_ns() - file->flushed_ns < FLUSH_PERIOD_NS) {
        return MUSTER_OK;
    }
    return flush_lines(folder, file, error_out);
}

muster_status muster_run_folder_step(muster_run_folder *folder,
                                     const muster_step_line *line,
                                     muster_error *error_out)
{
    char text[MUSTER_LINE_BYTES_MAX];
    size_t length = muster_step_line_write(line, text);
    return append(folder, &folder->steps, text, length, error_out);
}

muster_status muster_run_folder_worker(muster_run_folder *folder,
                                       const muster_worker_line *line,
                                       muster_error *error_out)
{
    char text[MUSTER_LINE_BYTES_MAX];
    size_t length = muster_worker_line_write(line, text);
    return append(folder, &folder->workers, text, length, error_out);
}

static muster_status sync_lines(muster_run_folder *folder, line_file *file,
                                muster_error *error_out)
{
    muster_status status = flush_lines(folder, file, error_out);
    if (status != MUSTER_OK || !file->unsynced) {
        return status;
    }
    // What cannot be synced (a pipe in its place) has EINVAL.
    if (fdatasync(file->fd) != 0 && errno != EINVAL) {
        file->failed = errno;
        return muster_record_failed(muster_run_folder_path(folder, file->name),
                                    file->failed, error_out);
    }
    file->unsynced = false;
    return MUSTER_OK;
}

muster_status muster_run_folder_flush(muster_run_folder *folder,
                                      muster_error *error_out)
{
    muster_status steps = sync_lines(folder, &folder->steps, error_out);
    muster_status workers = sync_lines(folder, &folder->workers,
                                       steps == MUSTER_OK ? error_out : NULL);
    return steps != MUSTER_OK ? steps : workers;
}

/* Does the line stay? If so the summary learns of it. */
static bool keep_step(const char *text, size_t size, uint64_t next_step,
                      const muster_run_counts *counts)
{
    muster_step_line line;
    bool keep =
        muster_step_line_read(text, size, &line) && line.step < next_step;
    if (keep && counts->summary != NULL) {
        muster_summary_step(counts->summary, &line);
    }
    if (keep && counts->below != NULL) {
        muster_summary_step(counts->below, &line);
    }
    return keep;
}

static bool keep_worker(const char *text, size_t size, uint64_t next_step,
                        const muster_run_counts *counts)
{
    muster_worker_line line = {0};
    bool keep =
        muster_worker_line_read(text, size, &line) && line.step < next_step;
    muster_summary *of =
        counts->below != NULL && !line.edge ? counts->below : counts->summary;
    if (keep && of != NULL) {
        muster_summary_worker(of, &line);
    }
    return keep;
}

typedef bool (*line_filter)(const char *text, size_t size, uint64_t next_step,
                            const muster_run_counts *counts);

static muster_status copy_lines(FILE *from, muster_atomic *to,
                                line_filter filter, uint64_t next_step,
                                const muster_run_counts *counts,
                                muster_error *error_out)
{
    char text[MUSTER_LINE_BYTES_MAX];
    muster_status status = MUSTER_OK;
    bool at_start = true; // of a line; the rest of an overlong one is skipped
    while (status == MUSTER_OK && fgets(text, sizeof(text), from) != NULL) {
        size_t length = strlen(text);
        bool whole = length > 0 && text[length - 1] == '\n';
        if (at_start && whole && filter(text, length - 1, next_step, counts)) {
            status = muster_atomic_write(to, text, length, error_out);
        }
        at_start = whole;
    }
    if (status == MUSTER_OK && ferror(from)) {
        status = muster_record_failed(to->path, EIO, error_out);
        muster_atomic_abort(to);
    }
    return status;
}

static muster_status cut_lines(muster_run_folder *folder, line_file *file,
                               line_filter filter, uint64_t next_step,
                               const muster_run_counts *counts,
                               muster_error *error_out)
{
    const char *path = muster_run_folder_path(folder, file->name);
    FILE *from = fopen(path, "re");
    if (from == NULL && errno == ENOENT) {
        // A link that leads nowhere: lines would make the file it names.
        (void)unlink(path);
        errno = ENOENT;
    }
    if (from == NULL) {
        return errno == ENOENT ? MUSTER_OK
                               : muster_record_failed(path, errno, error_out);
    }
    muster_atomic to;
    muster_status status = muster_atomic_begin(&to, path, error_out);
    if (status == MUSTER_OK) {
        status = copy_lines(from, &to, filter, next_step, counts, error_out);
    }
    if (status == MUSTER_OK) {
        status = muster_atomic_commit(&to, error_out);
    }
    fclose(from);
    return status;
}

muster_status muster_run_folder_cut(muster_run_folder *folder,
                                    uint64_t next_step,
                                    const muster_run_counts *counts,
                                    muster_error *error_out)
{
    muster_status status = cut_lines(folder, &folder->steps, keep_step,
                                     next_step, counts, error_out);
    if (status == MUSTER_OK) {
        status = cut_lines(folder, &folder->workers, keep_worker, next_step,
                           counts, error_out);
    }
    return status;
}
