/*
 * fuzz_directory.c -- a directory that was accepted is written back byte for
 * byte.
 */
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "wire/directory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    muster_directory directory;
    muster_error error;
    if (muster_directory_read(data, size, &error, &directory) != MUSTER_OK) {
        return 0;
    }
    MUSTER_ASSERT(muster_directory_bytes(&directory) == size);
    uint8_t *bytes = muster_mem_array(size, 1);
    MUSTER_ASSERT(bytes != NULL);
    muster_directory_write(&directory, bytes);
    MUSTER_ASSERT(memcmp(bytes, data, size) == 0);
    muster_mem_free(bytes);
    muster_directory_fini(&directory);
    return 0;
}
