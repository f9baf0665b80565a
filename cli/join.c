/*
 * join.c -- `muster join ADDRESS`.
 */
#include <stddef.h>

#include "cli.h"
#include "muster/run.h"

int cli_join(int argc, char **argv)
{
    int code = 0;
    muster_config *config = cli_options("join", argc, argv, &code);
    if (config == NULL) {
        return code;
    }
    muster_error error = {.text = ""};
    muster_status status = muster_join(config, &error);
    return cli_finish(config, status, &error, NULL);
}
