/*
 * linear.c -- communication-efficient gradient codes from any linear code
 * (Kadhe, Koyluoglu, Ramchandran, ISIT 2020): block length = load, dimension =
 * reduction m, minimum distance = tolerance + 1.
 */
#include "base/error.h"
#include "code/families.h"
#include "code/group.h"

/* ---- spc: single parity check [m+1, m, 2] ------------------------------ */

/* Columns e_0..e_(m-1) and their sum; workers beyond that repeat columns. */
static muster_status spc_generate(void *context, uint32_t workers,
                                  double *generator_out, muster_error *error)
{
    uint32_t m = *(const uint32_t *)context;
    (void)error;
    for (uint32_t u = 0; u < m; u++) {
        for (uint32_t r = 0; r < workers; r++) {
            uint32_t column = r % (m + 1);
            generator_out[(size_t)u * workers + r] =
                column == m || column == u ? 1.0 : 0.0;
        }
    }
    return MUSTER_OK;
}

static muster_status spc_build(muster_code *code, const muster_code_spec *spec,
                               muster_error *error)
{
    muster_status status = muster_code_spec_accept(spec, "", error);
    if (status != MUSTER_OK) {
        return status;
    }
    uint32_t m = spec->comm > 0 ? spec->comm : 2;
    if (spec->stragglers > 1 || (spec->load > 0 && spec->load != m + 1)) {
        return muster_error_set(error, MUSTER_ERR_UNSUPPORTED,
                                "linear:spc has s = 1 and d = m + 1; for more "
                                "stragglers use linear:tuned");
    }
    if (m >= spec->workers) {
        return muster_error_set(error, MUSTER_ERR_UNSUPPORTED,
                                "linear:spc: m = %u needs at least %u workers, "
                                "there are %u",
                                m, m + 1, spec->workers);
    }
    muster_group_plan plan = {.length = m + 1,
                              .blocks = m,
                              .stragglers = 1,
                              .any_blocks_do = false,
                              .generate = spc_generate,
                              .context = &m};
    return muster_group_build(code, spec, &plan, error);
}

const muster_code_ops muster_code_linear_spc = {
    .name = "linear:spc",
    .build = spc_build,
    .weights = muster_group_weights,
    .free_state = muster_group_free,
    .progress_bytes = muster_group_progress_bytes,
    .progress_reset = muster_group_progress_reset,
    .progress_add = muster_group_progress_add,
    .needs = "s = 1, n >= m + 1; m = 2 unless given",
    .limits = "always",
};
