/*
 * fuzz_part.c -- a part that was accepted is written back byte for byte.
 */
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "data/part.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *bytes = muster_mem_raw_aligned(size, 1);
    MUSTER_ASSERT(bytes != NULL);
    memcpy(bytes, data, size);
    muster_part part;
    muster_error error;
    if (muster_part_open(bytes, size, &error, &part) == MUSTER_OK) {
        MUSTER_ASSERT(muster_part_bytes(&part.rows) == size);
        uint8_t *again = muster_mem_raw_aligned(size, 1);
        MUSTER_ASSERT(again != NULL);
        muster_part_write(part.number, part.sample_ids, &part.rows, again);
        MUSTER_ASSERT(memcmp(bytes, again, size) == 0);
        for (uint32_t r = 0; r < part.rows.count; r++) {
            MUSTER_ASSERT(muster_part_find(&part, part.sample_ids[r]) == r);
        }
        muster_mem_free(again);
    }
    muster_mem_free(bytes);
    return 0;
}
