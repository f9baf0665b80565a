/*
 * slurm_hosts_test.c -- Slurm's lists, good and bad.
 */
#include "run/slurm_hosts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void hosts_are_found_by_number(void **state)
{
    (void)state;
    static const struct {
        const char *list;
        uint32_t index;
        const char *host;
    } cases[] = {
        {"n1", 0, "n1"},
        {"n1", 1, NULL},
        {"a,b,c", 2, "c"},
        {"n[1-4]", 0, "n1"},
        {"n[1-4]", 3, "n4"},
        {"n[1-4]", 4, NULL},
        {"n[008-011]", 2, "n010"},
        {"n[1-2,7,9-10],gpu3", 2, "n7"},
        {"n[1-2,7,9-10],gpu3", 4, "n10"},
        {"n[1-2,7,9-10],gpu3", 5, "gpu3"},
        {"n[1-2].lab,m[5]", 1, "n2.lab"},
        {"n[1-2].lab,m[5]", 2, "m5"},
        {"n[1-", 0, NULL},
        {"n[]", 0, NULL},
        {"n[3-1]", 0, NULL},
        {"n[1x2]", 0, NULL},
        {"", 0, NULL},
        {",", 0, NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char host[MUSTER_SLURM_HOST_BYTES] = "";
        bool found = muster_slurm_host(cases[i].list, cases[i].index, host);
        assert_int_equal(found, cases[i].host != NULL);
        if (found) {
            assert_string_equal(host, cases[i].host);
        }
    }
}

static void processes_are_placed_as_slurm_does(void **state)
{
    (void)state;
    static const uint32_t block[] = {0, 0, 0, 1, 2, UINT32_MAX};
    static const uint32_t cyclic[] = {0, 1, 2, 0, 0, UINT32_MAX};
    for (uint32_t rank = 0; rank < 6; rank++) {
        assert_int_equal(muster_slurm_host_of("3,1(x2)", false, rank),
                         block[rank]);
        assert_int_equal(muster_slurm_host_of("3,1(x2)", true, rank),
                         cyclic[rank]);
    }
    static const char *const bad[] = {"", "x", "3(x", "3(y2)", "3 4", "3(x2"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(muster_slurm_host_of(bad[i], false, 0), UINT32_MAX);
        assert_int_equal(muster_slurm_host_of(bad[i], true, 0), UINT32_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_are_found_by_number),
        cmocka_unit_test(processes_are_placed_as_slurm_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
