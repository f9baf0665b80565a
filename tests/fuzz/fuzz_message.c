/*
 * fuzz_message.c -- what read() accepts, write() makes again, byte for byte.
 */
#include <string.h>

#include "base/assert.h"
#include "wire/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    muster_message message;
    muster_error error;
    if (muster_message_read(data, size, &error, &message) != MUSTER_OK) {
        return 0;
    }
    uint8_t bytes[MUSTER_MESSAGE_BYTES_MAX];
    MUSTER_ASSERT(muster_message_bytes(&message) == size);
    MUSTER_ASSERT(muster_message_write(&message, bytes) == size);
    MUSTER_ASSERT(memcmp(bytes, data, size) == 0);
    return 0;
}
