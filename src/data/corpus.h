/*
 * data/corpus.h -- a text as numbers: words by falling frequency, and tests of
 * word vectors.
 *
 * Words are what stands between blanks; a line's end ends a sentence. Words met
 * fewer than `min_count` times are left out. Files may be gzipped.
 *
 *   Promise      Word 0 is the most frequent; ties are in order of first
 *                occurrence; at least one word and one token.
 *   Ownership    load gives, fini ends.
 */
#ifndef MUSTER_DATA_CORPUS_H
#define MUSTER_DATA_CORPUS_H

#include <stdint.h>

#include "base/vec.h"
#include "data/names.h"
#include "data/source.h"
#include "muster/status.h"

/* Stands in `tokens` where a sentence ends. */
#define MUSTER_CORPUS_END UINT32_MAX

typedef struct muster_corpus {
    muster_names words;
    uint64_t *counts;     // of each word
    uint32_t *tokens;     // words and ends of sentences
    uint64_t token_count; // with the ends
    uint64_t word_count;  // tokens that are words
} muster_corpus;

/* MUSTER_ERR_INPUT, MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_corpus_load(const char *path,
                                                uint64_t min_count,
                                                muster_error *error_out,
                                                muster_corpus *corpus_out);
MUSTER_CHECKED muster_status muster_corpus_read(muster_source *source,
                                                uint64_t min_count,
                                                muster_error *error_out,
                                                muster_corpus *corpus_out);
void muster_corpus_fini(muster_corpus *corpus);

/*
 * What word vectors are tested on: pairs with a human similarity (`word word
 * score`), and analogies (`a b c d`: a is to b as c is to d; lines that begin
 * with ':' are titles). `path` is a file of either kind, or a folder, of which
 * every file that ends in .txt, .tsv or .csv (or those and .gz) is read. Words
 * are numbered in `words`, in lower case. Scores of one file are compared with
 * each other only: each has a scale of its own.
 */
#define MUSTER_WORDFILES_MAX 8u
#define MUSTER_WORDFILE_NAME 48u

typedef struct muster_wordpair {
    uint32_t word[2];
    float score;
} muster_wordpair;

/* The pairs of one file: pairs first..end-1. */
typedef struct muster_wordfile {
    char name[MUSTER_WORDFILE_NAME]; // without folder and endings
    size_t first;
    size_t end;
} muster_wordfile;

typedef struct muster_analogy {
    uint32_t word[4];
} muster_analogy;

typedef struct muster_wordtest {
    muster_names words;
    muster_vec pairs;                            // muster_wordpair
    muster_vec analogies;                        // muster_analogy
    uint32_t file_count;                         // of those with pairs
    muster_wordfile files[MUSTER_WORDFILES_MAX]; // by name
} muster_wordtest;

/* MUSTER_ERR_INPUT, also for more than MUSTER_WORDFILES_MAX files with pairs;
 * MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_wordtest_load(const char *path,
                                                  muster_error *error_out,
                                                  muster_wordtest *test_out);
void muster_wordtest_fini(muster_wordtest *test);

#endif // MUSTER_DATA_CORPUS_H
