/*
 * cli/cli.h -- what the verbs of the command share.
 *
 * A verb is one file with one function, cli_VERB(argc, argv), and one row in
 * verbs.def. It gets the arguments after its name and returns the exit code.
 * People's text goes to stderr, results to stdout.
 */
#ifndef MUSTER_CLI_H
#define MUSTER_CLI_H

#include <stdbool.h>
#include <stddef.h>

#include "muster/config.h"
#include "muster/status.h"

/* One prototype per row: int cli_train(int argc, char **argv); .. */
#define CLI_VERB(name, summary) int cli_##name(int argc, char **argv);
#include "verbs.def"
#undef CLI_VERB

/* Is --help or -h among the arguments? */
bool cli_wants_help(int argc, char **argv);

/* Print `muster: TEXT` and return the exit code of the status; the table's
 * text when the error has none of its own. */
int cli_fail(muster_status status, const muster_error *error);

/*
 * The options of `verb` from its arguments, checked; from then on the
 * library's lines go to stderr as --quiet and --verbose ask. NULL when the
 * command is over already (--help, or an error that has been printed);
 * *exit_code_out is then its exit code.
 */
muster_config *cli_options(const char *verb, int argc, char **argv,
                           int *exit_code_out);

/* For verbs without options: the library's lines go to stderr. */
void cli_log_to_stderr(void);

/* The two halves of cli_options(): read the options; look at all of them. NULL
 * as above, and cli_check() has then freed the configuration. */
muster_config *cli_parse(const char *verb, int argc, char **argv,
                         int *exit_code_out);
muster_config *cli_check(muster_config *config, int *exit_code_out);

/*
 * End a verb: print `json` (may be NULL) when --json was given, the error when
 * it failed; free config and json. Returns the exit code.
 */
int cli_finish(muster_config *config, muster_status status,
               const muster_error *error, char *json);

/* Likewise a verb whose text is JSON with --json, and else lines for stdout. */
int cli_finish_text(muster_config *config, muster_status status,
                    const muster_error *error, char *text);

/* The program's path, so that processes made from it carry its name in `ps`;
 * the link itself when the path is gone (the program was replaced meanwhile).
 * Lent from `path` or static. */
const char *cli_own_path(char *path, size_t size);

/* blas.c. First in main(): start the program again with better kernels of BLAS
 * where it does not know the processor. */
void cli_blas_prepare(char **argv);

/* limits.c. Next in main(): start the program again without BLAS threads where
 * the address space is limited. */
void cli_limits_prepare(char **argv);
/* After an error for want of memory: name the limit, if there is one. */
void cli_limits_tell(void);

/* Write a text to stdout; 0, or 1 with a message when that fails. */
int cli_print(const char *text);

#endif // MUSTER_CLI_H
