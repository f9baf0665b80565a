/*
 * summary.c -- see summary.h.
 */
#include "runtime/summary.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "runtime/progress.h"

#define CLUSTER_LINE_MAX 160u

/* JSON has no NaN: what is not known is null. */
static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *whole(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *step_times(muster_tally *tally)
{
    float *all = tally->step_ms.data;
    size_t count = tally->step_ms.count;
    json_t *times = json_object();
    json_object_set_new(times, "p50", number(muster_quantile(all, count, 0.5)));
    json_object_set_new(times, "p90", number(muster_quantile(all, count, 0.9)));
    json_object_set_new(times, "p99",
                        number(muster_quantile(all, count, 0.99)));
    json_object_set_new(times, "mean",
                        number(tally->step_ms_sum / (double)count));
    return times;
}

static json_t *code_facts(const muster_code_info *info)
{
    json_t *code = json_object();
    json_object_set_new(code, "name", json_string(info->name));
    json_object_set_new(code, "n", whole(info->workers));
    json_object_set_new(code, "k", whole(info->parts));
    json_object_set_new(code, "s", whole(info->stragglers));
    json_object_set_new(code, "m", whole(info->comm));
    json_object_set_new(code, "d", whole(info->load));
    return code;
}

static json_t *worker_facts(muster_tally *tally, uint32_t number_of,
                            muster_worker_class class_of)
{
    const muster_tally_worker *one = &tally->workers[number_of];
    json_t *worker = json_object();
    json_object_set_new(worker, "id", whole(number_of));
    json_object_set_new(worker, "class",
                        json_string(muster_worker_class_name(class_of)));
    json_object_set_new(worker, "straggle_rate",
                        number(muster_tally_straggle_rate(tally, number_of)));
    json_object_set_new(worker, "compute_ms_p50",
                        number(muster_tally_compute_ms(tally, number_of)));
    json_object_set_new(worker, "deaths", whole(one->deaths));
    json_object_set_new(worker, "answers", whole(one->on_time));
    json_object_set_new(worker, "late", whole(one->late));
    return worker;
}

static json_t *all_workers(muster_tally *tally)
{
    muster_worker_class *classes =
        muster_mem_array(tally->worker_count, sizeof *classes);
    json_t *workers = json_array();
    if (classes == NULL) {
        return workers;
    }
    muster_tally_classes(tally, classes);
    for (uint32_t w = 0; w < tally->worker_count; w++) {
        json_array_append_new(workers, worker_facts(tally, w, classes[w]));
    }
    muster_mem_free(classes);
    return workers;
}

/* How many answers in time held each part. */
static json_t *parts_received(const muster_tally *tally,
                              const muster_code *code, uint32_t parts)
{
    json_t *list = json_array();
    uint64_t *received = muster_mem_array(parts, sizeof *received);
    if (received == NULL) {
        return list;
    }
    for (uint32_t w = 0; w < tally->worker_count; w++) {
        const uint32_t *held = NULL;
        uint32_t count = 0;
        if (muster_code_parts(code, w, &held, &count) < 0) {
            continue;
        }
        for (uint32_t i = 0; i < count; i++) {
            received[held[i]] += tally->workers[w].on_time;
        }
    }
    for (uint32_t j = 0; j < parts; j++) {
        json_array_append_new(list, whole(received[j]));
    }
    muster_mem_free(received);
    return list;
}

static void set_result(json_t *summary, const muster_tally *tally)
{
    bool known = tally->has_result;
    json_object_set_new(summary, "loss",
                        number(known ? tally->result_loss : (double)NAN));
    if (known && !isnan(tally->test_loss)) {
        json_t *test = json_object();
        json_object_set_new(test, "loss", number(tally->test_loss));
        json_object_set_new(test, "accuracy", number(tally->test_accuracy));
        json_object_set_new(summary, "test", test);
    }
    json_object_set_new(summary, "theta_norm",
                        number(known ? tally->theta_norm : (double)NAN));
}

char *muster_summary_json(muster_tally *tally,
                          const muster_summary_facts *facts)
{
    muster_code_info info = muster_code_describe(facts->code);
    json_t *summary = json_object();
    json_object_set_new(summary, "status",
                        json_string(muster_status_text(facts->status)));
    json_object_set_new(summary, "steps", whole(facts->steps));
    json_object_set_new(summary, "wall_s", number(facts->wall_s));
    json_object_set_new(summary, "step_ms", step_times(tally));
    set_result(summary, tally);
    json_object_set_new(summary, "code", code_facts(&info));
    json_object_set_new(summary, "workers", all_workers(tally));
    json_object_set_new(summary, "parts_received",
                        parts_received(tally, facts->code, info.parts));
    json_object_set_new(summary, "bytes_up", whole(tally->bytes_up));
    json_object_set_new(summary, "bytes_down", whole(tally->bytes_down));
    json_object_set_new(summary, "messages_up", whole(tally->messages_up));
    json_object_set_new(summary, "bytes_moved", whole(tally->bytes_moved));
    json_object_set_new(summary, "grad_err_max", number(tally->grad_err_max));
    json_object_set_new(summary, "exact", json_boolean(info.exact));

    char *text = json_dumps(summary, JSON_COMPACT | JSON_REAL_PRECISION(12));
    json_decref(summary);
    char *copy = text != NULL ? muster_mem_string(text) : NULL;
    free(text);
    return copy;
}

/* Parts per second, relative to the fastest: 1 is the fastest. */
static double speed_of(muster_tally *tally, const muster_code *code,
                       uint32_t worker)
{
    const uint32_t *held = NULL;
    uint32_t count = 0;
    if (muster_code_parts(code, worker, &held, &count) < 0) {
        return NAN;
    }
    return (double)count / muster_tally_compute_ms(tally, worker);
}

char *muster_summary_cluster(muster_tally *tally, const muster_code *code)
{
    static const char title[] =
        "# What this run measured of its workers. speed: parts per second, "
        "the\n"
        "# fastest is 1; compute_ms: median of a step; null: never answered.\n"
        "workers:\n";
    size_t size = sizeof title + (size_t)tally->worker_count * CLUSTER_LINE_MAX;
    char *text = muster_mem_array(size, 1);
    if (text == NULL) {
        return NULL;
    }
    double fastest = 0;
    for (uint32_t w = 0; w < tally->worker_count; w++) {
        fastest = fmax(fastest, speed_of(tally, code, w)); // ignores NAN
    }
    size_t used = (size_t)snprintf(text, size, "%s", title);
    for (uint32_t w = 0; w < tally->worker_count; w++) {
        double compute_ms = muster_tally_compute_ms(tally, w);
        double rate = muster_tally_straggle_rate(tally, w);
        uint32_t deaths = tally->workers[w].deaths;
        if (isnan(compute_ms)) {
            used += (size_t)snprintf(
                text + used, size - used,
                "  - {id: %" PRIu32 ", speed: null, compute_ms: null, "
                "straggle_rate: %.4f, deaths: %" PRIu32 "}\n",
                w, rate, deaths);
        } else {
            used += (size_t)snprintf(
                text + used, size - used,
                "  - {id: %" PRIu32 ", speed: %.4f, compute_ms: %.3f, "
                "straggle_rate: %.4f, deaths: %" PRIu32 "}\n",
                w, speed_of(tally, code, w) / fastest, compute_ms, rate,
                deaths);
        }
    }
    return text;
}

/* "0.3123", and ", test accuracy 0.921" where there is one. */
static void tell_result(const muster_tally *tally,
                        const muster_summary_facts *facts)
{
    char wall[32];
    char test[64] = "";
    muster_progress_duration(facts->wall_s, wall, sizeof wall);
    if (tally->has_result && !isnan(tally->test_accuracy)) {
        (void)snprintf(test, sizeof test, ", test accuracy %.4f",
                       tally->test_accuracy);
    }
    muster_log(MUSTER_LOG_INFO, "%" PRIu64 " steps in %s (%.2f s), loss %.6g%s",
               tally->steps, wall, facts->wall_s,
               tally->has_result ? tally->result_loss : tally->loss, test);
}

void muster_summary_tell(muster_tally *tally, const muster_summary_facts *facts)
{
    char who[MUSTER_PROGRESS_TEXT_MAX] = "";
    muster_worker_class *classes =
        muster_mem_array(tally->worker_count, sizeof *classes);
    if (classes == NULL) {
        return;
    }
    muster_tally_classes(tally, classes);
    muster_progress_add_class(classes, tally->worker_count, MUSTER_CLASS_SLOW,
                              who);
    muster_progress_add_class(classes, tally->worker_count, MUSTER_CLASS_LOST,
                              who);
    muster_mem_free(classes);
    tell_result(tally, facts);
    muster_log(MUSTER_LOG_INFO,
               "step time: median %.2f ms, 90%% %.2f ms, 99%% %.2f ms;%s",
               muster_quantile(tally->step_ms.data, tally->step_ms.count, 0.5),
               muster_quantile(tally->step_ms.data, tally->step_ms.count, 0.9),
               muster_quantile(tally->step_ms.data, tally->step_ms.count, 0.99),
               who[0] != '\0' ? who : "  nobody was slow");
}
