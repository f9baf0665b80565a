/*
 * bench_train.c -- what slow workers cost a run: `muster bench train`.
 *
 *   muster bench train [--json] [--blocks N] [--only PREFIX]
 *
 * Every value comes from a whole run of `muster train --local`, by its summary;
 * runs that are compared take turns, and a row is the median over the blocks
 * (default 5; uncoded softmax, whose value is its 200 ms, takes one). Data are
 * mnist of MUSTER_DATA, or synthetic of its shape, which stderr then says.
 *
 *   train_12_CODE         median step in ms, softmax, 12 workers, s = 2, two of
 *                         them 200 ms slower, against the same run without that
 *   train_12_CODE_differs how far its final loss and norm of the model are from
 *                         uncoded's, relatively, against the 1e-4 allowed
 *   train_12_scheduled_even  scheduled against uncoded, none slow
 *   train_mlp_CODE        an mlp of 1 M parameters, 4 workers, s = 1, one of
 *                         them 200 ms slower, against the run without that
 *   train_mlp_scheduled_even  scheduled against uncoded, none slow
 *   ddp_mlp               the same for PyTorch DDP over gloo (ddp_train.py),
 *                         where /usr/bin/python3 has torch
 *   train_mlp_vs_ddp      frc with the slow worker, against DDP with it
 *   train_mlp_even_vs_ddp without any slow worker
 *   train_bytes_mM        bytes of a worker's message with reduction M, against
 *                         M = 1
 */
#define _GNU_SOURCE
#include <jansson.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

#define BLOCKS_MAX   9
#define PATH_BYTES   1024
#define COMMAND_MAX  4096
#define SOFTMAX_STEP "60"
#define MLP_STEPS    "40"
#define MLP_MODEL    "mlp:hidden=1280" // 784 x 1280 + 1280 x 10 and biases
#define SLOW_TWO     "--slow 3:200ms --slow 7:200ms"
#define SLOW_ONE     "--slow 2:200ms"

/* Where cmake/install.cmake puts the command, seen from this program. */
#ifndef MUSTER_BIN_FROM_LIBEXEC
#define MUSTER_BIN_FROM_LIBEXEC "../../bin"
#endif

typedef struct setting {
    bool json;
    int blocks;
    const char *only;         // rows that begin so; "": all
    char program[PATH_BYTES]; // muster
    char source[PATH_BYTES];  // the folder of ddp_train.py
    char data[PATH_BYTES + 64];
} setting;

typedef struct outcome {
    double step_ms, loss, theta_norm, message_bytes; // NAN: it failed
} outcome;

typedef struct code_row {
    const char *name; // in rows
    const char *options;
} code_row;

static const code_row softmax_codes[] = {
    {"uncoded", "--code uncoded"},
    {"scheduled", "--code scheduled --stragglers 2"},
    {"frc", "--code frc --stragglers 2"},
    {"cyclic_mds", "--code cyclic-mds --stragglers 2"},
    {"heter", "--code heter --stragglers 2"},
    {"linear_tuned_m2", "--code linear:tuned --stragglers 2 --comm 2"},
};

static bool wanted(const setting *set, const char *name)
{
    return strncmp(name, set->only, strlen(set->only)) == 0;
}

