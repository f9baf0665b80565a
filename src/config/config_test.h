/*
 * config_test.h -- what the tests of the configuration share.
 *
 * A line of words is parsed as the command line would be, and compared with
 * what it should give.
 */
#ifndef MUSTER_CONFIG_CONFIG_TEST_H
#define MUSTER_CONFIG_CONFIG_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/config.h"

#define ARGUMENTS_MAX 32

static inline muster_config *make(const char *verb)
{
    muster_config *config = NULL;
    assert_int_equal(muster_config_create(verb, &config), MUSTER_OK);
    return config;
}

/* Parse (and check, when asked) a line of words separated by blanks. */
static inline muster_status parse_line(muster_config *config, const char *line,
                                       bool check, muster_error *error)
{
    char words[1024];
    const char *argv[ARGUMENTS_MAX];
    int argc = 0;
    snprintf(words, sizeof(words), "%s", line);
    char *rest = NULL;
    for (char *word = strtok_r(words, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        assert_true(argc < ARGUMENTS_MAX);
        argv[argc++] = word;
    }
    muster_status status = muster_config_parse(config, argc, argv, error);
    if (status == MUSTER_OK && check) {
        status = muster_config_check(config, error);
    }
    return status;
}

static inline void assert_refused(const char *verb, const char *line,
                                  const char *expected)
{
    muster_config *config = make(verb);
    muster_error error = {0};
    assert_int_equal(parse_line(config, line, true, &error),
                     MUSTER_ERR_INVALID);
    assert_string_equal(error.text, expected);
    muster_config_free(config);
}

#endif // MUSTER_CONFIG_CONFIG_TEST_H
