/*
 * bench_ps.c -- the parameter server against plain loops, in one run.
 *
 * Every row has a figure, the baseline of the same run and their ratio. Nodes
 * of a mesh are processes. Plain loops use the same kernels, compiler flags,
 * precision and order, on rows in one array. Times are the best of several
 * repeats, baseline and subject in turn. All parts run but `memory`, which
 * takes 4 GB and must be named.
 *
 *   muster bench ps [--json] [--repeats N] [--seeds N] [--only NAME]
 */
#include <cblas.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "muster/log.h"

#include "bench_ps.h"

void *bench_must(void *block)
{
    if (block == NULL) {
        fprintf(stderr, "muster-bench-ps: out of memory\n");
        exit(1);
    }
    return block;
}

void bench_check(muster_status status)
{
    if (status != MUSTER_OK) {
        fprintf(stderr, "muster-bench-ps: %s\n", muster_status_text(status));
        exit(1);
    }
}

void bench_report(const bench_ps *b, const char *name, double value,
                  const char *unit, const char *baseline, double baseline_value)
{
    bench_row row = {name, value, unit, baseline, baseline_value};
    bench_print(&row, b->json);
}

void bench_progress(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)fputs("muster-bench-ps: ", stderr);
    (void)vfprintf(stderr, format, arguments);
    (void)fputc('\n', stderr);
    va_end(arguments);
}

void bench_data_path(const char *name, char *path_out, size_t bytes)
{
    const char *folder = getenv("MUSTER_DATA");
    (void)snprintf(path_out, bytes, "%s/%s",
                   folder != NULL ? folder : "../shared/data", name);
}

bool bench_wanted(const bench_ps *b, const char *name)
{
    return b->only == NULL || strcmp(b->only, name) == 0;
}

static void tell(void *context, muster_log_level level, const char *line)
{
    (void)context;
    (void)level;
    fprintf(stderr, "muster-bench-ps: %s\n", line);
}

int main(int argc, char **argv)
{
    bench_ps b = {.repeats = 5, .seeds = 3};
    muster_log_to(tell, NULL, MUSTER_LOG_WARN);
    openblas_set_num_threads(1); // as the command does
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--only") == 0 && i + 1 < argc) {
            b.only = argv[++i];
        } else if (strcmp(argv[i], "--json") == 0) {
            b.json = true;
        } else if (strcmp(argv[i], "--repeats") == 0 && i + 1 < argc) {
            long repeats = strtol(argv[++i], NULL, 10);
            b.repeats = repeats < 1                   ? 1
                        : repeats > BENCH_REPEATS_MAX ? BENCH_REPEATS_MAX
                                                      : (int)repeats;
        } else if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc) {
            long seeds = strtol(argv[++i], NULL, 10);
            b.seeds = seeds < 1 ? 1 : seeds > 100 ? 100 : (uint32_t)seeds;
        } else {
            return bench_usage(argc, argv,
                               "ps [--json] [--repeats N] [--seeds N] [--only "
                               "in_place|pull_push|sample|remote|hot|mf|"
                               "complex|skipgram|memory]");
        }
    }
    bench_rows(&b);
    if (bench_wanted(&b, "sample")) {
        bench_sample(&b);
    }
    if (bench_wanted(&b, "remote")) {
        bench_remote(&b);
    }
    if (bench_wanted(&b, "hot")) {
        bench_hot(&b);
    }
    if (bench_wanted(&b, "mf")) {
        bench_mf(&b);
    }
    if (bench_wanted(&b, "complex")) {
        bench_kge(&b);
    }
    if (bench_wanted(&b, "skipgram")) {
        bench_skipgram(&b);
    }
    // Too large to come along when everything is measured.
    if (b.only != NULL && bench_wanted(&b, "memory")) {
        bench_memory(&b);
    }
    return 0;
}
