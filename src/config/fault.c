/*
 * fault.c -- W:TIME, W:FACTORx, either with @STEP, and W@STEP into structs.
 */
#include "config/fault.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/value.h"
#include "config/table.h"

#define EDGE         "edge"
#define FACTOR_MAX   1e6
#define DELAY_NS_MAX 3600000000000ll

static muster_status malformed(muster_option option, const char *text,
                               const char *example, muster_error *error_out)
{
    return muster_error_set(error_out, MUSTER_ERR_INVALID,
                            "--%s %.60s: write %s",
                            muster_option_get(option)->name, text, example);
}

/* The worker's or edge's number before `mark`; *rest_out is what follows. */
static bool split(const char *text, char mark, muster_fault *fault,
                  const char **rest_out)
{
    fault->edge = strncmp(text, EDGE, strlen(EDGE)) == 0;
    text += fault->edge ? strlen(EDGE) : 0;
    const char *at = strchr(text, mark);
    char number[16];
    uint64_t worker = 0;
    if (at == NULL || (size_t)(at - text) >= sizeof(number)) {
        return false;
    }
    memcpy(number, text, (size_t)(at - text));
    number[at - text] = '\0';
    if (!muster_value_uint(number, &worker) || worker > UINT32_MAX) {
        return false;
    }
    fault->worker = (uint32_t)worker;
    *rest_out = at + 1;
    return true;
}

static bool parse_factor(const char *text, double *factor_out)
{
    char number[32];
    size_t length = strlen(text);
    if (length < 2 || length > sizeof(number) || text[length - 1] != 'x') {
        return false;
    }
    memcpy(number, text, length - 1);
    number[length - 1] = '\0';
    return muster_value_double(number, factor_out) && *factor_out >= 1 &&
           *factor_out <= FACTOR_MAX;
}

/* TIME, FACTORx or 0. */
static bool parse_amount(const char *text, muster_fault *fault)
{
    if (parse_factor(text, &fault->factor)) {
        fault->kind = MUSTER_FAULT_SLOW_TIMES;
        return true;
    }
    fault->kind = MUSTER_FAULT_SLOW_BY;
    fault->factor = 0;
    return strcmp(text, "0") == 0 ||
           (muster_value_duration_ns(text, &fault->delay_ns) &&
            fault->delay_ns <= DELAY_NS_MAX);
}

static bool parse_slow_parts(const char *text, muster_fault *fault)
{
    const char *rest = NULL;
    char amount[40];
    if (!split(text, ':', fault, &rest)) {
        return false;
    }
    size_t length = strcspn(rest, "@");
    if (length >= sizeof(amount)) {
        return false;
    }
    memcpy(amount, rest, length);
    amount[length] = '\0';
    return parse_amount(amount, fault) &&
           (rest[length] == '\0' ||
            muster_value_uint(rest + length + 1, &fault->step));
}

static muster_status parse_slow(const char *text, muster_error *error_out,
                                muster_fault *fault_out)
{
    muster_fault fault = {0};
    if (!parse_slow_parts(text, &fault)) {
        return malformed(MUSTER_OPT_SLOW, text,
                         "W:TIME such as 3:200ms (at most 1h), or W:FACTORx "
                         "such as 3:10x (at least 1x), with @STEP to begin "
                         "there",
                         error_out);
    }
    *fault_out = fault;
    return MUSTER_OK;
}

static muster_fault_kind kind_of(muster_option option)
{
    switch ((int)option) {
    case MUSTER_OPT_KILL:
        return MUSTER_FAULT_KILL;
    case MUSTER_OPT_REJOIN:
        return MUSTER_FAULT_REJOIN;
    case MUSTER_OPT_STOP:
        return MUSTER_FAULT_STOP;
    default:
        MUSTER_ASSERT(option == MUSTER_OPT_CONT);
        return MUSTER_FAULT_CONT;
    }
}

muster_status muster_fault_parse(muster_option option, const char *text,
                                 muster_error *error_out,
                                 muster_fault *fault_out)
{
    if (option == MUSTER_OPT_SLOW) {
        return parse_slow(text, error_out, fault_out);
    }
    muster_fault fault = {.kind = kind_of(option)};
    const char *rest = NULL;
    if (!split(text, '@', &fault, &rest) ||
        !muster_value_uint(rest, &fault.step)) {
        return malformed(option, text, "W@STEP such as 3@50", error_out);
    }
    *fault_out = fault;
    return MUSTER_OK;
}

/* Within a step, workers come back before others go. */
static int order_of(muster_fault_kind kind)
{
    switch (kind) {
    case MUSTER_FAULT_SLOW_BY:
    case MUSTER_FAULT_SLOW_TIMES:
        return 0;
    case MUSTER_FAULT_CONT:
        return 1;
    case MUSTER_FAULT_REJOIN:
        return 2;
    case MUSTER_FAULT_STOP:
        return 3;
    case MUSTER_FAULT_KILL:
        return 4;
    }
    return 5;
}

static int compare_faults(const void *left, const void *right)
{
    const muster_fault *a = left;
    const muster_fault *b = right;
    if (a->step != b->step) {
        return a->step < b->step ? -1 : 1;
    }
    int order = order_of(a->kind) - order_of(b->kind);
    if (order != 0) {
        return order;
    }
    if (a->edge != b->edge) {
        return a->edge ? -1 : 1; // an edge comes back before its workers
    }
    return a->worker < b->worker ? -1 : a->worker > b->worker;
}

muster_status muster_faults_read(const muster_config *config,
                                 muster_error *error_out,
                                 muster_vec *faults_out)
{
    static const muster_option options[] = {MUSTER_OPT_SLOW, MUSTER_OPT_KILL,
                                            MUSTER_OPT_REJOIN, MUSTER_OPT_STOP,
                                            MUSTER_OPT_CONT};
    MUSTER_ASSERT(faults_out->element_bytes == sizeof(muster_fault));
    for (size_t o = 0; o < sizeof(options) / sizeof(options[0]); o++) {
        size_t count = muster_config_list_count(config, options[o]);
        for (size_t i = 0; i < count; i++) {
            muster_fault *slot = muster_vec_push(faults_out);
            if (slot == NULL) {
                return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                        "out of memory");
            }
            const char *text = muster_config_list_at(config, options[o], i);
            muster_status status =
                muster_fault_parse(options[o], text, error_out, slot);
            if (status != MUSTER_OK) {
                return status;
            }
        }
    }
    if (faults_out->count > 0) {
        qsort(faults_out->data, faults_out->count, sizeof(muster_fault),
              compare_faults);
    }
    return MUSTER_OK;
}
