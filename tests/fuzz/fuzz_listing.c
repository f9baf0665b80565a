/*
 * fuzz_listing.c -- a listing of a shard, as it comes over the network: what is
 * accepted names samples that exist, and the shard of them can be made.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/listing.h"

#define SAMPLES 40u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static muster_dataset *rows;
    muster_error error = {0};
    muster_listing listing;
    if (rows == NULL &&
        muster_dataset_load("synthetic:samples=40,features=3,classes=2", NULL,
                            &error, &rows) != MUSTER_OK) {
        abort();
    }
    uint8_t *copy = muster_mem_raw_aligned(size > 0 ? size : 1, 1);
    if (copy == NULL) {
        abort();
    }
    memcpy(copy, data, size);
    if (muster_listing_open(copy, size, SAMPLES, &error, &listing) ==
        MUSTER_OK) {
        size_t bytes = muster_listing_shard_bytes(&listing, rows);
        void *shard = muster_mem_raw_aligned(bytes, 1);
        if (shard == NULL || !muster_listing_is(copy, size)) {
            abort();
        }
        muster_listing_shard_write(&listing, rows, shard);
        (void)muster_listing_matches(&listing, shard, bytes);
        muster_mem_free(shard);
    }
    muster_mem_free(copy);
    return 0;
}
