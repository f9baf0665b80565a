/*
 * straggler_report.c -- the end of a run, for people: who was slow or lost,
 * what it cost, and which code would have gone on without them.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "code/numbers.h"
#include "run/train.h"

#define ROWS_MAX 16u

static bool is_noted(const muster_tally *tally,
                     const muster_worker_class *classes, uint32_t worker)
{
    return classes[worker] != MUSTER_CLASS_ACTIVE ||
           tally->workers[worker].deaths > 0;
}

/* "12.3", or "-" where nothing was measured. */
static void number(double value, char *text_out, size_t size)
{
    if (isnan(value)) {
        (void)snprintf(text_out, size, "-");
    } else {
        (void)snprintf(text_out, size, "%.*f", value < 100 ? 2 : 0, value);
    }
}

static void tell_row(const muster_tally *tally, uint32_t worker,
                     muster_worker_class class_of)
{
    const muster_summary *summary = tally->summary;
    char compute[32], send[32], wait[32];
    number(muster_summary_compute_ms(summary, worker, 0.5), compute,
           sizeof compute);
    number(muster_summary_send_ms(summary, worker, 0.5), send, sizeof send);
    number(muster_summary_wait_ms(summary, worker, 0.5), wait, sizeof wait);
    muster_log(
        MUSTER_LOG_INFO,
        "%6" PRIu32 "  %-6s  %10s  %8s  %8s  %6.1f%%  %5" PRIu64 "  %6" PRIu32,
        worker, muster_worker_class_name(class_of), compute, send, wait,
        100 * (1 - muster_summary_straggle_rate(summary, worker)),
        muster_summary_late(summary, worker), tally->workers[worker].deaths);
}

static void tell_slow(const muster_train_state *train, uint32_t worker)
{
    const muster_tally *tally = &train->tally;
    const char *noun = muster_train_noun(train);
    muster_straggler_cost cost = muster_stragglers_cost(tally->costs, worker);
    uint64_t in_time = muster_summary_in_time(tally->summary, worker);
    uint64_t late = muster_summary_late(tally->summary, worker);
    if (in_time + late == 0) {
        muster_log(MUSTER_LOG_INFO,
                   "%s %" PRIu32 " is slow: it finished no step; none waited "
                   "for it",
                   noun, worker);
        return;
    }
    bool waited = 2 * in_time > muster_summary_steps(tally->summary);
    muster_log(MUSTER_LOG_INFO,
               "%s %" PRIu32 " is slow: %.3g ms a step; %s %.3g ms a step",
               noun, worker, cost.arrive_ms,
               waited ? "that cost" : "waiting for it would have cost",
               fmax(cost.behind_ms, 0));
}

static void tell_deaths(const muster_train_state *train, uint32_t worker)
{
    const muster_tally *tally = &train->tally;
    uint32_t deaths = tally->workers[worker].deaths;
    if (deaths == 0) {
        return;
    }
    muster_log(MUSTER_LOG_INFO, "%s %" PRIu32 " was lost %s%s",
               muster_train_noun(train), worker,
               deaths == 1 ? "once" : "several times",
               tally->workers[worker].joined ? " and came back" : "");
}

/* The first exact code that this many workers can use to go on without
 * `slow` of them. */
static bool find_code(const muster_train_state *train, uint32_t slow,
                      muster_code_info *info_out)
{
    static const char *const names[] = {"frc", "cyclic-mds"};
    uint32_t workers = train->code_info.workers;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        // frc wants s + 1 to divide the workers: look a little further.
        for (uint32_t s = slow; s < workers && s <= slow + 2; s++) {
            muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
            muster_code *code = NULL;
            opts.name = names[i];
            opts.workers = workers;
            opts.stragglers = s;
            if (muster_code_create(&opts, NULL, &code) == MUSTER_OK) {
                *info_out = *muster_code_numbers(code);
                info_out->name = names[i]; // the code's own goes with it
                muster_code_free(code);
                return true;
            }
        }
    }
    return false;
}

/* What would help, when steps did wait for the slow ones. */
static void tell_help(const muster_train_state *train, uint32_t slow)
{
    double waited_ms = muster_stragglers_waited_ms(train->tally.costs);
    double step_ms = muster_summary_step_ms(train->tally.summary, 0.5);
    muster_code_info info;
    if (slow == 0 || train->edges > 0 || slow <= train->code_info.stragglers ||
        waited_ms < 0.1 * step_ms || !find_code(train, slow, &info)) {
        return;
    }
    muster_log(MUSTER_LOG_INFO,
               "steps waited %.3g ms for slow workers on average; --code %s "
               "--stragglers %" PRIu32 " goes on without them, at %" PRIu32
               " times the computing",
               waited_ms, info.name, info.stragglers, info.load);
}

/* How often, in what spells, and which --delay would do the same. */
static void tell_rates(const muster_tally *tally)
{
    muster_summary_straggling s = muster_tally_straggling(tally);
    char again[64] = "", fit[96] = "";
    if (!(s.p_straggle > 0)) {
        return;
    }
    if (!isnan(s.p_again)) {
        (void)snprintf(again, sizeof again,
                       ", in %.3g %% of those after such a step",
                       100 * s.p_again);
    }
    if (strcmp(s.model, "bernoulli") == 0) {
        (void)snprintf(fit, sizeof fit,
                       "; like --delay bernoulli:slow=%.2g,p-slow=%.2g,"
                       "p-active=%.2g",
                       s.slow, s.p_slow, s.p_active);
    } else if (strcmp(s.model, "markov") == 0) {
        (void)snprintf(fit, sizeof fit,
                       "; like --delay markov:stay-slow=%.2g,stay-active=%.2g",
                       s.stay_slow, s.stay_active);
    }
    muster_log(MUSTER_LOG_INFO,
               "workers straggled in %.3g %% of their steps%s; a slow spell "
               "lasts %.3g steps%s",
               100 * s.p_straggle, again, s.spell_steps, fit);
}

void muster_train_tell_stragglers(const muster_train_state *train,
                                  const muster_worker_class *classes)
{
    const muster_tally *tally = &train->tally;
    uint32_t rows = 0, slow = 0;
    for (uint32_t w = 0; w < tally->worker_count; w++) {
        slow += classes[w] == MUSTER_CLASS_SLOW;
        if (!is_noted(tally, classes, w) || rows == ROWS_MAX) {
            continue;
        }
        if (rows++ == 0) {
            muster_log(MUSTER_LOG_INFO,
                       "%-6s  class   compute ms   send ms   wait ms  in time "
                       "  late  deaths",
                       muster_train_noun(train));
        }
        tell_row(tally, w, classes[w]);
    }
    for (uint32_t w = 0, told = 0; w < tally->worker_count; w++) {
        if (!is_noted(tally, classes, w) || told++ >= ROWS_MAX) {
            continue;
        }
        if (classes[w] == MUSTER_CLASS_SLOW) {
            tell_slow(train, w);
        }
        tell_deaths(train, w);
    }
    if (rows > 0) {
        tell_rates(tally);
    }
    tell_help(train, slow);
}
