/*
 * bench_code.c -- codes and kernels against their limits: `muster bench code`.
 *
 *   combine_N     weighted sum of N messages of 1e6 floats, beside the memory
 *                 bandwidth measured in the same run: reading 64 such messages,
 *                 more than any cache holds, from front to back or in eight
 *                 streams at once, whichever is faster
 *   decode_group  decoding frc, beside a plain sum of as many vectors
 *   weights_..    weights of a responder set for n = 1000, beside the limit
 *                 that is asked for
 *
 * Rates and decode times are the best of 31 turns, as STREAM counts, in CPU
 * time of the thread, so that other processes matter less; weights are medians.
 * Before each turn other memory is read, and no turn takes the messages of the
 * one before, so that nobody finds them in a cache. --json prints a row a line.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "bench.h"
#include "code/decode.h"
#include "code/numbers.h"
#include "code/sets.h"
#include "linalg/combine.h"
#include "muster/code.h"

#define DIM      1000000u
#define MESSAGES 64u
#define ROUNDS   31u

/* Other memory: more than the caches of one processor's share hold. */
#define SWEEP ((size_t)96 << 20)

/* How the second yardstick reads: so many rows at once, so much of each. */
#define STREAMS       8u
#define STREAM_FLOATS 128u

typedef struct work {
    uint64_t *sweep;
    double *scratch;
    volatile uint64_t sink;
    float *messages[MESSAGES]; // each a buffer of its own, as they come
    const float *rows[MESSAGES];
    double weights[MESSAGES];
    float *out;
    bool json;
} work;

static double elapsed_s(int64_t since_ns)
{
    return (double)(muster_clock_ns() - since_ns) / 1e9;
}

/* CPU time of this thread. */
static double used_s(int64_t since_ns)
{
    return (double)(muster_clock_thread_cpu_ns() - since_ns) / 1e9;
}

static double smallest(const double *values, size_t count)
{
    double value = values[0];
    for (size_t i = 1; i < count; i++) {
        value = values[i] < value ? values[i] : value;
    }
    return value;
}

static bool message_init(work *w, uint32_t i)
{
    w->messages[i] = muster_mem_raw_aligned(DIM, sizeof(float));
    w->rows[i] = w->messages[i];
    w->weights[i] = 1.0 + 0.01 * i;
    for (size_t t = 0; w->messages[i] != NULL && t < DIM; t++) {
        w->messages[i][t] = (float)((t + i) % 1000) - 499.5f;
    }
    return w->messages[i] != NULL;
}

static bool work_init(work *w)
{
    w->out = muster_mem_raw_aligned(DIM, sizeof(float));
    w->sweep = muster_mem_array(SWEEP / 8, 8);
    w->scratch = muster_mem_raw_aligned(MUSTER_COMBINE_RUN, sizeof(double));
    if (w->out == NULL || w->sweep == NULL || w->scratch == NULL) {
        return false;
    }
    memset(w->sweep, 1, SWEEP);
    memset(w->out, 0, DIM * sizeof(float));
    bool done = true;
    for (uint32_t i = 0; i < MESSAGES; i++) {
        done = message_init(w, i) && done;
    }
    return done;
}

static void work_fini(work *w)
{
    for (uint32_t i = 0; i < MESSAGES; i++) {
        muster_mem_free(w->messages[i]);
    }
    muster_mem_free(w->sweep);
    muster_mem_free(w->scratch);
    muster_mem_free(w->out);
}

/* Read `count` words and add them up: as fast as memory gives them. Sixteen
 * sums, so that the additions are not what is measured. */
static uint64_t read_all(const uint64_t *words, size_t count)
{
    uint64_t sums[16] = {0};
    for (size_t i = 0; i + 16 <= count; i += 16) {
        for (size_t j = 0; j < 16; j++) {
            sums[j] += words[i + j];
        }
    }
    uint64_t sum = 0;
    for (size_t j = 0; j < 16; j++) {
        sum += sums[j];
    }
    return sum;
}

