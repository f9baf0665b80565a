/*
 * erasurehead.c -- ErasureHead (Wang, Charles, Papailiopoulos, 2019): groups of
 * d workers with the same d parts; the coordinator stops when every group has
 * answered or n - s workers have, and groups without an answer are simply
 * missing from the sum, which is not scaled.
 */
#include "base/error.h"
#include "code/families/families.h"
#include "code/group.h"

static muster_status build(muster_code *code, const muster_code_spec *spec,
                           muster_error *error)
{
    muster_status status = muster_code_spec_accept(spec, "", error);
    if (status == MUSTER_OK) {
        status = muster_code_spec_whole(spec, error);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    uint32_t load = spec->load > 0 ? spec->load : 2;
    load = spec->load == 0 && load > spec->workers ? spec->workers : load;
    muster_group_plan plan = {.length = load,
                              .blocks = 1,
                              .stragglers = spec->stragglers,
                              .any_blocks_do = true,
                              .generate = muster_group_ones,
                              .shortcut = muster_group_first,
                              .by_speed = true};
    code->info.exact = false;
    return muster_group_build(code, spec, &plan, error);
}

const muster_code_ops muster_code_erasurehead = {
    .name = "erasurehead",
    .build = build,
    .weights = muster_group_weights,
    .free_state = muster_group_free,
    .progress_bytes = muster_group_progress_bytes,
    .progress_reset = muster_group_progress_reset,
    .progress_add = muster_group_progress_add,
    .needs = "d copies (2 unless given); m = 1; waits for n - s",
    .limits = "approximate",
};
