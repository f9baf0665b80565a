/*
 * edge_terms_test.c -- what an edge is told comes back as it was written, and
 * nothing else is taken.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "wire/edge_terms.h"

static const muster_edge_terms plain = {.message_dim = 7851,
                                        .message_tail = 4,
                                        .shards = 64,
                                        .check = -3.25,
                                        .edge_stragglers = 1,
                                        .worker_stragglers = 2,
                                        .edge_comm = 3,
                                        .worker_comm = 4};

static void what_is_written_is_read(void **state)
{
    (void)state;
    uint8_t bytes[MUSTER_EDGE_TERMS_BYTES];
    muster_edge_terms terms;
    muster_edge_terms_write(&plain, bytes);
    assert_int_equal(muster_edge_terms_read(bytes, sizeof(bytes), &terms),
                     MUSTER_OK);
    assert_int_equal(terms.message_dim, 7851);
    assert_int_equal(terms.message_tail, 4);
    assert_int_equal(terms.shards, 64);
    assert_true(terms.check == -3.25);
    assert_int_equal(terms.edge_stragglers, 1);
    assert_int_equal(terms.worker_stragglers, 2);
    assert_int_equal(terms.edge_comm, 3);
    assert_int_equal(terms.worker_comm, 4);
}

static void anything_else_is_refused(void **state)
{
    (void)state;
    uint8_t bytes[MUSTER_EDGE_TERMS_BYTES + 1] = {0};
    muster_edge_terms bad[5] = {plain, plain, plain, plain, plain};
    muster_edge_terms terms;
    bad[0].message_dim = 0;
    bad[1].shards = 0;
    bad[2].check = (double)NAN;
    bad[3].edge_comm = 0;
    bad[4].worker_comm = 0;
    for (int i = 0; i < 5; i++) {
        muster_edge_terms_write(&bad[i], bytes);
        assert_int_equal(
            muster_edge_terms_read(bytes, MUSTER_EDGE_TERMS_BYTES, &terms),
            MUSTER_ERR_PROTOCOL);
    }
    muster_edge_terms_write(&plain, bytes);
    for (size_t size = 0; size <= sizeof(bytes); size++) {
        assert_int_equal(muster_edge_terms_read(bytes, size, &terms),
                         size == MUSTER_EDGE_TERMS_BYTES ? MUSTER_OK
                                                         : MUSTER_ERR_PROTOCOL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(anything_else_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
