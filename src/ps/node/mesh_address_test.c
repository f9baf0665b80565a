/*
 * mesh_address_test.c -- the addresses of nodes, in every form, and what is
 * refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "net/net.h"
#include "ps/node/mesh_address.h"

static void every_form_gives_an_address(void **state)
{
    static const struct {
        const char *addresses;
        uint32_t node;
        const char *address;
    } cases[] = {
        {"/tmp/mesh", 3, "unix:/tmp/mesh/node-3"},
        {"/a,b:1", 0, "unix:/a,b:1/node-0"},
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
        assert_int_equal(
            muster_mesh_addresses_check(cases[i].addresses, 4, NULL),
            MUSTER_OK);
        muster_mesh_address_of(cases[i].addresses, cases[i].node, address);
        assert_string_equal(address, cases[i].address);
    }
}

static void what_is_no_address_is_refused(void **state)
{
    static const struct {
        const char *addresses;
        const char *says;
    } wrong[] = {
        {"", "a folder"},
        {"tcp:", "expected tcp:HOST:PORT"},
        {"tcp:host", "expected tcp:HOST:PORT"},
        {"tcp:host:", "expected tcp:HOST:PORT"},
        {"tcp:10.0.0.1", "expected tcp:HOST:PORT"},
        {"tcp::80", "expected tcp:HOST:PORT"},
        {"tcp:h:0", "'tcp:h:0'"},
        {"tcp:h:65533", "each of 4 nodes"},
        {"tcp:h:-1", "expected tcp:HOST:PORT"},
        {"tcp:h:8 ", "expected tcp:HOST:PORT"},
        {"tcp:h:123456", "expected tcp:HOST:PORT"},
        {"tcp:h 80", "expected tcp:HOST:PORT"},
        {"tcp:fe80::1", "brackets"},
        {"tcp:[fe80::1]", "brackets"},
        {"tcp:[::1:80", "brackets"},
        {"tcp:[]:80", "brackets"},
        {"tcp:,", "2 addresses for 4 nodes"},
        {"tcp:h:1,h:2", "2 addresses for 4 nodes"},
        {"tcp:1,2,3,4,5", "5 addresses for 4 nodes"},
        {"tcp:1,2,3,", "node 3, ''"},
        {"tcp:1,2,3,x", "node 3, 'x'"},
        {"tcp:1,2,,4", "node 2, ''"},
        {"tcp:1,2,3,:4", "node 3, ':4'"},
        {"tcp:1,2,3,0", "node 3, '0'"},
        {"tcp:a:1,b:65536,c:3,d:4", "node 1, 'b:65536'"},
        {"tcp:a:1,tcp:b:1,c:1,d:1", "node 1, 'tcp:b:1'"},
        {"tcp:a:1, b:1,c:1,d:1", "node 1, ' b:1'"},
        {"tcp:a:1,[::1:2,c:1,d:1", "node 1, '[::1:2'"},
        {"tcp:a:1,2001:db8::2,c:1,d:1", "node 1, '2001:db8::2'"},
        {"tcp:a:1,b:1,c:1,b:1", "nodes 1 and 3 have one address, 'b:1'"},
        {"tcp:7,b:1,c:1,127.0.0.1:7", "nodes 0 and 3 have one address"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        muster_error error = {.text = ""};
        assert_int_equal(
            muster_mesh_addresses_check(wrong[i].addresses, 4, &error),
            MUSTER_ERR_INVALID);
        if (strstr(error.text, wrong[i].says) == NULL) {
            fail_msg("%s: %s", wrong[i].addresses, error.text);
        }
    }
}

static void long_addresses_are_refused(void **state)
{
    char longest[200] = "tcp:";
    (void)state;
    memset(longest + 4, 'h', 101);
    memcpy(longest + 105, ":1", 3);
    assert_int_equal(muster_mesh_addresses_check(longest, 4, NULL),
                     MUSTER_ERR_INVALID);
    memset(longest, 'f', 81);
    longest[81] = '\0';
    assert_int_equal(muster_mesh_addresses_check(longest, 4, NULL),
                     MUSTER_ERR_INVALID);
    assert_int_equal(muster_mesh_addresses_check(longest + 1, 4, NULL),
                     MUSTER_OK);
}

/* The longest host and the highest port fit an address. */
static void the_longest_address_is_not_cut(void **state)
{
    char addresses[200] = "tcp:";
    char address[MUSTER_NET_ADDRESS_MAX];
    (void)state;
    memset(addresses + 4, 'h', 100);
    memcpy(addresses + 104, ":65532", 7);
    assert_int_equal(muster_mesh_addresses_check(addresses, 4, NULL),
                     MUSTER_OK);
    muster_mesh_address_of(addresses, 3, address);
    assert_string_equal(address + 104, ":65535");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_gives_an_address),
        cmocka_unit_test(what_is_no_address_is_refused),
        cmocka_unit_test(long_addresses_are_refused),
        cmocka_unit_test(the_longest_address_is_not_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
