/*
 * bench_dense.c -- dense gradients against their limits: `muster bench dense`.
 *
 *   gradient_HxB  a worker's whole GRADIENT job (draw, collect rows, forwards,
 *                 loss, backwards, message) for 1024-H-H-10 with ReLU and a
 *                 batch of B, in GFLOPS of its matrix products, beside the same
 *                 products alone, each in one sgemm call over the whole batch
 *   torch_HxB     the same in milliseconds beside forward and backward of
 *                 PyTorch, where /usr/bin/python3 has it
 *   gradient_HxBxT  the same with --threads T, all processors, beside the
 *                 products by as many threads of BLAS; piece_HxBxT likewise
 *   piece_HxB     the longest piece of that job, beside the 50 ms within which
 *                 a worker answers when it is told to stop
 *   wide_H        a batch of 8,192, whose sums are in double, beside one of
 *                 4,096, whose sums are in float32, in GFLOPS
 *   adam, combine_8  GB/s beside copying memory
 *   step_100M     a step of `muster train` with so many parameters, two local
 *                 workers, frc s = 1, beside their computing and one pass of
 *                 each message through memory
 *
 * One thread, but for the rows that say T. Turns of the job and of the products
 * alternate and the medians are compared: the speed of a shared machine drifts.
 * --quick leaves out the largest sizes; HxB asks for some of them alone, HxBxT
 * also says the threads beside one, and `shared` leaves out one thread;
 * `phases` asks for each phase of their passes beside its product alone, `wide`
 * for wide_H, `large` for the step.
 */
#define _GNU_SOURCE
#include "bench_dense.h"

#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/threads.h"
#include "bench.h"

#define CANCEL_MS  50.0
#define PATH_BYTES 1024u
/* Hidden widths of about 100 and 10 million parameters. */
#define LARGE       9500u
#define LARGE_QUICK 2700u
/* Hidden widths of the rows on sums in double. */
#define WIDE       1024u
#define WIDE_QUICK 256u
#define CASES_MAX  16u

typedef struct options {
    bool json;
    bool is_quick;
    bool is_shared;  // rows of several threads alone
    bool has_phases; // of the cases asked for
    bool is_wide;    // those rows alone
    bool is_large;   // the steps of a large model alone
    size_t count;    // 0: all
    dense_case cases[CASES_MAX];
} options;

/* Milliseconds of a step of PyTorch, NAN without it. */
static double torch_ms(const dense_case *sizes)
{
    char folder[PATH_BYTES];
    char command[PATH_BYTES + 128];
    char line[64] = "";
    ssize_t length = readlink("/proc/self/exe", folder, sizeof(folder) - 1);
    if (length <= 0) {
        return NAN;
    }
    folder[length] = '\0';
    *strrchr(folder, '/') = '\0';
    // build/release/ lies two folders below the sources.
    snprintf(command, sizeof(command),
             "/usr/bin/python3 '%s/../../bench/dense_torch.py' %u %u %u %u "
             "2>/dev/null",
             folder, DENSE_FEATURES, sizes->hidden, DENSE_CLASSES,
             sizes->batch);
    FILE *pipe = popen(command, "r");
    bool has_line = pipe != NULL && fgets(line, sizeof(line), pipe) != NULL;
    if (pipe != NULL) {
        pclose(pipe);
    }
    return has_line ? strtod(line, NULL) : NAN;
}

/* PREFIX_HxB, or PREFIX_HxBxT. */
static void name_of(const char *prefix, const dense_case *sizes, char *name,
                    size_t room)
{
    int length =
        snprintf(name, room, "%s_%ux%u", prefix, sizes->hidden, sizes->batch);
    if (sizes->threads > 1) {
        snprintf(name + length, room - (size_t)length, "x%u", sizes->threads);
    }
}

static void bench_threads(const dense_case *sizes, bool json)
{
    char name[64];
    dense_times times = dense_measure(sizes);
    double giga = dense_operations(sizes) / 1e9;
    name_of("gradient", sizes, name, sizeof(name));
    bench_row speed = {name, giga / times.gradient_s, "GFLOPS", "sgemm",
                       giga / times.products_s};
    bench_print(&speed, json);
    name_of("piece", sizes, name, sizeof(name));
    bench_row piece = {name, times.piece_s * 1e3, "ms", "wanted", CANCEL_MS};
    bench_print(&piece, json);
    double torch = sizes->threads > 1 ? NAN : torch_ms(sizes);
    if (isfinite(torch)) {
        snprintf(name, sizeof(name), "torch_%ux%u", sizes->hidden,
                 sizes->batch);
        bench_row beside = {name, times.gradient_s * 1e3, "ms", "pytorch",
                            torch};
        bench_print(&beside, json);
    }
}

