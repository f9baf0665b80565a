/*
 * neighbors.c -- `muster neighbors`: which named rows lie nearest to one.
 *
 * Reads vectors in word2vec's formats, text or binary (by the ending .bin), as
 * muster_task_save() writes them and other tools do.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/names.h"
#include "data/number.h"
#include "data/source.h"
#include "muster/run.h"
#include "task/kernel.h"

#define PATH_BYTES 4096u
#define WORD_BYTES 1024u
#define ROWS_MAX   1000000000ull
#define COUNT_MAX  1000u

typedef struct vectors {
    muster_names words;
    float *rows;
    uint32_t count;
    uint32_t dim;
} vectors;

static muster_status read_head(muster_source *source, vectors *v,
                               muster_error *error_out)
{
    const char *line;
    char *end;
    muster_status status = muster_source_line(source, error_out, &line);
    if (status != MUSTER_OK) {
        return status;
    }
    unsigned long long count = line == NULL ? 0 : strtoull(line, &end, 10);
    unsigned long long dim = line == NULL ? 0 : strtoull(end, &end, 10);
    // Every row takes at least a byte a number, whatever the head promises.
    if (count < 1 || dim < 1 || dim > 65536 || count > ROWS_MAX ||
        count * dim > muster_source_left_max(source)) {
        return muster_source_fail_line(source, error_out,
                                       "expected `rows dim`, as word2vec "
                                       "writes it");
    }
    v->count = (uint32_t)count;
    v->dim = (uint32_t)dim;
    v->rows = muster_mem_raw_aligned((size_t)count * dim, sizeof(float));
    return v->rows != NULL
               ? MUSTER_OK
               : muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                  "no memory for %llu vectors", count);
}

/* Name the row after those kept so far. A word that was there before keeps its
 * first row: *fresh_out is false, and the next row is read over this one. Names
 * with blanks or '_' in the same place are one word in these formats. */
static muster_status keep_word(vectors *v, const char *word, size_t length,
                               muster_error *error_out, bool *fresh_out)
{
    uint32_t kept = muster_names_count(&v->words);
    uint32_t number = muster_names_add(&v->words, word, length);
    *fresh_out = number == kept;
    return number != MUSTER_NAMES_NONE
               ? MUSTER_OK
               : muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                  "no memory for the words");
}

static muster_status read_text(muster_source *source, vectors *v,
                               muster_error *error_out)
{
    uint32_t row = 0;
    for (uint32_t seen = 0; seen < v->count; seen++) {
        const char *line;
        bool fresh;
        muster_status status = muster_source_line(source, error_out, &line);
        if (status != MUSTER_OK) {
            return status;
        }
        size_t length = line == NULL ? 0 : strcspn(line, " ");
        if (length == 0) {
            return muster_source_fail_line(
                source, error_out, "%u vectors, not %u", seen, v->count);
        }
        status = keep_word(v, line, length, error_out, &fresh);
        const char *at = line + length;
        for (uint32_t i = 0; i < v->dim && status == MUSTER_OK; i++) {
            at += strspn(at, " ");
            if (muster_number_parse(at, &v->rows[(size_t)row * v->dim + i],
                                    &at) != MUSTER_NUMBER_FINITE) {
                status = muster_source_fail_line(
                    source, error_out, "expected %u finite numbers", v->dim);
            }
        }
        if (status != MUSTER_OK) {
            return status;
        }
        row += fresh;
    }
    return MUSTER_OK;
}

static muster_status read_binary(muster_source *source, vectors *v,
                                 muster_error *error_out)
{
    uint32_t row = 0;
    for (uint32_t seen = 0; seen < v->count; seen++) {
        char word[WORD_BYTES];
        bool fresh = false;
        size_t length = 0;
        muster_status status = MUSTER_OK;
        while (status == MUSTER_OK && length < sizeof(word)) {
            status = muster_source_read(source, &word[length], 1, error_out);
            if (word[length] == ' ') {
                break;
            }
            // A newline is what ended the row before.
            length += word[length] != '\n';
        }
        if (status == MUSTER_OK && (length == 0 || length == sizeof(word))) {
            status = muster_source_fail_byte(source, error_out,
                                             "expected a word of 1 to 1023 "
                                             "bytes and a blank");
        }
        if (status == MUSTER_OK) {
            status = keep_word(v, word, length, error_out, &fresh);
        }
        if (status == MUSTER_OK) {
            status = muster_source_read(source, v->rows + (size_t)row * v->dim,
                                        v->dim * sizeof(float), error_out);
        }
        for (uint32_t i = 0; i < v->dim && status == MUSTER_OK; i++) {
            if (!isfinite(v->rows[(size_t)row * v->dim + i])) {
                status = muster_source_fail_byte(
                    source, error_out, "expected %u finite numbers", v->dim);
            }
        }
        if (status != MUSTER_OK) {
            return status;
        }
        row += fresh;
    }
    return MUSTER_OK;
}

/* Is there neither the file nor one of that name that is zipped? */
static bool is_missing(const char *path)
{
    char zipped[PATH_BYTES];
    struct stat info;
    return stat(path, &info) != 0 && errno == ENOENT &&
           !muster_source_zipped_name(path, zipped, sizeof(zipped));
}

