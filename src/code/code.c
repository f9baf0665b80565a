/*
 * code.c -- the public face of codes: create, describe, progress, weights.
 *
 * Families fill in a muster_code (family.h); what is the same for all is here:
 * finding the family, checking arguments, counting answers.
 */
#include "muster/code.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/sized.h"
#include "base/suggest.h"
#include "code/choose.h"
#include "code/families/families.h"

/* The fields of the first release: no caller has fewer. */
#define OPTS_MIN (offsetof(muster_code_opts, seed) + sizeof(uint64_t))
#define INFO_MIN (offsetof(muster_code_info, warning) + sizeof(char *))
#define FIT_MIN  (offsetof(muster_code_fit, error_f32) + sizeof(double))

struct muster_code_progress {
    const muster_code *code;
    uint8_t *answered; // per answer
    uint32_t useful;   // workers that hold anything
    uint32_t count;    // useful answers
    uint32_t needed;   // useful answers that always suffice
    bool ready;
    void *memory; // the family's
};

static const muster_code_ops *find_family(const char *name)
{
    for (size_t i = 0; muster_code_families[i] != NULL; i++) {
        if (strcmp(muster_code_families[i]->name, name) == 0) {
            return muster_code_families[i];
        }
    }
    return NULL;
}

static muster_status unknown_family(muster_error *error, const char *name)
{
    muster_suggestion meant = muster_suggestion_make(name, strlen(name));
    for (size_t i = 0; muster_code_families[i] != NULL; i++) {
        muster_suggestion_add(&meant, muster_code_families[i]->name);
    }
    return muster_suggestion_fail(&meant, "code ", error);
}

void muster_code_start(muster_code *code, const muster_code_ops *ops,
                       const muster_code_spec *spec)
{
    code->ops = ops;
    snprintf(code->name, sizeof(code->name), "%s", ops->name);
    code->parts = muster_vec_make(sizeof(uint32_t));
    code->terms = muster_vec_make(sizeof(muster_code_encode_term));
    code->info = (muster_code_info)MUSTER_CODE_INFO_INIT;
    code->info.workers = spec->workers;
    code->info.stragglers = spec->stragglers;
    code->info.comm = 1;
    code->info.gradient_blocks = 1;
    code->info.message_blocks = 1;
    code->info.exact = true;
    code->info.stages = 1;
    code->info.own_stages = 1;
}

muster_status muster_code_create(const muster_code_opts *opts,
                                 muster_error *error_out,
                                 muster_code **code_out)
{
    muster_code_spec *spec = muster_mem_array(1, sizeof(*spec));
    muster_code *code = muster_mem_array(1, sizeof(*code));
    muster_status status = MUSTER_ERR_NO_MEMORY;
    if (spec == NULL || code == NULL) {
        goto out;
    }
    // A caller of another version has fewer or more options than we know.
    muster_code_opts known = MUSTER_CODE_OPTS_INIT;
    bool is_known = opts != NULL && muster_sized_read(opts, OPTS_MIN, &known);
    status = muster_code_spec_parse(is_known ? &known : NULL, error_out, spec);
    if (status != MUSTER_OK) {
        goto out;
    }
    const muster_code_ops *ops = find_family(spec->family);
    if (ops == NULL) {
        status = unknown_family(error_out, spec->family);
        goto out;
    }
    muster_code_start(code, ops, spec);
    status = ops->build(code, spec, error_out);
    code->info.name = code->name;
    code->info.warning = code->warning[0] != '\0' ? code->warning : NULL;
out:
    muster_mem_free(spec);
    if (status == MUSTER_OK) {
        *code_out = code;
        return status;
    }
    if (status == MUSTER_ERR_NO_MEMORY) {
        (void)muster_error_set(error_out, status, "no memory for the code");
    }
    muster_code_free(code);
    return status;
}

void muster_code_free(muster_code *code)
{
    if (code == NULL) {
        return;
    }
    if (code->ops != NULL) { // else it was never started
        code->ops->free_state(code->state);
        muster_vec_fini(&code->parts);
        muster_vec_fini(&code->terms);
    }
    muster_mem_free(code->part_spans);
    muster_mem_free(code->term_spans);
    muster_mem_free(code->held_spans);
    muster_mem_free(code->row_squares);
    muster_mem_free(code);
}

