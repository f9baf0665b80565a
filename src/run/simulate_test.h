/*
 * run/simulate_test.h -- for tests of muster_simulate(): run it with flags, and
 * read what it gave.
 */
#ifndef MUSTER_RUN_SIMULATE_TEST_H
#define MUSTER_RUN_SIMULATE_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "config/config.h"
#include "muster/run.h"

/* The result, and the status that came with it. */
static inline muster_status simulate(const char *const *flags, char **text_out)
{
    muster_config *config = NULL;
    muster_error error = {0};
    int count = 0;
    while (flags[count] != NULL) {
        count++;
    }
    assert_int_equal(muster_config_create("simulate", &config), MUSTER_OK);
    muster_status status = muster_config_parse(config, count, flags, &error);
    if (status == MUSTER_OK) {
        status = muster_config_check(config, &error);
    }
    *text_out = NULL;
    if (status == MUSTER_OK) {
        status = muster_simulate(config, &error, text_out);
    }
    muster_config_free(config);
    return status;
}

static inline json_t *code_at(const json_t *result, size_t index)
{
    return json_array_get(json_object_get(result, "codes"), index);
}

static inline double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

#endif // MUSTER_RUN_SIMULATE_TEST_H
