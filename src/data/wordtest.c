/*
 * wordtest.c -- readers of word similarities and analogies.
 */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "data/corpus.h"
#include "data/number.h"

#define WORD_MAX       256u
#define PATH_MAX_BYTES 4096u
#define FIELDS         4

static void copy_lower(const char *text, size_t length, char *out)
{
    for (size_t i = 0; i < length; i++) {
        bool upper = text[i] >= 'A' && text[i] <= 'Z';
        out[i] = (char)(text[i] + (upper ? 'a' - 'A' : 0));
    }
    out[length] = '\0';
}

/* Up to four fields of a line, in lower case; returns how many there are. */
static int take_fields(const char *line, char fields[FIELDS][WORD_MAX])
{
    static const char blanks[] = " \t\r,;";
    int count = 0;
    for (line += strspn(line, blanks); *line != '\0';
         line += strspn(line, blanks)) {
        size_t length = strcspn(line, blanks);
        if (count == FIELDS || length >= WORD_MAX) {
            return FIELDS + 1;
        }
        copy_lower(line, length, fields[count++]);
        line += length;
    }
    return count;
}

static bool number_words(muster_wordtest *test, char fields[FIELDS][WORD_MAX],
                         int count, uint32_t *numbers_out)
{
    for (int i = 0; i < count; i++) {
        numbers_out[i] =
            muster_names_add(&test->words, fields[i], strlen(fields[i]));
        if (numbers_out[i] == MUSTER_NAMES_NONE) {
            return false;
        }
    }
    return true;
}

static muster_status add_line(muster_wordtest *test, muster_source *source,
                              const char *line, muster_error *error_out)
{
    char fields[FIELDS][WORD_MAX];
    if (*line == ':' || *line == '#') {
        return MUSTER_OK;
    }
    int count = take_fields(line, fields);
    if (count == 0) {
        return MUSTER_OK;
    }
    muster_wordpair pair;
    muster_analogy analogy;
    const char *end;
    bool kept;
    if (count == 3 &&
        muster_number_parse(fields[2], &pair.score, &end) ==
            MUSTER_NUMBER_FINITE &&
        *end == '\0') {
        kept = number_words(test, fields, 2, pair.word) &&
               muster_vec_append(&test->pairs, &pair, 1);
    } else if (count == 4) {
        kept = number_words(test, fields, 4, analogy.word) &&
               muster_vec_append(&test->analogies, &analogy, 1);
    } else {
        return muster_source_fail_line(
            source, error_out, "expected `word word score` or four words");
    }
    return kept ? MUSTER_OK
                : muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                   "%s: out of memory",
                                   muster_source_name(source));
}

static muster_status read_file(const char *path, muster_error *error_out,
                               muster_wordtest *test)
{
    muster_source *source;
    const char *line;
    muster_status status = muster_source_open(path, error_out, &source);
    if (status != MUSTER_OK) {
        return status;
    }
    for (;;) {
        status = muster_source_line(source, error_out, &line);
        if (status != MUSTER_OK || line == NULL) {
            break;
        }
        status = add_line(test, source, line, error_out);
        if (status != MUSTER_OK) {
            break;
        }
    }
    muster_source_close(source);
    return status;
}

static bool ends_in(const char *name, size_t length, const char *ending)
{
    size_t tail = strlen(ending);
    return length > tail && strncmp(name + length - tail, ending, tail) == 0;
}

/* Bytes of a name before its ending; 0: not one of a test. */
static size_t stem_of(const char *name)
{
    static const char *const endings[] = {".txt", ".tsv", ".csv"};
    size_t length = strlen(name);
    length -= ends_in(name, length, ".gz") ? strlen(".gz") : 0;
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        if (ends_in(name, length, endings[i])) {
            return length - strlen(endings[i]);
        }
    }
    return 0;
}

/* Read a file and note its pairs, if it has any. */
static muster_status read_test(const char *path, muster_error *error_out,
                               muster_wordtest *test)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    size_t stem = stem_of(name);
    size_t first = test->pairs.count;
    muster_status status = read_file(path, error_out, test);
    if (status != MUSTER_OK || test->pairs.count == first) {
        return status;
    }
    if (test->file_count == MUSTER_WORDFILES_MAX) {
        return muster_error_set(error_out, MUSTER_ERR_INPUT,
                                "%s: more than %u files of word pairs in the "
                                "folder",
                                path, MUSTER_WORDFILES_MAX);
    }
    muster_wordfile *file = &test->files[test->file_count++];
    stem = stem > 0 ? stem : strlen(name);
    (void)snprintf(file->name, sizeof(file->name), "%.*s", (int)stem, name);
    file->first = first;
    file->end = test->pairs.count;
    return MUSTER_OK;
}

static int is_test(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && stem_of(entry->d_name) > 0;
}

static muster_status read_folder(const char *folder, muster_error *error_out,
                                 muster_wordtest *test)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, is_test, alphasort);
    muster_status status = MUSTER_OK;
    if (count <= 0) {
        if (count == 0) {
            free(entries); // heap: the C library's
        }
        return muster_error_set(error_out, MUSTER_ERR_INPUT,
                                "%s: no .txt, .tsv or .csv file of word pairs "
                                "or analogies is in it",
                                folder);
    }
    for (int i = 0; i < count; i++) {
        char path[PATH_MAX_BYTES];
        int length =
            snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
        if (status == MUSTER_OK) {
            status = length > 0 && (size_t)length < sizeof(path)
                         ? read_test(path, error_out, test)
                         : muster_error_set(error_out, MUSTER_ERR_INPUT,
                                            "%s: the path is too long", folder);
        }
        free(entries[i]); // heap: the C library's
    }
    free(entries); // heap: the C library's
    return status;
}

muster_status muster_wordtest_load(const char *path, muster_error *error_out,
                                   muster_wordtest *test_out)
{
    struct stat info;
    muster_wordtest test = {.pairs = muster_vec_make(sizeof(muster_wordpair)),
                            .analogies =
                                muster_vec_make(sizeof(muster_analogy))};
    muster_names_init(&test.words);
    bool folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    muster_status status = folder ? read_folder(path, error_out, &test)
                                  : read_test(path, error_out, &test);
    if (status != MUSTER_OK) {
        muster_wordtest_fini(&test);
        return status;
    }
    *test_out = test;
    return MUSTER_OK;
}

void muster_wordtest_fini(muster_wordtest *test)
{
    muster_names_fini(&test->words);
    muster_vec_fini(&test->pairs);
    muster_vec_fini(&test->analogies);
}
