/*
 * fuzz_shard.c -- a shard that was accepted is written back byte for byte.
 */
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "data/shard.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *bytes = muster_mem_raw_aligned(size, 1);
    MUSTER_ASSERT(bytes != NULL);
    memcpy(bytes, data, size);
    muster_shard shard;
    muster_error error;
    if (muster_shard_open(bytes, size, &error, &shard) == MUSTER_OK) {
        MUSTER_ASSERT(muster_shard_bytes(&shard.rows) == size);
        uint8_t *again = muster_mem_raw_aligned(size, 1);
        MUSTER_ASSERT(again != NULL);
        muster_shard_write(shard.number, shard.sample_ids, &shard.rows, again);
        MUSTER_ASSERT(memcmp(bytes, again, size) == 0);
        for (uint32_t r = 0; r < shard.rows.count; r++) {
            MUSTER_ASSERT(muster_shard_find(&shard, shard.sample_ids[r]) == r);
        }
        muster_mem_free(again);
    }
    muster_mem_free(bytes);
    return 0;
}
