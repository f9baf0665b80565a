/*
 * base/folder_test.h -- a folder of a test's own, and its end.
 *
 * Files that include it ask for POSIX first.
 */
#ifndef MUSTER_BASE_FOLDER_TEST_H
#define MUSTER_BASE_FOLDER_TEST_H

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

/* Removes the folder with all that is in it; 0 when that went well. */
static inline int folder_drop(const char *folder)
{
    char command[160];
    (void)snprintf(command, sizeof(command), "rm -r '%s'", folder);
    return system(command); // NOLINT(cert-env33-c): a folder of our own
}

/* Of cmocka: the folder's path is the test's *state. */
static inline int folder_setup(void **state)
{
    char *folder = muster_mem_string("/tmp/muster-test-XXXXXX");
    *state = folder;
    return folder == NULL || mkdtemp(folder) == NULL ? -1 : 0;
}

static inline int folder_teardown(void **state)
{
    int failed = folder_drop(*state);
    muster_mem_free(*state);
    return failed;
}

#endif // MUSTER_BASE_FOLDER_TEST_H
