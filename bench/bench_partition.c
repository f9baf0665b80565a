/*
 * bench_partition.c -- placement of samples: `muster bench partition`.
 *
 *   select_1000      1,000 of 10,000 mnist images by facility location, kernel
 *                    given; beside plain lazy greedy (a heap, scalar loops)
 *   select_value     f of those, beside the published 8646.5158
 *   dense_cpu        mnist, 60,000 images, 8 workers of speeds 1:2:3:4:1:2:3:4:
 *                    kernel, greedy choice and swaps; beside the limit
 *   sparse_cpu       the same with sparse kernels
 *   dense_coverage   smallest coverage of a worker, the worst of 5 seeds,
 *                    beside the best of 5 proportional-stratified ones
 *   dense_drift      largest drift of a class mean, the worst of 5 seeds,
 *                    beside the smallest of 5 proportional-stratified ones
 *   sparse_coverage, sparse_drift   the same with sparse kernels
 *   sparse_to_dense  coverage of sparse beside that of dense
 *   million_s        1,000,000 x 64 in 10 classes, 64 workers, sparse: seconds
 *   million_gb       most memory of the process, with the data
 *   million_coverage, million_drift  beside proportional-stratified
 *
 * --only PREFIX (may be repeated) chooses rows; --data FOLDER is where mnist
 * lies (default $MUSTER_DATA/mnist or ../shared/data/mnist); --threads N
 * (default 2) is for the million, all else is one thread and its CPU time. BLAS
 * has one thread, as in the command. --seeds N takes fewer than 5. --json: rows
 * as JSON, one a line.
 */
#define _POSIX_C_SOURCE 200809L

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <cblas.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "bench.h"
#include "data/dataset.h"
#include "muster/partition.h"

#define ONLY_MAX  16
#define SEEDS_MAX 5u

typedef struct partition_bench {
    const char *only[ONLY_MAX];
    int only_count;
    const char *data;
    uint32_t threads;
    uint32_t seeds;
    bool json;
    bool failed;
    muster_dataset *mnist;
} partition_bench;

static double cpu_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static bool wants(const partition_bench *b, const char *name)
{
    for (int i = 0; i < b->only_count; i++) {
        if (strncmp(name, b->only[i], strlen(b->only[i])) == 0) {
            return true;
        }
    }
    return b->only_count == 0;
}

static void print_row(const partition_bench *b, bench_row row)
{
    if (wants(b, row.name)) {
        bench_print(&row, b->json);
    }
}

static void stop_unless(muster_status status, const muster_error *error)
{
    if (status != MUSTER_OK) {
        fprintf(stderr, "bench partition: %s\n", error->text);
        exit(1);
    }
}

static void *room(size_t count, size_t size)
{
    void *memory = muster_mem_array(count, size);
    if (memory == NULL) {
        fprintf(stderr, "bench partition: out of memory\n");
        exit(1);
    }
    return memory;
}

static bool load_mnist(partition_bench *b)
{
    muster_error error;
    if (b->mnist == NULL && b->data != NULL &&
        muster_dataset_load(b->data, NULL, &error, &b->mnist) != MUSTER_OK) {
        fprintf(stderr, "bench partition: %s; rows of mnist are left out\n",
                error.text);
        b->data = NULL;
    }
    return b->mnist != NULL;
}

/* --- subset selection --- */

/* Of a multiple of 16 floats, in 16 sums. */
static float dot_16(const float *x, const float *y, size_t count)
{
    float lanes[16] = {0};
    for (size_t t = 0; t < count; t += 16) {
        for (size_t l = 0; l < 16; l++) {
            lanes[l] += x[t + l] * y[t + l];
        }
    }
    float sum = 0.0f;
    for (size_t l = 0; l < 16; l++) {
        sum += lanes[l];
    }
    return sum;
}

/* Cosines of the first rows of mnist, n x n. */
static float *cosine_kernel(const partition_bench *b, uint32_t n)
{
    muster_rows rows = muster_dataset_rows(b->mnist, 0, n);
    size_t d = rows.features;
    float *unit = room(n * d, sizeof(float));
    float *kernel = room((size_t)n * n, sizeof(float));
    for (size_t i = 0; i < n; i++) {
        const float *x = rows.dense + i * rows.stride;
        double squares = 0.0;
        for (size_t t = 0; t < d; t++) {
            squares += (double)x[t] * (double)x[t];
        }
        for (size_t t = 0; t < d; t++) {
            unit[i * d + t] = (float)((double)x[t] / sqrt(squares));
        }
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t u = 0; u <= i; u++) {
            float sum = dot_16(unit + i * d, unit + u * d, d);
            kernel[i * n + u] = sum;
            kernel[u * n + i] = sum;
        }
    }
    muster_mem_free(unit);
    return kernel;
}

