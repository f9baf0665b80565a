/*
 * partition.c -- `muster partition`.
 */
#include <stddef.h>

#include "cli.h"
#include "muster/run.h"

int cli_partition(int argc, char **argv)
{
    int code = 0;
    muster_config *config = cli_options("partition", argc, argv, &code);
    if (config == NULL) {
        return code;
    }
    muster_error error = {.text = ""};
    char *json = NULL;
    muster_status status = muster_partition(config, &error, &json);
    return cli_finish(config, status, &error, json);
}
