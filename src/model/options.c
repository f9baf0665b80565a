/*
 * Options after a name. Numbers are read with strtod from a bounded copy, so
 * that a value in the middle of the text ends where the next comma is.
 */
#include "model/options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* The end of the pair that starts at `text`: the last comma before the next
 * '=' that is not its own, or the end of the text. */
static const char *pair_end(const char *text)
{
    const char *equals = strchr(text, '=');
    const char *next = equals != NULL ? strchr(equals + 1, '=') : NULL;
    if (next == NULL) {
        return text + strlen(text);
    }
    const char *end = next;
    while (end > equals && *end != ',') {
        end--;
    }
    return end > equals ? end : text + strlen(text);
}

bool muster_model_option_next(const char **cursor,
                              muster_model_option *option_out)
{
    const char *text = *cursor;
    if (*text == '\0') {
        return false;
    }
    const char *end = pair_end(text);
    const char *equals = memchr(text, '=', (size_t)(end - text));
    option_out->key = text;
    option_out->key_length = (size_t)((equals != NULL ? equals : end) - text);
    option_out->value = equals != NULL ? equals + 1 : NULL;
    option_out->value_length = equals != NULL ? (size_t)(end - equals - 1) : 0;
    *cursor = *end == ',' ? end + 1 : end;
    return true;
}

bool muster_model_option_is(const muster_model_option *option, const char *key)
{
    return strlen(key) == option->key_length &&
           memcmp(key, option->key, option->key_length) == 0;
}

bool muster_model_option_number(const muster_model_option *option,
                                double *number_out)
{
    char copy[64];
    if (option->value_length == 0 || option->value_length >= sizeof(copy)) {
        return false;
    }
    memcpy(copy, option->value, option->value_length);
    copy[option->value_length] = '\0';
    char *end = NULL;
    double number = strtod(copy, &end);
    if (*end != '\0' || !isfinite(number)) {
        return false;
    }
    *number_out = number;
    return true;
}

static const muster_model_setting *find(const muster_model_setting *settings,
                                        size_t count,
                                        const muster_model_option *option)
{
    for (size_t i = 0; i < count; i++) {
        if (muster_model_option_is(option, settings[i].key)) {
            return &settings[i];
        }
    }
    return NULL;
}

static muster_status refuse_key(const char *what,
                                const muster_model_option *option,
                                const muster_model_setting *settings,
                                size_t count, muster_error *error_out)
{
    char known[128] = "no options";
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        int wrote = snprintf(known + used, sizeof(known) - used, "%s%s=NUMBER",
                             i > 0 ? ", " : "", settings[i].key);
        if (wrote < 0 || (size_t)wrote >= sizeof(known) - used) {
            break;
        }
        used += (size_t)wrote;
    }
    return muster_error_set(error_out, MUSTER_ERR_INVALID,
                            "%s: unknown option '%.*s'; it takes %s", what,
                            (int)option->key_length, option->key, known);
}

muster_status muster_model_options_read(const char *what, const char *text,
                                        const muster_model_setting *settings,
                                        size_t count, muster_error *error_out)
{
    muster_model_option option;
    while (muster_model_option_next(&text, &option)) {
        const muster_model_setting *setting = find(settings, count, &option);
        if (setting == NULL) {
            return refuse_key(what, &option, settings, count, error_out);
        }
        double number = 0;
        if (!muster_model_option_number(&option, &number) ||
            number < setting->least || number > setting->most ||
            (setting->whole && floor(number) != number)) {
            return muster_error_set(
                error_out, MUSTER_ERR_INVALID,
                "%s: %s=%.*s must be a%s number from %g to %g", what,
                setting->key, (int)option.value_length,
                option.value != NULL ? option.value : "",
                setting->whole ? " whole" : "", setting->least, setting->most);
        }
        *setting->number = number;
    }
    return MUSTER_OK;
}
