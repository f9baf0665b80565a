/*
 * tally.c -- see tally.h.
 */
#include "run/tally.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

muster_status muster_tally_init(uint32_t workers, muster_tally *tally_out)
{
    muster_tally tally = {
        .worker_count = workers,
        .loss = NAN,
        .evaluations = muster_vec_make(sizeof(muster_summary_evaluation))};
    tally.workers = muster_mem_array(workers, sizeof *tally.workers);
    if (tally.workers == NULL ||
        muster_stragglers_create(workers, &tally.costs) < 0 ||
        muster_summary_create(workers, &tally.summary) < 0) {
        muster_tally_fini(&tally);
        return MUSTER_ERR_NO_MEMORY;
    }
    *tally_out = tally;
    return MUSTER_OK;
}

void muster_tally_fini(muster_tally *tally)
{
    muster_mem_free(tally->workers);
    muster_stragglers_free(tally->costs);
    muster_summary_free(tally->summary);
    muster_vec_fini(&tally->evaluations);
    memset(tally, 0, sizeof *tally);
}

muster_step_line muster_tally_step_line(const muster_report *report)
{
    muster_step_line line = {
        .step = report->step,
        .loss = report->as.end.loss,
        .step_ms = report->as.end.step_ms,
        .responders = report->as.end.responders,
        .stragglers = report->as.end.stragglers,
        .grad_err = report->as.end.grad_err,
        .bytes_up = report->as.end.bytes_up,
        .bytes_down = report->as.end.bytes_down,
        .messages_up = report->as.end.messages_up,
        .bytes_moved = report->as.end.bytes_moved,
        .stages_dropped = report->as.end.stages_dropped,
        .inexact = report->as.end.inexact,
        .degraded = report->as.end.degraded,
    };
    return line;
}

muster_worker_line muster_tally_worker_line(const muster_report *report)
{
    muster_worker_line line = {
        .step = report->step,
        .worker = report->as.answer.worker,
        .compute_ms = report->as.answer.compute_ms,
        .arrive_ms = report->as.answer.arrive_ms,
        .late = report->as.answer.late,
    };
    return line;
}

static void count_answer(muster_tally *tally, const muster_report *report)
{
    muster_worker_line line = muster_tally_worker_line(report);
    if (line.worker < tally->worker_count) {
        tally->workers[line.worker].answers++;
    }
    muster_summary_worker(tally->summary, &line);
}

static void count_step(muster_tally *tally, const muster_report *report)
{
    muster_step_line line = muster_tally_step_line(report);
    tally->steps++;
    tally->loss = line.loss;
    tally->responders = line.responders;
    tally->stragglers = line.stragglers;
    tally->grad_err = line.grad_err;
    tally->degraded = report->as.end.degraded;
    tally->parts_received = report->as.end.parts_received;
    tally->classes = report->as.end.classes;
    tally->first_shard = report->as.end.first_shard;
    muster_summary_step(tally->summary, &line);
}

static void count_worker(muster_tally *tally, const muster_report *report)
{
    uint32_t number = report->as.worker.worker;
    if (number >= tally->worker_count) {
        return;
    }
    muster_tally_worker *worker = &tally->workers[number];
    switch (report->as.worker.change) {
    case MUSTER_WORKER_JOINED:
        worker->joined = true;
        break;
    case MUSTER_WORKER_READY:
        worker->ready = true;
        break;
    case MUSTER_WORKER_LOST:
        worker->joined = worker->ready = false;
        worker->deaths++;
        muster_summary_death(tally->summary, number);
        break;
    }
}

/* One that finds no memory is left out: it is in the log. */
static void count_evaluation(muster_tally *tally, const muster_report *report)
{
    muster_summary_evaluation *at = muster_vec_push(&tally->evaluations);
    if (at != NULL) {
        *at = (muster_summary_evaluation){
            .step = report->step,
            .seconds =
                tally->earlier_s +
                (double)(report->as.evaluation.model_ns - tally->first_ns) *
                    1e-9,
            .loss = report->as.evaluation.loss,
            .test_loss = report->as.evaluation.test_loss,
            .test_accuracy = report->as.evaluation.test_accuracy,
            .reached = report->as.evaluation.reached};
    }
}

