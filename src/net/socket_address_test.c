/*
 * address_test.c -- addresses: text to socket address and back, and what is
 * said about the ones that are wrong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "net/net.h"
#include "net/socket_address.h"

static void good_addresses_come_back(void **state)
{
    (void)state;
    static const char *const good[] = {
        "unix:/tmp/x.sock",  "unix:@name",   "tcp:127.0.0.1:0",
        "tcp:0.0.0.0:65535", "tcp:[::1]:80",
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        muster_socket_address address;
        char text[MUSTER_NET_ADDRESS_MAX];
        muster_error error = {0};
        if (muster_socket_address_parse(good[i], &error, &address) !=
            MUSTER_OK) {
            fail_msg("%s", error.text);
        }
        muster_socket_address_format(&address, text);
        assert_string_equal(text, good[i]);
        assert_int_equal(muster_socket_address_is_unix(&address),
                         strncmp(good[i], "unix", 4) == 0);
        assert_string_equal(muster_socket_address_path(&address),
                            i == 0 ? "/tmp/x.sock" : "");
    }
}

static void bad_addresses_are_named(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "udp:1.2.3.4:5",
        "unix:",
        "unix:@",
        "unix:rel",
        "tcp:",
        "tcp:host",
        "tcp::80",
        "tcp:host:",
        "tcp:127.0.0.1:port",
        "tcp:[::1]",
        "tcp:[::1:80",
        "tcp:1:-1",
        "tcp:127.0.0.1:65536",
        "tcp:127.0.0.1:8 ",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        muster_socket_address address;
        muster_error error = {0};
        assert_int_equal(muster_socket_address_parse(bad[i], &error, &address),
                         MUSTER_ERR_INVALID);
        assert_non_null(strstr(error.text, "address '"));
    }
}

static void addresses_too_long_are_named(void **state)
{
    (void)state;
    char text[256];
    memset(text, 'x', sizeof(text));
    for (size_t length = 113; length < sizeof(text); length++) {
        muster_socket_address address;
        muster_error error = {0};
        text[length] = '\0';
        memcpy(text, "unix:/", 6);
        assert_int_equal(muster_socket_address_parse(text, &error, &address),
                         MUSTER_ERR_INVALID);
        assert_non_null(strstr(error.text, "characters"));
        text[length] = 'x';
    }
}

static void a_name_is_looked_up(void **state)
{
    (void)state;
    muster_socket_address address;
    char text[MUSTER_NET_ADDRESS_MAX];
    assert_int_equal(
        muster_socket_address_parse("tcp:localhost:7", NULL, &address),
        MUSTER_OK);
    muster_socket_address_format(&address, text);
    assert_string_equal(text, "tcp:127.0.0.1:7");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_addresses_come_back),
        cmocka_unit_test(bad_addresses_are_named),
        cmocka_unit_test(addresses_too_long_are_named),
        cmocka_unit_test(a_name_is_looked_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
