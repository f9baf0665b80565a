/*
 * main.c -- the muster command: finds the verb and runs it.
 */
#include <cblas.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "muster/version.h"

typedef struct cli_verb {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv);
} cli_verb;

static const cli_verb verbs[] = {
#define CLI_VERB(name, summary) {#name, summary, cli_##name},
#include "verbs.def"
#undef CLI_VERB
};

#define VERB_COUNT (sizeof(verbs) / sizeof(verbs[0]))

static void print_overview(FILE *file)
{
    fputs("usage: muster VERB [options]\n\n"
          "Muster trains models on machines that are not equal: the exact "
          "gradient of\nevery step without waiting for the slowest machines.\n"
          "\n",
          file);
    for (size_t i = 0; i < VERB_COUNT; i++) {
        fprintf(file, "  %-10s %s\n", verbs[i].name, verbs[i].summary);
    }
    fputs("\n`muster VERB --help` or `muster help VERB` lists the options of "
          "a verb, with\nan example.\n",
          file);
}

/* How many letters two words share at the start and the end: enough to find
 * the verb that was meant among a dozen. */
static size_t likeness(const char *typed, const char *known)
{
    size_t n = strlen(typed);
    size_t m = strlen(known);
    size_t front = 0;
    size_t back = 0;
    while (front < n && front < m && typed[front] == known[front]) {
        front++;
    }
    while (back < n - front && back < m - front &&
           typed[n - 1 - back] == known[m - 1 - back]) {
        back++;
    }
    return front + back;
}

static const char *nearest_verb(const char *typed)
{
    const char *best = NULL;
    size_t max = 0;
    for (size_t i = 0; i < VERB_COUNT; i++) {
        size_t alike = likeness(typed, verbs[i].name);
        // At most two letters may differ, and half must agree.
        if (alike > max && alike + 2 >= strlen(verbs[i].name) &&
            alike + 2 >= strlen(typed) && 2 * alike >= strlen(typed)) {
            max = alike;
            best = verbs[i].name;
        }
    }
    return best;
}

static int unknown_verb(const char *typed)
{
    const char *near = nearest_verb(typed);
    muster_error error = {.status = MUSTER_ERR_INVALID};
    if (near != NULL) {
        snprintf(error.text, sizeof(error.text),
                 "'%.60s' is not a verb; did you mean '%s'?", typed, near);
    } else {
        snprintf(error.text, sizeof(error.text),
                 "'%.60s' is not a verb; see `muster --help`", typed);
    }
    return cli_fail(MUSTER_ERR_INVALID, &error);
}

static const cli_verb *find_verb(const char *name)
{
    for (size_t i = 0; i < VERB_COUNT; i++) {
        if (strcmp(name, verbs[i].name) == 0) {
            return &verbs[i];
        }
    }
    return NULL;
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 ||
           strcmp(word, "help") == 0;
}

/* `muster help VERB` is `muster VERB --help`; without a verb, the overview. */
static int help(int argc, char **argv)
{
    if (argc == 0 || is_help(argv[0])) {
        print_overview(stdout);
        return cli_print("");
    }
    const cli_verb *verb = find_verb(argv[0]);
    char flag[] = "--help";
    char *arguments[] = {flag, NULL};
    return verb != NULL ? verb->run(1, arguments) : unknown_verb(argv[0]);
}

int main(int argc, char **argv)
{
    cli_blas_prepare(argv);
    cli_limits_prepare(argv);
    // Processes and worker threads are the parallelism, and sums must not
    // depend on the machine's number of cores. This process is ours to set.
    openblas_set_num_threads(1);
    if (argc < 2) {
        print_overview(stderr);
        return muster_status_exit_code(MUSTER_ERR_INVALID);
    }
    if (is_help(argv[1])) {
        return help(argc - 2, argv + 2);
    }
    const char *name = strcmp(argv[1], "--version") == 0 ? "version" : argv[1];
    const cli_verb *verb = find_verb(name);
    return verb != NULL ? verb->run(argc - 2, argv + 2) : unknown_verb(argv[1]);
}
