/*
 * simulate_outcome.c -- see simulate_outcome.h: adding up, and the JSON object.
 */
#include "run/simulate_outcome.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"
#include "record/json.h"
#include "run/tally.h"

muster_status muster_outcome_init(muster_outcome *outcome, const char *code,
                                  const muster_code_info *info)
{
    *outcome = (muster_outcome){
        .info = *info,
        .runs = muster_vec_make(sizeof(muster_outcome_run)),
        .parts_received = muster_mem_array(info->parts, sizeof(uint64_t))};
    snprintf(outcome->code, sizeof(outcome->code), "%s", code);
    // The numbers of auto are those of the code that it begins with.
    snprintf(outcome->name, sizeof(outcome->name), "%s",
             strcmp(code, "auto") == 0 ? code : info->name);
    outcome->info.name = NULL; // lent; `name` is ours
    outcome->info.warning = NULL;
    return outcome->parts_received != NULL ? MUSTER_OK : MUSTER_ERR_NO_MEMORY;
}

void muster_outcome_fini(muster_outcome *outcome)
{
    muster_vec_fini(&outcome->runs);
    muster_mem_free(outcome->parts_received);
}

static muster_outcome_times times_of(const muster_histogram *step_ms)
{
    return (muster_outcome_times){muster_histogram_quantile(step_ms, 0.5),
                                  muster_histogram_quantile(step_ms, 0.9),
                                  muster_histogram_quantile(step_ms, 0.99),
                                  muster_histogram_mean(step_ms)};
}

