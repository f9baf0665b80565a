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
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/spec.h"
#include "base/suggest.h"
#include "cluster/delay_trace.h"

#define PARAMS_MAX    4u
#define DELAY_MAX_S   3600.0
#define CLASS_STREAM  (UINT64_C(1) << 40) // apart from the workers' own streams
#define MARKOV_STREAM (UINT64_C(1) << 41)

typedef struct model {
    const char *name;
    muster_spec_field fields[PARAMS_MAX + 1];
    double defaults[PARAMS_MAX]; // of the fields, in their order
    double (*draw)(muster_delay *delay, uint32_t worker, uint64_t step);
} model;

typedef struct chain { // one worker's Markov chain, at `step`
    uint64_t step;
    bool slow;
} chain;

struct muster_delay {
    const model *model;
    double values[PARAMS_MAX]; // seconds, or plain numbers
    char path[MUSTER_SPEC_VALUE_MAX];
    uint32_t workers;
    uint64_t seed;
    chain *chains;
    muster_delay_trace trace;
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
    const muster_delay_trace *trace = &delay->trace;
    size_t row = (size_t)(step % trace->iterations);
    double seconds =
        trace->seconds[row * trace->workers + worker % trace->workers];
    return fmax(0, seconds - delay->values[2]) * delay->values[1];
}

/* Field i of a model lies in values[i]. */
#define AT(i) (offsetof(muster_delay, values) + (i) * sizeof(double))
#define TIME(label, i)                                                  \
    {                                                                   \
        (label), MUSTER_SPEC_SECONDS, AT(i), 0, DELAY_MAX_S, NULL, true \
    }
#define SHARE(label, i, needed)                                  \
    {                                                            \
        (label), MUSTER_SPEC_DOUBLE, AT(i), 0, 1, NULL, (needed) \
    }
#define NUMBER(label, i)                                         \
    {                                                            \
        (label), MUSTER_SPEC_DOUBLE, AT(i), MUSTER_SPEC_ABOVE_0, \
            MUSTER_SPEC_NO_LIMIT, NULL, false                    \
    }
#define END          \
    {                \
        .name = NULL \
    }

static const model models[] = {
    {"constant", {TIME("delay", 0), END}, {0}, draw_constant},
    {"exponential", {TIME("mean", 0), END}, {0}, draw_exponential},
    {"shifted-exponential",
     {TIME("shift", 0), TIME("mean", 1), END},
     {0},
     draw_shifted},
    {"pareto",
     {TIME("scale", 0), NUMBER("shape", 1), END},
     {0, 1.5},
     draw_pareto},
    {"iid", {SHARE("p", 0, true), TIME("delay", 1), END}, {0}, draw_iid},
    {"bernoulli",
     {SHARE("slow", 0, false), SHARE("p-slow", 1, false),
      SHARE("p-active", 2, false), TIME("delay", 3), END},
     {0.33, 0.8, 0.01},
     draw_bernoulli},
    {"markov",
     {SHARE("stay-slow", 0, false), SHARE("stay-active", 1, false),
      TIME("delay", 2), END},
     {0.95, 0.95},
     draw_markov},
    {"trace",
     {{"file", MUSTER_SPEC_TEXT, offsetof(muster_delay, path), 0,
       MUSTER_SPEC_VALUE_MAX, NULL, true},
      NUMBER("scale", 1),
      {"base", MUSTER_SPEC_SECONDS, AT(2), 0, DELAY_MAX_S, NULL, false},
      END},
     {0, 1, 0},
     draw_trace},
};
#define MODELS (sizeof(models) / sizeof(models[0]))

static muster_status read_spec(muster_delay *delay, const char *spec,
                               muster_error *error)
{
    const char *params;
    size_t length = muster_spec_name(spec, &params);
    muster_suggestion meant = muster_suggestion_make(spec, length);
    for (size_t i = 0; i < MODELS; i++) {
        muster_suggestion_add(&meant, models[i].name);
        if (muster_spec_is(spec, models[i].name)) {
            char place[64];
            (void)snprintf(place, sizeof(place), "--delay %s", models[i].name);
            delay->model = &models[i];
            memcpy(delay->values, models[i].defaults, sizeof(delay->values));
            return muster_spec_read(place, params, models[i].fields, delay,
                                    NULL, error);
        }
    }
    return muster_suggestion_fail(&meant, "--delay ", error);
}

static muster_status build(muster_delay *delay, const char *spec,
                           muster_error *error)
{
    muster_status status = read_spec(delay, spec, error);
    if (status == MUSTER_OK && delay->model->draw == draw_trace) {
        status = muster_delay_trace_load(delay->path, error, &delay->trace);
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
        muster_delay_trace_fini(&delay->trace);
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
