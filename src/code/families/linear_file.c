/*
 * linear_file.c -- linear:file=PATH, a generator of the user's own.
 *
 * Text: k' lines of n' numbers, separated by blanks or commas; empty lines and
 * what follows a # are skipped. Its rank must be k'; the minimum distance over
 * the reals is computed and sets the tolerance. Where that takes too long the
 * user may state it (:d=8), and it is checked on some sets, on the rows and on
 * their sums and differences by twos. This is the one place where src/code
 * opens a file: the matrix is an argument, given by name.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/vec.h"
#include "code/choose.h"
#include "code/families/families.h"
#include "code/families/linear.h"
#include "code/generator.h"
#include "code/matrix_text.h"

#define FILE_BYTES_MAX (1u << 20)

/* Choices of columns to look at for the distance: about a second. */
#define CHOICES_MAX 1000000u

/* Sets of lost columns that a stated distance is checked on. */
#define STATED_SETS 2000u

/* The path takes all commas in: say so where a distance seems to follow one. */
static muster_status refuse_path(const char *path, const char *why,
                                 muster_error *error)
{
    const char *comma = strstr(path, ",d=");
    if (comma == NULL) {
        return muster_error_set(error, MUSTER_ERR_INPUT, "%.200s: %s", path,
                                why);
    }
    return muster_error_set(error, MUSTER_ERR_INPUT,
                            "%.200s: %s; a distance follows the path after a "
                            "colon: linear:file=%.*s:%.16s",
                            path, why, (int)(comma - path), path, comma + 1);
}

static muster_status read_whole(const char *path, muster_error *error,
                                char **text_out)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return refuse_path(path, strerror(errno), error);
    }
    char *text = muster_mem_array(FILE_BYTES_MAX + 1, 1);
    muster_status status = MUSTER_ERR_NO_MEMORY;
    if (text != NULL) {
        size_t size = fread(text, 1, FILE_BYTES_MAX + 1, file);
        status = MUSTER_OK;
        if (ferror(file) != 0) {
            status = muster_error_set(error, MUSTER_ERR_INPUT,
                                      "%.200s: cannot be read", path);
        } else if (size > FILE_BYTES_MAX || memchr(text, '\0', size) != NULL) {
            status = muster_error_set(error, MUSTER_ERR_INPUT,
                                      "%.200s: not a text of at most %u bytes",
                                      path, FILE_BYTES_MAX);
        }
    }
    if (fclose(file) != 0 && status == MUSTER_OK) {
        status = muster_error_set(error, MUSTER_ERR_INPUT,
                                  "%.200s: cannot be read", path);
    }
    if (status != MUSTER_OK) {
        muster_mem_free(text);
        return status;
    }
    *text_out = text;
    return MUSTER_OK;
}

static muster_status copy_generate(void *context, uint32_t workers,
                                   double *generator_out, muster_error *error)
{
    const muster_generator *given = context;
    (void)error;
    for (uint32_t u = 0; u < given->rows; u++) {
        memcpy(generator_out + (size_t)u * workers,
               given->entries + (size_t)u * given->columns,
               given->columns * sizeof(double));
    }
    muster_linear_repeat(generator_out, given->rows, given->columns, workers);
    return MUSTER_OK;
}

/* How many places of row u + sign * row v are not 0. */
static uint32_t weight_of(const muster_generator *g, uint32_t u, uint32_t v,
                          double sign)
{
    const double *x = g->entries + (size_t)u * g->columns;
    const double *y = g->entries + (size_t)v * g->columns;
    uint32_t weight = 0;
    for (uint32_t c = 0; c < g->columns; c++) {
        weight += x[c] + sign * y[c] != 0.0; // of whole numbers exact
    }
    return weight;
}

static muster_status refuse_weight(const muster_code_spec *spec,
                                   const char *what, uint32_t weight,
                                   muster_error *error)
{
    return muster_error_set(error, MUSTER_ERR_UNSUPPORTED,
                            "%.200s: d=%u is stated, and %s has a weight of "
                            "%u: the distance is smaller",
                            spec->path, spec->distance, what, weight);
}

/* No row, and no sum or difference of two, may be lighter than the distance. */
static muster_status check_weights(const muster_code_spec *spec,
                                   const muster_generator *g,
                                   muster_error *error)
{
    char what[64];
    for (uint32_t u = 0; u < g->rows; u++) {
        uint32_t weight = weight_of(g, u, u, 0.0);
        if (weight < spec->distance) {
            (void)snprintf(what, sizeof(what), "row %u", u);
            return refuse_weight(spec, what, weight, error);
        }
    }
    for (uint32_t u = 0; u < g->rows; u++) {
        for (uint32_t v = 0; v < 2 * u; v++) {
            bool minus = v % 2 == 0;
            uint32_t weight = weight_of(g, u, v / 2, minus ? -1.0 : 1.0);
            if (weight < spec->distance) {
                (void)snprintf(what, sizeof(what), "row %u %s row %u", u,
                               minus ? "-" : "+", v / 2);
                return refuse_weight(spec, what, weight, error);
            }
        }
    }
    return MUSTER_OK;
}

