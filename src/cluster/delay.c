/*
 * delay.c -- the straggler models of cluster/delay.h.
 *
 * One row per model: its parameters with their defaults and ranges, and a draw.
 * Every draw is a counter-based random number of (seed, worker, step), so a
 * delay is a function of where it happens. The Markov chain is walked from the
 * start, or from where it was left: its state too depends on (worker, step)
 * alone.
 */
#include "cluster/delay.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "cluster/trace.h"

#define PARAMS_MAX    4u
#define DELAY_MAX_S   3600.0
#define CLASS_STREAM  (UINT64_C(1) << 40) // apart from the workers' own streams
#define MARKOV_STREAM (UINT64_C(1) << 41)

typedef enum param_kind { TIME, NUMBER, SHARE, TEXT } param_kind;

typedef struct param {
    const char *name;
    param_kind kind;
    const char *deflt; // NULL: must be given
} param;

typedef struct model {
    const char *name;
    param params[PARAMS_MAX + 1]; // ended by a NULL name
    double (*draw)(muster_delay *delay, uint32_t worker, uint64_t step);
} model;

typedef struct chain { // one worker's Markov chain, at `step`
    uint64_t step;
    bool slow;
} chain;

struct muster_delay {
    const model *model;
    double values[PARAMS_MAX]; // seconds, or plain numbers
    char path[512];
    uint32_t workers;
    uint64_t seed;
    chain *chains;
    muster_trace trace;
};

static double uniform(const muster_delay *delay, uint64_t stream, uint64_t step)
{
    return (double)(muster_rng_at(delay->seed, stream, step) >> 11) * 0x1p-53;
}

static double draw_constant(muster_delay *delay, uint32_t worker, uint64_t step)
{
    (void)worker;
    (void)step;
    return delay->values[0];
}

static double draw_exponential(muster_delay *delay, uint32_t worker,
                               uint64_t step)
{
    return -delay->values[0] * log1p(-uniform(delay, worker, step));
}

static double draw_shifted(muster_delay *delay, uint32_t worker, uint64_t step)
{
    return delay->values[0] -
           delay->values[1] * log1p(-uniform(delay, worker, step));
}

static double draw_pareto(muster_delay *delay, uint32_t worker, uint64_t step)
{
    return delay->values[0] *
           pow(1 - uniform(delay, worker, step), -1 / delay->values[1]);
}

static double draw_iid(muster_delay *delay, uint32_t worker, uint64_t step)
{
    return uniform(delay, worker, step) < delay->values[0] ? delay->values[1]
                                                           : 0;
}

static bool is_slow_class(const muster_delay *delay, uint32_t worker)
{
    return uniform(delay, CLASS_STREAM, worker) < delay->values[0];
}

static double draw_bernoulli(muster_delay *delay, uint32_t worker,
                             uint64_t step)
{
    double p = delay->values[is_slow_class(delay, worker) ? 1 : 2];
    return uniform(delay, worker, step) < p ? delay->values[3] : 0;
}

static double draw_markov(muster_delay *delay, uint32_t worker, uint64_t step)
{
    double stay_slow = delay->values[0];
    double stay_active = delay->values[1];
    chain *at = &delay->chains[worker % delay->workers];
    uint64_t stream = MARKOV_STREAM + worker % delay->workers;
    if (at->step == 0 || at->step > step + 1) {
        // The first state is drawn from what the chain tends to.
        double leave = 2 - stay_slow - stay_active;
        double share = leave > 0 ? (1 - stay_active) / leave : 0.5;
        *at = (chain){1, uniform(delay, stream, 0) < share};
    }
    while (at->step <= step) {
        double stay = at->slow ? stay_slow : stay_active;
        bool stays = uniform(delay, stream, at->step) < stay;
        at->slow = at->slow == stays;
        at->step++;
    }
    return at->slow ? delay->values[2] : 0;
}

static double draw_trace(muster_delay *delay, uint32_t worker, uint64_t step)
{
    const muster_trace *trace = &delay->trace;
    size_t row = (size_t)(step % trace->iterations);
    double seconds =
        trace->seconds[row * trace->workers + worker % trace->workers];
    return fmax(0, seconds - delay->values[2]) * delay->values[1];
}

static const model models[] = {
    {"constant", {{"delay", TIME, NULL}}, draw_constant},
    {"exponential", {{"mean", TIME, NULL}}, draw_exponential},
    {"shifted-exponential",
     {{"shift", TIME, NULL}, {"mean", TIME, NULL}},
     draw_shifted},
    {"pareto", {{"scale", TIME, NULL}, {"shape", NUMBER, "1.5"}}, draw_pareto},
    {"iid", {{"p", SHARE, NULL}, {"delay", TIME, NULL}}, draw_iid},
    {"bernoulli",
     {{"slow", SHARE, "0.33"},
      {"p-slow", SHARE, "0.8"},
      {"p-active", SHARE, "0.01"},
      {"delay", TIME, NULL}},
     draw_bernoulli},
    {"markov",
     {{"stay-slow", SHARE, "0.95"},
      {"stay-active", SHARE, "0.95"},
      {"delay", TIME, NULL}},
     draw_markov},
    {"trace",
     {{"file", TEXT, NULL}, {"scale", NUMBER, "1"}, {"base", TIME, "0s"}},
     draw_trace},
};
#define MODELS (sizeof(models) / sizeof(models[0]))

