/*
 * tls.c -- see tls.h.
 *
 * OpenSSL reads from `in` and writes to `out` through a BIO of our own, so that
 * what it encrypts is kept where conn_tls.c can see it: an item whose bytes
 * were encrypted must not be replaced or encrypted again, whether or not the
 * socket has taken them.
 *
 * Settings that matter:
 *  1. One cipher suite, whose hash is that of the key (SHA-256).
 *  2. The connecting side verifies certificates, and knows no authority: else
 *     it would accept an impostor that has no key but shows a certificate.
 *  3. Both sides ask SSL_session_reused(): the key was used, nothing else.
 *  4. No tickets and no session cache: each connection proves the key anew, so
 *     a recorded handshake is of no use.
 *  5. The error queue of the thread is cleared before each call: OpenSSL reads
 *     it to tell errors apart, and nets change threads.
 */
#include "net/tls.h"

#include <string.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/mem.h"

#define IN_BYTES     (64u << 10)
#define IN_BEFORE    2048u       // at a time, before the key is proved
#define RECORD_EXTRA 512u        // header, tag, and a message about keys
#define OUT_BYTES    (72u << 10) // four full records
#define IDENTITY     "muster run key"
#define SUITE        "TLS_AES_128_GCM_SHA256"

_Static_assert(OUT_BYTES >= 4 * (MUSTER_TLS_PIECE_BYTES + RECORD_EXTRA),
               "four full records fit");

struct muster_tls_context {
    SSL_CTX *ssl_context;
    BIO_METHOD *method;
    muster_run_key key;
};

struct muster_tls {
    SSL *ssl;
    bool accepts;
    bool ready;      // the peer has proved the key
    size_t before;   // bytes that came before it did
    uint32_t pieces; // written since the sending key was changed
    size_t in_start, in_end, out_start, out_end;
    uint8_t in[IN_BYTES];
    uint8_t out[OUT_BYTES];
};

/* buffers ----------------------------------------------------------------- */

