/*
 * ps_skipgram.c -- word vectors against fasttext's: the same corpus, vector
 * length, window, negatives, epochs, threshold and rate, one thread each.
 *
 * fasttext's speed is what it prints itself: words that it has in its
 * vocabulary a second while it trains, without counting words before and
 * writing vectors after. It reads and splits the text anew in every epoch; the
 * task has done so once, before its epochs. So there are two rows of speed:
 * skipgram_1x1 is of the epochs alone, and skipgram_1x1_read counts the task's
 * whole preparation in: reading, counting words and making tables.
 *
 * fasttext's vectors are put into a task's table, so that both are judged by
 * the same code.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "base/clock.h"
#include "data/names.h"
#include "task/skipgram.h"

#include "bench_ps.h"

enum { DIM = 100, EPOCHS = 5, LINE_BYTES = 1 << 16 };

#define MODEL                                                           \
    "skipgram:dim=100,window=5,negatives=5,min_count=5,subsample=1e-4," \
    "power=0.5"
#define SAME_MODEL                                                             \
    "-minn 0 -maxn 0 -thread 1 -dim 100 -ws 5 -neg 5 -minCount 5 -t 1e-4 -lr " \
    "0.05"

/* One side's figures: the best speed and the mean correlation. */
typedef struct side {
    double words_s;
    double
        read_words_s; // with the preparation's time; fasttext's own: as above
    double similarity;
} side;

typedef struct scene {
    char folder[32];
    char text[64]; // the corpus, not compressed
    char test[4096];
} scene;

static bool fasttext_is_here(void)
{
    return system("command -v fasttext >/dev/null 2>&1") == 0;
}

/* fasttext reads plain text only. */
static bool unpack(const char *from, const char *to)
{
    char bytes[4096];
    int got = 0;
    gzFile in = gzopen(from, "rb");
    FILE *out = fopen(to, "wb");
    bool good = in != NULL && out != NULL;
    while (good && (got = gzread(in, bytes, sizeof(bytes))) > 0) {
        good = fwrite(bytes, 1, (size_t)got, out) == (size_t)got;
    }
    good = good && got == 0;
    if (in != NULL) {
        (void)gzclose(in);
    }
    return (out == NULL || fclose(out) == 0) && good;
}

static muster_task_opts task_opts(const scene *s, uint32_t seed)
{
    return (muster_task_opts){.model = MODEL,
                              .data = s->text,
                              .test = s->test,
                              .rate = 0.05,
                              .l2 = -1,
                              .epochs = EPOCHS,
                              .seed = seed};
}

static side train_ours(const scene *s, uint32_t seed)
{
    muster_task_opts opts = task_opts(s, seed);
    int64_t begun = muster_clock_ns();
    bench_team t = bench_team_make(&opts, 1);
    int64_t start = muster_clock_ns();
    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
        (void)bench_team_run(&t, epoch, false);
    }
    int64_t ended = muster_clock_ns();
    double words = (double)t.ops->units(t.task) * EPOCHS;
    side found = {.words_s = words / ((double)(ended - start) / 1e9),
                  .read_words_s = words / ((double)(ended - begun) / 1e9),
                  .similarity = bench_team_metric(&t, "similarity")};
    bench_team_fini(&t);
    return found;
}

/* The last speed that fasttext has printed, NAN if none. */
static double read_speed(FILE *printed)
{
    static const char label[] = "words/sec/thread:";
    double speed = NAN;
    char word[64];
    while (fscanf(printed, "%63s", word) == 1) {
        if (strcmp(word, label) == 0 && fscanf(printed, "%63s", word) == 1) {
            speed = strtod(word, NULL);
        }
    }
    return speed;
}