/* "200ms", "1.5s", "3us", "10ns", "2m", in seconds. */
static bool parse_time(const char *text, double *seconds_out)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"m", 60}};
    char *end = NULL;
    double number = strtod(text, &end);
    for (size_t i = 0; end != text && i < sizeof(units) / sizeof(units[0]);
         i++) {
        if (strcmp(end, units[i].name) == 0) {
            *seconds_out = number * units[i].seconds;
            return number >= 0 && *seconds_out <= DELAY_MAX_S;
        }
    }
    return false;
}

static bool parse_value(const param *wanted, const char *text, double *out)
{
    if (wanted->kind == TIME) {
        return parse_time(text, out);
    }
    char *end = NULL;
    *out = strtod(text, &end);
    bool whole = end != text && *end == 0 && isfinite(*out);
    return whole && (wanted->kind == SHARE ? *out >= 0 && *out <= 1 : *out > 0);
}

static muster_status set_param(muster_delay *delay, size_t index,
                               const char *text, muster_error *error)
{
    const param *wanted = &delay->model->params[index];
    if (wanted->kind == TEXT) {
        snprintf(delay->path, sizeof(delay->path), "%s", text);
        return MUSTER_OK;
    }
    if (parse_value(wanted, text, &delay->values[index])) {
        return MUSTER_OK;
    }
    static const char *const expected[] = {"a time up to an hour, such as 20ms",
                                           "a number above 0",
                                           "a share from 0 to 1", "a path"};
    return muster_error_set(error, MUSTER_ERR_INVALID,
                            "--delay %s: %s=%s is not %s", delay->model->name,
                            wanted->name, text, expected[wanted->kind]);
}

static muster_status set_named(muster_delay *delay, const char *text,
                               bool *given, muster_error *error)
{
    size_t length = strcspn(text, "=");
    for (size_t i = 0; delay->model->params[i].name != NULL; i++) {
        const char *name = delay->model->params[i].name;
        if (strlen(name) == length && strncmp(name, text, length) == 0 &&
            text[length] == '=') {
            given[i] = true;
            return set_param(delay, i, text + length + 1, error);
        }
    }
    return muster_error_set(error, MUSTER_ERR_INVALID,
                            "--delay %s: no parameter '%s'; it has %s, ..",
                            delay->model->name, text,
                            delay->model->params[0].name);
}

static muster_status set_params(muster_delay *delay, const char *text,
                                muster_error *error)
{
    bool given[PARAMS_MAX] = {false};
    muster_status status = MUSTER_OK;
    while (status == MUSTER_OK && *text != 0) {
        char one[512];
        size_t length = strcspn(text, ",");
        snprintf(one, sizeof(one), "%.*s", (int)(length < 511 ? length : 511),
                 text);
        status = set_named(delay, one, given, error);
        text += length + (text[length] == ',');
    }
    for (size_t i = 0; status == MUSTER_OK && i < PARAMS_MAX &&
                       delay->model->params[i].name != NULL;
         i++) {
        const param *wanted = &delay->model->params[i];
        if (!given[i] && wanted->deflt == NULL) {
            return muster_error_set(error, MUSTER_ERR_INVALID,
                                    "--delay %s: needs %s=..",
                                    delay->model->name, wanted->name);
        }
        if (!given[i]) {
            status = set_param(delay, i, wanted->deflt, error);
        }
    }
    return status;
}

static const model *find_model(const char *spec, size_t length)
{
    for (size_t i = 0; i < MODELS; i++) {
        if (strlen(models[i].name) == length &&
            strncmp(models[i].name, spec, length) == 0) {
            return &models[i];
        }
    }
    return NULL;
}

static muster_status build(muster_delay *delay, const char *spec,
                           muster_error *error)
{
    size_t length = strcspn(spec, ":");
    delay->model = find_model(spec, length);
    if (delay->model == NULL) {
        return muster_error_set(
            error, MUSTER_ERR_INVALID,
            "--delay %s: no such model; there are constant, exponential, "
            "shifted-exponential, pareto, iid, bernoulli, markov and trace",
            spec);
    }
    const char *params = spec + length + (spec[length] == ':');
    muster_status status = set_params(delay, params, error);
    if (status == MUSTER_OK && delay->model->draw == draw_trace) {
        status = muster_trace_load(delay->path, error, &delay->trace);
    }
    if (status == MUSTER_OK) {
        delay->chains = muster_mem_array(delay->workers, sizeof(chain));
        if (delay->chains == NULL) {
            return muster_error_set(error, MUSTER_ERR_NO_MEMORY,
                                    "--delay: no memory for %u workers",
                                    delay->workers);
        }
    }
    return status;
}

muster_status muster_delay_create(const char *spec, uint32_t workers,
                                  uint64_t seed, muster_error *error_out,
                                  muster_delay **delay_out)
{
    muster_delay *delay = muster_mem_array(1, sizeof(*delay));
    if (delay == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "--delay: no memory");
    }
    delay->workers = workers > 0 ? workers : 1;
    delay->seed = seed;
    muster_status status = build(delay, spec, error_out);
    if (status != MUSTER_OK) {
        muster_delay_free(delay);
        return status;
    }
    *delay_out = delay;
    return MUSTER_OK;
}

void muster_delay_free(muster_delay *delay)
{
    if (delay != NULL) {
        muster_trace_fini(&delay->trace);
        muster_mem_free(delay->chains);
        muster_mem_free(delay);
    }
}

int64_t muster_delay_ns(muster_delay *delay, uint32_t worker, uint64_t step)
{
    double seconds = delay->model->draw(delay, worker, step);
    return (int64_t)(fmin(seconds, DELAY_MAX_S) * 1e9);
}

bool muster_delay_is_slow(const muster_delay *delay, uint32_t worker)
{
    return delay->model->draw == draw_bernoulli && is_slow_class(delay, worker);
}
