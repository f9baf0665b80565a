/*
 * message_test.c -- the bytes of every kind are frozen (golden frames), come
 * back as they went, and nothing that is not a message is taken for one: every
 * truncation, every extension, every single bit flipped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "wire/message.h"

#define HEAD(kind)           \
    "4d535431" kind "000000" \
    "0807060504030201"       \
    "03000000"               \
    "02000000"               \
    "0500000000000000"

typedef struct golden {
    muster_message message;
    const char *hex;
} golden;

#define COMMON(k)                                                         \
    .kind = (k), .run = 0x0102030405060708u, .incarnation = 3, .plan = 2, \
    .step = 5

/* Frames of protocol version 2: they must never change. */
static const golden goldens[] = {
    {{COMMON(MUSTER_MSG_HELLO),
      .as.hello = {UINT32_MAX, MUSTER_MEMBER_WORKER, 77, "ab", "unix:@x"}},
     HEAD("01") "ffffffff"
                "01000000"
                "4d000000"
                "0200"
                "6162"
                "0700"
                "756e69783a4078"},
    {{COMMON(MUSTER_MSG_WELCOME), .as.welcome = {1, 8, 2000}},
     HEAD("02") "01000000"
                "08000000"
                "d0070000"},
    {{COMMON(MUSTER_MSG_REFUSE), .as.refuse = {-23, "no"}},
     HEAD("03") "e9ffffff"
                "0200"
                "6e6f"},
    {{COMMON(MUSTER_MSG_HEARTBEAT), .as.heartbeat = {258, 1}},
     HEAD("04") "0201000000000000"
                "01000000"},
    {{COMMON(MUSTER_MSG_DIRECTORY)}, HEAD("05")},
    {{COMMON(MUSTER_MSG_PLAN)}, HEAD("06")},
    {{COMMON(MUSTER_MSG_SHARD), .as.shard = {9}}, HEAD("07") "09000000"},
    {{COMMON(MUSTER_MSG_HAVE), .as.have = {UINT32_MAX}}, HEAD("08") "ffffffff"},
    {{COMMON(MUSTER_MSG_MODEL)}, HEAD("09")},
    {{COMMON(MUSTER_MSG_GRADIENT), .as.gradient = {1000}},
     HEAD("0a") "e803000000000000"},
    {{COMMON(MUSTER_MSG_STOP), .as.stop = {-40, ""}},
     HEAD("0b") "d8ffffff"
                "0000"},
    {{COMMON(MUSTER_MSG_LEAVE)}, HEAD("0c")},
    {{COMMON(MUSTER_MSG_FORGET), .as.shard = {9}}, HEAD("0d") "09000000"},
    {{COMMON(MUSTER_MSG_WANT), .as.shard = {9}}, HEAD("0e") "09000000"},
    {{COMMON(MUSTER_MSG_PEERS)}, HEAD("0f")},
    {{COMMON(MUSTER_MSG_ANSWERS)}, HEAD("10")},
    {{COMMON(MUSTER_MSG_SCHEDULE), .as.schedule = {6, 2, 6}},
     HEAD("11") "06000000"
                "02000000"
                "06000000"},
    {{COMMON(MUSTER_MSG_STAGE), .as.gradient = {1000, 5, 2}},
     HEAD("12") "e803000000000000"
                "05000000"
                "02000000"},
    {{COMMON(MUSTER_MSG_MISSING), .as.missing = {3, 0x21}},
     HEAD("13") "03000000"
                "2100000000000000"},
};
#define GOLDENS (sizeof(goldens) / sizeof(goldens[0]))

static size_t from_hex(const char *hex, uint8_t *bytes)
{
    size_t size = 0;
    for (unsigned byte; hex[2 * size] != 0; size++) {
        assert_int_equal(sscanf(hex + 2 * size, "%2x", &byte), 1); // NOLINT
        bytes[size] = (uint8_t)byte;
    }
    return size;
}

static void every_kind_has_its_golden_frame(void **state)
{
    (void)state;
    assert_int_equal(GOLDENS, MUSTER_MSG_MISSING);
    for (size_t i = 0; i < GOLDENS; i++) {
        uint8_t wanted[MUSTER_MESSAGE_BYTES_MAX];
        uint8_t bytes[MUSTER_MESSAGE_BYTES_MAX];
        size_t size = from_hex(goldens[i].hex, wanted);
        assert_int_equal(goldens[i].message.kind, i + 1);
        assert_int_equal(muster_message_write(&goldens[i].message, bytes),
                         size);
        assert_int_equal(muster_message_bytes(&goldens[i].message), size);
        assert_memory_equal(bytes, wanted, size);
        muster_message back;
        assert_int_equal(muster_message_read(bytes, size, NULL, &back),
                         MUSTER_OK);
        assert_memory_equal(&back, &goldens[i].message, sizeof(back));
    }
}

