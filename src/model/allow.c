/*
 * allow.c -- see allow.h.
 */
#include "model/allow.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "model/model.h"

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* "sha256 HEX" of a file, for people. */
static void describe_file(const char *path, char *text, size_t room)
{
    char digest[MUSTER_SHA256_TEXT];
    if (muster_sha256_file(path, digest)) {
        (void)snprintf(text, room, "sha256 %s", digest);
    } else {
        (void)snprintf(text, room, "no such file here");
    }
}

/* Has the file `allowed` the name that `path` ends with? */
static bool is_allowed(const char *path, const char *allowed)
{
    size_t length = allowed != NULL ? muster_model_plugin_path(allowed) : 0;
    const char *name = file_name(path);
    const char *mine = length > 0 ? file_name(allowed) : "";
    return length > 0 && strlen(name) == (size_t)(allowed + length - mine) &&
           strncmp(name, mine, strlen(name)) == 0;
}

static muster_status refuse(const char *path, const char *whose,
                            muster_error *error_out)
{
    char about[96];
    describe_file(path, about, sizeof(about));
    return muster_error_set(
        error_out, MUSTER_ERR_INVALID,
        "%.120s's model is code, %.160s (%s): to run it here, get the file "
        "from whom you trust and give --allow-model PATH/%.60s",
        whose, path, about, file_name(path));
}

/* `spec` with the path `allowed` in place of its first `length` bytes. */
static muster_status replace_path(const char *spec, size_t length,
                                  const char *allowed, muster_error *error_out,
                                  char **spec_out)
{
    size_t kept = length > 0 ? muster_model_plugin_path(allowed) : 0;
    size_t room = kept + strlen(spec + length) + 1;
    char *chosen = muster_mem_array(room, 1);
    if (chosen == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "out of memory for the model");
    }
    (void)snprintf(chosen, room, "%.*s%s", (int)kept, length > 0 ? allowed : "",
                   spec + length);
    *spec_out = chosen;
    return MUSTER_OK;
}

muster_status muster_model_allow(const char *spec, const char *allowed,
                                 const char *whose, muster_error *error_out,
                                 char **spec_out)
{
    size_t length = muster_model_plugin_path(spec);
    char *path = muster_mem_string_n(spec, length);
    muster_status status = MUSTER_OK;
    if (path == NULL) {
        status = muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                  "out of memory for the model");
    } else if (length > 0 && !is_allowed(path, allowed)) {
        status = refuse(path, whose, error_out);
    } else {
        status = replace_path(spec, length, allowed, error_out, spec_out);
    }
    muster_mem_free(path);
    return status;
}

muster_status muster_model_allow_check(const char *allowed,
                                       muster_error *error_out)
{
    return allowed == NULL || muster_model_plugin_path(allowed) > 0
               ? MUSTER_OK
               : muster_error_set(error_out, MUSTER_ERR_INVALID,
                                  "--allow-model %.200s: expected the path of "
                                  "a shared object, such as ./mine.so",
                                  allowed);
}

void muster_model_tell_code(const char *spec)
{
    size_t length = spec != NULL ? muster_model_plugin_path(spec) : 0;
    char *path = length > 0 ? muster_mem_string_n(spec, length) : NULL;
    char about[96];
    if (path != NULL) {
        describe_file(path, about, sizeof(about));
        muster_log(MUSTER_LOG_INFO, "the model is code: %s, %s", path, about);
    }
    muster_mem_free(path);
}
