/*
 * delay_model.c -- the draws of all models, and their table.
 *
 * The Markov chain is walked from the start, or from where it was left: its
 * state too depends on (worker, step) alone.
 */
#include "cluster/delay_model.h"

#include <math.h>
#include <stddef.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/suggest.h"

#define FACTOR_MAX    1e6
#define LOSS_MAX      0.999
#define CLASS_STREAM  (UINT64_C(1) << 40) // apart from the workers' own streams
#define MARKOV_STREAM (UINT64_C(1) << 41)
#define UP_STREAM     (UINT64_C(1) << 42)

static double uniform(const muster_delay_term *term, uint64_t stream,
                      uint64_t step)
{
    return (double)(muster_rng_at(term->seed, stream, step) >> 11) * 0x1p-53;
}

static double draw_constant(muster_delay_term *term, uint32_t worker,
                            uint64_t step)
{
    (void)worker;
    (void)step;
    return term->values[0];
}

static double draw_exponential(muster_delay_term *term, uint32_t worker,
                               uint64_t step)
{
    return -term->values[0] * log1p(-uniform(term, worker, step));
}

static double draw_shifted(muster_delay_term *term, uint32_t worker,
                           uint64_t step)
{
    return term->values[0] -
           term->values[1] * log1p(-uniform(term, worker, step));
}

static double draw_pareto(muster_delay_term *term, uint32_t worker,
                          uint64_t step)
{
    double over = pow(1 - uniform(term, worker, step), -1 / term->values[1]);
    // values[0] is by how much the factor is above 1.
    return term->factor > 0 ? term->factor * over - 1 : term->values[0] * over;
}

static double draw_iid(muster_delay_term *term, uint32_t worker, uint64_t step)
{
    return uniform(term, worker, step) < term->values[0] ? term->values[1] : 0;
}

static bool is_slow_class(const muster_delay_term *term, uint32_t worker)
{
    return uniform(term, CLASS_STREAM, worker) < term->values[0];
}

static double draw_bernoulli(muster_delay_term *term, uint32_t worker,
                             uint64_t step)
{
    double p = term->values[is_slow_class(term, worker) ? 1 : 2];
    return uniform(term, worker, step) < p ? term->values[3] : 0;
}

static double draw_markov(muster_delay_term *term, uint32_t worker,
                          uint64_t step)
{
    double stay_slow = term->values[0];
    double stay_active = term->values[1];
    muster_delay_chain *at = &term->chains[worker % term->workers];
    uint64_t stream = MARKOV_STREAM + worker % term->workers;
    if (at->step == 0 || at->step > step + 1) {
        // The first state is drawn from what the chain tends to.
        double leave = 2 - stay_slow - stay_active;
        double share = leave > 0 ? (1 - stay_active) / leave : 0.5;
        *at = (muster_delay_chain){1, uniform(term, stream, 0) < share};
    }
    while (at->step <= step) {
        double stay = at->slow ? stay_slow : stay_active;
        bool stays = uniform(term, stream, at->step) < stay;
        at->slow = at->slow == stays;
        at->step++;
    }
    return at->slow ? term->values[2] : 0;
}

static double draw_trace(muster_delay_term *term, uint32_t worker,
                         uint64_t step)
{
    const muster_delay_trace *trace = &term->trace;
    size_t row = (size_t)(step % trace->iterations);
    double seconds =
        trace->seconds[row * trace->workers + worker % trace->workers];
    return fmax(0, seconds - term->values[2]) * term->values[1];
}

/* P(tries = x) = p^(x - 1) (1 - p). */
static double tries(const muster_delay_term *term, uint64_t stream,
                    uint64_t step)
{
    double p = term->values[1];
    double left = 1 - uniform(term, stream, step); // in (0, 1]
    return p > 0 ? 1 + floor(log(left) / log(p)) : 1;
}

static double draw_geometric(muster_delay_term *term, uint32_t worker,
                             uint64_t step)
{
    double sum = 0;
    if (term->way != MUSTER_WAY_UP) {
        sum += tries(term, worker, step);
    }
    if (term->way != MUSTER_WAY_DOWN) {
        sum += tries(term, UP_STREAM + worker, step);
    }
    return sum * term->values[0];
}

/* Of load 1; muster_delay_of() asks for the load that a worker has. */
static double draw_cluster(muster_delay_term *term, uint32_t worker,
                           uint64_t step)
{
    const muster_cluster_work uncoded = {.load = 1};
    return muster_cluster_delay_s(term->cluster, term->seed, worker, step,
                                  &uncoded);
}

/* Field i of a model lies in values[i]. */
#define AT(i) (offsetof(muster_delay_term, values) + (i) * sizeof(double))
#define MAY_TIME(label, i)                                                \
    {                                                                     \
        (label), MUSTER_SPEC_SECONDS, AT(i), 0, MUSTER_DELAY_MAX_S, NULL, \
            false                                                         \
    }
