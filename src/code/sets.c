/*
 * sets.c -- straggler sets, all or chosen, and a survey of a code over them.
 */
#include "code/sets.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "code/family.h"

/* C(n, s), or UINT64_MAX when it is more than 2^62. */
static uint64_t choices(uint32_t n, uint32_t s)
{
    uint64_t value = 1;
    for (uint32_t i = 1; i <= s; i++) {
        if (value > (UINT64_C(1) << 62) / (n - s + i)) {
            return UINT64_MAX;
        }
        value = value * (n - s + i) / i;
    }
    return value;
}

muster_code_sets muster_code_sets_make(uint32_t workers, uint32_t stragglers,
                                       uint64_t limit, uint64_t seed)
{
    uint64_t all = choices(workers, stragglers);
    muster_code_sets sets = {.workers = workers,
                             .stragglers = stragglers,
                             .total = all <= limit ? all : limit,
                             .all = all <= limit,
                             .rng = muster_rng_make(seed, 0x5e75)};
    return sets;
}

/* Step to the next combination in lexicographic order. */
static void next_choice(const muster_code_sets *sets, uint32_t *missing)
{
    uint32_t s = sets->stragglers;
    uint32_t i = s;
    while (i > 0 && missing[i - 1] == sets->workers - s + i - 1) {
        i--;
    }
    missing[i - 1]++;
    for (; i < s; i++) {
        missing[i] = missing[i - 1] + 1;
    }
}

static int compare(const void *one, const void *two)
{
    uint32_t a = *(const uint32_t *)one;
    uint32_t b = *(const uint32_t *)two;
    return (a > b) - (a < b);
}

/* Workers start, start + stride, ..; a stride that wraps onto itself is cut to
 * neighbours. */
static void structured(const muster_code_sets *sets, uint32_t start,
                       uint32_t stride, uint32_t *missing)
{
    uint32_t n = sets->workers;
    uint32_t s = sets->stragglers;
    uint64_t reach = (uint64_t)stride * (s > 0 ? s - 1 : 0);
    uint32_t step = reach < n ? stride : 1;
    for (uint32_t i = 0; i < s; i++) {
        missing[i] = (uint32_t)((start + (uint64_t)i * step) % n);
    }
    qsort(missing, s, sizeof(uint32_t), compare);
}

/* Floyd's way of drawing s distinct numbers, kept sorted by insertion. */
static void draw(muster_code_sets *sets, uint32_t *missing)
{
    uint32_t count = 0;
    for (uint32_t j = sets->workers - sets->stragglers; j < sets->workers;
         j++) {
        uint32_t pick = (uint32_t)muster_rng_below(&sets->rng, j + 1);
        uint32_t place = 0;
        while (place < count && missing[place] < pick) {
            place++;
        }
        if (place < count && missing[place] == pick) {
            pick = j;
            place = count;
        }
        memmove(missing + place + 1, missing + place,
                (count - place) * sizeof(uint32_t));
        missing[place] = pick;
        count++;
    }
}

bool muster_code_sets_next(muster_code_sets *sets, uint32_t *missing)
{
    if (sets->at >= sets->total) {
        return false;
    }
    uint64_t at = sets->at++;
    if (sets->all) {
        if (at == 0) {
            structured(sets, 0, 1, missing);
        } else {
            next_choice(sets, missing);
        }
        return true;
    }
    if (at % 2 == 1 || at / 2 >= 3 * (uint64_t)sets->workers) {
        draw(sets, missing);
        return true;
    }
    // Even turns: two bursts for every other pattern, starts spread by the
    // golden ratio so that a cut sequence still covers the circle.
    static const uint32_t kinds[4] = {0, 1, 0, 2};
    uint64_t turn = at / 2;
    uint32_t spread =
        sets->stragglers > 0 ? sets->workers / sets->stragglers : 1;
    uint32_t strides[3] = {1, 2, spread > 0 ? spread : 1};
    uint64_t step = (uint64_t)((double)sets->workers * 0.6180339887) | 1u;
    uint32_t start = (uint32_t)(turn * step % sets->workers);
    structured(sets, start, strides[kinds[turn % 4]], missing);
    return true;
}

uint32_t muster_code_sets_responders(uint32_t workers, const uint32_t *missing,
                                     uint32_t stragglers, uint32_t *out)
{
    uint32_t at = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < workers; i++) {
        if (at < stragglers && missing[at] == i) {
            at++;
        } else {
            out[count++] = i;
        }
    }
    return count;
}

typedef struct survey_memory {
    uint32_t *missing;
    uint32_t *responders;
    muster_code_decode_term *terms;
} survey_memory;

static muster_status survey_sets(const muster_code *code,
                                 muster_code_sets *sets, double improvement_min,
                                 const survey_memory *memory,
                                 muster_code_survey *out)
{
    while (muster_code_sets_next(sets, memory->missing)) {
        muster_code_query query = {.responders = memory->responders,
                                   .terms = memory->terms,
                                   .improvement_min = improvement_min};
        query.count =
            muster_code_sets_responders(sets->workers, memory->missing,
                                        sets->stragglers, memory->responders);
        muster_status status = muster_code_solve(code, &query);
        if (status < 0) {
            return status;
        }
        out->sets_checked++;
        out->sets_inexact += status == MUSTER_INEXACT;
        // A NaN is the worst there is.
        const muster_code_fit *fit = &query.fit;
        double error = isfinite(fit->error_f32) ? fit->error_f32 : INFINITY;
        double residual = isfinite(fit->residual) ? fit->residual : INFINITY;
        out->error_worst = fmax(out->error_worst, error);
        out->residual_worst = fmax(out->residual_worst, residual);
    }
    return MUSTER_OK;
}

muster_status muster_code_survey_run(const muster_code *code, uint64_t limit,
                                     uint64_t seed, double improvement_min,
                                     muster_code_survey *out)
{
    muster_code_info info = *muster_code_numbers(code);
    muster_code_sets sets = muster_code_sets_make(info.workers, info.stragglers,
                                                  limit > 0 ? limit : 1, seed);
    survey_memory memory = {
        muster_mem_array((size_t)info.stragglers + 1, sizeof(uint32_t)),
        muster_mem_array(info.workers, sizeof(uint32_t)),
        muster_mem_array(muster_code_decode_terms_max(code),
                         sizeof(muster_code_decode_term))};
    muster_status status = MUSTER_ERR_NO_MEMORY;
    memset(out, 0, sizeof(*out));
    if (memory.missing != NULL && memory.responders != NULL &&
        memory.terms != NULL) {
        status = survey_sets(code, &sets, improvement_min, &memory, out);
    }
    muster_mem_free(memory.terms);
    muster_mem_free(memory.responders);
    muster_mem_free(memory.missing);
    return status;
}
