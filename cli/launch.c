/*
 * launch.c -- `muster launch --local N [--required K] -- PROGRAM ..`.
 */
#include "muster/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const char help[] =
    "usage: muster launch --local N [--required K] -- PROGRAM [ARGUMENTS]\n\n"
    "Start a program N times on this machine. Each process finds\n"
    "MUSTER_RANK (0..N-1), MUSTER_SIZE, MUSTER_MASTER and MUSTER_KEY_FILE in "
    "its\nenvironment; `muster train` makes process 0 the coordinator by "
    "them, and the\nothers workers. What they write comes out here, a line at "
    "a time, with the\nnumber of the process. Signals are passed on.\n\n"
    "  --local N     how many processes\n"
    "  --required K  processes 0..K-1 are required: when one fails, all are\n"
    "                ended (default: all are)\n\n"
    "Example:\n  muster launch --local 3 -- printenv MUSTER_RANK\n";

static int wrong(const char *what)
{
    muster_error error = {.status = MUSTER_ERR_INVALID};
    snprintf(error.text, sizeof(error.text),
             "launch: %s; write muster launch --local N -- PROGRAM ..", what);
    return cli_fail(MUSTER_ERR_INVALID, &error);
}

/* The value of an option as a number in 1..1024; 0: it is none. */
static uint32_t number(const char *text)
{
    char *end = NULL;
    unsigned long value = text != NULL ? strtoul(text, &end, 10) : 0;
    bool good = text != NULL && end != text && *end == '\0' && value <= 1024;
    return good ? (uint32_t)value : 0;
}

int cli_launch(int argc, char **argv)
{
    muster_launch_opts opts = MUSTER_LAUNCH_OPTS_INIT;
    int at = 0;
    for (; at < argc && strcmp(argv[at], "--") != 0; at += 2) {
        const char *value = at + 1 < argc ? argv[at + 1] : NULL;
        if (cli_wants_help(1, argv + at)) {
            return cli_print(help);
        }
        if (strcmp(argv[at], "--local") == 0) {
            opts.count = number(value);
        } else if (strcmp(argv[at], "--required") == 0 && number(value) > 0) {
            opts.required_to = number(value);
        } else {
            return wrong("an option that it does not have, or a bad number");
        }
    }
    if (opts.count == 0) {
        return wrong("--local is missing, or not in 1..1024");
    }
    if (at + 1 >= argc) {
        return wrong("no program after --");
    }
    muster_error error = {.text = ""};
    int code = 0;
    opts.argv = (const char *const *)(argv + at + 1);
    cli_log_to_stderr();
    muster_status status = muster_launch(&opts, &error, &code);
    return status < 0 ? cli_fail(status, &error) : code;
}