/* What a command prints on stdout, as JSON; NULL when it fails. */
static json_t *run_json(const char *command)
{
    FILE *pipe = popen(command, "r");
    if (pipe == NULL) {
        return NULL;
    }
    json_t *object = json_loadf(pipe, JSON_DISABLE_EOF_CHECK, NULL);
    char rest[256];
    while (fread(rest, 1, sizeof rest, pipe) > 0) {
    }
    if (pclose(pipe) != 0) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static outcome train(const setting *set, const char *options)
{
    char command[COMMAND_MAX];
    (void)snprintf(command, sizeof command,
                   "timeout 120 '%s' train --data '%s' --json --quiet %s"
                   " 2>/dev/null",
                   set->program, set->data, options);
    json_t *object = run_json(command);
    if (object == NULL) {
        fprintf(stderr, "failed: %s\n", command);
    }
    outcome end = {
        .step_ms = number(json_object_get(object, "step_ms"), "p50"),
        .loss = number(object, "loss"),
        .theta_norm = number(object, "theta_norm"),
        .message_bytes =
            number(object, "bytes_up") / number(object, "messages_up"),
    };
    json_decref(object);
    return end;
}

static void print(const setting *set, const char *group, const char *name,
                  bench_row row)
{
    char full[128];
    (void)snprintf(full, sizeof full, "%s%s", group, name);
    row.name = full;
    if (isnan(row.value)) {
        fprintf(stderr, "%s: not measured\n", full);
        return;
    }
    bench_print(&row, set->json);
}

/* Two runs in turns; the medians of their medians. Returns the last of the
 * first kind. */
static outcome in_turns(const setting *set, const char *first,
                        const char *second, double median_out[2])
{
    double steps[2][BLOCKS_MAX];
    outcome last = {NAN, NAN, NAN, NAN};
    for (int block = 0; block < set->blocks; block++) {
        steps[1][block] = train(set, second).step_ms;
        last = train(set, first);
        steps[0][block] = last.step_ms;
    }
    for (int i = 0; i < 2; i++) {
        median_out[i] = bench_median(steps[i], (size_t)set->blocks);
    }
    return last;
}

/* With the slow ones and without. Returns the last run with them. */
static outcome compare(const setting *set, const char *options,
                       const char *slow, double median_out[2])
{
    char command[COMMAND_MAX];
    (void)snprintf(command, sizeof command, "%s %s", options, slow);
    return in_turns(set, command, options, median_out);
}

/* What it costs to be prepared when nobody is slow. */
static void bench_even(const setting *set, const char *group,
                       const char *common, unsigned stragglers)
{
    char plain[COMMAND_MAX / 2], staged[COMMAND_MAX / 2];
    double median[2];
    (void)snprintf(plain, sizeof plain, "%s --code uncoded", common);
    (void)snprintf(staged, sizeof staged, "%s --code scheduled --stragglers %u",
                   common, stragglers);
    (void)in_turns(set, staged, plain, median);
    print(set, group, "scheduled_even",
          (bench_row){0, median[0], "ms", "uncoded", median[1]});
}

static double apart(double value, double reference)
{
    return fabs(value - reference) / fabs(reference);
}

static void bench_softmax(const setting *set)
{
    static const char common[] =
        "--model softmax --local 12 --steps " SOFTMAX_STEP " --seed 1";
    outcome plain = {NAN, NAN, NAN, NAN};
    for (size_t i = 0; i < sizeof softmax_codes / sizeof softmax_codes[0];
         i++) {
        const code_row *code = &softmax_codes[i];
        char options[COMMAND_MAX / 2];
        double median[2];
        (void)snprintf(options, sizeof options, "%s %s", common, code->options);
        setting turns = *set;
        turns.blocks = i == 0 ? 1 : set->blocks;
        outcome end = compare(&turns, options, SLOW_TWO, median);
        print(set, "train_12_", code->name,
              (bench_row){.value = median[0],
                          .unit = "ms",
                          .baseline = "none slow",
                          .baseline_value = median[1]});
        if (i == 0) {
            plain = end;
            continue;
        }
        char row[64];
        (void)snprintf(row, sizeof row, "%s_differs", code->name);
        print(
            set, "train_12_", row,
            (bench_row){.value = fmax(apart(end.loss, plain.loss),
                                      apart(end.theta_norm, plain.theta_norm)),
                        .unit = "",
                        .baseline = "allowed",
                        .baseline_value = 1e-4});
    }
    bench_even(set, "train_12_", common, 2);
}

/* Median step of DDP with four ranks, one of them `slow_ms` slower; NAN where
 * there is no torch. */
static double run_ddp(const setting *set, unsigned slow_ms)
{
    char command[COMMAND_MAX];
    (void)snprintf(command, sizeof command,
                   "timeout 120 /usr/bin/python3 '%s/ddp_train.py' --ranks 4 "
                   "--hidden 1280 --batch 64 --steps " MLP_STEPS
                   " --slow-ms %u 2>/dev/null",
                   set->source, slow_ms);
    json_t *object = run_json(command);
    double step_ms = number(object, "step_ms_p50");
    json_decref(object);
    return step_ms;
}

static void bench_mlp(const setting *set)
{
    static const char common[] =
        "--model " MLP_MODEL " --local 4 --batch 256 --steps " MLP_STEPS
        " --lr 0.05";
    char options[COMMAND_MAX / 2];
    double frc[2], staged[2], plain[2], ddp[2];
    (void)snprintf(options, sizeof options, "%s --code uncoded", common);
    (void)compare(set, options, SLOW_ONE, plain);
    (void)snprintf(options, sizeof options, "%s --code frc --stragglers 1",
                   common);
    (void)compare(set, options, SLOW_ONE, frc);
    (void)snprintf(options, sizeof options,
                   "%s --code scheduled --stragglers 1", common);
    (void)compare(set, options, SLOW_ONE, staged);
    ddp[0] = run_ddp(set, 200);
    ddp[1] = run_ddp(set, 0);
    if (isnan(ddp[0])) {
        fprintf(stderr, "ddp_mlp: /usr/bin/python3 has no torch "
                        "(apt-get install python3-torch)\n");
    }
    print(set, "train_mlp_", "uncoded",
          (bench_row){0, plain[0], "ms", "none slow", plain[1]});
    print(set, "train_mlp_", "frc",
          (bench_row){0, frc[0], "ms", "none slow", frc[1]});
    print(set, "train_mlp_", "scheduled",
          (bench_row){0, staged[0], "ms", "none slow", staged[1]});
    bench_even(set, "train_mlp_", common, 1);
    print(set, "ddp_", "mlp",
          (bench_row){0, ddp[0], "ms", "none slow", ddp[1]});
    print(set, "train_mlp_", "vs_ddp",
          (bench_row){0, frc[0], "ms", "ddp_gloo", ddp[0]});
    print(set, "train_mlp_", "even_vs_ddp",
          (bench_row){0, plain[1], "ms", "ddp_gloo", ddp[1]});
}

static void bench_bytes(const setting *set)
{
    static const char common[] = "--model softmax --local 12 --steps 20 "
                                 "--code linear:tuned --stragglers 2 --comm";
    double whole = NAN;
    for (unsigned m = 1; m <= 4; m *= 2) {
        char options[COMMAND_MAX / 2], name[16];
        (void)snprintf(options, sizeof options, "%s %u", common, m);
        (void)snprintf(name, sizeof name, "m%u", m);
        double bytes = train(set, options).message_bytes;
        if (m == 1) {
            whole = bytes;
            continue;
        }
        print(set, "train_bytes_", name,
              (bench_row){0, bytes, "bytes", "m = 1", whole});
    }
}

/* In build/release/ the command lies beside this program and the script in
 * the sources, two folders up; an installation has the script beside it. */
static void find_programs(setting *set, const char *folder)
{
    (void)snprintf(set->program, sizeof set->program, "%.900s/muster", folder);
    (void)snprintf(set->source, sizeof set->source, "%.900s/../../bench",
                   folder);
    if (access(set->program, X_OK) != 0) {
        (void)snprintf(set->program, sizeof set->program,
                       "%.900s/" MUSTER_BIN_FROM_LIBEXEC "/muster", folder);
        (void)snprintf(set->source, sizeof set->source, "%.900s", folder);
    }
}

/* Where the programs and the data are. */
static bool find_files(setting *set)
{
    char folder[PATH_BYTES];
    ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
    if (length <= 0) {
        return false;
    }
    folder[length] = '\0';
    *strrchr(folder, '/') = '\0';
    find_programs(set, folder);
    const char *data = getenv("MUSTER_DATA");
    (void)snprintf(set->data, sizeof set->data, "%.1000s/mnist",
                   data != NULL ? data : "../shared/data");
    if (access(set->data, R_OK) != 0) {
        (void)snprintf(set->data, sizeof set->data,
                       "synthetic:samples=60000,features=784,classes=10");
        fprintf(stderr,
                "no mnist in MUSTER_DATA: synthetic data of its shape\n");
    }
    return true;
}

int main(int argc, char **argv)
{
    setting set = {.blocks = 5, .only = ""};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            set.json = true;
        } else if (strcmp(argv[i], "--blocks") == 0 && i + 1 < argc) {
            set.blocks = (int)strtol(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc) {
            set.only = argv[++i];
        } else {
            set.blocks = 0;
        }
    }
    if (set.blocks < 1 || set.blocks > BLOCKS_MAX || !find_files(&set)) {
        return bench_usage(argc, argv,
                           "train [--json] [--blocks 1..9] "
                           "[--only train_12|train_mlp|train_bytes]");
    }
    if (wanted(&set, "train_12_")) {
        bench_softmax(&set);
    }
    if (wanted(&set, "train_mlp_")) {
        bench_mlp(&set);
    }
    if (wanted(&set, "train_bytes_")) {
        bench_bytes(&set);
    }
    return 0;
}
