/*
 * predict.c -- `muster predict`.
 */
#include <stddef.h>

#include "cli.h"
#include "muster/run.h"

int cli_predict(int argc, char **argv)
{
    int code = 0;
    muster_config *config = cli_options("predict", argc, argv, &code);
    if (config == NULL) {
        return code;
    }
    muster_error error = {.text = ""};
    char *json = NULL;
    muster_status status = muster_predict(config, &error, &json);
    return cli_finish(config, status, &error, json);
}
