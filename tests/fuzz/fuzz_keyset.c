/*
 * fuzz_keyset.c -- a file of rows to replicate: refused, or a set whose
 * ranges are apart and within the limits.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"
#include "ps/node/replicated_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    muster_error error;
    muster_source *source;
    muster_keyset set = {{0}};
    if (muster_source_open_memory("input", data, size, &error, &source) !=
        MUSTER_OK) {
        return 0;
    }
    if (muster_replicated_file_read(source, &error, &set) == MUSTER_OK) {
        const muster_keyrange *ranges = set.ranges.data;
        for (size_t i = 0; i < set.ranges.count; i++) {
            MUSTER_ASSERT(ranges[i].table < MUSTER_PS_TABLES_MAX);
            MUSTER_ASSERT(ranges[i].first <= ranges[i].last);
            MUSTER_ASSERT(ranges[i].last <= MUSTER_PS_KEYS_MAX);
            MUSTER_ASSERT(i == 0 || ranges[i - 1].table < ranges[i].table ||
                          ranges[i - 1].last < ranges[i].first);
            MUSTER_ASSERT(
                muster_keyset_has(&set, ranges[i].table, ranges[i].last));
        }
        muster_keyset_fini(&set);
    }
    muster_source_close(source);
    return 0;
}