muster_status muster_outcome_add(muster_outcome *outcome,
                                 const muster_virtual *run)
{
    muster_outcome_run *of = muster_vec_push(&outcome->runs);
    if (of == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    *of = (muster_outcome_run){
        .seed = run->opts.seed,
        .status = run->status,
        .step_ms = times_of(&run->step_ms),
        .steps = run->steps_done,
        .steps_exact = run->steps_exact,
        .bytes_up = run->bytes_up,
        .bytes_down = run->bytes_down,
        .bytes_moved = run->bytes_moved,
        .stages_dropped = run->stages_dropped,
        .messages_up = run->messages_up,
        .late = run->late,
        .losses = run->losses,
        .degraded = run->degraded,
        .plans = run->plans,
        .grad_err_max = run->grad_err_max,
        .grad_err_sum = run->grad_err_sum,
        .loss = run->loss,
        .theta_norm = run->theta_norm,
        .test_loss = run->test_loss,
        .test_accuracy = run->test_accuracy,
        .test_auc = run->test_auc,
        .target_step =
            run->target_step > 0 ? (double)run->target_step : (double)NAN,
        .target_s = (double)run->target_ns * 1e-9,
        .virtual_s = (double)muster_sim_now(run->sim) * 1e-9,
        .history = muster_sim_hash(run->sim),
        .straggling = muster_straggling_of(&run->rates, &run->fit),
    };
    muster_histogram_merge(&outcome->step_ms, &run->step_ms);
    outcome->parts = run->parts;
    for (uint32_t part = 0; part < run->parts; part++) {
        outcome->parts_received[part] += run->parts_received[part];
    }
    return MUSTER_OK;
}

/* The mean over the seeds in which there was something to count; with `of_all`
 * NAN where there was not in one of them. */
static double mean_of(const muster_outcome *outcome, size_t offset, bool of_all)
{
    const muster_outcome_run *runs = outcome->runs.data;
    double sum = 0;
    size_t count = 0;
    for (size_t i = 0; i < outcome->runs.count; i++) {
        double value = 0;
        memcpy(&value, (const char *)&runs[i] + offset, sizeof(value));
        bool counts = of_all || isfinite(value);
        sum += counts ? value : 0;
        count += counts;
    }
    return count > 0 ? sum / (double)count : NAN;
}

#define MEAN(field) mean_of(outcome, offsetof(muster_outcome_run, field), true)
#define MEAN_KNOWN(field) \
    mean_of(outcome, offsetof(muster_outcome_run, straggling.field), false)

/* The sums and means over all seeds, as if they were one run. */
static muster_outcome_run all_of(const muster_outcome *outcome)
{
    const muster_outcome_run *runs = outcome->runs.data;
    muster_outcome_run all = runs[0];
    for (size_t i = 1; i < outcome->runs.count; i++) {
        const muster_outcome_run *of = &runs[i];
        all.status = all.status < 0 ? all.status : of->status;
        all.steps += of->steps;
        all.steps_exact += of->steps_exact;
        all.bytes_up += of->bytes_up;
        all.bytes_down += of->bytes_down;
        all.bytes_moved += of->bytes_moved;
        all.stages_dropped += of->stages_dropped;
        all.messages_up += of->messages_up;
        all.late += of->late;
        all.losses += of->losses;
        all.degraded += of->degraded;
        all.plans = of->plans > all.plans ? of->plans : all.plans;
        all.grad_err_max = fmax(all.grad_err_max, of->grad_err_max);
        all.grad_err_sum += of->grad_err_sum;
        all.virtual_s += of->virtual_s;
    }
    all.step_ms = times_of(&outcome->step_ms);
    all.loss = MEAN(loss);
    all.theta_norm = MEAN(theta_norm);
    all.test_loss = MEAN(test_loss);
    all.test_accuracy = MEAN(test_accuracy);
    all.test_auc = MEAN(test_auc);
    all.target_step = MEAN(target_step);
    all.target_s = MEAN(target_s);
    return all;
}

static muster_summary_straggling straggling_of(const muster_outcome *outcome)
{
    const muster_outcome_run *runs = outcome->runs.data;
    return (muster_summary_straggling){
        .p_straggle = MEAN_KNOWN(p_straggle),
        .p_again = MEAN_KNOWN(p_again),
        .p_begin = MEAN_KNOWN(p_begin),
        .spell_steps = MEAN_KNOWN(spell_steps),
        .model = runs[0].straggling.model,
        .slow = MEAN_KNOWN(slow),
        .p_slow = MEAN_KNOWN(p_slow),
        .p_active = MEAN_KNOWN(p_active),
        .stay_slow = MEAN_KNOWN(stay_slow),
        .stay_active = MEAN_KNOWN(stay_active),
    };
}

static json_t *integer(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *times_json(const muster_outcome_times *ms)
{
    return json_pack("{s:o, s:o, s:o, s:o}", "p50", muster_json_real(ms->p50),
                     "p90", muster_json_real(ms->p90), "p99",
                     muster_json_real(ms->p99), "mean",
                     muster_json_real(ms->mean));
}

static json_t *history_json(uint64_t history)
{
    return json_sprintf("%016llx", (unsigned long long)history);
}

static double share_exact(const muster_outcome_run *of)
{
    return of->steps > 0 ? (double)of->steps_exact / (double)of->steps : NAN;
}

static json_t *code_json(const muster_outcome *outcome,
                         const muster_outcome_run *all)
{
    const muster_code_info *info = &outcome->info;
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:o}",
                     "name", outcome->name, "n", integer(info->workers), "k",
                     integer(info->parts), "s", integer(info->stragglers), "m",
                     integer(info->comm), "d", integer(info->load), "status",
                     muster_status_name(all->status), "steps",
                     integer(all->steps), "step_ms", times_json(&all->step_ms),
                     "exact_share", muster_json_real(share_exact(all)));
}

static json_t *counters_json(const muster_outcome_run *all)
{
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "bytes", integer(all->bytes_up + all->bytes_down), "bytes_up",
        integer(all->bytes_up), "bytes_down", integer(all->bytes_down),
        "bytes_moved", integer(all->bytes_moved), "messages_up",
        integer(all->messages_up), "late", integer(all->late), "losses",
        integer(all->losses), "grad_err_max",
        muster_json_real(all->grad_err_max), "grad_err_mean",
        muster_json_real(all->grad_err_sum / (double)all->steps), "degraded",
        integer(all->degraded), "plans", integer(all->plans), "virtual_s",
        muster_json_real(all->virtual_s), "history",
        history_json(all->history));
}

