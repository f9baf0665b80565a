/*
 * task/skipgram.h -- what training and testing of word vectors share.
 */
#ifndef MUSTER_TASK_SKIPGRAM_H
#define MUSTER_TASK_SKIPGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "data/corpus.h"
#include "task/ahead.h"
#include "task/task.h"

enum { MUSTER_SKIPGRAM_IN = 0, MUSTER_SKIPGRAM_OUT = 1 }; // tables

typedef struct muster_skipgram_options {
    uint32_t dim;
    uint32_t window;
    uint32_t negatives;
    uint32_t min_count;
    uint32_t scheme; // muster_ps_scheme - 1
    uint32_t reuse;
    double subsample; // words above this share are thinned; 0: none
    double power;     // negatives are drawn ~ count^power
} muster_skipgram_options;

typedef struct muster_skipgram {
    muster_skipgram_options options;
    muster_corpus corpus;
    muster_wordtest test;
    bool tested; // `test` is there
    char names[MUSTER_WORDFILES_MAX][MUSTER_WORDFILE_NAME + 16]; // of metrics
    uint32_t *keep;
    uint64_t *kept; // skipgram_parts.c: sums of `keep` over the corpus
    uint32_t distribution;
    uint32_t epochs;
    double rate;
    uint64_t seed;
} muster_skipgram;

/* Marsaglia's xorshift with a multiplication: windows and subsampling need
 * nothing better. */
static inline uint32_t muster_skipgram_draw(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (uint32_t)((*state * 0x2545f4914f6cdd1dull) >> 32);
}

/* ---- parts of the corpus: skipgram_parts.c ------------------------------- */

/* Set `kept`, for part_at. MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_skipgram_measure(muster_skipgram *g);
/* The token where a part begins; part `parts` begins at the end. Parts keep
 * equally many words on average, and none is before an earlier one. */
uint64_t muster_skipgram_part_at(const muster_skipgram *g, uint32_t part,
                                 uint32_t parts);

/* ---- sentences, read ahead: skipgram_read.c ------------------------------ */

enum { MUSTER_SENTENCE_MAX = 1000 }; // words; a longer one is cut

/* The subsampled sentences of a piece of the corpus. They are read before they
 * are trained on, and with several nodes their words' rows asked for. */
typedef struct muster_sentences {
    const muster_skipgram *g;
    muster_ps_worker *worker;
    uint64_t at; // the next token to read
    uint64_t end;
    uint64_t draw;  // state of the generator
    uint32_t *ring; // sentences: length, tokens, words
    uint64_t head;  // written so far
    uint64_t tail;  // taken so far
    muster_ahead ahead;
    uint32_t *to_ask; // words whose rows were not asked for yet
    uint32_t to_ask_count;
    bool many; // nodes
} muster_sentences;

typedef struct muster_sentence {
    uint32_t length;
    uint32_t from_words; // of the corpus
    uint32_t tokens;     // of the corpus: these and its end
    uint32_t words[MUSTER_SENTENCE_MAX];
} muster_sentence;

/* The tokens start .. end - 1. fini must follow. MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_sentences_init(muster_sentences *s,
                                                   const muster_skipgram *g,
                                                   muster_ps_worker *worker,
                                                   uint64_t start, uint64_t end,
                                                   uint64_t draw);
void muster_sentences_fini(muster_sentences *s);

/* The next one; 0 tokens: there is none. */
MUSTER_CHECKED muster_status muster_sentences_next(muster_sentences *s,
                                                   muster_sentence *out);

enum {
    MUSTER_SKIPGRAM_SUM_LOSS = 0,
    MUSTER_SKIPGRAM_SUM_PAIRS = 1,
    MUSTER_SKIPGRAM_SUM_COVERED = 2, // pairs of known words, of part 0 alone
    MUSTER_SKIPGRAM_SUM_ASKED = 3,   // analogies of known words
    MUSTER_SKIPGRAM_SUM_RIGHT = 4,
    // Of each file of pairs, of part 0 alone: 2 + its correlation; 0: too few
    // of its words are known.
    MUSTER_SKIPGRAM_SUM_FILES = 5,
};

/* Spearman's rank correlation between human similarities and cosines, of each
 * file of pairs, and the mean of these; share of analogies whose nearest vector
 * to b - a + c is d. See skipgram_eval.c. */
muster_status muster_skipgram_evaluate(void *task, muster_ps_worker *worker,
                                       const muster_task_share *share,
                                       muster_task_sums *sums);
uint32_t muster_skipgram_report(const void *task, const muster_task_sums *work,
                                const muster_task_sums *evaluation,
                                const char **names_out, double *values_out);

/* Spearman's rank correlation of two lists, ties by mean rank; NAN for fewer
 * than two. MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_spearman(const float *a, const float *b,
                                             size_t count, double *rho_out);

#endif // MUSTER_TASK_SKIPGRAM_H
