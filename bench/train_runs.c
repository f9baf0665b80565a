/*
 * train_runs.c -- see train_runs.h.
 */
#define _GNU_SOURCE
#include "train_runs.h"

#include <string.h>
#include <unistd.h>

/* Where cmake/install.cmake puts the command, seen from this program. */
#ifndef MUSTER_BIN_FROM_LIBEXEC
#define MUSTER_BIN_FROM_LIBEXEC "../../bin"
#endif

#define WORKERS_MAX 64

bool train_wanted(const setting *set, const char *name)
{
    return strncmp(name, set->only, strlen(set->only)) == 0;
}

json_t *train_run_json(const char *command)
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
        object = NULL;
    }
    if (object == NULL) {
        fprintf(stderr, "failed: %s\n", command);
    }
    return object;
}

double train_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* Of the workers' median times of computing, the median. */
static double median_compute_ms(const json_t *object)
{
    const json_t *workers = json_object_get(object, "workers");
    double times[WORKERS_MAX];
    size_t count = json_array_size(workers);
    count = count < WORKERS_MAX ? count : WORKERS_MAX;
    for (size_t i = 0; i < count; i++) {
        times[i] = train_number(json_array_get(workers, i), "compute_ms_p50");
    }
    return count > 0 ? bench_median(times, count) : NAN;
}

outcome train_once(const setting *set, const char *options)
{
    char command[COMMAND_MAX];
    (void)snprintf(command, sizeof command,
                   "timeout 120 '%s' train --data '%s' --json --quiet %s"
                   " 2>/dev/null",
                   set->program, set->data, options);
    json_t *object = train_run_json(command);
    outcome end = {
        .step_ms = train_number(json_object_get(object, "step_ms"), "p50"),
        .compute_ms = median_compute_ms(object),
        .loss = train_number(object, "loss"),
        .theta_norm = train_number(object, "theta_norm"),
        .message_bytes = train_number(object, "bytes_up") /
                         train_number(object, "messages_up"),
    };
    json_decref(object);
    return end;
}

double train_simulated(const setting *set, const char *options)
{
    char command[COMMAND_MAX];
    (void)snprintf(command, sizeof command,
                   "timeout 120 '%s' simulate --json --quiet %s 2>/dev/null",
                   set->program, options);
    json_t *object = train_run_json(command);
    const json_t *code = json_array_get(json_object_get(object, "codes"), 0);
    double step_ms = train_number(json_object_get(code, "step_ms"), "p50");
    json_decref(object);
    return step_ms;
}

void train_print(const setting *set, const char *group, const char *name,
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

bool train_find_files(setting *set)
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
