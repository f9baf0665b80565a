/*
 * train_third.c -- work-bound steps with three of 12 workers at a third of the
 * speed, s = 2, against the same in `muster simulate`.
 *
 *   train_third_even   uncoded, nobody slow: how well the simulated times fit
 *   train_third_CODE   median step in ms, median over the blocks; each block
 *                      runs every code once, in turns, and stderr names the
 *                      block's steps
 *
 * The batch is such that a share takes 24 ms or more. Slow workers sleep twice
 * as long as they compute (--slow W:3x). The simulated workers are those that
 * the even run of the block measured, its cluster.yaml, three of them with a
 * third of the speed; nothing else is fitted. heter is told the speeds, all
 * others find out.
 *
 * Twelve workers and the coordinator want processors of their own. Where there
 * are fewer, workers sleep for 24 ms a share (slow ones 72) in place of
 * computing, in the simulation too, and stderr says so.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <unistd.h>

#include "base/mem.h"
#include "cluster/file.h"
#include "train_runs.h"

#define WORKERS    12
#define PROCESSORS 13
#define SHARE_MS   24.0
#define BATCH      2400
#define SAMPLES    8000
#define SLOW_THREE "--slow 3:3x --slow 7:3x --slow 11:3x"
#define FOLDER     "/tmp/muster-third.XXXXXX"

typedef struct third_code {
    const char *name; // in rows
    const char *options;
    bool knows_speeds;
} third_code;

/* The first one runs with nobody slow. */
static const third_code codes[] = {
    {"even", "--code uncoded", false},
    {"uncoded", "--code uncoded", false},
    {"frc", "--code frc:s=2", false},
    {"heter", "--code heter:s=2", true},
    {"scheduled", "--code scheduled:s=2", false},
    {"scheduled_speeds", "--code scheduled:s=2,order=speeds", false},
};

enum { EVEN = 0, CODES = sizeof codes / sizeof codes[0] };

/* Real and simulated steps, by code and block. */
typedef struct third_times {
    double real[CODES][BLOCKS_MAX];
    double simulated[CODES][BLOCKS_MAX];
} third_times;

typedef struct third {
    setting set;
    bool sleeps;
    int batch;
    char folder[sizeof FOLDER]; // even.yaml, slow.yaml, run/
    third_times times;
} third;

/* ---- the machines -------------------------------------------------------- */

/* A cluster as FOLDER/NAME.yaml. */
static bool write_cluster(const third *at, const char *name,
                          const muster_cluster *cluster)
{
    char path[64];
    (void)snprintf(path, sizeof path, "%s/%s.yaml", at->folder, name);
    char *text = muster_cluster_text(cluster);
    FILE *file = text != NULL ? fopen(path, "w") : NULL;
    bool ok = file != NULL && fputs(text, file) >= 0;
    ok = file != NULL && fclose(file) == 0 && ok;
    muster_mem_free(text);
    return ok;
}

/* The machines with nobody slow, and with three at a third of their speed. */
static bool write_machines(const third *at, muster_cluster *machines)
{
    bool ok = write_cluster(at, "even", machines);
    for (uint32_t w = 3; w < machines->worker_count; w += 4) {
        machines->workers[w].speed /= 3;
    }
    return ok && write_cluster(at, "slow", machines);
}

/* As the run with nobody slow measured them. */
static bool take_measured(const third *at)
{
    char path[64];
    muster_cluster *machines = NULL;
    (void)snprintf(path, sizeof path, "%s/run/cluster.yaml", at->folder);
    bool ok = muster_cluster_read(path, NULL, &machines) == MUSTER_OK &&
              write_machines(at, machines);
    muster_cluster_free(machines);
    return ok;
}

static bool make_sleeping(const third *at)
{
    muster_cluster *machines = muster_cluster_create(WORKERS);
    for (uint32_t w = 0; machines != NULL && w < WORKERS; w++) {
        machines->workers[w].shift_s = SHARE_MS * 1e-3;
    }
    bool ok = machines != NULL && write_machines(at, machines);
    muster_cluster_free(machines);
    return ok;
}

/* ---- runs ---------------------------------------------------------------- */

static const char *speeds_of(const third_code *code)
{
    return code->knows_speeds ? "--speeds 3,3,3,1,3,3,3,1,3,3,3,1" : "";
}

