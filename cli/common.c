/*
 * common.c -- options, messages and results, the same for every verb.
 */
#define _DEFAULT_SOURCE // struct winsize
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "muster/log.h"
#include "muster/run.h"

/* Without a terminal, progress is a line now and then, not a flood. */
#define PROGRESS_PERIOD_S 5

typedef struct stderr_sink {
    pthread_mutex_t lock; // lines come from several threads
    bool is_terminal;
    bool has_color;
    bool line_open; // a progress line stands without its newline
    bool has_told;  // at least one progress line without a terminal
    time_t told_s;  // when
} stderr_sink;

static time_t monotonic_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

/* A line as it may be shown: what came from a file, an argument or a peer must
 * not steer the terminal or break the line. */
typedef struct shown_line {
    char text[1024];
} shown_line;

static shown_line shown(const char *line)
{
    shown_line copy;
    size_t i = 0;
    for (; line[i] != '\0' && i < sizeof(copy.text) - 1; i++) {
        unsigned char byte = (unsigned char)line[i];
        copy.text[i] = byte < 0x20 || byte == 0x7f ? '?' : line[i];
    }
    copy.text[i] = '\0';
    return copy;
}

/* How many characters fit into a line of the terminal; the last column stays
 * free, since some terminals wrap when it is written. */
static int line_width(void)
{
    struct winsize size;
    bool known =
        ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
    return known ? size.ws_col - 1 : INT_MAX;
}

static void show_progress(stderr_sink *sink, const char *line)
{
    if (sink->is_terminal) {
        // A line that wraps cannot be rewritten in place.
        fprintf(stderr, "\r\033[K%.*s", line_width(), line);
        fflush(stderr);
        sink->line_open = true;
        return;
    }
    time_t now_s = monotonic_s();
    if (!sink->has_told || now_s - sink->told_s >= PROGRESS_PERIOD_S) {
        fprintf(stderr, "%s\n", line);
        sink->has_told = true;
        sink->told_s = now_s;
    }
}

static void show_line(stderr_sink *sink, muster_log_level level,
                      const char *line)
{
    const char *color = level == MUSTER_LOG_ERROR  ? "\033[31m"
                        : level == MUSTER_LOG_WARN ? "\033[33m"
                                                   : "";
    const char *word = level == MUSTER_LOG_ERROR  ? "error: "
                       : level == MUSTER_LOG_WARN ? "warning: "
                                                  : "";
    bool paint = sink->has_color && *color != '\0';
    fprintf(stderr, "%s%s%s%s%s\n", sink->line_open ? "\r\033[K" : "",
            paint ? color : "", word, paint ? "\033[0m" : "", line);
    sink->line_open = false;
}

static void tell(void *context, muster_log_level level, const char *line)
{
    stderr_sink *sink = context;
    shown_line safe = shown(line);
    (void)pthread_mutex_lock(&sink->lock);
    if (level == MUSTER_LOG_PROGRESS) {
        show_progress(sink, safe.text);
    } else {
        show_line(sink, level, safe.text);
    }
    (void)pthread_mutex_unlock(&sink->lock);
}

static stderr_sink *the_sink(void)
{
    static stderr_sink sink = {.lock = PTHREAD_MUTEX_INITIALIZER};
    return &sink;
}

static void end_progress(void)
{
    stderr_sink *sink = the_sink();
    (void)pthread_mutex_lock(&sink->lock);
    if (sink->line_open) {
        fputc('\n', stderr);
        sink->line_open = false;
    }
    (void)pthread_mutex_unlock(&sink->lock);
}

/* A switch, in any of the spellings that the library has accepted. */
static bool is_on(const muster_config *config, const char *name)
{
    static const char *const words[] = {"true", "yes", "on", "1"};
    const char *value = muster_config_get(config, name);
    for (size_t i = 0; value != NULL && i < 4; i++) {
        if (strcmp(value, words[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void listen_to_library(const muster_config *config)
{
    stderr_sink *sink = the_sink();
    const char *no_color = getenv("NO_COLOR");
    sink->is_terminal = isatty(STDERR_FILENO) == 1;
    sink->has_color =
        sink->is_terminal && (no_color == NULL || *no_color == '\0');
    muster_log_level level = MUSTER_LOG_INFO;
    if (is_on(config, "quiet")) {
        level = MUSTER_LOG_WARN;
    } else if (is_on(config, "verbose")) {
        level = MUSTER_LOG_DEBUG;
    }
    muster_log_to(tell, sink, level);
}

bool cli_wants_help(int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            return true;
        }
    }
    return false;
}

int cli_fail(muster_status status, const muster_error *error)
{
    end_progress();
    bool has_text = error != NULL && error->text[0] != '\0';
    shown_line safe =
        shown(has_text ? error->text : muster_status_text(status));
    fprintf(stderr, "muster: %s\n", safe.text);
    if (status == MUSTER_ERR_NO_MEMORY) {
        cli_limits_tell();
    }
    return muster_status_exit_code(status);
}

const char *cli_own_path(char *path, size_t size)
{
    static const char link[] = "/proc/self/exe";
    ssize_t length = readlink(link, path, size - 1);
    if (length <= 0 || (size_t)length >= size - 1) {
        return link;
    }
    path[length] = '\0';
    return access(path, X_OK) == 0 ? path : link;
}

int cli_print(const char *text)
{
    if (fputs(text, stdout) == EOF || fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "muster: stdout: %m\n");
        return muster_status_exit_code(MUSTER_ERR_SYSTEM);
    }
    return 0;
}

static int print_help(const char *verb)
{
    char *help = muster_config_help(verb);
    int code =
        help != NULL ? cli_print(help) : cli_fail(MUSTER_ERR_NO_MEMORY, NULL);
    muster_config_text_free(help);
    return code;
}

muster_config *cli_options(const char *verb, int argc, char **argv,
                           int *exit_code_out)
{
    if (cli_wants_help(argc, argv)) {
        *exit_code_out = print_help(verb);
        return NULL;
    }
    muster_error error = {0};
    muster_config *config = NULL;
    muster_status status = muster_config_create(verb, &config);
    if (status == MUSTER_OK) {
        status = muster_config_parse(config, argc, (const char *const *)argv,
                                     &error);
    }
    if (status == MUSTER_OK) {
        status = muster_options_of_cluster(config, &error);
    }
    if (status == MUSTER_OK) {
        status = muster_config_check(config, &error);
    }
    if (status != MUSTER_OK) {
        muster_config_free(config);
        *exit_code_out = cli_fail(status, &error);
        return NULL;
    }
    listen_to_library(config);
    return config;
}

int cli_finish(muster_config *config, muster_status status,
               const muster_error *error, char *json)
{
    end_progress();
    int code = status < 0 ? cli_fail(status, error) : 0;
    if (json != NULL && is_on(config, "json")) {
        int printed = cli_print(json);
        printed = printed == 0 ? cli_print("\n") : printed;
        code = code == 0 ? printed : code;
    }
    muster_config_text_free(json);
    muster_config_free(config);
    return code;
}

int cli_finish_text(muster_config *config, muster_status status,
                    const muster_error *error, char *text)
{
    if (is_on(config, "json")) {
        return cli_finish(config, status, error, text);
    }
    int code = text != NULL ? cli_print(text) : 0;
    muster_config_text_free(text);
    int finished = cli_finish(config, status, error, NULL);
    return finished != 0 ? finished : code;
}
