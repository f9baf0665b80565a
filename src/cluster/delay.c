/*
 * delay.c -- the straggler models of cluster/delay.h.
 *
 * One row per model: its parameters with their defaults and ranges, and a draw.
 * A delay is a sum of terms, each a model with its values. Every draw is a
 * counter-based random number of (the term's seed, worker, step), so a delay is
 * a function of where it happens. A term with a factor draws by how much the
 * factor is above 1; such a term multiplies the computing time. The Markov
 * chain is walked from the start, or from where it was left: its state too
 * depends on (worker, step) alone.
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
#include "base/vec.h"
#include "cluster/delay_trace.h"
#include "cluster/file_delay.h"

#define PARAMS_MAX    4u
#define FIELDS_MAX    6u
#define TERMS_MAX     4u
#define DELAY_MAX_S   3600.0
#define FACTOR_MAX    1e6
#define LOSS_MAX      0.999
#define CLASS_STREAM  (UINT64_C(1) << 40) // apart from the workers' own streams
#define MARKOV_STREAM (UINT64_C(1) << 41)
#define UP_STREAM     (UINT64_C(1) << 42)
#define TERM_STREAM   (UINT64_C(1) << 43)

typedef struct delay_term delay_term;

typedef struct delay_model {
    const char *name;
    muster_spec_field fields[FIELDS_MAX + 1];
    double defaults[PARAMS_MAX]; // of values[], in their order
    double (*draw)(delay_term *term, uint32_t worker, uint64_t step);
    // The time that `factor` can take the place of, at values[amount_at];
    // NULL: a model without a factor.
    const char *amount;
    unsigned amount_at;
} delay_model;

typedef struct chain { // one worker's Markov chain, at `step`
    uint64_t step;
    bool slow;
} chain;

typedef enum per { PER_STEP, PER_LOAD, PER_MESSAGE } per;
typedef enum way { WAY_BOTH, WAY_DOWN, WAY_UP } way;
typedef enum links { LINKS_ALL, LINKS_OWN } links;

struct delay_term {
    const delay_model *model;
    double values[PARAMS_MAX]; // seconds, or plain numbers
    double factor;             // 0: a time
    bool times;                // it multiplies the factor of the term before
    uint32_t per;
    uint32_t way;   // geometric
    uint32_t links; // cluster
    char path[MUSTER_SPEC_VALUE_MAX];
    uint32_t workers;
    uint64_t seed;
    chain *chains; // markov, by worker
    muster_delay_trace trace;
    muster_cluster *cluster;
};

struct muster_delay {
    uint32_t workers;
    uint32_t count;
    delay_term terms[TERMS_MAX];
};

static double uniform(const delay_term *term, uint64_t stream, uint64_t step)
{
    return (double)(muster_rng_at(term->seed, stream, step) >> 11) * 0x1p-53;
}

static double draw_constant(delay_term *term, uint32_t worker, uint64_t step)
{
    (void)worker;
    (void)step;
    return term->values[0];
}

static double draw_exponential(delay_term *term, uint32_t worker, uint64_t step)
{
    return -term->values[0] * log1p(-uniform(term, worker, step));
}

static double draw_shifted(delay_term *term, uint32_t worker, uint64_t step)
{
    return term->values[0] -
           term->values[1] * log1p(-uniform(term, worker, step));
}

static double draw_pareto(delay_term *term, uint32_t worker, uint64_t step)
{
    double over = pow(1 - uniform(term, worker, step), -1 / term->values[1]);
    // values[0] is by how much the factor is above 1.
    return term->factor > 0 ? term->factor * over - 1 : term->values[0] * over;
}

static double draw_iid(delay_term *term, uint32_t worker, uint64_t step)
{
    return uniform(term, worker, step) < term->values[0] ? term->values[1] : 0;
}

static bool is_slow_class(const delay_term *term, uint32_t worker)
{
    return uniform(term, CLASS_STREAM, worker) < term->values[0];
}

static double draw_bernoulli(delay_term *term, uint32_t worker, uint64_t step)
{
    double p = term->values[is_slow_class(term, worker) ? 1 : 2];
    return uniform(term, worker, step) < p ? term->values[3] : 0;
}

static double draw_markov(delay_term *term, uint32_t worker, uint64_t step)
{
    double stay_slow = term->values[0];
    double stay_active = term->values[1];
    chain *at = &term->chains[worker % term->workers];
    uint64_t stream = MARKOV_STREAM + worker % term->workers;
    if (at->step == 0 || at->step > step + 1) {
        // The first state is drawn from what the chain tends to.
        double leave = 2 - stay_slow - stay_active;
        double share = leave > 0 ? (1 - stay_active) / leave : 0.5;
        *at = (chain){1, uniform(term, stream, 0) < share};
    }
    while (at->step <= step) {
        double stay = at->slow ? stay_slow : stay_active;
        bool stays = uniform(term, stream, at->step) < stay;
        at->slow = at->slow == stays;
        at->step++;
    }
    return at->slow ? term->values[2] : 0;
}

static double draw_trace(delay_term *term, uint32_t worker, uint64_t step)
{
    const muster_delay_trace *trace = &term->trace;
    size_t row = (size_t)(step % trace->iterations);
    double seconds =
        trace->seconds[row * trace->workers + worker % trace->workers];
    return fmax(0, seconds - term->values[2]) * term->values[1];
}

/* P(tries = x) = p^(x - 1) (1 - p). */
static double tries(const delay_term *term, uint64_t stream, uint64_t step)
{
    double p = term->values[1];
    double left = 1 - uniform(term, stream, step); // in (0, 1]
    return p > 0 ? 1 + floor(log(left) / log(p)) : 1;
}

