/*
 * bench_scale.c -- the parameter server on more threads and more nodes.
 *
 * For every task: one node with each number of threads, then each number of
 * nodes, of one thread or as many as NxT says. A layout is `muster train` in
 * processes of its own, as users run it. Tasks and layouts take turns, and
 * medians over the repeats count: as many as there is time for. Beside them, in
 * the same turn, stands a plain loop with as many threads, without latches or a
 * server (scale_plain.c, scale_loop.c). The most nodes are also run as so many
 * runs of one thread that know nothing of each other, which is what the machine
 * can do: its processors may share caches, memory and cores. Some tasks run
 * them for longer: as they are, and with one that stops for a tenth of every
 * second. Large tasks are run at the end, while there is time.
 *
 *   muster bench scale [--task NAME] [--data PATH] [--threads LIST]
 *                      [--nodes LIST] [--repeats N] [--epochs N] [--minutes N]
 *                      [--quick] [--out FOLDER] [--json]
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdint.h>
#include <unistd.h>

#include <cblas.h>

#include "base/clock.h"
#include "bench.h"
#include "scale.h"

enum { LIST_MAX = 16, WORKERS_MAX = 64 };
enum { LARGE_S = 30 }; // that a run of a large task may take

#define COMPLEX_64 \
    "complex:dim=64,negatives=4,loss=logistic,reciprocal=0,n3=0,decay=1"
#define MF_COLUMN "mf:order=column,bias=0,valid=0"
#define MF_RANDOM "mf:order=random,bias=0,valid=0"
#define FB15K     "fb15k237"

/* Sizes are such that three repeats of all tasks take a machine of sixteen
 * processors eight minutes. */
static const scale_task tasks[] = {
    {"skipgram", "skipgram", "word2vec/text8_prefix.gz",
     "word2vec/EN-WS-353-ALL.txt", "", "similarity", "words/s", 3, 1, 0, 0, 0,
     "text8_prefix", false},
    {"complex", "complex", FB15K, NULL, "", "test_mrr", "triples/s", 2, 1, 0, 5,
     1000, "every 5th triple of fb15k237", false},
    {"complex_64", COMPLEX_64, FB15K, NULL, "", "test_mrr", "triples/s", 4, 2,
     15, 1, 2000, "fb15k237", false},
    {"mf", MF_COLUMN, "zipf:", NULL, "--optimizer sgd", "loss", "cells/s", 10,
     5, 0, 0, 0, "2 million cells", false},
    {"mf_random", MF_RANDOM, "zipf:", NULL, "--optimizer sgd", "loss",
     "cells/s", 10, 5, 0, 0, 0, "2 million cells", false},
    {"mf_20m", MF_COLUMN, "zipf:cells=20000000", NULL, "--optimizer sgd",
     "loss", "cells/s", 3, 2, 0, 0, 0, "20 million cells", true},
    {"mf_random_20m", MF_RANDOM, "zipf:cells=20000000", NULL, "--optimizer sgd",
     "loss", "cells/s", 3, 2, 0, 0, 0, "20 million cells", true},
};

enum { TASKS = sizeof(tasks) / sizeof(tasks[0]) };

typedef struct scale_bench {
    const char *only;
    const char *data;   // NULL: the task's own
    const char *folder; // for csv and svg, or NULL
    uint32_t threads[LIST_MAX];
    uint32_t thread_count;
    uint32_t nodes[LIST_MAX]; // with as many threads each as node_threads says
    uint32_t node_threads[LIST_MAX];
    uint32_t node_count;
    uint32_t repeats;
    uint32_t epochs; // 0: the task's
    uint32_t minutes;
    bool quick;
    bool json;
    int64_t start_ns;
    uint32_t found_count;
    scale_found found[TASKS];
    char graphs[TASKS][SCALE_FOLDER_BYTES]; // smaller ones; empty: none
    char program[4096];                     // muster
} scale_bench;

