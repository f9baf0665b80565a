/*
 * Executors of a coordinator and workers together, without a network: whatever
 * the code, the number of workers and who is missing, a run must end with the
 * theta of a plain loop over the batches; jobs can be cut off anywhere and done
 * again; what is wrong is refused with a text.
 */
#include "job/job_test.h"

#include <math.h>

#include "base/error.h"
#include "data/batch.h"
#include "data/dataset.h"
#include "model/model.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define NOBODY       UINT32_MAX

#define SYNTHETIC "synthetic:samples=501,features=12,classes=3,seed=5"
#define BINARY    "synthetic:samples=400,features=9,classes=2,seed=6"

/* --- the slow twin: one process, double precision sums -------------------- */

typedef struct twin {
    muster_dataset *set;
    muster_model model;
    muster_batch batch;
    float *theta;
    float *gradient;
    double *sum;
    void *scratch;
} twin;

static void twin_open(twin *self, const char *data, const char *spec,
                      uint64_t batch_size)
{
    assert_int_equal(muster_dataset_load(data, NULL, NULL, &self->set),
                     MUSTER_OK);
    muster_dataset_info info = muster_dataset_describe(self->set);
    muster_model *model = &self->model;
    assert_int_equal(
        muster_model_create(spec, info.features, info.classes, NULL, model),
        MUSTER_OK);
    self->batch =
        (muster_batch){1, info.samples, batch_size ? batch_size : info.samples};
    self->theta = muster_mem_array(model->dim, sizeof(float));
    self->gradient = muster_mem_array(model->dim, sizeof(float));
    self->sum = muster_mem_array(model->dim, sizeof(double));
    self->scratch = muster_mem_raw_aligned(
        model->ops->scratch_bytes(model->self, 1) + 1, 1);
    model->ops->init(model->self, 1, self->theta);
}

static void twin_close(twin *self)
{
    muster_mem_free(self->scratch);
    muster_mem_free(self->sum);
    muster_mem_free(self->gradient);
    muster_mem_free(self->theta);
    muster_model_free(&self->model);
    muster_dataset_free(self->set);
}

/* sum = the gradients of the step's samples, one by one. */
static void twin_sum(twin *self, uint64_t step)
{
    const muster_model *model = &self->model;
    memset(self->sum, 0, model->dim * sizeof(double));
    for (uint64_t i = 0; i < self->batch.size; i++) {
        uint32_t sample = 0;
        const float one = 1;
        double loss = 0;
        muster_batch_draw(&self->batch, step, i, 1, &sample);
        muster_rows rows = muster_dataset_rows(self->set, sample, 1);
        memset(self->gradient, 0, model->dim * sizeof(float));
        assert_int_equal(model->ops->gradient(model->self, self->theta, &rows,
                                              &one, self->scratch,
                                              self->gradient, &loss),
                         MUSTER_OK);
        for (size_t p = 0; p < model->dim; p++) {
            self->sum[p] += (double)self->gradient[p];
        }
    }
}

/* Plain gradient descent on the same batches; theta after `steps` steps. */
static void twin_run(twin *self, uint32_t steps, double lr, double l2)
{
    const muster_model *model = &self->model;
    for (uint32_t t = 0; t < steps; t++) {
        twin_sum(self, t);
        for (uint32_t k = 0; k < model->tensor_count; k++) {
            const muster_model_tensor *tensor = &model->tensors[k];
            size_t count = tensor->shape[0];
            count *= tensor->rank == 2 ? tensor->shape[1] : 1;
            for (size_t p = tensor->offset; p < tensor->offset + count; p++) {
                double old = (double)self->theta[p];
                double g = self->sum[p] / (double)self->batch.size;
                g += tensor->is_bias ? 0 : l2 * old;
                self->theta[p] = (float)(old - lr * g);
            }
        }
    }
}

static double distance(const testbed *bed, const float *theta)
{
    muster_blob *blob = muster_executor_model_blob(bed->coordinator);
    const float *mine = blob->data;
    size_t dim = muster_executor_describe(bed->coordinator).dim;
    double apart = 0;
    double norm = 0;
    for (size_t p = 0; p < dim; p++) {
        apart += pow((double)mine[p] - (double)theta[p], 2);
        norm += (double)theta[p] * (double)theta[p];
    }
    muster_blob_unref(blob);
    assert_true(norm > 0);
    return sqrt(apart / norm);
}

typedef struct run_case {
    const char *data;
    const char *model;
    const char *batch;
    uint64_t batch_size;
} run_case;

