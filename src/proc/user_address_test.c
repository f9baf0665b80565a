/*
 * user_address_test.c -- every form of address that users may write.
 */
#include "proc/user_address.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void addresses_of_users_are_expanded(void **state)
{
    (void)state;
    static const struct {
        const char *text, *full;
    } rows[] = {{":7000", "tcp:127.0.0.1:7000"},
                {"host:7000", "tcp:host:7000"},
                {"tcp:host:7000", "tcp:host:7000"},
                {"unix:/run/x", "unix:/run/x"},
                {"host", NULL},
                {"host:", NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char full[MUSTER_NET_ADDRESS_MAX] = "";
        muster_error error = {.text = ""};
        muster_status status =
            muster_user_address_expand(rows[i].text, "--listen", &error, full);
        assert_int_equal(status,
                         rows[i].full != NULL ? MUSTER_OK : MUSTER_ERR_INVALID);
        if (rows[i].full != NULL) {
            assert_string_equal(full, rows[i].full);
        } else {
            assert_non_null(strstr(error.text, "--listen"));
        }
    }
}

static void addresses_that_are_read_are_looked_up(void **state)
{
    (void)state;
    char full[MUSTER_NET_ADDRESS_MAX] = "";
    muster_error error = {.text = ""};
    assert_int_equal(muster_user_address_read(":7000", "join", &error, full),
                     MUSTER_OK);
    assert_string_equal(full, "tcp:127.0.0.1:7000");
    assert_int_equal(muster_user_address_read("host", "join", &error, full),
                     MUSTER_ERR_INVALID);
    assert_int_equal(
        muster_user_address_read("127.0.0.1:99999", "join", &error, full),
        MUSTER_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_of_users_are_expanded),
        cmocka_unit_test(addresses_that_are_read_are_looked_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
