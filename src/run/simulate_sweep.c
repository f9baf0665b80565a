/*
 * simulate_sweep.c -- see simulate_sweep.h.
 *
 * The first range of every name is replaced by its numbers, until no name has a
 * range.
 */
#include "run/simulate_sweep.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/value.h"

#define DIGITS      "0123456789"
#define DIGITS_MAX  9u
#define FILE_PREFIX "linear:file=" // a path may have dots

/* FIRST..LAST in a name. */
typedef struct range {
    const char *begin; // NULL: there is none
    const char *end;
    uint64_t first, last;
} range;

static bool read_number(const char *at, size_t length, uint64_t *value_out)
{
    char digits[DIGITS_MAX + 1] = "";
    if (length == 0 || length > DIGITS_MAX) {
        return false;
    }
    memcpy(digits, at, length);
    return muster_value_uint(digits, value_out);
}

/* The first range of a name; false when what looks like one is none. */
static bool find_range(const char *name, range *range_out)
{
    *range_out = (range){0};
    if (strncmp(name, FILE_PREFIX, strlen(FILE_PREFIX)) == 0) {
        return true;
    }
    for (const char *at = strchr(name, '='); at != NULL; at = strchr(at, '=')) {
        at++;
        size_t digits = strspn(at, DIGITS);
        const char *dots = at + digits;
        if (strncmp(dots, "..", 2) != 0) {
            continue;
        }
        size_t more = strspn(dots + 2, DIGITS);
        *range_out = (range){.begin = at, .end = dots + 2 + more};
        return (*range_out->end == ',' || *range_out->end == 0) &&
               read_number(at, digits, &range_out->first) &&
               read_number(dots + 2, more, &range_out->last) &&
               range_out->first <= range_out->last;
    }
    return true;
}

static muster_status add_name(muster_vec *names, char *name,
                              muster_error *error)
{
    if (name == NULL || !muster_vec_append(names, &name, 1)) {
        muster_mem_free(name);
        return muster_error_set(error, MUSTER_ERR_NO_MEMORY, "no memory");
    }
    if (names->count > MUSTER_SWEEP_CODES_MAX) {
        return muster_error_set(error, MUSTER_ERR_INVALID,
                                "--code: more than %u codes",
                                MUSTER_SWEEP_CODES_MAX);
    }
    return MUSTER_OK;
}

/* The name with `value` in the place of the range. */
static char *fill_in(const char *name, const range *of, uint64_t value)
{
    size_t before = (size_t)(of->begin - name);
    size_t size = strlen(name) + 2 * (size_t)DIGITS_MAX;
    char *text = muster_mem_array(size, 1);
    if (text != NULL) {
        memcpy(text, name, before);
        snprintf(text + before, size - before, "%" PRIu64 "%s", value, of->end);
    }
    return text;
}

static muster_status add_range(muster_vec *names, const char *name,
                               const range *of, muster_error *error)
{
    muster_status status = MUSTER_OK;
    for (uint64_t value = of->first; value <= of->last && status == MUSTER_OK;
         value++) {
        status = add_name(names, fill_in(name, of, value), error);
    }
    return status;
}

static muster_status split(const char *text, muster_error *error,
                           muster_vec *names)
{
    const char *at = text;
    while (at != NULL) {
        size_t length = strcspn(at, "+");
        if (length == 0) {
            return muster_error_set(error, MUSTER_ERR_INVALID,
                                    "--code %.200s: a code is missing; write "
                                    "them as uncoded+frc:s=1",
                                    text);
        }
        muster_status status =
            add_name(names, muster_mem_string_n(at, length), error);
        if (status != MUSTER_OK) {
            return status;
        }
        at = at[length] == '+' ? at + length + 1 : NULL;
    }
    return MUSTER_OK;
}

/* Replace the first range of every name; *found_out: there was one. */
static muster_status expand(muster_vec *names, muster_error *error,
                            bool *found_out)
{
    muster_vec wider = muster_vec_make(sizeof(char *));
    muster_status status = MUSTER_OK;
    *found_out = false;
    char **all = names->data;
    for (size_t i = 0; i < names->count && status == MUSTER_OK; i++) {
        range of;
        if (!find_range(all[i], &of)) {
            status = muster_error_set(
                error, MUSTER_ERR_INVALID,
                "--code %.64s: a range is FIRST..LAST, such as s=1..3", all[i]);
        } else if (of.begin != NULL) {
            *found_out = true;
            status = add_range(&wider, all[i], &of, error);
        } else {
            status = add_name(&wider, muster_mem_string(all[i]), error);
        }
    }
    muster_sweep_fini(names);
    *names = wider;
    return status;
}

muster_status muster_sweep_init(const char *text, muster_error *error_out,
                                muster_vec *names_out)
{
    muster_vec names = muster_vec_make(sizeof(char *));
    muster_status status = split(text, error_out, &names);
    bool found = true;
    while (found && status == MUSTER_OK) {
        status = expand(&names, error_out, &found);
    }
    if (status != MUSTER_OK) {
        muster_sweep_fini(&names);
        return status;
    }
    *names_out = names;
    return MUSTER_OK;
}

void muster_sweep_fini(muster_vec *names)
{
    char **all = names->data;
    for (size_t i = 0; i < names->count; i++) {
        muster_mem_free(all[i]);
    }
    muster_vec_fini(names);
}
