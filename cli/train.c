/*
 * train.c -- `muster train`. Local workers are made from this very program.
 */
#include <stddef.h>

#include "cli.h"
#include "muster/run.h"

int cli_train(int argc, char **argv)
{
    int code = 0;
    char path[4096];
    muster_config *config = cli_options("train", argc, argv, &code);
    if (config == NULL) {
        return code;
    }
    muster_error error = {.text = ""};
    char *json = NULL;
    muster_status status =
        muster_train(config, cli_own_path(path, sizeof path), &error, &json);
    return cli_finish(config, status, &error, json);
}
