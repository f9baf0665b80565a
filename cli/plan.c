/*
 * plan.c -- `muster plan --cluster FILE ..`: which gradient code suits it.
 */
#include <stddef.h>
#include <string.h>

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
    const char *json = muster_config_get(config, "json");
    if (json != NULL && strcmp(json, "true") == 0) {
        return cli_finish(config, status, &error, text);
    }
    code = text != NULL ? cli_print(text) : 0;
    muster_config_text_free(text);
    int finished = cli_finish(config, status, &error, NULL);
    return finished != 0 ? finished : code;
}