/* In how many steps each part was in the sum. */
static json_t *parts_json(const muster_outcome *outcome)
{
    json_t *list = json_array();
    int failed = list == NULL;
    for (uint32_t part = 0; failed == 0 && part < outcome->parts; part++) {
        failed =
            json_array_append_new(list, integer(outcome->parts_received[part]));
    }
    if (failed != 0) {
        json_decref(list);
        return NULL;
    }
    return list;
}

/* What only real data can tell. */
static int add_result(const muster_outcome_run *all, json_t *object)
{
    if (!isfinite(all->loss)) {
        return 0;
    }
    int failed =
        json_object_set_new(object, "loss", muster_json_real(all->loss));
    failed |= json_object_set_new(object, "theta_norm",
                                  muster_json_real(all->theta_norm));
    if (isfinite(all->target_step)) {
        failed |= json_object_set_new(
            object, "target",
            json_pack("{s:o, s:o}", "step", muster_json_real(all->target_step),
                      "seconds", muster_json_real(all->target_s)));
    }
    if (isfinite(all->test_loss)) {
        failed |= json_object_set_new(object, "test",
                                      muster_json_test(all->test_loss,
                                                       all->test_accuracy,
                                                       all->test_auc));
    }
    return failed;
}

static json_t *run_json(const muster_outcome_run *of)
{
    return json_pack(
        "{s:o, s:s, s:o, s:o, s:o, s:o, s:o}", "seed", integer(of->seed),
        "status", muster_status_name(of->status), "steps", integer(of->steps),
        "step_ms", times_json(&of->step_ms), "exact_share",
        muster_json_real(share_exact(of)), "virtual_s",
        muster_json_real(of->virtual_s), "history", history_json(of->history));
}

static json_t *spread_json(const muster_outcome *outcome, size_t offset)
{
    muster_outcome_spread spread = muster_outcome_spread_of(outcome, offset);
    return json_pack("{s:o, s:o, s:o}", "min", muster_json_real(spread.min),
                     "max", muster_json_real(spread.max), "sd",
                     muster_json_real(spread.sd));
}

#define SPREAD(field) \
    spread_json(outcome, offsetof(muster_outcome_run, step_ms.field))

/* How the seeds differ, and each of them. */
static int add_seeds(const muster_outcome *outcome, json_t *object)
{
    if (outcome->runs.count < 2) {
        return 0;
    }
    int failed = json_object_set_new(
        object, "spread",
        json_pack("{s:o, s:o, s:o, s:o}", "p50", SPREAD(p50), "p90",
                  SPREAD(p90), "p99", SPREAD(p99), "mean", SPREAD(mean)));
    json_t *list = json_array();
    const muster_outcome_run *runs = outcome->runs.data;
    for (size_t i = 0; i < outcome->runs.count; i++) {
        failed |= json_array_append_new(list, run_json(&runs[i]));
    }
    return failed | json_object_set_new(object, "runs", list);
}

json_t *muster_outcome_json(const muster_outcome *outcome)
{
    muster_outcome_run all = all_of(outcome);
    muster_summary_straggling straggling = straggling_of(outcome);
    json_t *object = code_json(outcome, &all);
    json_t *more = counters_json(&all);
    int failed =
        object == NULL || more == NULL || json_object_update(object, more) != 0;
    json_decref(more);
    failed = failed ||
             json_object_set_new(object, "straggling",
                                 muster_summary_straggling_json(&straggling));
    failed = failed || add_seeds(outcome, object) != 0;
    failed = failed || json_object_set_new(object, "parts_received",
                                           parts_json(outcome)) != 0;
    if (failed || add_result(&all, object) != 0) {
        json_decref(object);
        return NULL;
    }
    return object;
}