static void check_run(const run_case *run, const char *code, uint32_t workers,
                      bool lose)
{
    const bed_option options[] = {
        {"data", run->data}, {"model", run->model}, {"batch", run->batch},
        {"lr", "0.2"},       {"optimizer", "sgd"},  {"l2", "0.01"},
        {"steps", "12"},
    };
    twin plain;
    twin_open(&plain, run->data, run->model, run->batch_size);
    twin_run(&plain, 12, 0.2, 0.01);
    testbed bed;
    bed_open(&bed, code, workers, options, COUNT(options));
    assert_int_equal(muster_executor_describe(bed.coordinator).steps, 12);
    for (uint32_t t = 0; t < 12; t++) {
        bed_step(&bed, lose ? t % workers : NOBODY);
        assert_true(bed.last.grad_err < 1e-5);
    }
    double apart = distance(&bed, plain.theta);
    if (apart > 1e-5) {
        fail_msg("%s, %s, %u workers: theta is %g apart", run->model, code,
                 workers, apart);
    }
    bed_close(&bed);
    twin_close(&plain);
}

static const run_case runs[] = {
    {SYNTHETIC, "softmax", "0", 0},
    {SYNTHETIC, "softmax", "50", 50},
    {BINARY, "logistic", "0", 0},
    {BINARY, "logistic", "64", 64},
    {SYNTHETIC, "mlp:hidden=8", "50", 50},
    {BINARY, "logistic", "450", 450}, // more than there are samples
};

static void every_code_and_size_ends_with_the_same_theta(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(runs); i++) {
        check_run(&runs[i], "uncoded", 1, false);
        check_run(&runs[i], "uncoded", 4, false);
        check_run(&runs[i], "uncoded", 8, false);
        check_run(&runs[i], "frc:s=1", 4, false);
        check_run(&runs[i], "frc:s=1", 8, false);
        check_run(&runs[i], "linear:spc", 3, false);
        check_run(&runs[i], "linear:spc", 8, false);
    }
}

static void a_missing_worker_changes_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(runs); i++) {
        check_run(&runs[i], "frc:s=1", 4, true);
        check_run(&runs[i], "frc:s=1", 8, true);
        check_run(&runs[i], "linear:spc", 3, true);
        check_run(&runs[i], "linear:spc", 8, true);
    }
}

static void more_parts_than_samples_still_train(void **state)
{
    (void)state;
    const run_case tiny = {
        "synthetic:samples=5,features=3,classes=2,seed=2,test=1", "logistic",
        "2", 2};
    check_run(&tiny, "uncoded", 8, false);
    const run_case full = {tiny.data, "logistic", "0", 0};
    check_run(&full, "uncoded", 8, false);
}

/* --- losses, norms, evaluation -------------------------------------------- */

static void the_loss_of_a_step_is_the_objective_of_its_batch(void **state)
{
    (void)state;
    const bed_option options[] = {
        {"data", SYNTHETIC},
        {"model", "mlp:hidden=6"},
        {"batch", "0"},
        {"lr", "0.1"},
        {"optimizer", "adam"},
        {"l2", "0.05"},
        {"schedule", "step:every=2"},
        {"steps", "6"},
    };
    testbed bed;
    bed_open(&bed, "linear:spc", 6, options, COUNT(options));
    for (uint32_t t = 0; t < 6; t++) {
        // A full batch: the objective before the step is the step's loss.
        muster_job_result before = bed_evaluate(&bed);
        bed_step(&bed, t % 3);
        assert_true(fabs(bed.last.loss - before.loss) < 1e-5);
        muster_job_result after = bed_evaluate(&bed);
        assert_true(fabs(bed.last.theta_norm - after.theta_norm) < 1e-4);
        assert_true(after.loss < before.loss);
    }
    bed_close(&bed);
}

static void training_learns_what_can_be_learned(void **state)
{
    (void)state;
    const char *const models[] = {"softmax", "mlp:hidden=24"};
    for (size_t i = 0; i < COUNT(models); i++) {
        const bed_option options[] = {
            {"data", "synthetic:samples=2000,features=20,classes=4,seed=3"},
            {"model", models[i]},
            {"batch", "64"},
            {"epochs", "6"},
            {"schedule", "cosine"},
        };
        testbed bed;
        bed_open(&bed, "frc:s=1", 4, options, COUNT(options));
        muster_executor_info info = muster_executor_describe(bed.coordinator);
        assert_true(info.has_test);
        double first = bed_evaluate(&bed).loss;
        for (uint64_t t = 0; t < info.steps; t++) {
            bed_step(&bed, (uint32_t)(t % 4));
        }
        muster_job_result end = bed_evaluate(&bed);
        assert_true(end.loss < 0.6 * first);
        assert_true(end.test_accuracy > 0.7);
        assert_true(end.test_loss < first);
        bed_close(&bed);
    }
}

