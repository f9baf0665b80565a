/*
 * delay.c -- a delay is a sum of terms, each a model with its values.
 *
 * A term with a factor multiplies the computing time.
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
#include "base/vec.h"
#include "cluster/delay_model.h"

#define TERMS_MAX   4u
#define TERM_STREAM (UINT64_C(1) << 43)

struct muster_delay {
    uint32_t workers;
    uint32_t count;
    muster_delay_term terms[TERMS_MAX];
};

/* Did the text name this key? `given` has a bit for each field. */
static bool is_given(const muster_delay_model *model, uint64_t given,
                     const char *key)
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
static muster_status check_term(muster_delay_term *term, uint64_t given,
                                muster_error *error)
{
    const muster_delay_model *model = term->model;
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
    if (strcmp(model->name, "geometric") == 0 &&
        term->per == MUSTER_PER_MESSAGE && term->way != MUSTER_WAY_UP) {
        return muster_error_set(error, MUSTER_ERR_INVALID,
                                "--delay geometric: per=message is about the "
                                "worker's answer: add way=up");
    }
    if (has_factor) {
        term->values[model->amount_at] = term->factor - 1;
    }
    return MUSTER_OK;
}

static muster_status read_term(muster_delay_term *term, const char *spec,
                               muster_error *error)
{
    const char *params;
    uint64_t given = 0;
    char place[64];
    term->model = muster_delay_model_find(spec);
    if (term->model == NULL) {
        return muster_delay_model_unknown(spec, error);
    }
    (void)muster_spec_name(spec, &params);
    (void)snprintf(place, sizeof(place), "--delay %s", term->model->name);
    memcpy(term->values, term->model->defaults, sizeof(term->values));
    muster_status status = muster_spec_read(place, params, term->model->fields,
                                            term, &given, error);
    return status == MUSTER_OK ? check_term(term, given, error) : status;
}

/* Does a new term begin after this '+' or '*'? A path may have one. */
static bool is_seam(const char *sign, bool in_path)
{
    bool letter = (sign[1] >= 'a' && sign[1] <= 'z');
    return in_path ? muster_delay_model_find(sign + 1) != NULL : letter;
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
    muster_delay_term *last = &delay->terms[delay->count - 1];
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
    muster_delay_term *added = &delay->terms[delay->count];
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
    return status == MUSTER_OK ? muster_delay_term_make(added, error) : status;
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
        muster_delay_term_fini(&delay->terms[i]);
    }
    muster_mem_free(delay);
}

/* What one unit of a term's draw is, in seconds. */
static double unit_of(const muster_delay *delay, const muster_delay_term *term,
                      const muster_delay_work *work)
{
    if (term->factor > 0) {
        return (double)work->compute_ns * 1e-9;
    }
    switch ((muster_delay_per)term->per) {
    case MUSTER_PER_STEP:
        return work->follows ? 0 : 1;
    case MUSTER_PER_LOAD:
        return work->share * delay->workers;
    case MUSTER_PER_MESSAGE:
        return work->message;
    }
    return 1;
}

static muster_cluster_work cluster_work(const muster_delay *delay,
                                        const muster_delay_term *term,
                                        const muster_delay_work *work)
{
    return (muster_cluster_work){.load = work->share * delay->workers,
                                 .model_bytes = work->bytes,
                                 .bytes = work->message * work->bytes,
                                 .follows = work->follows,
                                 .own_links = term->links == MUSTER_LINKS_OWN};
}

static int64_t to_ns(double seconds)
{
    return (int64_t)(fmin(seconds, MUSTER_DELAY_MAX_S) * 1e9 + 0.5);
}

int64_t muster_delay_of(muster_delay *delay, uint32_t worker, uint64_t step,
                        const muster_delay_work *work)
{
    double seconds = 0;
    for (uint32_t i = 0; i < delay->count; i++) {
        muster_delay_term *term = &delay->terms[i];
        if (term->cluster != NULL) {
            const muster_cluster_work of = cluster_work(delay, term, work);
            seconds += muster_cluster_delay_s(term->cluster, term->seed, worker,
                                              step, &of);
            continue;
        }
        double drawn = term->model->draw(term, worker, step);
        for (; i + 1 < delay->count && delay->terms[i + 1].times; i++) {
            muster_delay_term *next = &delay->terms[i + 1];
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
        const muster_delay_term *term = &delay->terms[i];
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
        if (muster_delay_term_is_slow(&delay->terms[i], worker)) {
            return true;
        }
    }
    return false;
}