static int bio_read(BIO *bio, char *bytes, int count)
{
    muster_tls *tls = BIO_get_data(bio);
    size_t here = tls->in_end - tls->in_start;
    size_t take = (size_t)count < here ? (size_t)count : here;
    BIO_clear_retry_flags(bio);
    if (take == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    memcpy(bytes, tls->in + tls->in_start, take);
    tls->in_start += take;
    return (int)take;
}

static int bio_write(BIO *bio, const char *bytes, int count)
{
    muster_tls *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if ((size_t)count > OUT_BYTES - tls->out_end) {
        BIO_set_retry_write(bio);
        return -1;
    }
    memcpy(tls->out + tls->out_end, bytes, (size_t)count);
    tls->out_end += (size_t)count;
    return count;
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

uint8_t *muster_tls_in_room(muster_tls *tls, size_t *room_out)
{
    if (tls->in_start > 0) { // mostly all of it was read
        size_t left = tls->in_end - tls->in_start;
        memmove(tls->in, tls->in + tls->in_start, left);
        tls->in_start = 0;
        tls->in_end = left;
    }
    size_t room = IN_BYTES - tls->in_end;
    *room_out = tls->ready || room < IN_BEFORE ? room : IN_BEFORE;
    return tls->in + tls->in_end;
}

void muster_tls_in_added(muster_tls *tls, size_t bytes)
{
    MUSTER_ASSERT(bytes <= IN_BYTES - tls->in_end);
    tls->in_end += bytes;
    tls->before += tls->ready ? 0 : bytes;
}

const uint8_t *muster_tls_out(const muster_tls *tls, size_t *bytes_out)
{
    *bytes_out = tls->out_end - tls->out_start;
    return tls->out + tls->out_start;
}

void muster_tls_out_taken(muster_tls *tls, size_t bytes)
{
    MUSTER_ASSERT(bytes <= tls->out_end - tls->out_start);
    tls->out_start += bytes;
    if (tls->out_start == tls->out_end) {
        tls->out_start = 0;
        tls->out_end = 0;
    }
}

/* the key ----------------------------------------------------------------- */

/* What OpenSSL calls a session: the key, the suite and the version. */
static SSL_SESSION *session_of(SSL *ssl)
{
    static const unsigned char suite_id[2] = {0x13, 0x01};
    const muster_tls_context *context =
        SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    const SSL_CIPHER *suite = SSL_CIPHER_find(ssl, suite_id);
    SSL_SESSION *session = SSL_SESSION_new();
    if (suite == NULL || session == NULL ||
        SSL_SESSION_set1_master_key(session, context->key.bytes,
                                    sizeof(context->key.bytes)) != 1 ||
        SSL_SESSION_set_cipher(session, suite) != 1 ||
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) != 1) {
        SSL_SESSION_free(session);
        return NULL;
    }
    return session;
}

/* At the side that connects: the key to prove. */
static int use_key(SSL *ssl, const EVP_MD *hash, const unsigned char **identity,
                   size_t *identity_bytes, SSL_SESSION **session)
{
    (void)hash; // that of the only suite
    *session = session_of(ssl);
    *identity = (const unsigned char *)IDENTITY;
    *identity_bytes = strlen(IDENTITY);
    return *session != NULL;
}

/* At the side that accepts: the key that the other one means. */
static int find_key(SSL *ssl, const unsigned char *identity,
                    size_t identity_bytes, SSL_SESSION **session)
{
    bool ours = identity_bytes == strlen(IDENTITY) &&
                memcmp(identity, IDENTITY, identity_bytes) == 0;
    *session = ours ? session_of(ssl) : NULL;
    return !ours || *session != NULL;
}

static bool set_up(muster_tls_context *context)
{
    SSL_CTX *ssl = context->ssl_context;
    if (SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_max_proto_version(ssl, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_ciphersuites(ssl, SUITE) != 1 ||
        SSL_CTX_set1_groups_list(ssl, "X25519:P-256") != 1 ||
        SSL_CTX_set_num_tickets(ssl, 0) != 1 ||
        SSL_CTX_set_app_data(ssl, context) != 1 ||
        BIO_meth_set_read(context->method, bio_read) != 1 ||
        BIO_meth_set_write(context->method, bio_write) != 1 ||
        BIO_meth_set_ctrl(context->method, bio_control) != 1) {
        return false;
    }
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_psk_use_session_callback(ssl, use_key);
    SSL_CTX_set_psk_find_session_callback(ssl, find_key);
    return true;
}

muster_status muster_tls_context_create(const muster_run_key *key,
                                        muster_error *error_out,
                                        muster_tls_context **context_out)
{
    muster_tls_context *context = muster_mem_array(1, sizeof(*context));
    if (context == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "no memory for TLS");
    }
    ERR_clear_error();
    context->key = *key;
    context->ssl_context = SSL_CTX_new(TLS_method());
    context->method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "muster");
    if (context->ssl_context == NULL || context->method == NULL ||
        !set_up(context)) {
        const char *reason = ERR_reason_error_string(ERR_peek_error());
        muster_tls_context_free(context);
        return muster_error_set(error_out, MUSTER_ERR_SYSTEM,
                                "OpenSSL cannot do TLS 1.3 with a key: %s",
                                reason != NULL ? reason : "it does not say");
    }
    *context_out = context;
    return MUSTER_OK;
}

void muster_tls_context_free(muster_tls_context *context)
{
    if (context != NULL) {
        SSL_CTX_free(context->ssl_context);
        BIO_meth_free(context->method);
        OPENSSL_cleanse(&context->key, sizeof(context->key));
        muster_mem_free(context);
    }
}

/* a connection ------------------------------------------------------------ */

muster_tls *muster_tls_create(muster_tls_context *context, bool accepts)
{
    muster_tls *tls = muster_mem_raw_aligned(1, sizeof(*tls));
    if (tls == NULL) {
        return NULL;
    }
    // Not the buffers: their pages cost memory once they are used.
    memset(tls, 0, offsetof(muster_tls, in));
    tls->accepts = accepts;
    ERR_clear_error();
    tls->ssl = SSL_new(context->ssl_context);
    BIO *bio = BIO_new(context->method);
    if (tls->ssl == NULL || bio == NULL) {
        BIO_free(bio);
        muster_tls_free(tls);
        return NULL;
    }
    BIO_set_data(bio, tls);
    BIO_set_init(bio, 1);
    SSL_set_bio(tls->ssl, bio, bio);
    if (accepts) {
        SSL_set_accept_state(tls->ssl);
    } else {
        SSL_set_connect_state(tls->ssl);
        SSL_set_verify(tls->ssl, SSL_VERIFY_PEER, NULL);
    }
    return tls;
}