/* Put the vectors of fasttext's text file into the task's table of words. */
static void load_vectors(const char *path, bench_team *t)
{
    const muster_skipgram *g = t->task;
    char *line = bench_must(malloc(LINE_BYTES));
    FILE *file = fopen(path, "r");
    uint32_t found = 0;
    while (file != NULL && fgets(line, LINE_BYTES, file) != NULL) {
        float row[DIM];
        size_t length = strcspn(line, " ");
        char *at = line + length;
        uint32_t word = muster_names_find(&g->corpus.words, line, length);
        for (int i = 0; i < DIM; i++) {
            row[i] = strtof(at, &at);
        }
        if (word != MUSTER_NAMES_NONE) {
            bench_check(muster_ps_set(t->workers[0], MUSTER_SKIPGRAM_IN, &word,
                                      1, row));
            found++;
        }
    }
    if (file == NULL || fclose(file) != 0 ||
        found != muster_names_count(&g->corpus.words)) {
        fprintf(stderr, "muster-bench-ps: %s: %u vectors of %u words\n", path,
                found, muster_names_count(&g->corpus.words));
        exit(1);
    }
    free(line);
}

static side train_theirs(const scene *s, uint32_t seed)
{
    char command[512];
    char path[64];
    (void)snprintf(command, sizeof(command),
                   "fasttext skipgram -input %s -output %s/out -epoch %d "
                   "-seed %u " SAME_MODEL " 2>&1",
                   s->text, s->folder, EPOCHS, seed);
    FILE *printed = popen(command, "r");
    if (printed == NULL) {
        perror("muster-bench-ps: fasttext");
        exit(1);
    }
    side found = {.words_s = read_speed(printed)};
    found.read_words_s = found.words_s;
    if (pclose(printed) != 0) {
        fprintf(stderr, "muster-bench-ps: fasttext failed: %s\n", command);
        exit(1);
    }
    muster_task_opts opts = task_opts(s, seed);
    bench_team t = bench_team_make(&opts, 1);
    (void)snprintf(path, sizeof(path), "%s/out.vec", s->folder);
    load_vectors(path, &t);
    found.similarity = bench_team_metric(&t, "similarity");
    bench_team_fini(&t);
    return found;
}

static void add(side *all, side one, uint32_t seeds)
{
    all->words_s = one.words_s > all->words_s ? one.words_s : all->words_s;
    all->read_words_s = one.read_words_s > all->read_words_s
                            ? one.read_words_s
                            : all->read_words_s;
    all->similarity += one.similarity / seeds;
}

static void clean(const scene *s)
{
    static const char *const names[] = {"text", "out.vec", "out.bin"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[64];
        (void)snprintf(path, sizeof(path), "%s/%s", s->folder, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(s->folder);
}

void bench_skipgram(const bench_ps *b)
{
    char packed[4096];
    scene s = {.folder = "/tmp/muster-words-XXXXXX"};
    side ours = {0};
    side theirs = {0};
    bench_data_path("word2vec/text8_prefix.gz", packed, sizeof(packed));
    bench_data_path("word2vec/EN-WS-353-ALL.txt", s.test, sizeof(s.test));
    bool here = fasttext_is_here();
    if (!here) {
        bench_progress("skipgram: fasttext is not installed: no baseline");
        theirs.words_s = NAN;
        theirs.read_words_s = NAN;
        theirs.similarity = NAN;
    }
    if (mkdtemp(s.folder) == NULL) {
        perror("muster-bench-ps");
        exit(1);
    }
    (void)snprintf(s.text, sizeof(s.text), "%s/text", s.folder);
    if (!unpack(packed, s.text)) {
        bench_progress("skipgram: %s cannot be read: left out", packed);
        clean(&s);
        return;
    }
    for (uint32_t seed = 1; seed <= b->seeds; seed++) {
        add(&ours, train_ours(&s, seed), b->seeds);
        if (here) {
            add(&theirs, train_theirs(&s, seed), b->seeds);
        }
        bench_progress("skipgram, seed %u of %u: %.0f words/s, %.0f with "
                       "reading; fasttext %.0f",
                       seed, b->seeds, ours.words_s, ours.read_words_s,
                       theirs.words_s);
    }
    clean(&s);
    bench_report(b, "skipgram_1x1", ours.words_s, "words/s", "fasttext",
                 theirs.words_s);
    bench_report(b, "skipgram_1x1_read", ours.read_words_s, "words/s",
                 "fasttext", theirs.read_words_s);
    bench_report(b, "skipgram_ws353", ours.similarity, "spearman", "fasttext",
                 theirs.similarity);
}
