/*
 * skipgram.c -- word vectors: skip-gram with negative sampling (Mikolov et al.,
 * NIPS 2013), words subsampled by frequency, windows of random width.
 *
 * The vector of the word in the middle is copied, moved by each of its
 * contexts, and its change pushed once; the output vectors are moved in place.
 * Negatives come in chunks, prepared some chunks ahead; sentences are read
 * ahead as well (skipgram_read.c).
 */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "task/kernel.h"
#include "task/skipgram.h"
#include "task/tasks.h"

#define CHUNK        8192u
#define CHUNKS_AHEAD 4u
// Negatives that are prefetched ahead: their words, then their rows.
#define WORDS_AHEAD 10u
#define ROWS_AHEAD  5u

static const muster_spec_field fields[] = {
    {"dim", MUSTER_SPEC_UINT, offsetof(muster_skipgram_options, dim), 1, 8192,
     NULL, false},
    {"window", MUSTER_SPEC_UINT, offsetof(muster_skipgram_options, window), 1,
     100, NULL, false},
    {"negatives", MUSTER_SPEC_UINT,
     offsetof(muster_skipgram_options, negatives), 1, 100, NULL, false},
    {"min_count", MUSTER_SPEC_UINT,
     offsetof(muster_skipgram_options, min_count), 1, 1e9, NULL, false},
    {"subsample", MUSTER_SPEC_DOUBLE,
     offsetof(muster_skipgram_options, subsample), 0, 1, NULL, false},
    {"power", MUSTER_SPEC_DOUBLE, offsetof(muster_skipgram_options, power), 0,
     1, NULL, false},
    {"scheme", MUSTER_SPEC_WORD, offsetof(muster_skipgram_options, scheme), 0,
     0, "independent|reuse|postpone|local|repurpose", false},
    {"reuse", MUSTER_SPEC_UINT, offsetof(muster_skipgram_options, reuse), 1,
     1024, NULL, false},
    {.name = NULL},
};

static void skipgram_free(void *task)
{
    muster_skipgram *g = task;
    if (g == NULL) {
        return;
    }
    muster_corpus_fini(&g->corpus);
    if (g->tested) {
        muster_wordtest_fini(&g->test);
    }
    muster_mem_free(g->keep);
    muster_mem_free(g->kept);
    muster_mem_free(g);
}

/* keep[word]: how often a word stays, of 2^32. */
static muster_status fill_keep(muster_skipgram *g)
{
    uint32_t words = muster_names_count(&g->corpus.words);
    g->keep = muster_mem_array(words, sizeof(*g->keep));
    if (g->keep == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < words; i++) {
        double often =
            (double)g->corpus.counts[i] / (double)g->corpus.word_count;
        double share = g->options.subsample / often;
        double stays = g->options.subsample > 0 ? sqrt(share) + share : 1;
        g->keep[i] = stays >= 1 ? UINT32_MAX : (uint32_t)(stays * 0x1p32);
    }
    return MUSTER_OK;
}

/* Each file of word pairs has a metric. */
static void name_metrics(muster_skipgram *g)
{
    for (uint32_t i = 0; i < g->test.file_count; i++) {
        char name[MUSTER_WORDFILE_NAME];
        memcpy(name, g->test.files[i].name, sizeof(name));
        (void)snprintf(g->names[i], sizeof(g->names[i]), "similarity_%s", name);
    }
}

static muster_status load(muster_skipgram *g, const muster_task_opts *opts,
                          muster_error *error_out)
{
    muster_status status =
        muster_task_options(opts->model, fields, &g->options, error_out);
    if (status == MUSTER_OK && opts->optimizer != NULL &&
        strcmp(opts->optimizer, "sgd") != 0) {
        status = muster_error_set(error_out, MUSTER_ERR_INVALID,
                                  "--optimizer %s: skipgram is trained with "
                                  "sgd",
                                  opts->optimizer);
    }
    if (status == MUSTER_OK) {
        status = muster_corpus_load(opts->data, g->options.min_count, error_out,
                                    &g->corpus);
    }
    if (status == MUSTER_OK && opts->test != NULL) {
        status = muster_wordtest_load(opts->test, error_out, &g->test);
        g->tested = status == MUSTER_OK;
    }
    if (g->tested) {
        name_metrics(g);
    }
    if (status == MUSTER_OK && (fill_keep(g) != MUSTER_OK ||
                                muster_skipgram_measure(g) != MUSTER_OK)) {
        status = muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                  "%s: out of memory", opts->data);
    }
    return status;
}

