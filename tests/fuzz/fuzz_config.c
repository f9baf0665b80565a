/*
 * fuzz_config.c -- hostile option texts: the first byte picks the door (YAML,
 * JSON, flags separated by newlines), the rest goes through it. What gets in
 * must survive check, and JSON there and back.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "config/state.h"

#define FLAGS_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static muster_status take_flags(muster_config *config, char *text)
{
    const char *argv[FLAGS_MAX];
    int argc = 0;
    for (char *at = text; at != NULL && argc < FLAGS_MAX;) {
        char *end = strchr(at, '\n');
        if (end != NULL) {
            *end++ = '\0';
        }
        // Files named by the input are not for a fuzzer to open.
        if (strncmp(at, "--config", 8) != 0 &&
            strncmp(at, "--resume", 8) != 0) {
            argv[argc++] = at;
        }
        at = end;
    }
    return muster_config_parse(config, argc, argv, NULL);
}

static muster_status enter(muster_config *config, uint8_t door, char *text,
                           size_t size)
{
    switch (door % 3) {
    case 0:
        return muster_config_read_yaml(config, text, size, "f", NULL);
    case 1:
        return muster_config_read_json(config, text, size, "f", NULL);
    default:
        return take_flags(config, text);
    }
}

static void round_trip(const muster_config *config)
{
    char *json = muster_config_to_json(config);
    MUSTER_ASSERT(json != NULL);
    muster_config *copy = NULL;
    muster_status status = muster_config_from_json(json, NULL, &copy);
    MUSTER_ASSERT(status == MUSTER_OK);
    char *again = muster_config_to_json(copy);
    MUSTER_ASSERT(again != NULL && strcmp(json, again) == 0);
    muster_config_text_free(again);
    muster_config_text_free(json);
    muster_config_free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    muster_config *config = NULL;
    char *text = muster_mem_string_n((const char *)data + 1, size - 1);
    if (text == NULL || muster_config_create("train", &config) != MUSTER_OK) {
        abort();
    }
    muster_error error;
    if (enter(config, data[0], text, size - 1) == MUSTER_OK &&
        muster_config_check(config, &error) == MUSTER_OK) {
        round_trip(config);
    }
    muster_config_free(config);
    muster_mem_free(text);
    return 0;
}
