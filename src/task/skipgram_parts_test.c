/*
 * skipgram_parts_test.c -- parts of a corpus cover it once and keep equally
 * many words, however its frequent words are spread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "task/skipgram.h"

enum { TOKENS = 50000, PARTS_MAX = 9 };

/* Of word 0 every tenth stays, word 1 always. The first half of the text is
 * word 0, with an end of sentence every 100 tokens. */
static void make(muster_skipgram *g, uint32_t *tokens, uint32_t *keep,
                 uint64_t count)
{
    *g = (muster_skipgram){.keep = keep};
    g->corpus.tokens = tokens;
    g->corpus.token_count = count;
    keep[0] = UINT32_MAX / 10;
    keep[1] = UINT32_MAX;
    for (uint64_t i = 0; i < count; i++) {
        tokens[i] = i % 100 == 99 ? MUSTER_CORPUS_END : i >= count / 2;
    }
    assert_int_equal(muster_skipgram_measure(g), MUSTER_OK);
}

static double kept(const muster_skipgram *g, uint64_t from, uint64_t to)
{
    double sum = 0;
    for (uint64_t i = from; i < to; i++) {
        uint32_t word = g->corpus.tokens[i];
        sum += word == MUSTER_CORPUS_END ? 0 : (double)g->keep[word] / 0x1p32;
    }
    return sum;
}

static void parts_keep_equally_many_words(void **state)
{
    (void)state;
    static uint32_t tokens[TOKENS];
    uint32_t keep[2];
    muster_skipgram g;
    make(&g, tokens, keep, TOKENS);
    double all = kept(&g, 0, TOKENS);
    for (uint32_t parts = 1; parts <= PARTS_MAX; parts++) {
        uint64_t before = 0;
        assert_int_equal(muster_skipgram_part_at(&g, 0, parts), 0);
        assert_int_equal(muster_skipgram_part_at(&g, parts, parts), TOKENS);
        for (uint32_t part = 1; part <= parts; part++) {
            uint64_t at = muster_skipgram_part_at(&g, part, parts);
            double share = kept(&g, before, at);
            assert_true(share > all / parts - 2 && share < all / parts + 2);
            before = at;
        }
    }
    muster_mem_free(g.kept);
}

static void there_may_be_more_parts_than_tokens(void **state)
{
    (void)state;
    for (uint64_t count = 1; count < 12; count++) {
        uint32_t tokens[12];
        uint32_t keep[2];
        muster_skipgram g;
        make(&g, tokens, keep, count);
        for (uint32_t part = 0; part < 20; part++) {
            assert_true(muster_skipgram_part_at(&g, part, 20) <=
                        muster_skipgram_part_at(&g, part + 1, 20));
        }
        assert_int_equal(muster_skipgram_part_at(&g, 20, 20), count);
        muster_mem_free(g.kept);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_keep_equally_many_words),
        cmocka_unit_test(there_may_be_more_parts_than_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
