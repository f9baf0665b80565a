/*
 * complete.c -- see complete.h.
 */
#include "run/complete.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"

void muster_run_tell_complete(uint64_t done, uint64_t wanted, const char *unit,
                              const char *option)
{
    muster_log(MUSTER_LOG_INFO,
               "run is complete: %" PRIu64 " of %" PRIu64
               " %s; give a larger --%s to go on",
               done, wanted, unit, option);
}

void muster_run_tell_no_checkpoint(const char *folder)
{
    muster_log(MUSTER_LOG_WARN,
               "%s: the run ended before its first checkpoint; it starts again "
               "from the beginning",
               folder);
}

static bool exists(muster_run_folder *folder, const char *name)
{
    FILE *file = fopen(muster_run_folder_path(folder, name), "r");
    if (file != NULL) {
        (void)fclose(file);
    }
    return file != NULL;
}

bool muster_run_read_file(const char *path, muster_vec *bytes)
{
    FILE *file = fopen(path, "re");
    char block[4096];
    size_t got = 1;
    while (file != NULL && got > 0) {
        got = fread(block, 1, sizeof block, file);
        if (got > 0 && !muster_vec_append(bytes, block, got)) {
            break;
        }
    }
    bool all = file != NULL && got == 0 && ferror(file) == 0;
    if (file != NULL) {
        (void)fclose(file);
    }
    return all;
}

char *muster_run_summary_text(muster_run_folder *folder)
{
    if (!exists(folder, MUSTER_RUN_MODEL)) {
        return NULL;
    }
    muster_vec bytes = muster_vec_make(1);
    const char *path = muster_run_folder_path(folder, MUSTER_RUN_SUMMARY);
    char *text = muster_run_read_file(path, &bytes)
                     ? muster_mem_string_n(bytes.data, bytes.count)
                     : NULL;
    muster_vec_fini(&bytes);
    return text;
}
