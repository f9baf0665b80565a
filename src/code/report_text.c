/*
 * report_text.c -- reports, coefficients and the list of codes as texts.
 */
#include <math.h>
#include <stddef.h>

#include "base/mem.h"
#include "base/sized.h"
#include "code/families/families.h"
#include "code/text.h"
#include "muster/code_report.h"

static char *report_json(const muster_code_report *r)
{
    muster_code_text text = muster_code_text_make();
    muster_code_text_add(&text,
                         "{\"name\": \"%s\", \"n\": %u, \"k\": %u, \"s\": %u, "
                         "\"m\": %u, \"d\": %u",
                         r->name, r->workers, r->parts, r->stragglers, r->comm,
                         r->parts_per_worker_max);
    muster_code_text_number(&text, "load", r->load);
    muster_code_text_number(&text, "message_fraction", r->message_fraction);
    muster_code_text_add(&text, ", \"exact\": %s, \"sets_checked\": %llu",
                         r->exact ? "true" : "false",
                         (unsigned long long)r->sets_checked);
    muster_code_text_number(&text, "cond_worst", r->cond_worst);
    muster_code_text_number(&text, "cond_median", r->cond_median);
    muster_code_text_number(&text, "cond_bound", r->cond_bound);
    muster_code_text_number(&text, "rel_err_f32_worst", r->rel_err_f32_worst);
    muster_code_text_number(&text, "rel_err_f64_worst", r->rel_err_f64_worst);
    muster_code_text_number(&text, "rel_err_f32_predicted",
                            r->rel_err_f32_predicted);
    muster_code_text_number(&text, "weights_us", r->weights_us);
    muster_code_text_number(&text, "decode_us", r->decode_us);
    if (r->edges > 0) {
        muster_code_text_add(&text, ", \"edges\": %u, \"s_e\": %u, \"s_w\": %u",
                             r->edges, r->edge_stragglers,
                             r->worker_stragglers);
        muster_code_text_number(&text, "load_bound", r->load_bound);
        muster_code_text_add(&text, ", \"flat_s\": %u", r->flat_stragglers);
        muster_code_text_number(&text, "flat_load", r->flat_load);
    }
    if (r->warning[0] != '\0') {
        muster_code_text_add(&text, ", \"warning\": \"%s\"", r->warning);
    } else {
        muster_code_text_add(&text, ", \"warning\": null");
    }
    muster_code_text_add(&text, "}");
    return muster_code_text_finish(&text);
}

static void add_condition(muster_code_text *text, const muster_code_report *r)
{
    if (isnan(r->cond_worst)) {
        muster_code_text_add(text,
                             "  condition    not measured: weights are found "
                             "by iteration\n");
        return;
    }
    muster_code_text_add(text, "  condition    %.3g worst, %.3g median%s\n",
                         r->cond_worst, r->cond_median,
                         isinf(r->cond_worst)
                             ? " (inf: messages that depend on each other)"
                             : "");
    if (r->cond_bound > 0.0) {
        muster_code_text_add(text,
                             "               one draw: at most %.3g with "
                             "probability 0.99\n",
                             r->cond_bound);
    }
}

static void add_layers(muster_code_text *text, const muster_code_report *r)
{
    muster_code_text_add(text,
                         "  edges        %u; any %u of them lost, and any %u "
                         "workers under each other\n"
                         "  bound        a load of at least %.4g of the data\n"
                         "  flat code    needs s = %u for the same protection, "
                         "a load of %.4g\n",
                         r->edges, r->edge_stragglers, r->worker_stragglers,
                         r->load_bound, r->flat_stragglers, r->flat_load);
}

