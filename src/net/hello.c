/*
 * hello.c -- whether a peer may connect, decided on its first eighty bytes.
 */
#include "net/hello.h"

#include <string.h>

#include "base/error.h"
#include "wire/bytes.h"

static const uint8_t hello_magic[8] = {'M', 'U', 'S',  'T',
                                       'E', 'R', '\r', '\n'};

void muster_hello_write(const muster_hello *hello, uint8_t *bytes)
{
    memcpy(bytes, hello_magic, 8);
    muster_bytes_put(bytes + 8, hello->version, 4);
    muster_bytes_put(bytes + 12, MUSTER_HELLO_BYTES, 4);
    memcpy(bytes + 16, hello->nonce, MUSTER_HELLO_NONCE_BYTES);
    memcpy(bytes + 48, hello->proof, MUSTER_HELLO_PROOF_BYTES);
}

muster_status muster_hello_read(const uint8_t *bytes, size_t size,
                                muster_error *error_out,
                                muster_hello *hello_out)
{
    if (memcmp(bytes, hello_magic, size < 8 ? size : 8) != 0 ||
        (size >= 16 && muster_bytes_get(bytes + 12, 4) != MUSTER_HELLO_BYTES)) {
        return muster_error_set(error_out, MUSTER_ERR_PROTOCOL,
                                "its first bytes are not Muster's hello");
    }
    if (size < MUSTER_HELLO_BYTES) {
        return MUSTER_IN_PROGRESS;
    }
    hello_out->version = (uint32_t)muster_bytes_get(bytes + 8, 4);
    memcpy(hello_out->nonce, bytes + 16, MUSTER_HELLO_NONCE_BYTES);
    memcpy(hello_out->proof, bytes + 48, MUSTER_HELLO_PROOF_BYTES);
    return MUSTER_OK;
}

void muster_hello_prove(const uint8_t *key, muster_hello *hello)
{
    (void)key; // muster_net_open() takes none yet
    memset(hello->proof, 0, sizeof(hello->proof));
}

muster_status muster_hello_check(const uint8_t *key, uint32_t our_version,
                                 const muster_hello *theirs,
                                 muster_error *error_out)
{
    static const uint8_t none[MUSTER_HELLO_PROOF_BYTES];
    if (theirs->version != our_version) {
        return muster_error_set(error_out, MUSTER_ERR_REFUSED,
                                "it speaks protocol version %u and we speak "
                                "%u; run the same Muster on both sides",
                                theirs->version, our_version);
    }
    if (key != NULL && memcmp(theirs->proof, none, sizeof(none)) == 0) {
        return muster_error_set(error_out, MUSTER_ERR_REFUSED,
                                "it did not prove that it knows our key; give "
                                "both sides the same key file");
    }
    return MUSTER_OK;
}
