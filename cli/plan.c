/*
 * plan.c -- `muster plan --cluster FILE ..`: which gradient code suits it.
 */
#include <stddef.h>

#include "cli.h"
#include "muster/run.h"

int cli_plan(int argc, char **argv)
{
    int code = 0;
    muster_config *config = cli_options("plan", argc, argv, &code);
    if (config == NULL) {
        return code;
    }
    muster_error error = {.text = ""};
    char *text = NULL;
    muster_status status = muster_show_plan(config, &error, &text);
    return cli_finish_text(config, status, &error, text);
}
