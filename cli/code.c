/*
 * code.c -- `muster code NAME --workers N ..`: look at a gradient code; `muster
 * code list`: all of them.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "muster/code_report.h"

/* Numbers were checked by the options' own ranges. */
static uint64_t number(const muster_config *config, const char *name)
{
    const char *text = muster_config_get(config, name);
    return text != NULL ? strtoull(text, NULL, 10) : 0;
}

static bool is_on(const muster_config *config, const char *name)
{
    const char *text = muster_config_get(config, name);
    return text != NULL && strcmp(text, "true") == 0;
}

/* --speeds 1,1,2,4: one number a worker. NULL without the option, or with
 * *error_out filled in. */
static double *parse_speeds(const muster_config *config, uint32_t workers,
                            muster_error *error_out)
{
    const char *text = muster_config_get(config, "speeds");
    if (text == NULL) {
        return NULL;
    }
    double *speeds = calloc(workers > 0 ? workers : 1, sizeof(*speeds));
    uint32_t count = 0;
    bool good = speeds != NULL;
    while (good && *text != '\0' && count < workers) {
        char *end = NULL;
        speeds[count++] = strtod(text, &end);
        good = end != text && (*end == ',' || *end == '\0');
        text = *end == ',' ? end + 1 : end;
    }
    if (good && *text == '\0' && count == workers) {
        return speeds;
    }
    free(speeds);
    error_out->status = MUSTER_ERR_INVALID;
    snprintf(error_out->text, sizeof(error_out->text),
             "--speeds: %u numbers are needed, one a worker, such as 1,1,2,4",
             workers);
    return NULL;
}

static int print_list(muster_config *config)
{
    char *list = muster_code_list_text(is_on(config, "json"));
    int code =
        list != NULL ? cli_print(list) : cli_fail(MUSTER_ERR_NO_MEMORY, NULL);
    if (code == 0 && is_on(config, "json")) {
        code = cli_print("\n");
    }
    muster_config_text_free(list);
    muster_config_free(config);
    return code;
}

/* The report on stderr for people, or on stdout as JSON. */
static muster_status print_report(const muster_config *config,
                                  const muster_code_opts *opts,
                                  muster_error *error_out, char **json_out)
{
    muster_code_report report = MUSTER_CODE_REPORT_INIT;
    muster_status status = muster_code_report_make(opts, 0, error_out, &report);
    if (status != MUSTER_OK) {
        return status;
    }
    if (is_on(config, "json")) {
        *json_out = muster_code_report_json(&report);
        return *json_out != NULL ? MUSTER_OK : MUSTER_ERR_NO_MEMORY;
    }
    char *text = muster_code_report_text(&report);
    status = text != NULL ? MUSTER_OK : MUSTER_ERR_NO_MEMORY;
    if (text != NULL && cli_print(text) != 0) {
        status = MUSTER_ERR_SYSTEM;
    }
    muster_config_text_free(text);
    return status;
}

static muster_status print_matrix(const muster_config *config,
                                  const muster_code_opts *opts,
                                  muster_error *error_out, char **json_out)
{
    char *text = NULL;
    bool json = is_on(config, "json");
    muster_status status =
        muster_code_matrix_text(opts, json, error_out, &text);
    if (status == MUSTER_OK && json) {
        *json_out = text;
        return status;
    }
    if (status == MUSTER_OK && cli_print(text) != 0) {
        status = MUSTER_ERR_SYSTEM;
    }
    muster_config_text_free(text);
    return status;
}

/* How many workers a code has is never guessed. */
static muster_status require_workers(const char *code, muster_error *error_out)
{
    error_out->status = MUSTER_ERR_INVALID;
    snprintf(error_out->text, sizeof(error_out->text),
             "code: --workers is missing; for example muster code %.60s "
             "--workers 12",
             code);
    return error_out->status;
}

int cli_code(int argc, char **argv)
{
    int code = 0;
    muster_config *config = cli_options("code", argc, argv, &code);
    if (config == NULL) {
        return code;
    }
    muster_error error = {.text = ""};
    muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
    opts.name = muster_config_get(config, "code");
    if (opts.name != NULL && strcmp(opts.name, "list") == 0) {
        return print_list(config);
    }
    opts.workers = (uint32_t)number(config, "workers");
    opts.stragglers = (uint32_t)number(config, "stragglers");
    opts.comm = (uint32_t)number(config, "comm");
    opts.load = (uint32_t)number(config, "load");
    opts.seed = number(config, "seed");
    if (argc == 0) {
        snprintf(error.text, sizeof(error.text),
                 "code: which one? `muster code list` names them all; for "
                 "example muster code frc --workers 12");
        return cli_finish(config, MUSTER_ERR_INVALID, &error, NULL);
    }
    if (opts.workers == 0) {
        muster_status status = require_workers(opts.name, &error);
        return cli_finish(config, status, &error, NULL);
    }
    double *speeds = parse_speeds(config, opts.workers, &error);
    opts.speeds = speeds;
    char *json = NULL;
    muster_status status = error.status;
    if (status == MUSTER_OK) {
        status = is_on(config, "matrix")
                     ? print_matrix(config, &opts, &error, &json)
                     : print_report(config, &opts, &error, &json);
    }
    free(speeds);
    return cli_finish(config, status, &error, json);
}
