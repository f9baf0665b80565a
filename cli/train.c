/*
 * train.c -- `muster train`. Local workers are made from this very program.
 * Under a launcher this process may be one of several, and a worker.
 */
#include <stddef.h>

#include "cli.h"
#include "muster/launch.h"
#include "muster/run.h"

static int join(muster_config *config)
{
    int code = 0;
    muster_error error = {.text = ""};
    config = cli_check(config, &code);
    return config == NULL
               ? code
               : cli_finish(config, muster_join(config, &error), &error, NULL);
}

static int train(muster_config *config)
{
    int code = 0;
    char path[4096];
    muster_error error = {.text = ""};
    char *json = NULL;
    config = cli_check(config, &code);
    if (config == NULL) {
        return code;
    }
    muster_status status =
        muster_train(config, cli_own_path(path, sizeof path), &error, &json);
    return cli_finish(config, status, &error, json);
}

int cli_train(int argc, char **argv)
{
    int code = 0;
    muster_config *config = cli_parse("train", argc, argv, &code);
    if (config == NULL) {
        return code;
    }
    muster_error error = {.text = ""};
    muster_config *worker = NULL;
    muster_status status = muster_launched(config, &error, &worker);
    if (status != MUSTER_OK) {
        muster_config_free(config);
        return cli_fail(status, &error);
    }
    if (worker != NULL) {
        muster_config_free(config);
        return join(worker);
    }
    return train(config);
}
