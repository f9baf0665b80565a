/*
 * bench_sim.c -- how fast the simulator is: `muster bench sim`.
 *
 *   muster-bench-sim [--workers N] [--json]
 *
 * Rows, for n = 100, 1,000, 10,000 and 65,536 workers (or --workers alone):
 *   sim_frc_N     worker-steps a second of CPU time, timing only, with frc:s=1;
 *                 the baseline is what is asked for
 *   sim_tuned_N   the same with linear:tuned:s=1,m=2
 *   sim_memory_N  KB a worker at the peak of the program
 * A run has a million worker-steps at least; the time is that of all of it,
 * joining and moving the parts included.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/value.h"
#include "bench.h"
#include "muster/config.h"
#include "muster/run.h"

#define WORKER_STEPS 1000000u
#define STEPS_MIN    50u
#define WORKERS_MAX  65536u
/* What is asked for: up to 1,000 workers, and beyond. */
#define ASKED_FEW   1e6
#define ASKED_MANY  0.5e6
#define WORKERS_FEW 1000u

static uint64_t steps_of(uint32_t workers)
{
    uint64_t steps = WORKER_STEPS / workers;
    return steps > STEPS_MIN ? steps : STEPS_MIN;
}

/* One simulation to its end; false, and a line on stderr, when it failed. */
static bool simulate(uint32_t workers, const char *code)
{
    char n[16], steps[24];
    snprintf(n, sizeof(n), "%" PRIu32, workers);
    snprintf(steps, sizeof(steps), "%" PRIu64, steps_of(workers));
    const char *const flags[] = {"--workers", n,    "--steps", steps,
                                 "--code",    code, "--quiet"};
    muster_config *config = NULL;
    muster_error error = {.text = ""};
    char *json = NULL;
    muster_status status = muster_config_create("simulate", &config);
    if (status == MUSTER_OK) {
        status = muster_config_parse(
            config, (int)(sizeof(flags) / sizeof(flags[0])), flags, &error);
    }
    if (status == MUSTER_OK) {
        status = muster_config_check(config, &error);
    }
    if (status == MUSTER_OK) {
        status = muster_simulate(config, &error, &json);
    }
    if (status != MUSTER_OK) {
        fprintf(stderr, "bench sim: %s\n", error.text);
    }
    muster_config_text_free(json);
    muster_config_free(config);
    return status == MUSTER_OK;
}

static bool bench_rate(uint32_t workers, const char *code, const char *name,
                       bool json)
{
    char text[48];
    int64_t begin_ns = muster_clock_thread_cpu_ns();
    if (!simulate(workers, code)) {
        return false;
    }
    double used_s = (double)(muster_clock_thread_cpu_ns() - begin_ns) * 1e-9;
    snprintf(text, sizeof(text), "sim_%s_%" PRIu32, name, workers);
    bench_print(
        &(bench_row){
            .name = text,
            .value = (double)workers * (double)steps_of(workers) / used_s,
            .unit = "1/s",
            .baseline = "asked",
            .baseline_value = workers > WORKERS_FEW ? ASKED_MANY : ASKED_FEW},
        json);
    return true;
}

static bool bench_workers(uint32_t workers, bool json)
{
    char text[48];
    if (!bench_rate(workers, "frc:s=1", "frc", json) ||
        !bench_rate(workers, "linear:tuned:s=1,m=2", "tuned", json)) {
        return false;
    }
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0) {
        return false;
    }
    snprintf(text, sizeof(text), "sim_memory_%" PRIu32, workers);
    bench_print(&(bench_row){.name = text,
                             .value = (double)usage.ru_maxrss / workers,
                             .unit = "KB"},
                json);
    return true;
}

int main(int argc, char **argv)
{
    static const uint32_t counts[] = {100, 1000, 10000, WORKERS_MAX};
    bool json = false;
    uint64_t only = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            json = true;
        } else if (strcmp(argv[i], "--workers") == 0 && i + 1 < argc &&
                   muster_value_uint(argv[i + 1], &only) && only > 3 &&
                   only <= WORKERS_MAX) {
            i++;
        } else {
            return bench_usage(argc, argv, "sim [--workers N] [--json]");
        }
    }
    if (only > 0) {
        return bench_workers((uint32_t)only, json) ? 0 : 1;
    }
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        if (!bench_workers(counts[i], json)) {
            return 1;
        }
    }
    return 0;
}