/* Numbers, or with `seconds_out` pairs AxB. Returns how many; 0: illegal. */
static uint32_t read_list(const char *text, uint32_t *values_out,
                          uint32_t *seconds_out)
{
    uint32_t count = 0;
    while (*text != '\0' && count < LIST_MAX) {
        char *end;
        unsigned long value = strtoul(text, &end, 10);
        unsigned long second = 1;
        if (seconds_out != NULL && *end == 'x') {
            second = strtoul(end + 1, &end, 10);
        }
        if (end == text || value < 1 || value > WORKERS_MAX || second < 1 ||
            second > WORKERS_MAX || (*end != ',' && *end != '\0')) {
            return 0;
        }
        values_out[count] = (uint32_t)value;
        if (seconds_out != NULL) {
            seconds_out[count] = (uint32_t)second;
        }
        count++;
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

/* What was asked for, or the task's own. */
static void data_of(const scale_bench *b, const scale_task *task,
                    char *path_out, size_t bytes)
{
    const char *graph = b->graphs[task - tasks];
    if (*graph != '\0') {
        (void)snprintf(path_out, bytes, "%s", graph);
    } else if (b->data != NULL) {
        (void)snprintf(path_out, bytes, "%s", b->data);
    } else {
        data_path(task->data, path_out, bytes);
    }
}

static double seconds_left(const scale_bench *b)
{
    return 60.0 * b->minutes - (double)(muster_clock_ns() - b->start_ns) / 1e9;
}

static uint32_t epochs_of(const scale_bench *b, const scale_task *task,
                          const scale_layout *l)
{
    if (l->kind == SCALE_LONG || l->kind == SCALE_STOPPED) {
        return task->stop_epochs;
    }
    return b->epochs > 0 ? b->epochs
           : b->quick    ? task->quick_epochs
                         : task->epochs;
}

/* The command of one run. It ends with the time that is left. */
static void make_command(const scale_bench *b, const scale_task *task,
                         const scale_layout *l, char *command_out, size_t bytes)
{
    char data[2048];
    char test[2100] = "";
    data_of(b, task, data, sizeof(data));
    if (task->test != NULL) {
        char path[2048];
        data_path(task->test, path, sizeof(path));
        (void)snprintf(test, sizeof(test), "--test '%s'", path);
    }
    (void)snprintf(
        command_out, bytes,
        "exec timeout %.0f '%s' train --model '%s' --data '%s' %s %s "
        "--epochs %" PRIu32 " --nodes %" PRIu32 " --threads %" PRIu32
        " --seed %" PRIu32 " --json 2>/dev/null",
        seconds_left(b) + 1, b->program, task->model, data, test, task->options,
        epochs_of(b, task, l), l->kind == SCALE_APART ? 1 : l->nodes,
        l->threads, l->runs + 1);
}

/* The plain loop with as many threads; it is run once a turn for all layouts of
 * as many workers. */
static double plain_of(const scale_bench *b, const scale_found *found,
                       const scale_layout *l)
{
    char data[2048];
    uint32_t workers = l->nodes * l->threads;
    for (const scale_layout *k = found->layouts; k < l; k++) {
        if (k->nodes * k->threads == workers && k->runs > l->runs) {
            return k->plain[l->runs];
        }
    }
    const scale_task *task = found->task;
    data_of(b, task, data, sizeof(data));
    return strncmp(task->model, "mf", 2) == 0
               ? scale_plain_mf(task->model, data, workers, l->runs + 1)
               : scale_plain_loop(task->model, data, workers, l->runs + 1);
}

/* Sums of runs that are alone. */
typedef struct apart {
    const scale_task *task;
    uint32_t runs;
    double rate;
    double quality;
} apart;

static void take_apart(void *context, const char *line)
{
    apart *a = context;
    a->runs++;
    a->rate += member(line, "units_per_s");
    a->quality += member(line, a->task->quality);
}

/* As many runs of one thread at once, which know nothing of each other. */
static bool run_apart(const scale_task *task, scale_layout *l,
                      const char *command)
{
    apart a = {.task = task};
    bool good = scale_run_apart(command, l->nodes, take_apart, &a);
    l->rates[l->runs] = good ? a.rate : NAN;
    l->quality[l->runs] = good ? a.quality / a.runs : NAN;
    l->waits[l->runs] = good ? 0 : NAN;
    return good;
}

static bool run_together(const scale_task *task, scale_layout *l,
                         const char *command)
{
    char line[16384];
    uint32_t run = l->runs;
    bool good =
        scale_run(command, l->kind == SCALE_STOPPED, line, sizeof(line));
    double waits = l->nodes > 1 ? member(line, "wait_share") : 0;
    l->rates[run] = good ? member(line, "units_per_s") : NAN;
    l->quality[run] = good ? member(line, task->quality) : NAN;
    l->waits[run] = good ? waits : NAN;
    return good;
}

static const char *const kinds[] = {"", " long", " stopped", " apart"};

static void run_layout(const scale_bench *b, const scale_found *found,
                       scale_layout *l)
{
    const scale_task *task = found->task;
    char command[12288];
    uint32_t run = l->runs;
    double before = seconds_left(b);
    make_command(b, task, l, command, sizeof(command));
    bool good =
        (l->kind == SCALE_APART ? run_apart : run_together)(task, l, command);
    if (!good) {
        fprintf(stderr, "muster-bench-scale: failed: %s\n", command);
    }
    // Those of graphs are no bar, and take long: once.
    bool plain = l->kind == SCALE_USUAL && (task->every == 0 || run == 0);
    l->plain[run] = plain ? plain_of(b, found, l) : NAN;
    l->runs++;
    l->last_s = before - seconds_left(b);
    fprintf(stderr, "%s %" PRIu32 "x%" PRIu32 "%s: %.4g %s, %s %.4g, %.1f s\n",
            task->name, l->nodes, l->threads, kinds[l->kind], l->rates[run],
            task->unit, task->quality, l->quality[run], l->last_s);
}

static void add_layout(scale_found *found, uint32_t nodes, uint32_t threads,
                       scale_kind kind)
{
    if (nodes * threads > 1 && found->count < SCALE_LAYOUTS_MAX) {
        found->layouts[found->count++] =
            (scale_layout){.nodes = nodes, .threads = threads, .kind = kind};
    }
}

/* The most nodes of one thread in a list of layouts; 1: none. */
static uint32_t most_nodes(const scale_bench *b)
{
    uint32_t nodes = 1;
    for (uint32_t i = 0; i < b->node_count; i++) {
        if (b->node_threads[i] == 1 && b->nodes[i] > nodes) {
            nodes = b->nodes[i];
        }
    }
    return nodes;
}

/* The most nodes as so many runs of their own, and for longer, as they are and
 * with one that stops. */
static void add_limits(scale_found *found, uint32_t nodes)
{
    add_layout(found, nodes, 1, SCALE_APART);
    if (found->task->stop_epochs > 0) {
        add_layout(found, nodes, 1, SCALE_LONG);
        add_layout(found, nodes, 1, SCALE_STOPPED);
    }
}

static void add_task(scale_bench *b, const scale_task *task)
{
    scale_found *found = &b->found[b->found_count++];
    uint32_t nodes = most_nodes(b);
    found->task = task;
    found->size = b->data != NULL ? b->data : task->size;
    found->count = 1;
    found->layouts[0] = (scale_layout){.nodes = 1, .threads = 1};
    for (uint32_t i = 0; i < b->thread_count; i++) {
        if (!task->large || b->threads[i] == nodes) {
            add_layout(found, 1, b->threads[i], SCALE_USUAL);
        }
    }
    for (uint32_t i = 0; i < b->node_count; i++) {
        if (!task->large || (b->nodes[i] == nodes && b->node_threads[i] == 1)) {
            add_layout(found, b->nodes[i], b->node_threads[i], SCALE_USUAL);
        }
    }
    if (!task->large) {
        add_limits(found, nodes);
    }
}

/* All layouts of the large tasks, or of the others, once. Those that there is
 * no time for are left out. */
static void run_all(scale_bench *b, bool large)
{
    for (uint32_t i = 0; i < b->found_count; i++) {
        scale_found *found = &b->found[i];
        for (uint32_t k = 0; found->task->large == large && k < found->count;
             k++) {
            scale_layout *l = &found->layouts[k];
            double needed = large ? LARGE_S : 1 + l->last_s;
            if (seconds_left(b) > needed) {
                run_layout(b, found, l);
            }
        }
    }
}

static void run_repeats(scale_bench *b)
{
    for (uint32_t i = 0; i < b->repeats; i++) {
        run_all(b, false);
    }
    run_all(b, true);
}

static bool is_there(const char *path)
{
    char zipped[2100];
    (void)snprintf(zipped, sizeof(zipped), "%s.gz", path);
    bool there = strchr(path, ':') != NULL || access(zipped, R_OK) == 0 ||
                 access(path, R_OK) == 0;
    if (!there) {
        perror(path);
    }
    return there;
}

/* Is the data of a task there, and made smaller where the task wants that? */
static bool has_data(scale_bench *b, const scale_task *task)
{
    char data[2048];
    char test[2048];
    data_of(b, task, data, sizeof(data));
    if (!is_there(data)) {
        return false;
    }
    if (task->test != NULL) {
        data_path(task->test, test, sizeof(test));
    }
    if (task->test != NULL && !is_there(test)) {
        return false;
    }
    return b->data != NULL || task->every == 0 ||
           scale_graph_make(data, task->every, task->ranked,
                            b->graphs[task - tasks]);
}

/* Leave out tasks without data. False: there were some. */
static bool keep_those_with_data(scale_bench *b)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < b->found_count; i++) {
        const scale_found *found = &b->found[i];
        if (has_data(b, found->task)) {
            b->found[kept++] = *found;
        } else {
            fprintf(stderr, "muster-bench-scale: %s: left out without data\n",
                    found->task->name);
        }
    }
    bool all = kept == b->found_count;
    b->found_count = kept;
    return all;
}

