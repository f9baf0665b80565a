/*
 * tls_test.c -- TLS with a run key, without a socket: two ends whose bytes the
 * test carries, cuts, changes and plays again.
 *
 * Proved: both ends must have the key; an impostor with a certificate, a
 * recorded handshake and a changed byte are refused; before the key is proved
 * nothing comes out and the bytes are limited.
 */
#define _GNU_SOURCE
#include "net/tls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

static const muster_run_key good = {{1, 2, 3}};
static const muster_run_key other = {{1, 2, 4}};

typedef struct end {
    muster_tls_context *context;
    muster_tls *tls;
    muster_status status;
    muster_error error;
} end;

static end end_open(const muster_run_key *key, bool accepts)
{
    end it = {.error = {.text = ""}};
    assert_int_equal(muster_tls_context_create(key, &it.error, &it.context),
                     MUSTER_OK);
    it.tls = muster_tls_create(it.context, accepts);
    assert_non_null(it.tls);
    it.status = muster_tls_step(it.tls, &it.error);
    assert_int_equal(it.status, MUSTER_IN_PROGRESS);
    return it;
}

static void end_close(end *it)
{
    muster_tls_free(it->tls);
    muster_tls_context_free(it->context);
}

/* Give bytes to an end, as many at a time as it has room for. */
static void feed(end *to, const uint8_t *bytes, size_t count)
{
    while (count > 0 && to->status >= 0) {
        size_t room = 0;
        uint8_t *in = muster_tls_in_room(to->tls, &room);
        size_t take = room < count ? room : count;
        assert_true(take > 0);
        memcpy(in, bytes, take);
        muster_tls_in_added(to->tls, take);
        bytes += take;
        count -= take;
        to->status = muster_tls_step(to->tls, &to->error);
        if (to->status == MUSTER_OK) {
            return; // one more would be plain text's
        }
    }
}

/* What an end wants to send, copied. */
static size_t take_out(end *from, uint8_t *bytes, size_t room)
{
    size_t count = 0;
    const uint8_t *out = muster_tls_out(from->tls, &count);
    assert_true(count <= room);
    memcpy(bytes, out, count);
    muster_tls_out_taken(from->tls, count);
    return count;
}

static bool carry(end *from, end *to)
{
    static uint8_t bytes[200000];
    size_t count = take_out(from, bytes, sizeof(bytes));
    feed(to, bytes, count);
    return count > 0;
}

static void shake(end *a, end *b)
{
    for (bool more = true; more;) {
        more = carry(a, b);
        more = carry(b, a) || more;
    }
}

static void both_ends_prove_the_key(void **state)
{
    (void)state;
    end client = end_open(&good, false);
    end server = end_open(&good, true);
    shake(&client, &server);
    assert_int_equal(client.status, MUSTER_OK);
    assert_int_equal(server.status, MUSTER_OK);
    end_close(&client);
    end_close(&server);
}

static void another_key_is_refused_at_both_ends(void **state)
{
    (void)state;
    end client = end_open(&other, false);
    end server = end_open(&good, true);
    shake(&client, &server);
    assert_int_equal(server.status, MUSTER_ERR_REFUSED);
    assert_non_null(strstr(server.error.text, "another run key"));
    assert_int_equal(client.status, MUSTER_ERR_REFUSED);
    assert_non_null(strstr(client.error.text, "--key-file"));
    end_close(&client);
    end_close(&server);
}

static void send_text(end *from, end *to, const void *text, size_t bytes)
{
    static uint8_t buffer[200000];
    assert_true(muster_tls_write(from->tls, text, bytes));
    size_t count = take_out(from, buffer, sizeof(buffer));
    size_t room = 0;
    uint8_t *in = muster_tls_in_room(to->tls, &room);
    assert_true(count <= room);
    memcpy(in, buffer, count);
    muster_tls_in_added(to->tls, count);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    static uint8_t text[MUSTER_TLS_PIECE_BYTES];
    static uint8_t back[MUSTER_TLS_PIECE_BYTES];
    static const size_t sizes[] = {1, 80, 4096, MUSTER_TLS_PIECE_BYTES};
    end client = end_open(&good, false);
    end server = end_open(&good, true);
    shake(&client, &server);
    for (size_t i = 0; i < sizeof(text); i++) {
        text[i] = (uint8_t)(i * 7);
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t got = 0;
        size_t total = 0;
        send_text(&server, &client, text, sizes[i]);
        while (muster_tls_has_more(client.tls)) { // in small bites
            size_t room = sizes[i] - total < 1000 ? sizes[i] - total : 1000;
            assert_int_equal(muster_tls_read(client.tls, back + total, room,
                                             &client.error, &got),
                             MUSTER_OK);
            total += got;
        }
        assert_int_equal(total, sizes[i]);
        assert_memory_equal(back, text, total);
    }
    end_close(&client);
    end_close(&server);
}