#define TIME(label, i)                                                         \
    {                                                                          \
        (label), MUSTER_SPEC_SECONDS, AT(i), 0, MUSTER_DELAY_MAX_S, NULL, true \
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
#define FACTOR                                                                \
    {                                                                         \
        "factor", MUSTER_SPEC_DOUBLE, offsetof(muster_delay_term, factor), 1, \
            FACTOR_MAX, NULL, false                                           \
    }
#define PER                                                              \
    {                                                                    \
        "per", MUSTER_SPEC_WORD, offsetof(muster_delay_term, per), 0, 0, \
            "step|load|message", false                                   \
    }
#define END          \
    {                \
        .name = NULL \
    }

static const muster_delay_model models[] = {
    {"constant",
     {MAY_TIME("delay", 0), FACTOR, PER, END},
     {0},
     draw_constant,
     "delay",
     0},
    {"exponential",
     {MAY_TIME("mean", 0), FACTOR, PER, END},
     {0},
     draw_exponential,
     "mean",
     0},
    {"shifted-exponential",
     {TIME("shift", 0), TIME("mean", 1), PER, END},
     {0},
     draw_shifted,
     NULL,
     0},
    {"pareto",
     {MAY_TIME("scale", 0), NUMBER("shape", 1), FACTOR, PER, END},
     {0, 1.5},
     draw_pareto,
     "scale",
     0},
    {"iid",
     {SHARE("p", 0, true), MAY_TIME("delay", 1), FACTOR, PER, END},
     {0},
     draw_iid,
     "delay",
     1},
    {"bernoulli",
     {SHARE("slow", 0, false), SHARE("p-slow", 1, false),
      SHARE("p-active", 2, false), MAY_TIME("delay", 3), FACTOR, PER, END},
     {0.33, 0.8, 0.01},
     draw_bernoulli,
     "delay",
     3},
    {"markov",
     {SHARE("stay-slow", 0, false), SHARE("stay-active", 1, false),
      MAY_TIME("delay", 2), FACTOR, PER, END},
     {0.95, 0.95},
     draw_markov,
     "delay",
     2},
    {"geometric",
     {TIME("time", 0),
      {"p", MUSTER_SPEC_DOUBLE, AT(1), 0, LOSS_MAX, NULL, true},
      {"way", MUSTER_SPEC_WORD, offsetof(muster_delay_term, way), 0, 0,
       "both|down|up", false},
      PER,
      END},
     {0},
     draw_geometric,
     NULL,
     0},
    {"trace",
     {{"file", MUSTER_SPEC_TEXT, offsetof(muster_delay_term, path), 0,
       MUSTER_SPEC_VALUE_MAX, NULL, true},
      NUMBER("scale", 1),
      MAY_TIME("base", 2),
      PER,
      END},
     {0, 1, 0},
     draw_trace,
     NULL,
     0},
    {"cluster",
     {{"file", MUSTER_SPEC_TEXT, offsetof(muster_delay_term, path), 0,
       MUSTER_SPEC_VALUE_MAX, NULL, true},
      {"links", MUSTER_SPEC_WORD, offsetof(muster_delay_term, links), 0, 0,
       "all|own", false},
      END},
     {0},
     draw_cluster,
     NULL,
     0},
};
#define MODELS (sizeof(models) / sizeof(models[0]))

const muster_delay_model *muster_delay_model_find(const char *spec)
{
    for (size_t i = 0; i < MODELS; i++) {
        if (muster_spec_is(spec, models[i].name)) {
            return &models[i];
        }
    }
    return NULL;
}

muster_status muster_delay_model_unknown(const char *spec, muster_error *error)
{
    const char *params;
    size_t length = muster_spec_name(spec, &params);
    muster_suggestion meant = muster_suggestion_make(spec, length);
    for (size_t i = 0; i < MODELS; i++) {
        muster_suggestion_add(&meant, models[i].name);
    }
    return muster_suggestion_fail(&meant, "--delay ", error);
}

static muster_status load_cluster(muster_delay_term *term, muster_error *error)
{
    muster_status status =
        muster_cluster_read(term->path, error, &term->cluster);
    if (status == MUSTER_OK && term->cluster->worker_count != term->workers) {
        return muster_error_set(
            error, MUSTER_ERR_INPUT, "%s: has %u workers, the run has %u",
            term->path, term->cluster->worker_count, term->workers);
    }
    return status;
}

muster_status muster_delay_term_make(muster_delay_term *term,
                                     muster_error *error)
{
    if (term->model->draw == draw_trace) {
        return muster_delay_trace_load(term->path, error, &term->trace);
    }
    if (term->model->draw == draw_cluster) {
        return load_cluster(term, error);
    }
    if (term->model->draw == draw_markov) {
        term->chains =
            muster_mem_array(term->workers, sizeof(muster_delay_chain));
        if (term->chains == NULL) {
            return muster_error_set(error, MUSTER_ERR_NO_MEMORY,
                                    "--delay: no memory for %u workers",
                                    term->workers);
        }
    }
    return MUSTER_OK;
}

void muster_delay_term_fini(muster_delay_term *term)
{
    muster_delay_trace_fini(&term->trace);
    muster_mem_free(term->chains);
    muster_cluster_free(term->cluster);
}

bool muster_delay_term_is_slow(const muster_delay_term *term, uint32_t worker)
{
    return term->model->draw == draw_bernoulli && is_slow_class(term, worker);
}