/* The machines of a code, as delays. */
static void delay_of(const third *at, int i, char *text, size_t size)
{
    (void)snprintf(text, size, "--delay cluster:file=%s/%s.yaml", at->folder,
                   i == EVEN ? "even" : "slow");
}

static outcome run(const third *at, int i)
{
    char options[COMMAND_MAX / 2], slow[128];
    delay_of(at, i, slow, sizeof slow);
    if (!at->sleeps) {
        (void)snprintf(slow, sizeof slow, i == EVEN ? "--run %s/run" : "%s",
                       i == EVEN ? at->folder : SLOW_THREE);
    }
    (void)snprintf(options, sizeof options,
                   "--model %s --local 12 --batch %d --steps 40 --threads 1 "
                   "%s %s %s",
                   at->sleeps ? "softmax" : "mlp:hidden=512", at->batch, slow,
                   codes[i].options, speeds_of(&codes[i]));
    return train_once(&at->set, options);
}

/* The median step of the same run in `muster simulate`. */
static double simulate(const third *at, int i)
{
    char options[COMMAND_MAX / 2], delay[128];
    delay_of(at, i, delay, sizeof delay);
    (void)snprintf(options, sizeof options,
                   "--workers 12 --steps 400 --model-floats %d --compute 0s "
                   "%s %s %s",
                   at->sleeps ? 7850 : 407050, delay, codes[i].options,
                   speeds_of(&codes[i]));
    return train_simulated(&at->set, options);
}

static void clean(const third *at, const char *what)
{
    char command[64];
    (void)snprintf(command, sizeof command, "rm -rf %s/%s", at->folder, what);
    if (system(command) != 0) {
        fprintf(stderr, "failed: %s\n", command);
    }
}

static bool run_block(third *at, int block)
{
    for (int i = 0; i < CODES; i++) {
        outcome end = run(at, i);
        if (i == EVEN && !at->sleeps && !take_measured(at)) {
            return false;
        }
        at->times.real[i][block] = end.step_ms;
        at->times.simulated[i][block] = simulate(at, i);
        if (i == EVEN) {
            fprintf(stderr, "block %d: a share takes %.1f ms", block + 1,
                    end.compute_ms);
        }
        fprintf(stderr, ", %s %.1f (simulated %.1f)", codes[i].name,
                end.step_ms, at->times.simulated[i][block]);
    }
    fprintf(stderr, "\n");
    clean(at, "run");
    return true;
}

/* Whether they sleep, and a batch of which a share takes long enough. */
static bool prepare(third *at)
{
    cpu_set_t set;
    at->sleeps = sched_getaffinity(0, sizeof set, &set) == 0 &&
                 CPU_COUNT(&set) < PROCESSORS;
    if (mkdtemp(at->folder) == NULL) {
        return false;
    }
    (void)snprintf(at->set.data, sizeof at->set.data,
                   "synthetic:samples=%d,features=784,classes=10", SAMPLES);
    if (at->sleeps) {
        fprintf(stderr,
                "train_third: %d processors for 12 workers and the "
                "coordinator: workers sleep in place of computing\n",
                CPU_COUNT(&set));
        at->batch = BATCH / 10;
        return make_sleeping(at);
    }
    double batch = 1.05 * BATCH * SHARE_MS / run(at, EVEN).compute_ms;
    at->batch = batch > BATCH ? (int)fmin(batch, SAMPLES) : BATCH;
    clean(at, "run");
    return true;
}

void train_third(const setting *given)
{
    third at = {.set = *given, .batch = BATCH, .folder = FOLDER};
    bool ok = prepare(&at);
    for (int block = 0; ok && block < given->blocks; block++) {
        ok = run_block(&at, block);
    }
    for (int i = 0; ok && i < CODES; i++) {
        size_t blocks = (size_t)given->blocks;
        train_print(given, "train_third_", codes[i].name,
                    (bench_row){0, bench_median(at.times.real[i], blocks), "ms",
                                "simulated",
                                bench_median(at.times.simulated[i], blocks)});
    }
    if (!ok) {
        fprintf(stderr, "train_third: cannot write the machines to %s\n",
                at.folder);
    }
    clean(&at, "");
}
