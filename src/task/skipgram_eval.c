/*
 * skipgram_eval.c -- how good word vectors are: similarity and analogy.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "task/kernel.h"
#include "task/skipgram.h"

#define PULLED 512u

typedef struct placed {
    float value;
    size_t at;
} placed;

static int compare_placed(const void *a, const void *b)
{
    const placed *x = a;
    const placed *y = b;
    return (x->value > y->value) - (x->value < y->value);
}

/* ranks[i] of values[i], the mean rank for equal values. */
static void rank(const float *values, size_t count, placed *scratch,
                 double *ranks)
{
    for (size_t i = 0; i < count; i++) {
        scratch[i] = (placed){.value = values[i], .at = i};
    }
    qsort(scratch, count, sizeof(*scratch), compare_placed);
    for (size_t i = 0; i < count;) {
        size_t end = i + 1;
        while (end < count && scratch[end].value == scratch[i].value) {
            end++;
        }
        for (size_t j = i; j < end; j++) {
            ranks[scratch[j].at] = (double)(i + end - 1) / 2;
        }
        i = end;
    }
}

static double correlate(const double *a, const double *b, size_t count)
{
    double mean = (double)(count - 1) / 2;
    double ab = 0;
    double aa = 0;
    double bb = 0;
    for (size_t i = 0; i < count; i++) {
        ab += (a[i] - mean) * (b[i] - mean);
        aa += (a[i] - mean) * (a[i] - mean);
        bb += (b[i] - mean) * (b[i] - mean);
    }
    return ab / sqrt(aa * bb);
}

muster_status muster_spearman(const float *a, const float *b, size_t count,
                              double *rho_out)
{
    if (count < 2) {
        *rho_out = NAN;
        return MUSTER_OK;
    }
    placed *scratch = muster_mem_array(count, sizeof(*scratch));
    double *ranks = muster_mem_array(2 * count, sizeof(*ranks));
    muster_status status = MUSTER_ERR_NO_MEMORY;
    if (scratch != NULL && ranks != NULL) {
        rank(a, count, scratch, ranks);
        rank(b, count, scratch, ranks + count);
        *rho_out = correlate(ranks, ranks + count, count);
        status = MUSTER_OK;
    }
    muster_mem_free(scratch);
    muster_mem_free(ranks);
    return status;
}

/* All word vectors, each of length 1. */
static muster_status pull_units(const muster_skipgram *g,
                                muster_ps_worker *worker, float *units)
{
    uint32_t dim = g->options.dim;
    uint32_t words = muster_names_count(&g->corpus.words);
    // Many at once: some may be on other nodes.
    for (uint32_t i = 0; i < words;) {
        uint32_t keys[PULLED];
        uint32_t count = 0;
        float *rows = units + (size_t)i * dim;
        while (count < PULLED && i < words) {
            keys[count++] = i++;
        }
        muster_status status =
            muster_ps_pull(worker, MUSTER_SKIPGRAM_IN, keys, count, rows);
        if (status != MUSTER_OK) {
            return status;
        }
    }
    for (uint32_t i = 0; i < words; i++) {
        float *unit = units + (size_t)i * dim;
        float length = sqrtf(muster_kernel_square(unit, dim));
        for (uint32_t j = 0; j < dim; j++) {
            unit[j] /= length > 0 ? length : 1;
        }
    }
    return MUSTER_OK;
}

/* The corpus number of a word of the test, or MUSTER_NAMES_NONE. */
static uint32_t known(const muster_skipgram *g, uint32_t test_word)
{
    const char *text = muster_names_at(&g->test.words, test_word);
    return muster_names_find(&g->corpus.words, text, strlen(text));
}

/* The correlation of one file, with `lists` twice as long as its pairs. */
static muster_status similarity_of(const muster_skipgram *g, uint32_t number,
                                   const float *units, float *lists,
                                   muster_task_sums *sums)
{
    const muster_wordfile *file = &g->test.files[number];
    const muster_wordpair *pairs = g->test.pairs.data;
    uint32_t dim = g->options.dim;
    float *human = lists;
    float *cosine = lists + (file->end - file->first);
    size_t covered = 0;
    for (size_t i = file->first; i < file->end; i++) {
        uint32_t a = known(g, pairs[i].word[0]);
        uint32_t b = known(g, pairs[i].word[1]);
        if (a != MUSTER_NAMES_NONE && b != MUSTER_NAMES_NONE) {
            human[covered] = pairs[i].score;
            cosine[covered++] = muster_kernel_dot(units + (size_t)a * dim,
                                                  units + (size_t)b * dim, dim);
        }
    }
    double rho;
    muster_status status = muster_spearman(human, cosine, covered, &rho);
    if (status == MUSTER_OK && covered >= 2) {
        sums->value[MUSTER_SKIPGRAM_SUM_FILES + number] += 2 + rho;
        sums->value[MUSTER_SKIPGRAM_SUM_COVERED] += (double)covered;
    }
    return status;
}

