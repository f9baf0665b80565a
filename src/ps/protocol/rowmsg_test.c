/*
 * rowmsg_test.c -- headers are read as they were written, everything else is
 * refused, and payloads must fit their tables.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ps/protocol/rowmsg.h"

static const muster_rowshape shapes[2] = {{10, 3, 6}, {5, 1, 1}};

static void headers_come_back_as_they_were(void **state)
{
    (void)state;
    for (int kind = MUSTER_ROWMSG_OP; kind <= MUSTER_ROWMSG_KIND_LAST; kind++) {
        muster_rowmsg sent = {.kind = (muster_rowmsg_kind)kind,
                              .op = MUSTER_ROWOP_GRADIENT,
                              .table = 513,
                              .from = 1023,
                              .origin = 77,
                              .count = 70000,
                              .link = 1ull << 60 | 3,
                              .request = 1ull << 40 | 9,
                              .epoch = 3000000000u,
                              .mask = 1ull << 63 | 5,
                              .value = 1ull << 62 | 8};
        uint8_t bytes[MUSTER_ROWMSG_BYTES];
        muster_rowmsg got = {.payload = NULL};
        muster_rowmsg_write(&sent, bytes);
        assert_int_equal(muster_rowmsg_read(bytes, sizeof(bytes), &got),
                         MUSTER_OK);
        assert_int_equal(got.kind, sent.kind);
        assert_int_equal(got.op, sent.op);
        assert_int_equal(got.table, sent.table);
        assert_int_equal(got.from, sent.from);
        assert_int_equal(got.origin, sent.origin);
        assert_int_equal(got.count, sent.count);
        assert_true(got.link == sent.link && got.request == sent.request);
        assert_int_equal(got.epoch, sent.epoch);
        assert_true(got.mask == sent.mask && got.value == sent.value);
    }
}

static void the_bytes_of_a_header_are_fixed(void **state)
{
    (void)state;
    const muster_rowmsg sent = {.kind = MUSTER_ROWMSG_TRANSFER,
                                .table = 2,
                                .from = 1,
                                .origin = 3,
                                .count = 258,
                                .link = 6,
                                .request = 7,
                                .epoch = 8,
                                .mask = 9,
                                .value = 10};
    const uint8_t golden[MUSTER_ROWMSG_BYTES] = {
        'M', 'S', 'P', 'R', 5, 0, 0, 0, 2, 0, 1, 0, 3,  0, 0, 0, 2, 1, 0, 0,
        0,   0,   0,   0,   6, 0, 0, 0, 0, 0, 0, 0, 7,  0, 0, 0, 0, 0, 0, 0,
        8,   0,   0,   0,   9, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0};
    uint8_t bytes[MUSTER_ROWMSG_BYTES];
    muster_rowmsg_write(&sent, bytes);
    assert_memory_equal(bytes, golden, sizeof(golden));
}

static void other_bytes_are_refused(void **state)
{
    (void)state;
    muster_rowmsg sent = {.kind = MUSTER_ROWMSG_OP, .op = MUSTER_ROWOP_PULL};
    uint8_t good[MUSTER_ROWMSG_BYTES];
    muster_rowmsg got;
    muster_rowmsg_write(&sent, good);
    for (size_t size = 0; size < sizeof(good); size++) {
        assert_int_equal(muster_rowmsg_read(good, size, &got),
                         MUSTER_ERR_PROTOCOL);
    }
    static const struct {
        size_t at;
        uint8_t value;
    } bad[] = {{0, 'X'}, {4, 0},  {4, MUSTER_ROWMSG_KIND_LAST + 1},
               {5, 1},   {6, 7},  {11, 4},
               {13, 4},  {14, 1}, {19, 1}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        uint8_t bytes[MUSTER_ROWMSG_BYTES];
        memcpy(bytes, good, sizeof(bytes));
        bytes[bad[i].at] = bad[i].value;
        assert_int_equal(muster_rowmsg_read(bytes, sizeof(bytes), &got),
                         MUSTER_ERR_PROTOCOL);
    }
}

static bool fits(muster_rowmsg_kind kind, muster_row_op op, uint16_t table,
                 uint32_t count, size_t bytes, uint32_t key)
{
    muster_blob *blob = muster_blob_create(bytes);
    assert_non_null(blob);
    memset(blob->data, 0, bytes);
    if (bytes >= sizeof(key)) {
        memcpy(blob->data, &key, sizeof(key));
    }
    muster_rowmsg message = {.kind = kind,
                             .op = op,
                             .table = table,
                             .count = count,
                             .payload = blob};
    bool good = muster_rowmsg_check(&message, shapes, 2);
    muster_blob_unref(blob);
    return good;
}

static void payloads_must_fit_their_tables(void **state)
{
    (void)state;
    assert_true(fits(MUSTER_ROWMSG_OP, MUSTER_ROWOP_PUSH, 0, 2, 40, 9));
    assert_false(fits(MUSTER_ROWMSG_OP, MUSTER_ROWOP_PUSH, 0, 2, 40, 10));
    assert_false(fits(MUSTER_ROWMSG_OP, MUSTER_ROWOP_PUSH, 0, 2, 36, 9));
    assert_false(fits(MUSTER_ROWMSG_OP, MUSTER_ROWOP_NONE, 0, 2, 40, 9));
    assert_false(fits(MUSTER_ROWMSG_OP, MUSTER_ROWOP_PUSH, 2, 2, 40, 0));
    assert_true(fits(MUSTER_ROWMSG_OP, MUSTER_ROWOP_PULL, 0, 2, 16, 9));
    assert_true(fits(MUSTER_ROWMSG_OP, MUSTER_ROWOP_PUSH_ROW, 0, 1, 32, 9));
    assert_true(fits(MUSTER_ROWMSG_REPLY, MUSTER_ROWOP_PULL, 0, 1, 20, 9));
    assert_true(fits(MUSTER_ROWMSG_REPLY, MUSTER_ROWOP_PULL_ROW, 0, 1, 32, 9));
    assert_true(fits(MUSTER_ROWMSG_REPLY, MUSTER_ROWOP_PUSH, 0, 1, 8, 9));
    assert_true(fits(MUSTER_ROWMSG_TRANSFER, MUSTER_ROWOP_NONE, 1, 3, 36, 4));
    assert_true(fits(MUSTER_ROWMSG_SYNC, MUSTER_ROWOP_NONE, 0, 1, 8, 0));
    assert_true(fits(MUSTER_ROWMSG_SYNC, MUSTER_ROWOP_PUSH_ROW, 0, 1, 32, 0));
    assert_false(fits(MUSTER_ROWMSG_BARRIER, MUSTER_ROWOP_NONE, 0, 0, 8, 0));
    muster_rowmsg plain = {.kind = MUSTER_ROWMSG_RELEASE};
    assert_true(muster_rowmsg_check(&plain, shapes, 2));
    plain.kind = MUSTER_ROWMSG_OP;
    assert_false(muster_rowmsg_check(&plain, shapes, 2));
}

static void an_index_is_copied_before_it_is_checked(void **state)
{
    (void)state;
    muster_blob *blob = muster_blob_create(16);
    assert_non_null(blob);
    const uint32_t sent[4] = {9, 8, 1, 2};
    memcpy(blob->data, sent, sizeof(sent));
    muster_vec room = muster_vec_make(sizeof(uint32_t));
    muster_rowmsg message = {
        .kind = MUSTER_ROWMSG_LOCALIZE, .count = 2, .payload = blob};
    assert_true(muster_rowmsg_take_index(&message, &room));
    // The sender writes to the shared page.
    memset(blob->data, 0xff, blob->bytes);
    assert_true(muster_rowmsg_check(&message, shapes, 2));
    assert_int_equal(muster_rowmsg_keys(&message)[1], 8);
    assert_int_equal(muster_rowmsg_tags(&message)[0], 1);
    message.count = 3;
    assert_false(muster_rowmsg_take_index(&message, &room));
    message.payload = NULL;
    assert_false(muster_rowmsg_take_index(&message, &room));
    muster_vec_fini(&room);
    muster_blob_unref(blob);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_come_back_as_they_were),
        cmocka_unit_test(the_bytes_of_a_header_are_fixed),
        cmocka_unit_test(other_bytes_are_refused),
        cmocka_unit_test(payloads_must_fit_their_tables),
        cmocka_unit_test(an_index_is_copied_before_it_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
