/*
 * peers_test.c -- the payload of PEERS comes back as it was, and bytes that are
 * none are refused.
 */
#include "wire/peers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static muster_peers make(uint32_t count)
{
    muster_peers peers = {.seed = 0x0123456789abcdefu,
                          .partners = 3,
                          .wants_model = true,
                          .members =
                              muster_vec_make(sizeof(muster_peers_member))};
    for (uint32_t i = 0; i < count; i++) {
        muster_peers_member member = {3 * i, i % 2 == 1};
        assert_true(muster_vec_append(&peers.members, &member, 1));
    }
    return peers;
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    for (uint32_t count = 0; count < 5; count++) {
        muster_peers peers = make(count);
        muster_peers read = make(1);
        muster_blob *blob = muster_peers_write(&peers);
        assert_non_null(blob);
        assert_true(muster_peers_read(blob, &read));
        assert_int_equal(read.seed, peers.seed);
        assert_int_equal(read.partners, 3);
        assert_true(read.wants_model);
        assert_int_equal(read.members.count, count);
        const muster_peers_member *members = read.members.data;
        for (uint32_t i = 0; i < count; i++) {
            assert_int_equal(members[i].id, 3 * i);
            assert_int_equal(members[i].fresh, i % 2 == 1);
            assert_int_equal(muster_peers_find(&read, 3 * i), i);
            assert_int_equal(muster_peers_find(&read, 3 * i + 1), count);
        }
        muster_blob_unref(blob);
        muster_vec_fini(&peers.members);
        muster_vec_fini(&read.members);
    }
}

static void other_bytes_are_refused(void **state)
{
    (void)state;
    muster_peers peers = make(3);
    muster_peers read = make(0);
    muster_blob *blob = muster_peers_write(&peers);
    assert_non_null(blob);
    for (size_t bytes = 0; bytes < blob->bytes; bytes++) {
        muster_blob *cut = muster_blob_create(bytes);
        assert_non_null(cut);
        if (bytes > 0) {
            memcpy(cut->data, blob->data, bytes);
        }
        bool whole = bytes >= 16 && (bytes - 16) % 4 == 0;
        assert_int_equal(muster_peers_read(cut, &read), whole);
        muster_blob_unref(cut);
    }
    uint8_t *at = blob->data;
    at[8] = MUSTER_PARTNERS_MAX + 1;
    assert_false(muster_peers_read(blob, &read));
    at[8] = 3;
    at[12] = 2;
    assert_false(muster_peers_read(blob, &read));
    at[12] = 1;
    at[16] = 200; // numbers do not ascend
    assert_false(muster_peers_read(blob, &read));
    assert_false(muster_peers_read(NULL, &read));
    muster_blob_unref(blob);
    muster_vec_fini(&peers.members);
    muster_vec_fini(&read.members);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(other_bytes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