static muster_status skipgram_create(const muster_task_opts *opts,
                                     muster_error *error_out, void **task_out)
{
    muster_skipgram *g = muster_mem_array(1, sizeof(*g));
    if (g == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "skipgram: out of memory");
    }
    g->options = (muster_skipgram_options){.dim = 100,
                                           .window = 5,
                                           .negatives = 5,
                                           .min_count = 5,
                                           .reuse = 16,
                                           .subsample = 1e-4,
                                           .power = 0.5};
    g->rate = opts->rate > 0 ? opts->rate : 0.05;
    g->epochs = opts->epochs;
    g->seed = opts->seed;
    muster_status status = load(g, opts, error_out);
    if (status != MUSTER_OK) {
        skipgram_free(g);
        return status;
    }
    *task_out = g;
    return MUSTER_OK;
}

static muster_status add_negatives(muster_skipgram *g, muster_ps *ps,
                                   muster_error *error_out)
{
    uint32_t words = muster_names_count(&g->corpus.words);
    double *weights = muster_mem_array(words, sizeof(*weights));
    if (weights == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "skipgram: out of memory");
    }
    for (uint32_t i = 0; i < words; i++) {
        weights[i] = pow((double)g->corpus.counts[i], g->options.power);
    }
    muster_ps_distribution_opts opts = MUSTER_PS_DISTRIBUTION_OPTS_INIT;
    opts.table = MUSTER_SKIPGRAM_OUT;
    opts.target = MUSTER_PS_TARGET_WEIGHTS;
    opts.weights = weights;
    opts.scheme = g->options.scheme + 1;
    opts.reuse = g->options.reuse;
    muster_status status =
        muster_ps_distribution_add(ps, &opts, error_out, &g->distribution);
    muster_mem_free(weights);
    return status;
}

static muster_status skipgram_tables(void *task, muster_ps *ps,
                                     muster_error *error_out)
{
    muster_skipgram *g = task;
    uint32_t number;
    muster_ps_table_opts opts = MUSTER_PS_TABLE_OPTS_INIT;
    opts.keys = muster_names_count(&g->corpus.words);
    opts.width = g->options.dim;
    opts.init = MUSTER_PS_UNIFORM;
    opts.scale = 1.0f / (float)g->options.dim;
    opts.merge = MUSTER_PS_MERGE_DAMPED;
    muster_status status = muster_ps_table_add(ps, &opts, error_out, &number);
    if (status == MUSTER_OK) {
        opts.init = MUSTER_PS_ZERO;
        status = muster_ps_table_add(ps, &opts, error_out, &number);
    }
    return status == MUSTER_OK ? add_negatives(g, ps, error_out) : status;
}

static uint64_t skipgram_part_units(const void *task, uint32_t part,
                                    uint32_t parts)
{
    return muster_skipgram_part_at(task, part + 1, parts) -
           muster_skipgram_part_at(task, part, parts);
}

static uint64_t skipgram_units(const void *task)
{
    const muster_skipgram *g = task;
    return g->corpus.word_count;
}

static uint32_t skipgram_epochs(void)
{
    return 5;
}

typedef struct pass {
    const muster_skipgram *g;
    muster_ps_worker *worker;
    uint64_t draw;       // state of the generator for windows
    float *in;           // the middle word's vector
    float *total;        // its change so far
    float *change;       // of one context
    uint32_t *negatives; // CHUNK
    uint32_t negative_at;
    uint64_t handles[CHUNKS_AHEAD]; // of the chunks after
    uint32_t next_handle;
    muster_sentences sentences;
    muster_sentence line;
    float rate;
    double loss;
    uint64_t pairs;
} pass;

/* Take the oldest chunk that was prepared, and prepare another. */
static muster_status next_chunk(pass *p)
{
    uint64_t *handle = &p->handles[p->next_handle];
    muster_status status =
        muster_ps_sample_pull(p->worker, *handle, CHUNK, p->negatives, NULL);
    *handle = 0;
    if (status == MUSTER_OK) {
        status = muster_ps_sample_prepare(p->worker, p->g->distribution, CHUNK,
                                          handle);
    }
    p->next_handle = (p->next_handle + 1) % CHUNKS_AHEAD;
    p->negative_at = 0;
    return status;
}