static uint64_t read_forward(const float *const *rows, uint32_t count)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        const void *words = rows[i];
        sum += read_all(words, DIM / 2);
    }
    return sum;
}

/* The same bytes, eight rows side by side, 512 bytes of each in turn: on some
 * machines faster than one stream. */
static uint64_t read_streams(const float *const *rows, uint32_t count)
{
    uint64_t sum = 0;
    for (uint32_t first = 0; first < count; first += STREAMS) {
        uint32_t last = first + STREAMS < count ? first + STREAMS : count;
        for (size_t at = 0; at < DIM; at += STREAM_FLOATS) {
            size_t left = DIM - at;
            size_t floats = left < STREAM_FLOATS ? left : STREAM_FLOATS;
            for (uint32_t i = first; i < last; i++) {
                const void *words = rows[i] + at;
                sum += read_all(words, floats / 2);
            }
        }
    }
    return sum;
}

static void sweep_caches(work *w)
{
    w->sink += read_all(w->sweep, SWEEP / 8);
}

/* Combine beside reading, in turns, so that all see the same machine. */
static void bench_combine(work *w, uint32_t count, const char *name)
{
    double combine[ROUNDS];
    double forward[ROUNDS];
    double streams[ROUNDS];
    double bytes = 4.0 * DIM * MESSAGES;
    double moved = 4.0 * DIM * (count + 1); // the sum is written, too
    for (uint32_t r = 0; r < ROUNDS; r++) {
        const float *rows[MESSAGES];
        for (uint32_t i = 0; i < count; i++) {
            rows[i] = w->rows[(r * count + i) % MESSAGES];
        }
        const muster_combine_rows input = {rows, w->weights, NULL, count};
        sweep_caches(w);
        int64_t start = muster_clock_thread_cpu_ns();
        muster_combine(&input, 0, DIM, w->scratch, w->out);
        combine[r] = used_s(start);
        sweep_caches(w);
        start = muster_clock_thread_cpu_ns();
        w->sink += read_forward(w->rows, MESSAGES);
        forward[r] = used_s(start);
        sweep_caches(w);
        start = muster_clock_thread_cpu_ns();
        w->sink += read_streams(w->rows, MESSAGES);
        streams[r] = used_s(start);
    }
    double reading = fmin(smallest(forward, ROUNDS), smallest(streams, ROUNDS));
    bench_row row = {name, moved / smallest(combine, ROUNDS) / 1e9, "GB/s",
                     "memory_read", bytes / reading / 1e9};
    bench_print(&row, w->json);
}

/* The plain sum: what a program without codes would do. */
static void plain_sum(const work *w, uint32_t count)
{
    float *restrict out = w->out;
    memcpy(out, w->rows[0], DIM * sizeof(float));
    for (uint32_t i = 1; i < count; i++) {
        const float *restrict row = w->rows[i];
        for (size_t t = 0; t < DIM; t++) {
            out[t] += row[t];
        }
    }
}

static muster_code *make_code(const char *name, uint32_t n)
{
    muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
    muster_error error;
    muster_code *code = NULL;
    opts.name = name;
    opts.workers = n;
    if (muster_code_create(&opts, &error, &code) != MUSTER_OK) {
        fprintf(stderr, "bench code: %s\n", error.text);
        exit(1);
    }
    return code;
}