static void count_begin(muster_tally *tally, const muster_report *report)
{
    if (tally->first_ns == 0) {
        tally->first_ns = report->now_ns;
    }
    for (uint32_t w = 0; w < tally->worker_count; w++) {
        tally->workers[w].ready_steps += tally->workers[w].ready;
    }
}

void muster_tally_report(muster_tally *tally, const muster_report *report)
{
    muster_stragglers_report(tally->costs, report);
    switch (report->kind) {
    case MUSTER_REPORT_STEP_BEGIN:
        count_begin(tally, report);
        break;
    case MUSTER_REPORT_ANSWER:
        if (!report->as.answer.partial) {
            count_answer(tally, report);
        }
        break;
    case MUSTER_REPORT_STEP_END:
        count_step(tally, report);
        break;
    case MUSTER_REPORT_WORKER:
        count_worker(tally, report);
        break;
    case MUSTER_REPORT_EVALUATION:
        count_evaluation(tally, report);
        break;
    case MUSTER_REPORT_RESULT:
        tally->has_result = true;
        tally->result_loss = report->as.result.loss;
        tally->theta_norm = report->as.result.theta_norm;
        tally->test_loss = report->as.result.test_loss;
        tally->test_accuracy = report->as.result.test_accuracy;
        tally->test_auc = report->as.result.test_auc;
        break;
    case MUSTER_REPORT_BELOW:
    case MUSTER_REPORT_NOTICE:
        break;
    }
}

muster_class muster_tally_class(const muster_tally *tally, uint32_t worker)
{
    return tally->classes != NULL ? muster_classes_of(tally->classes, worker)
                                  : (muster_class){.slow = false};
}

static const char *model_name(muster_classes_model model)
{
    switch (model) {
    case MUSTER_CLASSES_ONE:
        return "one";
    case MUSTER_CLASSES_BERNOULLI:
        return "bernoulli";
    case MUSTER_CLASSES_MARKOV:
        return "markov";
    }
    return "unknown";
}

muster_summary_straggling
muster_straggling_of(const muster_classes_rates *rates,
                     const muster_classes_fit *fit)
{
    return (muster_summary_straggling){
        .p_straggle = rates->straggle,
        .p_again = rates->again,
        .p_begin = rates->begin,
        .spell_steps = rates->spell_steps,
        .model = model_name(fit->model),
        .slow = fit->p_hat,
        .p_slow = fit->pss,
        .p_active = fit->pns,
        .stay_slow = fit->stay_slow,
        .stay_active = fit->stay_active,
    };
}

muster_summary_straggling muster_tally_straggling(const muster_tally *tally)
{
    if (tally->classes == NULL) {
        return (muster_summary_straggling){NAN, NAN, NAN, NAN, "one",
                                           NAN, NAN, NAN, NAN, NAN};
    }
    muster_classes_rates rates = muster_classes_count(tally->classes);
    muster_classes_fit fit = muster_classes_describe(tally->classes);
    return muster_straggling_of(&rates, &fit);
}

void muster_tally_classes(const muster_tally *tally,
                          muster_worker_class *classes_out)
{
    for (uint32_t w = 0; w < tally->worker_count; w++) {
        bool slow = muster_tally_class(tally, w).slow;
        classes_out[w] = slow ? MUSTER_CLASS_SLOW : MUSTER_CLASS_ACTIVE;
        if (!tally->workers[w].joined) {
            classes_out[w] = MUSTER_CLASS_LOST;
        }
    }
}

const char *muster_worker_class_name(muster_worker_class class_of)
{
    switch (class_of) {
    case MUSTER_CLASS_ACTIVE:
        return "active";
    case MUSTER_CLASS_SLOW:
        return "slow";
    case MUSTER_CLASS_LOST:
        return "lost";
    }
    return "unknown";
}