/* By one thread and, where there are more, by all of them. */
static void bench_case(const dense_case *sizes, const options *asked)
{
    dense_case one = *sizes;
    one.threads = 1;
    if (sizes->threads == 1 || !asked->is_shared) {
        bench_threads(&one, asked->json);
    }
    if (sizes->threads > 1) {
        bench_threads(sizes, asked->json);
    }
}

/* From 4,096 rows on a worker's sums are in double as well (job/gradient.c). */
static void bench_wide(uint32_t hidden, bool json)
{
    char name[64];
    const dense_case narrow = {hidden, 4096, 1};
    const dense_case wide = {hidden, 8192, 1};
    double base = dense_operations(&narrow) / dense_measure(&narrow).gradient_s;
    double value = dense_operations(&wide) / dense_measure(&wide).gradient_s;
    snprintf(name, sizeof(name), "wide_%u", hidden);
    bench_row row = {name, value / 1e9, "GFLOPS", "sums in float", base / 1e9};
    bench_print(&row, json);
}

/* 256x512, or 256x512x4 */
static bool read_case(const char *text, dense_case *out)
{
    char *end = NULL;
    out->hidden = (uint32_t)strtoul(text, &end, 10);
    out->threads = muster_threads_here();
    if (*end != 'x') {
        return false;
    }
    out->batch = (uint32_t)strtoul(end + 1, &end, 10);
    if (*end == 'x') {
        out->threads = (uint32_t)strtoul(end + 1, &end, 10);
    }
    return *end == '\0' && out->hidden > 0 && out->batch > 0 &&
           out->threads > 0 && out->threads <= MUSTER_THREADS_MAX;
}

static void tell_torch(void)
{
    const dense_case tiny = {8, 8, 1};
    if (!isfinite(torch_ms(&tiny))) {
        fprintf(stderr, "pytorch: not installed for /usr/bin/python3\n");
    }
}

static bool read_options(int argc, char **argv, options *out)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            out->json = true;
        } else if (strcmp(argv[i], "large") == 0) {
            out->is_large = true;
        } else if (strcmp(argv[i], "--quick") == 0) {
            out->is_quick = true;
        } else if (strcmp(argv[i], "shared") == 0) {
            out->is_shared = true;
        } else if (strcmp(argv[i], "phases") == 0) {
            out->has_phases = true;
        } else if (strcmp(argv[i], "wide") == 0) {
            out->is_wide = true;
        } else if (out->count == CASES_MAX ||
                   !read_case(argv[i], &out->cases[out->count++])) {
            return false;
        }
    }
    return true;
}

static void bench_all(const options *asked)
{
    static const uint32_t hidden[] = {64, 256, 1024, 4096};
    static const uint32_t batch[] = {32, 256, 512, 4096};
    for (size_t h = 0; h < sizeof(hidden) / sizeof(hidden[0]); h++) {
        for (size_t b = 0; b < sizeof(batch) / sizeof(batch[0]); b++) {
            const dense_case sizes = {hidden[h], batch[b],
                                      muster_threads_here()};
            if (!asked->is_quick || dense_operations(&sizes) < 1e10) {
                bench_case(&sizes, asked);
            }
        }
    }
    dense_bench_memory(asked->json);
}

int main(int argc, char **argv)
{
    options asked = {0};
    if (!read_options(argc, argv, &asked)) {
        return bench_usage(argc, argv,
                           "dense [--quick] [--json] "
                           "[[phases|shared] HxB[xT]..|wide|large]");
    }
    openblas_set_num_threads(1);
    bool all = !asked.is_wide && !asked.is_large && asked.count == 0;
    if (all || asked.count > 0) {
        tell_torch();
    }
    for (size_t i = 0; i < asked.count; i++) {
        if (asked.has_phases) {
            dense_bench_phases(&asked.cases[i], asked.json);
        } else {
            bench_case(&asked.cases[i], &asked);
        }
    }
    if (all) {
        bench_all(&asked);
    }
    if (all || asked.is_wide) {
        bench_wide(asked.is_quick ? WIDE_QUICK : WIDE, asked.json);
    }
    if (all || asked.is_large) {
        dense_bench_large(asked.is_quick ? LARGE_QUICK : LARGE, asked.json);
    }
    return 0;
}