/* What was stated of the distance, where finding it takes too long: bounds that
 * every code keeps, and random sets of lost columns. */
static muster_status check_stated(const muster_code_spec *spec,
                                  const muster_generator *g,
                                  muster_error *error)
{
    uint32_t stated = spec->distance;
    if (stated == 0) {
        return muster_error_set(error, MUSTER_ERR_UNSUPPORTED,
                                "%.200s: the minimum distance of a %u x %u "
                                "matrix takes too long to find: more than 10^6 "
                                "choices of %u columns; if you know it, state "
                                "it: linear:file=PATH:d=NUMBER",
                                spec->path, g->rows, g->columns, g->rows - 1);
    }
    if (stated > g->columns - g->rows + 1) {
        return muster_error_set(error, MUSTER_ERR_UNSUPPORTED,
                                "%.200s: d=%u is stated; a %u x %u matrix has "
                                "at most %u",
                                spec->path, stated, g->rows, g->columns,
                                g->columns - g->rows + 1);
    }
    muster_generator_survey survey;
    muster_status status = check_weights(spec, g, error);
    if (status != MUSTER_OK) {
        return status;
    }
    status = muster_generator_survey_run(g, g->columns - stated + 1,
                                         STATED_SETS, &survey);
    if (status == MUSTER_OK && isinf(survey.error_worst)) {
        return muster_error_set(error, MUSTER_ERR_UNSUPPORTED,
                                "%.200s: d=%u is stated, and the rank falls "
                                "below %u without some %u columns: the "
                                "distance over the reals is smaller",
                                spec->path, stated, g->rows, stated - 1);
    }
    return status;
}

/* The distance; *stated_out: as stated, not found. */
static muster_status find_distance(const muster_code_spec *spec,
                                   const muster_generator *g,
                                   muster_error *error, uint32_t *distance_out,
                                   bool *stated_out)
{
    uint32_t distance = 1;
    muster_status status = muster_generator_distance(g, CHOICES_MAX, &distance);
    if (status == MUSTER_ERR_UNSUPPORTED && distance == 0) {
        return muster_error_set(error, status,
                                "%.200s: the %u x %u matrix has a rank below "
                                "%u; its rows must be independent",
                                spec->path, g->rows, g->columns, g->rows);
    }
    *stated_out = status == MUSTER_ERR_UNSUPPORTED;
    if (*stated_out) {
        *distance_out = spec->distance;
        return check_stated(spec, g, error);
    }
    *distance_out = distance;
    return status;
}

/* What was asked for against what the matrix gives. */
static muster_status check(const muster_code_spec *spec,
                           const muster_generator *g, uint32_t distance,
                           muster_error *error)
{
    bool fits = spec->stragglers < distance && spec->distance <= distance &&
                (spec->comm == 0 || spec->comm == g->rows) &&
                (spec->load == 0 || spec->load == g->columns);
    if (!fits) {
        return muster_error_set(
            error, MUSTER_ERR_UNSUPPORTED,
            "%.200s: the matrix is a [%u, %u, %u] code over the reals: d = %u, "
            "m = %u, s <= %u",
            spec->path, g->columns, g->rows, distance, g->columns, g->rows,
            distance - 1);
    }
    return MUSTER_OK;
}

static muster_status build(muster_code *code, const muster_code_spec *spec,
                           muster_error *error)
{
    char *text = NULL;
    muster_generator given = {0, 0, NULL};
    uint32_t distance = 0;
    bool stated = false;
    if (spec->path[0] == '\0') {
        return muster_error_set(error, MUSTER_ERR_INVALID,
                                "linear:file needs a path: linear:file=PATH");
    }
    muster_status status = read_whole(spec->path, error, &text);
    if (status != MUSTER_OK) {
        return status;
    }
    status = muster_matrix_text_parse(text, spec->path, error, &given);
    muster_mem_free(text);
    if (status == MUSTER_OK) {
        status = find_distance(spec, &given, error, &distance, &stated);
    }
    if (status == MUSTER_OK) {
        status = check(spec, &given, distance, error);
    }
    if (status == MUSTER_OK) {
        muster_group_plan plan = {
            .length = given.columns,
            .blocks = given.rows,
            .stragglers = distance - 1,
            // Copies of a column spoil "any m": only without extra workers.
            .any_blocks_do = distance == given.columns - given.rows + 1 &&
                             spec->workers % given.columns == 0,
            .generate = copy_generate,
            .context = &given,
            .instead = "linear:tuned with the same s and m",
            .by_speed = true};
        status = muster_group_build(code, spec, &plan, error);
    }
    if (status == MUSTER_OK && stated) {
        muster_code_warn(code,
                         "the distance %u is as stated, checked on %u sets of "
                         "%u lost columns, not on all",
                         distance, STATED_SETS, distance - 1);
    }
    muster_mem_free(given.entries);
    return status;
}

const muster_code_ops muster_code_linear_file = MUSTER_LINEAR_OPS(
    "file", build, "=PATH of a k' x n' matrix of rank k'; n >= n'; PATH:d=8",
    "as its matrix");
