/*
 * show_code.c -- `muster code NAME`: look at a gradient code, or list them all.
 */
#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "muster/code_report.h"
#include "muster/run.h"
#include "run/build.h"

static muster_status show(const muster_config *config,
                          const muster_code_opts *opts, muster_error *error_out,
                          char **text_out)
{
    bool json = muster_config_bool(config, MUSTER_OPT_JSON);
    if (muster_config_bool(config, MUSTER_OPT_MATRIX)) {
        return muster_code_matrix_text(opts, json, error_out, text_out);
    }
    muster_code_report report = MUSTER_CODE_REPORT_INIT;
    muster_status status = muster_code_report_make(opts, 0, error_out, &report);
    if (status == MUSTER_OK) {
        *text_out = json ? muster_code_report_json(&report)
                         : muster_code_report_text(&report);
    }
    return status;
}

muster_status muster_show_code(const muster_config *config,
                               muster_error *error_out, char **text_out)
{
    const char *name = muster_config_string(config, MUSTER_OPT_CODE);
    muster_error unheard;
    error_out = error_out != NULL ? error_out : &unheard;
    *text_out = NULL;
    muster_status status = MUSTER_OK;
    if (strcmp(name, "list") == 0) {
        *text_out =
            muster_code_list_text(muster_config_bool(config, MUSTER_OPT_JSON));
    } else {
        muster_build_code build;
        status = muster_build_code_opts(config, name, error_out, &build);
        if (status == MUSTER_OK) {
            status = show(config, &build.opts, error_out, text_out);
            muster_build_code_fini(&build);
        }
    }
    if (status == MUSTER_OK && *text_out == NULL) {
        status = muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                  "no memory for the text");
    }
    return status;
}