static void two_classes_have_an_auc_and_others_have_none(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        const char *data;
        bool has_auc;
    } rows[] = {
        {"logistic", "synthetic:samples=1500,features=8,classes=2", true},
        {"softmax", "synthetic:samples=1500,features=8,classes=2", true},
        {"softmax", "synthetic:samples=1500,features=8,classes=3", false},
        {"logistic", "synthetic:samples=1500,classes=2,test=0", false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const bed_option options[] = {
            {"data", rows[i].data}, {"model", rows[i].model}, {"epochs", "4"}};
        testbed bed;
        bed_open(&bed, "uncoded", 3, options, COUNT(options));
        for (uint32_t t = 0; t < 20; t++) {
            bed_step(&bed, NOBODY);
        }
        muster_job_result end = bed_evaluate(&bed);
        assert_true(rows[i].has_auc
                        ? end.test_auc > end.test_accuracy && end.test_auc <= 1
                        : isnan(end.test_auc));
        bed_close(&bed);
    }
}

/* --- cutting off, doing again --------------------------------------------- */

static void check_cutting_off(const char *data, const char *model_spec,
                              const char *batch, uint64_t stride)
{
    const bed_option options[] = {
        {"data", data},
        {"model", model_spec},
        {"batch", batch},
        {"steps", "3"},
    };
    testbed bed;
    bed_open(&bed, "linear:spc", 3, options, COUNT(options));
    bed_check_cutting_off(&bed, stride);
    bed_close(&bed);
}

static void a_gradient_cut_off_anywhere_can_be_done_again(void **state)
{
    (void)state;
    check_cutting_off("synthetic:samples=9000,features=30,classes=3,seed=5",
                      "mlp:hidden=64", "8000", 1);
}

/* Layers so large that even one block of rows takes several pieces. */
static void a_gradient_is_cut_off_between_tiles(void **state)
{
    (void)state;
    check_cutting_off("synthetic:samples=600,features=1100,classes=3,seed=5",
                      "mlp:hidden=1030", "0", 3);
}

static void an_update_is_done_whole_or_not_at_all(void **state)
{
    (void)state;
    const bed_option options[] = {
        {"data", "synthetic:samples=300,features=40,classes=3,seed=5"},
        {"model", "mlp:hidden=2000,400"},
        {"batch", "16"},
        {"optimizer", "adam"},
        {"steps", "9"},
    };
    testbed bed;
    bed_open(&bed, "linear:spc", 3, options, COUNT(options));
    uint64_t done = 0;
    for (uint64_t stop = 0; stop < 6; stop++) {
        muster_job_result result;
        muster_blob *before = muster_executor_model_blob(bed.coordinator);
        muster_job job = bed_update_job(&bed, NOBODY);
        muster_executor_begin(bed.coordinator, &job);
        for (uint64_t i = 0; i < stop; i++) {
            (void)muster_executor_piece(bed.coordinator);
        }
        muster_executor_end(bed.coordinator, &result);
        muster_blob *after = muster_executor_model_blob(bed.coordinator);
        if (result.status == MUSTER_OK) {
            assert_ptr_equal(after, result.output);
            bed.step++;
            done++;
        } else {
            assert_int_equal(result.status, MUSTER_ERR_CANCELLED);
            assert_ptr_equal(after, before);
        }
        assert_int_equal(muster_executor_describe(bed.coordinator).step,
                         bed.step);
        muster_blob_unref(result.output);
        muster_blob_unref(after);
        muster_blob_unref(before);
    }
    assert_true(done > 0 && done < 6);
    bed_close(&bed);
}

/* --- what is refused ------------------------------------------------------ */

static void refused(testbed *bed, muster_executor *executor, muster_job job,
                    const char *text)
{
    muster_job_result result = bed_run(bed, executor, job);
    assert_true(result.status < 0);
    assert_null(result.output);
    if (strstr(result.text, text) == NULL) {
        fail_msg("'%s' does not say '%s'", result.text, text);
    }
}

