/*
 * summary.c -- totals in, JSON and YAML out.
 */
#include "record/summary.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "record/histogram.h"
#include "record/json.h"

/* Without an estimator's word, a worker that misses more steps than it makes
 * is called slow. */
#define SLOW_RATE 0.5

typedef struct worker_sum {
    muster_histogram compute_ms;
    muster_histogram send_ms;
    muster_histogram wait_ms;
    uint64_t arrived; // the newest step it answered in time, plus one
    double arrive_ms; // and when
    uint64_t in_time;
    uint64_t late;
    uint64_t deaths;
} worker_sum;

struct muster_summary {
    muster_histogram step_ms;
    uint64_t steps;
    uint64_t bytes_up;
    uint64_t bytes_down;
    uint64_t messages_up;
    uint64_t bytes_moved;
    uint64_t stages_dropped;
    double grad_err_max;
    uint64_t inexact_steps;
    uint64_t degraded_steps;
    uint32_t worker_count;
    worker_sum *workers;
};

muster_status muster_summary_create(uint32_t workers,
                                    muster_summary **summary_out)
{
    muster_summary *summary = muster_mem_array(1, sizeof(*summary));
    if (summary == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    summary->worker_count = workers;
    summary->workers = muster_mem_array(workers, sizeof(worker_sum));
    if (summary->workers == NULL) {
        muster_mem_free(summary);
        return MUSTER_ERR_NO_MEMORY;
    }
    *summary_out = summary;
    return MUSTER_OK;
}

void muster_summary_free(muster_summary *summary)
{
    if (summary != NULL) {
        muster_mem_free(summary->workers);
        muster_mem_free(summary);
    }
}

void muster_summary_step(muster_summary *summary, const muster_step_line *line)
{
    for (uint32_t i = 0; i < summary->worker_count; i++) {
        worker_sum *worker = &summary->workers[i];
        if (worker->arrived == line->step + 1) {
            muster_histogram_add(&worker->wait_ms,
                                 line->step_ms - worker->arrive_ms);
        }
    }
    summary->steps++;
    muster_histogram_add(&summary->step_ms, line->step_ms);
    summary->bytes_up += line->bytes_up;
    summary->bytes_down += line->bytes_down;
    summary->messages_up += line->messages_up;
    summary->bytes_moved += line->bytes_moved;
    summary->stages_dropped += line->stages_dropped;
    summary->inexact_steps += line->inexact;
    summary->degraded_steps += line->degraded;
    if (line->grad_err > summary->grad_err_max) {
        summary->grad_err_max = line->grad_err;
    }
}

void muster_summary_worker(muster_summary *summary,
                           const muster_worker_line *line)
{
    if (line->worker < summary->worker_count) {
        worker_sum *worker = &summary->workers[line->worker];
        muster_histogram_add(&worker->compute_ms, line->compute_ms);
        muster_histogram_add(&worker->send_ms,
                             line->arrive_ms - line->compute_ms);
        if (!line->late) {
            worker->arrived = line->step + 1;
            worker->arrive_ms = line->arrive_ms;
        }
        worker->in_time += !line->late;
        worker->late += line->late;
    }
}

void muster_summary_death(muster_summary *summary, uint32_t worker)
{
    if (worker < summary->worker_count) {
        summary->workers[worker].deaths++;
    }
}

uint64_t muster_summary_steps(const muster_summary *summary)
{
    return summary->steps;
}

double muster_summary_step_s(const muster_summary *summary)
{
    return summary->step_ms.sum * 1e-3;
}

uint64_t muster_summary_degraded(const muster_summary *summary)
{
    return summary->degraded_steps;
}

double muster_summary_grad_err(const muster_summary *summary)
{
    return summary->grad_err_max;
}

uint64_t muster_summary_in_time(const muster_summary *summary, uint32_t worker)
{
    return summary->workers[worker].in_time;
}

double muster_summary_step_ms(const muster_summary *summary, double q)
{
    return muster_histogram_quantile(&summary->step_ms, q);
}

double muster_summary_compute_ms(const muster_summary *summary, uint32_t worker,
                                 double q)
{
    return muster_histogram_quantile(&summary->workers[worker].compute_ms, q);
}

double muster_summary_compute_mean_ms(const muster_summary *summary,
                                      uint32_t worker)
{
    return muster_histogram_mean(&summary->workers[worker].compute_ms);
}

double muster_summary_send_ms(const muster_summary *summary, uint32_t worker,
                              double q)
{
    return muster_histogram_quantile(&summary->workers[worker].send_ms, q);
}

double muster_summary_wait_ms(const muster_summary *summary, uint32_t worker,
                              double q)
{
    return muster_histogram_quantile(&summary->workers[worker].wait_ms, q);
}

uint64_t muster_summary_late(const muster_summary *summary, uint32_t worker)
{
    return summary->workers[worker].late;
}

double muster_summary_straggle_rate(const muster_summary *summary,
                                    uint32_t worker)
{
    uint64_t steps = summary->steps;
    uint64_t in_time = summary->workers[worker].in_time;
    return steps > in_time ? (double)(steps - in_time) / (double)steps : 0;
}

static const char *class_of(const muster_summary *summary,
                            const muster_summary_end *end, uint32_t worker)
{
    if (end->classes != NULL && end->classes[worker] != NULL) {
        return end->classes[worker];
    }
    return muster_summary_straggle_rate(summary, worker) > SLOW_RATE ? "slow"
                                                                     : "active";
}

static json_t *integer(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *step_times(const muster_histogram *times)
{
    return json_pack(
        "{s:o, s:o, s:o, s:o}", "p50",
        muster_json_real(muster_histogram_quantile(times, 0.5)), "p90",
        muster_json_real(muster_histogram_quantile(times, 0.9)), "p99",
        muster_json_real(muster_histogram_quantile(times, 0.99)), "mean",
        muster_json_real(muster_histogram_mean(times)));
}

/* One of a list that may be missing. */
static json_t *listed(const double *values, uint32_t index)
{
    return values != NULL ? muster_json_real(values[index]) : json_null();
}

/* The share of the steps' time in which the worker did not compute. */
static double idle_share(const muster_summary *summary, uint32_t worker)
{
    double busy_ms = summary->workers[worker].compute_ms.sum;
    double idle = 1 - busy_ms / summary->step_ms.sum;
    return idle > 0 || isnan(idle) ? idle : 0;
}

static json_t *worker_object(const muster_summary *summary,
                             const muster_summary_end *end, uint32_t i)
{
    const worker_sum *worker = &summary->workers[i];
    return json_pack(
        "{s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "id",
        integer(i), "class", class_of(summary, end, i), "slow_probability",
        listed(end->slow_probability, i), "straggle_rate",
        muster_json_real(muster_summary_straggle_rate(summary, i)),
        "compute_ms_p50",
        muster_json_real(muster_histogram_quantile(&worker->compute_ms, 0.5)),
        "send_ms_p50",
        muster_json_real(muster_histogram_quantile(&worker->send_ms, 0.5)),
        "wait_ms_p50",
        muster_json_real(muster_histogram_quantile(&worker->wait_ms, 0.5)),
        "idle_share", muster_json_real(idle_share(summary, i)), "behind_ms",
        listed(end->behind_ms, i), "late", integer(worker->late), "deaths",
        integer(worker->deaths));
}

static json_t *worker_list(const muster_summary *summary,
                           const muster_summary_end *end)
{
    json_t *list = json_array();
    for (uint32_t i = 0; list != NULL && i < summary->worker_count; i++) {
        json_t *item = worker_object(summary, end, i);
        if (json_array_append_new(list, item) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

/* `workers`; with edges these, and `edges`. */
static int add_workers(json_t *object, const muster_summary *summary,
                       const muster_summary_end *end)
{
    if (end->below == NULL) {
        return json_object_set_new(object, "workers",
                                   worker_list(summary, end));
    }
    const muster_summary_end below = {.classes = end->below_classes};
    json_t *workers = worker_list(end->below, &below);
    int failed =
        json_object_set_new(object, "edges", worker_list(summary, end));
    for (uint32_t w = 0; workers != NULL && w < end->below->worker_count; w++) {
        failed |= json_object_set_new(json_array_get(workers, w), "edge",
                                      integer(end->edge_of[w]));
    }
    return failed | json_object_set_new(object, "workers", workers);
}

static json_t *part_list(const muster_summary_end *end)
{
    json_t *list = json_array();
    for (uint32_t i = 0; list != NULL && i < end->part_count; i++) {
        if (json_array_append_new(list, integer(end->parts_received[i])) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

static json_t *code_object(const muster_summary_end *end)
{
    return json_pack("{s:s, s:o, s:o, s:o, s:o}", "name",
                     end->code != NULL ? end->code : "", "n", integer(end->n),
                     "s", integer(end->s), "m", integer(end->m), "d",
                     integer(end->d));
}

json_t *muster_summary_straggling_json(const muster_summary_straggling *of)
{
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:s, s:{s:o, s:o, s:o}, s:{s:o, s:o}}",
        "p_straggle", muster_json_real(of->p_straggle), "p_straggle_again",
        muster_json_real(of->p_again), "p_straggle_begin",
        muster_json_real(of->p_begin), "spell_steps",
        muster_json_real(of->spell_steps), "model", of->model, "bernoulli",
        "slow", muster_json_real(of->slow), "p_slow",
        muster_json_real(of->p_slow), "p_active",
        muster_json_real(of->p_active), "markov", "stay_slow",
        muster_json_real(of->stay_slow), "stay_active",
        muster_json_real(of->stay_active));
}

static json_t *evaluation_object(const muster_summary_evaluation *of)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "step", integer(of->step),
                     "seconds", muster_json_real(of->seconds), "loss",
                     muster_json_real(of->loss), "test_loss",
                     muster_json_real(of->test_loss), "test_accuracy",
                     muster_json_real(of->test_accuracy));
}

/* The evaluations, and the one that reached the target. */
static int add_evaluations(json_t *object, const muster_summary_end *end)
{
    json_t *list = json_array();
    json_t *reached = json_null();
    int failed = list == NULL;
    for (size_t i = 0; failed == 0 && i < end->evaluation_count; i++) {
        const muster_summary_evaluation *of = &end->evaluations[i];
        failed = json_array_append_new(list, evaluation_object(of));
        if (of->reached) {
            reached = evaluation_object(of);
        }
    }
    failed |= json_object_set_new(object, "evaluations", list);
    return failed | json_object_set_new(object, "target", reached);
}

/* Counts of bytes, of messages, and of stages that were dropped. */
static int add_counts(json_t *object, const muster_summary *summary)
{
    const struct {
        const char *key;
        uint64_t count;
    } counts[] = {
        {"bytes_up", summary->bytes_up},
        {"bytes_down", summary->bytes_down},
        {"messages_up", summary->messages_up},
        {"bytes_moved", summary->bytes_moved},
        {"stages_dropped", summary->stages_dropped},
    };
    int failed = 0;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        failed |= json_object_set_new(object, counts[i].key,
                                      integer(counts[i].count));
    }
    return failed;
}

/* How far the steps were from exact, and the model that came of them. */
static int add_exactness(json_t *object, const muster_summary *summary,
                         const muster_summary_end *end)
{
    int failed = json_object_set_new(object, "grad_err_max",
                                     muster_json_real(summary->grad_err_max));
    failed |= json_object_set_new(object, "theta_norm",
                                  muster_json_real(end->theta_norm));
    failed |= json_object_set_new(object, "exact",
                                  json_boolean(summary->inexact_steps == 0));
    return failed | json_object_set_new(object, "degraded_steps",
                                        integer(summary->degraded_steps));
}

/* Times and losses. */
static int add_course(json_t *object, const muster_summary *summary,
                      const muster_summary_end *end)
{
    int failed = json_object_set_new(object, "steps", integer(summary->steps));
    failed |=
        json_object_set_new(object, "wall_s", muster_json_real(end->wall_s));
    failed |=
        json_object_set_new(object, "step_ms", step_times(&summary->step_ms));
    failed |= json_object_set_new(object, "loss", muster_json_real(end->loss));
    if (!isnan(end->test_loss) || !isnan(end->test_accuracy)) {
        failed |= json_object_set_new(object, "test",
                                      muster_json_test(end->test_loss,
                                                       end->test_accuracy,
                                                       end->test_auc));
    }
    if (end->evaluation_count > 0) {
        failed |= add_evaluations(object, end);
    }
    return failed;
}

static json_t *summary_object(const muster_summary *summary,
                              const muster_summary_end *end)
{
    json_t *object = json_object();
    int failed = add_course(object, summary, end);
    failed |= json_object_set_new(object, "code", code_object(end));
    failed |= add_workers(object, summary, end);
    failed |= json_object_set_new(object, "straggler_wait_ms",
                                  muster_json_real(end->straggler_wait_ms));
    if (end->straggling != NULL) {
        failed |= json_object_set_new(
            object, "straggling",
            muster_summary_straggling_json(end->straggling));
    }
    if (end->parts_received != NULL) {
        failed |= json_object_set_new(object, "parts_received", part_list(end));
    }
    failed |= add_counts(object, summary);
    failed |= add_exactness(object, summary, end);
    if (failed != 0) {
        json_decref(object);
        return NULL;
    }
    return object;
}

char *muster_summary_json(const muster_summary *summary,
                          const muster_summary_end *end)
{
    json_t *object = summary_object(summary, end);
    char *text = json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    char *copy = text != NULL ? muster_mem_string(text) : NULL;
    free(text); // heap: jansson
    json_decref(object);
    return copy;
}
