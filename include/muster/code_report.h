/*
 * muster/code_report.h -- look at a gradient code: what it promises, measured.
 *
 * A report builds the code and tries it on straggler sets of exactly s workers:
 * all of them when they are few, else bursts of neighbours, spread ones and
 * seeded random ones. Gradients are random normal numbers; they are encoded,
 * rounded to float32 (and kept in double beside), decoded and compared with the
 * plain sum. Times are medians of this machine.
 *
 *   Promise      A report's numbers but for its times depend on the options
 *                alone, as the code itself does.
 *   Ownership    Texts are the caller's, for muster_config_text_free().
 *   Threads      Any; a report uses the calling thread alone.
 *   Allocation   Every call allocates.
 *   Not here     Choice of a code: `muster code` prints what this measures.
 *
 * For users: docs/codes.md.
 */
#ifndef MUSTER_CODE_REPORT_H
#define MUSTER_CODE_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "muster/code.h"
#include "muster/export.h"
#include "muster/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Start from MUSTER_CODE_REPORT_INIT. */
typedef struct muster_code_report {
    uint32_t struct_size;          // sizeof(muster_code_report)
    bool exact;                    // false: approximate family
    uint32_t workers;              // n
    uint32_t parts;                // k
    uint32_t stragglers;           // s
    uint32_t comm;                 // m
    uint32_t parts_per_worker_max; // d
    char name[64];                 // resolved
    char warning[256];             // "" when there is none
    double load;                   // d / k, the share of the data on one worker
    double message_fraction; // floats of a message / floats of the gradient
    uint64_t sets_checked;
    double cond_worst; // INFINITY: a set without full rank; NAN: not measured
    double cond_median;
    double rel_err_f32_worst; // ||decoded - sum|| / ||sum||
    double rel_err_f64_worst;
    double rel_err_f32_predicted; // what the error model says of the worst
    double weights_us;            // weights of one set, median
    double decode_us;             // decoding 100,000 floats, median
    double cond_bound; // one draw of a Gaussian code has with probability .99
                       // no set with a larger condition; NAN: not Gaussian
    // hier; 0 for other codes:
    uint32_t edges;
    uint32_t edge_stragglers;   // s_e
    uint32_t worker_stragglers; // s_w, under each edge
    uint32_t flat_stragglers;   // s of a flat code of equal protection
    double load_bound;          // the smallest load possible
    double flat_load;           // of that flat code
} muster_code_report;

/* The other fields become zero, in C and in C++. */
#define MUSTER_CODE_REPORT_INIT                                                \
    {                                                                          \
        (uint32_t)sizeof(muster_code_report), false, 0, 0, 0, 0, 0, "", "", 0, \
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                     \
    }

/*
 * Build the code, try it on at most sets_max straggler sets (0 means 2000) and
 * fill in report_out. Fails as muster_code_create() does, with its texts, and
 * MUSTER_ERR_INVALID    report_out->struct_size is too small
 * MUSTER_ERR_NO_MEMORY  the gradients and messages of a trial do not fit
 */
MUSTER_API MUSTER_CHECKED muster_status muster_code_report_make(
    const muster_code_opts *opts, uint64_t sets_max, muster_error *error_out,
    muster_code_report *report_out);

/* As the JSON object of `muster code --json`, or as lines for a person. NULL
 * when out of memory, or when report->struct_size is too small. */
MUSTER_API char *muster_code_report_json(const muster_code_report *report);
MUSTER_API char *muster_code_report_text(const muster_code_report *report);

/* The coefficients: a line a term (worker, part, message block, gradient
 * block, coefficient), or with `json` an array of such arrays. Fails as
 * muster_code_create() does; MUSTER_ERR_NO_MEMORY for the text too. */
MUSTER_API MUSTER_CHECKED muster_status
muster_code_matrix_text(const muster_code_opts *opts, bool json,
                        muster_error *error_out, char **text_out);

/* All codes: name, what each needs, where its float32 error stays below 1e-4;
 * a table, or with `json` an array of objects. NULL when out of memory. */
MUSTER_API char *muster_code_list_text(bool json);

#ifdef __cplusplus
}
#endif
#endif // MUSTER_CODE_REPORT_H
