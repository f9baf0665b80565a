/*
 * flags.c -- the command line: --name value, --name=value, --switch, and the
 * verb's positional argument.
 *
 * The line is walked twice: first for --resume and --config alone, whose files
 * are applied, then for everything, so that flags win wherever they stand.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "config/state.h"

#define PLACE_MAX       96
#define PATH_LENGTH_MAX 4096

typedef struct flag_walk {
    muster_config *config;
    int argc;
    const char *const *argv;
    int next;
    bool files_only; // the first walk
    bool positional_seen;
} flag_walk;

static muster_status positional(flag_walk *walk, const char *text,
                                muster_error *error_out)
{
    const muster_verb_row *verb = muster_verb_get(walk->config->verb);
    if (verb->positional == MUSTER_OPT_COUNT || walk->positional_seen) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "%s: what is '%.60s'? Options begin with --",
                                verb->name, text);
    }
    walk->positional_seen = true;
    if (walk->files_only) {
        return MUSTER_OK;
    }
    char place[PLACE_MAX];
    snprintf(place, sizeof(place), "%s %s", verb->name,
             muster_option_get(verb->positional)->meta);
    return muster_config_apply(walk->config, verb->positional, text,
                               MUSTER_ORIGIN_FLAG, place, error_out);
}

/* The value after `=`, or the next argument, or "true" of a switch. */
static muster_status flag_value(flag_walk *walk, muster_option option,
                                const char *after_equals,
                                muster_error *error_out, const char **value_out)
{
    const muster_option_row *row = muster_option_get(option);
    if (after_equals != NULL) {
        *value_out = after_equals;
        return MUSTER_OK;
    }
    if (row->type == MUSTER_TYPE_FLAG) {
        *value_out = "true";
        return MUSTER_OK;
    }
    if (walk->next >= walk->argc ||
        strncmp(walk->argv[walk->next], "--", 2) == 0) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "--%s: needs a value: %s", row->name,
                                row->meta);
    }
    *value_out = walk->argv[walk->next++];
    return MUSTER_OK;
}

static muster_status flag(flag_walk *walk, const char *argument,
                          muster_error *error_out)
{
    const char *equals = strchr(argument, '=');
    size_t length =
        equals != NULL ? (size_t)(equals - argument) : strlen(argument);
    char name[PLACE_MAX];
    snprintf(name, sizeof(name), "%.*s", (int)(length < 64 ? length : 64),
             argument);
    muster_option option = muster_option_find(walk->config->verb, name);
    if (option == MUSTER_OPT_COUNT) {
        return muster_config_unknown(walk->config->verb, "", name, "--",
                                     error_out);
    }
    const char *value = NULL;
    muster_status status = flag_value(
        walk, option, equals != NULL ? equals + 1 : NULL, error_out, &value);
    bool is_file = option == MUSTER_OPT_CONFIG || option == MUSTER_OPT_RESUME ||
                   option == MUSTER_OPT_RESUME_OR_START;
    if (status != MUSTER_OK || (walk->files_only && !is_file)) {
        return status;
    }
    char place[PLACE_MAX];
    snprintf(place, sizeof(place), "--%.64s", name);
    return muster_config_apply(walk->config, option, value, MUSTER_ORIGIN_FLAG,
                               place, error_out);
}

static muster_status walk_line(flag_walk walk, muster_error *error_out)
{
    muster_status status = MUSTER_OK;
    while (status == MUSTER_OK && walk.next < walk.argc) {
        const char *argument = walk.argv[walk.next++];
        status = strncmp(argument, "--", 2) == 0
                     ? flag(&walk, argument + 2, error_out)
                     : positional(&walk, argument, error_out);
    }
    return status;
}

