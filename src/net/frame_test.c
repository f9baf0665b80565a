/*
 * frame_test.c -- frame and hello parsers: what write() makes, read() takes;
 * whatever read() takes, write() makes again; all else is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "net/frame.h"
#include "net/hello.h"
#include "net/net.h"

static const muster_frame_limits limits = {1u << 20, true};

static const muster_frame frames[] = {
    {MUSTER_FRAME_MESSAGE, 0, 0, 0, 0, 1, 0},
    {MUSTER_FRAME_MESSAGE, 0, 0, MUSTER_NET_HEADER_MAX, 0, 2, 1},
    {MUSTER_FRAME_MESSAGE, MUSTER_FRAME_PAYLOAD, 0, 17, 0, 3, 2},
    {MUSTER_FRAME_MESSAGE, MUSTER_FRAME_PAYLOAD, 0, 17, 1u << 20, 3, 2},
    {MUSTER_FRAME_MESSAGE, MUSTER_FRAME_PAYLOAD | MUSTER_FRAME_SHARED, 63, 1, 5,
     UINT64_MAX, UINT64_MAX},
    {MUSTER_FRAME_MESSAGE,
     MUSTER_FRAME_PAYLOAD | MUSTER_FRAME_SHARED | MUSTER_FRAME_DESCRIPTOR |
         MUSTER_FRAME_ACK_NOW,
     7, 1, 5, 9, 8},
    {MUSTER_FRAME_RELEASE, 0, 0, 0, 0, 10, 8},
    {MUSTER_FRAME_FORGET, 0, 0, 512, 0, 11, 8},
};
#define FRAMES (sizeof(frames) / sizeof(frames[0]))

static void every_frame_comes_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < FRAMES; i++) {
        uint8_t bytes[MUSTER_FRAME_BYTES];
        muster_frame back;
        muster_frame_write(&frames[i], bytes);
        assert_int_equal(muster_frame_read(bytes, &limits, NULL, &back),
                         MUSTER_OK);
        assert_int_equal(back.kind, frames[i].kind);
        assert_int_equal(back.flags, frames[i].flags);
        assert_int_equal(back.slot, frames[i].slot);
        assert_int_equal(back.header_bytes, frames[i].header_bytes);
        assert_int_equal(back.payload_bytes, frames[i].payload_bytes);
        assert_int_equal(back.sequence, frames[i].sequence);
        assert_int_equal(back.ack, frames[i].ack);
    }
}

static void a_flipped_bit_is_refused_or_means_itself(void **state)
{
    (void)state;
    int refused = 0;
    for (size_t i = 0; i < FRAMES; i++) {
        for (unsigned bit = 0; bit < 8 * MUSTER_FRAME_BYTES; bit++) {
            uint8_t bytes[MUSTER_FRAME_BYTES];
            uint8_t again[MUSTER_FRAME_BYTES];
            muster_frame back;
            muster_error error = {0};
            muster_frame_write(&frames[i], bytes);
            bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8));
            if (muster_frame_read(bytes, &limits, &error, &back) != MUSTER_OK) {
                assert_int_equal(error.status, MUSTER_ERR_PROTOCOL);
                assert_true(strlen(error.text) > 0);
                refused++;
                continue;
            }
            muster_frame_write(&back, again);
            assert_memory_equal(bytes, again, sizeof(bytes));
        }
    }
    // At least magic and the bytes that must be zero, of every frame.
    assert_in_range(refused, FRAMES * 64, FRAMES * 8 * MUSTER_FRAME_BYTES);
}

static void lengths_over_the_limits_are_refused(void **state)
{
    (void)state;
    uint8_t bytes[MUSTER_FRAME_BYTES];
    muster_frame back;
    muster_frame frame = frames[3];
    frame.payload_bytes++;
    muster_frame_write(&frame, bytes);
    assert_int_equal(muster_frame_read(bytes, &limits, NULL, &back),
                     MUSTER_ERR_PROTOCOL);
    muster_frame_limits tcp = {limits.payload_bytes_max, false};
    muster_frame_write(&frames[4], bytes);
    assert_int_equal(muster_frame_read(bytes, &tcp, NULL, &back),
                     MUSTER_ERR_PROTOCOL);
}

static void a_hello_comes_back(void **state)
{
    (void)state;
    muster_hello hello = {.version = 0x01020304, .fabric = true};
    muster_hello back = {0};
    uint8_t bytes[MUSTER_HELLO_BYTES];
    muster_hello_write(&hello, bytes);
    for (size_t size = 0; size < sizeof(bytes); size++) {
        assert_int_equal(muster_hello_read(bytes, size, NULL, &back),
                         MUSTER_IN_PROGRESS);
    }
    assert_int_equal(muster_hello_read(bytes, sizeof(bytes), NULL, &back),
                     MUSTER_OK);
    assert_int_equal(back.version, hello.version);
    assert_true(back.fabric);
    for (size_t i = 0; i < 16; i++) {
        if (i >= 8 && i < 12) {
            continue; // the version: anything is a hello
        }
        bytes[i] ^= 1;
        assert_int_equal(muster_hello_read(bytes, 16, NULL, &back),
                         MUSTER_ERR_PROTOCOL);
        bytes[i] ^= 1;
    }
}

static void a_hello_is_checked(void **state)
{
    (void)state;
    muster_error error = {0};
    const muster_hello hello = {.version = 3};
    const muster_hello newer = {.version = 4};
    const muster_hello ucx = {.version = 3, .fabric = true};
    assert_int_equal(muster_hello_check(&hello, &hello, &error), MUSTER_OK);
    assert_int_equal(muster_hello_check(&newer, &hello, &error),
                     MUSTER_ERR_REFUSED);
    assert_non_null(strstr(error.text, "version 3 and we speak 4"));
    assert_int_equal(muster_hello_check(&hello, &ucx, &error),
                     MUSTER_ERR_REFUSED);
    assert_non_null(strstr(error.text, "--engine ucx and we use sock"));
}

/* A peer with a run key speaks TLS: it is told apart from rubbish. */
static void tls_instead_of_a_hello_is_a_matter_of_keys(void **state)
{
    (void)state;
    static const uint8_t records[2][7] = {{0x16, 3, 1, 2, 0},
                                          {0x15, 3, 3, 0, 2, 2, 40}};
    muster_error error = {0};
    muster_hello hello;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(muster_hello_read(records[i], 7, &error, &hello),
                         MUSTER_ERR_REFUSED);
        assert_non_null(strstr(error.text, "--key-file"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_frame_comes_back),
        cmocka_unit_test(a_flipped_bit_is_refused_or_means_itself),
        cmocka_unit_test(lengths_over_the_limits_are_refused),
        cmocka_unit_test(a_hello_comes_back),
        cmocka_unit_test(a_hello_is_checked),
        cmocka_unit_test(tls_instead_of_a_hello_is_a_matter_of_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
