/*
 * bernoulli.c -- approximate codes that place parts at random: bgc, rbgc, sgc.
 *
 * bgc (Charles, Papailiopoulos, Ellenberg, 2017): each worker holds each part
 * with probability d / k; rbgc cuts a worker with more than 2 d parts down to d
 * of them. Workers send plain sums; decoding is least squares, or the one-step
 * weights k / (r d) of the paper (decode=one-step).
 *
 * sgc (Bitar, Wootters, El Rouayheb, 2020): each part on d workers drawn
 * uniformly, sent with coefficient 1 / (d (1 - p)), p = s / n the share of
 * stragglers; the plain sum of what arrives is unbiased. decode=optimal takes
 * least squares instead.
 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "code/choose.h"
#include "code/families.h"
#include "code/layout.h"
#include "code/lsq.h"

#define STREAM_BERNOULLI 0xbe40

typedef enum decode_kind {
    DECODE_OPTIMAL,
    DECODE_ONE_STEP,
    DECODE_SUM,
} decode_kind;

typedef struct bernoulli_state {
    decode_kind decode;
    double one_step; // k / d, to be divided by the number of responders
} bernoulli_state;

typedef enum placement {
    PLACE_BERNOULLI,
    PLACE_TRIMMED,
    PLACE_EVEN,
} placement;

static placement placement_of(const muster_code *code)
{
    if (code->ops == &muster_code_sgc) {
        return PLACE_EVEN;
    }
    return code->ops == &muster_code_rbgc ? PLACE_TRIMMED : PLACE_BERNOULLI;
}

/* Take away random ones of a worker's `count` parts until d are left. */
static void trim_row(muster_rng *rng, uint8_t *row, uint32_t count, uint32_t d)
{
    for (; count > d; count--) {
        uint64_t pick = muster_rng_below(rng, count);
        uint32_t j = 0;
        while (!row[j] || pick-- > 0) {
            j++;
        }
        row[j] = 0;
    }
}

/* held[worker * k + part] */
static void place_bernoulli(muster_rng *rng, uint32_t n, uint32_t d, bool trim,
                            uint8_t *held)
{
    double chance = (double)d / (double)n;
    for (uint32_t w = 0; w < n; w++) {
        uint8_t *row = held + (size_t)w * n;
        uint32_t count = 0;
        for (uint32_t j = 0; j < n; j++) {
            row[j] = muster_rng_uniform(rng) < chance;
            count += row[j];
        }
        if (trim && count > 2 * d) {
            trim_row(rng, row, count, d);
        }
    }
}

/* Floyd's draw of d workers for each part. */
static void place_even(muster_rng *rng, uint32_t n, uint32_t d, uint8_t *held)
{
    for (uint32_t part = 0; part < n; part++) {
        for (uint32_t j = n - d; j < n; j++) {
            uint32_t pick = (uint32_t)muster_rng_below(rng, (uint64_t)j + 1);
            if (held[(size_t)pick * n + part]) {
                pick = j;
            }
            held[(size_t)pick * n + part] = 1;
        }
    }
}

static muster_status fill(muster_code *code, const uint8_t *held, double coef,
                          muster_error *error)
{
    uint32_t n = code->info.workers;
    size_t count = 0;
    for (size_t i = 0; i < (size_t)n * n; i++) {
        count += held[i];
    }
    muster_code_layout layout;
    muster_status status = muster_code_layout_init(&layout, n, count, 1);
    if (status != MUSTER_OK) {
        return status;
    }
    size_t at = 0;
    for (uint32_t part = 0; part < n; part++) {
        layout.first[part] = at;
        for (uint32_t w = 0; w < n; w++) {
            if (held[(size_t)w * n + part]) {
                layout.holders[at] = w;
                layout.cells[at++] = coef;
            }
        }
    }
    layout.first[n] = at;
    status = muster_code_layout_fill(&layout, code, error);
    muster_code_layout_fini(&layout);
    return status;
}

static muster_status read_decode(const muster_code *code,
                                 const muster_code_spec *spec,
                                 muster_error *error, decode_kind *out)
{
    bool even = placement_of(code) == PLACE_EVEN;
    const char *text = muster_code_spec_option_get(spec, "decode");
    const char *other = even ? "sum" : "one-step";
    *out = even ? DECODE_SUM : DECODE_OPTIMAL;
    if (text == NULL) {
        return MUSTER_OK;
    }
    if (strcmp(text, "optimal") == 0) {
        *out = DECODE_OPTIMAL;
        return MUSTER_OK;
    }
    if (strcmp(text, other) == 0) {
        *out = even ? DECODE_SUM : DECODE_ONE_STEP;
        return MUSTER_OK;
    }
    return muster_error_set(error, MUSTER_ERR_INVALID,
                            "%s: decode=%s; it is optimal or %s", code->name,
                            text, other);
}