typedef struct plain_entry {
    double gain;
    uint32_t item;
    uint32_t at;
} plain_entry;

static double plain_gain(const float *row, const float *best, uint32_t n)
{
    double sum = 0.0;
    for (uint32_t u = 0; u < n; u++) {
        float more = row[u] - best[u];
        sum += more > 0.0f ? (double)more : 0.0;
    }
    return sum;
}

static void sift(plain_entry *heap, uint32_t count, uint32_t at)
{
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= count) {
            return;
        }
        if (child + 1 < count && heap[child + 1].gain > heap[child].gain) {
            child++;
        }
        if (heap[at].gain >= heap[child].gain) {
            return;
        }
        plain_entry kept = heap[at];
        heap[at] = heap[child];
        heap[child] = kept;
        at = child;
    }
}

/* The textbook: a heap of old gains, scalar loops. */
static double plain_select(const float *kernel, uint32_t n, uint32_t budget)
{
    plain_entry *heap = room(n, sizeof(*heap));
    float *best = room(n, sizeof(*best));
    double value = 0.0;
    for (uint32_t i = 0; i < n; i++) {
        heap[i] =
            (plain_entry){plain_gain(kernel + (size_t)i * n, best, n), i, 0};
    }
    for (uint32_t i = n / 2; i-- > 0;) {
        sift(heap, n, i);
    }
    uint32_t left = n;
    for (uint32_t picked = 0; picked < budget;) {
        const float *row = kernel + (size_t)heap[0].item * n;
        if (heap[0].at != picked) {
            heap[0].gain = plain_gain(row, best, n);
            heap[0].at = picked;
            sift(heap, left, 0);
            continue;
        }
        value += heap[0].gain;
        for (uint32_t u = 0; u < n; u++) {
            best[u] = row[u] > best[u] ? row[u] : best[u];
        }
        heap[0] = heap[--left];
        sift(heap, left, 0);
        picked++;
    }
    muster_mem_free(heap);
    muster_mem_free(best);
    return value;
}

static void bench_select(partition_bench *b)
{
    if (!wants(b, "select_1000") && !wants(b, "select_value")) {
        return;
    }
    if (!load_mnist(b)) {
        return;
    }
    const uint32_t n = 10000;
    float *kernel = cosine_kernel(b, n);
    uint32_t *picks = room(1000, sizeof(*picks));
    muster_partition_select_opts opts = MUSTER_PARTITION_SELECT_INIT;
    opts.budget = 1000;
    opts.kernel = kernel;
    opts.kernel_count = n;
    opts.kernel_stride = n;
    double ours[3];
    double plain[3];
    double value = 0.0;
    muster_error error;
    for (int turn = 0; turn < 3; turn++) {
        double start = cpu_s();
        stop_unless(muster_partition_select(&opts, &error, picks, NULL, &value),
                    &error);
        ours[turn] = cpu_s() - start;
        start = cpu_s();
        double check = plain_select(kernel, n, 1000);
        plain[turn] = cpu_s() - start;
        if (fabs(check - value) > 1e-6 * value) {
            fprintf(stderr, "bench partition: plain greedy found %.4f\n",
                    check);
            b->failed = true;
        }
    }
    print_row(b, (bench_row){"select_1000", bench_median(ours, 3), "s",
                             "plain_lazy", bench_median(plain, 3)});
    print_row(b,
              (bench_row){"select_value", value, "f", "published", 8646.5158});
    muster_mem_free(kernel);
    muster_mem_free(picks);
}

/* --- partitions --- */

static const double mnist_speeds[8] = {1, 2, 3, 4, 1, 2, 3, 4};

/* The worst and the best over the seeds of one method. */
typedef struct seed_range {
    double cpu; // median of kernel + greedy + swaps
    double coverage_worst;
    double coverage_best;
    double drift_worst;
    double drift_best;
    double recall;
} seed_range;

static void show_run(const muster_partition_report *r,
                     const muster_partition_measures *m, const char *name,
                     uint64_t seed)
{
    fprintf(stderr,
            "%s seed %llu: coverage %.5f mean %.5f drift %.5f balance %.5f; "
            "kernel %.2f greedy %.2f swaps %.2f CPU s, %.1f M evaluations, "
            "%llu of %llu swaps, recall %.3f\n",
            name, (unsigned long long)seed, m->coverage_min, m->coverage_mean,
            m->drift_worst, m->balance_worst, r->kernel_cpu_s, r->greedy_cpu_s,
            r->refine_cpu_s, (double)r->evaluations * 1e-6,
            (unsigned long long)r->swaps_done,
            (unsigned long long)r->swaps_tried, r->recall);
}