/* Were there runs of the task, none of which ended well? */
static bool all_failed(const scale_found *found)
{
    uint32_t runs = 0;
    uint32_t failed = 0;
    for (uint32_t k = 0; k < found->count; k++) {
        const scale_layout *l = &found->layouts[k];
        runs += l->runs;
        for (uint32_t run = 0; run < l->runs; run++) {
            failed += isfinite(l->rates[run]) ? 0 : 1;
        }
    }
    return runs > 0 && failed == runs;
}

static bool all_tasks_ran(const scale_bench *b)
{
    bool all = true;
    for (uint32_t i = 0; i < b->found_count; i++) {
        all = all && !all_failed(&b->found[i]);
    }
    return all;
}

/* Take an option without a value; false: it is none. */
static bool read_flag(scale_bench *b, const char *name)
{
    bool json = strcmp(name, "--json") == 0;
    bool quick = strcmp(name, "--quick") == 0;
    b->json = b->json || json;
    b->quick = b->quick || quick;
    return json || quick;
}

static bool read_number(const char *value, uint32_t max, uint32_t *number_out)
{
    char *end;
    unsigned long number = strtoul(value, &end, 10);
    *number_out = (uint32_t)number;
    return end != value && *end == '\0' && number >= 1 && number <= max;
}

/* Take an option with its value; false: it is none, or the value is illegal. */
static bool read_option(scale_bench *b, const char *name, const char *value)
{
    if (strcmp(name, "--task") == 0) {
        b->only = value;
    } else if (strcmp(name, "--data") == 0) {
        b->data = value;
    } else if (strcmp(name, "--out") == 0) {
        b->folder = value;
    } else if (strcmp(name, "--threads") == 0) {
        b->thread_count = read_list(value, b->threads, NULL);
        return b->thread_count > 0;
    } else if (strcmp(name, "--nodes") == 0) {
        b->node_count = read_list(value, b->nodes, b->node_threads);
        return b->node_count > 0;
    } else if (strcmp(name, "--repeats") == 0) {
        return read_number(value, SCALE_REPEATS_MAX, &b->repeats);
    } else if (strcmp(name, "--epochs") == 0) {
        return read_number(value, 1000, &b->epochs);
    } else if (strcmp(name, "--minutes") == 0) {
        return read_number(value, 1000, &b->minutes);
    } else {
        return false;
    }
    return true;
}