static double draw_geometric(delay_term *term, uint32_t worker, uint64_t step)
{
    double sum = 0;
    if (term->way != WAY_UP) {
        sum += tries(term, worker, step);
    }
    if (term->way != WAY_DOWN) {
        sum += tries(term, UP_STREAM + worker, step);
    }
    return sum * term->values[0];
}

/* Of load 1; muster_delay_of() asks for the load that a worker has. */
static double draw_cluster(delay_term *term, uint32_t worker, uint64_t step)
{
    const muster_cluster_work uncoded = {.load = 1};
    return muster_cluster_delay_s(term->cluster, term->seed, worker, step,
                                  &uncoded);
}

/* Field i of a model lies in values[i]. */
#define AT(i) (offsetof(delay_term, values) + (i) * sizeof(double))
#define MAY_TIME(label, i)                                               \
    {                                                                    \
        (label), MUSTER_SPEC_SECONDS, AT(i), 0, DELAY_MAX_S, NULL, false \
    }
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
#define FACTOR                                                         \
    {                                                                  \
        "factor", MUSTER_SPEC_DOUBLE, offsetof(delay_term, factor), 1, \
            FACTOR_MAX, NULL, false                                    \
    }
#define PER                                                       \
    {                                                             \
        "per", MUSTER_SPEC_WORD, offsetof(delay_term, per), 0, 0, \
            "step|load|message", false                            \
    }
#define END          \
    {                \
        .name = NULL \
    }

