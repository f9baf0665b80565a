/*
 * neighbors.c -- `muster neighbors`: words and entities near to one.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "muster/log.h"
#include "muster/run.h"

static const char help[] =
    "usage: muster neighbors PATH WORD [options]\n"
    "\n"
    "Print the rows whose vectors lie nearest to WORD's, by cosine. PATH is a\n"
    "run folder of skipgram, complex, distmult or transe, or a file of "
    "vectors\n"
    "in word2vec's format (text; binary when it ends in .bin).\n"
    "\n"
    "Example:\n"
    "  muster train --model skipgram --data text.txt --run runs/words\n"
    "  muster neighbors runs/words king --count 5\n"
    "\n"
    "  --count N               how many [10]\n"
    "  --json                  print one JSON object on stdout\n"
    "  --help                  print this\n";

typedef struct arguments {
    const char *place[2]; // PATH, WORD
    int places;
    uint32_t count;
    bool json;
} arguments;

/* What is wrong with the line goes to *error_out. */
static muster_status parse(int argc, char **argv, arguments *args,
                           muster_error *error_out)
{
    static const char see[] = "see `muster neighbors --help`";
    const char *stray = NULL;
    for (int i = 0; i < argc && stray == NULL; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            args->json = true;
        } else if (strcmp(argv[i], "--count") == 0 && i + 1 < argc) {
            char *end;
            unsigned long count = strtoul(argv[++i], &end, 10);
            args->count = *end == '\0' && count <= 1000 ? (uint32_t)count : 0;
        } else if (argv[i][0] != '-' && args->places < 2) {
            args->place[args->places++] = argv[i];
        } else {
            stray = argv[i];
        }
    }
    if (stray != NULL && strcmp(stray, "--count") == 0) {
        (void)snprintf(error_out->text, sizeof(error_out->text),
                       "--count: needs a value: N");
    } else if (stray != NULL) {
        (void)snprintf(error_out->text, sizeof(error_out->text),
                       "neighbors: what is '%.60s'? %s", stray, see);
    } else if (args->places < 2) {
        (void)snprintf(error_out->text, sizeof(error_out->text),
                       "neighbors: expected PATH WORD; %s", see);
    }
    return error_out->text[0] == '\0' ? MUSTER_OK : MUSTER_ERR_INVALID;
}

/* One line a neighbour. */
static int print_lines(const char *json)
{
    json_t *all = json_loads(json, 0, NULL);
    json_t *list = json_object_get(all, "neighbors");
    int code = 0;
    for (size_t i = 0; i < json_array_size(list) && code == 0; i++) {
        json_t *one = json_array_get(list, i);
        char line[1200];
        (void)snprintf(line, sizeof(line), "%.4f  %s\n",
                       json_real_value(json_object_get(one, "cosine")),
                       json_string_value(json_object_get(one, "word")));
        code = cli_print(line);
    }
    json_decref(all);
    return code;
}

static void tell(void *context, muster_log_level level, const char *line)
{
    (void)context;
    (void)level;
    (void)fprintf(stderr, "warning: %s\n", line);
}

int cli_neighbors(int argc, char **argv)
{
    arguments args = {.count = 10};
    if (cli_wants_help(argc, argv)) {
        return cli_print(help);
    }
    muster_error error = {.text = ""};
    char *json = NULL;
    muster_status status = parse(argc, argv, &args, &error);
    if (status != MUSTER_OK) {
        return cli_fail(status, &error);
    }
    muster_log_to(tell, NULL, MUSTER_LOG_WARN);
    status = muster_neighbors(args.place[0], args.place[1], args.count, &error,
                              &json);
    if (status < 0) {
        return cli_fail(status, &error);
    }
    int code = args.json ? cli_print(json) : print_lines(json);
    if (args.json && code == 0) {
        code = cli_print("\n");
    }
    muster_config_text_free(json);
    return code;
}