static muster_status similarity(const muster_skipgram *g, const float *units,
                                muster_task_sums *sums)
{
    float *lists = muster_mem_array(2 * g->test.pairs.count, sizeof(*lists));
    muster_status status = lists == NULL ? MUSTER_ERR_NO_MEMORY : MUSTER_OK;
    for (uint32_t i = 0; i < g->test.file_count && status == MUSTER_OK; i++) {
        status = similarity_of(g, i, units, lists, sums);
    }
    muster_mem_free(lists);
    return status;
}

/* The word nearest to b - a + c, the three left out. */
static uint32_t nearest(const muster_skipgram *g, const float *units,
                        const uint32_t *abc, float *wanted)
{
    uint32_t dim = g->options.dim;
    uint32_t words = muster_names_count(&g->corpus.words);
    memcpy(wanted, units + (size_t)abc[1] * dim, dim * sizeof(float));
    muster_kernel_axpy(-1, units + (size_t)abc[0] * dim, wanted, dim);
    muster_kernel_axpy(1, units + (size_t)abc[2] * dim, wanted, dim);
    float best = -INFINITY;
    uint32_t found = 0;
    for (uint32_t i = 0; i < words; i++) {
        float cosine = muster_kernel_dot(wanted, units + (size_t)i * dim, dim);
        if (cosine > best && i != abc[0] && i != abc[1] && i != abc[2]) {
            best = cosine;
            found = i;
        }
    }
    return found;
}

static muster_status analogy(const muster_skipgram *g, const float *units,
                             const muster_task_share *share,
                             muster_task_sums *sums)
{
    const muster_analogy *questions = g->test.analogies.data;
    float *wanted = muster_mem_array(g->options.dim, sizeof(*wanted));
    if (wanted == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    for (size_t i = share->part; i < g->test.analogies.count;
         i += share->parts) {
        uint32_t word[4];
        int covered = 0;
        for (int j = 0; j < 4; j++) {
            word[j] = known(g, questions[i].word[j]);
            covered += word[j] != MUSTER_NAMES_NONE;
        }
        if (covered == 4) {
            sums->value[MUSTER_SKIPGRAM_SUM_ASKED] += 1;
            sums->value[MUSTER_SKIPGRAM_SUM_RIGHT] +=
                nearest(g, units, word, wanted) == word[3];
        }
    }
    muster_mem_free(wanted);
    return MUSTER_OK;
}

muster_status muster_skipgram_evaluate(void *task, muster_ps_worker *worker,
                                       const muster_task_share *share,
                                       muster_task_sums *sums)
{
    const muster_skipgram *g = task;
    uint32_t words = muster_names_count(&g->corpus.words);
    if (!g->tested || (!share->final && share->part > 0)) {
        return MUSTER_OK;
    }
    float *units =
        muster_mem_raw_aligned((size_t)words * g->options.dim, sizeof(float));
    muster_status status =
        units == NULL ? MUSTER_ERR_NO_MEMORY : pull_units(g, worker, units);
    if (status == MUSTER_OK && share->part == 0) {
        status = similarity(g, units, sums);
    }
    // Analogies cost a walk over all words each: at the end only.
    if (status == MUSTER_OK && share->final) {
        status = analogy(g, units, share, sums);
    }
    muster_mem_free(units);
    return status;
}

/* The mean over files, and where there are several also each of them. */
static uint32_t report_similarity(const muster_skipgram *g,
                                  const muster_task_sums *sums,
                                  const char **names_out, double *values_out)
{
    uint32_t count = 2;
    uint32_t files = 0;
    double sum = 0;
    for (uint32_t i = 0; i < g->test.file_count; i++) {
        double rho = sums->value[MUSTER_SKIPGRAM_SUM_FILES + i] - 2;
        if (rho > -2) {
            sum += rho;
            files++;
            names_out[count] = g->names[i];
            values_out[count++] = rho;
        }
    }
    names_out[0] = "similarity";
    values_out[0] = sum / files;
    names_out[1] = "similarity_pairs";
    values_out[1] = sums->value[MUSTER_SKIPGRAM_SUM_COVERED];
    return files == 0 ? 0 : g->test.file_count == 1 ? 2 : count;
}

uint32_t muster_skipgram_report(const void *task, const muster_task_sums *work,
                                const muster_task_sums *evaluation,
                                const char **names_out, double *values_out)
{
    uint32_t count = 0;
    if (work->value[MUSTER_SKIPGRAM_SUM_PAIRS] > 0) {
        names_out[count] = "loss";
        values_out[count++] = work->value[MUSTER_SKIPGRAM_SUM_LOSS] /
                              work->value[MUSTER_SKIPGRAM_SUM_PAIRS];
    }
    count += report_similarity(task, evaluation, names_out + count,
                               values_out + count);
    if (evaluation->value[MUSTER_SKIPGRAM_SUM_ASKED] > 0) {
        names_out[count] = "analogy";
        values_out[count++] = evaluation->value[MUSTER_SKIPGRAM_SUM_RIGHT] /
                              evaluation->value[MUSTER_SKIPGRAM_SUM_ASKED];
        names_out[count] = "analogy_questions";
        values_out[count++] = evaluation->value[MUSTER_SKIPGRAM_SUM_ASKED];
    }
    return count;
}
