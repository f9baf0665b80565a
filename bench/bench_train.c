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
 *   train_12_scheduled_even  scheduled against uncoded, none slow, in longer
 *                         runs: short ones differ from themselves by a tenth
 *   train_12_uncoded_even uncoded against itself in the same turns
 *   train_mlp_CODE        an mlp of 1 M parameters, 4 workers, s = 1, one of
 *                         them 200 ms slower, against the run without that
 *   train_mlp_scheduled_even, train_mlp_uncoded_even  the same for the mlp
 *   ddp_mlp               the same for PyTorch DDP over gloo (ddp_train.py),
 *                         where /usr/bin/python3 has torch
 *   train_mlp_vs_ddp      frc with the slow worker, against DDP with it
 *   train_mlp_even_vs_ddp without any slow worker
 *   train_third_CODE      work-bound steps, three of 12 workers at a third of
 *                         the speed, against their simulation (train_third.c)
 *   train_bytes_mM        bytes of a worker's message with reduction M, against
 *                         M = 1
 */
#include "train_runs.h"

#define SOFTMAX_STEP "60"
#define MLP_STEPS    "40"
#define MLP_MODEL    "mlp:hidden=1280" // 784 x 1280 + 1280 x 10 and biases
#define SOFTMAX_RUN  "--model softmax --local 12 --seed 1"
#define MLP_RUN      "--model " MLP_MODEL " --local 4 --batch 256 --lr 0.05"
#define SLOW_TWO     "--slow 3:200ms --slow 7:200ms"
#define SLOW_ONE     "--slow 2:200ms"

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

/* Two runs in turns; the medians of their medians. Returns the last of the
 * first kind. */
static outcome in_turns(const setting *set, const char *first,
                        const char *second, double median_out[2])
{
    double steps[2][BLOCKS_MAX];
    outcome last = OUTCOME_NONE;
    for (int block = 0; block < set->blocks; block++) {
        steps[1][block] = train_once(set, second).step_ms;
        last = train_once(set, first);
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

/* What it costs to be prepared when nobody is slow; and how far uncoded is from
 * itself on this machine, without which that says little. */
static void bench_even(const setting *set, const char *group,
                       const char *common, unsigned stragglers)
{
    char plain[COMMAND_MAX / 2], staged[COMMAND_MAX / 2];
    double steps[3][BLOCKS_MAX], median[3];
    (void)snprintf(plain, sizeof plain, "%s --code uncoded", common);
    (void)snprintf(staged, sizeof staged, "%s --code scheduled --stragglers %u",
                   common, stragglers);
    for (int block = 0; block < set->blocks; block++) {
        steps[0][block] = train_once(set, plain).step_ms;
        steps[1][block] = train_once(set, staged).step_ms;
        steps[2][block] = train_once(set, plain).step_ms;
    }
    for (int i = 0; i < 3; i++) {
        median[i] = bench_median(steps[i], (size_t)set->blocks);
    }
    train_print(set, group, "scheduled_even",
                (bench_row){0, median[1], "ms", "uncoded", median[0]});
    train_print(set, group, "uncoded_even",
                (bench_row){0, median[2], "ms", "uncoded", median[0]});
}

static double apart(double value, double reference)
{
    return fabs(value - reference) / fabs(reference);
}

static void bench_softmax(const setting *set)
{
    static const char common[] = SOFTMAX_RUN " --steps " SOFTMAX_STEP;
    outcome plain = OUTCOME_NONE;
    for (size_t i = 0; i < sizeof softmax_codes / sizeof softmax_codes[0];
         i++) {
        const code_row *code = &softmax_codes[i];
        char options[COMMAND_MAX / 2];
        double median[2];
        (void)snprintf(options, sizeof options, "%s %s", common, code->options);
        setting turns = *set;
        turns.blocks = i == 0 ? 1 : set->blocks;
        outcome end = compare(&turns, options, SLOW_TWO, median);
        train_print(set, "train_12_", code->name,
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
        train_print(
            set, "train_12_", row,
            (bench_row){.value = fmax(apart(end.loss, plain.loss),
                                      apart(end.theta_norm, plain.theta_norm)),
                        .unit = "",
                        .baseline = "allowed",
                        .baseline_value = 1e-4});
    }
    bench_even(set, "train_12_", SOFTMAX_RUN " --steps 600", 2);
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
    json_t *object = train_run_json(command);
    double step_ms = train_number(object, "step_ms_p50");
    json_decref(object);
    return step_ms;
}

static void bench_mlp(const setting *set)
{
    static const char common[] = MLP_RUN " --steps " MLP_STEPS;
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
    train_print(set, "train_mlp_", "uncoded",
                (bench_row){0, plain[0], "ms", "none slow", plain[1]});
    train_print(set, "train_mlp_", "frc",
                (bench_row){0, frc[0], "ms", "none slow", frc[1]});
    train_print(set, "train_mlp_", "scheduled",
                (bench_row){0, staged[0], "ms", "none slow", staged[1]});
    bench_even(set, "train_mlp_", MLP_RUN " --steps 200", 1);
    train_print(set, "ddp_", "mlp",
                (bench_row){0, ddp[0], "ms", "none slow", ddp[1]});
    train_print(set, "train_mlp_", "vs_ddp",
                (bench_row){0, frc[0], "ms", "ddp_gloo", ddp[0]});
    train_print(set, "train_mlp_", "even_vs_ddp",
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
        double bytes = train_once(set, options).message_bytes;
        if (m == 1) {
            whole = bytes;
            continue;
        }
        train_print(set, "train_bytes_", name,
                    (bench_row){0, bytes, "bytes", "m = 1", whole});
    }
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
    if (set.blocks < 1 || set.blocks > BLOCKS_MAX || !train_find_files(&set)) {
        return bench_usage(argc, argv,
                           "train [--json] [--blocks 1..9] "
                           "[--only train_12|train_mlp|train_third|"
                           "train_bytes]");
    }
    if (train_wanted(&set, "train_12_")) {
        bench_softmax(&set);
    }
    if (train_wanted(&set, "train_mlp_")) {
        bench_mlp(&set);
    }
    if (train_wanted(&set, "train_third_")) {
        train_third(&set);
    }
    if (train_wanted(&set, "train_bytes_")) {
        bench_bytes(&set);
    }
    return 0;
}
