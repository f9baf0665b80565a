/*
 * simulate_tell.c -- a simulated code's outcome for people: one line, and the
 * rows of --csv.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "run/simulate_outcome.h"

#define SECOND_MS 1e3
#define MINUTE_MS 60e3
#define HOUR_MS   3600e3

muster_outcome_spread muster_outcome_spread_of(const muster_outcome *outcome,
                                               size_t offset)
{
    const muster_outcome_run *runs = outcome->runs.data;
    muster_outcome_spread spread = {INFINITY, -INFINITY, NAN};
    double sum = 0, squares = 0;
    double count = (double)outcome->runs.count;
    for (size_t i = 0; i < outcome->runs.count; i++) {
        double value = 0;
        memcpy(&value, (const char *)&runs[i] + offset, sizeof(value));
        spread.min = fmin(spread.min, value);
        spread.max = fmax(spread.max, value);
        sum += value;
    }
    for (size_t i = 0; i < outcome->runs.count; i++) {
        double value = 0;
        memcpy(&value, (const char *)&runs[i] + offset, sizeof(value));
        squares += (value - sum / count) * (value - sum / count);
    }
    spread.sd = count > 1 ? sqrt(squares / (count - 1)) : NAN;
    return spread;
}

/* "12.34 ms", "3.21 s", "4.5 min": a time in the unit that fits it; "-" where
 * no step was done. */
static const char *time_text(double ms, char *text, size_t size)
{
    if (isnan(ms)) {
        snprintf(text, size, "-");
    } else if (ms < SECOND_MS) {
        snprintf(text, size, "%.2f ms", ms);
    } else if (ms < 2 * MINUTE_MS) {
        snprintf(text, size, "%.2f s", ms / SECOND_MS);
    } else if (ms < 2 * HOUR_MS) {
        snprintf(text, size, "%.1f min", ms / MINUTE_MS);
    } else {
        snprintf(text, size, "%.1f h", ms / HOUR_MS);
    }
    return text;
}

static const char *bytes_text(double bytes, char *text, size_t size)
{
    if (bytes < 1e9) {
        snprintf(text, size, "%.1f MB", bytes * 1e-6);
    } else if (bytes < 1e12) {
        snprintf(text, size, "%.2f GB", bytes * 1e-9);
    } else {
        snprintf(text, size, "%.2f TB", bytes * 1e-12);
    }
    return text;
}

/* What the seeds differ by; "" of one. */
static const char *spread_text(const muster_outcome *outcome, char *text,
                               size_t size)
{
    char min[32], max[32], sd[32];
    text[0] = 0;
    if (outcome->runs.count > 1) {
        muster_outcome_spread spread = muster_outcome_spread_of(
            outcome, offsetof(muster_outcome_run, step_ms.mean));
        snprintf(text, size,
                 "; means of %zu seeds from %s to %s, standard deviation %s",
                 outcome->runs.count, time_text(spread.min, min, sizeof(min)),
                 time_text(spread.max, max, sizeof(max)),
                 time_text(spread.sd, sd, sizeof(sd)));
    }
    return text;
}

void muster_outcome_tell(const muster_outcome *outcome)
{
    const muster_outcome_run *runs = outcome->runs.data;
    const muster_histogram *ms = &outcome->step_ms;
    char p50[32], p90[32], p99[32], mean[32], sent[32], spread[160];
    uint64_t steps = 0, exact = 0, bytes = 0;
    for (size_t i = 0; i < outcome->runs.count; i++) {
        steps += runs[i].steps;
        exact += runs[i].steps_exact;
        bytes += runs[i].bytes_up + runs[i].bytes_down;
    }
    muster_log(
        MUSTER_LOG_INFO,
        "%s (s = %u, m = %u): %" PRIu64 " steps, p50 %s, p90 %s, p99 %s, "
        "mean %s, %" PRIu64 " exact, %s%s",
        outcome->name, outcome->info.stragglers, outcome->info.comm, steps,
        time_text(muster_histogram_quantile(ms, 0.5), p50, sizeof(p50)),
        time_text(muster_histogram_quantile(ms, 0.9), p90, sizeof(p90)),
        time_text(muster_histogram_quantile(ms, 0.99), p99, sizeof(p99)),
        time_text(muster_histogram_mean(ms), mean, sizeof(mean)), exact,
        bytes_text((double)bytes, sent, sizeof(sent)),
        spread_text(outcome, spread, sizeof(spread)));
}

int muster_outcome_csv_head(FILE *file)
{
    return fputs("code,n,k,s,m,d,seed,status,steps,p50_ms,p90_ms,p99_ms,"
                 "mean_ms,exact_share,bytes_up,bytes_down,bytes_moved,late,"
                 "losses,grad_err_mean,p_straggle,p_straggle_again,"
                 "spell_steps,virtual_s\n",
                 file);
}

/* A number and what ends it; nothing where there is none. */
static int put_real(FILE *file, double value, const char *end)
{
    return isfinite(value) ? fprintf(file, "%.9g%s", value, end)
                           : fputs(end, file);
}

static int put_run(const muster_outcome_run *run, FILE *file)
{
    double steps = (double)run->steps;
    int failed = fprintf(file, "%" PRIu64 ",%s,%" PRIu64 ",", run->seed,
                         muster_status_name(run->status), run->steps) < 0;
    failed |= put_real(file, run->step_ms.p50, ",") < 0;
    failed |= put_real(file, run->step_ms.p90, ",") < 0;
    failed |= put_real(file, run->step_ms.p99, ",") < 0;
    failed |= put_real(file, run->step_ms.mean, ",") < 0;
    failed |= put_real(file, (double)run->steps_exact / steps, ",") < 0;
    failed |=
        fprintf(file,
                "%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",",
                run->bytes_up, run->bytes_down, run->bytes_moved, run->late,
                run->losses) < 0;
    failed |= put_real(file, run->grad_err_sum / steps, ",") < 0;
    failed |= put_real(file, run->straggling.p_straggle, ",") < 0;
    failed |= put_real(file, run->straggling.p_again, ",") < 0;
    failed |= put_real(file, run->straggling.spell_steps, ",") < 0;
    failed |= put_real(file, run->virtual_s, "\n") < 0;
    return failed != 0 ? -1 : 0;
}

int muster_outcome_csv(const muster_outcome *outcome, FILE *file)
{
    const muster_outcome_run *runs = outcome->runs.data;
    const muster_code_info *info = &outcome->info;
    int failed = 0;
    for (size_t i = 0; i < outcome->runs.count; i++) {
        // Names have commas, and no quotes.
        failed |= fprintf(file, "\"%s\",%u,%u,%u,%u,%u,", outcome->code,
                          info->workers, info->parts, info->stragglers,
                          info->comm, info->load) < 0;
        failed |= put_run(&runs[i], file) < 0;
    }
    return failed != 0 ? -1 : 0;
}