static char *report_text(const muster_code_report *r)
{
    muster_code_text text = muster_code_text_make();
    muster_code_text_add(&text, "%s: %u workers, %u parts, %s\n", r->name,
                         r->workers, r->parts,
                         r->exact ? "exact" : "approximate");
    if (r->exact) {
        muster_code_text_add(&text, "  tolerates    any %u stragglers\n",
                             r->stragglers);
    } else {
        muster_code_text_add(&text, "  settles for  %u answers\n",
                             r->workers - r->stragglers);
    }
    muster_code_text_add(&text,
                         "  load         %u parts a worker at most, %.4g of "
                         "the data\n"
                         "  message      %.4g of the gradient\n",
                         r->parts_per_worker_max, r->load, r->message_fraction);
    if (r->edges > 0) {
        add_layers(&text, r);
    }
    muster_code_text_add(&text, "  tried        %llu straggler sets of %u\n",
                         (unsigned long long)r->sets_checked, r->stragglers);
    add_condition(&text, r);
    muster_code_text_add(&text,
                         "  error        %.2g in float32, %.2g in double "
                         "(worst)\n"
                         "  time         %.3g us for weights, %.3g us to "
                         "decode 100000 floats\n",
                         r->rel_err_f32_worst, r->rel_err_f64_worst,
                         r->weights_us, r->decode_us);
    if (r->warning[0] != '\0') {
        muster_code_text_add(&text, "  warning      %s\n", r->warning);
    }
    return muster_code_text_finish(&text);
}

/* The report of a caller of any version, as this library knows it. */
static bool read_report(const muster_code_report *report,
                        muster_code_report *known_out)
{
    *known_out = (muster_code_report)MUSTER_CODE_REPORT_INIT;
    known_out->cond_bound = NAN; // of callers that do not know it
    return muster_sized_read(
        report, offsetof(muster_code_report, decode_us) + sizeof(double),
        known_out);
}

char *muster_code_report_json(const muster_code_report *report)
{
    muster_code_report known;
    return read_report(report, &known) ? report_json(&known) : NULL;
}

char *muster_code_report_text(const muster_code_report *report)
{
    muster_code_report known;
    return read_report(report, &known) ? report_text(&known) : NULL;
}

muster_status muster_code_matrix_text(const muster_code_opts *opts, bool json,
                                      muster_error *error_out, char **text_out)
{
    muster_code *code = NULL;
    muster_status status = muster_code_create(opts, error_out, &code);
    if (status != MUSTER_OK) {
        return status;
    }
    muster_code_text text = muster_code_text_make();
    const muster_code_encode_term *all = code->terms.data;
    bool first = true;
    muster_code_text_add(&text, "%s",
                         json ? "["
                              : "worker part message_block gradient_block "
                                "coefficient\n");
    uint32_t stages = code->info.stages;
    for (uint32_t answer = 0; answer < muster_code_answers(code); answer++) {
        muster_code_span span = code->term_spans[answer];
        for (uint32_t i = 0; i < span.count; i++) {
            const muster_code_encode_term *t = &all[span.first + i];
            muster_code_text_add(
                &text,
                json ? "%s[%u, %u, %u, %u, %.17g]" : "%s%u %u %u %u %.17g\n",
                json && !first ? ", " : "", answer / stages, t->part,
                t->message_block, t->gradient_block, t->coef);
            first = false;
        }
    }
    muster_code_text_add(&text, "%s", json ? "]" : "");
    muster_code_free(code);
    *text_out = muster_code_text_finish(&text);
    return *text_out != NULL ? MUSTER_OK : MUSTER_ERR_NO_MEMORY;
}

char *muster_code_list_text(bool json)
{
    muster_code_text text = muster_code_text_make();
    if (json) {
        muster_code_text_add(&text, "[");
    } else {
        muster_code_text_add(&text, "%-19s %-58s %s\n", "code", "needs",
                             "float32 error below 1e-4 up to (n,s)");
    }
    for (size_t i = 0; muster_code_families[i] != NULL; i++) {
        const muster_code_ops *ops = muster_code_families[i];
        muster_code_text_add(
            &text,
            json ? "%s{\"name\": \"%s\", \"needs\": \"%s\", \"limits\": "
                   "\"%s\"}"
                 : "%s%-19s %-58s %s\n",
            json && i > 0 ? ", " : "", ops->name, ops->needs, ops->limits);
    }
    if (json) {
        muster_code_text_add(&text, "]");
    }
    return muster_code_text_finish(&text);
}