void muster_tls_free(muster_tls *tls)
{
    if (tls != NULL) {
        SSL_free(tls->ssl);
        muster_mem_free(tls);
    }
}

bool muster_tls_is_ready(const muster_tls *tls)
{
    return tls->ready;
}

/* Why OpenSSL ended a handshake, for a person. */
static muster_status explain(const muster_tls *tls, muster_error *error_out)
{
    unsigned long error = ERR_peek_error();
    switch (ERR_GET_REASON(error)) {
    case SSL_R_BINDER_DOES_NOT_VERIFY:
        return muster_error_set(error_out, MUSTER_ERR_REFUSED,
                                "it has another run key");
    case SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER:
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
        return muster_error_set(error_out, MUSTER_ERR_REFUSED,
                                "it has another run key; give both sides the "
                                "same key file (--key-file)");
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
    case SSL_R_NO_SHARED_CIPHER:
        return muster_error_set(error_out, MUSTER_ERR_REFUSED,
                                "it did not prove that it has the run key");
    default:
        break;
    }
    const char *reason = ERR_reason_error_string(error);
    return muster_error_set(error_out, MUSTER_ERR_PROTOCOL,
                            "no TLS handshake with the run key%s%s",
                            reason != NULL ? ": "
                            : tls->accepts ? ""
                                           : ", and no reason",
                            reason != NULL ? reason : "");
}

muster_status muster_tls_step(muster_tls *tls, muster_error *error_out)
{
    if (tls->ready) {
        return MUSTER_OK;
    }
    if (tls->before > MUSTER_TLS_BEFORE_BYTES) {
        return muster_error_set(error_out, MUSTER_ERR_PROTOCOL,
                                "it sent %zu bytes and did not prove the key",
                                tls->before);
    }
    ERR_clear_error();
    int done = SSL_do_handshake(tls->ssl);
    if (done == 1) {
        tls->ready = SSL_session_reused(tls->ssl) == 1;
        return tls->ready ? MUSTER_OK
                          : muster_error_set(error_out, MUSTER_ERR_REFUSED,
                                             "it did not prove that it has the "
                                             "run key");
    }
    return SSL_get_error(tls->ssl, done) == SSL_ERROR_WANT_READ
               ? MUSTER_IN_PROGRESS
               : explain(tls, error_out);
}

muster_status muster_tls_read(muster_tls *tls, void *plain, size_t room,
                              muster_error *error_out, size_t *got_out)
{
    *got_out = 0;
    if (!tls->ready || room == 0) {
        return MUSTER_OK;
    }
    ERR_clear_error();
    if (SSL_read_ex(tls->ssl, plain, room, got_out) == 1) {
        return MUSTER_OK;
    }
    *got_out = 0;
    switch (SSL_get_error(tls->ssl, 0)) {
    case SSL_ERROR_WANT_READ:
        return MUSTER_OK;
    case SSL_ERROR_ZERO_RETURN: // its end follows
        tls->in_start = tls->in_end;
        return MUSTER_OK;
    default:
        return muster_error_set(error_out, MUSTER_ERR_PROTOCOL,
                                "it sent bytes that fail TLS's check");
    }
}

bool muster_tls_has_more(const muster_tls *tls)
{
    return tls->ready &&
           (tls->in_start < tls->in_end || SSL_pending(tls->ssl) > 0);
}

bool muster_tls_can_write(const muster_tls *tls)
{
    return tls->ready &&
           OUT_BYTES - tls->out_end >= MUSTER_TLS_PIECE_BYTES + RECORD_EXTRA;
}

bool muster_tls_write(muster_tls *tls, const void *plain, size_t bytes)
{
    size_t written = 0;
    MUSTER_ASSERT(bytes > 0 && bytes <= MUSTER_TLS_PIECE_BYTES &&
                  muster_tls_can_write(tls));
    ERR_clear_error();
    // One key may encrypt only so many records (RFC 8446, 5.5).
    if (++tls->pieces >= MUSTER_TLS_KEY_RECORDS) {
        tls->pieces = 0;
        if (SSL_key_update(tls->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) != 1) {
            return false;
        }
    }
    return SSL_write_ex(tls->ssl, plain, bytes, &written) == 1 &&
           written == bytes;
}
