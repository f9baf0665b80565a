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
#include "code/families/families.h"
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

/* What a placement draws from, and with. */
typedef struct draw_memory {
    muster_rng rng;
    uint32_t n;         // workers, and as many parts
    uint32_t d;         // parts a worker, or workers a part
    uint8_t *taken;     // n zeros
    double *cumulative; // n + 1: the chance of at most so many parts
    uint32_t *loads;    // n
    uint32_t *parts;    // of worker 0, of worker 1, ..
} draw_memory;

static muster_status memory_init(draw_memory *m, const muster_code_spec *spec,
                                 uint32_t draw)
{
    size_t n = spec->workers;
    *m = (draw_memory){.rng =
                           muster_rng_make(spec->seed, STREAM_BERNOULLI + draw),
                       .n = spec->workers,
                       .d = spec->load,
                       .taken = muster_mem_array(n, sizeof(uint8_t)),
                       .cumulative = muster_mem_array(n + 1, sizeof(double)),
                       .loads = muster_mem_array(n, sizeof(uint32_t))};
    return m->taken != NULL && m->cumulative != NULL && m->loads != NULL
               ? MUSTER_OK
               : MUSTER_ERR_NO_MEMORY;
}

static void memory_fini(draw_memory *m)
{
    muster_mem_free(m->taken);
    muster_mem_free(m->cumulative);
    muster_mem_free(m->loads);
    muster_mem_free(m->parts);
}

/* Floyd's draw of `count` different numbers below n. */
static void draw_different(draw_memory *m, uint32_t count, uint32_t *out)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t last = m->n - count + i;
        uint32_t pick = (uint32_t)muster_rng_below(&m->rng, (uint64_t)last + 1);
        out[i] = m->taken[pick] ? last : pick;
        m->taken[out[i]] = 1;
    }
    for (uint32_t i = 0; i < count; i++) {
        m->taken[out[i]] = 0;
    }
}

/* The binomial distribution of n parts with chance d / n, from its mode d
 * outwards, so that only what is never drawn underflows. */
static void sum_chances(draw_memory *m)
{
    double n = m->n;
    double odds = m->d / (n - m->d); // infinite: all hold all
    m->cumulative[m->d] = 1.0;
    for (uint32_t c = m->d; c > 0; c--) {
        m->cumulative[c - 1] = m->cumulative[c] * c / (n - c + 1) / odds;
    }
    for (uint32_t c = m->d; c < m->n; c++) {
        m->cumulative[c + 1] = m->cumulative[c] * (n - c) / (c + 1) * odds;
    }
    for (uint32_t c = 0; c < m->n; c++) {
        m->cumulative[c + 1] += m->cumulative[c];
    }
    for (uint32_t c = 0; c <= m->n; c++) {
        m->cumulative[c] /= m->cumulative[m->n];
    }
}

static uint32_t draw_load(draw_memory *m)
{
    double chance = muster_rng_uniform(&m->rng);
    uint32_t low = 0;
    uint32_t high = m->n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (chance < m->cumulative[middle]) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* Each worker holds each part with chance d / n by itself. That is a binomial
 * number of parts, any as likely as another, for n d draws and not n^2; and a
 * worker that is cut down to d random ones of its parts might as well draw d
 * at once. */
static muster_status place_bernoulli(draw_memory *m, bool trim,
                                     muster_code_layout *layout)
{
    size_t total = 0;
    sum_chances(m);
    for (uint32_t w = 0; w < m->n; w++) {
        uint32_t load = draw_load(m);
        m->loads[w] = trim && load > 2 * m->d ? m->d : load;
        total += m->loads[w];
    }
    m->parts = muster_mem_array(total, sizeof(uint32_t));
    if (m->parts == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    size_t at = 0;
    for (uint32_t w = 0; w < m->n; w++) {
        draw_different(m, m->loads[w], m->parts + at);
        at += m->loads[w];
    }
    muster_status status = muster_code_layout_init(layout, m->n, total, 1);
    if (status == MUSTER_OK) {
        muster_code_layout_lists(layout, m->loads, m->parts, m->n);
    }
    return status;
}

/* Each part on d workers. */
static muster_status place_even(draw_memory *m, muster_code_layout *layout)
{
    size_t d = m->d;
    muster_status status = muster_code_layout_init(layout, m->n, m->n * d, 1);
    for (uint32_t part = 0; status == MUSTER_OK && part < m->n; part++) {
        layout->first[part + 1] = (part + 1) * d;
        draw_different(m, m->d, layout->holders + part * d);
    }
    return status;
}

/* Parts on workers at random, all with the same coefficient. */
static muster_status place(muster_code *code, const muster_code_spec *spec,
                           uint32_t draw, muster_error *error)
{
    placement kind = placement_of(code);
    double stay = 1.0 - (double)spec->stragglers / spec->workers;
    double coef = kind == PLACE_EVEN ? 1.0 / (spec->load * stay) : 1.0;
    muster_code_layout layout = {0};
    draw_memory memory;
    muster_status status = memory_init(&memory, spec, draw);
    if (status == MUSTER_OK) {
        status = kind == PLACE_EVEN
                     ? place_even(&memory, &layout)
                     : place_bernoulli(&memory, kind == PLACE_TRIMMED, &layout);
    }
    memory_fini(&memory);
    if (status != MUSTER_OK) {
        return status;
    }
    for (size_t e = 0; e < layout.first[layout.parts]; e++) {
        layout.cells[e] = coef;
    }
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
    bernoulli_state *state = muster_mem_array(1, sizeof(*state));
    code->state = state;
    if (state == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    muster_status status = read_decode(code, spec, error, &state->decode);
    if (status != MUSTER_OK) {
        return status;
    }
    state->one_step = (double)spec->workers / spec->load;
    code->info.parts = spec->workers;
    code->info.exact = false;
    return place(code, spec, draw, error);
}

static muster_status build(muster_code *code, const muster_code_spec *given,
                           muster_error *error)
{
    muster_code_spec spec = *given;
    uint32_t draws;
    muster_status status =
        muster_code_spec_accept(&spec, "decode,draws", error);
    if (status == MUSTER_OK) {
        status = muster_code_read_draws(&spec, error, &draws);
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
