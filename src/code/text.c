/*
 * text.c -- growing texts.
 */
#include "code/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

muster_code_text muster_code_text_make(void)
{
    return (muster_code_text){muster_vec_make(1), false};
}

void muster_code_text_add(muster_code_text *text, const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    text->failed |= !muster_vec_append(&text->bytes, line, strlen(line));
}

void muster_code_text_number(muster_code_text *text, const char *key,
                             double value)
{
    if (isfinite(value)) {
        muster_code_text_add(text, ", \"%s\": %.6g", key, value);
    } else {
        muster_code_text_add(text, ", \"%s\": null", key);
    }
}

char *muster_code_text_finish(muster_code_text *text)
{
    char *copy = text->failed
                     ? NULL
                     : muster_mem_string_n(text->bytes.data, text->bytes.count);
    muster_vec_fini(&text->bytes);
    return copy;
}
