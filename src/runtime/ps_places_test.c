/*
 * ps_places_test.c -- where nodes listen, in every form, and what is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "net/net.h"
#include "runtime/ps_places.h"

static void every_form_gives_an_address(void **state)
{
    static const struct {
        const char *places;
        uint32_t node;
        const char *address;
    } cases[] = {
        {"/tmp/mesh", 3, "unix:/tmp/mesh/node-3"},
        {"a,b:1", 0, "unix:a,b:1/node-0"},
        {"tcp:7000", 0, "tcp:127.0.0.1:7000"},
        {"tcp:7000", 3, "tcp:127.0.0.1:7003"},
        {"tcp:10.0.0.1:7000", 2, "tcp:10.0.0.1:7002"},
        {"tcp:[::1]:65532", 3, "tcp:[::1]:65535"},
        {"tcp:a:1,b:2,[::1]:3,9", 0, "tcp:a:1"},
        {"tcp:a:1,b:2,[::1]:3,9", 1, "tcp:b:2"},
        {"tcp:a:1,b:2,[::1]:3,9", 2, "tcp:[::1]:3"},
        {"tcp:a:1,b:2,[::1]:3,9", 3, "tcp:127.0.0.1:9"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char address[MUSTER_NET_ADDRESS_MAX];
        assert_null(muster_ps_places_fault(cases[i].places, 4));
        muster_ps_places_at(cases[i].places, cases[i].node, address);
        assert_string_equal(address, cases[i].address);
    }
}

static void what_is_no_place_is_refused(void **state)
{
    static const char *const wrong[] = {
        "",           "tcp:",         "tcp:host",      "tcp:host:",
        "tcp::80",    "tcp:h:0",      "tcp:h:65533",   "tcp:h:-1",
        "tcp:h:8 ",   "tcp:h:123456", "tcp:h 80",      "tcp:,",
        "tcp:h:1,",   "tcp:h:1,h:2",  "tcp:1,2,3,4,5", "tcp:1,2,3,x",
        "tcp:1,2,,4", "tcp:1,2,3,:4", "tcp:1,2,3,0",   "tcp:1,2,3,65536",
    };
    char longest[200] = "tcp:";
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_non_null(muster_ps_places_fault(wrong[i], 4));
    }
    memset(longest + 4, 'h', 101);
    memcpy(longest + 105, ":1", 3);
    assert_non_null(muster_ps_places_fault(longest, 4));
    memset(longest, 'f', 81);
    longest[81] = '\0';
    assert_non_null(muster_ps_places_fault(longest, 4));
    assert_null(muster_ps_places_fault(longest + 1, 4));
}

/* The longest host and the highest port fit an address. */
static void the_longest_place_is_not_cut(void **state)
{
    char places[200] = "tcp:";
    char address[MUSTER_NET_ADDRESS_MAX];
    (void)state;
    memset(places + 4, 'h', 100);
    memcpy(places + 104, ":65532", 7);
    assert_null(muster_ps_places_fault(places, 4));
    muster_ps_places_at(places, 3, address);
    assert_string_equal(address + 104, ":65535");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_gives_an_address),
        cmocka_unit_test(what_is_no_place_is_refused),
        cmocka_unit_test(the_longest_place_is_not_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
