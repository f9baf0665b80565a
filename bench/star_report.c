/*
 * star_report.c -- see star_report.h.
 */
#include "star_report.h"

#include "bench.h"

void star_results_clear(star_results *results)
{
    double *steps = &results->median_ms[0][0][0];
    double *sums = &results->sum_ms[0][0][0];
    for (size_t i = 0; i < STAR_VARIANTS * STAR_SIZES * STAR_BLOCKS; i++) {
        steps[i] = NAN;
        sums[i] = NAN;
    }
}

/* Every worker reads the model and writes its answer. */
static double workers_limit_ms(size_t count, int workers, double rate)
{
    return 4.0 * (double)count * 2.0 * workers / rate * 1e3;
}

/* The coordinator reads each answer and writes the model. */
static double sum_limit_ms(size_t count, int workers, double rate)
{
    return 4.0 * (double)count * (workers + 1.0) / rate * 1e3;
}

/* Payload of a step, there and back, by its time. */
static double rate_gb_s(size_t size, int workers, double step_ms)
{
    return 2.0 * workers * 4.0 * (double)star_counts[size] / step_ms * 1e-6;
}

/* rows -------------------------------------------------------------------- */

typedef struct star_row {
    const char *format; // of its name, with the size's
    double value;
    const char *baseline;
    double baseline_value;
} star_row;

/* 1 when it was not measured. */
static int print_row(const star_row *row, size_t size, bool json)
{
    char name[64] = "";
    const char *mark = strstr(row->format, "%s");
    snprintf(name, sizeof(name), "%.*s%s%s", (int)(mark - row->format),
             row->format, star_names[size], mark + 2);
    bench_row printed = {name, row->value, "ms", row->baseline,
                         row->baseline_value};
    bench_print(&printed, json);
    return !isfinite(row->value);
}

typedef struct rate_row {
    const char *label;
    star_variant which;
    const char *baseline;
    star_variant beside;
} rate_row;

static void print_rate(const rate_row *row, const double *median, size_t size,
                       int workers, bool json)
{
    char name[64];
    snprintf(name, sizeof(name), "star_%s_%s_rate", row->label,
             star_names[size]);
    bench_row rate = {name, rate_gb_s(size, workers, median[row->which]),
                      "GB/s", row->baseline,
                      rate_gb_s(size, workers, median[row->beside])};
    bench_print(&rate, json);
}

static int report_ours(star_results *all, const double *median, size_t size,
                       bool json)
{
    int failed = 0;
    int workers = all->workers;
    double rate = bench_median(all->rate[size], STAR_BLOCKS);
    double sum = sum_limit_ms(star_counts[size], workers, rate);
    double memory = workers_limit_ms(star_counts[size], workers, rate) + sum;
    const star_row rows[] = {
        {"star_%s", median[OURS_UNIX], "openmpi_tcp", median[MPI_TCP]},
        {"star_%s_vs_shm", median[OURS_UNIX], "openmpi_shm", median[MPI_SHM]},
        {"star_%s_vs_memory", median[OURS_UNIX], "memory_limit", memory},
        {"star_%s_sum", bench_median(all->sum_ms[OURS_UNIX][size], STAR_BLOCKS),
         "memory_limit", sum},
        {"star_tcp_%s", median[OURS_TCP], "openmpi_tcp", median[MPI_TCP]},
    };
    const rate_row tcp = {"tcp", OURS_TCP, "openmpi_tcp_rate", MPI_TCP};
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        failed += print_row(&rows[r], size, json);
    }
    print_rate(&tcp, median, size, workers, json);
    return failed;
}

/* What was asked for beyond that. */
static int report_asked(const star_results *all, const double *median,
                        size_t size, bool json)
{
    int failed = 0;
    if (all->with_key) {
        const star_row tls = {"star_tls_%s", median[OURS_TLS], "star_tcp",
                              median[OURS_TCP]};
        const star_row crowd = {"star_tls_%s_crowd", median[OURS_CROWD],
                                "star_tls", median[OURS_TLS]};
        const rate_row rate = {"tls", OURS_TLS, "star_tcp_rate", OURS_TCP};
        failed += print_row(&tls, size, json);
        print_rate(&rate, median, size, all->workers, json);
        failed += print_row(&crowd, size, json);
    }
    if (all->with_ucx) {
        const star_row ucx = {"star_ucx_%s", median[OURS_UCX], "openmpi_tcp",
                              median[MPI_TCP]};
        const rate_row rate = {"ucx", OURS_UCX, "star_tcp_rate", OURS_TCP};
        failed += print_row(&ucx, size, json);
        print_rate(&rate, median, size, all->workers, json);
    }
    return failed;
}

/* the table --------------------------------------------------------------- */

typedef struct table_line {
    const char *label;
    star_variant which;
    const char *reason; // why it was not measured; NULL: it was
} table_line;

static void print_line(const star_results *all, const table_line *line,
                       double median[STAR_SIZES][STAR_VARIANTS])
{
    printf("%-24s", line->label);
    for (size_t i = 0; i < STAR_SIZES && line->reason == NULL; i++) {
        if (star_has(all->sizes, i)) {
            printf(" %10.3g",
                   rate_gb_s(i, all->workers, median[i][line->which]));
        }
    }
    printf("%s\n", line->reason != NULL ? line->reason : "");
}

static void print_table(const star_results *all,
                        double median[STAR_SIZES][STAR_VARIANTS])
{
    const table_line lines[] = {
        {"sock", OURS_TCP, NULL},
        {"sock with a key", OURS_TLS,
         all->with_key ? NULL : " give --key-file FILE"},
        {"ucx", OURS_UCX, all->with_ucx ? NULL : " give --engine ucx"},
        {"Open MPI", MPI_TCP, all->no_mpi},
    };
    printf("\n%-24s", "TCP, GB/s; floats:");
    for (size_t i = 0; i < STAR_SIZES; i++) {
        if (star_has(all->sizes, i)) {
            printf(" %10s", star_names[i]);
        }
    }
    printf("\n");
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        print_line(all, &lines[i], median);
    }
}

int star_report(star_results *all, bool json)
{
    double median[STAR_SIZES][STAR_VARIANTS];
    int failed = 0;
    for (size_t i = 0; i < STAR_SIZES; i++) {
        for (int v = 0; v < STAR_VARIANTS; v++) {
            median[i][v] = bench_median(all->median_ms[v][i], STAR_BLOCKS);
        }
        if (star_has(all->sizes, i)) {
            failed += report_ours(all, median[i], i, json) +
                      report_asked(all, median[i], i, json);
        }
    }
    if (!json) {
        print_table(all, median);
    }
    return failed;
}
