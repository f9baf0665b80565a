/*
 * owners.c -- see owners.h.
 */
#include "data/owners.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "data/readers.h"
#include "data/source.h"
#include "data/table.h"

bool muster_owners_is_file(const char *text)
{
    size_t length = strlen(text);
    return strchr(text, '/') != NULL ||
           (length > 4 && strcmp(text + length - 4, ".npy") == 0);
}

/* Workers are below 65,536, so a float holds each of them exactly. */
static muster_status take(const char *path, const float *numbers,
                          uint64_t samples, uint32_t workers,
                          muster_error *error_out, uint32_t *owners_out)
{
    for (uint64_t i = 0; i < samples; i++) {
        bool known = numbers[i] >= 0 && numbers[i] < (float)workers;
        uint32_t owner = known ? (uint32_t)numbers[i] : 0;
        if (!known || (float)owner != numbers[i]) {
            return muster_error_set(error_out, MUSTER_ERR_INPUT,
                                    "%s: sample %" PRIu64 " is given to worker "
                                    "%g; there are %" PRIu32
                                    " workers, numbered from 0",
                                    path, i, (double)numbers[i], workers);
        }
        owners_out[i] = owner;
    }
    return MUSTER_OK;
}

muster_status muster_owners_read(const char *path, uint64_t samples,
                                 uint32_t workers, muster_error *error_out,
                                 uint32_t *owners_out)
{
    muster_source *source = NULL;
    muster_status status = muster_source_open(path, error_out, &source);
    if (status != MUSTER_OK) {
        return status;
    }
    float *numbers = muster_mem_array(samples, sizeof(*numbers));
    if (numbers == NULL) {
        muster_source_close(source);
        return muster_table_fail_memory(path, error_out);
    }
    status =
        muster_npy_read_column(source, samples, "owner", error_out, numbers);
    if (status == MUSTER_OK) {
        status = take(path, numbers, samples, workers, error_out, owners_out);
    }
    muster_mem_free(numbers);
    muster_source_close(source);
    return status;
}