static void add_seed(seed_range *range, const muster_partition_measures *m,
                     bool is_first)
{
    if (is_first) {
        range->coverage_worst = range->coverage_best = m->coverage_min;
        range->drift_worst = range->drift_best = m->drift_worst;
    }
    range->coverage_worst = fmin(range->coverage_worst, m->coverage_min);
    range->coverage_best = fmax(range->coverage_best, m->coverage_min);
    range->drift_worst = fmax(range->drift_worst, m->drift_worst);
    range->drift_best = fmin(range->drift_best, m->drift_worst);
}

static seed_range run_seeds(muster_partition_opts *opts, uint32_t seeds,
                            const char *name)
{
    seed_range range = {0};
    double cpu[SEEDS_MAX];
    uint32_t *owners = room(opts->rows.count, sizeof(*owners));
    muster_error error;
    for (uint32_t seed = 1; seed <= seeds; seed++) {
        muster_partition_report report = MUSTER_PARTITION_REPORT_INIT;
        muster_partition_measures measures = MUSTER_PARTITION_MEASURES_INIT;
        opts->seed = seed;
        double start = cpu_s();
        stop_unless(muster_partition_make(opts, &error, owners, &report),
                    &error);
        cpu[seed - 1] = cpu_s() - start;
        muster_partition_opts look = *opts;
        look.seed = 99;
        stop_unless(
            muster_partition_measure(&look, owners, &error, NULL, &measures),
            &error);
        add_seed(&range, &measures, seed == 1);
        range.recall = report.recall;
        show_run(&report, &measures, name, seed);
    }
    range.cpu = bench_median(cpu, seeds);
    muster_mem_free(owners);
    return range;
}

static void print_quality(const partition_bench *b, const char *prefix,
                          const seed_range *ours, const seed_range *random)
{
    char name[64];
    snprintf(name, sizeof(name), "%s_coverage", prefix);
    print_row(b, (bench_row){name, ours->coverage_worst, "share", "stratified",
                             random->coverage_best});
    snprintf(name, sizeof(name), "%s_drift", prefix);
    print_row(b, (bench_row){name, ours->drift_worst, "norm", "stratified",
                             random->drift_best});
}

static void bench_mnist(partition_bench *b)
{
    bool dense = wants(b, "dense_cpu") || wants(b, "dense_coverage") ||
                 wants(b, "dense_drift") || wants(b, "sparse_to_dense");
    bool sparse = wants(b, "sparse_cpu") || wants(b, "sparse_coverage") ||
                  wants(b, "sparse_drift") || wants(b, "sparse_to_dense");
    if ((!dense && !sparse) || !load_mnist(b)) {
        return;
    }
    muster_partition_opts opts = MUSTER_PARTITION_OPTS_INIT;
    opts.workers = 8;
    opts.speeds = mnist_speeds;
    opts.label_kind = MUSTER_PARTITION_CLASSES;
    opts.rows = muster_dataset_rows(b->mnist, 0, 60000);
    opts.method = MUSTER_PARTITION_PROPORTIONAL_STRATIFIED;
    seed_range random = run_seeds(&opts, b->seeds, "proportional-stratified");
    opts.method = MUSTER_PARTITION_SUBMODULAR;
    seed_range full = {0};
    if (dense) {
        full = run_seeds(&opts, b->seeds, "dense");
        print_row(b, (bench_row){"dense_cpu", full.cpu, "s", "wanted", 15.0});
        print_quality(b, "dense", &full, &random);
    }
    if (sparse) {
        opts.kernel = MUSTER_PARTITION_KERNEL_SPARSE;
        seed_range few = run_seeds(&opts, b->seeds, "sparse");
        print_row(b, (bench_row){"sparse_cpu", few.cpu, "s", "wanted", 7.0});
        print_quality(b, "sparse", &few, &random);
        if (dense) {
            print_row(b, (bench_row){"sparse_to_dense", few.coverage_worst,
                                     "share", "dense", full.coverage_worst});
        }
    }
}

/* Each class is a mixture of 20 clusters. */
static float *make_million(uint32_t rows, uint32_t columns, float *labels)
{
    float *x = room((size_t)rows * columns, sizeof(*x));
    float *centres = room((size_t)200 * columns, sizeof(*centres));
    muster_rng rng = muster_rng_make(1, 1);
    for (size_t i = 0; i < (size_t)200 * columns; i++) {
        centres[i] = (float)muster_rng_normal(&rng);
    }
    for (uint32_t r = 0; r < rows; r++) {
        uint32_t cluster = (uint32_t)muster_rng_below(&rng, 200);
        uint32_t class_of = cluster / 20;
        labels[r] = (float)class_of;
        for (uint32_t t = 0; t < columns; t++) {
            x[(size_t)r * columns + t] =
                centres[(size_t)cluster * columns + t] +
                0.7f * (float)muster_rng_normal(&rng);
        }
    }
    muster_mem_free(centres);
    return x;
}