static void every_truncation_and_extension_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < GOLDENS; i++) {
        uint8_t bytes[MUSTER_MESSAGE_BYTES_MAX] = {0};
        size_t size = muster_message_write(&goldens[i].message, bytes);
        for (size_t cut = 0; cut <= size + 1; cut++) {
            muster_message back = {0};
            muster_error error = {0};
            muster_status status =
                muster_message_read(bytes, cut, &error, &back);
            assert_int_equal(status,
                             cut == size ? MUSTER_OK : MUSTER_ERR_PROTOCOL);
            assert_int_equal(error.status, cut == size ? 0 : status);
        }
    }
}

/* A flipped bit may make another message, but then one that write() makes. */
static void every_flipped_bit_is_refused_or_another_message(void **state)
{
    (void)state;
    size_t refused = 0;
    for (size_t i = 0; i < GOLDENS; i++) {
        uint8_t bytes[MUSTER_MESSAGE_BYTES_MAX];
        uint8_t again[MUSTER_MESSAGE_BYTES_MAX];
        size_t size = muster_message_write(&goldens[i].message, bytes);
        for (size_t bit = 0; bit < 8 * size; bit++) {
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
            muster_message back;
            if (muster_message_read(bytes, size, NULL, &back) != MUSTER_OK) {
                refused++;
            } else {
                assert_int_equal(muster_message_write(&back, again), size);
                assert_memory_equal(again, bytes, size);
            }
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
    assert_true(refused > 64 * GOLDENS / 2);
}

static void refused(const char *hex)
{
    uint8_t bytes[MUSTER_MESSAGE_BYTES_MAX];
    size_t size = from_hex(hex, bytes);
    muster_message back;
    assert_int_equal(muster_message_read(bytes, size, NULL, &back),
                     MUSTER_ERR_PROTOCOL);
}

static void values_out_of_range_are_refused(void **state)
{
    (void)state;
    refused(HEAD("00"));
    refused(HEAD("0d"));
    refused(HEAD("02") "01000000"
                       "00000000"
                       "d0070000"); // of no workers
    refused(HEAD("02") "01000000"
                       "08000000"
                       "00000000"); // no heartbeat
    refused(HEAD("03") "01000000"
                       "0000"); // refused with success
    refused(HEAD("04") "0201000000000000"
                       "02000000"); // busy twice
    refused(HEAD("07") "ffffffff"); // a shard called any
    refused(HEAD("10") "41000000"
                       "01000000"
                       "01000000"); // 65 stages
    refused(HEAD("12") "e803000000000000"
                       "40000000"
                       "00000000"); // stage 64
    refused(HEAD("03") "e9ffffff"
                       "0200"
                       "6e00"); // zero inside a text
    refused(HEAD("01") "00000000"
                       "04000000"
                       "4d000000"
                       "0000"
                       "0000"); // role
}

static void text_may_fill_its_array_but_not_more(void **state)
{
    (void)state;
    muster_message message = {COMMON(MUSTER_MSG_HELLO)};
    message.as.hello.role = MUSTER_MEMBER_NODE;
    memset(message.as.hello.host, 'h', sizeof(message.as.hello.host) - 1);
    uint8_t bytes[MUSTER_MESSAGE_BYTES_MAX];
    size_t size = muster_message_write(&message, bytes);
    muster_message back;
    assert_int_equal(muster_message_read(bytes, size, NULL, &back), MUSTER_OK);
    assert_memory_equal(&back, &message, sizeof(back));
    bytes[size - 67] = 64; // the length of host: one more than fits
    assert_int_equal(muster_message_read(bytes, size, NULL, &back),
                     MUSTER_ERR_PROTOCOL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_has_its_golden_frame),
        cmocka_unit_test(every_truncation_and_extension_is_refused),
        cmocka_unit_test(every_flipped_bit_is_refused_or_another_message),
        cmocka_unit_test(values_out_of_range_are_refused),
        cmocka_unit_test(text_may_fill_its_array_but_not_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