muster_status muster_code_describe(const muster_code *code,
                                   muster_code_info *info_out)
{
    if (info_out == NULL || !muster_sized_is_legal(info_out, INFO_MIN)) {
        return MUSTER_ERR_INVALID;
    }
    muster_sized_fill(info_out, &code->info, sizeof(code->info));
    return MUSTER_OK;
}

const muster_code_info *muster_code_numbers(const muster_code *code)
{
    return &code->info;
}

muster_code_start_rule muster_code_starts(const muster_code *code)
{
    return code->start;
}

muster_code_order_rule muster_code_order(const muster_code *code)
{
    return code->order;
}

uint32_t muster_code_answers(const muster_code *code)
{
    return code->info.workers * code->info.stages;
}

bool muster_code_fit_is_legal(const muster_code_fit *fit)
{
    return fit != NULL && muster_sized_is_legal(fit, FIT_MIN);
}

muster_status muster_code_parts(const muster_code *code, uint32_t worker,
                                const uint32_t **parts_out, uint32_t *count_out)
{
    if (worker >= code->info.workers) {
        return MUSTER_ERR_INVALID;
    }
    const uint32_t *parts = code->parts.data;
    const muster_code_span *spans =
        code->info.stages > 1 ? code->held_spans : code->part_spans;
    *parts_out = parts + spans[worker].first;
    *count_out = spans[worker].count;
    return MUSTER_OK;
}

muster_status muster_code_answer_parts(const muster_code *code, uint32_t answer,
                                       const uint32_t **parts_out,
                                       uint32_t *count_out)
{
    if (answer >= muster_code_answers(code)) {
        return MUSTER_ERR_INVALID;
    }
    const uint32_t *parts = code->parts.data;
    *parts_out = parts + code->part_spans[answer].first;
    *count_out = code->part_spans[answer].count;
    return MUSTER_OK;
}

muster_status
muster_code_encode_terms(const muster_code *code, uint32_t answer,
                         const muster_code_encode_term **terms_out,
                         uint32_t *count_out)
{
    if (answer >= muster_code_answers(code)) {
        return MUSTER_ERR_INVALID;
    }
    const muster_code_encode_term *terms = code->terms.data;
    *terms_out = terms + code->term_spans[answer].first;
    *count_out = code->term_spans[answer].count;
    return MUSTER_OK;
}

