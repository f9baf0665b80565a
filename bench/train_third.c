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
 * as long as they compute (--slow W:3x). The simulated workers take the times
 * that the even run of the block recorded, step by step, three of them three
 * times as long; nothing is fitted. heter is told the speeds, all others find
 * out.
 *
 * Twelve workers and the coordinator want processors of their own. Where there
 * are fewer, workers sleep for 24 ms a share in place of computing, and stderr
 * says so.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <sched.h>
#include <stdint.h>
#include <unistd.h>

#include "train_runs.h"

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
    char folder[sizeof FOLDER]; // even.csv, slow.csv: times
    third_times times;
} third;

/* ---- times --------------------------------------------------------------- */

/* Copy "iteration,worker,seconds" lines, three workers at a third of the
 * speed. */
static bool copy_slowed(FILE *from, FILE *to)
{
    char line[128];
    uint64_t step;
    uint32_t worker;
    double seconds;
    bool ok = fgets(line, sizeof line, from) != NULL && fputs(line, to) >= 0;
    while (ok && fscanf(from, "%" SCNu64 ",%" SCNu32 ",%lf", &step, &worker,
                        &seconds) == 3) {
        seconds *= worker % 4 == 3 ? 3 : 1;
        ok = fprintf(to, "%" PRIu64 ",%" PRIu32 ",%.9f\n", step, worker,
                     seconds) > 0;
    }
    return ok && feof(from);
}

/* slow.csv from what the even run recorded. */
static bool write_slow(const third *at)
{
    char even[64], slow[64];
    (void)snprintf(even, sizeof even, "%s/even.csv", at->folder);
    (void)snprintf(slow, sizeof slow, "%s/slow.csv", at->folder);
    FILE *from = fopen(even, "r");
    FILE *to = fopen(slow, "w");
    bool ok = from != NULL && to != NULL && copy_slowed(from, to);
    if (from != NULL) {
        fclose(from);
    }
    return to != NULL && fclose(to) == 0 && ok;
}

/* ---- runs ---------------------------------------------------------------- */

static const char *speeds_of(const third_code *code)
{
    return code->knows_speeds ? "--speeds 3,3,3,1,3,3,3,1,3,3,3,1" : "";
}

/* How slow a code's workers are in a real run. */
static void slowness_of(const third *at, int i, char *text, size_t size)
{
    if (i == EVEN) {
        (void)snprintf(text, size, "--record-delays %s/even.csv %s", at->folder,
                       at->sleeps ? "--delay constant:delay=24ms,per=load"
                                  : "");
    } else if (at->sleeps) {
        (void)snprintf(text, size, "--delay trace:file=%s/slow.csv,per=load",
                       at->folder);
    } else {
        (void)snprintf(text, size, "%s", SLOW_THREE);
    }
}

static outcome run(const third *at, int i)
{
    char options[COMMAND_MAX / 2], slow[128];
    slowness_of(at, i, slow, sizeof slow);
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
    char options[COMMAND_MAX / 2];
    (void)snprintf(options, sizeof options,
                   "--workers 12 --steps 40 --model-floats %d --compute 0s "
                   "--delay trace:file=%s/%s.csv,per=load %s %s",
                   at->sleeps ? 7850 : 407050, at->folder,
                   i == EVEN ? "even" : "slow", codes[i].options,
                   speeds_of(&codes[i]));
    return train_simulated(&at->set, options);
}

static bool run_block(third *at, int block)
{
    for (int i = 0; i < CODES; i++) {
        outcome end = run(at, i);
        if (i == EVEN && !write_slow(at)) {
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
    return true;
}

static void clean(const third *at)
{
    char path[64];
    (void)snprintf(path, sizeof path, "%s/even.csv", at->folder);
    (void)unlink(path);
    (void)snprintf(path, sizeof path, "%s/slow.csv", at->folder);
    (void)unlink(path);
    (void)rmdir(at->folder);
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
        return true;
    }
    double batch = 1.05 * BATCH * SHARE_MS / run(at, EVEN).compute_ms;
    at->batch = batch > BATCH ? (int)fmin(batch, SAMPLES) : BATCH;
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
        fprintf(stderr, "train_third: cannot record times in %s\n", at.folder);
    }
    clean(&at);
}
