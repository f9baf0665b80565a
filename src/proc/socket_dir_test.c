/*
 * address_test.c -- addresses as people write them; private folders, and what
 * killed processes leave of theirs.
 */
#define _GNU_SOURCE
#include "proc/socket_dir.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void addresses_are_made_whole(void **state)
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
            muster_address_full(rows[i].text, "--listen", &error, full);
        assert_int_equal(status,
                         rows[i].full != NULL ? MUSTER_OK : MUSTER_ERR_INVALID);
        if (rows[i].full != NULL) {
            assert_string_equal(full, rows[i].full);
        } else {
            assert_non_null(strstr(error.text, "--listen"));
        }
    }
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static void make_old(const char *path)
{
    struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* A den whose process ended without closing it. */
static muster_den desert(void)
{
    muster_den den = {.lock = -1};
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool told = muster_den_open(NULL, &den) == MUSTER_OK &&
                    write(ends[1], &den, sizeof den) == (ssize_t)sizeof den;
        _exit(told ? 0 : 1);
    }
    assert_int_equal(read(ends[0], &den, sizeof den), sizeof den);
    assert_int_equal(waitpid(child, NULL, 0), child);
    (void)close(ends[0]);
    (void)close(ends[1]);
    int file = open(den.file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(file >= 0);
    (void)close(file);
    return den;
}

static void only_deserted_dens_are_removed(void **state)
{
    (void)state;
    char parent[] = "/tmp/muster-address-test-XXXXXX";
    assert_non_null(mkdtemp(parent));
    assert_int_equal(setenv("XDG_RUNTIME_DIR", parent, 1), 0);
    muster_den lived_in, deserted, young, kept, last;
    assert_int_equal(muster_den_open(NULL, &lived_in), MUSTER_OK);
    make_old(lived_in.folder);
    deserted = desert();
    kept = desert(); // not as we leave it: somebody put a file there
    young = desert();
    char more[160];
    (void)snprintf(more, sizeof more, "%s/more", kept.folder);
    int file = open(more, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(file >= 0);
    (void)close(file);
    make_old(deserted.folder);
    make_old(kept.folder);
    assert_int_equal(strncmp(deserted.folder, parent, strlen(parent)), 0);

    assert_int_equal(muster_den_open(NULL, &last), MUSTER_OK);
    assert_false(exists(deserted.folder));
    assert_true(exists(lived_in.folder));
    assert_true(exists(young.folder));
    assert_true(exists(more));

    muster_den_close(&last);
    muster_den_close(&lived_in);
    assert_int_equal(unlink(more), 0);
    make_old(young.folder);
    make_old(kept.folder);
    assert_int_equal(muster_den_open(NULL, &last), MUSTER_OK);
    assert_false(exists(young.folder));
    assert_false(exists(kept.folder));
    muster_den_close(&last);
    assert_int_equal(rmdir(parent), 0); // nothing is left in it
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_made_whole),
        cmocka_unit_test(only_deserted_dens_are_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