static muster_status build_draw(muster_code *code, const muster_code_spec *spec,
                                uint32_t draw, muster_error *error)
{
    uint32_t n = spec->workers;
    bernoulli_state *state = muster_mem_array(1, sizeof(*state));
    uint8_t *held = muster_mem_array((size_t)n * n, sizeof(uint8_t));
    code->state = state;
    muster_status status = MUSTER_ERR_NO_MEMORY;
    if (state == NULL || held == NULL) {
        goto out;
    }
    status = read_decode(code, spec, error, &state->decode);
    if (status != MUSTER_OK) {
        goto out;
    }
    muster_rng rng = muster_rng_make(spec->seed, STREAM_BERNOULLI + draw);
    placement place = placement_of(code);
    double coef = 1.0;
    if (place == PLACE_EVEN) {
        double stay = 1.0 - (double)spec->stragglers / (double)n;
        coef = 1.0 / (spec->load * stay);
        place_even(&rng, n, spec->load, held);
    } else {
        place_bernoulli(&rng, n, spec->load, place == PLACE_TRIMMED, held);
    }
    state->one_step = (double)n / spec->load;
    code->info.parts = n;
    code->info.exact = false;
    status = fill(code, held, coef, error);
out:
    muster_mem_free(held);
    return status;
}

static muster_status build(muster_code *code, const muster_code_spec *given,
                           muster_error *error)
{
    muster_code_spec spec = *given;
    uint32_t draws = MUSTER_CODE_DRAWS;
    muster_status status =
        muster_code_spec_accept(&spec, "decode,draws", error);
    if (status == MUSTER_OK) {
        status = muster_code_spec_option_number(&spec, "draws", 1, 10000, error,
                                                &draws);
    }
    if (status == MUSTER_OK) {
        status = muster_code_spec_whole(&spec, error);
    }
    if (status == MUSTER_OK) {
        status = muster_code_dense_only(&spec, error);
    }
    if (status == MUSTER_OK && spec.load > spec.workers) {
        status = muster_error_set(error, MUSTER_ERR_UNSUPPORTED,
                                  "%s: load d = %u of %u parts; at most %u",
                                  spec.family, spec.load, spec.workers,
                                  spec.workers);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    if (spec.load == 0) {
        spec.load = spec.stragglers > 0 ? spec.stragglers + 1 : 2;
        spec.load = spec.load > spec.workers ? spec.workers : spec.load;
    }
    return muster_code_keep_best(code, &spec, draws, build_draw, error);
}

static muster_status weights(const muster_code *code, muster_code_query *query)
{
    const bernoulli_state *state = code->state;
    if (state->decode == DECODE_OPTIMAL) {
        return muster_code_least_squares(code, query);
    }
    double weight = state->decode == DECODE_SUM
                        ? 1.0
                        : state->one_step / (double)query->count;
    query->term_count = 0;
    for (uint32_t r = 0; r < query->count; r++) {
        if (code->term_spans[query->responders[r]].count > 0) {
            query->terms[query->term_count++] =
                (muster_code_decode_term){0, query->responders[r], 0, weight};
        }
    }
    return muster_code_measure(code, query);
}

const muster_code_ops muster_code_bgc = {
    .name = "bgc",
    .build = build,
    .weights = weights,
    .free_state = muster_mem_free,
    .needs = "d (s + 1 unless given); decode=optimal or one-step",
    .limits = "approximate",
};

const muster_code_ops muster_code_rbgc = {
    .name = "rbgc",
    .build = build,
    .weights = weights,
    .free_state = muster_mem_free,
    .needs = "d (s + 1 unless given); decode=optimal or one-step",
    .limits = "approximate",
};

const muster_code_ops muster_code_sgc = {
    .name = "sgc",
    .build = build,
    .weights = weights,
    .free_state = muster_mem_free,
    .needs = "d (s + 1 unless given); decode=sum or optimal",
    .limits = "approximate, unbiased when s of n straggle at random",
};