muster_status muster_config_read_file(const char *path, muster_error *error_out,
                                      char **text_out, size_t *size_out)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_INPUT, "%s: %m", path);
    }
    muster_status status = MUSTER_OK;
    char *text = muster_mem_array(MUSTER_CONFIG_FILE_MAX + 1, 1);
    size_t size = 0;
    if (text == NULL) {
        status =
            muster_error_set(error_out, MUSTER_ERR_NO_MEMORY, "out of memory");
        goto out_close;
    }
    size = fread(text, 1, MUSTER_CONFIG_FILE_MAX + 1, file);
    if (ferror(file)) {
        status = muster_error_set(error_out, MUSTER_ERR_INPUT, "%s: %m", path);
    } else if (size > MUSTER_CONFIG_FILE_MAX) {
        status = muster_error_set(error_out, MUSTER_ERR_INPUT,
                                  "%s: longer than %u bytes", path,
                                  MUSTER_CONFIG_FILE_MAX);
    }
    if (status != MUSTER_OK) {
        muster_mem_free(text);
        goto out_close;
    }
    text[size] = '\0';
    *text_out = text;
    *size_out = size;
out_close:
    fclose(file);
    return status;
}

typedef muster_status (*file_reader)(muster_config *config, const char *text,
                                     size_t size, const char *file,
                                     muster_error *error_out);

static muster_status read_through(muster_config *config, const char *path,
                                  file_reader reader, muster_error *error_out)
{
    char *text = NULL;
    size_t size = 0;
    muster_status status =
        muster_config_read_file(path, error_out, &text, &size);
    if (status == MUSTER_OK) {
        status = reader(config, text, size, path, error_out);
        muster_mem_free(text);
    }
    return status;
}

/* --resume-or-start: one of the two. */
static muster_status choose_folder(muster_config *config,
                                   muster_error *error_out)
{
    const char *dir = muster_config_string(config, MUSTER_OPT_RESUME_OR_START);
    char path[PATH_LENGTH_MAX];
    if (dir == NULL) {
        return MUSTER_OK;
    }
    int length = snprintf(path, sizeof(path), "%s/config.json", dir);
    bool begun = length < (int)sizeof(path) && access(path, F_OK) == 0;
    return muster_config_apply(
        config, begun ? MUSTER_OPT_RESUME : MUSTER_OPT_RUN, dir,
        MUSTER_ORIGIN_FLAG, "--resume-or-start", error_out);
}

/* The options of the run in a folder. What is wrong in them is bad input: no
 * option of this command line. */
static muster_status read_run(muster_config *config, const char *folder,
                              muster_error *error_out)
{
    char path[PATH_LENGTH_MAX];
    if (snprintf(path, sizeof(path), "%s/config.json", folder) >=
        (int)sizeof(path)) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "--resume: the path is too long");
    }
    if (access(path, F_OK) != 0) {
        return muster_error_set(error_out, MUSTER_ERR_INPUT,
                                "--resume %.300s: there is no run to continue: "
                                "config.json: %s; --run DIR starts one",
                                folder, strerror(errno));
    }
    muster_status status =
        read_through(config, path, muster_config_read_json, error_out);
    if (status == MUSTER_ERR_INVALID) {
        status = MUSTER_ERR_INPUT;
        if (error_out != NULL) {
            error_out->status = status;
        }
    }
    return status;
}

static muster_status read_files(muster_config *config, muster_error *error_out)
{
    const char *resume = muster_config_string(config, MUSTER_OPT_RESUME);
    const char *yaml = muster_config_string(config, MUSTER_OPT_CONFIG);
    muster_status status =
        resume != NULL ? read_run(config, resume, error_out) : MUSTER_OK;
    if (status != MUSTER_OK) {
        return status;
    }
    return yaml == NULL
               ? MUSTER_OK
               : read_through(config, yaml, muster_config_read_yaml, error_out);
}

muster_status muster_config_parse(muster_config *config, int argc,
                                  const char *const *argv,
                                  muster_error *error_out)
{
    flag_walk walk = {.config = config, .argc = argc, .argv = argv};
    walk.files_only = true;
    muster_status status = walk_line(walk, error_out);
    if (status == MUSTER_OK) {
        status = choose_folder(config, error_out);
    }
    if (status == MUSTER_OK) {
        status = read_files(config, error_out);
    }
    if (status == MUSTER_OK) {
        walk.files_only = false;
        status = walk_line(walk, error_out);
    }
    return status;
}
