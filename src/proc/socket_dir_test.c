/*
 * socket_dir_test.c -- private folders of sockets, and those that killed
 * processes leave behind.
 */
#define _GNU_SOURCE
#include "proc/socket_dir.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static void make_old(const char *path)
{
    struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void make_file(const muster_socket_dir *dir, const char *name)
{
    char path[160];
    (void)snprintf(path, sizeof path, "%s/%s", dir->folder, name);
    int file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(file >= 0);
    (void)close(file);
}

/* A folder whose process ended without closing it. */
static muster_socket_dir abandon(void)
{
    muster_socket_dir dir = {.lock = -1};
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool told = muster_socket_dir_open(NULL, &dir) == MUSTER_OK &&
                    write(ends[1], &dir, sizeof dir) == (ssize_t)sizeof dir;
        _exit(told ? 0 : 1);
    }
    assert_int_equal(read(ends[0], &dir, sizeof dir), sizeof dir);
    assert_int_equal(waitpid(child, NULL, 0), child);
    (void)close(ends[0]);
    (void)close(ends[1]);
    make_file(&dir, "socket");
    make_file(&dir, "node-0");
    make_file(&dir, "node-63");
    return dir;
}

static void only_abandoned_folders_are_removed(void **state)
{
    (void)state;
    char parent[] = "/tmp/muster-socket-dir-test-XXXXXX";
    assert_non_null(mkdtemp(parent));
    assert_int_equal(setenv("XDG_RUNTIME_DIR", parent, 1), 0);
    muster_socket_dir in_use, abandoned, young, kept, last;
    assert_int_equal(muster_socket_dir_open(NULL, &in_use), MUSTER_OK);
    make_old(in_use.folder);
    abandoned = abandon();
    kept = abandon(); // not as we leave it: somebody put a file there
    young = abandon();
    char more[160];
    (void)snprintf(more, sizeof more, "%s/more", kept.folder);
    make_file(&kept, "more");
    make_old(abandoned.folder);
    make_old(kept.folder);
    char others[160]; // empty, private, old; but not ours
    (void)snprintf(others, sizeof others, "%s/muster-abcdef", parent);
    assert_int_equal(mkdir(others, 0700), 0);
    make_old(others);
    assert_int_equal(strncmp(abandoned.folder, parent, strlen(parent)), 0);

    assert_int_equal(muster_socket_dir_open(NULL, &last), MUSTER_OK);
    assert_false(exists(abandoned.folder));
    assert_true(exists(in_use.folder));
    assert_true(exists(young.folder));
    assert_true(exists(more));
    assert_true(exists(others));
    assert_int_equal(rmdir(others), 0);

    muster_socket_dir_close(&last);
    muster_socket_dir_close(&in_use);
    assert_int_equal(unlink(more), 0);
    make_old(young.folder);
    make_old(kept.folder);
    assert_int_equal(muster_socket_dir_open(NULL, &last), MUSTER_OK);
    assert_false(exists(young.folder));
    assert_false(exists(kept.folder));
    muster_socket_dir_close(&last);
    assert_int_equal(rmdir(parent), 0); // nothing is left in it
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_abandoned_folders_are_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
