/*
 * version.c -- `muster version`: program, library and protocol.
 */
#include "muster/version.h"

#include <stdio.h>
#include <string.h>

#include "cli.h"

int cli_version(int argc, char **argv)
{
    char text[128];
    if (cli_wants_help(argc, argv)) {
        return cli_print("usage: muster version [--json]\n\n"
                         "Print the version.\n\nExample:\n  muster version\n");
    }
    bool as_json = argc == 1 && strcmp(argv[0], "--json") == 0;
    if (argc > 0 && !as_json) {
        muster_error error = {.status = MUSTER_ERR_INVALID};
        snprintf(error.text, sizeof(error.text),
                 "version: unknown argument '%.60s'", argv[0]);
        return cli_fail(MUSTER_ERR_INVALID, &error);
    }
    snprintf(text, sizeof(text),
             as_json ? "{\"version\": \"%s\", \"protocol\": %d}\n"
                     : "muster %s (protocol %d)\n",
             muster_version(), MUSTER_PROTOCOL_VERSION);
    return cli_print(text);
}