static bool show_share(void *context, double share)
{
    const int64_t *start = context;
    double spent = (double)(muster_clock_ns() - *start) * 1e-9;
    fprintf(stderr, "\r%5.1f %%, about %.0f s left   ", 100.0 * share,
            spent * (1.0 - share) / share);
    return true;
}

static void bench_million(partition_bench *b)
{
    const uint32_t rows = 1000000;
    if (!wants(b, "million")) {
        return;
    }
    double speeds[64];
    for (uint32_t j = 0; j < 64; j++) {
        speeds[j] = 1.0 + j % 4;
    }
    float *labels = room(rows, sizeof(*labels));
    float *x = make_million(rows, 64, labels);
    muster_partition_opts opts = MUSTER_PARTITION_OPTS_INIT;
    opts.workers = 64;
    opts.speeds = speeds;
    opts.label_kind = MUSTER_PARTITION_CLASSES;
    opts.rows = (muster_rows){.count = rows,
                              .features = 64,
                              .dense = x,
                              .stride = 64,
                              .labels = labels};
    opts.threads = b->threads;
    opts.kernel = MUSTER_PARTITION_KERNEL_SPARSE;
    opts.method = MUSTER_PARTITION_SUBMODULAR;
    uint32_t *owners = room(rows, sizeof(*owners));
    muster_partition_report report = MUSTER_PARTITION_REPORT_INIT;
    muster_error error;
    int64_t start = muster_clock_ns();
    opts.on_progress = show_share;
    opts.progress_context = &start;
    stop_unless(muster_partition_make(&opts, &error, owners, &report), &error);
    double seconds = (double)(muster_clock_ns() - start) * 1e-9;
    fputc('\n', stderr);
    opts.on_progress = NULL;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    print_row(b, (bench_row){"million_s", seconds, "s", "wanted", 300.0});
    print_row(b, (bench_row){"million_gb",
                             (double)usage.ru_maxrss / 1024.0 / 1024.0, "GiB",
                             "wanted", 4.0});
    muster_partition_measures m = MUSTER_PARTITION_MEASURES_INIT;
    muster_partition_opts look = opts;
    look.sample = 2000;
    look.seed = 99;
    stop_unless(muster_partition_measure(&look, owners, &error, NULL, &m),
                &error);
    show_run(&report, &m, "million", 1);
    seed_range ours = {0};
    add_seed(&ours, &m, true);
    opts.method = MUSTER_PARTITION_PROPORTIONAL_STRATIFIED;
    stop_unless(muster_partition_make(&opts, &error, owners, &report), &error);
    stop_unless(muster_partition_measure(&look, owners, &error, NULL, &m),
                &error);
    show_run(&report, &m, "proportional-stratified", 1);
    seed_range random = {0};
    add_seed(&random, &m, true);
    print_quality(b, "million", &ours, &random);
    muster_mem_free(labels);
    muster_mem_free(x);
    muster_mem_free(owners);
}

static bool read_arguments(partition_bench *b, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            b->json = true;
        } else if (i + 1 < argc && strcmp(argv[i], "--only") == 0 &&
                   b->only_count < ONLY_MAX) {
            b->only[b->only_count++] = argv[++i];
        } else if (i + 1 < argc && strcmp(argv[i], "--data") == 0) {
            b->data = argv[++i];
        } else if (i + 1 < argc && strcmp(argv[i], "--threads") == 0) {
            b->threads = (uint32_t)strtoul(argv[++i], NULL, 10);
        } else if (i + 1 < argc && strcmp(argv[i], "--seeds") == 0) {
            b->seeds = (uint32_t)strtoul(argv[++i], NULL, 10);
        } else {
            return false;
        }
    }
    return b->seeds >= 1 && b->seeds <= SEEDS_MAX;
}

int main(int argc, char **argv)
{
    static char path[1024];
    const char *folder = getenv("MUSTER_DATA");
    snprintf(path, sizeof(path), "%s/mnist",
             folder != NULL ? folder : "../shared/data");
    static partition_bench b;
    b.threads = 2;
    b.seeds = SEEDS_MAX;
    b.data = path;
    if (!read_arguments(&b, argc, argv)) {
        return bench_usage(argc, argv,
                           "partition [--json] [--only PREFIX].. "
                           "[--data FOLDER] [--threads N] [--seeds 1..5]");
    }
    openblas_set_num_threads(1);
    bench_select(&b);
    bench_mnist(&b);
    bench_million(&b);
    muster_dataset_free(b.mnist);
    return b.failed ? 1 : 0;
}