static muster_blob *blob_of(const void *bytes, size_t size)
{
    muster_blob *blob = muster_blob_create(size);
    memcpy(blob->data, bytes, size);
    return blob;
}

static void what_does_not_fit_is_refused_with_a_text(void **state)
{
    (void)state;
    const bed_option options[] = {{"data", SYNTHETIC}, {"steps", "5"}};
    testbed bed;
    bed_open(&bed, "frc:s=1", 4, options, COUNT(options));
    muster_executor *worker = bed.workers[0];
    muster_job gradient = {.kind = MUSTER_JOB_GRADIENT, .plan = 7, .step = 2};
    gradient.input = muster_executor_model_blob(bed.coordinator);
    refused(&bed, worker, gradient, "not adopted");
    gradient.plan = 1;
    gradient.input = blob_of("abcd", 4);
    refused(&bed, worker, gradient, "too short");
    refused(&bed, worker,
            (muster_job){.kind = MUSTER_JOB_LOAD,
                         .shard = 0,
                         .input = blob_of("not a shard", 10)},
            "shard");
    muster_job_result part = bed_run_ok(&bed, bed.coordinator,
                                        (muster_job){.kind = MUSTER_JOB_SHARD});
    refused(
        &bed, worker,
        (muster_job){.kind = MUSTER_JOB_LOAD, .shard = 1, .input = part.output},
        "another number");
    bed_run_ok(&bed, worker, (muster_job){.kind = MUSTER_JOB_FORGET});
    gradient.input = muster_executor_model_blob(bed.coordinator);
    refused(&bed, worker, gradient, "shard 0 is not here");
    refused(&bed, worker,
            (muster_job){.kind = MUSTER_JOB_ADOPT, .input = blob_of("x", 1)},
            "not a plan");
    refused(&bed, worker,
            (muster_job){.kind = MUSTER_JOB_SETUP, .input = blob_of("{", 1)},
            "not JSON");
    refused(&bed, worker,
            (muster_job){.kind = MUSTER_JOB_SETUP, .input = blob_of("{}", 2)},
            "shape");
    refused(&bed, worker, (muster_job){.kind = MUSTER_JOB_UPDATE}, "worker's");
    refused(&bed, bed.coordinator, (muster_job){.kind = MUSTER_JOB_GRADIENT},
            "coordinator's");
    refused(&bed, bed.coordinator,
            (muster_job){.kind = MUSTER_JOB_SHARD, .shard = 99}, "99");
    bed_close(&bed);
}

static void a_sum_that_is_not_finite_stops_the_run(void **state)
{
    (void)state;
    const bed_option options[] = {{"data", SYNTHETIC}, {"steps", "5"}};
    testbed bed;
    bed_open(&bed, "frc:s=1", 4, options, COUNT(options));
    bed_step(&bed, NOBODY);
    muster_job job = bed_update_job(&bed, NOBODY);
    for (uint32_t i = 0; i < job.message_count; i++) {
        ((float *)job.messages[i]->data)[3] = 3e38f;
    }
    refused(&bed, bed.coordinator, job, "step 1: the decoded gradient is not");
    job = bed_update_job(&bed, NOBODY);
    job.step = 4;
    refused(&bed, bed.coordinator, job, "step 4");
    bed_step(&bed, NOBODY); // nothing was spoiled
    bed_close(&bed);
}

/* --- plans that follow each other ----------------------------------------- */

static void the_last_plans_serve_while_the_next_are_made_ready(void **state)
{
    (void)state;
    const bed_option options[] = {{"data", SYNTHETIC}, {"steps", "5"}};
    testbed bed;
    bed_open(&bed, "frc:s=1", 4, options, COUNT(options));
    const uint32_t kept = MUSTER_WORKER_PLANS;
    for (uint32_t plan = 2; plan < 2 * kept; plan++) {
        bed_run_ok(&bed, bed.workers[0],
                   (muster_job){.kind = MUSTER_JOB_ADOPT,
                                .plan = plan,
                                .input = bed_terms(&bed, 0)});
        for (uint32_t used = 1; used < 2 * kept; used++) {
            muster_job job = {.kind = MUSTER_JOB_GRADIENT, .plan = used};
            job.input = muster_executor_model_blob(bed.coordinator);
            muster_job_result result = bed_run(&bed, bed.workers[0], job);
            bool is_known = used <= plan && used + kept > plan;
            assert_int_equal(result.status == MUSTER_OK, is_known);
            muster_blob_unref(result.output);
        }
    }
    bed_close(&bed);
}

