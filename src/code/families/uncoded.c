/*
 * uncoded.c -- every worker its own part, nobody may be missing.
 */
#include "base/error.h"
#include "code/families/families.h"
#include "code/group.h"

static muster_status build(muster_code *code, const muster_code_spec *spec,
                           muster_error *error)
{
    muster_status status = muster_code_spec_accept(spec, "", error);
    if (status != MUSTER_OK) {
        return status;
    }
    if (spec->stragglers > 0 || spec->comm > 1 || spec->load > 1) {
        return muster_error_set(error, MUSTER_ERR_UNSUPPORTED,
                                "uncoded has s = 0, m = 1, d = 1; to tolerate "
                                "stragglers use frc, cyclic-mds or "
                                "linear:tuned");
    }
    muster_group_plan plan = {.length = 1,
                              .blocks = 1,
                              .stragglers = 0,
                              .any_blocks_do = true,
                              .generate = muster_group_ones,
                              .shortcut = muster_group_first};
    return muster_group_build(code, spec, &plan, error);
}

const muster_code_ops muster_code_uncoded = {
    .name = "uncoded",
    .build = build,
    .weights = muster_group_weights,
    .free_state = muster_group_free,
    .progress_bytes = muster_group_progress_bytes,
    .progress_reset = muster_group_progress_reset,
    .progress_add = muster_group_progress_add,
    .needs = "s = 0",
    .limits = "always",
};
