/*
 * spec.c -- parses code names, by base/spec.h. Every length is bounded.
 */
#include "code/spec.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/spec.h"
#include "base/suggest.h"
#include "base/value.h"

#define FILE_PREFIX "linear:file="

static muster_status bad(muster_error *error, const char *name, const char *why)
{
    return muster_error_set(error, MUSTER_ERR_INVALID,
                            "code '%.64s': %s; write NAME or NAME:s=2,m=3",
                            name, why);
}

static bool copy_piece(char *to, const char *from, size_t length)
{
    if (length == 0 || length >= MUSTER_CODE_SPEC_TEXT_MAX) {
        return false;
    }
    memcpy(to, from, length);
    to[length] = '\0';
    return true;
}

#define COMMON_KEYS "s,m,d,seed,force" // every family knows them

enum common_key { KEY_S, KEY_M, KEY_D, KEY_SEED, KEY_FORCE, COMMON_COUNT };

static const char *const common[COMMON_COUNT] = {"s", "m", "d", "seed",
                                                 "force"};

/* Which of the keys that every family knows, or COMMON_COUNT. */
static uint32_t common_key(const char *key)
{
    uint32_t which = 0;
    while (which < COMMON_COUNT && strcmp(common[which], key) != 0) {
        which++;
    }
    return which;
}

static void take_common(muster_code_spec *spec, enum common_key which,
                        uint64_t value)
{
    uint32_t number = value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
    spec->common_given |= 1u << which;
    switch (which) {
    case KEY_S:
        spec->stragglers = number;
        break;
    case KEY_M:
        spec->comm = number;
        break;
    case KEY_D:
        spec->load = number;
        break;
    case KEY_SEED:
        spec->seed = value;
        break;
    case KEY_FORCE:
        spec->force = value != 0;
        break;
    case COMMON_COUNT:
        break;
    }
}

/* Was this key, of all families or of one, taken before? */
static bool was_given(const muster_code_spec *spec, const char *key)
{
    uint32_t which = common_key(key);
    return which < COMMON_COUNT
               ? (spec->common_given >> which & 1u) != 0
               : muster_code_spec_option_get(spec, key) != NULL;
}

static muster_status take_pair(muster_code_spec *spec, const char *name,
                               const muster_spec_pair *pair,
                               muster_error *error)
{
    muster_code_spec_option option;
    if (pair->value == NULL) {
        return bad(error, name, "a parameter has no '='");
    }
    if (!copy_piece(option.key, pair->key, pair->key_length) ||
        !copy_piece(option.value, pair->value, pair->value_length)) {
        return bad(error, name, "a parameter is empty or too long");
    }
    if (was_given(spec, option.key)) {
        return muster_error_set(error, MUSTER_ERR_INVALID,
                                "code %s: %s= is given twice", spec->family,
                                option.key);
    }
    uint32_t which = common_key(option.key);
    if (which < COMMON_COUNT) {
        uint64_t value;
        if (!muster_value_uint(option.value, &value)) {
            return muster_error_set(error, MUSTER_ERR_INVALID,
                                    "code %s: %s=%s: expected a whole number",
                                    spec->family, option.key, option.value);
        }
        take_common(spec, (enum common_key)which, value);
        return MUSTER_OK;
    }
    if (spec->option_count == MUSTER_CODE_SPEC_OPTIONS_MAX) {
        return bad(error, name, "too many parameters");
    }
    spec->options[spec->option_count++] = option;
    return MUSTER_OK;
}

/* The name up to its parameters; returns where they start. */
static const char *take_family(muster_code_spec *spec, const char *name,
                               bool *fits_out)
{
    size_t length = strcspn(name, ":");
    if (length == 6 && strncmp(name, "linear", 6) == 0 && name[6] == ':') {
        length += 1 + strcspn(name + 7, ":,");
    }
    *fits_out = copy_piece(spec->family, name, length);
    return name + length + (name[length] != '\0');
}

