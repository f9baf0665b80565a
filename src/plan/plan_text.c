/*
 * plan_text.c -- plans as JSON and as lines for a person.
 */
#include "code/text.h"
#include "plan/plan.h"

/* ---- JSON ---------------------------------------------------------------- */

static void add_numbers(muster_code_text *text, const muster_plan_choice *c)
{
    muster_code_text_add(text,
                         "\"code\": \"%s\", \"spec\": \"%s\", \"s\": %u, "
                         "\"m\": %u, \"d\": %u, \"parts\": %u, \"s_e\": %u, "
                         "\"s_w\": %u, \"m_e\": %u, \"m_w\": %u, "
                         "\"by_speed\": %s, \"workers\": %u, \"edges\": %u",
                         c->code, c->spec, c->s, c->m, c->d, c->parts, c->s_e,
                         c->s_w, c->m_e, c->m_w, c->by_speed ? "true" : "false",
                         c->workers, c->edges);
}

static void add_times(muster_code_text *text, const muster_plan_choice *c)
{
    muster_code_text_number(text, "expected_ms", c->expected_ms);
    muster_code_text_number(text, "expected_error_ms", c->error_ms);
    muster_code_text_number(text, "surrogate_ms", c->surrogate_ms);
}

/* The workers that are left out, `opening` before the first. */
static void add_left_out(muster_code_text *text, const muster_plan *plan,
                         const char *opening, const char *comma)
{
    muster_code_text_add(text, "%s", opening);
    const char *before = "";
    for (uint32_t i = 0; i < plan->worker_count; i++) {
        if (!plan->workers[i].used) {
            muster_code_text_add(text, "%s%u", before, i);
            before = comma;
        }
    }
}

char *muster_plan_json(const muster_plan *plan, bool explain)
{
    muster_code_text text = muster_code_text_make();
    const muster_plan_choice *chosen = &plan->chosen;
    muster_code_text_add(&text, "{\"chosen\": {");
    add_numbers(&text, chosen);
    muster_code_text_add(&text, "}");
    add_times(&text, chosen);
    muster_code_text_number(&text, "surrogate_gap",
                            chosen->expected_ms > 0
                                ? chosen->surrogate_ms / chosen->expected_ms - 1
                                : 0);
    muster_code_text_add(&text,
                         ", \"workers\": %u, \"edges\": %u, \"compared\": %zu, "
                         "\"samples\": %u, ",
                         plan->worker_count, plan->edge_count, plan->schemes,
                         plan->samples);
    add_left_out(&text, plan, "\"left_out\": [", ", ");
    muster_code_text_add(&text, "], \"alternatives\": [");
    for (uint32_t i = 0; i < plan->choice_count; i++) {
        const muster_plan_choice *c = &plan->choices[i];
        muster_code_text_add(&text, "%s{\"label\": \"%s\", \"exact\": %s, ",
                             i > 0 ? ", " : "", c->label,
                             c->exact ? "true" : "false");
        add_numbers(&text, c);
        add_times(&text, c);
        muster_code_text_add(&text, "}");
    }
    muster_code_text_add(&text, "]");
    for (uint32_t i = 0; explain && i < plan->worker_count; i++) {
        const muster_plan_worker *w = &plan->workers[i];
        muster_code_text_add(&text, "%s{\"worker\": %u, \"edge\": %u",
                             i > 0 ? ", " : ", \"per_worker\": [", i, w->edge);
        muster_code_text_number(&text, "load", w->load);
        muster_code_text_number(&text, "storage", w->storage);
        muster_code_text_number(&text, "expected_ms", w->expected_ms);
        muster_code_text_number(&text, "in_time", w->in_time);
        muster_code_text_add(&text, ", \"used\": %s}%s",
                             w->used ? "true" : "false",
                             i + 1 == plan->worker_count ? "]" : "");
    }
    muster_code_text_add(&text, "}");
    return muster_code_text_finish(&text);
}

/* ---- lines --------------------------------------------------------------- */

static const char *note_of(const muster_plan_choice *c)
{
    if (c->exact) {
        return c->by_speed ? "loads by --speeds" : "";
    }
    return "not exact: what is missing is lost";
}

static void add_row(muster_code_text *text, const muster_plan *plan,
                    const muster_plan_choice *c)
{
    double gain = plan->chosen.expected_ms > 0
                      ? c->expected_ms / plan->chosen.expected_ms
                      : 1;
    muster_code_text_add(text, "  %-12s %-28s %10.4g %10.4g %8.2f  %s\n",
                         c->label, c->spec, c->expected_ms, c->surrogate_ms,
                         gain, note_of(c));
}

static void add_workers(muster_code_text *text, const muster_plan *plan)
{
    muster_code_text_add(text,
                         "\n  worker  edge     load  storage  answer ms  in "
                         "time\n");
    for (uint32_t i = 0; i < plan->worker_count; i++) {
        const muster_plan_worker *w = &plan->workers[i];
        if (!w->used) {
            muster_code_text_add(text, "  %6u  %4u left out\n", i, w->edge);
            continue;
        }
        muster_code_text_add(text, "  %6u  %4u %8.4g %8.4g %10.4g %8.3f\n", i,
                             w->edge, w->load, w->storage, w->expected_ms,
                             w->in_time);
    }
}

char *muster_plan_text(const muster_plan *plan, bool explain)
{
    muster_code_text text = muster_code_text_make();
    const muster_plan_choice *c = &plan->chosen;
    muster_code_text_add(&text, "%s: %.4g ms a step (+- %.2g)\n", c->spec,
                         c->expected_ms, c->error_ms);
    if (c->by_speed) {
        muster_code_text_add(&text, "  loads        in proportion to speeds: "
                                    "add --speeds with the cluster file\n");
    }
    if (c->workers < plan->worker_count) {
        add_left_out(&text, plan, "  left out     workers ", ", ");
        muster_code_text_add(&text, ": --used FILE writes the others\n");
    }
    muster_code_text_add(
        &text,
        "  load         %u of %u parts a worker\n"
        "  message      1/%u of the gradient\n"
        "  surrogate    %.4g ms, %+.0f %%\n"
        "  compared     %zu schemes over %u steps\n\n",
        c->d, c->parts, c->m, c->surrogate_ms,
        c->expected_ms > 0 ? 100 * (c->surrogate_ms / c->expected_ms - 1) : 0,
        plan->schemes, plan->samples);
    muster_code_text_add(&text, "  %-12s %-28s %10s %10s %8s\n", "", "code",
                         "expected", "surrogate", "times");
    add_row(&text, plan, c);
    for (uint32_t i = 0; i < plan->choice_count; i++) {
        add_row(&text, plan, &plan->choices[i]);
    }
    if (explain) {
        add_workers(&text, plan);
    }
    return muster_code_text_finish(&text);
}
