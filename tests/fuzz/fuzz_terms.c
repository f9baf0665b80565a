/*
 * fuzz_terms.c -- a plan that was accepted is written back byte for byte.
 */
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "wire/terms.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    muster_terms terms;
    muster_error error;
    if (muster_terms_read(data, size, &error, &terms) != MUSTER_OK) {
        return 0;
    }
    MUSTER_ASSERT(muster_terms_bytes(terms.count, terms.part_count) == size);
    uint8_t *bytes = muster_mem_array(size, 1);
    MUSTER_ASSERT(bytes != NULL);
    muster_terms_write(&terms, bytes);
    MUSTER_ASSERT(memcmp(bytes, data, size) == 0);
    muster_mem_free(bytes);
    muster_terms_fini(&terms);
    return 0;
}