static void a_changed_byte_is_found(void **state)
{
    (void)state;
    uint8_t record[200];
    for (size_t at = 5; at < 60; at += 9) {
        end client = end_open(&good, false);
        end server = end_open(&good, true);
        shake(&client, &server);
        assert_true(muster_tls_write(client.tls, "gradient of step 7", 18));
        size_t count = take_out(&client, record, sizeof(record));
        record[at < count ? at : count - 1] ^= 1;
        size_t room = 0;
        size_t got = 0;
        char plain[64];
        memcpy(muster_tls_in_room(server.tls, &room), record, count);
        muster_tls_in_added(server.tls, count);
        assert_int_equal(muster_tls_read(server.tls, plain, sizeof(plain),
                                         &server.error, &got),
                         MUSTER_ERR_PROTOCOL);
        assert_int_equal(got, 0);
        end_close(&client);
        end_close(&server);
    }
}

/* All that a client sent is sent again to the same run's coordinator. */
static void a_recorded_handshake_is_of_no_use(void **state)
{
    (void)state;
    static uint8_t tape[40000];
    size_t taped = 0;
    end client = end_open(&good, false);
    end server = end_open(&good, true);
    for (int i = 0; i < 4; i++) {
        size_t count = take_out(&client, tape + taped, sizeof(tape) - taped);
        feed(&server, tape + taped, count);
        taped += count;
        (void)carry(&server, &client);
    }
    assert_int_equal(server.status, MUSTER_OK);
    assert_true(muster_tls_write(client.tls, "join", 4));
    taped += take_out(&client, tape + taped, sizeof(tape) - taped);
    end again = end_open(&good, true);
    feed(&again, tape, taped);
    assert_int_equal(again.status, MUSTER_ERR_PROTOCOL);
    assert_false(muster_tls_is_ready(again.tls));
    end_close(&again);
    end_close(&client);
    end_close(&server);
}

/* Cut anywhere, a handshake is never over. */
static void half_a_handshake_proves_nothing(void **state)
{
    (void)state;
    static uint8_t flight[40000];
    for (size_t cut = 0; cut < 300; cut += 7) {
        char plain[16];
        size_t got = 1;
        end client = end_open(&good, false);
        end server = end_open(&good, true);
        size_t count = take_out(&client, flight, sizeof(flight));
        feed(&server, flight, cut < count ? cut : count - 1);
        assert_int_equal(server.status, MUSTER_IN_PROGRESS);
        assert_int_equal(
            muster_tls_read(server.tls, plain, sizeof(plain), NULL, &got),
            MUSTER_OK);
        assert_int_equal(got, 0);
        end_close(&client);
        end_close(&server);
    }
}

static void bytes_before_the_proof_are_limited(void **state)
{
    (void)state;
    // A record of the largest size that never becomes a handshake.
    static uint8_t flood[100000] = {0x16, 3, 1, 0x3f, 0xff, 1, 0, 0xff, 0xff};
    end server = end_open(&good, true);
    feed(&server, flood, sizeof(flood));
    assert_int_equal(server.status, MUSTER_ERR_PROTOCOL);
    end_close(&server);
}

/* the impostor ------------------------------------------------------------ */

static X509 *make_certificate(EVP_PKEY *key)
{
    X509 *made = X509_new();
    assert_non_null(made);
    assert_int_equal(X509_set_version(made, 2), 1);
    ASN1_INTEGER_set(X509_get_serialNumber(made), 1);
    X509_gmtime_adj(X509_getm_notBefore(made), -1000);
    X509_gmtime_adj(X509_getm_notAfter(made), 100000);
    assert_int_equal(X509_set_pubkey(made, key), 1);
    assert_true(X509_sign(made, key, EVP_sha256()) > 0);
    return made;
}

/* A server of another kind: it shows a certificate, and has no key. */
static void an_impostor_with_a_certificate_is_refused(void **state)
{
    (void)state;
    static uint8_t bytes[40000];
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = make_certificate(key);
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    assert_int_equal(SSL_CTX_use_certificate(context, certificate), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(context, key), 1);
    SSL *impostor = SSL_new(context);
    BIO *in = BIO_new(BIO_s_mem());
    BIO *out = BIO_new(BIO_s_mem());
    SSL_set_bio(impostor, in, out);
    SSL_set_accept_state(impostor);
    end client = end_open(&good, false);
    size_t count = take_out(&client, bytes, sizeof(bytes));
    assert_int_equal(BIO_write(in, bytes, (int)count), (int)count);
    (void)SSL_do_handshake(impostor);
    int answer = BIO_read(out, bytes, sizeof(bytes));
    assert_true(answer > 0);
    feed(&client, bytes, (size_t)answer);
    assert_int_equal(client.status, MUSTER_ERR_REFUSED);
    assert_non_null(strstr(client.error.text, "did not prove"));
    end_close(&client);
    SSL_free(impostor);
    SSL_CTX_free(context);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ends_prove_the_key),
        cmocka_unit_test(another_key_is_refused_at_both_ends),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(a_changed_byte_is_found),
        cmocka_unit_test(a_recorded_handshake_is_of_no_use),
        cmocka_unit_test(half_a_handshake_proves_nothing),
        cmocka_unit_test(bytes_before_the_proof_are_limited),
        cmocka_unit_test(an_impostor_with_a_certificate_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
