/*
 * ignore.c -- no code at all: every worker its own part, what came is summed
 * and scaled up for what did not (the usual "drop the slowest" baseline).
 */
#include <string.h>

#include "base/error.h"
#include "code/families/families.h"
#include "code/layout.h"

/* ignore:decode=sum leaves the sum as it is. */
static bool scales(const muster_code *code)
{
    return code->state != NULL;
}

static muster_status build(muster_code *code, const muster_code_spec *spec,
                           muster_error *error)
{
    muster_status status = muster_code_spec_accept(spec, "decode", error);
    if (status != MUSTER_OK) {
        return status;
    }
    const char *decode = muster_code_spec_option_get(spec, "decode");
    if (decode != NULL && strcmp(decode, "sum") != 0 &&
        strcmp(decode, "mean") != 0) {
        return muster_error_set(error, MUSTER_ERR_INVALID,
                                "ignore: decode=%s; it is mean (scaled up for "
                                "what is missing) or sum",
                                decode);
    }
    if (spec->comm > 1 || spec->load > 1) {
        return muster_error_set(error, MUSTER_ERR_UNSUPPORTED,
                                "ignore has m = 1 and d = 1; bgc, sgc, graph "
                                "and erasurehead use a larger load");
    }
    code->info.parts = spec->workers;
    code->info.exact = false;
    // Any address that says "yes" will do: there is no state to keep.
    code->state = decode == NULL || strcmp(decode, "mean") == 0 ? code : NULL;
    muster_code_layout layout;
    status = muster_code_layout_init(&layout, spec->workers, spec->workers, 1);
    if (status != MUSTER_OK) {
        return status;
    }
    muster_code_layout_cyclic(&layout, spec->workers, 1);
    for (uint32_t i = 0; i < spec->workers; i++) {
        layout.cells[i] = 1.0;
    }
    status = muster_code_layout_fill(&layout, code, error);
    muster_code_layout_fini(&layout);
    return status;
}

static muster_status weights(const muster_code *code, muster_code_query *query)
{
    double weight =
        scales(code) ? (double)code->info.workers / (double)query->count : 1.0;
    for (uint32_t r = 0; r < query->count; r++) {
        query->terms[r] =
            (muster_code_decode_term){0, query->responders[r], 0, weight};
    }
    query->term_count = query->count;
    return muster_code_measure(code, query);
}

static void free_state(void *state)
{
    (void)state;
}

const muster_code_ops muster_code_ignore = {
    .name = "ignore",
    .build = build,
    .weights = weights,
    .free_state = free_state,
    .needs = "d = 1; decode=mean or sum; waits for n - s",
    .limits = "approximate",
};
