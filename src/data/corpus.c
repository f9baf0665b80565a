/*
 * corpus.c -- reads a text once: words are numbered as they are met, then
 * renumbered by frequency and the rare ones dropped.
 */
#include "data/corpus.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"

typedef struct reading {
    muster_source *source;
    muster_error *error;
    muster_names met;
    muster_vec counts; // uint64_t, by the order met
    muster_vec tokens; // uint32_t
} reading;

static muster_status fail_memory(reading *r)
{
    return muster_error_set(r->error, MUSTER_ERR_NO_MEMORY, "%s: out of memory",
                            muster_source_name(r->source));
}

static bool add_word(reading *r, const char *word, size_t length)
{
    uint32_t number = muster_names_add(&r->met, word, length);
    if (number == MUSTER_NAMES_NONE) {
        return false;
    }
    if (number == r->counts.count && muster_vec_push(&r->counts) == NULL) {
        return false;
    }
    uint64_t *counts = r->counts.data;
    counts[number]++;
    return muster_vec_append(&r->tokens, &number, 1);
}

static muster_status add_line(reading *r, const char *line)
{
    static const char blanks[] = " \t\v\f\r";
    const uint32_t end = MUSTER_CORPUS_END;
    size_t before = r->tokens.count;
    for (line += strspn(line, blanks); *line != '\0';) {
        size_t length = strcspn(line, blanks);
        if (!add_word(r, line, length)) {
            return fail_memory(r);
        }
        line += length;
        line += strspn(line, blanks);
    }
    if (r->tokens.count > before && !muster_vec_append(&r->tokens, &end, 1)) {
        return fail_memory(r);
    }
    return MUSTER_OK;
}

static muster_status read_lines(reading *r)
{
    for (;;) {
        const char *line;
        muster_status status = muster_source_line(r->source, r->error, &line);
        if (status != MUSTER_OK || line == NULL) {
            return status;
        }
        status = add_line(r, line);
        if (status != MUSTER_OK) {
            return status;
        }
    }
}

typedef struct ranked {
    uint64_t count;
    uint32_t met;
} ranked;

static int compare_ranked(const void *a, const void *b)
{
    const ranked *x = a;
    const ranked *y = b;
    if (x->count != y->count) {
        return x->count > y->count ? -1 : 1;
    }
    return (x->met > y->met) - (x->met < y->met);
}

/* Number the kept words by frequency; number_of[met] or END for the rest. */
static muster_status renumber(reading *r, uint64_t min_count,
                              uint32_t *number_of, muster_corpus *into)
{
    size_t met = r->counts.count;
    const uint64_t *counts = r->counts.data;
    ranked *order = muster_mem_array(met, sizeof(*order));
    into->counts = muster_mem_array(met, sizeof(*into->counts));
    if (order == NULL || into->counts == NULL) {
        muster_mem_free(order);
        return fail_memory(r);
    }
    for (uint32_t i = 0; i < met; i++) {
        order[i] = (ranked){.count = counts[i], .met = i};
        number_of[i] = MUSTER_CORPUS_END;
    }
    qsort(order, met, sizeof(*order), compare_ranked);
    muster_status status = MUSTER_OK;
    for (uint32_t i = 0; i < met && order[i].count >= min_count; i++) {
        const char *word = muster_names_at(&r->met, order[i].met);
        if (muster_names_add(&into->words, word, strlen(word)) != i) {
            status = fail_memory(r);
            break;
        }
        into->counts[i] = order[i].count;
        number_of[order[i].met] = i;
    }
    muster_mem_free(order);
    return status;
}

static void renumber_tokens(reading *r, const uint32_t *number_of,
                            muster_corpus *into)
{
    uint32_t *tokens = r->tokens.data;
    uint64_t kept = 0;
    for (uint64_t i = 0; i < r->tokens.count; i++) {
        bool end = tokens[i] == MUSTER_CORPUS_END;
        uint32_t number = end ? MUSTER_CORPUS_END : number_of[tokens[i]];
        bool again = kept == 0 || tokens[kept - 1] == MUSTER_CORPUS_END;
        if (number != MUSTER_CORPUS_END || (end && !again)) {
            tokens[kept++] = number;
            into->word_count += number != MUSTER_CORPUS_END;
        }
    }
    into->tokens = tokens;
    into->token_count = kept;
    r->tokens = muster_vec_make(sizeof(uint32_t));
}

static muster_status read_all(reading *r, uint64_t min_count,
                              muster_corpus *into)
{
    muster_status status = read_lines(r);
    if (status != MUSTER_OK) {
        return status;
    }
    uint32_t *number_of = muster_mem_array(r->counts.count, sizeof(*number_of));
    if (number_of == NULL) {
        return fail_memory(r);
    }
    status = renumber(r, min_count, number_of, into);
    if (status == MUSTER_OK) {
        renumber_tokens(r, number_of, into);
        if (into->word_count == 0) {
            status = muster_error_set(
                r->error, MUSTER_ERR_INPUT, "%s: no word occurs %llu times",
                muster_source_name(r->source), (unsigned long long)min_count);
        }
    }
    muster_mem_free(number_of);
    return status;
}

muster_status muster_corpus_read(muster_source *source, uint64_t min_count,
                                 muster_error *error_out,
                                 muster_corpus *corpus_out)
{
    reading r = {.source = source,
                 .error = error_out,
                 .counts = muster_vec_make(sizeof(uint64_t)),
                 .tokens = muster_vec_make(sizeof(uint32_t))};
    muster_corpus read = {0};
    muster_names_init(&r.met);
    muster_names_init(&read.words);
    muster_status status = read_all(&r, min_count, &read);
    muster_names_fini(&r.met);
    muster_vec_fini(&r.counts);
    muster_vec_fini(&r.tokens);
    if (status != MUSTER_OK) {
        muster_corpus_fini(&read);
        return status;
    }
    *corpus_out = read;
    return MUSTER_OK;
}

muster_status muster_corpus_load(const char *path, uint64_t min_count,
                                 muster_error *error_out,
                                 muster_corpus *corpus_out)
{
    muster_source *source;
    muster_status status = muster_source_open(path, error_out, &source);
    if (status != MUSTER_OK) {
        return status;
    }
    status = muster_corpus_read(source, min_count, error_out, corpus_out);
    muster_source_close(source);
    return status;
}

void muster_corpus_fini(muster_corpus *corpus)
{
    muster_names_fini(&corpus->words);
    muster_mem_free(corpus->counts);
    muster_mem_free(corpus->tokens);
    *corpus = (muster_corpus){0};
}
