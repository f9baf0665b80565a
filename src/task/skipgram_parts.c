/*
 * skipgram_parts.c -- where the parts of a corpus begin, so that they take
 * equally long: what costs time are the words that subsampling keeps, and the
 * text of one part may have more frequent words than that of another.
 */
#include "base/mem.h"
#include "task/skipgram.h"

#define BLOCK 4096u // tokens whose kept words are summed

/* How much of a token stays, of 2^24: so sums of 2^40 tokens fit. */
static uint64_t stays(const muster_skipgram *g, uint64_t at)
{
    uint32_t word = g->corpus.tokens[at];
    return word == MUSTER_CORPUS_END ? 0 : g->keep[word] >> 8;
}

muster_status muster_skipgram_measure(muster_skipgram *g)
{
    uint64_t tokens = g->corpus.token_count;
    g->kept = muster_mem_array(tokens / BLOCK + 2, sizeof(*g->kept));
    if (g->kept == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    uint64_t sum = 0;
    for (uint64_t at = 0; at < tokens; at++) {
        sum += stays(g, at);
        if ((at + 1) % BLOCK == 0 || at + 1 == tokens) {
            g->kept[at / BLOCK + 1] = sum;
        }
    }
    return MUSTER_OK;
}

uint64_t muster_skipgram_part_at(const muster_skipgram *g, uint32_t part,
                                 uint32_t parts)
{
    uint64_t tokens = g->corpus.token_count;
    uint64_t blocks = (tokens + BLOCK - 1) / BLOCK;
    double wanted = (double)g->kept[blocks] * part / parts;
    uint64_t low = 0;
    uint64_t high = blocks; // kept[low] <= wanted, and kept[high] is not below
    if (part == 0 || part >= parts) {
        return part == 0 ? 0 : tokens;
    }
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        *((double)g->kept[middle] <= wanted ? &low : &high) = middle;
    }
    double sum = (double)g->kept[low];
    uint64_t at = low * BLOCK;
    while (at < tokens && sum < wanted) {
        sum += (double)stays(g, at++);
    }
    return at;
}
