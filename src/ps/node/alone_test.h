/*
 * ps/node/alone_test.h -- a node alone, with tables, and workers of it, for
 * tests that need no mesh. Used from the main thread: a failure fails the test.
 */
#ifndef MUSTER_PS_NODE_ALONE_TEST_H
#define MUSTER_PS_NODE_ALONE_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "muster/ps.h"

typedef struct test_tables {
    uint32_t count;
    uint32_t keys;
    uint32_t width;
    uint32_t optimizer;
} test_tables;

static inline muster_ps *test_alone_open(const test_tables *tables)
{
    muster_ps *ps = NULL;
    muster_error error;
    muster_ps_opts opts = MUSTER_PS_OPTS_INIT;
    assert_int_equal(muster_ps_create(&opts, &error, &ps), MUSTER_OK);
    for (uint32_t i = 0; i < tables->count; i++) {
        muster_ps_table_opts table = MUSTER_PS_TABLE_OPTS_INIT;
        table.keys = tables->keys;
        table.width = tables->width;
        table.optimizer = tables->optimizer;
        uint32_t number = UINT32_MAX;
        assert_int_equal(muster_ps_table_add(ps, &table, &error, &number),
                         MUSTER_OK);
        assert_int_equal(number, i);
    }
    return ps;
}

static inline muster_ps_worker *test_alone_worker(muster_ps *ps)
{
    muster_ps_worker *worker = NULL;
    assert_int_equal(muster_ps_worker_create(ps, &worker), MUSTER_OK);
    return worker;
}

#endif // MUSTER_PS_NODE_ALONE_TEST_H
