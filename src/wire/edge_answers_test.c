/*
 * edge_answers_test.c -- a line comes back as it was written.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "wire/edge_answers.h"

static void what_is_written_is_read(void **state)
{
    (void)state;
    uint8_t bytes[MUSTER_EDGE_ANSWER_BYTES];
    for (unsigned flags = 0; flags < 4; flags++) {
        muster_edge_answer line = {.step = UINT64_C(1) << 40,
                                   .worker = 65535,
                                   .compute_us = 12345,
                                   .arrive_us = UINT32_MAX,
                                   .late = (flags & 1) != 0,
                                   .slow = (flags & 2) != 0};
        muster_edge_answer_write(&line, bytes);
        muster_edge_answer back = muster_edge_answer_read(bytes);
        assert_int_equal(back.step, line.step);
        assert_int_equal(back.worker, line.worker);
        assert_int_equal(back.compute_us, line.compute_us);
        assert_int_equal(back.arrive_us, line.arrive_us);
        assert_int_equal(back.late, line.late);
        assert_int_equal(back.slow, line.slow);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
