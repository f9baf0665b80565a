/*
 * bench_scale.c -- the parameter server on more threads and more nodes.
 *
 * For every task: one node with each number of threads, then each number of
 * nodes of one thread. A layout is `muster train` in processes of its own, as
 * users run it; layouts take turns, and medians over the repeats count. mf has
 * a plain loop with as many threads beside it, without latches or a server, in
 * the same turn (scale_plain.c).
 *
 *   muster bench scale [--task NAME] [--threads LIST] [--nodes LIST]
 *                      [--repeats N] [--epochs N] [--json | --csv]
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdint.h>
#include <unistd.h>

#include "bench.h"
#include "scale.h"

enum { LIST_MAX = 16, LAYOUTS_MAX = 2 * LIST_MAX, REPEATS_MAX = 15 };

typedef struct scale_task {
    const char *name;
    const char *model;
    const char *data;    // a made-up one, or beside MUSTER_DATA
    const char *test;    // or NULL
    const char *quality; // member of the summary
    const char *unit;
    uint32_t epochs;
} scale_task;

static const scale_task tasks[] = {
    {"mf", "mf:order=column", "zipf:", NULL, "loss", "cells/s", 20},
    {"mf_random", "mf:order=random", "zipf:", NULL, "loss", "cells/s", 10},
    {"complex", "complex", "fb15k237", NULL, "test_mrr", "triples/s", 2},
    {"complex_64",
     "complex:dim=64,negatives=4,loss=logistic,reciprocal=0,n3=0,decay=1",
     "fb15k237", NULL, "test_mrr", "triples/s", 5},
    {"skipgram", "skipgram", "word2vec/text8_prefix.gz",
     "word2vec/EN-WS-353-ALL.txt", "similarity", "words/s", 5},
};

typedef struct layout {
    uint32_t nodes;
    uint32_t threads;
    double rates[REPEATS_MAX];
    double plain[REPEATS_MAX];
    double quality[REPEATS_MAX];
    double waits[REPEATS_MAX];
} layout;

typedef struct scale_bench {
    const char *only;
    uint32_t threads[LIST_MAX];
    uint32_t nodes[LIST_MAX];
    uint32_t thread_count;
    uint32_t node_count;
    uint32_t repeats;
    uint32_t epochs; // 0: the task's
    bool json;
    bool csv;
    char program[4096]; // muster
} scale_bench;

static uint32_t read_list(const char *text, uint32_t *values_out)
{
    uint32_t count = 0;
    while (*text != '\0' && count < LIST_MAX) {
        char *end;
        unsigned long value = strtoul(text, &end, 10);
        if (end == text || value < 1 || value > 64) {
            return 0;
        }
        values_out[count++] = (uint32_t)value;
        text = *end == ',' ? end + 1 : end;
    }
    return *text == '\0' ? count : 0;
}

/* `muster` beside this program, or in ../bin of an installation, or by PATH. */
static void find_program(char *program_out, size_t bytes)
{
    static const char *const places[] = {"muster", "../bin/muster",
                                         "../../bin/muster"};
    char self[4000] = "";
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *slash = length > 0 ? strrchr(self, '/') : NULL;
    if (slash != NULL) {
        slash[1] = '\0';
    }
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        (void)snprintf(program_out, bytes, "%s%s", self, places[i]);
        if (access(program_out, X_OK) == 0) {
            return;
        }
    }
    (void)snprintf(program_out, bytes, "muster");
}

/* The number after "name": in one line of JSON; NAN if it is not there. */
static double member(const char *json, const char *name)
{
    char quoted[64];
    (void)snprintf(quoted, sizeof(quoted), "\"%s\":", name);
    const char *at = strstr(json, quoted);
    char *end;
    double value = at == NULL ? NAN : strtod(at + strlen(quoted), &end);
    return at != NULL && end != at + strlen(quoted) ? value : NAN;
}

static void data_path(const char *name, char *path_out, size_t bytes)
{
    const char *folder = getenv("MUSTER_DATA");
    if (strchr(name, ':') != NULL) {
        (void)snprintf(path_out, bytes, "%s", name);
        return;
    }
    (void)snprintf(path_out, bytes, "%s/%s",
                   folder != NULL ? folder : "../shared/data", name);
}

static void run_layout(const scale_bench *b, const scale_task *task, layout *l,
                       uint32_t repeat)
{
    char data[2048];
    char test[2100] = "";
    char command[12288];
    char line[16384] = "";
    data_path(task->data, data, sizeof(data));
    if (task->test != NULL) {
        char path[2048];
        data_path(task->test, path, sizeof(path));
        (void)snprintf(test, sizeof(test), "--test '%s'", path);
    }
    (void)snprintf(command, sizeof(command),
                   "'%s' train --model '%s' --data '%s' %s --epochs %" PRIu32
                   " --nodes %" PRIu32 " --threads %" PRIu32 " --seed %" PRIu32
                   " --json 2>/dev/null",
                   b->program, task->model, data, test,
                   b->epochs > 0 ? b->epochs : task->epochs, l->nodes,
                   l->threads, repeat + 1);
    FILE *out = popen(command, "r");
    if (out == NULL || fgets(line, sizeof(line), out) == NULL) {
        line[0] = '\0';
    }
    int ended = out == NULL ? 1 : pclose(out);
    if (ended != 0) {
        fprintf(stderr, "muster-bench-scale: failed: %s\n", command);
    }
    l->rates[repeat] = ended == 0 ? member(line, "units_per_s") : NAN;
    l->quality[repeat] = member(line, task->quality);
    l->waits[repeat] = l->nodes > 1 ? member(line, "wait_share") : 0;
    l->plain[repeat] =
        scale_plain_mf(task->model, l->nodes * l->threads, repeat + 1);
}