static muster_status load(const char *path, vectors *v, muster_error *error_out)
{
    char inside[PATH_BYTES];
    struct stat info;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        (void)snprintf(inside, sizeof(inside), "%s/vectors.txt", path);
        path = inside;
    }
    size_t length = strlen(path);
    length -= length > 3 && strcmp(path + length - 3, ".gz") == 0 ? 3 : 0;
    bool binary = length > 4 && strncmp(path + length - 4, ".bin", 4) == 0;
    muster_source *source;
    muster_status status = muster_source_open(path, error_out, &source);
    if (status == MUSTER_ERR_INPUT && path == inside && is_missing(path)) {
        return muster_error_set(error_out, MUSTER_ERR_INPUT,
                                "%.300s: no vectors here; a run of skipgram, "
                                "complex, distmult or transe writes them when "
                                "it ends",
                                inside);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    status = read_head(source, v, error_out);
    if (status == MUSTER_OK) {
        status = (binary ? read_binary : read_text)(source, v, error_out);
    }
    if (status == MUSTER_OK && muster_names_count(&v->words) < v->count) {
        uint32_t kept = muster_names_count(&v->words);
        muster_log(MUSTER_LOG_WARN,
                   "%s: left out %u rows whose word was there before", path,
                   v->count - kept);
        v->count = kept;
    }
    muster_source_close(source);
    return status;
}

typedef struct near_row {
    float cosine;
    uint32_t row;
} near_row;

/* Put a row among the best so far, which are sorted by falling cosine. */
static void consider(near_row *best, uint32_t *found, uint32_t max,
                     near_row row)
{
    uint32_t at = *found;
    while (at > 0 && best[at - 1].cosine < row.cosine) {
        at--;
    }
    if (at >= max) {
        return;
    }
    *found += *found < max;
    memmove(best + at + 1, best + at, (*found - at - 1) * sizeof(*best));
    best[at] = row;
}

static uint32_t search(const vectors *v, uint32_t wanted, near_row *best,
                       uint32_t max)
{
    uint32_t found = 0;
    const float *middle = v->rows + (size_t)wanted * v->dim;
    float own = sqrtf(muster_kernel_square(middle, v->dim));
    for (uint32_t row = 0; row < v->count; row++) {
        const float *other = v->rows + (size_t)row * v->dim;
        float length = sqrtf(muster_kernel_square(other, v->dim)) * own;
        if (row == wanted || !(length > 0) || !isfinite(length)) {
            continue;
        }
        near_row one = {muster_kernel_dot(middle, other, v->dim) / length, row};
        consider(best, &found, max, one);
    }
    return found;
}

static char *to_json(const vectors *v, const char *word, const near_row *best,
                     uint32_t found)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < found; i++) {
        json_t *one = json_object();
        (void)json_object_set_new(
            one, "word", json_string(muster_names_at(&v->words, best[i].row)));
        (void)json_object_set_new(one, "cosine",
                                  json_real((double)best[i].cosine));
        (void)json_array_append_new(list, one);
    }
    json_t *all = json_object();
    (void)json_object_set_new(all, "word", json_string(word));
    (void)json_object_set_new(all, "neighbors", list);
    char *text = json_dumps(all, JSON_COMPACT);
    char *copy = text == NULL ? NULL : muster_mem_string(text);
    free(text); // heap: jansson's
    json_decref(all);
    return copy;
}

/* The row of a word; the files have '_' where a name has a blank. */
static uint32_t row_of(const vectors *v, const char *word)
{
    size_t length = strlen(word);
    uint32_t row = muster_names_find(&v->words, word, length);
    char joined[WORD_BYTES];
    if (row != MUSTER_NAMES_NONE || length >= sizeof(joined)) {
        return row;
    }
    for (size_t i = 0; i < length; i++) {
        joined[i] = word[i] == ' ' || word[i] == '\t' ? '_' : word[i];
    }
    return muster_names_find(&v->words, joined, length);
}

static muster_status find(const vectors *v, const char *path, const char *word,
                          uint32_t count, muster_error *error_out,
                          char **json_out)
{
    uint32_t wanted = row_of(v, word);
    if (wanted == MUSTER_NAMES_NONE) {
        return muster_error_set(error_out, MUSTER_ERR_INPUT,
                                "%s: no row is called '%s'", path, word);
    }
    near_row *best = muster_mem_array((size_t)count + 1, sizeof(*best));
    if (best != NULL) {
        *json_out = to_json(v, word, best, search(v, wanted, best, count));
    }
    muster_mem_free(best);
    return *json_out != NULL ? MUSTER_OK
                             : muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                                "no memory for the result");
}

muster_status muster_neighbors(const char *path, const char *word,
                               uint32_t count, muster_error *error_out,
                               char **json_out)
{
    if (path == NULL || word == NULL || json_out == NULL || count < 1 ||
        count > COUNT_MAX) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "neighbors: --count must be in 1..1000");
    }
    vectors v = {.rows = NULL};
    *json_out = NULL;
    muster_names_init(&v.words);
    muster_status status = load(path, &v, error_out);
    if (status == MUSTER_OK) {
        status = find(&v, path, word, count, error_out, json_out);
    }
    muster_names_fini(&v.words);
    muster_mem_free(v.rows);
    return status;
}
