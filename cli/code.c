/*
 * code.c -- `muster code NAME --workers N ..`: look at a gradient code; `muster
 * code list`: all of them.
 */
#include <stddef.h>
#include <stdio.h>

#include "cli.h"
#include "muster/run.h"

int cli_code(int argc, char **argv)
{
    int code = 0;
    muster_config *config = cli_options("code", argc, argv, &code);
    if (config == NULL) {
        return code;
    }
    muster_error error = {.text = ""};
    if (argc == 0) {
        snprintf(error.text, sizeof(error.text),
                 "code: which one? `muster code list` names them all; for "
                 "example muster code frc --workers 12");
        return cli_finish(config, MUSTER_ERR_INVALID, &error, NULL);
    }
    char *text = NULL;
    muster_status status = muster_show_code(config, &error, &text);
    return cli_finish_text(config, status, &error, text);
}