/* PATH or PATH:d=NUMBER. */
static muster_status take_path(muster_code_spec *spec, const char *name,
                               const char *path, muster_error *error)
{
    size_t length = strlen(path);
    const char *stated = strrchr(path, ':');
    if (stated != NULL && strncmp(stated, ":d=", 3) == 0) {
        uint64_t value;
        if (!muster_value_uint(stated + 3, &value) || value == 0 ||
            value > MUSTER_CODE_WORKERS_MAX) {
            return muster_error_set(error, MUSTER_ERR_INVALID,
                                    "code linear:file: d=%.32s: expected the "
                                    "minimum distance, a whole number from 1 "
                                    "to %u",
                                    stated + 3, MUSTER_CODE_WORKERS_MAX);
        }
        spec->distance = (uint32_t)value;
        length = (size_t)(stated - path);
    }
    if (length == 0 || length >= MUSTER_CODE_SPEC_PATH_MAX) {
        return bad(error, name, "the path is empty or too long");
    }
    memcpy(spec->path, path, length);
    spec->path[length] = '\0';
    memcpy(spec->family, "linear:file", sizeof("linear:file"));
    return MUSTER_OK;
}

static muster_status take_name(muster_code_spec *spec, const char *name,
                               muster_error *error)
{
    size_t prefix = strlen(FILE_PREFIX);
    if (strncmp(name, FILE_PREFIX, prefix) == 0) {
        return take_path(spec, name, name + prefix, error);
    }
    bool fits;
    const char *rest = take_family(spec, name, &fits);
    if (!fits) {
        return bad(error, name, "the name is empty or too long");
    }
    if (*rest == '\0' && rest[-1] == ':') {
        return bad(error, name, "a parameter has no '='");
    }
    muster_spec_pair pair;
    while (muster_spec_next(&rest, &pair)) {
        muster_status status = take_pair(spec, name, &pair, error);
        if (status != MUSTER_OK) {
            return status;
        }
    }
    return MUSTER_OK;
}

muster_status muster_code_spec_parse(const muster_code_opts *opts,
                                     muster_error *error,
                                     muster_code_spec *spec_out)
{
    muster_code_spec *spec = spec_out;
    if (opts == NULL || opts->struct_size != sizeof(*opts)) {
        return muster_error_set(error, MUSTER_ERR_INVALID,
                                "muster_code_opts: start from "
                                "MUSTER_CODE_OPTS_INIT");
    }
    if (opts->name == NULL) {
        return muster_error_set(error, MUSTER_ERR_INVALID,
                                "a code needs a name, e.g. frc:s=1");
    }
    memset(spec, 0, sizeof(*spec));
    spec->workers = opts->workers;
    spec->stragglers = opts->stragglers;
    spec->comm = opts->comm;
    spec->load = opts->load;
    spec->speeds = opts->speeds;
    spec->seed = opts->seed;
    spec->topology = opts->topology;
    muster_status status = take_name(spec, opts->name, error);
    if (status != MUSTER_OK) {
        return status;
    }
    if (spec->workers == 0 || spec->workers > MUSTER_CODE_WORKERS_MAX) {
        return muster_error_set(
            error, MUSTER_ERR_INVALID, "%s: %u workers; 1 to %u are possible",
            spec->family, spec->workers, MUSTER_CODE_WORKERS_MAX);
    }
    if (spec->stragglers >= spec->workers) {
        return muster_error_set(
            error, MUSTER_ERR_UNSUPPORTED,
            "%s: %u stragglers of %u workers leave nobody; at most %u",
            spec->family, spec->stragglers, spec->workers, spec->workers - 1);
    }
    return MUSTER_OK;
}

const char *muster_code_spec_option_get(const muster_code_spec *spec,
                                        const char *key)
{
    for (uint32_t i = 0; i < spec->option_count; i++) {
        if (strcmp(spec->options[i].key, key) == 0) {
            return spec->options[i].value;
        }
    }
    return NULL;
}