static void report_line(const scale_bench *b, const scale_task *task,
                        const layout *l, double one)
{
    char name[64];
    double rate = l->rates[0];
    double efficiency = rate / one / (l->nodes * l->threads);
    (void)snprintf(name, sizeof(name), "scale_%s_%" PRIu32 "x%" PRIu32,
                   task->name, l->nodes, l->threads);
    if (b->csv) {
        printf("%s,%" PRIu32 ",%" PRIu32 ",%.6g,%.6g,%.4f,%.4f,%.4f,%.6g,%.4f"
               "\n",
               task->name, l->nodes, l->threads, rate, l->plain[0],
               rate / l->plain[0], rate / one, efficiency, l->quality[0],
               l->waits[0]);
        (void)fflush(stdout);
        return;
    }
    bench_print(&(bench_row){name, rate, task->unit, "1x1", one}, b->json);
    char part[80];
    if (isfinite(l->plain[0])) {
        (void)snprintf(part, sizeof(part), "%s_plain", name);
        bench_print(
            &(bench_row){part, rate, task->unit, "plain loop", l->plain[0]},
            b->json);
    }
    (void)snprintf(part, sizeof(part), "%s_efficiency", name);
    bench_print(&(bench_row){part, efficiency, "share", NULL, NAN}, b->json);
    (void)snprintf(part, sizeof(part), "%s_quality", name);
    bench_print(&(bench_row){part, l->quality[0], task->quality, NULL, NAN},
                b->json);
    (void)snprintf(part, sizeof(part), "%s_waits", name);
    bench_print(&(bench_row){part, l->waits[0], "share", NULL, NAN}, b->json);
}

static void take_medians(const scale_bench *b, layout *l)
{
    double *all[] = {l->rates, l->plain, l->quality, l->waits};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        all[i][0] = bench_median(all[i], b->repeats);
    }
}

static void run_task(const scale_bench *b, const scale_task *task)
{
    static layout layouts[LAYOUTS_MAX + 1];
    uint32_t count = 0;
    layouts[count++] = (layout){.nodes = 1, .threads = 1};
    for (uint32_t i = 0; i < b->thread_count; i++) {
        if (b->threads[i] > 1) {
            layouts[count++] = (layout){.nodes = 1, .threads = b->threads[i]};
        }
    }
    for (uint32_t i = 0; i < b->node_count; i++) {
        if (b->nodes[i] > 1) {
            layouts[count++] = (layout){.nodes = b->nodes[i], .threads = 1};
        }
    }
    for (uint32_t repeat = 0; repeat < b->repeats; repeat++) {
        for (uint32_t i = 0; i < count; i++) {
            run_layout(b, task, &layouts[i], repeat);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        take_medians(b, &layouts[i]);
        report_line(b, task, &layouts[i], layouts[0].rates[0]);
    }
}

/* Take option `argv[*i]` and its value; false: it is no option of this. */
static bool read_option(scale_bench *b, char **argv, int *i)
{
    const char *name = argv[*i];
    const char *value = argv[*i + 1];
    if (strcmp(name, "--json") == 0) {
        b->json = true;
        return true;
    }
    if (strcmp(name, "--csv") == 0) {
        b->csv = true;
        return true;
    }
    if (value == NULL) {
        return false;
    }
    (*i)++;
    if (strcmp(name, "--task") == 0) {
        b->only = value;
        return true;
    }
    uint32_t number[LIST_MAX] = {0};
    uint32_t count = read_list(value, number);
    if (strcmp(name, "--threads") == 0) {
        memcpy(b->threads, number, sizeof(number));
        b->thread_count = count;
    } else if (strcmp(name, "--nodes") == 0) {
        memcpy(b->nodes, number, sizeof(number));
        b->node_count = count;
    } else if (strcmp(name, "--repeats") == 0 && number[0] <= REPEATS_MAX) {
        b->repeats = number[0];
    } else if (strcmp(name, "--epochs") == 0) {
        b->epochs = number[0];
    } else {
        return false;
    }
    return count > 0;
}

int main(int argc, char **argv)
{
    static scale_bench b = {.threads = {1, 2},
                            .nodes = {1, 2},
                            .thread_count = 2,
                            .node_count = 2,
                            .repeats = 3};
    bool known = true;
    for (int i = 1; i < argc && known; i++) {
        known = read_option(&b, argv, &i);
    }
    bool found = b.only == NULL;
    for (size_t i = 0; i < sizeof(tasks) / sizeof(tasks[0]); i++) {
        found = found || strcmp(b.only, tasks[i].name) == 0;
    }
    if (!known || !found) {
        return bench_usage(
            argc, argv,
            "scale [--task mf|mf_random|complex|complex_64|skipgram] "
            "[--threads LIST] [--nodes LIST] [--repeats N] [--epochs N] "
            "[--json | --csv]");
    }
    find_program(b.program, sizeof(b.program));
    if (b.csv) {
        puts("task,nodes,threads,rate,plain,to_plain,to_1x1,efficiency,quality,"
             "wait_share");
    }
    for (size_t i = 0; i < sizeof(tasks) / sizeof(tasks[0]); i++) {
        if (b.only == NULL || strcmp(b.only, tasks[i].name) == 0) {
            run_task(&b, &tasks[i]);
        }
    }
    return 0;
}
