/*
 * arguments.c -- see arguments.h.
 */
#include "proc/arguments.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "base/mem.h"

muster_arguments muster_arguments_make(void)
{
    return (muster_arguments){.texts = muster_vec_make(sizeof(char *))};
}

void muster_arguments_fini(muster_arguments *arguments)
{
    char **texts = arguments->texts.data;
    for (size_t i = 0; i < arguments->texts.count; i++) {
        muster_mem_free(texts[i]);
    }
    muster_vec_fini(&arguments->texts);
}

void muster_arguments_add(muster_arguments *arguments, const char *text)
{
    char *copy = muster_mem_string(text);
    if (copy == NULL || !muster_vec_append(&arguments->texts, &copy, 1)) {
        arguments->failed = true;
        muster_mem_free(copy);
    }
}

void muster_arguments_add_option(muster_arguments *arguments, const char *name,
                                 const char *value)
{
    muster_arguments_add(arguments, name);
    muster_arguments_add(arguments, value);
}

void muster_arguments_add_number(muster_arguments *arguments, const char *name,
                                 uint64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%" PRIu64, value);
    muster_arguments_add_option(arguments, name, text);
}

char *const *muster_arguments_list(muster_arguments *arguments)
{
    size_t count = arguments->texts.count;
    if (arguments->failed ||
        !muster_vec_reserve(&arguments->texts, count + 1)) {
        return NULL;
    }
    char **texts = arguments->texts.data;
    texts[count] = NULL;
    return texts;
}