muster_status muster_code_spec_option_number(const muster_code_spec *spec,
                                             const char *key, uint32_t low,
                                             uint32_t high, muster_error *error,
                                             uint32_t *value_out)
{
    const char *text = muster_code_spec_option_get(spec, key);
    uint64_t value;
    if (text == NULL) {
        return MUSTER_OK;
    }
    bool whole = muster_value_uint(text, &value);
    if (!whole || value < low || value > high) {
        return muster_error_set(
            error, whole ? MUSTER_ERR_UNSUPPORTED : MUSTER_ERR_INVALID,
            "code %s: %s=%s: expected a whole number from %u to %u",
            spec->family, key, text, low, high);
    }
    *value_out = (uint32_t)value;
    return MUSTER_OK;
}

static bool listed(const char *known, const char *key)
{
    size_t length = strlen(key);
    while (*known != '\0') {
        size_t piece = strcspn(known, ",");
        if (piece == length && strncmp(known, key, length) == 0) {
            return true;
        }
        known += piece + (known[piece] == ',');
    }
    return false;
}

muster_status muster_code_spec_accept(const muster_code_spec *spec,
                                      const char *known, muster_error *error)
{
    for (uint32_t i = 0; i < spec->option_count; i++) {
        if (!listed(known, spec->options[i].key)) {
            const char *key = spec->options[i].key;
            char place[2 * MUSTER_CODE_SPEC_TEXT_MAX];
            muster_suggestion meant = muster_suggestion_make(key, strlen(key));
            muster_suggestion_add_list(&meant, COMMON_KEYS, ',');
            muster_suggestion_add_list(&meant, known, ',');
            (void)snprintf(place, sizeof(place), "code %s: parameter ",
                           spec->family);
            return muster_suggestion_fail(&meant, place, error);
        }
    }
    return MUSTER_OK;
}

muster_status muster_code_spec_balance(muster_code_spec *spec,
                                       muster_error *error)
{
    uint64_t n = spec->workers;
    uint64_t m = spec->comm > 0 ? spec->comm : 1;
    uint64_t s = spec->stragglers;
    uint64_t d = spec->load > 0 ? spec->load : s + m;
    if (d > n) {
        return muster_error_set(
            error, MUSTER_ERR_UNSUPPORTED,
            "%s: load d = %llu is more than the %llu parts; s + m <= d <= %llu "
            "is needed (s = %llu, m = %llu)",
            spec->family, (unsigned long long)d, (unsigned long long)n,
            (unsigned long long)n, (unsigned long long)s,
            (unsigned long long)m);
    }
    uint64_t min = s + m;
    if (min > d) {
        return muster_error_set(
            error, MUSTER_ERR_UNSUPPORTED,
            "%s: m = %llu is more than d - s = %llu - %llu; give a load of at "
            "least %llu",
            spec->family, (unsigned long long)m, (unsigned long long)d,
            (unsigned long long)s, (unsigned long long)min);
    }
    spec->comm = (uint32_t)m;
    spec->load = (uint32_t)d;
    spec->stragglers = (uint32_t)(d - m);
    return MUSTER_OK;
}

muster_status muster_code_spec_whole(const muster_code_spec *spec,
                                     muster_error *error)
{
    if (spec->comm > 1) {
        return muster_error_set(
            error, MUSTER_ERR_UNSUPPORTED,
            "%s sends whole gradients (m = 1); for m = %u use linear:tuned or "
            "ye-abbe-tuned",
            spec->family, spec->comm);
    }
    return MUSTER_OK;
}

muster_status muster_code_spec_settle(muster_code_spec *spec, const char *known,
                                      muster_error *error)
{
    muster_status status = muster_code_spec_accept(spec, known, error);
    if (status == MUSTER_OK) {
        status = muster_code_spec_whole(spec, error);
    }
    return status == MUSTER_OK ? muster_code_spec_balance(spec, error) : status;
}
