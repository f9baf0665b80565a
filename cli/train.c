/*
 * train.c -- `muster train`. Local workers are made from this very program.
 */
#define _POSIX_C_SOURCE 200809L
#include <stddef.h>
#include <unistd.h>

#include "cli.h"
#include "muster/run.h"

/* The program's path, so that workers carry its name in `ps`; the link itself
 * when the path is gone (the program was replaced meanwhile). */
static const char *own_path(char *path, size_t size)
{
    static const char link[] = "/proc/self/exe";
    ssize_t length = readlink(link, path, size - 1);
    if (length <= 0 || (size_t)length >= size - 1) {
        return link;
    }
    path[length] = '\0';
    return access(path, X_OK) == 0 ? path : link;
}

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
        muster_train(config, own_path(path, sizeof path), &error, &json);
    return cli_finish(config, status, &error, json);
}
