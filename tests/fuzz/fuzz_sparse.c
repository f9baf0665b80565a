/*
 * fuzz_sparse.c -- ratings and text from anywhere: read without harm, and what
 * is accepted keeps its promises. The first byte chooses the reader.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"
#include "data/corpus.h"
#include "data/ratings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_ratings(muster_source *source)
{
    muster_ratings ratings = {0};
    if (muster_ratings_read(source, NULL, &ratings) != MUSTER_OK) {
        return;
    }
    MUSTER_ASSERT(ratings.count > 0);
    for (uint64_t i = 0; i < ratings.count; i++) {
        MUSTER_ASSERT(ratings.cells[i].row < ratings.rows);
        MUSTER_ASSERT(ratings.cells[i].col < ratings.cols);
        MUSTER_ASSERT(isfinite(ratings.cells[i].value));
    }
    muster_ratings_fini(&ratings);
}

static void try_corpus(muster_source *source)
{
    muster_corpus corpus = {0};
    if (muster_corpus_read(source, 2, NULL, &corpus) != MUSTER_OK) {
        return;
    }
    uint32_t words = muster_names_count(&corpus.words);
    MUSTER_ASSERT(words > 0 && corpus.word_count > 0);
    for (uint64_t i = 0; i < corpus.token_count; i++) {
        MUSTER_ASSERT(corpus.tokens[i] < words ||
                      corpus.tokens[i] == MUSTER_CORPUS_END);
    }
    muster_corpus_fini(&corpus);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    muster_source *source;
    if (size < 1 || muster_source_open_memory("fuzz", data + 1, size - 1, NULL,
                                              &source) != MUSTER_OK) {
        return 0;
    }
    if (data[0] % 2 == 0) {
        try_ratings(source);
    } else {
        try_corpus(source);
    }
    muster_source_close(source);
    return 0;
}
