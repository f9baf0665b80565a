/*
 * key.c -- `muster key`: a fresh run key on stdout.
 */
#define _DEFAULT_SOURCE // fchmod
#include "muster/key.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

/* A key that others can read is refused later: the file that stdout was sent
 * to becomes its owner's alone. What is no file, or not ours, stays. */
static void make_private(void)
{
    struct stat about;
    if (fstat(STDOUT_FILENO, &about) == 0 && S_ISREG(about.st_mode)) {
        (void)fchmod(STDOUT_FILENO, S_IRUSR | S_IWUSR);
    }
}

int cli_key(int argc, char **argv)
{
    char text[MUSTER_KEY_TEXT_BYTES];
    if (cli_wants_help(argc, argv)) {
        return cli_print(
            "usage: muster key > FILE\n\n"
            "Make a run key. Every process of a run gets the same one, by\n"
            "--key-file FILE or MUSTER_KEY_FILE: only processes that have it "
            "can join, and\nwhat they send over TCP is encrypted. A FILE gets "
            "mode 0600; one that others can\nopen is refused.\n\n"
            "Example:\n  muster key > run.key\n");
    }
    if (argc > 0) {
        muster_error error = {.status = MUSTER_ERR_INVALID};
        snprintf(error.text, sizeof(error.text),
                 "key: unknown argument '%.60s'; write muster key > FILE",
                 argv[0]);
        return cli_fail(MUSTER_ERR_INVALID, &error);
    }
    muster_status status = muster_key_make(text);
    if (status != MUSTER_OK) {
        return cli_fail(status, NULL);
    }
    make_private();
    int code = cli_print(text);
    memset(text, 0, sizeof(text));
    return code;
}