/* frc with 60 workers in groups of 3: 20 messages are added up. */
static void bench_decode(work *w)
{
    muster_code *code = make_code("frc:s=2", 60);
    muster_code_decode_term terms[60];
    uint32_t everyone[60];
    const float *messages[60];
    for (uint32_t i = 0; i < 60; i++) {
        everyone[i] = i;
        messages[i] = w->rows[i];
    }
    size_t count;
    muster_code_fit fit = MUSTER_CODE_FIT_INIT;
    if (muster_code_weights(code, everyone, 60, terms, &count, &fit) !=
        MUSTER_OK) {
        exit(1);
    }
    muster_decode_input input = {terms, count, messages, DIM, DIM};
    muster_decoder *decoder = NULL;
    if (muster_decoder_create(count, &decoder) != MUSTER_OK) {
        exit(1);
    }
    double decode[ROUNDS];
    double plain[ROUNDS];
    for (uint32_t r = 0; r < ROUNDS; r++) {
        sweep_caches(w);
        int64_t start = muster_clock_thread_cpu_ns();
        if (muster_decoder_begin(decoder, &input) != MUSTER_OK) {
            exit(1);
        }
        muster_decoder_range(decoder, 0, DIM, w->out);
        decode[r] = used_s(start) * 1e3;
        sweep_caches(w);
        start = muster_clock_thread_cpu_ns();
        plain_sum(w, (uint32_t)count);
        plain[r] = used_s(start) * 1e3;
    }
    bench_row row = {"decode_group_20", smallest(decode, ROUNDS), "ms",
                     "plain_sum", smallest(plain, ROUNDS)};
    bench_print(&row, w->json);
    muster_decoder_free(decoder);
    muster_code_free(code);
}

typedef struct set_memory {
    uint32_t missing[1000];
    uint32_t responders[1000];
    muster_code_decode_term terms[4000];
} set_memory;

/* Weights of random sets of n - s, and of one known to the cache. */
static void bench_weights(const char *name, double limit_us, bool json)
{
    static set_memory m;
    muster_code *code = make_code(name, 1000);
    muster_code_info info = *muster_code_numbers(code);
    muster_code_sets sets =
        muster_code_sets_make(info.workers, info.stragglers, 21, 3);
    double times[21];
    size_t done = 0;
    uint32_t count = 0;
    size_t term_count;
    muster_code_fit fit = MUSTER_CODE_FIT_INIT;
    char label[64];
    while (done < 21 && muster_code_sets_next(&sets, m.missing)) {
        count = muster_code_sets_responders(info.workers, m.missing,
                                            info.stragglers, m.responders);
        int64_t start = muster_clock_ns();
        if (muster_code_weights(code, m.responders, count, m.terms, &term_count,
                                &fit) < 0) {
            exit(1);
        }
        times[done++] = elapsed_s(start) * 1e6;
    }
    snprintf(label, sizeof(label), "weights_%s_%u", info.name, info.stragglers);
    bench_row row = {label, bench_median(times, done), "us", "wanted",
                     limit_us};
    bench_print(&row, json);

    muster_code_cache *cache = NULL;
    const muster_code_decode_term *lent;
    if (muster_code_cache_create(code, 16, &cache) != MUSTER_OK) {
        exit(1);
    }
    for (done = 0; done < 21; done++) {
        int64_t start = muster_clock_ns();
        for (int i = 0; i < 100; i++) {
            if (muster_code_cache_weights(cache, m.responders, count, &lent,
                                          &term_count, &fit) < 0) {
                exit(1);
            }
        }
        times[done] = elapsed_s(start) * 1e6 / 100.0;
    }
    snprintf(label, sizeof(label), "cached_%s_%u", info.name, info.stragglers);
    bench_row cached = {label, bench_median(times, done), "us", "wanted", 1.0};
    bench_print(&cached, json);
    muster_code_cache_free(cache);
    muster_code_free(code);
}

int main(int argc, char **argv)
{
    static work w;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") != 0) {
            return bench_usage(argc, argv, "code [--json]");
        }
        w.json = true;
    }
    if (!work_init(&w)) {
        fprintf(stderr, "bench code: out of memory\n");
        return 1;
    }
    bench_combine(&w, 10, "combine_1e6");
    bench_combine(&w, 32, "combine_32");
    bench_combine(&w, 64, "combine_64");
    bench_decode(&w);
    bench_weights("heter:s=50", 10000.0, w.json);
    bench_weights("frc:s=49", 100.0, w.json);
    bench_weights("linear:tuned:s=8,m=2", 100.0, w.json);
    work_fini(&w);
    return 0;
}