static const delay_model models[] = {
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
      {"way", MUSTER_SPEC_WORD, offsetof(delay_term, way), 0, 0, "both|down|up",
       false},
      PER,
      END},
     {0},
     draw_geometric,
     NULL,
     0},
    {"trace",
     {{"file", MUSTER_SPEC_TEXT, offsetof(delay_term, path), 0,
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
     {{"file", MUSTER_SPEC_TEXT, offsetof(delay_term, path), 0,
       MUSTER_SPEC_VALUE_MAX, NULL, true},
      {"links", MUSTER_SPEC_WORD, offsetof(delay_term, links), 0, 0, "all|own",
       false},
      END},
     {0},
     draw_cluster,
     NULL,
     0},
};
#define MODELS (sizeof(models) / sizeof(models[0]))

static const delay_model *find_model(const char *spec)
{
    for (size_t i = 0; i < MODELS; i++) {
        if (muster_spec_is(spec, models[i].name)) {
            return &models[i];
        }
    }
    return NULL;
}

static muster_status unknown_model(const char *spec, muster_error *error)
{
    const char *params;
    size_t length = muster_spec_name(spec, &params);
    muster_suggestion meant = muster_suggestion_make(spec, length);
    for (size_t i = 0; i < MODELS; i++) {
        muster_suggestion_add(&meant, models[i].name);
    }
    return muster_suggestion_fail(&meant, "--delay ", error);
}

/* Did the text name this key? `given` has a bit for each field. */
static bool is_given(const delay_model *model, uint64_t given, const char *key)
{
    for (unsigned i = 0; model->fields[i].name != NULL; i++) {
        if (strcmp(model->fields[i].name, key) == 0) {
            return (given >> i & 1u) != 0;
        }
    }
    return false;
}

/* What the keys must be together: a time or a factor, and a `per` that has a
 * meaning. */
static muster_status check_term(delay_term *term, uint64_t given,
                                muster_error *error)
{
    const delay_model *model = term->model;
    bool has_factor = is_given(model, given, "factor");
    if (model->amount != NULL &&
        has_factor == is_given(model, given, model->amount)) {
        return muster_error_set(
            error, MUSTER_ERR_INVALID,
            "--delay %s: %s %s=.., a time such as "
            "10ms, or factor=.. such as 3",
            model->name, has_factor ? "takes one of" : "needs", model->amount);
    }
    if (has_factor && is_given(model, given, "per")) {
        return muster_error_set(error, MUSTER_ERR_INVALID,
                                "--delay %s: per=.. is for times; a factor "
                                "multiplies the computing time",
                                model->name);
    }
    if (model->draw == draw_geometric && term->per == PER_MESSAGE &&
        term->way != WAY_UP) {
        return muster_error_set(error, MUSTER_ERR_INVALID,
                                "--delay geometric: per=message is about the "
                                "worker's answer: add way=up");
    }
    if (has_factor) {
        term->values[model->amount_at] = term->factor - 1;
    }
    return MUSTER_OK;
}

static muster_status read_term(delay_term *term, const char *spec,
                               muster_error *error)
{
    const char *params;
    uint64_t given = 0;
    char place[64];
    term->model = find_model(spec);
    if (term->model == NULL) {
        return unknown_model(spec, error);
    }
    (void)muster_spec_name(spec, &params);
    (void)snprintf(place, sizeof(place), "--delay %s", term->model->name);
    memcpy(term->values, term->model->defaults, sizeof(term->values));
    muster_status status = muster_spec_read(place, params, term->model->fields,
                                            term, &given, error);
    return status == MUSTER_OK ? check_term(term, given, error) : status;
}

static muster_status load_cluster(delay_term *term, muster_error *error)
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

/* What a term needs beside its values. */
static muster_status make_term(delay_term *term, muster_error *error)
{
    if (term->model->draw == draw_trace) {
        return muster_delay_trace_load(term->path, error, &term->trace);
    }
    if (term->model->draw == draw_cluster) {
        return load_cluster(term, error);
    }
    if (term->model->draw == draw_markov) {
        term->chains = muster_mem_array(term->workers, sizeof(chain));
        if (term->chains == NULL) {
            return muster_error_set(error, MUSTER_ERR_NO_MEMORY,
                                    "--delay: no memory for %u workers",
                                    term->workers);
        }
    }
    return MUSTER_OK;
}

/* Does a new term begin after this '+' or '*'? A path may have one. */
static bool is_seam(const char *sign, bool in_path)
{
    bool letter = (sign[1] >= 'a' && sign[1] <= 'z');
    return in_path ? find_model(sign + 1) != NULL : letter;
}

/* The length of the first term. */
static size_t term_length(const char *spec)
{
    bool in_path =
        muster_spec_is(spec, "trace") || muster_spec_is(spec, "cluster");
    const char *sign = strpbrk(spec, "+*");
    while (sign != NULL && !is_seam(sign, in_path)) {
        sign = strpbrk(sign + 1, "+*");
    }
    return sign != NULL ? (size_t)(sign - spec) : strlen(spec);
}

/* The newest term multiplies the one before it. */
static muster_status multiply(muster_delay *delay, muster_error *error)
{
    delay_term *last = &delay->terms[delay->count - 1];
    last->times = true;
    if (last->factor > 0 && last[-1].factor > 0) {
        return MUSTER_OK;
    }
    return muster_error_set(error, MUSTER_ERR_INVALID,
                            "--delay %s*%s: both need factor=.. such as 3; "
                            "times are added up with +",
                            last[-1].model->name, last->model->name);
}

static muster_status add_term(muster_delay *delay, const char *spec,
                              size_t length, uint64_t seed, muster_error *error)
{
    if (delay->count == TERMS_MAX) {
        return muster_error_set(error, MUSTER_ERR_INVALID,
                                "--delay: at most %u models add up", TERMS_MAX);
    }
    delay_term *added = &delay->terms[delay->count];
    added->workers = delay->workers;
    // The first one's draws are those that it has alone.
    added->seed = delay->count == 0
                      ? seed
                      : muster_rng_at(seed, TERM_STREAM, delay->count);
    char *text = muster_mem_string_n(spec, length);
    if (text == NULL) {
        return muster_error_set(error, MUSTER_ERR_NO_MEMORY,
                                "--delay: no memory");
    }
    delay->count++; // from here on free looks after it
    muster_status status = read_term(added, text, error);
    muster_mem_free(text);
    return status == MUSTER_OK ? make_term(added, error) : status;
}

static muster_status build(muster_delay *delay, const char *spec, uint64_t seed,
                           muster_error *error)
{
    bool times = false;
    for (;;) {
        size_t length = term_length(spec);
        muster_status status = add_term(delay, spec, length, seed, error);
        if (status == MUSTER_OK && times) {
            status = multiply(delay, error);
        }
        times = spec[length] == '*';
        if (status != MUSTER_OK || spec[length] == '\0') {
            return status;
        }
        spec += length + 1;
    }
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
    muster_status status = build(delay, spec, seed, error_out);
    if (status != MUSTER_OK) {
        muster_delay_free(delay);
        return status;
    }
    *delay_out = delay;
    return MUSTER_OK;
}

void muster_delay_free(muster_delay *delay)
{
    if (delay == NULL) {
        return;
    }
    for (uint32_t i = 0; i < delay->count; i++) {
        muster_delay_trace_fini(&delay->terms[i].trace);
        muster_mem_free(delay->terms[i].chains);
        muster_cluster_free(delay->terms[i].cluster);
    }
    muster_mem_free(delay);
}

/* What one unit of a term's draw is, in seconds. */
static double unit_of(const muster_delay *delay, const delay_term *term,
                      const muster_delay_work *work)
{
    if (term->factor > 0) {
        return (double)work->compute_ns * 1e-9;
    }
    switch ((per)term->per) {
    case PER_STEP:
        return work->follows ? 0 : 1;
    case PER_LOAD:
        return work->share * delay->workers;
    case PER_MESSAGE:
        return work->message;
    }
    return 1;
}

static muster_cluster_work cluster_work(const muster_delay *delay,
                                        const delay_term *term,
                                        const muster_delay_work *work)
{
    return (muster_cluster_work){.load = work->share * delay->workers,
                                 .model_bytes = work->bytes,
                                 .bytes = work->message * work->bytes,
                                 .follows = work->follows,
                                 .own_links = term->links == LINKS_OWN};
}

static int64_t to_ns(double seconds)
{
    return (int64_t)(fmin(seconds, DELAY_MAX_S) * 1e9 + 0.5);
}

int64_t muster_delay_of(muster_delay *delay, uint32_t worker, uint64_t step,
                        const muster_delay_work *work)
{
    double seconds = 0;
    for (uint32_t i = 0; i < delay->count; i++) {
        delay_term *term = &delay->terms[i];
        if (term->cluster != NULL) {
            const muster_cluster_work of = cluster_work(delay, term, work);
            seconds += muster_cluster_delay_s(term->cluster, term->seed, worker,
                                              step, &of);
            continue;
        }
        double drawn = term->model->draw(term, worker, step);
        for (; i + 1 < delay->count && delay->terms[i + 1].times; i++) {
            delay_term *next = &delay->terms[i + 1];
            double more = next->model->draw(next, worker, step);
            drawn = (1 + drawn) * (1 + more) - 1;
        }
        seconds += drawn * unit_of(delay, term, work);
    }
    return to_ns(seconds);
}

int64_t muster_delay_of_edge(const muster_delay *delay, uint32_t edge,
                             uint64_t step, const muster_delay_work *work)
{
    double seconds = 0;
    for (uint32_t i = 0; i < delay->count; i++) {
        const delay_term *term = &delay->terms[i];
        if (term->cluster != NULL) {
            const muster_cluster_work of = cluster_work(delay, term, work);
            seconds += muster_cluster_edge_delay_s(term->cluster, term->seed,
                                                   edge, step, &of);
        }
    }
    return to_ns(seconds);
}

char *muster_delay_under_edges(const char *spec)
{
    static const char own[] = ",links=own";
    muster_vec text = muster_vec_make(1);
    bool done = true;
    while (done && *spec != '\0') {
        size_t length = term_length(spec);
        done = muster_vec_append(&text, spec, length) &&
               (!muster_spec_is(spec, "cluster") ||
                muster_vec_append(&text, own, sizeof(own) - 1));
        spec += length;
        if (done && *spec == '+') {
            done = muster_vec_append(&text, spec++, 1);
        }
    }
    if (!done || !muster_vec_append(&text, "", 1)) {
        muster_vec_fini(&text);
        return NULL;
    }
    return text.data;
}

int64_t muster_delay_ns(muster_delay *delay, uint32_t worker, uint64_t step)
{
    muster_delay_work uncoded = {.share = 1.0 / delay->workers, .message = 1};
    return muster_delay_of(delay, worker, step, &uncoded);
}

bool muster_delay_multiplies(const muster_delay *delay)
{
    for (uint32_t i = 0; i < delay->count; i++) {
        if (delay->terms[i].factor > 0) {
            return true;
        }
    }
    return false;
}

bool muster_delay_is_slow(const muster_delay *delay, uint32_t worker)
{
    for (uint32_t i = 0; i < delay->count; i++) {
        const delay_term *term = &delay->terms[i];
        if (term->model->draw == draw_bernoulli &&
            is_slow_class(term, worker)) {
            return true;
        }
    }
    return false;
}