/* As many threads and nodes as there are processors, by doubling. */
static void set_defaults(scale_bench *b)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    for (uint32_t i = 1; i <= 16 && i <= processors; i *= 2) {
        // Two threads say little where there are more.
        if (i != 2 || processors < 8) {
            b->threads[b->thread_count++] = i;
        }
        if (i <= 8) {
            b->node_threads[b->node_count] = 1;
            b->nodes[b->node_count++] = i;
        }
    }
    if (processors >= 16) {
        b->node_threads[b->node_count] = 4;
        b->nodes[b->node_count++] = 4;
    }
}

static bool read_options(scale_bench *b, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (read_flag(b, argv[i])) {
            continue;
        }
        if (i + 1 == argc || !read_option(b, argv[i], argv[i + 1])) {
            return false;
        }
        i++;
    }
    for (size_t i = 0; i < TASKS; i++) {
        if (b->only == NULL || strcmp(b->only, tasks[i].name) == 0) {
            add_task(b, &tasks[i]);
        }
    }
    return b->found_count > 0;
}

int main(int argc, char **argv)
{
    static scale_bench b = {.repeats = 3, .minutes = 9};
    b.start_ns = muster_clock_ns();
    set_defaults(&b);
    if (!read_options(&b, argc, argv)) {
        return bench_usage(
            argc, argv,
            "scale [--task "
            "mf|mf_random|mf_20m|mf_random_20m|complex|complex_64|"
            "skipgram] "
            "[--data PATH] [--threads LIST] [--nodes LIST] [--repeats N] "
            "[--epochs N] "
            "[--minutes N] [--quick] [--out FOLDER] [--json]");
    }
    openblas_set_num_threads(1); // threads are the loops' own
    find_program(b.program, sizeof(b.program));
    bool good = keep_those_with_data(&b);
    run_repeats(&b);
    good = all_tasks_ran(&b) && good;
    for (uint32_t i = 0; i < b.found_count; i++) {
        scale_report(&b.found[i], b.json);
    }
    bool written =
        b.folder == NULL || scale_write(b.found, b.found_count, b.folder);
    return good && written ? 0 : 1;
}
