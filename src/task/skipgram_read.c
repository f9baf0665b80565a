/*
 * skipgram_read.c -- sentences of a corpus, subsampled and read ahead, in a
 * ring: a sentence is its length, how many words and tokens of the corpus it
 * takes, then its words.
 */
#include "base/assert.h"
#include "base/mem.h"
#include "task/skipgram.h"

#define RING      65536u
#define HEADER    3u
#define SENTENCE  (MUSTER_SENTENCE_MAX + HEADER)
#define LOOK_MIN  4096u // words
#define LOOK_MAX  32768u
#define ASK_WORDS 1024u // at once: threads of two nodes wake up for each call

static uint32_t *slot(const muster_sentences *s, uint64_t at)
{
    return &s->ring[at % RING];
}

muster_status muster_sentences_init(muster_sentences *s,
                                    const muster_skipgram *g,
                                    muster_ps_worker *worker, uint64_t start,
                                    uint64_t end, uint64_t draw)
{
    *s = (muster_sentences){.g = g,
                            .worker = worker,
                            .at = start,
                            .end = end,
                            .draw = ~draw | 1,
                            .many = muster_ps_nodes(worker) > 1,
                            .ahead =
                                muster_ahead_make(worker, LOOK_MIN, LOOK_MAX)};
    s->ring = muster_mem_array(RING, sizeof(*s->ring));
    s->to_ask =
        muster_mem_array(ASK_WORDS + MUSTER_SENTENCE_MAX, sizeof(*s->to_ask));
    return s->ring != NULL && s->to_ask != NULL ? MUSTER_OK
                                                : MUSTER_ERR_NO_MEMORY;
}

void muster_sentences_fini(muster_sentences *s)
{
    muster_mem_free(s->ring);
    muster_mem_free(s->to_ask);
}

/* Read one sentence into the ring. */
static void read_one(muster_sentences *s)
{
    const muster_corpus *corpus = &s->g->corpus;
    uint64_t start = s->at;
    uint32_t length = 0;
    uint32_t words = 0;
    MUSTER_ASSERT(s->head - s->tail + SENTENCE <= RING);
    while (s->at < s->end && length < MUSTER_SENTENCE_MAX) {
        uint32_t word = corpus->tokens[s->at++];
        if (word == MUSTER_CORPUS_END) {
            break;
        }
        words++;
        if (muster_skipgram_draw(&s->draw) <= s->g->keep[word]) {
            *slot(s, s->head + HEADER + length++) = word;
            if (s->many) {
                s->to_ask[s->to_ask_count++] = word;
            }
        }
    }
    *slot(s, s->head) = length;
    *slot(s, s->head + 1) = words;
    *slot(s, s->head + 2) = (uint32_t)(s->at - start);
    s->head += HEADER + length;
}

/* Ask for the rows of the words that were read. */
static muster_status ask(muster_sentences *s)
{
    muster_status status = muster_ahead_ask(s->worker, MUSTER_SKIPGRAM_IN,
                                            s->to_ask, s->to_ask_count);
    if (status == MUSTER_OK) {
        status = muster_ahead_ask(s->worker, MUSTER_SKIPGRAM_OUT, s->to_ask,
                                  s->to_ask_count);
    }
    s->to_ask_count = 0;
    return status;
}

/* Read as far ahead as rows take to come. */
static muster_status read_ahead(muster_sentences *s)
{
    muster_status status = MUSTER_OK;
    while (s->at < s->end && s->head - s->tail < s->ahead.look &&
           status == MUSTER_OK) {
        read_one(s);
        if (s->to_ask_count >= ASK_WORDS || s->at == s->end) {
            uint32_t words = s->to_ask_count;
            status = ask(s);
            (void)muster_ahead_look(&s->ahead, words);
        }
    }
    return status;
}

muster_status muster_sentences_next(muster_sentences *s, muster_sentence *out)
{
    muster_status status = MUSTER_OK;
    if (s->many) {
        status = read_ahead(s);
    } else if (s->at < s->end) {
        read_one(s);
    }
    out->tokens = 0;
    if (s->head == s->tail) {
        return status;
    }
    out->length = *slot(s, s->tail);
    out->from_words = *slot(s, s->tail + 1);
    out->tokens = *slot(s, s->tail + 2);
    for (uint32_t i = 0; i < out->length; i++) {
        out->words[i] = *slot(s, s->tail + HEADER + i);
    }
    s->tail += HEADER + out->length;
    return status;
}
