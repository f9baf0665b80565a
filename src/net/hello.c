/*
 * hello.c -- whether a peer may connect, decided on its first eighty bytes.
 */
#include "net/hello.h"

#include <string.h>

#include "base/error.h"
#include "net/tls.h"
#include "wire/bytes.h"

static const uint8_t hello_magic[8] = {'M', 'U', 'S',  'T',
                                       'E', 'R', '\r', '\n'};

void muster_hello_write(const muster_hello *hello, uint8_t *bytes)
{
    memcpy(bytes, hello_magic, 8);
    muster_bytes_put(bytes + 8, hello->version, 4);
    muster_bytes_put(bytes + 12, MUSTER_HELLO_BYTES, 4);
    memset(bytes + 16, 0, MUSTER_HELLO_RESERVED);
    bytes[16] = hello->fabric;
}

muster_status muster_hello_read(const uint8_t *bytes, size_t size,
                                muster_error *error_out,
                                muster_hello *hello_out)
{
    if (size > 0 && (bytes[0] == MUSTER_TLS_FIRST_BYTE ||
                     bytes[0] == MUSTER_TLS_ALERT_BYTE)) {
        return muster_error_set(error_out, MUSTER_ERR_REFUSED,
                                "it has a run key, and we have none; give both "
                                "sides the same key file (--key-file)");
    }
    if (memcmp(bytes, hello_magic, size < 8 ? size : 8) != 0 ||
        (size >= 16 && muster_bytes_get(bytes + 12, 4) != MUSTER_HELLO_BYTES)) {
        return muster_error_set(error_out, MUSTER_ERR_PROTOCOL,
                                "its first bytes are not Muster's hello");
    }
    if (size < MUSTER_HELLO_BYTES) {
        return MUSTER_IN_PROGRESS;
    }
    hello_out->version = (uint32_t)muster_bytes_get(bytes + 8, 4);
    hello_out->fabric = bytes[16] == 1;
    return MUSTER_OK;
}

static const char *engine_of(const muster_hello *hello)
{
    return hello->fabric ? "ucx" : "sock";
}

muster_status muster_hello_check(const muster_hello *ours,
                                 const muster_hello *theirs,
                                 muster_error *error_out)
{
    if (theirs->version != ours->version) {
        return muster_error_set(error_out, MUSTER_ERR_REFUSED,
                                "it speaks protocol version %u and we speak "
                                "%u; run the same Muster on both sides",
                                theirs->version, ours->version);
    }
    if (theirs->fabric != ours->fabric) {
        return muster_error_set(error_out, MUSTER_ERR_REFUSED,
                                "it uses --engine %s and we use %s; give both "
                                "sides the same",
                                engine_of(theirs), engine_of(ours));
    }
    return MUSTER_OK;
}
