/*
 * frc.c -- fractional repetition (Tandon et al., ICML 2017): groups of s + 1
 * workers that hold the same s + 1 parts and send their plain sum; the first
 * answer of each group is used.
 */
#include "base/error.h"
#include "code/families/families.h"
#include "code/group.h"

static muster_status build(muster_code *code, const muster_code_spec *given,
                           muster_error *error)
{
    muster_code_spec spec = *given;
    muster_status status = muster_code_spec_settle(&spec, "", error);
    if (status != MUSTER_OK) {
        return status;
    }
    uint32_t n = spec.workers;
    uint32_t size = spec.stragglers + 1;
    if (n % size != 0) {
        uint32_t below = size - 1;
        while (n % below != 0) {
            below--;
        }
        uint32_t above = size + 1;
        while (n % above != 0) {
            above++;
        }
        return muster_error_set(
            error, MUSTER_ERR_UNSUPPORTED,
            "frc: s + 1 = %u does not divide n = %u; use s = %u or s = %u, or "
            "linear:repetition for unequal groups",
            size, n, below - 1, above - 1);
    }
    muster_group_plan plan = {.length = size,
                              .blocks = 1,
                              .stragglers = spec.stragglers,
                              .any_blocks_do = true,
                              .generate = muster_group_ones,
                              .shortcut = muster_group_first,
                              .by_speed = true};
    return muster_group_build(code, &spec, &plan, error);
}

const muster_code_ops muster_code_frc = {
    .name = "frc",
    .build = build,
    .weights = muster_group_weights,
    .free_state = muster_group_free,
    .progress_bytes = muster_group_progress_bytes,
    .progress_reset = muster_group_progress_reset,
    .progress_add = muster_group_progress_add,
    .needs = "(s + 1) divides n; m = 1",
    .limits = "always",
};