muster_status muster_code_progress_create(const muster_code *code,
                                          muster_code_progress **progress_out)
{
    const muster_code_ops *ops = code->ops;
    uint32_t n = muster_code_answers(code);
    muster_code_progress *progress = muster_mem_array(1, sizeof(*progress));
    if (progress == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    progress->code = code;
    progress->answered = muster_mem_array(n, sizeof(uint8_t));
    progress->memory = muster_mem_array(
        ops->progress_bytes != NULL ? ops->progress_bytes(code) : 1, 1);
    if (progress->answered == NULL || progress->memory == NULL) {
        muster_code_progress_free(progress);
        return MUSTER_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < n; i++) {
        progress->useful += code->part_spans[i].count > 0;
    }
    uint32_t spare = code->info.exact ? code->info.stragglers : 0;
    progress->needed = progress->useful > spare ? progress->useful - spare : 1;
    muster_code_progress_reset(progress);
    *progress_out = progress;
    return MUSTER_OK;
}

void muster_code_progress_free(muster_code_progress *progress)
{
    if (progress == NULL) {
        return;
    }
    muster_mem_free(progress->answered);
    muster_mem_free(progress->memory);
    muster_mem_free(progress);
}

void muster_code_progress_reset(muster_code_progress *progress)
{
    const muster_code *code = progress->code;
    memset(progress->answered, 0, muster_code_answers(code));
    progress->count = 0;
    progress->ready = false;
    if (code->ops->progress_reset != NULL) {
        code->ops->progress_reset(code, progress->memory);
    }
}

bool muster_code_progress_add(muster_code_progress *progress, uint32_t answer)
{
    const muster_code *code = progress->code;
    if (answer >= muster_code_answers(code) ||
        progress->answered[answer] != 0) {
        return progress->ready;
    }
    progress->answered[answer] = 1;
    // Most codes give everybody parts: no need to look.
    progress->count += progress->useful == muster_code_answers(code) ||
                       code->part_spans[answer].count > 0;
    if (code->ops->progress_add != NULL) {
        progress->ready |=
            code->ops->progress_add(code, progress->memory, answer);
    } else {
        progress->ready |= progress->count >= progress->needed;
    }
    return progress->ready;
}

bool muster_code_progress_ready(const muster_code_progress *progress)
{
    return progress->ready;
}

size_t muster_code_decode_terms_max(const muster_code *code)
{
    return (size_t)muster_code_answers(code) * code->info.message_blocks *
           code->info.gradient_blocks;
}

/* The square of the share that a step may lack to be made longer. With m > 2
 * most steps that are cut off lack more than half. */
#define LACKING_MAX       0.5
#define LACKING_SHORT_MAX 0.87
#define SHORT_BLOCKS      3u

/* The least-squares best is a projection: with a missing share r of the
 * gradient, the parts count 1 - r^2 times on average, and a step with it is as
 * much too short. Let them count once on average, or as nearly as leaves it no
 * further off than that: what is left of a gradient that is mostly
 * missing is mostly noise. */
static muster_status make_full_length(const muster_code *code,
                                      muster_code_query *query)
{
    double share = muster_code_mean_share(code, query);
    double lacking = query->fit.residual * query->fit.residual;
    bool is_short = code->info.comm >= SHORT_BLOCKS;
    // Let the parts count c times: ||c||^2 / k is this, and ||l c - 1||^2 / k
    // is square l^2 - 2 share l + 1.
    double square = lacking - 1.0 + 2.0 * share;
    double allowed = fmax(lacking, is_short ? LACKING_SHORT_MAX : LACKING_MAX);
    double root = fmax(share * share - square * (1.0 - allowed), 0.0);
    double longer = fmin(1.0 / share, (share + sqrt(root)) / square);
    if (!(share > 0.0 && longer > 1.0)) {
        return MUSTER_OK;
    }
    for (size_t i = 0; i < query->term_count; i++) {
        query->terms[i].weight *= longer;
    }
    return muster_code_measure(code, query);
}

muster_status muster_code_solve(const muster_code *code,
                                muster_code_query *query)
{
    const uint32_t *responders = query->responders;
    uint32_t answers = muster_code_answers(code); // a call: once, not for each
    for (uint32_t i = 0; i < query->count; i++) {
        if (responders[i] >= answers ||
            (i > 0 && responders[i] <= responders[i - 1])) {
            return MUSTER_ERR_INVALID;
        }
    }
    query->fit = (muster_code_fit)MUSTER_CODE_FIT_INIT;
    query->fit.condition = 1.0;
    muster_status status = code->ops->weights(code, query);
    if (status != MUSTER_OK) {
        return status;
    }
    // Written so that a NaN is not exact either.
    if (query->fit.residual <= MUSTER_CODE_EXACT) {
        return MUSTER_OK;
    }
    if (code->info.exact) {
        status = make_full_length(code, query);
    }
    return status == MUSTER_OK ? MUSTER_INEXACT : status;
}

muster_status muster_code_weights(const muster_code *code,
                                  const uint32_t *responders, uint32_t count,
                                  muster_code_decode_term *terms_out,
                                  size_t *term_count_out,
                                  muster_code_fit *fit_out)
{
    if (!muster_code_fit_is_legal(fit_out)) {
        return MUSTER_ERR_INVALID;
    }
    muster_code_query query = {
        .responders = responders, .count = count, .terms = terms_out};
    muster_status status = muster_code_solve(code, &query);
    if (status >= 0) {
        *term_count_out = query.term_count;
        muster_sized_fill(fit_out, &query.fit, sizeof(query.fit));
    }
    return status;
}
