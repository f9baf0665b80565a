/*
 * endpoint_test.c -- the path of a Unix socket: a stale one is taken over, one
 * in use or a file of another kind is left alone.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/net.h"

static const muster_net_callbacks silent = {0};

static muster_status listen_at(const char *path, muster_net **net_out)
{
    char address[MUSTER_NET_ADDRESS_MAX];
    muster_net_opts opts = MUSTER_NET_OPTS_INIT;
    muster_error error = {.text = ""};
    (void)snprintf(address, sizeof address, "unix:%s", path);
    assert_int_equal(muster_net_open(&opts, &silent, NULL, NULL, net_out),
                     MUSTER_OK);
    muster_status status = muster_net_listen(*net_out, address, &error, NULL);
    if (status < 0) {
        assert_non_null(strstr(error.text, path));
    }
    return status;
}

static void a_path_is_taken_over_only_when_its_owner_is_gone(void **state)
{
    (void)state;
    char folder[] = "/tmp/muster-endpoint-XXXXXX";
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    assert_non_null(mkdtemp(folder));
    (void)snprintf(name.sun_path, sizeof name.sun_path, "%s/socket", folder);

    // What a killed process leaves: a bound path that nobody listens at.
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof name), 0);
    assert_int_equal(close(fd), 0);

    muster_net *first = NULL, *second = NULL;
    assert_int_equal(listen_at(name.sun_path, &first), MUSTER_OK);
    assert_int_equal(listen_at(name.sun_path, &second), MUSTER_ERR_SYSTEM);
    muster_net_close(second);
    muster_net_close(first);

    FILE *file = fopen(name.sun_path, "wx");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(listen_at(name.sun_path, &second), MUSTER_ERR_SYSTEM);
    muster_net_close(second);
    struct stat found;
    assert_int_equal(stat(name.sun_path, &found), 0);
    assert_true(S_ISREG(found.st_mode));
    assert_int_equal(unlink(name.sun_path), 0);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_is_taken_over_only_when_its_owner_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