static muster_status pass_init(pass *p, const muster_skipgram *g,
                               muster_ps_worker *worker, uint64_t stream)
{
    size_t dim = g->options.dim;
    p->g = g;
    p->worker = worker;
    p->draw = muster_rng_at(g->seed, stream, 1) | 1;
    p->in = muster_mem_raw_aligned(3 * dim, sizeof(float));
    p->negatives = muster_mem_array(CHUNK, sizeof(*p->negatives));
    if (p->in == NULL || p->negatives == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    p->total = p->in + dim;
    p->change = p->in + 2 * dim;
    muster_status status =
        muster_ps_sample_seek(worker, g->distribution, stream);
    for (uint32_t i = 0; i < CHUNKS_AHEAD && status == MUSTER_OK; i++) {
        status = muster_ps_sample_prepare(worker, g->distribution, CHUNK,
                                          &p->handles[i]);
    }
    return status == MUSTER_OK ? next_chunk(p) : status;
}

static muster_status pass_fini(pass *p)
{
    muster_status status = MUSTER_OK;
    for (uint32_t i = 0; i < CHUNKS_AHEAD; i++) {
        if (p->handles[i] != 0) {
            muster_status one =
                muster_ps_sample_finish(p->worker, p->handles[i]);
            status = status == MUSTER_OK ? one : status;
        }
    }
    muster_mem_free(p->in);
    muster_mem_free(p->negatives);
    muster_sentences_fini(&p->sentences);
    return status;
}

static muster_status move_out(pass *p, uint32_t word, float label)
{
    float *out;
    float label_rate[2] = {label, p->rate};
    muster_status status =
        muster_ps_begin(p->worker, MUSTER_SKIPGRAM_OUT, word, &out);
    if (status != MUSTER_OK) {
        return status;
    }
    p->loss += (double)muster_kernel_skipgram(p->in, p->change, out,
                                              p->g->options.dim, label_rate);
    return muster_ps_end(p->worker, MUSTER_SKIPGRAM_OUT, word);
}

/* The middle word against one context and its negatives. */
static muster_status train_pair(pass *p, uint32_t context)
{
    uint32_t dim = p->g->options.dim;
    memset(p->change, 0, dim * sizeof(float));
    muster_status status = move_out(p, context, 1);
    for (uint32_t i = 0; i < p->g->options.negatives && status == MUSTER_OK;
         i++) {
        if (p->negative_at == CHUNK) {
            status = next_chunk(p);
        }
        uint32_t word = p->negatives[p->negative_at++];
        if (p->negative_at + WORDS_AHEAD < CHUNK) {
            muster_ps_prefetch_ahead(
                p->worker, MUSTER_SKIPGRAM_OUT,
                p->negatives[p->negative_at + ROWS_AHEAD],
                p->negatives[p->negative_at + WORDS_AHEAD]);
        }
        // A true context is not a negative, whatever was drawn.
        if (status == MUSTER_OK && word != context) {
            status = move_out(p, word, 0);
        }
    }
    muster_kernel_axpy(1, p->change, p->in, dim);
    muster_kernel_axpy(1, p->change, p->total, dim);
    p->pairs++;
    return status;
}

static muster_status train_word(pass *p, uint32_t at, uint32_t length)
{
    uint32_t reach = 1 + muster_skipgram_draw(&p->draw) % p->g->options.window;
    uint32_t from = at > reach ? at - reach : 0;
    uint32_t to = at + reach < length ? at + reach : length - 1;
    if (from == to) {
        return MUSTER_OK;
    }
    uint32_t word = p->line.words[at];
    muster_status status =
        muster_ps_pull(p->worker, MUSTER_SKIPGRAM_IN, &word, 1, p->in);
    memset(p->total, 0, p->g->options.dim * sizeof(float));
    for (uint32_t i = from; i <= to && status == MUSTER_OK; i++) {
        if (i != at) {
            status = train_pair(p, p->line.words[i]);
        }
    }
    return status == MUSTER_OK ? muster_ps_push(p->worker, MUSTER_SKIPGRAM_IN,
                                                &word, 1, p->total)
                               : status;
}

/* Prefetch the rows that the next word uses first: its own, and that of the
 * context that comes into reach. */
static void prefetch_next(const pass *p, uint32_t at)
{
    const uint32_t *words = p->line.words;
    uint32_t enters = at + 1 + p->g->options.window;
    if (at + 1 < p->line.length) {
        muster_ps_prefetch(p->worker, MUSTER_SKIPGRAM_IN, words[at + 1]);
    }
    if (enters < p->line.length) {
        muster_ps_prefetch(p->worker, MUSTER_SKIPGRAM_OUT, words[enters]);
    }
}

static muster_status train_sentence(pass *p)
{
    muster_status status = MUSTER_OK;
    for (uint32_t i = 0; i < p->line.length && status == MUSTER_OK; i++) {
        prefetch_next(p, i);
        status = train_word(p, i, p->line.length);
    }
    return status;
}

static muster_status train_range(pass *p, uint64_t tokens,
                                 const muster_task_share *share)
{
    const muster_skipgram *g = p->g;
    uint64_t done = 0;
    for (;;) {
        double gone = ((double)share->epoch + (double)done / (double)tokens) /
                      (double)g->epochs;
        p->rate = (float)(g->rate * (gone < 0.9999 ? 1 - gone : 0.0001));
        muster_status status = muster_sentences_next(&p->sentences, &p->line);
        if (status != MUSTER_OK || p->line.tokens == 0) {
            return status;
        }
        status = train_sentence(p);
        done += p->line.tokens;
        muster_task_count(share, p->line.from_words);
        if (status != MUSTER_OK) {
            return status;
        }
        if (muster_task_stopped(share)) {
            return MUSTER_ERR_CANCELLED;
        }
    }
}

static muster_status skipgram_work(void *task, muster_ps_worker *worker,
                                   const muster_task_share *share,
                                   muster_task_sums *sums)
{
    const muster_skipgram *g = task;
    uint64_t start = muster_skipgram_part_at(g, share->part, share->parts);
    uint64_t end = muster_skipgram_part_at(g, share->part + 1, share->parts);
    pass *p = muster_mem_array(1, sizeof(*p));
    if (p == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    muster_status status =
        pass_init(p, g, worker, (uint64_t)share->epoch << 32 | share->part);
    if (status == MUSTER_OK) {
        status = muster_sentences_init(&p->sentences, g, worker, start, end,
                                       p->draw);
    }
    if (status == MUSTER_OK) {
        status = train_range(p, end - start, share);
    }
    muster_status ended = pass_fini(p);
    sums->value[MUSTER_SKIPGRAM_SUM_LOSS] += p->loss;
    sums->value[MUSTER_SKIPGRAM_SUM_PAIRS] += (double)p->pairs;
    muster_mem_free(p);
    return status == MUSTER_OK ? ended : status;
}

static uint32_t skipgram_outputs(const void *task,
                                 muster_task_output *outputs_out)
{
    const muster_skipgram *g = task;
    uint32_t words = muster_names_count(&g->corpus.words);
    outputs_out[0] = (muster_task_output){.name = "words",
                                          .table = MUSTER_SKIPGRAM_IN,
                                          .rows = words,
                                          .width = g->options.dim};
    outputs_out[1] = (muster_task_output){.name = "contexts",
                                          .table = MUSTER_SKIPGRAM_OUT,
                                          .rows = words,
                                          .width = g->options.dim};
    return 2;
}

static const char *skipgram_label(const void *task, uint32_t row)
{
    const muster_skipgram *g = task;
    return muster_names_at(&g->corpus.words, row);
}

const muster_task_ops muster_task_skipgram = {
    .name = "skipgram",
    .unit = "words",
    .create = skipgram_create,
    .free = skipgram_free,
    .tables = skipgram_tables,
    .units = skipgram_units,
    .part_units = skipgram_part_units,
    .epochs = skipgram_epochs,
    .work = skipgram_work,
    .evaluate = muster_skipgram_evaluate,
    .report = muster_skipgram_report,
    .outputs = skipgram_outputs,
    .label = skipgram_label,
};