/* --- memory --------------------------------------------------------------- */

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    const bed_option options[] = {{"data", BINARY},
                                  {"model", "logistic"},
                                  {"batch", "20"},
                                  {"steps", "5"}};
    muster_config *config = bed_config(options, COUNT(options));
    bool is_done = false;
    for (uint64_t count = 0; !is_done; count++) {
        muster_executor *executor = NULL;
        muster_error error = {MUSTER_OK, ""};
        assert_true(count < 1000);
        muster_mem_fail_after(count);
        muster_status status = muster_executor_create_coordinator(
            config, 4, &muster_executor_heap, &error, &executor);
        muster_mem_fail_after(UINT64_MAX);
        is_done = status == MUSTER_OK;
        assert_true(is_done || error.text[0] != '\0');
        muster_executor_free(is_done ? executor : NULL);
    }
    muster_config_free(config);
}

static void a_worker_survives_failed_allocations(void **state)
{
    (void)state;
    const bed_option options[] = {{"data", BINARY},
                                  {"model", "logistic"},
                                  {"batch", "20"},
                                  {"steps", "5"}};
    testbed bed;
    bed_open(&bed, "linear:spc", 3, options, COUNT(options));
    muster_blob *setup = muster_executor_setup_blob(bed.coordinator);
    muster_blob *terms = bed_terms(&bed, 0);
    muster_blob *model = muster_executor_model_blob(bed.coordinator);
    enum { SHARDS = 12 }; // of three workers
    assert_int_equal(bed.shards, SHARDS);
    muster_blob *shards[SHARDS];
    for (uint32_t i = 0; i < SHARDS; i++) {
        shards[i] =
            bed_run_ok(&bed, bed.coordinator,
                       (muster_job){.kind = MUSTER_JOB_SHARD, .shard = i})
                .output;
    }
    bool is_done = false;
    for (uint64_t count = 0; !is_done; count++) {
        muster_executor *worker = NULL;
        assert_true(count < 1000);
        assert_int_equal(
            muster_executor_create_worker(&muster_executor_heap, &worker),
            MUSTER_OK);
        muster_job jobs[SHARDS + 3] = {
            {.kind = MUSTER_JOB_SETUP, .input = setup},
            {.kind = MUSTER_JOB_ADOPT, .input = terms, .plan = 1}};
        for (uint32_t i = 0; i < SHARDS; i++) {
            jobs[2 + i] = (muster_job){
                .kind = MUSTER_JOB_LOAD, .input = shards[i], .shard = i};
        }
        jobs[SHARDS + 2] = (muster_job){
            .kind = MUSTER_JOB_GRADIENT, .input = model, .plan = 1};
        muster_mem_fail_after(count);
        is_done = true;
        for (size_t i = 0; i < COUNT(jobs) && is_done; i++) {
            (void)muster_blob_ref(jobs[i].input);
            muster_job_result result = bed_run(&bed, worker, jobs[i]);
            is_done = result.status == MUSTER_OK;
            assert_true(is_done || result.text[0] != '\0');
            muster_blob_unref(result.output);
        }
        muster_mem_fail_after(UINT64_MAX);
        muster_executor_free(worker);
    }
    for (uint32_t i = 0; i < SHARDS; i++) {
        muster_blob_unref(shards[i]);
    }
    muster_blob_unref(model);
    muster_blob_unref(terms);
    muster_blob_unref(setup);
    bed_close(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_and_size_ends_with_the_same_theta),
        cmocka_unit_test(a_missing_worker_changes_nothing),
        cmocka_unit_test(more_parts_than_samples_still_train),
        cmocka_unit_test(the_loss_of_a_step_is_the_objective_of_its_batch),
        cmocka_unit_test(training_learns_what_can_be_learned),
        cmocka_unit_test(two_classes_have_an_auc_and_others_have_none),
        cmocka_unit_test(a_gradient_cut_off_anywhere_can_be_done_again),
        cmocka_unit_test(a_gradient_is_cut_off_between_tiles),
        cmocka_unit_test(an_update_is_done_whole_or_not_at_all),
        cmocka_unit_test(what_does_not_fit_is_refused_with_a_text),
        cmocka_unit_test(a_sum_that_is_not_finite_stops_the_run),
        cmocka_unit_test(the_last_plans_serve_while_the_next_are_made_ready),
        cmocka_unit_test(every_failed_allocation_is_reported),
        cmocka_unit_test(a_worker_survives_failed_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
