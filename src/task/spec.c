/*
 * spec.c -- the options behind a model's name, and the list of tasks.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "task/tasks.h"

#define VALUE_MAX 64u
#define NAMES_MAX 256u

static const muster_task_ops *const tasks[] = {
    &muster_task_mf, &muster_task_complex, &muster_task_distmult,
    &muster_task_transe, &muster_task_skipgram};

const muster_task_ops *muster_task_find(const char *model)
{
    size_t length = strcspn(model, ":");
    for (size_t i = 0; i < sizeof(tasks) / sizeof(tasks[0]); i++) {
        if (strlen(tasks[i]->name) == length &&
            strncmp(tasks[i]->name, model, length) == 0) {
            return tasks[i];
        }
    }
    return NULL;
}

/* The index of `value` in "a|b|c", or -1. */
static int find_word(const char *words, const char *value)
{
    size_t length = strlen(value);
    for (int index = 0; *words != '\0'; index++) {
        size_t word = strcspn(words, "|");
        if (word == length && strncmp(words, value, word) == 0) {
            return index;
        }
        words += word + (words[word] == '|');
    }
    return -1;
}

static muster_status set_field(const char *spec, const muster_spec_field *field,
                               const char *value, char *into,
                               muster_error *error_out)
{
    if (field->type == MUSTER_SPEC_WORD) {
        int index = find_word(field->words, value);
        if (index < 0) {
            return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                    "--model %s: %s=%s: expected one of %s",
                                    spec, field->name, value, field->words);
        }
        uint32_t chosen = (uint32_t)index;
        memcpy(into + field->offset, &chosen, sizeof(chosen));
        return MUSTER_OK;
    }
    char *end;
    double number = strtod(value, &end);
    bool whole = field->type != MUSTER_SPEC_UINT || number == floor(number);
    if (end == value || *end != '\0' || !whole ||
        !(number >= field->least && number <= field->most)) {
        return muster_error_set(
            error_out, MUSTER_ERR_INVALID,
            "--model %s: %s=%s: expected %s in %g..%g", spec, field->name,
            value, field->type == MUSTER_SPEC_UINT ? "an integer" : "a number",
            field->least, field->most);
    }
    if (field->type == MUSTER_SPEC_UINT) {
        uint32_t count = (uint32_t)number;
        memcpy(into + field->offset, &count, sizeof(count));
    } else {
        memcpy(into + field->offset, &number, sizeof(number));
    }
    return MUSTER_OK;
}

static const muster_spec_field *find_field(const muster_spec_field *fields,
                                           size_t count, const char *name,
                                           size_t length)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(fields[i].name) == length &&
            strncmp(fields[i].name, name, length) == 0) {
            return &fields[i];
        }
    }
    return NULL;
}

static muster_status unknown(const char *spec, const char *item, size_t length,
                             const muster_spec_field *fields, size_t count,
                             muster_error *error_out)
{
    char names[NAMES_MAX] = "";
    for (size_t i = 0; i < count; i++) {
        size_t used = strlen(names);
        (void)snprintf(names + used, sizeof(names) - used, "%s%s",
                       i > 0 ? ", " : "", fields[i].name);
    }
    return muster_error_set(error_out, MUSTER_ERR_INVALID,
                            "--model %s: '%.*s': expected name=value with one "
                            "of %s",
                            spec, (int)length, item, names);
}

muster_status muster_spec_parse(const char *spec,
                                const muster_spec_field *fields, size_t count,
                                void *into, muster_error *error_out)
{
    const char *item = strchr(spec, ':');
    item = item == NULL ? "" : item + 1;
    while (*item != '\0') {
        size_t length = strcspn(item, ",");
        size_t name = strcspn(item, "=");
        const muster_spec_field *field =
            name < length ? find_field(fields, count, item, name) : NULL;
        char value[VALUE_MAX];
        if (field == NULL || length - name - 1 >= sizeof(value)) {
            return unknown(spec, item, length, fields, count, error_out);
        }
        memcpy(value, item + name + 1, length - name - 1);
        value[length - name - 1] = '\0';
        muster_status status = set_field(spec, field, value, into, error_out);
        if (status != MUSTER_OK) {
            return status;
        }
        item += length + (item[length] == ',');
    }
    return MUSTER_OK;
}
